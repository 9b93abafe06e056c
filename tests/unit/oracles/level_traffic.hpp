#pragma once
// Level traffic: collectives message by message on a network of several levels, with the bytes on every link counted.
// Oracle for the forms of collectives and for process groups on levels, of which it shares no line.
//
// Messages of one round start together and the next round waits for all of them, so that a round takes the largest
// latency of the levels that it crosses, and the time of its fullest link. Not covered: pipelining.
#include <stepcast/cluster/cluster.hpp>

#include <cstdint>
#include <vector>

namespace stepcast::test {

struct LevelMessage {
  std::int64_t from, to;
  double bytes;
};
using Round = std::vector<LevelMessage>;
using Rounds = std::vector<Round>;

/// Bytes that leave a device within its machine, a machine, a unit of the first level, ..., each by its number.
struct LinkBytes {
  std::vector<std::vector<double>> of;
};
LinkBytes bytes_on_links(const Cluster&, const Round&);
/// Seconds of the fullest link.
double time_of_bytes(const Cluster&, const LinkBytes&);
double time_of(const Cluster&, const Rounds&);

/// All-reduce around a ring of these ranks, of m bytes; several rings in step are `together`.
Rounds ring_all_reduce(const std::vector<std::int64_t>& ranks, double m);
/// A ring for each factor, innermost first (BlueConnect), over ranks 0 to P - 1.
Rounds factored_all_reduce(const std::vector<std::int64_t>& factors, double m);
/// Every rank with rank XOR s, for s = 1 to P - 1, or for powers of two alone.
Rounds pairwise_all_to_all(std::int64_t ranks, double m);
Rounds doubling_all_reduce(std::int64_t ranks, double m);
Rounds together(const std::vector<Rounds>&);
/// All messages of NCCL's two trees over machines, up and down, as one round; a machine is its first device.
Round tree_all_reduce(std::int64_t machines, std::int64_t per_node, double m);

}  // namespace stepcast::test
