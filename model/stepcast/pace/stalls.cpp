// Slacks come from a walk back through the timeline; the longest of many independent stalls from their product.
#include <stepcast/pace/stalls.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace stepcast {
namespace {

constexpr int longest_backoff = 6;  // doublings
constexpr int most_stalls = 60;     // in a row
constexpr Picoseconds never_late = std::numeric_limits<Picoseconds>::max() / 4;

// How late a packet is that stalled `k` times.
Seconds time_of_stalls(const Transport& t, int k) {
  double units = 0;
  for (int i = 0; i < k; ++i) units += std::exp2(std::min(i, longest_backoff));
  return t.timeout * units;
}

// Logarithm of the probability that a packet stalls fewer than `k` times, k >= 1.
double log_fewer_than(const Transport& t, int k) {
  return std::log1p(-t.stalls * std::pow(std::max(t.loss, t.stalls), k - 1));
}

// The latest ends of all instances that leave the end of the last marker as it is, found from the last to the first.
class LatestEnds {
 public:
  LatestEnds(const TaskGraph& graph, const Timeline& timeline)
      : graph_(graph), timeline_(timeline), ends_(std::size_t{timeline.iterations} * timeline.tasks, never_late) {
    find_next_in_queues();
    std::vector<std::uint32_t> order(ends_.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (timeline.end[a] != timeline.end[b]) return timeline.end[a] > timeline.end[b];
      return timeline.start[a] != timeline.start[b] ? timeline.start[a] > timeline.start[b] : a > b;
    });
    const std::size_t last = std::size_t{timeline.iterations - 1} * timeline.tasks + graph.marker;
    ends_[last] = timeline.end[last];
    // Tasks without work may follow one another at the same time: what they pass on needs another round.
    for (bool changed = true; changed;) {
      changed = false;
      for (const std::uint32_t i : order) {
        const Picoseconds end = std::min({ends_[i], latest_for_successors(i), latest_for(next_[i])});
        changed |= end != ends_[i];
        ends_[i] = end;
      }
    }
  }

  /// The latest end for those that wait for the instance itself, not for its channel.
  [[nodiscard]] Picoseconds latest_for_successors(std::uint32_t i) const {
    Picoseconds latest = never_late;
    const std::uint32_t row = i / timeline_.tasks;
    for (const Arc& a : graph_.successors(i % timeline_.tasks))
      if (row + a.lag < timeline_.iterations)
        latest = std::min(latest, latest_for((row + a.lag) * timeline_.tasks + a.task));
    return latest;
  }

 private:
  // Of what precedes the instance: the latest start of the instance.
  Picoseconds latest_for(std::uint32_t i) const {
    if (i == Timeline::no_instance || ends_[i] == never_late) return never_late;
    return ends_[i] - (timeline_.end[i] - timeline_.start[i]);
  }

  void find_next_in_queues() {
    next_.assign(ends_.size(), Timeline::no_instance);
    std::vector<std::vector<std::uint32_t>> queues(graph_.resources.size());
    for (std::uint32_t i = 0; i < ends_.size(); ++i) {
      const std::uint32_t resource = graph_.tasks[i % timeline_.tasks].resource;
      if (graph_.resources[resource].discipline != Discipline::parallel) queues[resource].push_back(i);
    }
    for (std::vector<std::uint32_t>& queue : queues) {
      std::stable_sort(queue.begin(), queue.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return timeline_.start[a] < timeline_.start[b]; });
      // One that was interrupted overlaps those that interrupted it, and follows none of them.
      for (std::size_t k = 1; k < queue.size(); ++k)
        if (timeline_.start[queue[k]] >= timeline_.end[queue[k - 1]]) next_[queue[k - 1]] = queue[k];
    }
  }

  const TaskGraph& graph_;
  const Timeline& timeline_;
  std::vector<Picoseconds> ends_;
  std::vector<std::uint32_t> next_;  // in the same queue
};

}  // namespace

// --- Distribution ---------------------------------------------------------------------------------------------------

StepLateness::StepLateness(std::span<const StallingMessage> messages, const Transport& transport) {
  double packets = 0;
  for (const StallingMessage& m : messages) packets += m.packets;
  if (packets <= 0 || transport.stalls <= 0 || transport.timeout <= Seconds(0)) return;
  // A message stalls fewer than k times as long as that many are within its slack; beyond, each more allows another.
  Step zero{Seconds(0), 0};
  std::vector<Step> changes;
  for (const StallingMessage& m : messages) {
    for (int k = 1; k < most_stalls; ++k) {
      const Seconds late = time_of_stalls(transport, k) - m.slack;
      if (late <= Seconds(0)) continue;
      const double fewer = m.packets * log_fewer_than(transport, k);
      if (time_of_stalls(transport, k - 1) <= m.slack) zero.log_probability += fewer;
      changes.push_back({late, m.packets * log_fewer_than(transport, k + 1) - fewer});
      if (-fewer < 1e-12) break;
    }
  }
  std::sort(changes.begin(), changes.end(), [](const Step& a, const Step& b) { return a.late < b.late; });
  steps_.push_back(zero);
  for (const Step& change : changes) {
    const double next = std::min(0.0, steps_.back().log_probability + change.log_probability);
    if (change.late == steps_.back().late) steps_.back().log_probability = next;
    else steps_.push_back({change.late, next});
  }
}

Seconds StepLateness::mean() const {
  Seconds sum;
  for (std::size_t i = 1; i < steps_.size(); ++i)
    sum += (steps_[i].late - steps_[i - 1].late) * -std::expm1(steps_[i - 1].log_probability);
  return sum;
}

double StepLateness::probability_up_to(Seconds late) const {
  if (late < Seconds(0)) return 0;
  double log_probability = 0;
  for (const Step& step : steps_) {
    if (step.late > late) break;
    log_probability = step.log_probability;
  }
  return std::exp(log_probability);
}

Seconds StepLateness::quantile(double p) const {
  for (const Step& step : steps_)
    if (std::exp(step.log_probability) >= p) return step.late;
  return steps_.empty() ? Seconds(0) : steps_.back().late;
}

Seconds arrival_wait(const Transfer& t, const CommunicationCost& cost) {
  if (t.may_lose || !cost.between_machines(t.operation)) return t.after;
  const StallingMessage alone{cost.packets(t.operation, t.size), Seconds(0)};
  return t.after + cost.repair_time(t.operation, t.size) + StepLateness({&alone, 1}, cost.transport()).mean();
}

// --- Slack ----------------------------------------------------------------------------------------------------------

std::vector<StallingMessage> stalling_messages(const TaskGraph& graph, const Timeline& timeline, const CommPlan& plan,
                                               const CommunicationCost& cost) {
  if (cost.transport().stalls <= 0 || timeline.iterations == 0) return {};
  const LatestEnds latest(graph, timeline);
  std::vector<std::uint32_t> arrives(plan.transfers.size(), Timeline::no_instance);
  for (std::uint32_t t = 0; t < graph.tasks.size(); ++t) {
    const TaskKind kind = graph.tasks[t].kind;
    const std::uint32_t index = graph.tasks[t].index;
    if (kind == TaskKind::transfer && arrives[index] == Timeline::no_instance) arrives[index] = t;
    if (kind == TaskKind::arrival) arrives[index] = t;
  }
  // A message is watched until all that may wait for it has begun.
  std::uint32_t ahead = 3;
  for (const Arc& arc : graph.arcs) ahead = std::max(ahead, arc.lag);
  const std::uint32_t row = timeline.iterations > ahead ? timeline.iterations - 1 - ahead : 0;
  std::vector<StallingMessage> messages;
  for (std::size_t x = 0; x < plan.transfers.size(); ++x) {
    const Transfer& t = plan.transfers[x];
    if (t.may_lose || arrives[x] == Timeline::no_instance || !cost.between_machines(t.operation)) continue;
    const std::uint32_t i = row * timeline.tasks + arrives[x];
    const Picoseconds by = latest.latest_for_successors(i);
    if (by == never_late) continue;
    messages.push_back({cost.packets(t.operation, t.size), seconds_of(std::max<Picoseconds>(0, by - timeline.end[i]))});
  }
  return messages;
}

StepLateness lateness_of(const TaskGraph& graph, const Timeline& timeline, const CommPlan& plan,
                         const CommunicationCost& cost) {
  if (cost.transport().stalls <= 0) return {};
  return StepLateness(stalling_messages(graph, timeline, plan, cost), cost.transport());
}

}  // namespace stepcast
