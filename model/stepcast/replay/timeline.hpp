#pragma once
// Replay timeline: the calibration step as measured and as rebuilt, row beside row.
//
// A row is a host thread, a thread of a communication library or a device stream. Example: the step of a ResNet-50 on
// one GPU has a row for the main thread, one for the backward thread and one for the stream, each twice.
#include <stepcast/replay/replay.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// A stretch of one row of a timeline; times from the start of the step.
struct ReplaySlice {
  std::uint32_t row = 0;
  TaskKind kind = TaskKind::host;
  std::string name;
  Picoseconds start = 0, duration = 0;
};
/// The calibration step as measured, operators with all their parts, and as rebuilt, one slice a task. A row is a host
/// thread, a thread of a communication library or a device stream; slices of a row nest.
struct ReplayTimeline {
  std::string source;
  Step step;
  Seconds period;  ///< the duration of the rebuilt step
  std::vector<std::string> rows;
  std::vector<ReplaySlice> measured, rebuilt;
  std::string rebuilt_as = "rebuilt";  ///< what the second one is, for people: "with ddp(bucket=25 MiB)"
};
[[nodiscard]] Answer<ReplayTimeline> replay_timeline_of(const Trace&);

namespace replaying {
struct Calibration;  // calibration.hpp
struct StepGraph;    // graph.hpp
/// "thread 7", "stream 20", "thread gloo": a track as timelines name it.
[[nodiscard]] std::string row_name(const Trace&, std::uint32_t track);
/// The calibration step as measured, and as `rebuilt` has it: from its tasks, or from these after a change. `names` are
/// those of tasks that no event of the trace names.
[[nodiscard]] ReplayTimeline timeline_of(const Trace&, const Calibration&, const StepGraph& rebuilt,
                                         const std::map<std::uint32_t, std::string>& names = {});
}  // namespace replaying

}  // namespace stepcast
