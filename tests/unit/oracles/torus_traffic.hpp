#pragma once
// Torus traffic: collectives message by message on machines in a torus or mesh, with the bytes on every directed link
// counted. Oracle for the forms of collectives on a torus, of which it shares no line.
//
// A message takes the shortest way along the first dimension, then along the next, and half of it goes each way where
// both are equally long. A phase is over when its fullest link is. Not covered: pipelining, waits for single messages.
#include <cstdint>
#include <vector>

namespace stepcast::test {

struct TorusDimension {
  std::int64_t units;
  bool closed;
};
using Torus = std::vector<TorusDimension>;

struct TorusMessage {
  std::int64_t from, to;
  double bytes;
  int way = 0;  ///< 1 and -1: that way around, 0: the shortest
};
using TorusPhase = std::vector<TorusMessage>;

[[nodiscard]] std::int64_t units_of(const Torus&);
/// Bytes on the fullest link, and on all together.
struct LinkLoad {
  double fullest = 0, total = 0;
};
[[nodiscard]] LinkLoad load_of(const Torus&, const TorusPhase&);
/// The most links that a message passes.
[[nodiscard]] std::int64_t longest_way(const Torus&, const TorusPhase&);

/// A reduce-scatter of m bytes around all units in the order of their numbers, as one phase (its steps load alike).
[[nodiscard]] TorusPhase ring_half(const Torus&, double m);
/// A reduce-scatter by parts that go along all dimensions at once, each in its own order, both ways around where a
/// dimension is closed and longer than two: phase by phase.
[[nodiscard]] std::vector<TorusPhase> bucket_half(const Torus&, double m);
/// Everybody's m / P to everybody.
[[nodiscard]] TorusPhase all_to_all(const Torus&, double m);

}  // namespace stepcast::test
