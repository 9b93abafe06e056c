// Presets are tuned, ranked and compared; of equals the simplest is preferred.
#include <stepcast/base/statistics.hpp>
#include <stepcast/prediction/hot_loop.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/prediction/training_run.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <tuple>

namespace stepcast {
namespace {

bool allowed(Fidelity fidelity, const RecommendOptions& options) {
  switch (fidelity) {
    case Fidelity::exact:
      return true;
    case Fidelity::lossy:
      return options.allow_lossy;
    case Fidelity::stale:
      return options.allow_stale;
    case Fidelity::periodic:
      return options.allow_periodic;
  }
  return false;
}

/// One plan by the model that the caller has for the job, else by its layers.
Answer<Prediction> predicted_by(const RecommendOptions& options, const Profile& profile, const Cluster& cluster,
                                const PlanSpec& plan) {
  return options.model ? options.model(plan) : predicted(profile, cluster, plan);
}

/// Tells the caller that work goes on; what it throws ends the search.
void heed(const RecommendOptions& options) {
  if (options.heed) options.heed();
}

// Step times with the network `factor` times as fast; infinite for plans that cannot run.
struct Contest {
  double factor, champion;
  std::vector<double> rivals;  ///< of one that was not asked: the better of its neighbours
  [[nodiscard]] std::vector<double>::const_iterator fastest() const {
    return std::min_element(rivals.begin(), rivals.end());
  }
  [[nodiscard]] bool champion_holds(double tolerance) const { return champion <= *fastest() * (1 + tolerance); }
};

class Contests {
 public:
  Contests(const Profile& profile, const Cluster& cluster, const std::vector<PlanSpec>& rivals,
           const PlanSpec& champion, double tolerance, const RecommendOptions& options)
      : job_(std::make_shared<const PreparedProfile>(profile), cluster),
        rivals_(rivals),
        champion_(champion),
        tolerance_(tolerance),
        options_(options) {}

  Contest at(double factor) {
    const PreparedJob there = job_at(factor);
    Contest contest{factor, time_of(champion_, there), {}};
    for (const PlanSpec& rival : rivals_) contest.rivals.push_back(time_of(rival, there));
    return contest;
  }

  /// Moves `inside`, where the champion holds, as far towards `end` as it does; returns a contest beyond that it loses,
  /// nothing if it holds all the way. Step times are smooth but for jumps where the order of a queue changes, and may
  /// rise with the bandwidth there, so that both ends say little of what lies between.
  std::optional<Contest> first_lost(Contest& inside, Contest end) {
    // To two per cent while both ends are its own, to one where it loses.
    const double finest = end.champion_holds(tolerance_) ? 1.022 : 1.011;
    if (std::max(inside.factor / end.factor, end.factor / inside.factor) > finest) {
      Contest middle = between(inside, end);
      if (std::optional<Contest> lost = first_lost(inside, std::move(middle))) return lost;
      return first_lost(inside, std::move(end));
    }
    if (!end.champion_holds(tolerance_)) return end;
    inside = std::move(end);
    return std::nullopt;
  }

 private:
  [[nodiscard]] PreparedJob job_at(double factor) const {
    return PreparedJob(job_.given, with_bandwidth_scaled(job_.cluster, factor));
  }
  double time_of(const PlanSpec& spec, const PreparedJob& there) {
    heed(options_);
    const Answer<Seconds> time = loop_.iteration(there, spec);
    return time ? time->value() : HUGE_VAL;
  }

  /// Halfway. Rivals are not asked if the champion keeps up there with what they reach at either end; nor is one that
  /// is far behind.
  Contest between(const Contest& a, const Contest& b) {
    constexpr double far = 1.05;
    const PreparedJob there = job_at(std::sqrt(a.factor * b.factor));
    Contest middle{std::sqrt(a.factor * b.factor), time_of(champion_, there), {}};
    const bool safe = middle.champion <= std::min(*a.fastest(), *b.fastest()) * (1 + tolerance_);
    const double behind = far * std::max({a.champion, middle.champion, b.champion});
    for (std::size_t i = 0; i < rivals_.size(); ++i) {
      const double better = std::min(a.rivals[i], b.rivals[i]);
      middle.rivals.push_back(!safe && better < behind ? time_of(rivals_[i], there) : better);
    }
    return middle;
  }

  PreparedJob job_;
  const std::vector<PlanSpec>& rivals_;
  const PlanSpec& champion_;
  double tolerance_;
  const RecommendOptions& options_;
  HotLoop loop_;
};

std::optional<Range> range_of(const Profile& profile, const Cluster& cluster, const std::vector<PlanSpec>& candidates,
                              const PlanSpec& champion, double tolerance, const RecommendOptions& options) {
  constexpr int doublings = 7;
  const BytesPerSecond bandwidth = cluster.nodes > 1 ? cluster.network.bandwidth : cluster.inside.bandwidth;
  Contests contests(profile, cluster, candidates, champion, tolerance, options);
  const Contest here = contests.at(1);
  const auto edge = [&](int direction, std::string& beyond) {
    Contest inside = here;
    for (int doubling = 1; doubling <= doublings; ++doubling) {
      const auto lost = contests.first_lost(inside, contests.at(std::exp2(direction * doubling)));
      if (!lost) continue;
      beyond = text_of(candidates[static_cast<std::size_t>(lost->fastest() - lost->rivals.begin())]);
      break;
    }
    return inside.factor;
  };
  Range range;
  range.inside = cluster.nodes == 1;
  range.tolerance = tolerance;
  range.low = bandwidth * edge(-1, range.below);
  range.high = bandwidth * edge(+1, range.above);
  return range;
}

/// What plans are ranked by: the step, of a whole run the mean one.
Seconds rank_of(const Prediction& p) { return p.run ? p.run->duration / p.run->iterations : p.iteration; }

bool faster(const RankedPlan& a, const RankedPlan& b) { return rank_of(a.prediction) < rank_of(b.prediction); }

/// What is in use, or divides more than the batch: no plan of this list that can be predicted anywhere else.
bool has_name_only(const RankedPlan& p) { return p.prediction.plan.own != nullptr; }

// Puts the plan that takes the fewest machines and no special software, best what is in use or the framework's own,
// first among the first `equals`, which are as good as the best.
void prefer_simplest(std::span<RankedPlan> ranked, std::ptrdiff_t equals) {
  const auto burden = [](const RankedPlan& p) {
    const Strategy& strategy = *p.prediction.plan.strategy;
    return std::tuple(p.machines, !requirements_of(p.prediction.plan).empty(), !strategy.framework.empty(), !p.in_use,
                      has_name_only(p), strategy.name != "ddp");
  };
  const auto simplest =
      std::min_element(ranked.begin(), ranked.begin() + equals,
                       [&](const RankedPlan& a, const RankedPlan& b) { return burden(a) < burden(b); });
  std::rotate(ranked.begin(), simplest, simplest + 1);
}

/// How many plans from the fastest on cannot be told from it.
std::ptrdiff_t count_of_equals(std::span<const RankedPlan> ranked) {
  const Prediction& fastest = ranked.front().prediction;
  const auto end = std::ranges::find_if(ranked, [&](const RankedPlan& p) {
    return rank_of(p.prediction) > rank_of(fastest) * (1 + resolution_between(fastest, p.prediction));
  });
  return end - ranked.begin();
}

/// The order in which plans are recommended.
void put_in_order(std::vector<RankedPlan>& plans, bool by_step) {
  if (plans.empty()) return;
  std::stable_sort(plans.begin(), plans.end(), faster);
  if (by_step) {
    const Seconds limit = rank_of(plans.front().prediction) * (1 + indifference);
    const auto slower = std::ranges::find_if(plans, [&](const RankedPlan& p) { return rank_of(p.prediction) > limit; });
    return prefer_simplest(plans, slower - plans.begin());
  }
  const auto others = std::stable_partition(plans.begin(), plans.end(), std::mem_fn(&RankedPlan::is_at_hand));
  if (others == plans.begin()) return;
  const Prediction fastest = plans.front().prediction;
  const std::ptrdiff_t equals = count_of_equals({plans.begin(), others});
  for (RankedPlan& plan : plans) {
    const Seconds limit = rank_of(fastest) * (1 + resolution_between(fastest, plan.prediction));
    plan.as_good_as_any = plan.is_at_hand() ? &plan - plans.data() < equals : rank_of(plan.prediction) <= limit;
  }
  prefer_simplest({plans.begin(), others}, equals);
}

/// The plans among which the first one was chosen.
std::vector<PlanSpec> candidates_of(const Ranking& ranking) {
  std::vector<PlanSpec> plans;
  for (const RankedPlan& plan : ranking.exact)
    if (!has_name_only(plan) && (ranking.by_step || plan.is_at_hand())) plans.push_back(plan.prediction.plan);
  return plans;
}

/// The share of a step by which another plan has to beat the best one to be told from it.
double resolution_of(const Ranking& ranking) {
  if (ranking.by_step) return indifference;
  const Prediction* fastest = &ranking.exact.front().prediction;
  for (const RankedPlan& plan : ranking.exact)
    if (plan.is_at_hand() && plan.prediction.iteration < fastest->iteration) fastest = &plan.prediction;
  return resolution_between(*fastest, ranking.exact.front().prediction);
}

/// A function from the step time of a plan, as it is searched (infinite where it does not apply), to what is asked.
template <class Ask>
auto with_step_times(const Profile& profile, const Cluster& cluster, const RecommendOptions& options, const Ask& ask) {
  if (options.model)
    return ask([&](const PlanSpec& spec) {
      heed(options);
      const Answer<Prediction> p = options.model(spec);
      return p ? p->iteration : Seconds(HUGE_VAL);
    });
  const PreparedJob job(std::make_shared<const PreparedProfile>(profile), cluster);
  HotLoop loop;
  return ask([&](const PlanSpec& spec) {
    heed(options);
    const Answer<Seconds> time = loop.iteration(job, spec);
    return time ? *time : Seconds(HUGE_VAL);
  });
}

PlanSpec tuned_heeding(const Profile& profile, const Cluster& cluster, const PlanSpec& plan,
                       const RecommendOptions& options) {
  return with_step_times(profile, cluster, options,
                         [&](const auto& time_of) { return tuned(time_of, plan, options.search); });
}

std::optional<OptionRange> as_good_of(const Profile& profile, const Cluster& cluster, const Ranking& ranking,
                                      const RecommendOptions& options) {
  const PlanSpec& best = ranking.exact.front().prediction.plan;
  if (best.own || !options.tune) return std::nullopt;
  const double tolerance = resolution_of(ranking);
  std::optional<AsGoodOptions> plans = with_step_times(
      profile, cluster, options, [&](const auto& time_of) { return as_good_options(time_of, best, tolerance); });
  if (!plans) return std::nullopt;
  return OptionRange{std::move(plans->low), std::move(plans->high), tolerance};
}

/// The duration of the run that was asked for, by a plan with and without tuned options.
void add_runs(RankedPlan& plan, const Profile& profile, const Cluster& cluster, const RecommendOptions& options) {
  if (!(options.iterations > 0)) return;
  const auto step_of = [&](const PlanSpec& spec) -> Answer<Seconds> {
    const Answer<Prediction> p = predicted_by(options, profile, cluster, spec);
    if (!p) return Inapplicable{p.reason()};
    return p->iteration;
  };
  for (Prediction* p : {&plan.prediction, &plan.standard})
    if (!p->run) add_run(*p, options.iterations, step_of);
}

// One plan with its tuned options, ready to be compared. What nobody would notice is not worth a setting.
RankedPlan ranked(const Profile& profile, const Cluster& cluster, const Prediction& standard,
                  const RecommendOptions& options) {
  RankedPlan plan;
  plan.standard = standard;
  plan.prediction = standard;
  if (options.tune) {
    const PlanSpec better = tuned_heeding(profile, cluster, standard.plan, options);
    const Answer<Prediction> p = predicted_by(options, profile, cluster, better);
    if (p && p->iteration * (1 + indifference) < standard.iteration) plan.prediction = *p;
  }
  add_runs(plan, profile, cluster, options);
  plan.settings = settings_of(plan.prediction.plan);
  plan.machines = cluster.nodes + (needs_servers(plan.prediction.plan) ? cluster.servers : 0);
  plan.elsewhere = elsewhere_of(plan.prediction.plan, cluster);
  return plan;
}

// What is in use stays in use where nobody can tell that other options of the same strategy are faster, unless somebody
// names them.
void keep_in_use(RankedPlan& plan, const Ranking& ranking, const RecommendOptions& options) {
  const Prediction& used = ranking.baseline;
  const double share = ranking.by_step ? indifference : resolution_between(plan.prediction, used);
  if (!options.baseline || !options.plans.empty() || plan.prediction.plan.strategy != used.plan.strategy ||
      !(plan.prediction.plan.modifiers.empty() && used.plan.modifiers.empty()) ||
      collective_of(plan.prediction.plan) != collective_of(used.plan) ||
      used.iteration > plan.prediction.iteration * (1 + share))
    return;
  plan.prediction = used;
  plan.settings = settings_of(used.plan);
}

// Default settings are kept where no plan that is at hand can be told from what they take: a setting has to be worth
// writing down.
void keep_defaults(Ranking& ranking) {
  if (ranking.by_step) return;
  const Prediction* fastest = nullptr;
  for (const RankedPlan& plan : ranking.exact)
    if (plan.is_at_hand() && (fastest == nullptr || rank_of(plan.prediction) < rank_of(*fastest)))
      fastest = &plan.prediction;
  if (fastest == nullptr) return;
  const Prediction best = *fastest;
  for (RankedPlan& plan : ranking.exact) {
    if (!plan.is_at_hand() || has_name_only(plan) || text_of(plan.prediction.plan) == text_of(plan.standard.plan) ||
        text_of(plan.prediction.plan) == text_of(ranking.baseline.plan) ||
        rank_of(plan.standard) > rank_of(best) * (1 + resolution_between(best, plan.standard)))
      continue;
    plan.prediction = plan.standard;
    plan.settings = settings_of(plan.prediction.plan);
    plan.speed_up = rank_of(ranking.baseline) / rank_of(plan.prediction);
  }
}

// Of every other algorithm the plan that is fastest over it, tuned again, because other messages suit it. Those that
// need hardware of their own are left out: they are plans of their own. So are clusters whose collectives were
// measured: what was measured of one algorithm says nothing fair of the closed forms of the others.
std::optional<OtherCollective> other_collective_of(const Profile& profile, const Cluster& cluster,
                                                   const Ranking& ranking, const RecommendOptions& options) {
  const Answer<CommunicationCost> own = communication_cost(cluster);
  if (!own || own->algorithm() == "table") return std::nullopt;
  std::vector<RankedPlan> over_own, over_others;
  std::copy_if(ranking.exact.begin(), ranking.exact.end(), std::back_inserter(over_own), [&](const RankedPlan& p) {
    const bool offered = ranking.by_step || p.is_at_hand();
    return offered && !has_name_only(p) && collective_of(p.prediction.plan).empty() &&
           !needs_servers(p.prediction.plan);
  });
  for (const CollectiveAlgorithm& algorithm : collective_algorithms()) {
    if (algorithm.needs_switch || algorithm.needs_servers || algorithm.name == own->algorithm()) continue;
    std::optional<Prediction> fastest;
    for (const RankedPlan& plan : over_own) {
      PlanSpec spec = plan.prediction.plan;
      spec.collective = algorithm.name;
      const Answer<Prediction> p = predicted(profile, cluster, spec);
      if (p && (!fastest || p->iteration < fastest->iteration)) fastest = *p;
    }
    if (fastest) over_others.push_back(ranked(profile, cluster, *fastest, options));
  }
  if (over_others.empty()) return std::nullopt;
  // Of algorithms that are as good, the first of the list: they are listed by how common they are.
  const Seconds best = std::min_element(over_others.begin(), over_others.end(), faster)->prediction.iteration;
  const auto chosen = std::find_if(over_others.begin(), over_others.end(), [&](const RankedPlan& p) {
    return p.prediction.iteration <= best * (1 + indifference);
  });
  OtherCollective other{std::move(*chosen), over_own.front()};
  PlanSpec standard = other.plan.prediction.plan;
  standard.options = standard_options(*standard.strategy);
  if (const Answer<Prediction> p = predicted(profile, cluster, standard)) other.plan.standard = *p;
  other.plan.speed_up = ranking.baseline.iteration / other.plan.prediction.iteration;
  // Where a switch adds up gradients faster still, there is nothing left to try.
  const auto first = std::find_if(ranking.exact.begin(), ranking.exact.end(),
                                  [](const RankedPlan& p) { return !needs_servers(p.prediction.plan); });
  const Seconds own_best = std::min_element(over_own.begin(), over_own.end(), faster)->prediction.iteration;
  const Seconds to_beat = std::min(first->prediction.iteration, own_best);
  const double resolved = resolution_between(other.plan.prediction, first->prediction);
  if (other.plan.prediction.iteration * (1 + resolved) >= to_beat) return std::nullopt;
  return other;
}

// A modifier on the one of the best exact plans on which it is fastest: those plans keep their tuned options until
// then.
std::optional<RankedPlan> on_best_base(const Profile& profile, const Cluster& cluster, const ModifierSpec& modifier,
                                       std::span<const RankedPlan> bases, const RecommendOptions& options) {
  constexpr std::size_t tried = 4;
  std::optional<Prediction> fastest;
  for (const RankedPlan& base : bases.first(std::min(tried, bases.size()))) {
    PlanSpec spec = base.prediction.plan;
    if (!spec.modifiers.empty() || has_name_only(base)) continue;
    spec.modifiers.push_back(modifier);
    const Answer<Prediction> p = predicted_by(options, profile, cluster, spec);
    if (p && (!fastest || p->iteration < fastest->iteration)) fastest = *p;
  }
  if (!fastest) return std::nullopt;
  RankedPlan plan = ranked(profile, cluster, *fastest, options);
  PlanSpec standard = fastest->plan;
  standard.options = standard_options(*standard.strategy);
  if (const Answer<Prediction> p = predicted_by(options, profile, cluster, standard)) {
    plan.standard = *p;
    if (p->iteration < plan.prediction.iteration) plan.prediction = *p, plan.settings = settings_of(p->plan);
    add_runs(plan, profile, cluster, options);
  }
  return plan;
}

// DDP's hook that halves gradients, which whoever waits for the network turns on first.
std::optional<RankedPlan> halves_of(const Profile& profile, const Cluster& cluster, const Ranking& ranking,
                                    const RecommendOptions& options) {
  const RankedPlan& best = ranking.exact.front();
  if (options.allow_lossy || !options.plans.empty() || cluster.workers() == 1) return std::nullopt;
  const PlanSpec hooked = plan_spec_of("ddp+fp16");
  const auto is_ddp = [&](const RankedPlan& p) {
    return !has_name_only(p) && p.prediction.plan.strategy == hooked.strategy;
  };
  const auto ddp = std::ranges::find_if(ranking.exact, is_ddp);
  if (ddp == ranking.exact.end()) return std::nullopt;
  std::optional<RankedPlan> half =
      on_best_base(profile, cluster, hooked.modifiers.front(), std::span(&*ddp, 1), options);
  constexpr double worth_rounding = 0.1;  // judgement: whoever rounds gradients wants a good part of the step for it
  if (!half) return std::nullopt;
  const double resolved = resolution_between(half->prediction, best.prediction);
  if (rank_of(half->prediction) > (1 - std::max(worth_rounding, resolved)) * rank_of(best.prediction))
    return std::nullopt;
  half->speed_up = rank_of(ranking.baseline) / rank_of(half->prediction);
  return half;
}

}  // namespace

std::vector<PlanSpec> preset_plans(const RecommendOptions& options) {
  std::vector<PlanSpec> plans;
  for (const Strategy& s : strategies())
    if (allowed(s.fidelity, options) && !s.of_own_network) plans.push_back({&s, standard_options(s)});
  for (const Modifier& m : modifiers()) {
    if (m.usual_base.empty()) continue;
    const Strategy& base = *strategy_named(m.usual_base);
    if (allowed(m.fidelity, options))
      plans.push_back({&base, standard_options(base), {}, {{&m, standard_options(m.options)}}});
  }
  return plans;
}

std::vector<PlanSpec> preset_plans_on(const Cluster& cluster, const RecommendOptions& options) {
  std::vector<PlanSpec> plans;
  const bool adds_up = cluster.aggregation && cluster.nodes > 1;
  for (const PlanSpec& plan : preset_plans(options)) {
    const std::string_view collective = collective_of(plan);
    const bool own = !collective.empty();
    // A switch runs one program.
    if (own && (!adds_up || collective != cluster.aggregation->program)) continue;
    plans.push_back(plan);
    if (!adds_up || own || needs_servers(plan)) continue;
    plans.push_back(plan);
    plans.back().collective = cluster.aggregation->program;
  }
  return plans;
}

std::string elsewhere_of(const PlanSpec& plan, const Cluster& cluster) {
  std::string needs(plan.strategy->framework);
  for (const std::string_view need : requirements_of(plan)) {
    if (need == "programmable switch" && cluster.aggregation) continue;
    needs += (needs.empty() ? "" : ", ") + std::string(need);
  }
  for (const ModifierSpec& m : plan.modifiers)
    if (!m.modifier->framework.empty() && needs.find(m.modifier->framework) == std::string::npos)
      needs += (needs.empty() ? "" : ", ") + std::string(m.modifier->framework);
  return needs;
}

std::string settings_of(const PlanSpec& spec) {
  std::string text = spec.strategy->settings ? spec.strategy->settings(spec.options) : std::string();
  for (const ModifierSpec& m : spec.modifiers)
    if (m.modifier->settings) text += (text.empty() ? "" : "\n") + m.modifier->settings(m.options);
  return text;
}

Cluster with_bandwidth_scaled(Cluster cluster, double factor) {
  if (cluster.nodes > 1) {
    cluster.network.bandwidth *= factor;
    for (Level& level : cluster.levels) level.bandwidth *= factor;
    cluster.server_link.bandwidth *= factor;
    if (cluster.aggregation) cluster.aggregation->line_rate *= factor;
  } else {
    cluster.inside.bandwidth *= factor;
  }
  for (MeasuredCollective& table : cluster.tables) {
    // Tables of one machine's devices are of its inside links.
    const bool crosses = table.nodes > 1 || (table.nodes == 0 && table.workers > cluster.devices_per_node);
    if (crosses != (cluster.nodes > 1)) continue;
    // What no bandwidth shortens: the time of nothing, on the line through the two smallest messages.
    Seconds floor = *std::min_element(table.times.begin(), table.times.end());
    if (table.times.size() > 1) {
      const double share = table.sizes[0] / (table.sizes[1] - table.sizes[0]);
      floor = std::clamp(table.times[0] - (table.times[1] - table.times[0]) * share, Seconds(0), floor);
    }
    for (Seconds& t : table.times) t = floor + (t - floor) / factor;
  }
  return cluster;
}

namespace {

void hear_second_opinion(Ranking& ranking, const RecommendOptions& options) {
  if (!options.second_opinion) return;
  options.second_opinion(ranking.baseline);
  for (std::vector<RankedPlan>* plans : {&ranking.exact, &ranking.others})
    for (RankedPlan& plan : *plans) options.second_opinion(plan.prediction);
  if (ranking.halves) options.second_opinion(ranking.halves->prediction);
}

}  // namespace

Ranking ranked_alone(const Prediction& job, std::string reason, const Cluster& cluster, double iterations) {
  Ranking ranking;
  ranking.baseline = job;
  if (iterations > 0) ranking.baseline.run = TrainingRun{iterations, 0, Seconds(0), iterations * job.iteration};
  ranking.exact.push_back({ranking.baseline, ranking.baseline, 1, "", cluster.nodes});
  ranking.exact.back().in_use = true;
  ranking.inapplicable.push_back({"every other plan", std::move(reason)});
  return ranking;
}

Ranking recommended(const Profile& traced, const Cluster& cluster, const RecommendOptions& options) {
  const Profile profile = updating_all(traced);
  if (!options.only_baseline.empty() && options.baseline)
    return ranked_alone(*options.baseline, options.only_baseline, cluster, options.iterations);
  Ranking ranking;
  const Strategy* ddp = strategy_named("ddp");
  const PlanSpec standard_ddp{ddp, standard_options(*ddp)};
  const Answer<Prediction> baseline =
      options.baseline ? Answer<Prediction>(*options.baseline) : predicted_by(options, profile, cluster, standard_ddp);
  if (!baseline)
    throw InputError("cluster '" + cluster.name + "'", "a cluster that can run an all-reduce", baseline.reason());
  ranking.baseline = *baseline;
  if (options.iterations > 0)  // it starts at once
    ranking.baseline.run =
        TrainingRun{options.iterations, 0, Seconds(0), options.iterations * ranking.baseline.iteration};
  for (const PlanSpec& spec : options.plans.empty() ? preset_plans_on(cluster, options) : options.plans) {
    heed(options);
    const Answer<Prediction> standard = predicted_by(options, profile, cluster, spec);
    if (!standard) {
      ranking.inapplicable.push_back({text_of(spec), standard.reason()});
      continue;
    }
    RankedPlan plan = ranked(profile, cluster, *standard, options);
    keep_in_use(plan, ranking, options);
    plan.speed_up = rank_of(ranking.baseline) / rank_of(plan.prediction);
    const bool exact = fidelity_of(spec) == Fidelity::exact;
    (exact ? ranking.exact : ranking.others).push_back(std::move(plan));
  }
  const bool stands_alone = ranking.baseline.plan.own != nullptr;
  if (stands_alone) {
    ranking.exact.push_back({ranking.baseline, ranking.baseline, 1, "", cluster.nodes});
    ranking.exact.back().in_use = true;
  }
  for (const AnsweredPlan& named : options.beside) {
    RankedPlan plan{named.prediction, named.prediction, 1, named.settings, cluster.nodes};
    if (options.iterations > 0)  // it starts at once
      for (Prediction* p : {&plan.prediction, &plan.standard})
        p->run = TrainingRun{options.iterations, 0, Seconds(0), options.iterations * p->iteration};
    plan.speed_up = rank_of(ranking.baseline) / rank_of(plan.prediction);
    ranking.exact.push_back(std::move(plan));
  }
  ranking.named = !options.plans.empty();
  ranking.by_step = options.by_step || ranking.named;
  keep_defaults(ranking);
  put_in_order(ranking.exact, ranking.by_step);
  if (options.plans.empty())
    for (RankedPlan& other : ranking.others) {
      const std::vector<ModifierSpec>& modifiers = other.prediction.plan.modifiers;
      if (modifiers.size() != 1 || !collective_of(other.prediction.plan).empty()) continue;
      // What hooks into DDP stays there, unless other software may be named.
      if (!ranking.by_step && modifiers.front().modifier->usual_base == "ddp") continue;
      std::optional<RankedPlan> moved = on_best_base(profile, cluster, modifiers.front(), ranking.exact, options);
      if (!moved || rank_of(moved->prediction) * (1 + indifference) >= rank_of(other.prediction)) continue;
      moved->speed_up = rank_of(ranking.baseline) / rank_of(moved->prediction);
      other = *std::move(moved);
    }
  std::stable_sort(ranking.others.begin(), ranking.others.end(), faster);
  if (!ranking.by_step) std::ranges::stable_partition(ranking.others, &RankedPlan::is_at_hand);
  // How far an answer holds is not known where one of the plans cannot be predicted on other networks.
  const bool elsewhere_unknown = stands_alone || !options.beside.empty();
  if (options.sensitivity && !options.model && !elsewhere_unknown && !ranking.exact.empty() && cluster.workers() > 1)
    ranking.holds = range_of(profile, cluster, candidates_of(ranking), ranking.exact.front().prediction.plan,
                             resolution_of(ranking), options);
  if (!ranking.exact.empty() && cluster.workers() > 1) ranking.as_good = as_good_of(profile, cluster, ranking, options);
  if (options.sensitivity && !options.model && cluster.workers() > 1)
    ranking.other_collective = other_collective_of(profile, cluster, ranking, options);
  if (options.sensitivity && !ranking.exact.empty() && !stands_alone)
    ranking.halves = halves_of(profile, cluster, ranking, options);
  hear_second_opinion(ranking, options);
  return ranking;
}

double resolution_between(const Prediction& fastest, const Prediction& other) {
  const double of_links = (fastest.error_of_links - other.error_of_links) / fastest.iteration;
  return std::max(indifference, normal_p90 * std::hypot(residual_of_model, of_links));
}

}  // namespace stepcast
