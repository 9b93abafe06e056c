#pragma once
// Room replay/pipelined: the replay of pipelined jobs, and what slow workers cost them.
//
//   worker 0   F0 F1 ...... B0 B1
//   worker 1      F0 F1 B0 B1          a pass starts when its worker is free and its data has come
//
// It may include base, trace, extraction, formats/shared and pipeline.
//
// Pipeline replay: a pipelined job rebuilt from the times of its passes.
//
// From traces that say which stage, replica, micro-batch and chunk each operation belongs to (pipeline timestamps,
// tables of operations): durations are those recorded (what a pass takes, without its waiting), dependencies are
// program order on each worker, sends and receives between stages, and collectives over data-parallel replicas, which
// end together after the last one has come. Waiting is not a task: it has to emerge. The same graph with other
// durations answers what-ifs: no worker slow (every pass takes the median of its kind over workers that do the same),
// no stage slow, one worker healed. Invariant: with the recorded starts as they are, no task starts before what it
// waits for. Not modelled: transfers whose own time was not recorded.
#include <stepcast/base/error.hpp>
#include <stepcast/base/units.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct PipelineStepReplay {
  std::int64_t step = 0;
  Seconds measured, rebuilt;
  Seconds without_slow_workers;  ///< if no worker were slower than the median of those that do the same
  Seconds without_slow_stages;   ///< if every stage took the mean of all stages
  /// All operations of a kind alike: the mean over workers, stages and steps (communication: the median).
  Seconds even;
  Seconds forecast;  ///< from durations of other steps alone
};
/// What one worker or one stage costs the job.
struct Slowness {
  std::int64_t worker = -1;               ///< rank; -1: a whole stage
  std::int64_t stage = -1, replica = -1;  ///< -1: all
  double factor = 1;                      ///< its passes over the median of those of its peers
  double forward = 1, backward = 1;       ///< the same of one kind of pass
  double step_cost = 0;                   ///< (step - step if only it were like its peers) / step, median over steps
};
/// The same passes in another order.
struct ReorderedPipeline {
  std::string_view schedule;  ///< its name in the family pipelines/
  Seconds step;
  bool recorded = false;         ///< the order in which the job ran
  bool backward_halved = false;  ///< its backward passes are split, which was assumed to be in halves
  bool stages_halved = false;    ///< it needs two chunks a stage, which were assumed to be halves
};
struct PipelineReplay {
  std::vector<PipelineStepReplay> steps;
  Seconds measured, rebuilt, forecast;  ///< medians over the steps
  double median_error = 0;  ///< median of |rebuilt / measured - 1|: a step's own passes, the host's lags of other steps
  double forecast_error = 0;  ///< median of |forecast / measured - 1|
  std::int64_t stages = 1, replicas = 1, micro_batches = 1, chunks = 1;
  std::vector<Slowness> workers, stages_slow;  ///< dearest first; only what costs at least 1 %
  double slowdown = 1;                         ///< measured / without_slow_workers, median
  /// rebuilt / even, both without the host's lags, median: the slowdown S of Understanding Stragglers in Large Model
  /// Training Using What-if Analysis (OSDI 2025), eq. 1.
  double unevenness = 1;
  /// From median pass times of every second step, as the pipeline model has it; what the steps do besides is kept.
  std::vector<ReorderedPipeline> schedules;
  Seconds held_out;           ///< median of the steps that `schedules` did not use; 0: none
  double schedule_error = 0;  ///< the recorded schedule against the median of the other steps; 0: none recognised
  std::string cause;          ///< in words: "worker 3 (replica 3, stage 0): its passes take 2.3 x those of its peers"
  std::vector<std::string> notes;

  /// Why not to trust it, in words; empty where the job's steps come back.
  [[nodiscard]] std::string caution() const;
};
/// Of traces that are the passes of a pipelined job (is_pipelined, documents.hpp).
[[nodiscard]] Answer<PipelineReplay> pipeline_replay_of(std::span<const Trace>);

}  // namespace stepcast
