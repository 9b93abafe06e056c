#pragma once
// Room replay/edits: what-ifs on the tasks of a replayed step.
//
//   trace -> tasks of one step -> scale(name=*gemm*, by=0.5) -> scheduled again: 176.7 ms, was 201.3 ms
//
// It may include base, profile, trace, anatomy, schedule and replay.
//
// Edits as text are read and written in text.cpp.
//
// Task edit: one of Daydream's primitives (Zhu, Phanishayee, Pekhimenko, ATC 2020) on the graph that a replay rebuilds
// from a trace (replay.hpp): scale, remove or insert tasks of host threads, streams and collectives, selected by name,
// kind, row, phase and layer. Everything else of the step stays, gaps and launches among them, so that a kernel that
// gets faster helps as far as nothing else is waited for. Written as
//
//   scale(name=*gemm*|*conv*, by=0.5)+remove(kind=device, phase=after)+insert(layer=3, phase=backward, takes=50 us)
//
// and one of our own: `network(by=2)` gives all recorded collectives, whatever they are for, twice the bandwidth. What
// they wait for late ranks and their start-up stay (recorded_transfers.hpp).
//
// Invariants: edits are made in their order; scale by 1 changes nothing; what matches no task is refused, not ignored.
// Not modelled: the launch of a kernel that is inserted, and that of one that is removed stays; what the edit does to
// other steps.
#include <stepcast/replay/timeline.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// Which tasks; all of what is said has to hold.
struct TaskSelection {
  /// Kinds of tasks: operators of host threads, kernels and copies of streams, collectives on threads of their own;
  /// and, only where they are asked for, recorded gaps of the host, launch latencies, and turn-arounds of streams.
  enum class Kind : std::uint8_t { host, device, transfer, gap, latency, turn_around };
  enum class When : std::uint8_t { before, forward, backward, after };  ///< of the step's passes
  std::string name;  ///< patterns, "*gemm*|*conv*", of a kernel, an operator or the outermost operator around it
  std::string row;   ///< patterns of "thread 0", "stream 1"
  std::optional<Kind> kind;
  std::optional<When> phase;
  std::optional<std::uint32_t> first_layer, last_layer;  ///< in forward order, from 0
  bool operator==(const TaskSelection&) const = default;
};
struct TaskEdit {
  enum class Primitive : std::uint8_t { scale, remove, insert, network };
  Primitive primitive = Primitive::scale;
  TaskSelection selection;
  double by = 1;  ///< scale: factor on the work; network: on the bandwidth
  Seconds takes;  ///< insert: behind each selected task, on its row
  bool operator==(const TaskEdit&) const = default;
};
/// Throws InputError with column and suggestion.
[[nodiscard]] std::vector<TaskEdit> task_edits_of(std::string_view text);
/// Reads back to the same edit.
[[nodiscard]] std::string text_of(const TaskEdit&);

/// What one edit did.
struct AppliedEdit {
  TaskEdit edit;
  std::size_t tasks = 0;            ///< selected
  Seconds work_before, work_after;  ///< of these tasks, with what was inserted behind them
};
struct EditedReplay {
  std::string source;
  std::int64_t step = -1;  ///< the calibration step
  Seconds recorded;        ///< its duration in the trace; 0: not told
  Seconds rebuilt;         ///< from its tasks
  Seconds edited;          ///< the same after the edits
  std::vector<AppliedEdit> edits;
};
/// Inapplicable when the trace cannot be replayed, or an edit matches nothing.
[[nodiscard]] Answer<EditedReplay> replay_after(const Trace&, std::span<const TaskEdit>);
/// The recorded step beside the edited one.
[[nodiscard]] Answer<ReplayTimeline> replay_timeline_after(const Trace&, std::span<const TaskEdit>);

}  // namespace stepcast
