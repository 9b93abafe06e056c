#include <stepcast/question/question.hpp>

#include <mutex>
#include <utility>

namespace stepcast {
namespace {

/// The profile after the changes.
Answer<Profile> changed(const Question& q) {
  if (q.changes.empty()) return q.profile;
  const Feed feed{q.pipeline ? *q.pipeline : InputPipeline{}, q.cluster};
  return profile_after(q.changes, q.profile, q.other_batch ? &*q.other_batch : nullptr, q.pipeline ? &feed : nullptr);
}

/// The model as units, after the changes.
Answer<Workload> divisible(const Question& q, const Answer<Profile>& profile) {
  if (q.shape && !q.changes.empty())
    return Inapplicable{
        "what-ifs change a trace, and the model that a layout divides is described; describe another one"};
  if (q.shape && !q.device) return Inapplicable{"a described model takes its times from a device, and none is named"};
  if (q.shape) return workload_of(*q.shape, *q.device);
  if (!profile) return Inapplicable{profile.reason()};
  return workload_of(*profile, q.device ? &*q.device : nullptr);
}

}  // namespace

Plan plan_of(std::string_view text) {
  LayoutPlan plan = layout_plan_of(text);
  if (!has_layout(text)) return std::move(plan.gradients);
  return {std::move(plan.gradients), std::move(plan.layout)};
}

std::string text_of(const Plan& plan) {
  return plan.layout ? text_of(LayoutPlan{*plan.layout, plan.strategy}) : text_of(plan.strategy);
}

Plan plan_of(const Prediction& prediction) {
  if (!prediction.layout) return prediction.plan;
  return {prediction.layout->plan.gradients, prediction.layout->plan.layout};
}

Prediction prediction_of(LayoutPrediction divided) {
  const LayoutBreakdown& b = divided.breakdown;
  Prediction out;
  out.plan = divided.plan.gradients;
  out.iteration = divided.iteration;
  out.interval_low = divided.interval_low;
  out.interval_high = divided.interval_high;
  out.breakdown.compute = b.compute + b.recomputation + b.update + b.other;
  out.breakdown.exposed_communication = b.tensor + b.context + b.expert + b.pipeline + b.gradients;
  out.breakdown.bubble = b.bubble;
  out.throughput_samples_per_s = divided.throughput_samples_per_s;
  out.memory = divided.memory.total();
  out.bound = divided.bound;
  out.warnings = divided.warnings;
  out.layout = std::make_shared<const LayoutPrediction>(std::move(divided));
  return out;
}

struct PreparedQuestion::State {
  explicit State(Question asked) : question(std::move(asked)), profile(changed(question)) {}

  Question question;
  Answer<Profile> profile;  ///< after the changes
  mutable std::once_flag taken_apart;
  mutable std::optional<Answer<Workload>> workload;  ///< made for the first layout
};

PreparedQuestion::PreparedQuestion(Question question) : state_(std::make_shared<const State>(std::move(question))) {}

const Answer<Profile>& PreparedQuestion::profile() const { return state_->profile; }
const Cluster& PreparedQuestion::cluster() const { return state_->question.cluster; }

const Answer<Workload>& PreparedQuestion::workload() const {
  std::call_once(state_->taken_apart, [&] { state_->workload.emplace(divisible(state_->question, state_->profile)); });
  return *state_->workload;
}

LayoutOptions PreparedQuestion::layout_options() const {
  const Question& q = state_->question;
  LayoutOptions options;
  const double batch = q.shape || !state_->profile ? 0 : state_->profile->batch_samples;
  options.global_batch = q.global_batch > 0 ? q.global_batch : batch * static_cast<double>(q.cluster.workers());
  options.memory_cap = q.memory_cap > Bytes(0) ? q.memory_cap : q.cluster.device_memory;
  return options;
}

bool PreparedQuestion::divides(const Plan& plan) const {
  return plan.layout.has_value() || state_->question.global_batch > 0;
}

Answer<Prediction> PreparedQuestion::answer(const Plan& plan) const {
  const Question& q = state_->question;
  const PlanSpec strategy = plan_after(q.changes, plan.strategy);
  if (!divides(plan)) {
    if (!state_->profile) return Inapplicable{state_->profile.reason()};
    return predicted(*state_->profile, q.cluster, strategy);
  }
  const Answer<Workload>& units = workload();
  if (!units) return Inapplicable{units.reason()};
  const LayoutOptions options = layout_options();
  if (!(options.global_batch > 0))
    return Inapplicable{"a layout shares out the samples of a step, and neither the trace nor the question tells them"};
  Answer<LayoutPrediction> divided =
      predicted(*units, q.cluster, LayoutPlan{plan.layout.value_or(Layout{}), strategy}, options);
  if (!divided) return Inapplicable{divided.reason()};
  return prediction_of(*std::move(divided));
}

Answer<Prediction> answer(const Question& question, const Plan& plan) {
  return PreparedQuestion(question).answer(plan);
}

}  // namespace stepcast
