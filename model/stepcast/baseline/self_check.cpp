// Self-check: a replay of every rank, and what they say together.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/recorded_refusals.hpp>
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/prediction/alike.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/prediction/training_run.hpp>
#include <stepcast/ranks/ranks.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace stepcast {

const Replay* SelfCheck::worst() const {
  const Replay* worst = nullptr;
  for (const Replay& replay : ranks)
    if (replay.scored && (!worst || std::abs(replay.relative_error) > std::abs(worst->relative_error))) worst = &replay;
  return worst;
}

bool SelfCheck::trusted() const {
  const Replay* replay = worst();
  const bool lossy = std::ranges::any_of(ranks, &Replay::doubtful);
  return replay && !lossy && cautions.empty() && std::abs(replay->relative_error) <= largest_trusted_error &&
         !models_another_job() && !has_other_links();
}

bool SelfCheck::models_another_job() const {
  return as_traced && !of_recorded_step &&
         (!as_traced->known() || !as_traced->left_out.empty() ||
          std::abs(as_traced->relative_error()) > AsTraced::largest_trusted_error);
}

bool SelfCheck::has_other_links() const {
  return as_traced && !of_recorded_step && std::abs(as_traced->error_on_links()) > AsTraced::largest_trusted_error;
}

std::string SelfCheck::caution() const {
  const Replay* replay = worst();
  std::vector<std::string> reasons;
  if (replay && std::abs(replay->relative_error) > largest_trusted_error)
    reasons.push_back("the model does not reproduce the traced step (limit: " + percent(largest_trusted_error) + ")");
  else if (std::ranges::any_of(ranks, &Replay::doubtful))
    reasons.emplace_back("the recording lost events ('stepcast replay' says which)");
  if (models_another_job()) reasons.push_back(as_traced->caution());
  else if (has_other_links()) reasons.push_back(as_traced->caution_of_links());
  reasons.insert(reasons.end(), cautions.begin(), cautions.end());
  std::string text;
  for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
  return text;
}

std::string SelfCheck::reserve() const {
  if (!as_traced || of_recorded_step || models_another_job()) return {};
  const std::string mild = as_traced->caution();
  const std::string of_links = has_other_links() ? std::string() : as_traced->caution_of_links();
  if (mild.empty() || of_links.empty()) return mild.empty() ? of_links : mild;
  return mild + "; " + of_links;
}

bool SelfCheck::exchanges(const PreparedQuestion& question) const {
  return recorded && recorded->fixed().empty() && question.profile() && recorded->is_of(*question.profile());
}

namespace {

/// The recorded step is asked for, and its messages cannot be exchanged.
bool takes_traced_plan_only(const SelfCheck& check) {
  return !check.by_request.empty() && check.recorded && !check.recorded->fixed().empty();
}
std::string why_not_another_plan(const SelfCheck& check) {
  return "the recorded step is that of the traced plan, '" + check.as_traced->plan + "': " + check.recorded->fixed();
}

}  // namespace

SelfCheck::Model SelfCheck::recorded_model(const PreparedQuestion& question) const {
  if (!exchanges(question)) {
    const bool as_it_was = recorded && question.profile() && recorded->is_of(*question.profile());
    if (!by_request.empty() && !as_it_was) throw recorded_refusal::of_changed_job(by_request);
    if (takes_traced_plan_only(*this))
      return [why = why_not_another_plan(*this)](const Profile&, const Cluster&,
                                                 const PlanSpec&) -> Answer<Prediction> { return Inapplicable{why}; };
    return {};
  }
  return
      [job = &*recorded](const Profile& profile, const Cluster& cluster, const PlanSpec& plan) -> Answer<Prediction> {
        if (!job->is_of(profile)) return Inapplicable{"the recorded step is that of the job as it was"};
        return job->with(plan, profile, cluster);
      };
}

SelfCheck SelfCheck::for_recorded_step() const {
  SelfCheck check = *this;
  check.of_recorded_step = true;
  if (recorded && check.as_traced && check.as_traced->known() && check.as_traced->left_out.empty()) {
    // What stands beside such answers is not the model of layers, but the step that they change.
    check.as_traced->predicted = recorded->step();
    check.as_traced->on_links = Seconds(0);
  }
  return check;
}

std::string SelfCheck::traced_plan() const {
  if (recorded) return RecordedJob::name;
  return as_traced && as_traced->as_plan() ? as_traced->plan : std::string();
}

Plan SelfCheck::plan_in_use() const {
  std::optional<Plan> traced = as_traced ? as_traced->as_plan() : std::nullopt;
  return traced ? *std::move(traced) : plan_of("ddp");
}

bool SelfCheck::is_recorded(const PlanSpec& plan) const {
  return recorded && plan.own && text_of(plan) == RecordedJob::name;
}

namespace {

/// The answer for a layout as one that has a name only, with the noise of the trace, which is that of any plan. Nothing
/// where it cannot run, or its tail is not known (jitter, time-outs).
std::optional<Prediction> named_answer(Answer<Prediction> divided, const Cluster& cluster, const std::string& name,
                                       Seconds spread) {
  if (cluster.transport.stalls > 0 || cluster.stragglers.jitter.distribution != Jitter::Distribution::none)
    return std::nullopt;
  if (!divided) return std::nullopt;
  divided->plan = spec_named(name, {});
  divided->layout.reset();
  divided->step_spread = spread;
  divided->step_p50 = divided->iteration;
  divided->step_p99 = divided->iteration + normal_p99 * divided->step_spread;
  return *std::move(divided);
}

}  // namespace

std::optional<Prediction> SelfCheck::in_use(const PreparedQuestion& question) const {
  if (!question.profile()) return std::nullopt;
  const Cluster& cluster = question.cluster();
  if (recorded) {
    if (!recorded->is_of(*question.profile())) return std::nullopt;
    const Answer<Prediction> moved = recorded->on(cluster, question.where_it_ran());
    return moved ? std::optional(*moved) : std::nullopt;
  }
  const std::optional<Plan> traced = as_traced ? as_traced->as_plan() : std::nullopt;
  if (!traced) return std::nullopt;
  const Answer<Prediction> plain = predicted(*question.profile(), cluster, traced->strategy);
  if (!plain) return std::nullopt;
  if (!traced->layout) return *plain;
  return named_answer(question.answer(*traced), cluster, as_traced->plan, plain->step_spread);
}

namespace {

void add_lateness(SelfCheck& check, const Documents& documents) {
  const RunOfRanks run = run_of(documents.traces);
  check.together = figures_of(run);
  check.lateness = run.verdict();
  check.cautions = run.cautions;
}

}  // namespace

SelfCheck lateness_of(const Documents& documents) {
  if (documents.traces.size() < 2)
    throw InputError("why", "the traces of several ranks of one run, which wait for one another",
                     documents.profile ? "a profile" : "one trace");
  if (is_pipelined(documents.traces))
    throw InputError(documents.traces.front().source, "the traces of a framework", "the passes of a pipelined job",
                     "'stepcast replay' says who of its workers is slow");
  SelfCheck check;
  check.missing = "only lateness was asked for";
  add_lateness(check, documents);
  return check;
}

SelfCheck self_check_of(const Documents& documents) {
  SelfCheck check;
  if (documents.profile) {
    check.missing = "the input is a profile, which has no events to replay; give the trace";
    return check;
  }
  for (const Trace& trace : documents.traces) {
    Answer<Replay> replay = replay_of(trace);
    if (replay) check.ranks.push_back(std::move(*replay));
    else if (check.missing.empty()) check.missing = replay.reason();
  }
  if (documents.traces.size() > 1) add_lateness(check, documents);
  return check;
}

namespace {

/// The one that is furthest off, else any.
const Replay* telling_replay(const SelfCheck& check) {
  const Replay* worst = check.worst();
  return worst == nullptr && !check.ranks.empty() ? &check.ranks.front() : worst;
}

/// The job itself; where a plan stands for it beside that, unless it is `wanted` all the same.
void add_recorded(SelfCheck& check, const Documents& documents, const Profile* profile, bool wanted) {
  const Replay* replay = telling_replay(check);
  if (replay == nullptr) return;
  const std::optional<Plan> plan = check.as_traced->as_plan();
  const bool second = !wanted && plan.has_value();
  if (second && plan->layout) return;
  Answer<RecordedJob> recorded = recorded_job_of(documents.traces, profile);
  if (!recorded || (second && !recorded->fixed().empty())) return;
  recorded->noise = replay->noise;
  for (const Replay& rank : check.ranks) recorded->usual = std::max(recorded->usual, rank.replayed);
  recorded->replay_error = replay->scored ? std::abs(replay->relative_error) : 0;
  if (profile != nullptr) {
    recorded->batch_samples = profile->batch_samples;
    recorded->work = fingerprint_of(*profile);
  }
  (second ? check.beside : check.recorded) = std::move(*recorded);
}

}  // namespace

SelfCheck recorded_only(const Documents& documents, std::string refusal) {
  SelfCheck check = self_check_of(documents);
  const Replay* replay = telling_replay(check);
  AsTraced job;
  job.missing = std::move(refusal);
  check.as_traced = replay ? rebuilt(std::move(job), *replay) : std::move(job);
  add_recorded(check, documents, nullptr, false);
  return check;
}

namespace {

SelfCheck checked(const Documents& documents, const Profile& profile, bool recorded) {
  SelfCheck check = self_check_of(documents);
  check.cautions = profile.cautions;
  if (!(profile.measured_step() > Seconds(0))) return check;
  // Of a changed profile, or one of before there were messages, nobody knows what ran.
  if (documents.profile && profile.messages.empty() && !profile.collectives.empty()) {
    if (const std::string left_out = beyond_plans(profile); !left_out.empty())
      check.cautions.push_back("the profile leaves something out of the traced job: " + left_out +
                               "; the trace itself tells more");
    return check;
  }
  const Replay* replay = telling_replay(check);
  check.as_traced = replay ? rebuilt(as_traced(profile), *replay) : as_traced(profile);
  const std::int64_t devices = documents.traces.empty() ? -1 : documents.traces.front().machine_devices;
  check.as_traced = with_links(*std::move(check.as_traced), profile, devices);
  add_recorded(check, documents, &profile, recorded);
  return check;
}

}  // namespace

SelfCheck self_check_of(const Documents& documents, const Profile& profile) {
  return checked(documents, profile, false);
}

SelfCheck recorded_check_of(const Documents& documents, const Profile& profile, std::string_view where) {
  SelfCheck check = checked(documents, profile, true);
  if (!check.recorded) {
    const Answer<RecordedJob> job = recorded_job_of(documents.traces, &profile);
    throw InputError(std::string(where), "traces of several workers whose step can be rebuilt",
                     job ? check.missing : job.reason());
  }
  if (const std::string why = check.recorded->fixed(); !why.empty() && !check.as_traced->as_plan())
    throw InputError(std::string(where), "gradients whose messages can be exchanged", why);
  check.by_request = where;
  return check;
}

namespace {

/// By what trains the traced model as it is: PyTorch, else DeepSpeed; empty where neither runs the layout.
std::string settings_of_layout(const PreparedQuestion& question, const LayoutPrediction& layout) {
  for (const char* framework : {"pytorch", "deepspeed"})
    for (const LaunchSettings& launch :
         launch_settings(*question.workload(), layout, framework, question.cluster().device_memory))
      if (!launch.text.empty()) return launch.text;
  return {};
}

/// The other ZeRO stages of a job that runs one of them.
std::vector<AnsweredPlan> sharded_plans(const SelfCheck& check, const PreparedQuestion& question,
                                        const Prediction& baseline) {
  std::vector<AnsweredPlan> plans;
  const std::optional<Plan> traced = check.as_traced ? check.as_traced->as_plan() : std::nullopt;
  if (!traced || question.cluster().workers() < 2) return plans;
  if (!traced->layout || traced->layout->zero == 0) return plans;
  for (const int zero : {1, 2, 3}) {
    Plan plan = *traced;
    plan.layout->zero = zero;
    const std::string name = text_of(plan);
    if (name == check.as_traced->plan) continue;
    const Answer<Prediction> answer = question.answer(plan);
    std::optional<Prediction> named = named_answer(answer, question.cluster(), name, baseline.step_spread);
    if (named) plans.push_back({*std::move(named), settings_of_layout(question, *answer->layout)});
  }
  return plans;
}

/// Beside an answer of the layers what the recorded step tells of the same plan, where these differ by more than plans
/// are told apart by.
void hear_recorded_step(Prediction& answer, const SelfCheck& check, const Profile& profile, const Cluster& cluster) {
  if (!check.beside || !check.beside->is_of(profile)) return;
  const Answer<Prediction> other = check.beside->with(answer.plan, profile, cluster);
  if (!other) return;
  // Of the recorded step what it changes by, on the step that was measured.
  const Seconds there = other->iteration * (check.as_traced->measured / check.beside->step());
  const double apart = there / answer.iteration - 1;
  if (std::abs(apart) <= AsTraced::telling_error) return;
  answer.interval_low = std::min(answer.interval_low, there);
  answer.interval_high = std::max(answer.interval_high, there);
  answer.warnings.push_back("the recorded step with these messages in place of its own takes " + text_of(there) + " (" +
                            percent(apart, true) + "): the interval holds both");
}

/// Logarithm of measured over predicted steps of a plan by the trace of another one, where hosts compute: mean and
/// standard deviation over pairs of rows of the laboratory's models that calibrate (resnet18 and mlp on two workers, 1
/// and 3 Gb/s), each by the links of its own trace and its unprofiled step ("own links" of validation/lab/across.py):
/// 36 pairs of other messages of whole gradients, 64 of states that are divided otherwise.
struct ErrorOfChange {
  double bias, spread;
};
constexpr ErrorOfChange other_messages{0.006, 0.117}, other_division{0.097, 0.176};

/// The ZeRO stage of an answer, which may have it by its name only; nothing for the recorded job.
std::optional<int> stage_of(const Prediction& answer) {
  if (answer.layout) return answer.layout->plan.layout.zero;
  const std::string name = text_of(answer.plan);
  if (answer.plan.own == nullptr) return 0;
  if (name == RecordedJob::name) return std::nullopt;
  const Plan plan = plan_of(name);
  return plan.layout ? plan.layout->zero : 0;
}

/// What a host's thread pays for other messages or shards than it was traced with is known of others only: the interval
/// holds what it cost these.
void widen_for_change(Prediction& answer, const SelfCheck& check, const Profile& profile) {
  if (profile.described || profile.has_device() || !check.as_traced) return;
  const std::optional<Plan> traced = check.as_traced->as_plan();
  const std::optional<int> stage = stage_of(answer);
  if (!traced || !stage || answer.of_recorded_step) return;
  const int traced_stage = traced->layout ? traced->layout->zero : 0;
  if (*stage == traced_stage && (*stage > 0 || text_of(answer.plan) == text_of(traced->strategy))) return;
  const ErrorOfChange& e = *stage == traced_stage ? other_messages : other_division;
  answer.interval_low = std::min(answer.interval_low, answer.iteration * std::exp(e.bias - normal_p90 * e.spread));
  answer.interval_high = std::max(answer.interval_high, answer.iteration * std::exp(e.bias + normal_p90 * e.spread));
  if (!answer.layout) return;
  LayoutPrediction divided = *answer.layout;
  divided.interval_low = answer.interval_low, divided.interval_high = answer.interval_high;
  answer.layout = std::make_shared<const LayoutPrediction>(std::move(divided));
}

/// All that is known beside the layers of a plan's answer.
void hear_others(Prediction& answer, const SelfCheck& check, const PreparedQuestion& question) {
  if (question.profile()) check.second_opinion()(answer, *question.profile(), question.cluster());
}

}  // namespace

SelfCheck::SecondOpinion SelfCheck::second_opinion() const {
  return [this](Prediction& answer, const Profile& profile, const Cluster& cluster) {
    if (!answer.layout) hear_recorded_step(answer, *this, profile, cluster);
    widen_for_change(answer, *this, profile);
  };
}

void rank_over_what_runs(RecommendOptions& options, const SelfCheck& check, const PreparedQuestion& question,
                         PlansOfAnotherJob others) {
  const bool ranked = others == PlansOfAnotherJob::ranked || !options.plans.empty();
  const SelfCheck::Model model = check.recorded_model(question);
  options.baseline = check.in_use(question);
  if (takes_traced_plan_only(check) && options.plans.empty() && options.baseline) {
    options.only_baseline = "messages of gradients stay: " + check.recorded->fixed();
    return;
  }
  if (model) {
    options.model = [model, question](const PlanSpec& plan) {
      return model(*question.profile(), question.cluster(), plan);
    };
    return;
  }
  options.second_opinion = [&check, question](Prediction& answer) { hear_others(answer, check, question); };
  if (!ranked && !check.recorded && check.as_traced && !check.as_traced->left_out.empty())
    throw InputError("the traced job", "one that a plan describes, or whose recorded step is known elsewhere",
                     check.as_traced->left_out,
                     "'stepcast TRACE' says where its step goes; recommend --all, or plans that are named, are of its "
                     "layers alone");
  if (options.plans.empty() && options.baseline && !check.recorded)
    options.beside = sharded_plans(check, question, *options.baseline);
  if (!options.baseline || !check.is_recorded(options.baseline->plan)) return;
  if (!ranked)
    options.only_baseline = check.as_traced->left_out + "; messages of gradients stay: " + check.recorded->fixed();
  else options.baseline.reset();  // of another job than the plans are
}

namespace {

/// The recorded step of a job whose messages cannot be exchanged, under the only plan that it knows: the traced one.
Answer<Prediction> traced_plan_elsewhere(const SelfCheck& check, const PreparedQuestion& question, const Plan& plan) {
  const std::optional<Plan> traced = check.as_traced->as_plan();
  if (!traced || text_of(*traced) != text_of(plan)) return Inapplicable{why_not_another_plan(check)};
  Answer<Prediction> there = check.recorded->on(question.cluster(), question.where_it_ran());
  if (!there) return there;
  there->plan = spec_named(check.as_traced->plan, {});
  there->of_recorded_step = true;
  return there;
}

}  // namespace

PreparedQuestion with_recorded_rest(const SelfCheck& check, const PreparedQuestion& question) {
  if (!check.recorded || !check.models_another_job() || !question.profile()) return question;
  if (!check.recorded->is_of(*question.profile())) return question;
  const Answer<Prediction> there = check.recorded->on(question.cluster());
  if (!there) return question;
  return question.of_job_that_takes(there->iteration,
                                    "a step is not in the layers of the profile: what the recorded step has beside "
                                    "them (collectives of its model, waiting) is taken to stay under every layout");
}

Answer<Prediction> checked_answer(const SelfCheck& check, const PreparedQuestion& question, const Plan& plan) {
  const auto with_caution = [](Answer<Prediction> answer, const std::string& caution) {
    if (answer && !caution.empty()) answer->warnings.push_back(caution + ": this prediction is doubtful");
    return answer;
  };
  const SelfCheck::Model model = check.recorded_model(question);
  if (takes_traced_plan_only(check)) return with_caution(traced_plan_elsewhere(check, question, plan), "");
  if (question.divides(plan) && !check.by_request.empty()) throw recorded_refusal::of_layouts(check.by_request);
  if (question.divides(plan)) {
    Answer<Prediction> answer = with_recorded_rest(check, question).answer(plan);
    if (answer) hear_others(*answer, check, question);
    return with_caution(std::move(answer), check.caution());
  }
  if (!model) {
    Answer<Prediction> answer = question.answer(plan);
    if (answer) hear_others(*answer, check, question);
    return with_caution(std::move(answer), check.caution());
  }
  const auto with = [&](const PlanSpec& spec) { return model(*question.profile(), question.cluster(), spec); };
  Answer<Prediction> exchanged = with(plan.strategy);
  if (exchanged && question.iterations() > 0)
    add_run(*exchanged, question.iterations(), [&](const PlanSpec& spec) -> Answer<Seconds> {
      const Answer<Prediction> other = with(spec);
      if (!other) return Inapplicable{other.reason()};
      return other->iteration;
    });
  return with_caution(std::move(exchanged), check.for_recorded_step().caution());
}

}  // namespace stepcast
