#pragma once
// Benchmark logs: what nccl-tests, OSU's benchmarks, ib_write_bw, IMB-MPI1 and gloo's print and CSV tables, as measured
// collectives.
//
// Example: the line "  1048576  262144  float  sum  -1  210.5  4.98  9.34  0" of an all_reduce_perf log is 1 MiB in
// 210.5 us. Every table keeps its source for `provenance`. Not modelled: in-place times.
#include <stepcast/cluster/collective.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// All tables of an nccl-tests or rccl-tests log (out-of-place times; lines may carry the prefixes of launchers and
/// have messages between them), one a table, with ranks, hosts and devices of a process where the log lists them. Also
/// of OSU's benchmarks (all-reduce, reduce-scatter, broadcast; all-gather and all-to-all among `workers`, as their
/// sizes are one rank's part; latency and bandwidth as `send` between two machines) and of ib_write_bw, of whose rates
/// those count that reach half of the largest; they tell no ranks (0 workers). And of IMB-MPI1 (its means; all-reduce,
/// reduce-scatter, broadcast, all-gather, all-to-all, ping-pong; its other tests are left out) and gloo's benchmark
/// (its medians; elements are of 4 bytes). `assumed`: the operation of a log that names no test. Throws InputError when
/// there is no table, naming the line of a bad one, and for parts of an unknown number of workers.
[[nodiscard]] std::vector<MeasuredCollective> collectives_of_nccl_tests(std::string_view text, std::string_view source,
                                                                        std::string_view assumed = {},
                                                                        std::int64_t workers = 0);
/// What the benchmark multiplies bytes over time by to print bus bandwidth, which compares with the rate of a link at
/// any count: 2(P-1)/P of an all-reduce, (P-1)/P where each worker keeps its own part, 1 else (nccl-tests,
/// doc/PERFORMANCE.md).
[[nodiscard]] double bus_factor_of(Operation, std::int64_t workers);
/// Whether a table, of those above, was measured by a benchmark of the link itself (ib_write_bw; MPI between two ranks)
/// rather than by a library whose exchange of two devices reaches a share of it.
[[nodiscard]] bool measures_the_link(const MeasuredCollective&);
/// CSV with the columns size/bytes and time (unit in the header: time_s, ms_median, time_us, ...), and optionally op,
/// world/workers, nodes. Throws InputError naming line and column.
[[nodiscard]] std::vector<MeasuredCollective> collectives_of_csv(std::string_view text, std::string_view source);

}  // namespace stepcast
