#pragma once
// Room question: what everybody asks, with layouts and what-ifs, and the one way in which it is answered.
//
// It may include base, profile, roofline, cluster, plan, whatif, prediction, workload, layout, parallelism and
// calibration.
//
// A question is a job (a traced profile, or a described model on a device), the cluster that it is to run on, and the
// changes that somebody considers making to it (what-ifs). Its answer for a plan is a `Prediction`, whether the plan
// divides the batch only or, with a layout in front, the model too. The device that is not named is the shipped one
// that the trace or the cluster names, and it tells the cluster what that leaves open:
//
//   PreparedQuestion question({.profile = profile, .cluster = cluster, .changes = scenario_of("amp")});
//   Answer<Prediction> plain = question.answer(plan_of("ddp(bucket=25 MiB)"));
//   Answer<Prediction> divided = question.answer(plan_of("layout(tp=2, zero=1)/dear"));
//
// The command line, Python, C, sweeps, what-ifs and the report all ask here, so that the same question has the same
// answer, to the last digit, whoever asks. Invariants: an answer depends on the question and the plan alone; changes
// come before layouts, in their order; the parts of an answer sum to its step. Not modelled: what-ifs of a described
// model, which has no trace that they could change.
#include <stepcast/layout/layout.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/roofline/device.hpp>
#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/whatif/input_pipeline.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

struct DeviceCorrection;  // calibration/device_fit.hpp

/// A plan as it is written, "layout(tp=8)/dear(bucket=25 MiB)+fp16@ring": how gradients travel, and how the model is
/// divided. A plan without a layout divides the batch only.
struct Plan {
  PlanSpec strategy;
  std::optional<Layout> layout;

  Plan(PlanSpec spec) : strategy(std::move(spec)) {}  // NOLINT: a strategy is a plan
  Plan(PlanSpec spec, Layout divided) : strategy(std::move(spec)), layout(std::move(divided)) {}
};
/// Throws InputError with column and suggestion.
[[nodiscard]] Plan plan_of(std::string_view text);
/// Reads back to the same plan.
[[nodiscard]] std::string text_of(const Plan&);
/// The plan of an answer, with the options that were tuned and the layout spelled out.
[[nodiscard]] Plan plan_of(const Prediction&);

struct Question {
  Profile profile{};                  ///< of one worker, on the cluster's device; of a `shape` `described_profile`
  std::optional<ModelShape> shape{};  ///< a described model, which stands in for a trace, and which layouts divide
  std::optional<Device> device{};     ///< whose roofline times a described model and the small tiles of a divided one
  Cluster cluster;
  Scenario changes{};                       ///< what-ifs, in order
  double iterations = 0;                    ///< of the run whose duration is asked for, too; 0: of none
  std::optional<Profile> other_batch{};     ///< the same job at another batch, which `batch(to=...)` is fitted to
  std::optional<InputPipeline> pipeline{};  ///< what feeds the steps of the profile, which is as traced
  double global_batch = 0;                  ///< samples a step on all devices; 0: the profile's batch times the workers
  /// What plans share out where there is no `global_batch`, and nobody said the profile's either (usual_batch.hpp), of
  /// a step without `changes`; 0: the profile's batch is said.
  double usual_batch = 0;
  bool where_it_ran = false;  ///< the cluster is what the trace shows of the machines that the job ran on
  Bytes memory_cap{};         ///< of a device, for layouts; 0: the cluster's device memory
  MemoryOptions memory{};     ///< how the memory of layouts is counted
  Seconds beside_layers{};    ///< of every step of a traced job, that the layers of its profile do not contain
  /// What measured steps changed of `device` (measured.hpp); null: none were told.
  std::shared_ptr<const DeviceCorrection> correction{};
  std::string what_is_beside{};  ///< in words, after the time: "a step is not in the layers: ..."
};

/// Of a question about a described model: its profile with another batch, described anew, since small kernels are as
/// long as a device's shortest. Lines that the question's own profile assumes beside its description stay, but for
/// `instead_of`. Nothing where no device is known.
[[nodiscard]] std::optional<Profile> described_at(const Question&, double samples, std::string_view instead_of = {});
/// A worker's part of the usual batch of a described model, in place of its profile of one sample: what a question says
/// whose plans share that batch out. Lines that the profile assumes beside its description stay, but for `instead_of`.
[[nodiscard]] Profile profile_of_usual_batch(const Question&, std::string_view instead_of);

/// A question whose changes are made and whose model is taken apart once, to be asked for many plans. Immutable; any
/// number of threads may ask.
class PreparedQuestion {
 public:
  /// Throws InputError when profile or cluster violate their invariants, and for a batch that is no number of samples.
  explicit PreparedQuestion(Question);

  /// Inapplicable with the reason when the plan cannot run, or the changes cannot be made. A plan without a layout is
  /// answered as the layout of degree one where the question shares out a `global_batch` or a `usual_batch`.
  [[nodiscard]] Answer<Prediction> answer(const Plan&) const;
  /// Profile after the changes, and cluster with what its device tells.
  [[nodiscard]] const Answer<Profile>& profile() const;
  [[nodiscard]] const Cluster& cluster() const;
  /// The model as units that a layout can divide. Inapplicable where it cannot be taken apart.
  [[nodiscard]] const Answer<Workload>& workload() const;
  /// Question::correction.
  [[nodiscard]] const DeviceCorrection* correction() const;
  /// Question::iterations.
  [[nodiscard]] double iterations() const;
  [[nodiscard]] bool where_it_ran() const;
  /// Batch and memory of layouts that are searched: `layout_options()`, of a device's memory `planned_memory_share`
  /// unless the question says how much.
  [[nodiscard]] LayoutOptions search_options() const;
  /// Batch and memory of layouts.
  [[nodiscard]] LayoutOptions layout_options() const;
  /// True when the answer for the plan is that of a layout.
  [[nodiscard]] bool divides(const Plan&) const;
  /// How gradients travel after the changes, some of which name a collective.
  [[nodiscard]] PlanSpec after_changes(const PlanSpec&) const;
  /// The same question of another cluster with the same devices, where nobody said what is beside the layers. Throws
  /// InputError.
  [[nodiscard]] PreparedQuestion on(Cluster) const;
  /// The same question, for layouts of a job that takes `step` on this cluster where its traced batch is all that is
  /// divided: what its layers lack of that is beside them under every layout (`of_job` says what it is). Unchanged
  /// where they lack nothing, and where nothing is known of that plan.
  [[nodiscard]] PreparedQuestion of_job_that_takes(Seconds step, const std::string& of_job) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// The answer for a layout as that for any plan: its parts are summed to those that all plans have (compute with
/// recomputation and update; exposed with all collectives and sends that compute waits for).
[[nodiscard]] Prediction prediction_of(LayoutPrediction);

}  // namespace stepcast
