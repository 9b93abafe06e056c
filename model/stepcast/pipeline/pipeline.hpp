#pragma once
// Room pipeline: micro-batches through stages: orders of passes, and how long they take.
//
//   stage 0   F0 F1 F2 F3          B0 B1 B2 B3
//   stage 1      F0 F1 F2 F3 B0 B1 B2 B3            gpipe, four micro-batches
//
// It may include base and schedule.
//
// Pipeline: the order in which each stage works on micro-batches, and how long that takes.
//
// A schedule is a record in the open family pipelines/ (pipelines.inc): GPipe, 1F1B, interleaved 1F1B, zero-bubble
// (ZB-H1, ZB-V), bidirectional (Chimera). It says in which order each device runs its passes. From that order and the
// times of the chunks follows everything else: the task graph (forward of a chunk waits for the transfer from the one
// before, backward for the transfer from the one after and for its own forward), its step time, the bubble, and how
// many micro-batches are held at a time. Textbook formulas are the laws that test it, not what it computes. Invariants:
// every pass of every micro-batch and chunk occurs once; the order has no deadlock. Not modelled: stages that wait for
// one another's memory; one card for what goes to both neighbours at the same time; that passes beside each
// other end together, so that the result of the first leaves no sooner than that of the second.
//
// pipeline.cpp evaluates orders, lower.cpp makes task graphs of them.
#include <stepcast/base/error.hpp>
#include <stepcast/base/units.hpp>
#include <stepcast/schedule/task_graph.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

enum class PipelinePass : std::uint8_t {
  forward,
  backward,         ///< input and weight gradient together
  input_gradient,   ///< split backward: what the stage before waits for
  weight_gradient,  ///< split backward: fills gaps
};
/// One pass over one micro-batch through one chunk; chunk c of device d is virtual stage `PipelineSchedule::place`.
struct PipelineSlot {
  PipelinePass pass = PipelinePass::forward;
  std::uint32_t chunk = 0;
  std::uint32_t micro_batch = 0;
  bool operator==(const PipelineSlot&) const = default;
};
struct PipelineShape {
  std::uint32_t stages = 1;         ///< devices in a row
  std::uint32_t chunks = 1;         ///< chunks that each of them holds, those of all copies of the model
  std::uint32_t micro_batches = 1;  ///< how many all copies of the model work on together
  bool operator==(const PipelineShape&) const = default;
};
/// Times of one virtual stage for one micro-batch.
struct ChunkTimes {
  Seconds forward, input_gradient, weight_gradient;  ///< recomputation is part of `input_gradient`
  Seconds send_forward;                              ///< activations to the next virtual stage; 0 where there is none
  Seconds send_backward;                             ///< their gradients to the one before
  /// By which a whole backward pass and the forward pass that follows it on its device are shorter than alone, since
  /// what one of them sends runs beside what the other one computes.
  Seconds beside_forward, beside_backward;
};

/// What a textbook says of even stages without transfers; the times asked for are those of a whole stage. Times are NaN
/// where it says nothing (bidirectional, for some numbers of micro-batches).
struct TextbookPipeline {
  Seconds iteration, bubble;  ///< per device
  double kept = 0;            ///< micro-batches (of a whole stage's activations) that the first device holds at most
};

struct PipelineSchedule {
  std::string_view name;  ///< "gpipe", "1f1b", "interleaved", "zb_h1", "zb_v", "bidirectional"
  std::string_view title, summary, reference;
  /// Empty, or why it does not work for these numbers (all at least 1).
  std::string (*unsuitable)(const PipelineShape&);
  /// The passes of one device in the order in which it runs them.
  std::vector<PipelineSlot> (*order)(const PipelineShape&, std::uint32_t stage);
  /// Chunk of the model (virtual stage, 0 first) that `chunk` of `stage` is.
  std::uint32_t (*place)(const PipelineShape&, std::uint32_t stage, std::uint32_t chunk);
  /// Copies of the model that run at once, each with a share of the micro-batches (bidirectional: 2, else 1).
  std::uint32_t copies = 1;
  TextbookPipeline (*textbook)(const PipelineShape&, Seconds forward, Seconds input_gradient, Seconds weight_gradient);
};

[[nodiscard]] std::span<const PipelineSchedule> pipeline_schedules();
[[nodiscard]] const PipelineSchedule* pipeline_schedule(std::string_view name);
/// A small pipeline of two devices that the schedule works for.
[[nodiscard]] PipelineShape small_shape(const PipelineSchedule&);
/// Whether weight gradients are passes of their own, as the order of a small pipeline tells.
[[nodiscard]] bool delays_weight_gradients(const PipelineSchedule&);
/// Whether forward passes follow whole backward passes on some device of a small pipeline, so that both can run beside
/// each other.
[[nodiscard]] bool pairs_passes(const PipelineSchedule&);
/// Micro-batches that interleaving takes through one chunk of a device before the next: the least number from `stages`
/// on that divides them, or leaves a rest of at least `stages`; 0 where there are fewer micro-batches than stages. A
/// smaller group stalls the pipeline, a larger one holds more activations.
[[nodiscard]] std::uint32_t interleaved_group(std::uint32_t stages, std::uint32_t micro_batches);
/// Chunks that each device holds: those of one copy of the model, for all its copies.
[[nodiscard]] inline PipelineShape pipeline_shape(const PipelineSchedule& schedule, std::uint32_t stages,
                                                  std::uint32_t chunks_of_a_copy, std::uint32_t micro_batches) {
  return {stages, chunks_of_a_copy * schedule.copies, micro_batches};
}

/// The times of a pipelined step, on an unloaded cluster.
struct PipelineTimes {
  Seconds iteration;                   ///< from the first forward to the last end of any device
  std::vector<Seconds> first_start;    ///< when each device starts its first pass
  std::vector<Seconds> last_backward;  ///< end of its last pass: its gradients are complete
  std::vector<Seconds> busy;           ///< compute
  std::vector<Seconds> saved;          ///< by which its passes beside others are shorter (ChunkTimes::beside_forward)
  std::vector<double> kept;            ///< largest number of micro-batches held, in chunks, of each device
};
/// Evaluates orders made once per (schedule, shape) again and again for other times, without allocation: the hot path
/// of the search.
class PipelineEvaluator {
 public:
  /// Inapplicable when the schedule is unsuitable for the shape.
  [[nodiscard]] static Answer<PipelineEvaluator> of(const PipelineSchedule&, const PipelineShape&);
  /// `chunk`: one entry a virtual stage (stages x chunks / copies). `overlap`: transfers run beside compute, else the
  /// sender waits. The result is valid until the next call.
  const PipelineTimes& operator()(std::span<const ChunkTimes> chunk, bool overlap);
  [[nodiscard]] const PipelineShape& shape() const { return shape_; }
  /// Largest number of chunk activations that `stage` holds at a time; independent of times.
  [[nodiscard]] double kept(std::uint32_t stage) const { return times_.kept[stage]; }

 private:
  struct Entry {           ///< one pass, in an order that respects all dependencies
    std::uint32_t input;   ///< place in arrival_ of what it waits for; 0: nothing
    std::uint32_t output;  ///< place in state_ of the link that takes its result
    std::uint32_t cost;    ///< place in cost_
  };
  struct PassCost {
    double time = 0, send = 0;
  };
  /// How often a device does a pass.
  struct Work {
    std::uint32_t device, cost, count;
  };
  class Builder;
  PipelineEvaluator() = default;
  template <bool overlap>
  void run();

  PipelineShape shape_;
  std::uint32_t virtual_stages_ = 1;
  std::vector<Entry> entries_;
  std::vector<PassCost> cost_;   ///< one for each pass of each virtual stage, then those beside another pass
  std::vector<bool> sent_;       ///< whether the result of such a pass goes to another device
  std::vector<double> state_;    ///< until when each is busy; four a device: links (next, before), none, compute
  std::vector<double> arrival_;  ///< when each result is where it goes, after a 0
  std::vector<std::uint32_t> first_, last_;  ///< entry of each device
  std::vector<Work> work_;
  PipelineTimes times_;
};

/// The same as a task graph for the scheduler: one compute resource a device, one link a direction between neighbours,
/// which serves the sends one by one. The next step waits for the end of this one.
[[nodiscard]] Answer<TaskGraph> lowered(const PipelineSchedule&, const PipelineShape&, std::span<const ChunkTimes>,
                                        bool overlap);
/// What a task of that graph does.
struct PipelineTask {
  PipelineSlot slot;
  std::uint32_t virtual_stage = 0;
  std::uint32_t from = 0, to = 0;  ///< devices; the same except for transfers
  bool transfer = false;           ///< the send of what `slot` made
  bool end = false;                ///< nothing but the end of the step
};
[[nodiscard]] PipelineTask pipeline_task(const TaskGraph&, const PipelineShape&, std::uint32_t task);
/// "F3 chunk 1", "send F3": its name; micro-batches and chunks count from 0.
[[nodiscard]] std::string pipeline_task_name(const TaskGraph&, const PipelineShape&, std::uint32_t task);

}  // namespace stepcast
