#pragma once
// The host side of a replay: every thread of one step as a row of spans, what ran innermost or nothing, and the
// collectives that ran on the host (internal to the replay).
#include <stepcast/replay/device.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stepcast::replaying {

/// A stretch of host time of one thread in which the innermost running event does not change.
struct HostSpan {
  std::int64_t begin = 0, end = 0;
  std::uint32_t event = no_index;      ///< innermost operator or runtime call; none: a gap
  std::uint32_t outermost = no_index;  ///< the operator around it that has none around itself
  bool quiet = false;                  ///< nothing runs, or an operator between two of its parts: the thread may wait
};
struct HostThread {
  std::uint32_t track = 0;
  std::vector<std::uint32_t> events;  ///< operators and runtime calls that start within the step
  std::vector<HostSpan> spans;        ///< without holes from the step's start to its end
};
/// The threads that the step depends on: first the one that carries the step marks, then those that run operators or
/// launch device work. Threads that only poll (watchdogs) are left out, and so are those of a communication library:
/// the operators with which it gathers and scatters are part of its collectives.
[[nodiscard]] std::vector<HostThread> host_threads_of(const TraceLinks&, const Step&, const DeviceSide&);

/// Collectives that worker threads of the communication library ran (gloo), in order of start.
[[nodiscard]] std::vector<std::uint32_t> host_collectives_of(const TraceLinks&, const Step&,
                                                             std::span<const HostThread> threads);

/// The operators that issue collectives, in order: the library's queue is first in, first out.
struct CollectiveIssue {
  std::size_t thread = 0;
  std::uint32_t event = no_index;
};
[[nodiscard]] std::vector<CollectiveIssue> collective_issues_of(const Trace&, std::span<const HostThread> threads);

/// A thread stood still from `from` until collective number `collective` had ended.
struct CollectiveWait {
  std::size_t thread = 0, collective = 0;
  std::int64_t from = 0, until = 0;
};
/// A quiet span that ends when a collective ends was spent waiting for it.
[[nodiscard]] std::vector<CollectiveWait> collective_waits_of(const Trace&, std::span<const HostThread> threads,
                                                              std::span<const std::uint32_t> collectives);

/// A run of activity of a thread. It fills a quiet span of the main thread (its number), or runs beside it (-1).
struct Burst {
  std::int64_t begin = 0, end = 0;
  std::ptrdiff_t quiet = -1;
  std::uint32_t first = no_index;  ///< event
};
[[nodiscard]] std::vector<Burst> bursts_of(const HostThread& main, const HostThread& thread);

}  // namespace stepcast::replaying
