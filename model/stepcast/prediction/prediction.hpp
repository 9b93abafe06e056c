#pragma once
// Room prediction: one plan on one cluster: its step, what it is made of, how sure that is; the best plan.
//
//   profile, plan, cluster -> step 412 ms = compute 301 + exposed 98 + idle 13; bound: communication bandwidth
//
// It may include base, profile, cluster, plan, schedule and pace.
//
// Prediction: the step time of one plan on one cluster, why it is so, and how sure we are.
//
// The breakdown partitions the steady-state iteration along the compute stream: compute (layers, update, host time that
// the device waits for), codec, input stall (the stream, or the host that it waits for, waits for the batch), exposed
// communication (the stream waits and a transfer runs), bubble (pipeline; 0 without one), idle (the rest: timers, the
// start of a late worker). Hidden communication, the time in which transfers run under compute, is outside the sum.
// Exposed is not what a faster network would save: where the host sets the pace, the device may wait for transfers at
// no cost. That is what the bound says, the largest part of the cycle that sets the pace. The interval is P10-P90 of
// the mean step from the spread of the measured steps, or of a described job the error of its device, and the residuals
// of the cluster's fit and of the model; step-to-step jitter is `step_spread`, and `step_p50` and `step_p99` are the
// step that half and 99 of 100 steps do not exceed, by measured spread or given jitter, and by time-outs of a network
// that stalls (stalls.hpp). With stragglers all of this is said of the slowest worker, whose compute the others wait
// for (their own breakdown differs by that wait); where workers do not wait for one another (asgd, ssp, ad_psgd), the
// step is the time in which the job takes as many samples as all workers in one step, and the parts are the mean over
// the workers (own_pace.hpp). Memory is that of a worker which holds the whole model (training_memory.hpp), as in the
// layout of degree one. Not modelled: convergence.
#include <stepcast/base/result_fields.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/schedule/lower.hpp>
#include <stepcast/schedule/schedule.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct Breakdown {
  Seconds compute, exposed_communication, hidden_communication, codec, input_stall, bubble, idle;
};

/// Relative rms error of a predicted step of several workers over the rows of the survey suite (validation/) to which
/// its clusters were fitted; part of every interval. The rows held out of the fit do not enter. A test recomputes it.
inline constexpr double residual_of_model = 0.040;

/// Logarithm of measured over predicted steps on devices of which no step was measured (of which no error is known):
/// mean and standard deviation over the rows of suite unmeasured (validation/) that calibrate, on devices whose
/// products were measured alone, or those of the same chip in another form. A test recomputes both.
inline constexpr double unmeasured_bias = 0.0755, unmeasured_spread = 0.140;
/// The same of devices of which no product was measured: assumed. Steps that were predicted from data sheets alone
/// were a third faster or slower than measured.
inline constexpr double data_sheet_bias = 0.1, data_sheet_spread = 0.234;

/// By how much of itself compute may take less or more than predicted (80 %, each side).
struct ComputeInterval {
  double below, above;
};
/// `relative_error`: of the device or of traced steps; `rates`: of a described job, where its device has none.
[[nodiscard]] ComputeInterval compute_interval(double relative_error, RatesOf rates);
/// What to know of a described job on a device of which no step was measured.
[[nodiscard]] std::string unmeasured_text(std::string_view device, RatesOf rates);

/// What slow and irregular workers cost (stragglers.hpp).
struct StragglerEffect {
  std::string description;
  Seconds without, step_low, step_high;
};

/// What feeds the step, told as DS-Analyzer does: by synthetic data, by the data set in memory, by both as they are.
struct InputDiagnosis {
  Seconds synthetic, cached, prep_stall, fetch_stall;
  double sufficient_cache = 0;          ///< share of the data set
  std::int64_t sufficient_workers = 0;  ///< loader workers of a machine
};

/// A whole training run: its warm-up, and the rest at the step of the plan (training_run.hpp).
struct TrainingRun {
  double iterations = 0, warm_up_iterations = 0;
  Seconds warm_up, duration;
};

struct LayoutPrediction;  // parallelism/layout_prediction.hpp

struct Prediction {
  PlanSpec plan;
  Seconds iteration, interval_low, interval_high, step_spread, step_p50, step_p99;
  /// The standard error that the step has from the links, which are wrong for all plans alike; not told of plans that
  /// divide the model (0): they count as if their links were right.
  Seconds error_of_links;
  Breakdown breakdown;
  double throughput_samples_per_s = 0;
  Bytes memory;
  std::string bound;
  std::vector<std::string> critical_path;
  std::vector<std::string> warnings;
  std::size_t messages = 0;
  std::optional<StragglerEffect> stragglers;
  bool steady = true;
  bool of_recorded_step = false;          ///< what the plan does not send is as it was recorded, not a model of layers
  std::optional<InputDiagnosis> input{};  ///< where an input pipeline feeds the step
  std::optional<TrainingRun> run{};       ///< where somebody asked for so many iterations
  /// Where the plan divides the model: what is known of the layout beside this. Null: the plan divides the batch only.
  std::shared_ptr<const LayoutPrediction> layout{};
};

/// Predicts one plan. Inapplicable when the strategy or the collective is.
[[nodiscard]] Answer<Prediction> predicted(const Profile&, const Cluster&, const PlanSpec&);
/// Predicts a plan that the caller made itself, such as that of a strategy under development, on a collective ("" for
/// the cluster's default). `name` stands for it in reports. Inapplicable with its flaw, or as above.
[[nodiscard]] Answer<Prediction> predicted(const Profile&, const Cluster&, const CommPlan&, std::string_view name,
                                           std::string_view collective = {});
/// Task graph and timeline of a plan with one task per layer, for reports. Inapplicable as above.
struct DetailedTimeline {
  TaskGraph graph;
  Timeline timeline;
  CommPlan plan;
};
[[nodiscard]] Answer<DetailedTimeline> detailed_timeline(const Profile&, const Cluster&, const PlanSpec&,
                                                         std::uint32_t iterations = 4);
/// Of a plan that the caller made itself.
[[nodiscard]] Answer<DetailedTimeline> detailed_timeline(const Profile&, const Cluster&, const CommPlan&,
                                                         std::string_view collective = {},
                                                         std::uint32_t iterations = 4);

}  // namespace stepcast

// What the fields are; an order, names and units that JSON, C and Python share.
namespace stepcast {

template <>
inline constexpr auto result_fields<Breakdown> = std::tuple{
    ResultField{"compute_s", &Breakdown::compute, "layers, update, host time that the device waits for"},
    ResultField{"exposed_communication_s", &Breakdown::exposed_communication, "compute waits for a transfer"},
    ResultField{"hidden_communication_s", &Breakdown::hidden_communication, "transfers under compute: outside the sum"},
    ResultField{"codec_s", &Breakdown::codec, "compressing and decompressing"},
    ResultField{"input_stall_s", &Breakdown::input_stall, "waiting for the batch"},
    ResultField{"bubble_s", &Breakdown::bubble, "of a pipeline"},
    ResultField{"idle_s", &Breakdown::idle, "the rest: timers, a late start"}};

template <>
inline constexpr auto result_fields<StragglerEffect> = std::tuple{
    ResultField{"description", &StragglerEffect::description, "\"1 slow worker (compute 1.3 x)\""},
    ResultField{"without_s", &StragglerEffect::without, "the step if no worker were slow or irregular"},
    ResultField{"step_low_s", &StragglerEffect::step_low, "P10 from step to step, by jitter alone", ShownAs::aside},
    ResultField{"step_high_s", &StragglerEffect::step_high, "P90; the same without jitter", ShownAs::aside},
    ResultField{"step_p10_p90_s",
                [](const StragglerEffect& s) {
                  return std::array{s.step_low, s.step_high};
                },
                "both", ShownAs::json_only}};

template <>
inline constexpr auto result_fields<InputDiagnosis> = std::tuple{
    ResultField{"synthetic_s", &InputDiagnosis::synthetic, "the step if batches were always there"},
    ResultField{"cached_s", &InputDiagnosis::cached, "the step with the whole data set in memory"},
    ResultField{"prep_stall_s", &InputDiagnosis::prep_stall, "waiting for preparation: cached less synthetic"},
    ResultField{"fetch_stall_s", &InputDiagnosis::fetch_stall, "waiting for storage and network: the step less cached"},
    ResultField{"sufficient_cache", &InputDiagnosis::sufficient_cache,
                "share of the data set in a machine's memory from which on more does not help"},
    ResultField{"sufficient_workers", &InputDiagnosis::sufficient_workers,
                "loader workers of a machine from which on more do not help"}};

template <>
inline constexpr auto result_fields<TrainingRun> = std::tuple{
    ResultField{"iterations", &TrainingRun::iterations, "of the run, its warm-up included"},
    ResultField{"warm_up_iterations", &TrainingRun::warm_up_iterations, "in which gradients travel in another way"},
    ResultField{"warm_up_s", &TrainingRun::warm_up, "how long these take"},
    ResultField{"duration_s", &TrainingRun::duration, "of the run"}};

template <>
inline constexpr auto result_fields<Prediction> = std::tuple{
    ResultField{"schema", [](const Prediction&) { return "stepcast.prediction/1"; }, "of its JSON", ShownAs::json_only},
    ResultField{"plan", &Prediction::plan, "its automatic options tuned"},
    ResultField{"iteration_s", &Prediction::iteration, "the step time"},
    ResultField{"interval_low_s", &Prediction::interval_low, "P10 of the mean step", ShownAs::aside},
    ResultField{"interval_high_s", &Prediction::interval_high, "P90 of the mean step", ShownAs::aside},
    ResultField{"interval_s",
                [](const Prediction& p) {
                  return std::array{p.interval_low, p.interval_high};
                },
                "both", ShownAs::json_only},
    ResultField{"throughput_samples_per_s", &Prediction::throughput_samples_per_s,
                "of all workers; 0 when the batch is unknown", ShownAs::known},
    ResultField{"breakdown_s", &Prediction::breakdown, "what the step is made of"},
    ResultField{"step_spread_s", &Prediction::step_spread, "standard deviation from step to step"},
    ResultField{"step_p50_s", &Prediction::step_p50, "the step that half of the steps do not exceed"},
    ResultField{"step_p99_s", &Prediction::step_p99, "the step that 99 of 100 do not exceed"},
    ResultField{"memory_bytes", &Prediction::memory,
                "of a worker: parameters, gradients, optimizer, activations, buffers, margin"},
    ResultField{"bound", &Prediction::bound, "the bound that binds, in words"},
    ResultField{"critical_path", &Prediction::critical_path, "task names, first to last, over one period"},
    ResultField{"fidelity", [](const Prediction& p) { return p.plan.strategy ? fidelity_of(p.plan) : Fidelity::exact; },
                "what the plan does to the arithmetic of training"},
    ResultField{
        "requires",
        [](const Prediction& p) { return p.plan.strategy ? requirements_of(p.plan) : std::vector<std::string_view>(); },
        "software and hardware that the plan needs"},
    ResultField{"warnings", &Prediction::warnings, "what to know before believing it"},
    ResultField{"messages", &Prediction::messages, "transfers that cross a link, a step", ShownAs::aside},
    ResultField{"steady", &Prediction::steady, "the steps have settled to this time", ShownAs::aside},
    ResultField{"of_recorded_step", &Prediction::of_recorded_step,
                "the traced step with the plan's messages in place of its own, not the model of its layers",
                ShownAs::aside},
    ResultField{"stragglers", &Prediction::stragglers, "what slow workers cost; nothing where all are alike",
                ShownAs::if_any},
    ResultField{"input", &Prediction::input, "waits for batches, and what would end them; nothing without a pipeline",
                ShownAs::if_any},
    ResultField{"run", &Prediction::run, "the whole run; nothing where nobody asked for its iterations",
                ShownAs::if_any}};

}  // namespace stepcast
