#include <stepcast/question/question.hpp>

#include <stepcast/base/text.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/prediction/training_run.hpp>
#include <stepcast/roofline/usual_batch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace stepcast {
namespace {

/// The question with its device, and the cluster with what that device tells.
Question completed(Question q) {
  for (const auto& [name, samples] : {std::pair{"global_batch", q.global_batch}, {"usual_batch", q.usual_batch}})
    if (!(samples >= 0) || !std::isfinite(samples))
      throw InputError(name, "samples a step on all devices", std::to_string(samples));
  // On other devices than those of whom it was asked it may be another one.
  if (q.shape && q.usual_batch > 0 && std::fmod(q.usual_batch, static_cast<double>(q.cluster.workers())) != 0)
    q.usual_batch = usual_global_batch(*q.shape, q.cluster.workers());
  if (!q.device) q.device = shipped_device_like(q.shape ? q.cluster.device : q.profile.device);
  q.cluster = with_links_of(with_device(std::move(q.cluster), q.device), q.profile, "");
  if (q.cluster.workers() != 1) q.cluster = checked(std::move(q.cluster), "cluster");  // one worker asks no link
  q.profile = checked(std::move(q.profile), "profile");
  return q;
}

std::string shown(double samples) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", samples);
  return text;
}

/// The profile after the changes, and what feeds it then; null where nobody said.
struct Fed {
  Answer<Profile> profile;
  std::shared_ptr<const InputPipeline> pipeline;
};

Fed fed_after_changes(const Question& q) {
  Feed feed{q.pipeline ? std::make_shared<const InputPipeline>(*q.pipeline) : nullptr, q.cluster};
  Profile profile = updating_all(feed.pipeline ? with_input_pipeline(q.profile, *feed.pipeline, q.cluster) : q.profile);
  if (q.changes.empty()) return {std::move(profile), feed.pipeline};
  std::optional<Profile> other = q.other_batch;
  const WhatIfSpec& first = q.changes.front();
  if (q.shape && !other && first.what->name == "batch")
    if (other = described_at(q, first.options[0]); other) other = updating_all(*std::move(other));
  if (other && other->batch_samples == q.profile.batch_samples) other = q.other_batch;
  Answer<Profile> changed = profile_after(q.changes, profile, other ? &*other : nullptr, &feed);
  return {std::move(changed), feed.pipeline};
}

/// With a batch every `share` of its period; 0: batches that are always there. Of a profile or a workload.
template <class Job>
Job with_batch_period(Job job, double share) {
  job.input *= share;
  job.input_period *= share;
  return job;
}

/// DS-Analyzer's differential profiling, of a step that takes `step` and feeds machines with `samples` each.
/// `step_at(share)`: the step with that share of the batch period.
InputDiagnosis diagnosed(const InputPipeline& p, Seconds step, double samples, std::int64_t machines,
                         const std::function<Seconds(double)>& step_at) {
  InputPipeline cached = p;
  cached.cached_share = 1;
  if (cached.cache == CachePolicy::partitioned) cached.cache = CachePolicy::never_evict;
  const Seconds now = batch_period(p, samples, machines), all_cached = batch_period(cached, samples, machines);
  InputDiagnosis out;
  out.synthetic = step_at(0);
  out.cached = now > Seconds(0) ? std::min(step, step_at(all_cached / now)) : step;
  out.prep_stall = out.cached - out.synthetic;
  out.fetch_stall = step - out.cached;
  const double demand = samples / out.synthetic.value();
  out.sufficient_cache = optimal_cached_share(p, demand, machines);
  out.sufficient_workers = sufficient_workers(p, demand, machines);
  return out;
}

/// The model as units, after the changes.
Answer<Workload> divisible(const Question& q, const Answer<Profile>& profile) {
  if (q.shape && !q.changes.empty())
    return Inapplicable{
        "what-ifs change a trace, and the model that a layout divides is described; describe another one, such as "
        "launch=graphs for cuda_graphs"};
  if (q.shape && !q.device) return Inapplicable{"a described model takes its times from a device, and none is named"};
  if (q.shape) {
    Workload units = workload_of(*q.shape, *q.device);
    if (q.usual_batch > 0 && !(q.global_batch > 0))
      units.assumed.push_back(usual_batch_text(*q.shape, q.usual_batch) + "; --global-batch sets it");
    return units;
  }
  if (!profile) return Inapplicable{profile.reason()};
  const Device* device = q.device ? &*q.device : nullptr;
  const auto with_what_is_beside = [&](Answer<Workload> units) {
    if (!units || !(q.beside_layers > Seconds(0))) return units;
    units->step_overhead += q.beside_layers;
    units->assumed.push_back(text_of(q.beside_layers) + " " + q.what_is_beside);
    return units;
  };
  if (profile->batch_samples > 0 || (profile->described && !(q.global_batch > 0)))
    return with_what_is_beside(workload_of(*profile, device));
  // The traced step is that of one device: where a global batch is shared out it is the device's share, and otherwise
  // what each device does in every layout, counted as one.
  Profile of_share = *profile;
  const bool shares_out = q.global_batch > 0;
  of_share.batch_samples = shares_out ? q.global_batch / static_cast<double>(q.cluster.workers()) : 1;
  Answer<Workload> units = with_what_is_beside(workload_of(of_share, device));
  if (units)
    units->assumed.push_back(shares_out
                                 ? "the traced batch is not known: taken for the " + shown(of_share.batch_samples) +
                                       " samples that the global batch gives a device; --batch says otherwise"
                                 : "the traced batch is not known and counts as one sample: samples a second "
                                   "are traced batches a second; --batch says how many it has");
  return units;
}

}  // namespace

std::optional<Profile> described_at(const Question& q, double samples, std::string_view instead_of) {
  const std::optional<Device> device = q.device ? q.device : shipped_device_like(q.cluster.device);
  if (!q.shape || !device || !(samples > 0)) return std::nullopt;
  Profile profile = described_profile(*q.shape, *device, samples);
  for (const std::string& line : q.profile.assumed)
    if (line != instead_of && std::ranges::find(profile.assumed, line) == profile.assumed.end())
      profile.assumed.push_back(line);
  return profile;
}

Profile profile_of_usual_batch(const Question& q, std::string_view instead_of) {
  Profile profile = *described_at(q, q.usual_batch / static_cast<double>(q.cluster.workers()), instead_of);
  profile.assumed.insert(profile.assumed.begin(),
                         usual_batch_text(*q.shape, q.usual_batch) + "; --global-batch sets it");
  return profile;
}

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
  out.breakdown.compute = b.computing();
  out.breakdown.exposed_communication = b.exposed();
  out.breakdown.bubble = b.bubble;
  out.breakdown.input_stall = b.input;
  out.throughput_samples_per_s = divided.throughput_samples_per_s;
  out.memory = divided.memory.total();
  out.bound = divided.bound;
  out.warnings = divided.warnings;
  out.layout = std::make_shared<const LayoutPrediction>(std::move(divided));
  return out;
}

struct PreparedQuestion::State {
  explicit State(Question asked) : question(completed(std::move(asked))), fed(fed_after_changes(question)) {}

  Question question;
  Fed fed;
  mutable std::once_flag taken_apart;
  mutable std::optional<Answer<Workload>> workload;  ///< made for the first layout
};

PreparedQuestion::PreparedQuestion(Question question) : state_(std::make_shared<const State>(std::move(question))) {}

const Answer<Profile>& PreparedQuestion::profile() const { return state_->fed.profile; }
const Cluster& PreparedQuestion::cluster() const { return state_->question.cluster; }

const Answer<Workload>& PreparedQuestion::workload() const {
  std::call_once(state_->taken_apart,
                 [&] { state_->workload.emplace(divisible(state_->question, state_->fed.profile)); });
  return *state_->workload;
}

PreparedQuestion PreparedQuestion::on(Cluster cluster) const {
  Question there = state_->question;
  there.cluster = std::move(cluster);
  there.beside_layers = Seconds(0);
  return PreparedQuestion(std::move(there));
}

PreparedQuestion PreparedQuestion::of_job_that_takes(Seconds step, const std::string& of_job) const {
  Question traced = state_->question;
  traced.global_batch = 0;
  traced.iterations = 0;
  const Answer<Prediction> layers = PreparedQuestion(traced).answer({plan_spec_of("ddp"), Layout{}});
  if (!layers || !(step > layers->iteration)) return *this;
  Question there = state_->question;
  there.beside_layers = step - layers->iteration;
  there.what_is_beside = of_job;
  return PreparedQuestion(std::move(there));
}

PlanSpec PreparedQuestion::after_changes(const PlanSpec& strategy) const {
  return plan_after(state_->question.changes, strategy);
}

const DeviceCorrection* PreparedQuestion::correction() const { return state_->question.correction.get(); }

double PreparedQuestion::iterations() const { return state_->question.iterations; }
bool PreparedQuestion::where_it_ran() const { return state_->question.where_it_ran; }

LayoutOptions PreparedQuestion::layout_options() const {
  const Question& q = state_->question;
  LayoutOptions options;
  const Answer<Profile>& profile = state_->fed.profile;
  const double known = profile ? profile->batch_samples : 0;
  const double batch = known > 0 || !profile || profile->described ? known : 1;  // as `workload` counts it
  const double unsaid = q.usual_batch > 0 ? q.usual_batch : batch * static_cast<double>(q.cluster.workers());
  options.global_batch = q.global_batch > 0 ? q.global_batch : unsaid;
  options.memory = q.memory;
  options.memory_cap = q.memory_cap > Bytes(0) ? q.memory_cap : q.cluster.device_memory;
  return options;
}

LayoutOptions PreparedQuestion::search_options() const {
  LayoutOptions options = layout_options();
  if (state_->question.memory_cap <= Bytes(0)) options.memory_cap *= planned_memory_share;
  return options;
}

bool PreparedQuestion::divides(const Plan& plan) const {
  const Question& q = state_->question;
  // What-ifs change a step, which has a batch of its own.
  return plan.layout.has_value() || q.global_batch > 0 || (q.usual_batch > 0 && q.changes.empty());
}

Answer<Prediction> PreparedQuestion::answer(const Plan& plan) const {
  const Question& q = state_->question;
  const std::int64_t machines = q.cluster.nodes;
  const Answer<Profile>& profile = state_->fed.profile;
  const InputPipeline* pipeline = state_->fed.pipeline.get();
  const PlanSpec strategy = after_changes(plan.strategy);
  if (!divides(plan)) {
    if (!profile) return Inapplicable{profile.reason()};
    Answer<Prediction> out = predicted(*profile, q.cluster, strategy);
    if (!out) return out;
    if (profile->described && q.cluster.device_memory > Bytes(0) && out->memory > q.cluster.device_memory)
      return Inapplicable{"a worker needs " + text_of(out->memory) + " of memory, and its device has " +
                          text_of(q.cluster.device_memory) +
                          "; a layout divides the model: --global-batch, or layout(...) in front of the plan"};
    const auto step_of = [&](const Profile& p, const PlanSpec& spec) -> Answer<Seconds> {
      const Answer<Prediction> other = predicted(p, q.cluster, spec);
      if (!other) return Inapplicable{other.reason()};
      return other->iteration;
    };
    const auto step_at = [&](double share) {
      const Answer<Seconds> step = step_of(with_batch_period(*profile, share), out->plan);
      return step ? *step : out->iteration;
    };
    const double samples = profile->batch_samples * static_cast<double>(q.cluster.devices_per_node);
    if (pipeline) out->input = diagnosed(*pipeline, out->iteration, samples, machines, step_at);
    const auto on_profile = [&](const PlanSpec& spec) { return step_of(*profile, spec); };
    if (q.iterations > 0) add_run(*out, q.iterations, on_profile);
    return out;
  }
  const Answer<Workload>& units = workload();
  if (!units) return Inapplicable{units.reason()};
  const LayoutOptions options = layout_options();
  if (!(options.global_batch > 0))
    return Inapplicable{"a layout shares out the samples of a step, and neither the trace nor the question tells them"};
  const Layout layout = plan.layout.value_or(Layout{});
  Answer<LayoutPrediction> divided = predicted(*units, q.cluster, LayoutPlan{layout, strategy}, options);
  if (!divided) return Inapplicable{divided.reason()};
  Prediction out = prediction_of(*std::move(divided));
  const auto step_of = [&](const Workload& job, const PlanSpec& spec) -> Answer<Seconds> {
    const Answer<LayoutPrediction> other = predicted(job, q.cluster, LayoutPlan{layout, spec}, options);
    if (!other) return Inapplicable{other.reason()};
    return other->iteration;
  };
  const auto step_at = [&](double share) {
    const Answer<Seconds> step = step_of(with_batch_period(*units, share), strategy);
    return step ? *step : out.iteration;
  };
  const double samples = options.global_batch / static_cast<double>(machines);
  if (pipeline) out.input = diagnosed(*pipeline, out.iteration, samples, machines, step_at);
  if (q.iterations > 0) add_run(out, q.iterations, [&](const PlanSpec& spec) { return step_of(*units, spec); });
  if (!out.input && !out.run) return out;
  LayoutPrediction told = *out.layout;
  told.input = out.input, told.run = out.run, told.warnings = out.warnings;
  out.layout = std::make_shared<const LayoutPrediction>(std::move(told));
  return out;
}

}  // namespace stepcast
