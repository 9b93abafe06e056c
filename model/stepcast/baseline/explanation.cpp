// Explanation: split -> levers, each asked of what can predict it -> verdicts in the order of what they win.
#include <stepcast/base/error.hpp>
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/explanation.hpp>
#include <stepcast/baseline/recorded_job.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/question/question.hpp>
#include <stepcast/ranks/ranks.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

namespace stepcast {
namespace {

/// Of CUDA and HIP: calls that wait for the device. Those that are ordered in a stream do not.
bool is_allocation(std::string_view call) {
  constexpr std::string_view calls[] = {"cudaMalloc", "cudaFree",      "cudaHostAlloc", "cudaFreeHost",  "hipMalloc",
                                        "hipFree",    "hipHostMalloc", "hipHostFree",   "cudaMallocHost"};
  return std::ranges::find(calls, call) != std::end(calls);
}

/// The profile of the traces, or why there is none.
struct ProfileOrNot {
  std::optional<Profile> profile;
  std::string why_not;
};
ProfileOrNot profile_if_any(const Documents& documents, const ProfileOptions& options) {
  try {
    return {profile_of(documents, options), {}};
  } catch (const InputError& refusal) {
    if (options.parameter_count > 0) throw;  // who says how many there are wants to know why that did not serve
    if (refusal.expected.starts_with("another rank of the same")) throw;  // of another job
    return {std::nullopt, refusal.found};
  }
}

std::int64_t workers_of(const Documents& documents, const std::optional<Profile>& profile) {
  std::int64_t workers = std::max<std::int64_t>(1, std::ssize(documents.traces));
  for (const Trace& trace : documents.traces) workers = std::max(workers, trace.world_size);
  if (profile) {
    workers = std::max(workers, profile->traced_workers);
    for (const ObservedCollective& c : profile->collectives) workers = std::max(workers, c.group_size);
  }
  return workers;
}

/// What the steps of a rank leave open, as a share of a step.
double doubt_of(const StepSplit& split) {
  std::vector<double> values;
  for (const Seconds duration : split.durations) values.push_back(duration.value());
  return doubt_of_median(values) / split.step.value();
}

class Explainer {
 public:
  Explainer(const Documents& documents, const ProfileOptions& options) : documents_(documents) {
    out_.ranks = splits_of(documents.traces);
    const auto least_late = std::ranges::max_element(out_.ranks, {}, [](const StepSplit& s) {
      return std::pair(-s[SplitPart::late_ranks].value(), s.step.value());
    });
    out_.shown = static_cast<std::size_t>(least_late - out_.ranks.begin());
    auto [profile, why_not] = profile_if_any(documents, options);
    profile_ = std::move(profile), why_no_profile_ = std::move(why_not);
    out_.check = profile_ ? self_check_of(documents, *profile_) : recorded_only(documents, why_no_profile_);
    out_.workers = workers_of(documents, profile_);
    if (out_.check.as_traced && out_.check.as_traced->left_out.empty()) out_.plan = out_.check.as_traced->plan;
    out_.worth = std::max(Explanation::least_worth, doubt_of(split()));
  }

  Explanation result() {
    if (documents_.traces.size() > 1) straggler_ = run_of(documents_.traces).straggler;
    ask_the_recording();
    prepare();
    add_communication();
    add_buffers();
    add_pipeline();
    add_late_ranks();
    add_input();
    add_allocator();
    add_host();
    add_precision();
    add_copies();
    decide();
    say_what_to_record();
    return std::move(out_);
  }

 private:
  [[nodiscard]] const StepSplit& split() const { return out_.split(); }
  [[nodiscard]] double share(Seconds part) const { return part / split().step; }
  [[nodiscard]] std::string whole() const { return split().of_steps ? "the step" : "the recording"; }
  [[nodiscard]] std::string share_in_words(Seconds part) const { return percent(share(part)) + " of " + whole(); }
  [[nodiscard]] bool enough_steps() const { return split().of_steps && split().durations.size() >= 2; }

  void ask_the_recording() {
    if (!(split().exposed() > Seconds(0))) return;
    const Answer<RecordedJob> job = recorded_job_of(documents_.traces, profile_ ? &*profile_ : nullptr);
    if (!job || !is_whole(*job)) return;
    Seconds without, with;
    for (const RecordedRank& rank : job->ranks) {
      with = std::max(with, rank.step(std::vector<double>(rank.collectives.size(), 1.0)));
      without = std::max(without, rank.step(std::vector<double>(rank.collectives.size(), 0.0)));
    }
    if (with > Seconds(0)) out_.without_communication = std::min(split().step, split().step * (without / with));
  }

  /// The question of the job on its own cluster, where that can be asked.
  void prepare() {
    if (!profile_ || !split().of_steps) return;
    Answer<Cluster> cluster = traced_cluster(*profile_, out_.workers, documents_.traces[out_.shown].machine_devices);
    if (!cluster) {
      why_no_question_ = cluster.reason();
      return;
    }
    if (out_.workers > 1)
      out_.links =
          cluster->nodes > 1
              ? text_of(cluster->network.bandwidth) + " between machines, " + told_of(*cluster, "network: ")
              : text_of(cluster->inside.bandwidth) + " a device inside the machine, " + told_of(*cluster, "inside: ");
    out_.library = library_in_words(*cluster);
    question_.emplace(Question{.profile = *profile_, .cluster = std::move(*cluster)});
  }

  /// The share of a step up to which a part is left alone: what is not worth a change, or cannot be told of steps that
  /// vary. But no part is left alone that is large only because the steps vary more.
  [[nodiscard]] double left_alone() const {
    constexpr double large = 0.10;
    return std::min(out_.worth, large);
  }

  /// `steps`: in how many it was seen.
  void add(Lever lever, std::size_t steps) {
    if (lever.gain) lever.gain = std::clamp(*lever.gain, 0.0, lever.most);
    if (lever.most <= left_alone()) {
      lever.verdict = Verdict::leave;
      if (lever.why.empty()) lever.why = "it could win at most " + percent(lever.most) + " of " + whole();
      lever.gain.reset();
    } else if (lever.most <= out_.worth) {
      lever.verdict = Verdict::cannot_tell;
      lever.why += (lever.why.empty() ? "it could win at most " + percent(lever.most) + " of " + whole() : "") +
                   "; the " + counted(std::int64_t(split().durations.size()), "step") + " of the trace differ " +
                   (out_.worth < 1 ? "too much to tell less than " + percent(out_.worth) + " of one"
                                   : std::string("by more than a whole one, so that nothing can be told of a part"));
      lever.gain.reset();
    } else if (lever.verdict == Verdict::change && lever.worth() <= out_.worth) {
      lever.verdict = Verdict::leave;
      lever.why += "; that is less than can be told";
    } else if (lever.verdict == Verdict::change && !(split().of_steps && steps >= 2)) {
      lever.verdict = Verdict::cannot_tell;
      lever.why += split().of_steps ? "; of " + counted(static_cast<std::int64_t>(steps), "step") + " only"
                                    : "; of a whole recording, no step";
    }
    levers_.push_back(std::move(lever));
  }

  void add(Lever lever) { add(std::move(lever), split().durations.size()); }

  void add_communication() {
    const double exposed = share(split()[SplitPart::communication]);
    if (!(exposed > 0)) return;
    Lever lever{.what = "communication", .verdict = Verdict::cannot_tell, .most = exposed, .action = {}, .why = {}};
    if (out_.without_communication && enough_steps())
      lever.most = std::min(exposed, 1 - *out_.without_communication / split().step);
    if (lever.most < exposed && lever.most <= out_.worth)
      lever.why = share_in_words(split()[SplitPart::communication]) +
                  " is exposed; rebuilt without its collectives it is " + percent(lever.most) +
                  " shorter, because it waits for other things then";
    lever.action = "hide or speed up what is exposed of it";
    if (lever.most > out_.worth) {
      lever.why = "it could win up to " + percent(lever.most) + " of " + whole();
      ask_for_plans(lever);
    }
    add(std::move(lever));
  }

  void ask_for_plans(Lever& lever) {
    if (!question_) {
      lever.why += profile_ ? ", and plans cannot be compared: " +
                                  (why_no_question_.empty() ? "no step is known" : why_no_question_)
                            : ", and the trace gives no plan to compare: " + why_no_profile_;
      return;
    }
    const Replay* worst = out_.check.worst();
    const bool rebuilt = worst != nullptr ? std::abs(worst->relative_error) <= SelfCheck::largest_trusted_error
                                          : out_.check.as_traced && out_.check.as_traced->known();
    if ((out_.check.models_another_job() && !out_.check.exchanges(*question_)) || !rebuilt) {
      const std::string caution = out_.check.caution();
      const std::string& why = caution.empty() ? out_.check.missing : caution;
      lever.why += ", and no plan can be compared with the job" +
                   (why.empty() ? ", since nothing says how well it is reproduced" : ": " + why);
      return;
    }
    RecommendOptions options;
    options.sensitivity = false;
    rank_over_what_runs(options, out_.check, *question_);
    if (!question_->profile() || !options.baseline) {
      lever.why += ", and the plan that ran is not known as one";
      return;
    }
    const Ranking ranking = recommended(*question_->profile(), question_->cluster(), options);
    const auto at_hand = std::ranges::find_if(ranking.exact, [](const RankedPlan& p) { return p.is_at_hand(); });
    if (at_hand == ranking.exact.end()) return;
    const Prediction &best = at_hand->prediction, &used = ranking.baseline;
    if (const double off = used.iteration / split().step - 1; std::abs(off) > AsTraced::largest_trusted_error) {
      lever.why += ", and plans cannot be compared: what ran is predicted to take " + text_of(used.iteration) +
                   " on the links that the trace shows, " + percent(off, true);
      return;
    }
    const std::string name = text_of(best.plan);
    const std::string ran = out_.check.is_recorded(used.plan) ? "what ran" : text_of(used.plan);
    const double gain = 1 - best.iteration / used.iteration, told = resolution_between(best, used);
    lever.gain = gain;
    if (name == text_of(used.plan) || gain <= told) {
      lever.verdict = Verdict::leave;
      lever.why = "it could win up to " + percent(lever.most) + ", but no plan is told from " + ran +
                  (ran == "what ran" ? "" : ", which ran") + ": the best wins " + percent(std::max(0.0, gain)) +
                  ", and " + percent(told) + " can be told";
      return;
    }
    lever.verdict = Verdict::change;
    lever.action = "run " + name + " in place of " + ran;
    lever.why = text_of(best.iteration) + " in place of " + text_of(used.iteration) + " predicted, " + percent(gain) +
                " less; " + percent(told) + " can be told";
    if (ranking.as_good && ranking.exact.begin() == at_hand)
      lever.why +=
          ", so that " + text_of(ranking.as_good->low) + " to " + text_of(ranking.as_good->high) + " are as good";
    if (text_of(used.plan).starts_with("layout(zero=")) lever.why += ", where the whole state fits into each device";
    settings_ = at_hand->settings;
  }

  /// What a rank waits for messages of other stages, as a part of its waiting for late ranks; nothing where one rank
  /// holds up all others, whose messages are late, too.
  [[nodiscard]] Seconds waiting_for_stages(const StepSplit& rank) const {
    Seconds waiting;
    if (straggler_) return waiting;
    for (const SplitCommunication& c : rank.communication)
      if (c.role == CollectiveRole::pipeline) waiting += c.waiting;
    return std::min(waiting, rank[SplitPart::late_ranks]);
  }

  /// Stages wait for one another by the order of their passes, and where one takes longer; nobody is late there.
  void add_pipeline() {
    Seconds waiting;
    for (const StepSplit& rank : out_.ranks) waiting = std::max(waiting, waiting_for_stages(rank));
    if (!(waiting > Seconds(0))) return;
    const Seconds longest = std::ranges::max(out_.ranks, {}, &StepSplit::step).step;
    Lever lever{
        .what = "pipeline", .verdict = Verdict::cannot_tell, .most = waiting / longest, .action = {}, .why = {}};
    lever.action = "fill the pipeline: more micro-batches a step, interleaved stages, stages that take equally long";
    lever.why = "stages wait for one another during up to " + percent(lever.most) +
                " of a step, by the order of their passes and where one takes longer";
    add(std::move(lever));
  }

  void add_late_ranks() {
    Seconds late;
    for (const StepSplit& rank : out_.ranks)
      late = std::max(late, rank[SplitPart::late_ranks] - waiting_for_stages(rank));
    const Seconds longest = std::ranges::max(out_.ranks, {}, &StepSplit::step).step;
    Lever lever{.what = "late ranks", .verdict = Verdict::change, .most = late / longest, .action = {}, .why = {}};
    lever.action = "speed up the rank that the others wait for";
    lever.why = out_.check.lateness.empty() ? "ranks wait for one another" : out_.check.lateness;
    lever.why += "; up to " + percent(lever.most) + " of a step is waiting for it";
    if (!(late > Seconds(0))) return;
    // Without one that stands out, lateness is that of all, and nobody knows what to do about it.
    if (!straggler_) lever.verdict = Verdict::cannot_tell;
    add(std::move(lever), straggler_ ? straggler_->steps.size() : split().durations.size());
  }

  void add_input() {
    if (split()[SplitPart::input] > Seconds(0))
      add({.what = "input",
           .verdict = Verdict::change,
           .most = share(split()[SplitPart::input]),
           .action = "feed the step sooner: more workers of the loader, prefetch_factor, pin_memory=True, data that is "
                     "decoded already",
           .why = share_in_words(split()[SplitPart::input]) + " waits for its next batch"});
  }

  /// Matrix products in single precision, as their kernels' names tell, on a device.
  void add_precision() {
    if (!question_ || split().device.empty() || !(share(split()[SplitPart::products]) > left_alone())) return;
    const Answer<Profile> half = profile_after(scenario_of("amp"), *profile_);
    if (!half) return;
    Lever lever{.what = "precision", .verdict = Verdict::cannot_tell, .action = {}, .why = {}};
    lever.most = std::max(0.0, (lone_step_time(*profile_) - lone_step_time(*half)) / split().step);
    lever.action = "try mixed precision, torch.autocast(\"cuda\", dtype=torch.bfloat16), where the model bears it";
    lever.why = "its matrix products are of single precision, by the names of their kernels; whatif --what amp tells " +
                percent(lever.most) + " less, against products without TF32";
    if (lever.most > left_alone()) add(std::move(lever));
  }

  /// Calls in which the driver hands out device memory or takes it back, for which the device stands still.
  void add_allocator() {
    if (split().device.empty()) return;
    const Trace& trace = documents_.traces[out_.shown];
    std::map<std::string_view, std::pair<std::int64_t, std::int64_t>> calls;  // time and number
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = std::numeric_limits<std::int64_t>::min();
    for (const Event& e : trace.events) {
      if (e.kind == EventKind::annotation || e.kind == EventKind::device_annotation) continue;
      first = std::min(first, e.start_ns), last = std::max(last, e.end_ns());
      if (e.kind != EventKind::runtime_call || !is_allocation(trace.text(e.name))) continue;
      auto& [time, count] = calls[trace.text(e.name)];
      time += e.duration_ns;
      ++count;
    }
    const auto longest = std::ranges::max_element(calls, {}, [](const auto& c) { return c.second.first; });
    if (longest == calls.end() || !(last > first)) return;
    std::int64_t all = 0;
    for (const auto& [name, call] : calls) all += call.first;
    Lever lever{.what = "allocator", .verdict = Verdict::change, .action = {}, .why = {}};
    const double waits = share(split()[SplitPart::host] + split()[SplitPart::idle]);
    lever.most = std::min(static_cast<double>(all) / static_cast<double>(last - first), waits);
    in_allocator_ = lever.most;
    lever.action =
        "find what gives device memory back in every step: torch.cuda.empty_cache(), a device that is full (a smaller "
        "batch, expandable_segments:True), workspaces of a library";
    lever.why = percent(static_cast<double>(longest->second.first) / static_cast<double>(last - first)) +
                " of the recording is spent in " + std::string(longest->first) + " (" +
                counted(longest->second.second, "call") + "), for which the device stands still";
    if (lever.most > left_alone()) add(std::move(lever));
  }

  void add_host() {
    if (split().device.empty()) return add_idle();
    Lever lever{.what = "host", .verdict = Verdict::cannot_tell, .action = {}, .why = {}};
    // What a rank has alone makes it late.
    lever.most = 1;
    for (const StepSplit& rank : out_.ranks)
      lever.most = std::min(lever.most, (rank[SplitPart::host] + rank[SplitPart::idle]) / rank.step);
    if (!(lever.most > 0)) return;
    lever.action = "launch less: torch.compile(mode=\"reduce-overhead\"), CUDA graphs, fused optimizers, fewer .item()";
    lever.why = "the device waits for the host during " + percent(lever.most) + " of " + whole();
    if (out_.ranks.size() > 1) lever.why += " in the rank where it waits least";
    constexpr double most_of_it = 0.5;
    if (in_allocator_ > most_of_it * lever.most) {
      lever.why += "; most of that is the allocator's";
    } else if (question_ && lever.most > out_.worth) {
      ask_for_graphs(lever);
    }
    add(std::move(lever));
  }

  /// What CUDA graphs win of this step, and of one in which the host needs half as long: so much may be the profiler's.
  void ask_for_graphs(Lever& lever) {
    const auto gain_of = [](const Profile& now) -> std::optional<double> {
      const Answer<Profile> graphs = profile_after(scenario_of("cuda_graphs"), now);
      const Seconds before = lone_step_time(now);
      if (!graphs || !(before > Seconds(0))) return std::nullopt;
      return std::max(0.0, (before - lone_step_time(*graphs)) / before);
    };
    const std::optional<double> gain = gain_of(*profile_);
    if (!gain) return;
    lever.gain = *gain * (lone_step_time(*profile_) / split().step);
    lever.verdict = Verdict::change;
    lever.why += "; with CUDA graphs " + std::string(*lever.gain < lever.most ? "" : "at most ") +
                 percent(std::min(*lever.gain, lever.most)) + " less is predicted";
    if (!(*lever.gain > out_.worth)) return;
    Profile sooner = *profile_;
    scale_host_work(sooner, least_trusted_scale);
    const double least = std::min(gain_of(sooner).value_or(0), *lever.gain);
    profiler_matters_ = true;
    lever.why += ", " + percent(least) + " where half of the host's work is the profiler's";
    if (least > out_.worth) return;
    lever.verdict = Verdict::cannot_tell;
    lever.gain.reset();
  }

  /// DDP's buffers, which it sends round ahead of the forward pass.
  void add_buffers() {
    if (!profile_ || !split().of_steps) return;
    const Seconds time = time_of_buffers(*profile_);
    if (!(time > Seconds(0))) return;
    Lever lever{.what = "buffers", .verdict = Verdict::change, .most = share(time), .action = {}, .why = {}};
    lever.action = "DistributedDataParallel(model, broadcast_buffers=False), where each rank may keep its own";
    lever.why = text_of(time) + " of " + whole() + " send the module's buffers round before the forward pass";
    const std::optional<AsTraced>& now = out_.check.as_traced;
    if (now && now->known() && now->left_out.empty()) {
      Profile kept = *profile_;  // with its messages, which a what-if forgets
      kept.communication.before = {};
      const AsTraced then = as_traced(kept);
      if (then.known()) lever.gain = std::max(0.0, (now->predicted - then.predicted) / split().step);
      if (lever.gain) lever.why += "; " + percent(*lever.gain) + " less is predicted without";
    }
    add(std::move(lever));
  }

  /// Where the host computes: what is between its operators.
  void add_idle() {
    const Seconds idle = split()[SplitPart::host] + split()[SplitPart::idle];
    if (idle > Seconds(0))
      add({.what = "host",
           .verdict = Verdict::cannot_tell,
           .most = share(idle),
           .action = "look with Python's stack (with_stack=True) at what runs between the operators",
           .why = "during " + share_in_words(idle) + " no operator computes"});
  }

  void add_copies() {
    const SplitCopies& copies = split().copies;
    add_copies("copies", copies.from_host, "copies from the host run",
               "copy beside compute: pin_memory=True and .to(device, non_blocking=True), a prefetching loader");
    add_copies("copies to the host", copies.to_host, "copies to the host run",
               "read fewer values back: .item(), .cpu(), printed losses; what is needed, to pinned memory with "
               "non_blocking=True");
    add_copies("copies of unknown kind", split().other_copies(),
               "copies run whose names do not say what they are between,", "look in the trace at what issues them");
    add_copies_on_device();
  }

  void add_copies(std::string_view what, Seconds time, const std::string& run, std::string action) {
    if (time > Seconds(0))
      add({.what = what,
           .verdict = Verdict::cannot_tell,
           .most = share(time),
           .action = std::move(action),
           .why = "during " + share_in_words(time) + " " + run + " and no kernel does"});
  }

  /// FSDP lays parameters and gradients out for its messages; alone on its device it copies in place of sending.
  void add_copies_on_device() {
    const auto& [time, sharding, from_host, to_host] = split().copies;
    if (!(time > Seconds(0))) return;
    Lever lever{
        .what = "copies on the device",
        .verdict = Verdict::cannot_tell,
        .most = share(time),
        .action = "copy less: .contiguous(), .clone(), torch.cat() and copy_() of large tensors, zeroed buffers",
        .why = "during " + share_in_words(time) + " the device copies within its own memory, and no kernel runs"};
    if (sharding > time * 0.5) {
      const bool alone = out_.workers == 1;
      lever.action = alone ? "train without fully_shard where one device is all there is" : "";
      lever.why += std::string("; ") + (sharding < time ? "most of it is FSDP's, " : "FSDP's, ") +
                   (alone ? "which copies where it would send to other devices"
                          : "which lays out what it sends, and nothing spares it that");
      if (!alone) lever.verdict = Verdict::leave;
    }
    add(std::move(lever));
  }

  void decide() {
    std::ranges::stable_sort(levers_, std::greater{}, &Lever::worth);
    for (Lever& lever : levers_) {
      const bool first = lever.verdict == Verdict::change && out_.now.empty();
      (first ? out_.now : lever.verdict == Verdict::leave ? out_.not_now : out_.next).push_back(std::move(lever));
    }
    // What can be changed comes before what is not known.
    std::ranges::stable_partition(out_.next, [](const Lever& l) { return l.verdict == Verdict::change; });
    if (documents_.traces.size() > 1 && !out_.check.cautions.empty()) {
      out_.verdict = Verdict::cannot_tell;
      out_.answer = out_.check.cautions.front();
      std::ranges::move(out_.now, std::inserter(out_.next, out_.next.begin()));
      out_.now.clear();
      return;
    }
    const std::string computes = percent(share(split().compute())) + " of it computes";
    if (!out_.now.empty()) {
      const Lever& first = out_.now.front();
      out_.verdict = Verdict::change;
      out_.answer = first.action + ": " + first.why + larger_than(first);
      if (first.what == "communication") out_.settings = settings_;
      return;
    }
    if (!out_.next.empty()) return decide_open(out_.next.front());
    out_.verdict = Verdict::leave;
    out_.answer = computes + ", and nothing beside it is worth a change; for compute itself see 'stepcast whatif'";
  }

  /// Nothing is to be changed now; `first` is the most that could be.
  void decide_open(const Lever& first) {
    constexpr double little = 0.05;  // judgement: nobody looks for a change that wins less at best
    if (first.verdict == Verdict::cannot_tell && first.most < little && first.most > left_alone() && enough_steps()) {
      out_.verdict = Verdict::leave;
      out_.answer = percent(share(split().compute())) + " of the step computes; the most beside it is " +
                    percent(first.most) + ", " + std::string(first.what) + ": " + first.why;
      return;
    }
    out_.verdict = Verdict::cannot_tell;
    out_.answer = std::string(first.what) + ": " + first.why;
    const std::string_view what = first.what;
    if (!first.gain && first.most > out_.worth &&
        (what == "host" || what.starts_with("copies") || what == "pipeline" || what == "late ranks"))
      out_.answer += "; how much of that can be won, the trace does not say";
  }

  /// What could win far more, if somebody could tell how much of it: the largest of these, in words; empty: none.
  [[nodiscard]] std::string larger_than(const Lever& first) const {
    constexpr double far_more = 2;  // judgement
    for (const Lever& lever : out_.next)
      if (lever.verdict == Verdict::cannot_tell && lever.most > far_more * first.worth())
        return ". The larger part is " + std::string(lever.what) + ", up to " + percent(lever.most) +
               " of the step, of which nothing can be told (next)";
    return {};
  }

  void say_what_to_record() {
    const Trace& trace = documents_.traces[out_.shown];
    const bool by_torch = trace.report.format == "kineto";
    const std::size_t steps = split().durations.size();
    if (!split().of_steps || steps < 4)
      out_.record.push_back(
          by_torch ? "six steps, with profiler.step() after each (schedule(wait=1, warmup=2, active=6)): how long a "
                     "step takes, and how sure that is"
                   : "several steps with a mark around each: how long a step takes, and how sure that is");
    if (profiler_matters_)
      out_.record.emplace_back(
          "how long a step takes without the profiler, which slows the host down: whatif --what cuda_graphs --step "
          "TIME "
          "tells what graphs win of it");
    if (!profile_ && by_torch)
      out_.record.push_back(
          "record_shapes=True, forward and backward pass: the plans that could win some of it "
          "(without: " +
          why_no_profile_ + ")");
    if (out_.workers > std::ssize(documents_.traces) && split().exposed() > Seconds(0))
      out_.record.push_back("the traces of all " + std::to_string(out_.workers) +
                            " ranks: what of its communication is waiting for a late one, and for which");
    if (split().device.empty() && by_torch && trace.machine_devices > 0)
      out_.record.emplace_back("activities=[CPU, CUDA]: what the device does");
  }

  const Documents& documents_;
  Explanation out_;
  std::optional<Profile> profile_;
  std::optional<PreparedQuestion> question_;
  std::optional<Straggler> straggler_;
  std::string why_no_profile_, why_no_question_, settings_;
  double in_allocator_ = 0;        ///< share of a step
  bool profiler_matters_ = false;  ///< to what the host is told to be worth
  std::vector<Lever> levers_;
};

}  // namespace

std::string_view name_of(Verdict verdict) {
  constexpr std::string_view names[] = {"change this", "leave it", "cannot tell"};
  return names[static_cast<std::size_t>(verdict)];
}

Explanation explanation_of(const Documents& documents, const ProfileOptions& options) {
  if (documents.traces.empty())
    throw InputError("explain", "traces, whose events say what took how long", "a profile",
                     "'stepcast predict' and 'stepcast recommend' answer from a profile");
  if (is_pipelined(documents.traces))
    throw InputError(documents.traces.front().source, "a trace of a framework", "the passes of a pipelined job",
                     "'stepcast replay' on the command line rebuilds them");
  return Explainer(documents, options).result();
}

}  // namespace stepcast
