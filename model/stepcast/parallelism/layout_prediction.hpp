#pragma once
// Room parallelism: what a layout costs in time and memory.
//
//   workload, layout, cluster -> priced split -> stages -> pipeline + gradients -> step and memory
//
// It may include base, profile, roofline, cluster, plan, schedule, pipeline, layout, workload, prediction and pace.
//
// Layout prediction: the step time and the memory of one layout of one workload on one cluster.
//
// The units are dealt to stages (as programs with such kernels do, as told, or by time; stage_division.hpp), each
// stage's passes take its units' compute plus the tensor, context and expert collectives on their critical path, the
// pipeline schedule turns stage times into a step (pipeline.hpp), and the gradients of each stage travel in its
// data-parallel group by the plan's strategy: that is the existing prediction (prediction.hpp) of a profile made of the
// stage's last micro-batch, on the group's cluster; what it exposes is added to the end of that stage's last backward
// pass. ZeRO adds its gathers. The step ends when the last stage's gradients and update do. It takes no less than the
// input pipeline of a machine takes for the samples of the replicas that it feeds; the first device of a replica loads
// for all of them. The parts of the breakdown sum to the step, said of the device that has most to do. Not modelled:
// compute that is slowed by pipeline sends; jitter between stages.
#include <stepcast/layout/process_group.hpp>
#include <stepcast/parallelism/layout_memory.hpp>
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/workload/workload.hpp>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

// What each field of a result is stands in its list at the end.

struct LayoutBreakdown {
  Seconds compute, recomputation, tensor, context, expert, pipeline, bubble, gradients, copies, update, input, other;
  /// `copies` in words: autocast casts, fully_shard also copies in and out of what it gathers and scatters; activations
  /// go to the host and back.
  [[nodiscard]] static constexpr std::string_view copies_in_words(const Layout& l) {
    return l.offloads(Offloaded::activations) ? "casts and copies, activations to the host and back"
                                              : "casts and copies of weights and gradients";
  }
  [[nodiscard]] static constexpr std::string_view gradients_in_words(const Layout& l) {
    return l.offloads(Offloaded::parameters) ? "exposed gradients, parameters from the host and to it"
                                             : "exposed gradients";
  }
  /// What a device does and what it waits for messages: with `bubble` and `input` they sum to the step.
  [[nodiscard]] Seconds computing() const { return compute + recomputation + copies + update + other; }
  [[nodiscard]] Seconds exposed() const { return tensor + context + expert + pipeline + gradients; }
};

struct StageSummary {
  std::uint32_t first_unit = 0, units = 0;
  Seconds forward, backward, last_backward, end;
  MemoryUse memory;
};

/// What is said of a layout among stragglers.
inline constexpr std::string_view stragglers_of_layouts =
    "every stage is taken to be as slow as the slowest worker; jitter is left out of layouts";

struct LayoutPrediction {
  LayoutPlan plan;
  Seconds iteration, interval_low, interval_high;
  LayoutBreakdown breakdown;
  MemoryUse memory;
  Bytes host_memory;
  std::vector<StageSummary> stages;
  std::vector<std::uint32_t> stage_units{};
  std::int64_t devices = 1, micro_batches = 1;
  double throughput_samples_per_s = 0;
  double model_flops_utilization = 0;
  std::string bound;
  std::vector<std::string> assumed, warnings;
  std::optional<InputDiagnosis> input{};  ///< where an input pipeline feeds the step
  std::optional<TrainingRun> run{};       ///< where somebody asked for so many iterations
};

/// Relative rms errors of traced jobs that are divided as they were not when they were traced; part of every such
/// interval. Sharded state: over the rows of suite lab_matrix (validation/) that calibrate, from traces of one worker;
/// a test recomputes it. A divided model (tensor, context, pipeline, expert): nobody measured enough of them to tell,
/// so that it is as for a device by its data sheet, a third either way at 80 %.
inline constexpr double residual_of_sharding = 0.089, residual_of_division = 0.25;

/// How far the rate at which hosts update parameters lies about the usual one at 80 %, either way, where the cluster
/// does not say (Host::updates): 1.28 standard deviations of the logarithms of the same ten.
inline constexpr double host_rate_spread = 3.3;

struct LayoutOptions {
  double global_batch = 0;  ///< samples; 0: traced batch x devices
  MemoryOptions memory{};
  Bytes memory_cap;  ///< 0: the cluster's device memory; that unknown too: no cap
};
/// The share of a device's memory up to which a job is planned where nobody says more: what the allocator leaves
/// between blocks, the libraries' own buffers and the driver's context take differs from job to job. Of public runs
/// those that filled more were 7.6 % off in time. Of BLOOM's four candidates that ran out of memory three are predicted
/// above the card, and one, for which its authors give no figure, at 0.59 of it: above `tight_memory_share` nothing is
/// sure, and below it not everything.
inline constexpr double planned_memory_share = 0.90;
inline constexpr double tight_memory_share = 0.85;
/// The most that is proposed where nothing fits in what is planned with: a judgement, not a measurement.
inline constexpr double most_memory_share = 0.95;
/// 0: none.
[[nodiscard]] Bytes memory_cap_of(const LayoutOptions&, const Cluster&);

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
    std::int64_t micro_batch = 0;  ///< samples: the plan's, or what was taken where it says none
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

namespace stepcast {

template <>
inline constexpr auto result_fields<LayoutBreakdown> = std::tuple{
    ResultField{"compute_s", &LayoutBreakdown::compute, "forward and backward passes"},
    ResultField{"recomputation_s", &LayoutBreakdown::recomputation, "of activations that were not kept"},
    ResultField{"tensor_s", &LayoutBreakdown::tensor, "tensor-parallel collectives on the critical path"},
    ResultField{"context_s", &LayoutBreakdown::context, "context-parallel sends on the critical path"},
    ResultField{"expert_s", &LayoutBreakdown::expert, "all-to-alls of experts on the critical path"},
    ResultField{"pipeline_s", &LayoutBreakdown::pipeline, "sends between stages that compute waits for"},
    ResultField{"bubble_s", &LayoutBreakdown::bubble, "stages without work"},
    ResultField{"gradients_s", &LayoutBreakdown::gradients, "their exposed communication, with ZeRO's gathers"},
    ResultField{
        "copies_s", &LayoutBreakdown::copies,
        "of a trace: of gradients into buckets and out of them; of what ZeRO gathers and scatters, by a host that "
        "computes; with PyTorch's kernels also casts of weights; what copies of offloaded activations take longer than "
        "the passes beside them"},
    ResultField{"update_s", &LayoutBreakdown::update, "of the parameters"},
    ResultField{"input_s", &LayoutBreakdown::input, "waiting for the samples"},
    ResultField{"other_s", &LayoutBreakdown::other, "what every step has besides"}};

template <>
inline constexpr auto result_fields<StageSummary> =
    std::tuple{ResultField{"first_unit", &StageSummary::first_unit, "of the model, from 0"},
               ResultField{"units", &StageSummary::units, "how many"},
               ResultField{"forward_s", &StageSummary::forward, "of one micro-batch, collectives included"},
               ResultField{"backward_s", &StageSummary::backward, "of one micro-batch, collectives included"},
               ResultField{"last_backward_s", &StageSummary::last_backward, "when its last backward pass ends"},
               ResultField{"end_s", &StageSummary::end, "when its gradients and update are done"},
               ResultField{"memory_bytes", &StageSummary::memory, "of one device"}};

template <>
inline constexpr auto result_fields<LayoutPrediction> = std::tuple{
    ResultField{"schema", [](const LayoutPrediction&) { return "stepcast.layout/1"; }, "of its JSON",
                ShownAs::json_only},
    ResultField{"plan", &LayoutPrediction::plan, "resolved"},
    ResultField{"layout", [](const LayoutPrediction& p) { return p.plan.layout; }, "how the model is divided",
                ShownAs::json_only},
    ResultField{"gradients", [](const LayoutPrediction& p) { return p.plan.gradients; }, "strategy of the data group",
                ShownAs::json_only},
    ResultField{"devices", &LayoutPrediction::devices, "in all"},
    ResultField{"micro_batches", &LayoutPrediction::micro_batches, "in a step"},
    ResultField{"iteration_s", &LayoutPrediction::iteration, "the step time"},
    ResultField{"interval_low_s", &LayoutPrediction::interval_low, "P10 of the mean step", ShownAs::aside},
    ResultField{"interval_high_s", &LayoutPrediction::interval_high, "P90 of the mean step", ShownAs::aside},
    ResultField{"interval_s",
                [](const LayoutPrediction& p) {
                  return std::array{p.interval_low, p.interval_high};
                },
                "both", ShownAs::json_only},
    ResultField{"throughput_samples_per_s", &LayoutPrediction::throughput_samples_per_s, "of all devices",
                ShownAs::known},
    ResultField{"model_flops_utilization", &LayoutPrediction::model_flops_utilization,
                "0 when operations or the device's peak are unknown", ShownAs::known},
    ResultField{"bound", &LayoutPrediction::bound, "\"compute\", \"tensor collectives between machines\", ..."},
    ResultField{"breakdown_s", &LayoutPrediction::breakdown, "what the step is made of"},
    ResultField{"memory_bytes", &LayoutPrediction::memory, "of the fullest stage"},
    ResultField{"host_memory_bytes", &LayoutPrediction::host_memory,
                "offloaded, of the host whose devices leave most with it"},
    ResultField{"stages", &LayoutPrediction::stages,
                "an entry for each device of a pipeline, its first chunk's numbering"},
    ResultField{"stage_units", &LayoutPrediction::stage_units,
                "units of each stage in forward order, with chunks of each chunk of it"},
    ResultField{"assumed", &LayoutPrediction::assumed, "what nobody said"},
    ResultField{"warnings", &LayoutPrediction::warnings, "what to know before believing it"},
    ResultField{"input", &LayoutPrediction::input, "waits for batches, and what would end them", ShownAs::if_any},
    ResultField{"run", &LayoutPrediction::run, "the whole run", ShownAs::if_any}};

}  // namespace stepcast
