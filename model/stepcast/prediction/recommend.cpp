// Presets are tuned, ranked and compared; of equals the simplest is preferred.
#include <stepcast/base/statistics.hpp>
#include <stepcast/prediction/hot_loop.hpp>
#include <stepcast/prediction/recommend.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
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

// Names the plan that wins at `factor`, and whether `champion` is as good as that.
struct Contest {
  std::string winner;
  bool champion_holds = true;
};
Contest contest_at(const PreparedJob& job, const std::vector<PlanSpec>& candidates, const PlanSpec& champion,
                   double factor, HotLoop& loop) {
  const PreparedJob scaled(job.given, with_bandwidth_scaled(job.cluster, factor));
  const auto time_of = [&](const PlanSpec& spec) {
    const Answer<Seconds> time = loop.iteration(scaled, spec);
    return time ? time->value() : HUGE_VAL;
  };
  const double own = time_of(champion);
  Contest contest{text_of(champion), true};
  double best = own;
  for (const PlanSpec& spec : candidates) {
    const double time = time_of(spec);
    if (time < best) best = time, contest.winner = text_of(spec);
  }
  contest.champion_holds = own <= best * (1 + indifference);
  return contest;
}

std::optional<Range> range_of(const Profile& profile, const Cluster& cluster, const std::vector<PlanSpec>& candidates,
                              const PlanSpec& champion) {
  constexpr double reach = 128, step = 2;
  const BytesPerSecond bandwidth = cluster.nodes > 1 ? cluster.network.bandwidth : cluster.inside.bandwidth;
  const PreparedJob job(std::make_shared<const PreparedProfile>(profile), cluster);
  HotLoop loop;
  const auto edge = [&](double direction, std::string& beyond) {
    double inside = 1;
    for (double k = step; k <= reach; k *= step) {
      const double factor = direction > 0 ? k : 1 / k;
      const Contest contest = contest_at(job, candidates, champion, factor, loop);
      if (contest.champion_holds) {
        inside = factor;
        continue;
      }
      beyond = contest.winner;
      double outside = factor;
      for (int i = 0; i < 6; ++i) {  // to about one per cent
        const double middle = std::sqrt(inside * outside);
        const Contest at_middle = contest_at(job, candidates, champion, middle, loop);
        (at_middle.champion_holds ? inside : outside) = middle;
        if (!at_middle.champion_holds) beyond = at_middle.winner;
      }
      return inside;
    }
    return inside;
  };
  Range range;
  range.low = bandwidth * edge(-1, range.below);
  range.high = bandwidth * edge(+1, range.above);
  return range;
}

bool faster(const RankedPlan& a, const RankedPlan& b) { return a.prediction.iteration < b.prediction.iteration; }

// Puts the plan that takes the fewest machines and no special software, best the framework's own, first among those
// that are as good as the best.
void prefer_simplest(std::vector<RankedPlan>& ranked) {
  if (ranked.empty()) return;
  const auto burden = [](const RankedPlan& p) {
    const Strategy& strategy = *p.prediction.plan.strategy;
    return std::tuple(p.machines, !requirements_of(p.prediction.plan).empty(), !strategy.framework.empty(),
                      strategy.name != "ddp");
  };
  const Seconds best = ranked.front().prediction.iteration;
  const auto equals_end = std::find_if(ranked.begin(), ranked.end(), [&](const RankedPlan& p) {
    return p.prediction.iteration > best * (1 + indifference);
  });
  const auto simplest = std::min_element(
      ranked.begin(), equals_end, [&](const RankedPlan& a, const RankedPlan& b) { return burden(a) < burden(b); });
  std::rotate(ranked.begin(), simplest, simplest + 1);
}

// One plan with its tuned options, ready to be compared.
RankedPlan ranked(const Profile& profile, const Cluster& cluster, const Prediction& standard,
                  const RecommendOptions& options) {
  RankedPlan plan;
  plan.standard = standard;
  plan.prediction = standard;
  if (options.tune) {
    const PlanSpec better = tuned(profile, cluster, standard.plan, options.search);
    if (const Answer<Prediction> p = predicted(profile, cluster, better); p && p->iteration < standard.iteration)
      plan.prediction = *p;
  }
  plan.settings = settings_of(plan.prediction.plan);
  plan.machines = cluster.nodes + (needs_servers(plan.prediction.plan) ? cluster.servers : 0);
  return plan;
}

// Of every other algorithm the plan that is fastest over it, tuned again, because other messages suit it. Those that
// need hardware of their own are left out: they are plans of their own. So are clusters whose collectives were
// measured: what was measured of one algorithm says nothing fair of the closed forms of the others.
std::optional<OtherCollective> other_collective_of(const Profile& profile, const Cluster& cluster,
                                                   const Ranking& ranking, const RecommendOptions& options) {
  const Answer<CommunicationCost> own = communication_cost(cluster);
  if (!own || own->algorithm() == "table") return std::nullopt;
  std::vector<RankedPlan> over_own, over_others;
  std::copy_if(ranking.exact.begin(), ranking.exact.end(), std::back_inserter(over_own), [](const RankedPlan& p) {
    return collective_of(p.prediction.plan).empty() && !needs_servers(p.prediction.plan);
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
  OtherCollective other{std::move(*chosen), std::move(over_own.front())};
  PlanSpec standard = other.plan.prediction.plan;
  standard.options = standard_options(*standard.strategy);
  if (const Answer<Prediction> p = predicted(profile, cluster, standard)) other.plan.standard = *p;
  other.plan.speed_up = ranking.baseline.iteration / other.plan.prediction.iteration;
  // Where a switch adds up gradients faster still, there is nothing left to try.
  const auto first = std::find_if(ranking.exact.begin(), ranking.exact.end(),
                                  [](const RankedPlan& p) { return !needs_servers(p.prediction.plan); });
  const Seconds to_beat = std::min(first->prediction.iteration, other.instead.prediction.iteration);
  if (other.plan.prediction.iteration * (1 + indifference) >= to_beat) return std::nullopt;
  return other;
}

}  // namespace

std::vector<PlanSpec> preset_plans(const RecommendOptions& options) {
  std::vector<PlanSpec> plans;
  for (const Strategy& s : strategies())
    if (allowed(s.fidelity, options)) plans.push_back({&s, standard_options(s)});
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
    const bool own = !collective_of(plan).empty();
    if (!own || adds_up) plans.push_back(plan);
    if (!adds_up || own || needs_servers(plan)) continue;
    plans.push_back(plan);
    plans.back().collective = cluster.aggregation->program;
  }
  return plans;
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
    cluster.server_link.bandwidth *= factor;
    if (cluster.aggregation) cluster.aggregation->line_rate *= factor;
  } else {
    cluster.inside.bandwidth *= factor;
  }
  for (MeasuredCollective& table : cluster.tables) {
    const Seconds floor = *std::min_element(table.times.begin(), table.times.end());
    for (Seconds& t : table.times) t = floor + (t - floor) / factor;
  }
  return cluster;
}

Ranking recommended(const Profile& profile, const Cluster& cluster, const RecommendOptions& options) {
  Ranking ranking;
  const Strategy* ddp = strategy_named("ddp");
  const PlanSpec standard_ddp{ddp, standard_options(*ddp)};
  const Answer<Prediction> baseline = predicted(profile, cluster, standard_ddp);
  if (!baseline)
    throw InputError("cluster '" + cluster.name + "'", "a cluster that can run an all-reduce", baseline.reason());
  ranking.baseline = *baseline;
  std::vector<PlanSpec> candidates;
  for (const PlanSpec& spec : options.plans.empty() ? preset_plans_on(cluster, options) : options.plans) {
    const Answer<Prediction> standard = predicted(profile, cluster, spec);
    if (!standard) {
      ranking.inapplicable.push_back({text_of(spec), standard.reason()});
      continue;
    }
    RankedPlan plan = ranked(profile, cluster, *standard, options);
    plan.speed_up = ranking.baseline.iteration / plan.prediction.iteration;
    const bool exact = fidelity_of(spec) == Fidelity::exact;
    if (exact) candidates.push_back(plan.prediction.plan);
    (exact ? ranking.exact : ranking.others).push_back(std::move(plan));
  }
  std::stable_sort(ranking.exact.begin(), ranking.exact.end(), faster);
  prefer_simplest(ranking.exact);
  std::stable_sort(ranking.others.begin(), ranking.others.end(), faster);
  if (options.sensitivity && !ranking.exact.empty() && cluster.workers() > 1)
    ranking.holds = range_of(profile, cluster, candidates, ranking.exact.front().prediction.plan);
  if (options.sensitivity && cluster.workers() > 1)
    ranking.other_collective = other_collective_of(profile, cluster, ranking, options);
  return ranking;
}

}  // namespace stepcast
