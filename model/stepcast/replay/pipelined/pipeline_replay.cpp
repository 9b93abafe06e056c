// Pipeline replay: rebuilt steps, what-ifs, and who is slow.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/replay/pipelined/job.hpp>
#include <stepcast/replay/pipelined/pipeline_replay.hpp>
#include <stepcast/replay/pipelined/schedules.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace stepcast {
namespace {

using namespace pipelined;

constexpr double smallest_cost = 0.01;
constexpr double noticeable_factor = 1.02;
constexpr std::size_t most_candidates = 32;

/// 1 where there is nothing to compare with.
double ratio(Seconds is, Seconds of) { return of > Seconds(0) ? is / of : 1; }

/// Summed work of each type on each worker in one step: [worker * types + type].
std::vector<double> sums_of(const PipelineJob& job, const JobStep& step) {
  std::vector<double> sums(job.workers.size() * job.types.size(), 0);
  for (std::size_t o = 0; o < step.operations.size(); ++o)
    sums[step.operations[o].worker * job.types.size() + step.operations[o].type] += step.work[o];
  return sums;
}

class WhatIf {
 public:
  explicit WhatIf(const PipelineJob& job) : job_(job), half_(job.steps.size()) {
    for (const JobStep& step : job.steps) sums_.push_back(sums_of(job, step));
    on_stage_.resize(static_cast<std::size_t>(job.stages));
    for (std::size_t w = 0; w < job.workers.size(); ++w)
      on_stage_[static_cast<std::size_t>(job.workers[w].stage)].push_back(w);
    for (std::size_t s = 0; s < job.steps.size(); ++s) stage_sums_.push_back(sums_of_stages(s));
    for (std::size_t s = 0; s < half_.size(); ++s) half_[s] = s % 2 == 0;
    other_half_ = half_;
    if (half_.size() > 1) other_half_.flip();
    lags_[0] = lags_of(job, other_half_);  // of even steps, from odd ones
    lags_[1] = lags_of(job, half_);
    find_even();
  }

  PipelineReplay replay() {
    PipelineReplay out;
    out.stages = job_.stages, out.replicas = job_.replicas, out.micro_batches = job_.micro_batches;
    out.chunks = job_.chunks;
    out.notes = job_.notes;
    for (std::size_t s = 0; s < job_.steps.size(); ++s) out.steps.push_back(step_of(s));
    const auto over_steps = [&](auto value) {
      std::vector<double> values;
      for (const PipelineStepReplay& step : out.steps) values.push_back(value(step));
      return median(std::move(values));
    };
    const auto error = [](Seconds is, Seconds should) { return std::abs(is / should - 1); };
    out.median_error = over_steps([&](const PipelineStepReplay& s) { return error(s.rebuilt, s.measured); });
    out.forecast_error = over_steps([&](const PipelineStepReplay& s) { return error(s.forecast, s.measured); });
    out.slowdown = over_steps([](const PipelineStepReplay& s) { return ratio(s.measured, s.without_slow_workers); });
    out.measured = Seconds(over_steps([](const PipelineStepReplay& s) { return s.measured.value(); }));
    out.rebuilt = Seconds(over_steps([](const PipelineStepReplay& s) { return s.rebuilt.value(); }));
    out.forecast = Seconds(over_steps([](const PipelineStepReplay& s) { return s.forecast.value(); }));
    out.unevenness = unevenness();
    find_slow(out);
    add_schedules(job_, half_, out);
    say_unexplained(out);
    return out;
  }

 private:
  using Factors = std::vector<double>;  // on the work of [worker * types + type]

  [[nodiscard]] double& at(Factors& f, std::size_t w, std::size_t t) const { return f[w * job_.types.size() + t]; }
  [[nodiscard]] double sum(std::size_t s, std::size_t w, std::size_t t) const {
    return sums_[s][w * job_.types.size() + t];
  }

  Seconds rebuilt(std::size_t s, std::span<const double> work) {
    rebuild(job_.steps[s], work, lags_[s % 2], scratch_);
    return Seconds(scratch_.step);
  }
  Seconds rebuilt_with(std::size_t s, const Factors& factors) {
    const JobStep& step = job_.steps[s];
    work_.resize(step.work.size());
    for (std::size_t o = 0; o < work_.size(); ++o)
      work_[o] = step.work[o] * factors[step.operations[o].worker * job_.types.size() + step.operations[o].type];
    return rebuilt(s, work_);
  }

  PipelineStepReplay step_of(std::size_t s) {
    const JobStep& step = job_.steps[s];
    PipelineStepReplay out;
    out.step = step.number;
    out.measured = Seconds(step.measured);
    out.rebuilt = rebuilt(s, step.work);
    out.forecast = rebuilt(s, typical_work(job_, step, s % 2 == 0 ? other_half_ : half_));
    Factors workers(sums_[s].size(), 1), stages = workers;
    for (std::size_t w = 0; w < job_.workers.size(); ++w)
      for (std::size_t t = 0; t < job_.types.size(); ++t) {
        if (!computes(job_.types[t].role)) continue;
        at(workers, w, t) = std::min(1.0, to_peers(s, w, t));
        if (is_pass(job_.types[t].role)) at(stages, w, t) = to_mean_stage(s, w, t);
      }
    out.without_slow_workers = rebuilt_with(s, workers);
    out.without_slow_stages = rebuilt_with(s, stages);
    work_.resize(step.work.size());
    for (std::size_t o = 0; o < work_.size(); ++o) work_[o] = even_[step.operations[o].type];
    out.even = rebuilt(s, work_);
    return out;
  }

  /// The same work on the other replicas of the stage over that on this worker; 1 where there are none.
  [[nodiscard]] double to_peers(std::size_t s, std::size_t w, std::size_t t) const {
    std::vector<double> peers;
    for (const std::size_t v : on_stage_[static_cast<std::size_t>(job_.workers[w].stage)])
      if (v != w) peers.push_back(sum(s, v, t));
    const double own = sum(s, w, t);
    return peers.empty() || own <= 0 ? 1 : median(std::move(peers)) / own;
  }
  /// Work of the stages: the (lower) median of their replicas, so that a slow worker does not make a slow stage.
  [[nodiscard]] std::vector<double> sums_of_stages(std::size_t s) const {
    std::vector<double> sums, replicas;
    for (const std::vector<std::size_t>& workers : on_stage_)
      for (std::size_t t = 0; t < job_.types.size(); ++t) {
        replicas.clear();
        for (const std::size_t w : workers) replicas.push_back(sum(s, w, t));
        std::ranges::nth_element(replicas, replicas.begin() + (std::ssize(replicas) - 1) / 2);
        sums.push_back(replicas[(replicas.size() - 1) / 2]);
      }
    return sums;
  }
  [[nodiscard]] double stage_sum(std::size_t s, std::int64_t stage, std::size_t t) const {
    return stage_sums_[s][static_cast<std::size_t>(stage) * job_.types.size() + t];
  }
  [[nodiscard]] double to_mean_stage(std::size_t s, std::size_t w, std::size_t t) const {
    double mean = 0;
    for (std::int64_t stage = 0; stage < job_.stages; ++stage)
      mean += stage_sum(s, stage, t) / static_cast<double>(job_.stages);
    const double own = stage_sum(s, job_.workers[w].stage, t);
    return own > 0 ? mean / own : 1;
  }
  [[nodiscard]] double to_other_stages(std::size_t s, std::int64_t stage, std::size_t t) const {
    std::vector<double> others;
    for (std::int64_t other = 0; other < job_.stages; ++other)
      if (other != stage) others.push_back(stage_sum(s, other, t));
    const double own = stage_sum(s, stage, t);
    return others.empty() || own <= 0 ? 1 : median(std::move(others)) / own;
  }

  /// Every operation like the mean of its type over workers, stages and steps (communication: the median).
  void find_even() {
    std::vector<std::vector<double>> seen(job_.types.size());
    for (const JobStep& step : job_.steps)
      for (std::size_t o = 0; o < step.operations.size(); ++o) seen[step.operations[o].type].push_back(step.work[o]);
    for (std::size_t t = 0; t < seen.size(); ++t) {
      std::ranges::sort(seen[t]);  // the last bit of a sum is not a matter of the order in which files were named
      double mean = 0;
      for (const double work : seen[t]) mean += work / static_cast<double>(seen[t].size());
      const bool meets = job_.types[t].together != Together::alone || !computes(job_.types[t].role);
      even_.push_back(meets ? median(std::move(seen[t])) : mean);
    }
  }

  /// Median over the steps of rebuilt over even, both by a host that is never late.
  double unevenness() {
    const std::vector<double> no_lags(job_.lags.size() + 1, 0);
    std::vector<double> ratios, even;
    for (const JobStep& step : job_.steps) {
      even.clear();
      for (const JobOperation& o : step.operations) even.push_back(even_[o.type]);
      rebuild(step, step.work, no_lags, scratch_);
      const double own = scratch_.step;
      rebuild(step, even, no_lags, scratch_);
      if (scratch_.step > 0) ratios.push_back(own / scratch_.step);
    }
    return median(std::move(ratios));
  }

  /// Passes of one worker or stage over those of its peers: medians over the steps.
  template <class Ratio>
  [[nodiscard]] Slowness slowness(const Ratio& ratio_of_sums) const {
    Slowness out;
    std::vector<double> all, forward, backward;
    for (std::size_t s = 0; s < job_.steps.size(); ++s) {
      const auto [own_f, own_b, peer_f, peer_b] = ratio_of_sums(s);
      if (peer_f + peer_b > 0) all.push_back((own_f + own_b) / (peer_f + peer_b));
      if (peer_f > 0) forward.push_back(own_f / peer_f);
      if (peer_b > 0) backward.push_back(own_b / peer_b);
    }
    if (all.empty()) return out;
    out.factor = median(std::move(all));
    if (!forward.empty()) out.forward = median(std::move(forward));
    if (!backward.empty()) out.backward = median(std::move(backward));
    return out;
  }

  struct Sums {
    double own_forward = 0, own_backward = 0, peer_forward = 0, peer_backward = 0;
  };
  template <class Own, class Factor>
  [[nodiscard]] Sums sums(const Own& own, const Factor& to_peer) const {
    Sums out;
    for (std::size_t t = 0; t < job_.types.size(); ++t) {
      if (!is_pass(job_.types[t].role)) continue;
      const bool forward = job_.types[t].role == Role::forward;
      const double work = own(t);
      (forward ? out.own_forward : out.own_backward) += work;
      (forward ? out.peer_forward : out.peer_backward) += work * to_peer(t);
    }
    return out;
  }

  /// Median over the steps of the share of the step that is lost.
  template <class Factor>
  [[nodiscard]] double cost(const PipelineReplay& out, const Factor& factor) {
    std::vector<double> shares;
    for (std::size_t s = 0; s < job_.steps.size(); ++s) {
      Factors factors(sums_[s].size(), 1);
      for (std::size_t w = 0; w < job_.workers.size(); ++w)
        for (std::size_t t = 0; t < job_.types.size(); ++t)
          if (computes(job_.types[t].role)) at(factors, w, t) = factor(s, w, t);
      shares.push_back(1 - ratio(rebuilt_with(s, factors), out.steps[s].rebuilt));
    }
    return median(std::move(shares));
  }

  void say_unexplained(PipelineReplay& out) const {
    std::vector<UnexplainedWait> waits;
    static_cast<void>(lags_of(job_, std::vector<bool>(job_.steps.size(), true), &waits));
    const auto worst = std::ranges::max_element(waits, {}, &UnexplainedWait::longest);
    if (worst != waits.end() && worst->longest > smallest_cost * out.measured.value() && worst + 1 != waits.end())
      out.notes.push_back("waits that nothing recorded explains, and that are not kept: " +
                          words_of(job_, job_.lags[static_cast<std::size_t>(worst - waits.begin())]) + ", " +
                          std::to_string(worst->unexplained) + " of " + std::to_string(worst->seen) + " times, up to " +
                          text_of(Seconds(worst->longest)));
    if (job_.unmatched > 0)
      out.notes.push_back(std::to_string(job_.unmatched) + " sends and receives have no counterpart");
  }

  void find_slow(PipelineReplay& out) {
    find_slow_workers(out);
    find_slow_stages(out);
    for (std::vector<Slowness>* slow : {&out.workers, &out.stages_slow})
      std::ranges::stable_sort(*slow, [](const Slowness& a, const Slowness& b) { return a.step_cost > b.step_cost; });
    out.cause = cause_of(out);
  }

  /// What each costs takes a rebuilt job: of many workers only the slowest are asked.
  void find_slow_workers(PipelineReplay& out) {
    std::vector<std::pair<Slowness, std::size_t>> candidates;
    for (std::size_t w = 0; w < job_.workers.size(); ++w) {
      Slowness slow = slowness([&](std::size_t s) {
        return sums([&](std::size_t t) { return sum(s, w, t); }, [&](std::size_t t) { return to_peers(s, w, t); });
      });
      const JobWorker& worker = job_.workers[w];
      slow.worker = worker.rank, slow.stage = worker.stage, slow.replica = worker.replica;
      if (slow.factor >= noticeable_factor) candidates.emplace_back(slow, w);
    }
    std::ranges::stable_sort(candidates, [](const auto& a, const auto& b) { return a.first.factor > b.first.factor; });
    if (candidates.size() > most_candidates) candidates.resize(most_candidates);
    for (auto& [slow, w] : candidates) {
      slow.step_cost = cost(
          out, [this, w = w](std::size_t s, std::size_t v, std::size_t t) { return v == w ? to_peers(s, v, t) : 1.0; });
      if (slow.step_cost >= smallest_cost) out.workers.push_back(slow);
    }
  }

  void find_slow_stages(PipelineReplay& out) {
    for (std::int64_t stage = 0; stage < job_.stages && job_.stages > 1; ++stage) {
      Slowness slow = slowness([&](std::size_t s) {
        return sums([&](std::size_t t) { return stage_sum(s, stage, t); },
                    [&](std::size_t t) { return to_other_stages(s, stage, t); });
      });
      if (slow.factor < noticeable_factor) continue;
      slow.stage = stage;
      slow.step_cost = cost(out, [&](std::size_t s, std::size_t w, std::size_t t) {
        return job_.workers[w].stage == stage && is_pass(job_.types[t].role) ? to_other_stages(s, stage, t) : 1.0;
      });
      if (slow.step_cost >= smallest_cost) out.stages_slow.push_back(slow);
    }
  }

  static std::string times(double factor) { return fixed(factor, 2) + " x"; }
  static std::string cause_of(const PipelineReplay& out) {
    const bool worker = !out.workers.empty(), stage = !out.stages_slow.empty();
    if (!worker && !stage) return {};
    if (worker && (!stage || out.workers[0].step_cost >= out.stages_slow[0].step_cost)) {
      const Slowness& w = out.workers[0];
      return "worker " + std::to_string(w.worker) + " (replica " + std::to_string(w.replica) + ", stage " +
             std::to_string(w.stage) + "): its passes take " + times(w.factor) + " those of its peers";
    }
    const Slowness& s = out.stages_slow[0];
    return "stage " + std::to_string(s.stage) + ": its passes take " + times(s.factor) +
           " those of the other stages (forward " + times(s.forward) + ", backward " + times(s.backward) + ")";
  }

  const PipelineJob& job_;
  std::vector<bool> half_, other_half_;
  std::vector<double> lags_[2];
  std::vector<std::vector<double>> sums_;           // a step
  std::vector<std::vector<double>> stage_sums_;     // a step: [stage * types + type]
  std::vector<std::vector<std::size_t>> on_stage_;  // workers
  std::vector<double> even_;
  std::vector<double> work_;
  Rebuilt scratch_;
};

}  // namespace

std::string PipelineReplay::caution() const {
  constexpr double largest_trusted_error = 0.10;  // as of other traces (SelfCheck)
  if (median_error <= largest_trusted_error) return {};
  return "the passes, rebuilt, do not give back the measured steps (limit: " + percent(largest_trusted_error) +
         "): what they wait for is not recorded, and causes and other schedules are doubtful";
}

Answer<PipelineReplay> pipeline_replay_of(std::span<const Trace> traces) {
  const Answer<PipelineJob> job = job_of(traces);
  if (!job) return Inapplicable{job.reason()};
  return WhatIf(*job).replay();
}

}  // namespace stepcast
