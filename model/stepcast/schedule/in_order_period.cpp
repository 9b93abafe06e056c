// One pass over flat arrays an iteration; what was assumed of the queues is checked on the way.
#include <stepcast/schedule/in_order_period.hpp>
#include <stepcast/schedule/schedule.hpp>

#include <algorithm>
#include <tuple>

namespace stepcast {
namespace {

/// Iterations after which the other scheduler is asked: nearly all plans settle within four.
constexpr std::uint32_t most_rows = 16;

}  // namespace

bool InOrderPeriod::prepare(const TaskGraph& graph) {
  n_ = static_cast<std::uint32_t>(graph.tasks.size());
  marker_ = graph.marker, barrier_ = graph.barrier;
  most_lag_ = 0;
  for (const Arc& a : graph.arcs) most_lag_ = std::max(most_lag_, a.lag);
  pad_ = std::max(1u, most_lag_);
  if (!chain_queues(graph) || !order_tasks(graph)) return false;
  tie(graph);
  return true;
}

/// Each task of a queue waits for the one before it in the iteration, the first one for the last of the iteration
/// before. False for a queue with priorities.
bool InOrderPeriod::chain_queues(const TaskGraph& graph) {
  const auto queues = [&](std::uint32_t t) {
    return graph.resources[graph.tasks[t].resource].discipline != Discipline::parallel;
  };
  for (const Resource& r : graph.resources)
    if (r.discipline == Discipline::priority) return false;
  by_rank_.clear();
  for (std::uint32_t t = 0; t < n_; ++t)
    if (queues(t)) by_rank_.push_back(t);
  // Of a channel in order the priority decides, then the number; of one that serves who comes first the number alone.
  const auto rank = [&](std::uint32_t t) {
    const Task& task = graph.tasks[t];
    const bool in_order = graph.resources[task.resource].discipline == Discipline::in_order;
    return std::tuple(task.resource, in_order ? task.priority : 0, t);
  };
  if (!std::ranges::is_sorted(by_rank_, {}, rank)) std::ranges::sort(by_rank_, {}, rank);
  chained_after_.assign(n_, none);
  first_of_queue_.assign(graph.resources.size(), none), last_of_queue_.assign(graph.resources.size(), none);
  for (const std::uint32_t t : by_rank_) {
    const std::uint32_t queue = graph.tasks[t].resource;
    if (last_of_queue_[queue] == none) first_of_queue_[queue] = t;
    else chained_after_[t] = last_of_queue_[queue];
    last_of_queue_[queue] = t;
  }
  return true;
}

/// All tasks, each after those of its iteration that it waits for, and after the one that its queue serves before it.
/// False where they wait for one another: then the queues serve in another order.
bool InOrderPeriod::order_tasks(const TaskGraph& graph) {
  open_.assign(n_, 0);
  for (const Arc& a : graph.arcs) open_[a.task] += a.lag == 0;
  std::vector<std::uint32_t>& next_in_queue = place_of_;  // until places are known
  next_in_queue.assign(n_, none);
  for (std::uint32_t t = 0; t < n_; ++t)
    if (chained_after_[t] != none) ++open_[t], next_in_queue[chained_after_[t]] = t;
  places_.clear();
  places_.reserve(n_ + 1);
  for (std::uint32_t t = 0; t < n_; ++t)
    if (open_[t] == 0) places_.push_back({t});
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const std::uint32_t t = places_[i].task;
    const auto follow = [&](std::uint32_t to) {
      if (--open_[to] == 0) places_.push_back({to});
    };
    for (const Arc& a : graph.successors(t))
      if (a.lag == 0) follow(a.task);
    if (next_in_queue[t] != none) follow(next_in_queue[t]);
  }
  if (places_.size() != n_) return false;
  for (std::uint32_t p = 0; p < n_; ++p) place_of_[places_[p].task] = p;
  return true;
}

/// Where everything lies that a task waits for.
void InOrderPeriod::tie(const TaskGraph& graph) {
  // Entries by the place that waits: counted, then filled.
  open_.assign(n_ + 1, 0);
  for (const Arc& a : graph.arcs) ++open_[place_of_[a.task] + 1];
  for (std::uint32_t p = 0; p < n_; ++p) open_[p + 1] += open_[p];
  before_.resize(open_[n_]);
  places_.push_back({none, open_[n_]});
  for (std::uint32_t p = 0; p < n_; ++p) places_[p].first_before = open_[p];
  const auto offset = [&](std::uint32_t from, std::uint32_t to, std::uint32_t lag) {
    return static_cast<std::int32_t>(place_of_[from]) - static_cast<std::int32_t>(place_of_[to]) -
           static_cast<std::int32_t>(lag * n_);
  };
  for (std::uint32_t t = 0; t < n_; ++t)
    for (const Arc& a : graph.successors(t)) before_[open_[place_of_[a.task]]++] = offset(t, a.task, a.lag);
  queues_ = 0;
  for (std::uint32_t r = 0; r < graph.resources.size(); ++r) {
    const std::uint32_t first = first_of_queue_[r];
    if (first == none) continue;
    places_[place_of_[first]].chain = offset(last_of_queue_[r], first, 1);
    first_of_queue_[r] = graph.resources[r].discipline == Discipline::fifo ? ++queues_ : 0;  // from now on its number
  }
  work_.resize(n_), priority_.resize(n_), runs_ahead_.resize(n_);
  for (std::uint32_t p = 0; p < n_; ++p) {
    const Task& task = graph.tasks[places_[p].task];
    if (chained_after_[places_[p].task] != none)
      places_[p].chain = offset(chained_after_[places_[p].task], places_[p].task, 0);
    if (places_[p].chain != 0) places_[p].queue = first_of_queue_[task.resource];
    priority_[p] = task.priority;
    runs_ahead_[p] = graph.resources[task.resource].kind == ResourceClass::host;
  }
  marker_ = place_of_[graph.marker];
}

/// The ends of one more iteration; false where a queue would have served in another order.
bool InOrderPeriod::evaluate(std::uint32_t row) {
  ends_.resize(std::size_t{row + pad_ + 1} * n_);
  Picoseconds* const ends = row_at(row);
  for (std::uint32_t p = 0; p < n_; ++p) {
    const Place& place = places_[p];
    Picoseconds start = 0;
    for (std::uint32_t i = place.first_before, end = places_[p + 1].first_before; i < end; ++i)
      start = std::max(start, ends[static_cast<std::ptrdiff_t>(p) + before_[i]]);
    if (place.chain != 0) {
      if (place.queue != 0) {
        // Whoever is ready first is served first; at the same time priority, iteration and number decide.
        Served& last = served_[place.queue];
        const auto rank = [](const Served& s) { return std::tuple(s.ready, s.priority, s.row, s.place_in_row); };
        const Served now{start, priority_[p], place.task, row};
        if (rank(now) < rank(last)) return false;
        last = now;
      }
      start = std::max(start, ends[static_cast<std::ptrdiff_t>(p) + place.chain]);
    }
    ends[p] = start + work_[p];
  }
  return true;
}

std::optional<Picoseconds> InOrderPeriod::operator()(const TaskGraph& graph) {
  for (std::uint32_t p = 0; p < n_; ++p) work_[p] = graph.tasks[places_[p].task].work;
  ends_.assign(std::size_t{pad_} * n_, 0);
  served_.assign(queues_ + 1, {});
  for (std::uint32_t row = 0; row < most_rows; ++row) {
    if (!evaluate(row)) return std::nullopt;
    if (!recurs(row + 1)) continue;
    // Nothing of the next iteration may come before what was served last in this one.
    if (queues_ > 0 && !barrier_ && most_lag_ > 0 && !evaluate(row + 1)) return std::nullopt;
    return period_;
  }
  return std::nullopt;
}

// The rule of schedule.hpp.
bool InOrderPeriod::recurs(std::uint32_t rows) {
  const std::uint32_t last = rows - 1;
  if (barrier_ || most_lag_ == 0) {
    period_ = row_at(last)[marker_];
    return true;
  }
  for (std::uint32_t k = 1; k <= 4; ++k) {
    if (rows < most_lag_ + k + 1) return false;
    const Picoseconds shift = row_at(last)[marker_] - row_at(last - k)[marker_];
    bool all = true;
    for (std::uint32_t back = 0; all && back < most_lag_; ++back) all = recurs_after(last - back, k, shift);
    if (!all) continue;
    period_ = shift / k;
    return true;
  }
  return false;
}

bool InOrderPeriod::recurs_after(std::uint32_t row, std::uint32_t k, Picoseconds shift) const {
  constexpr Picoseconds tolerance = 1000;
  const Picoseconds *now = row_at(row), *before = row_at(row - k);
  for (std::uint32_t p = 0; p < n_; ++p) {
    const Picoseconds error = now[p] - before[p] - shift;
    if (error > tolerance) return false;
    if (error < -tolerance && !runs_ahead_[p]) return false;
  }
  return true;
}

}  // namespace stepcast
