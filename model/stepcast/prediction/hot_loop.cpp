// A plan of the same structure as the one before only gets new durations.
#include <stepcast/cluster/stragglers.hpp>
#include <stepcast/pace/stalls.hpp>
#include <stepcast/prediction/alike.hpp>
#include <stepcast/prediction/hot_loop.hpp>
#include <stepcast/prediction/leaders.hpp>

#include <utility>

namespace stepcast {

Costs::Costs(const Cluster& cluster) : cluster_(cluster), known_(collective_algorithms().size() + 2) {}

const Answer<CommunicationCost>* Costs::of(std::string_view collective) const {
  const auto algorithms = collective_algorithms();
  const CollectiveAlgorithm* algorithm = collective_algorithm(collective);
  if (!algorithm && !collective.empty() && collective != "table") return nullptr;
  Known& known = known_[algorithm ? static_cast<std::size_t>(algorithm - algorithms.data())
                                  : algorithms.size() + (collective == "table")];
  std::call_once(known.made, [&] {
    known.cost = std::make_unique<Answer<CommunicationCost>>(communication_cost(cluster_, collective));
  });
  return known.cost.get();
}

PreparedJob::PreparedJob(std::shared_ptr<const PreparedProfile> profile, Cluster on)
    : given(std::move(profile)),
      cluster(std::move(on)),
      slowest(cluster.stragglers.none()
                  ? given
                  : std::make_shared<const PreparedProfile>(slowest_worker(given->profile, cluster))),
      costs(cluster) {}

HotLoop::Kept& HotLoop::kept_for(const PlanSpec& spec, std::uint32_t phase) {
  const Modifier* modifier = spec.modifiers.empty() ? nullptr : spec.modifiers.front().modifier;
  for (Kept& kept : kept_)
    if (kept.strategy == spec.strategy && kept.modifier == modifier && kept.phase == phase) return kept;
  Kept& kept = kept_.emplace_back();
  kept.strategy = spec.strategy, kept.modifier = modifier, kept.phase = phase;
  return kept;
}

// Brings what is kept up to date with another plan; without one with its own plan on another cluster.
void HotLoop::update(Kept& kept, const std::shared_ptr<const PreparedProfile>& profile, const Cluster& cluster,
                     const CommunicationCost& cost, CommPlan* other_plan) {
  const double contention = cluster.contention.compute_under_communication;
  const bool alike = kept.profile == profile && kept.contention == contention && kept.transport == cost.transport() &&
                     (other_plan == nullptr || same_structure(*other_plan, kept.plan));
  kept.profile = nullptr;  // until all is well
  if (other_plan != nullptr) spare_ = std::exchange(kept.plan, std::move(*other_plan));
  bool changed = true;
  if (alike) changed = refilled(kept.plan, cost, kept.graph);
  else lowering_.write(profile->compute, kept.plan, cost, cluster.contention, {}, kept.graph);
  const bool covered = changed && SteadyPeriod::covers(kept.graph);
  if (!alike) kept.is_in_order = kept.may_be_in_order() && covered && kept.in_order.prepare(kept.graph);
  if (changed && cost.transport().stalls > 0) {
    schedule(kept.graph, timeline_, {.least_iterations = iterations_of_slack});
    kept.period = timeline_.iteration_time() + lateness_of(kept.graph, timeline_, kept.plan, cost).mean();
  } else if (covered) {
    kept.period = seconds_of(period_of(kept));
  } else if (changed) {
    schedule(kept.graph, timeline_);
    kept.period = timeline_.iteration_time();
  }
  kept.contention = contention;
  kept.transport = cost.transport();
  kept.profile = profile;
}

Picoseconds HotLoop::period_of(Kept& kept) {
  if (kept.is_in_order) {
    const std::optional<Picoseconds> period = kept.in_order(kept.graph);
    kept.misses = period ? 0 : kept.misses + 1;
    if (period) return *period;
  }
  return steady_period_(kept.graph);
}

// Both ways lead to the same period; the order of strategies whose queues compete is nearly never known beforehand.
bool HotLoop::Kept::may_be_in_order() {
  constexpr std::uint32_t enough_misses = 4, try_again = 16;
  return misses < enough_misses || ++structures % try_again == 0;
}

Answer<Seconds> HotLoop::iteration(const std::shared_ptr<const PreparedProfile>& profile, const Cluster& cluster,
                                   const CommunicationCost& cost, const PlanSpec& spec, const CommPlan* given) {
  Seconds sum;
  const std::uint32_t phases = spec.strategy->phases;
  for (std::uint32_t k = 0; k < phases; ++k) {
    Kept& kept = kept_for(spec, k);
    const WorkInARow work{profile->compute.in_a_row, profile->profile.communication.message};
    const bool is_known = given == nullptr && kept.is_of_options && kept.profile == profile &&
                          kept.workers == cluster.workers() && kept.options == spec.options;
    std::optional<Answer<CommPlan>> written;
    if (!is_known) {
      arena_.reset();
      const StrategyInput input{profile->profile,    cluster, cost,    spec.options,
                                phase_of(k, phases), &arena_, &spare_, profile->ready};
      written.emplace(given ? *given : comm_plan_of(spec, input));
      if (!*written) return Inapplicable{written->reason()};
      if (cluster.workers() == 1) (*written)->packing = Packing::none;
    }
    CommPlan* const other = written ? &**written : nullptr;
    std::string obstacle = obstacle_to(other ? *other : kept.plan, work, cluster, cost);
    if (!obstacle.empty()) return Inapplicable{std::move(obstacle)};
    update(kept, profile, cluster, cost, other);
    kept.options = spec.options, kept.workers = cluster.workers();
    kept.is_of_options = given == nullptr && spec.modifiers.empty() && spec.strategy->same_on_all_links;
    sum += kept.period / kept.plan.period / phases;
  }
  return sum;
}

Answer<Seconds> HotLoop::iteration(const PreparedJob& job, const PlanSpec& spec) {
  const Answer<CommunicationCost>* cost = job.costs.of(collective_of(spec));
  if (!cost) return Inapplicable{communication_cost(job.cluster, collective_of(spec)).reason()};
  if (!*cost) return Inapplicable{cost->reason()};
  const auto together = [&] {
    const std::optional<Cluster> helped = with_help_of_leaders(job.given, job.slowest, job.cluster, spec);
    if (!helped) return iteration(job.slowest, job.cluster, **cost, spec);
    return iteration(job.slowest, *helped, *communication_cost(*helped, collective_of(spec)), spec);
  };
  if (job.cluster.stragglers.none() || lead_of(spec) == 0) return together();
  const Answer<JobPace> own = pace(job.given->profile, job.cluster, spec, together);
  if (!own) return Inapplicable{own.reason()};
  return own->step;
}

Answer<JobPace> HotLoop::pace(const Profile& profile, const Cluster& cluster, const PlanSpec& spec,
                              const std::function<Answer<Seconds>()>& together) {
  std::string why;
  const auto value = [&](const Answer<Seconds>& time) {
    if (!time) why = time.reason();
    return time ? *time : Seconds(1);
  };
  const auto step_of = [&](const SlowWorkers& fault, double factor) {
    const Cluster on = cluster_of_kind(cluster, fault);
    const Answer<CommunicationCost> cost = communication_cost(on, collective_of(spec));
    if (!cost) return value(Inapplicable{cost.reason()});
    const auto worker = std::make_shared<const PreparedProfile>(slowed(profile, factor, fault.delay));
    return value(iteration(worker, on, *cost, spec));
  };
  JobPace pace = job_pace(cluster, lead_of(spec), step_of, [&] { return value(together()); });
  if (!why.empty()) return Inapplicable{why};
  return pace;
}

}  // namespace stepcast
