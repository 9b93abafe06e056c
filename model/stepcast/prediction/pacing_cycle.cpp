// The critical cycle of the detailed timeline, with the names of its tasks.
#include <stepcast/prediction/pacing_cycle.hpp>
#include <stepcast/schedule/critical_cycle.hpp>
#include <stepcast/schedule/task_name.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

/// The search for the cycle takes the square of it in the worst case.
constexpr std::size_t most_tasks = 6000;

}  // namespace

std::optional<PacingCycle> pacing_cycle_of(const Profile& profile, const Cluster& cluster, const PlanSpec& plan) {
  const Answer<DetailedTimeline> detail = detailed_timeline(profile, cluster, plan);
  if (!detail || detail->graph.barrier || detail->graph.tasks.size() > most_tasks) return {};
  if (!detail->timeline.steady || detail->timeline.period_iterations != 1) return {};
  if (!has_critical_cycle(detail->graph)) return {};
  const CriticalCycle cycle = critical_cycle_of(detail->graph, detail->timeline);
  // Tasks that disturb one another have no fixed durations, and the cycle is no bound.
  const Seconds period = detail->timeline.iteration_time();
  if (cycle.tasks.empty() || std::abs(cycle.period / period - 1) > 1e-3) return {};
  PacingCycle out{cycle.period, cycle.steps(), {}};
  // Begins behind the longest way back, and leaves out what takes no time.
  const auto back =
      static_cast<std::size_t>(std::max_element(cycle.lags.begin(), cycle.lags.end()) - cycle.lags.begin());
  for (std::size_t i = 1; i <= cycle.tasks.size(); ++i) {
    const std::uint32_t task = cycle.tasks[(back + i) % cycle.tasks.size()];
    if (detail->graph.tasks[task].work > 0) out.tasks.push_back(task_name(profile, detail->plan, detail->graph, task));
  }
  return out;
}

}  // namespace stepcast
