#pragma once
// Keyed plan: one message per tensor ("key") over parameter servers with the edges of MXNet's `dist_sync` store, and
// what ASGD, SSP, OD-SGD, SSD-SGD, CD-SGD and Bit-SGD change of them.
//
//   G_i(l) -> copy_i(l) -> push_i(l) -> sum -> pull_i(l)             one host buffer a key: pull_i(l) -> copy_{i+1}(l)
//                  \-> local update LU_i(l) -> F_{i+1}(l)            instead of pull_i(l) -> F_{i+1}(l)
//
// The copy to the host is the reduction over the devices of a machine; with one device it takes no time of its own,
// unless the cluster says how fast such copies are (Cluster::server_staging_rate).
// It stays a step where a push frees the buffer (pulls_last_only), because the same moment lets a pull go: what is
// copied into the buffer first is pushed after that. The local update and the quantiser work on arrays in host memory
// (`comm_buf_copy` and `comm_buf_` live in the pinned context), so they are codecs of a processor beside the training
// thread, first come, first served. Channels serve the layer nearest the input first and never pre-empt. The global
// update runs on the servers: the profile's optimizer is not on the worker, and what it costs them is part of
// Cluster::server_sum_rate, if given. Invariant: a forward pass waits for the keys of its own layer only. Not modelled:
// keys that clump on one server (they are spread evenly here, where wfbp_ps hashes them as BytePS does);
// several processors.
#include <stepcast/strategies/shared/plan_writing.hpp>

namespace stepcast {

struct KeyedExchange {
  enum class Push : std::uint8_t {
    dense,
    quantised,  ///< two bits an element
    corrected,  ///< dense in the first iteration of a repetition, two bits in the others
  };
  std::uint32_t period = 1;
  bool local_update = false;     ///< the next forward pass waits for the worker's own update instead of the pull
  bool pulls_last_only = false;  ///< workers pull in the last iteration of a repetition only
  /// Iterations by which a pull may be late: pull_i(l) -> F_{i+1+late}(l), from the worker's cache until then.
  std::uint32_t late = 0;
  Push push = Push::dense;
  BytesPerSecond memory{};   ///< the rate of the host, which bounds updates and quantisers
  double update_passes = 0;  ///< reads and writes of the gradient's size that a local update makes
};

/// The most of `late` that is written down. With messages of four steps under way the busiest of compute, servers and
/// the two directions of a card sets the pace; more would help only where the links inside machines are as busy as
/// they.
inline constexpr std::uint32_t most_late = 3;

[[nodiscard]] Answer<CommPlan> keyed_over_servers(const StrategyInput&, const KeyedExchange&);

/// Bytes of a tensor's gradient in MXNet's two-bit form: 16 elements in a word of 32 bits.
[[nodiscard]] Bytes two_bit_size(const Tensor&);

// Options that the strategies share.
inline constexpr OptionSpec host_memory_option{
    .name = "memory",
    .kind = OptionKind::number,
    .standard = 50e9,
    .low = 1e6,
    .high = 1e15,
    .summary = "bytes per second of the host's memory, for work on its arrays (one server socket; unverified)"};
inline constexpr OptionSpec update_passes_option{
    .name = "passes",
    .kind = OptionKind::count,
    .standard = 6,
    .low = 0,
    .high = 100,
    .summary = "reads and writes of the gradient's size by the local update; 0: it is free"};
[[nodiscard]] constexpr OptionSpec warm_up_option(double standard) {
  return {.name = "warmup",
          .kind = OptionKind::count,
          .standard = standard,
          .low = 0,
          .high = 1e9,
          .summary = "synchronous iterations at the start of a run; the step after them is predicted"};
}
[[nodiscard]] constexpr OptionSpec period_option(double standard, std::string_view summary) {
  return {.name = "period", .kind = OptionKind::count, .standard = standard, .low = 1, .high = 64, .summary = summary};
}

}  // namespace stepcast
