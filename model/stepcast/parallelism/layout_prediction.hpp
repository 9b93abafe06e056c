#pragma once
// Room parallelism: what a layout costs in time and memory.
//
//   workload, layout, cluster -> priced split -> stages -> pipeline + gradients -> step and memory
//
// It may include base, cluster, schedule, pipeline, layout, workload and prediction.
//
// Layout prediction: the step time and the memory of one layout of one workload on one cluster.
//
// The units are dealt to stages (balanced by time unless the layout says how), each stage's passes take its units'
// compute plus the tensor, context and expert collectives on their critical path, the pipeline schedule turns stage
// times into a step (pipeline.hpp), and the gradients of each stage travel in its data-parallel group by the plan's
// strategy: that is the existing prediction (prediction.hpp) of a profile made of the stage's last micro-batch, on the
// group's cluster; what it exposes is added to the end of that stage's last backward pass. ZeRO adds its gathers. The
// step ends when the last stage's gradients and update do. The parts of the breakdown sum to the step, said of the
// device that ends last. Not modelled: compute that is slowed by pipeline sends; jitter between stages.
#include <stepcast/layout/process_group.hpp>
#include <stepcast/parallelism/layout_memory.hpp>
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/workload/workload.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct LayoutBreakdown {
  Seconds compute;  ///< forward and backward passes
  Seconds recomputation;
  Seconds tensor, context, expert;  ///< collectives on the critical path
  Seconds pipeline;                 ///< sends that compute waits for
  Seconds bubble;
  Seconds gradients;  ///< exposed, with ZeRO's gathers
  Seconds update;
  Seconds other;  ///< what every step takes besides
};

struct StageSummary {
  std::uint32_t first_unit = 0, units = 0;
  Seconds forward, backward;  ///< the passes of one micro-batch, collectives included
  Seconds last_backward, end;
  MemoryUse memory;
};

struct LayoutPrediction {
  LayoutPlan plan;  ///< resolved
  Seconds iteration, interval_low, interval_high;
  LayoutBreakdown breakdown;
  MemoryUse memory;                  ///< the memory of the fullest stage
  std::vector<StageSummary> stages;  ///< the first chunk's numbering; one an entry of a device in the pipeline
  std::int64_t devices = 1, micro_batches = 1;
  double throughput_samples_per_s = 0;
  double model_flops_utilization = 0;  ///< 0 when operations or the device's peak are unknown
  std::string bound;                   ///< "compute", "pipeline bubble", "tensor collectives between machines", ...
  std::vector<std::string> assumed, warnings;
};

struct LayoutOptions {
  double global_batch = 0;  ///< samples; 0: traced batch x devices
  MemoryOptions memory{};
  Bytes memory_cap;  ///< 0: the cluster's device memory; that unknown too: no cap
};

/// What a workload and a cluster cost, made once and asked for each layout: tables of unit costs by split, group
/// clusters, pipelines by shape and exposed gradients, filled when first needed. Not thread-safe: one a thread.
class LayoutEvaluator {
 public:
  LayoutEvaluator(const Workload&, const Cluster&, const LayoutOptions& = {});
  ~LayoutEvaluator();
  LayoutEvaluator(LayoutEvaluator&&) noexcept;
  /// Inapplicable with the reason, memory that does not fit (with the number) among them.
  [[nodiscard]] Answer<LayoutPrediction> predicted(const LayoutPlan&);
  /// Only time and memory: the hot path of searches. Memory over the cap is the caller's business.
  struct Quick {
    Seconds iteration;
    Bytes memory;
  };
  [[nodiscard]] Answer<Quick> quick(const LayoutPlan&);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] Answer<LayoutPrediction> predicted(const Workload&, const Cluster&, const LayoutPlan&,
                                                 const LayoutOptions& = {});
/// The pipeline's task graph and timeline, for reports; tasks in the order of `pipeline_task_name`.
struct LayoutTimeline {
  TaskGraph graph;
  Timeline timeline;
  PipelineShape shape;
  Layout layout;
};
[[nodiscard]] Answer<LayoutTimeline> layout_timeline(const Workload&, const Cluster&, const LayoutPlan&,
                                                     const LayoutOptions& = {});

}  // namespace stepcast
