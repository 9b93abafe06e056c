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
  task_at_.clear();
  task_at_.reserve(n_);
  for (std::uint32_t t = 0; t < n_; ++t)
    if (open_[t] == 0) task_at_.push_back(t);
  for (std::size_t i = 0; i < task_at_.size(); ++i) {
    const std::uint32_t t = task_at_[i];
    const auto follow = [&](std::uint32_t to) {
      if (--open_[to] == 0) task_at_.push_back(to);
    };
    for (const Arc& a : graph.successors(t))
      if (a.lag == 0) follow(a.task);
    if (next_in_queue[t] != none) follow(next_in_queue[t]);
  }
  if (task_at_.size() != n_) return false;
  for (std::uint32_t p = 0; p < n_; ++p) place_of_[task_at_[p]] = p;
  return true;
}

/// Where everything lies that a task waits for.
void InOrderPeriod::tie(const TaskGraph& graph) {
  // Entries by the place that waits: counted, then filled.
  open_.assign(n_ + 1, 0);
  for (const Arc& a : graph.arcs) ++open_[place_of_[a.task] + 1];
  for (std::uint32_t p = 0; p < n_; ++p) open_[p + 1] += open_[p];
  before_.resize(open_[n_]);
  const auto offset = [&](std::uint32_t from, std::uint32_t to, std::uint32_t lag) {
    return static_cast<std::int32_t>(place_of_[from]) - static_cast<std::int32_t>(place_of_[to]) -
           static_cast<std::int32_t>(lag * n_);
  };
  for (std::uint32_t t = 0; t < n_; ++t)
    for (const Arc& a : graph.successors(t)) before_[open_[place_of_[a.task]]++] = offset(t, a.task, a.lag);
  places_.assign(n_, {});
  queues_ = 0;
  for (std::uint32_t r = 0; r < graph.resources.size(); ++r) {
    const std::uint32_t first = first_of_queue_[r];
    if (first == none) continue;
    places_[place_of_[first]].chain = offset(last_of_queue_[r], first, 1);
    first_of_queue_[r] = graph.resources[r].discipline == Discipline::fifo ? ++queues_ : 0;  // from now on its number
  }
  more_.assign(1, {});
  work_.resize(n_), priority_.resize(n_), runs_ahead_.resize(n_);
  for (std::uint32_t p = 0, from = 0; p < n_; from = open_[p++]) {  // its entries end where those of the next begin
    const std::uint32_t t = task_at_[p], to = open_[p];
    const Task& task = graph.tasks[t];
    Place& place = places_[p];
    if (chained_after_[t] != none) place.chain = offset(chained_after_[t], t, 0);
    if (from < to) place.first = place.second = before_[from];
    if (from + 1 < to) place.second = before_[from + 1];
    const std::uint32_t queue = place.chain != 0 ? first_of_queue_[task.resource] : 0;
    if (queue != 0 || from + 2 < to) {
      place.more = static_cast<std::uint32_t>(more_.size());
      more_.push_back({std::min(from + 2, to), to, queue, t});
    }
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
    const Place place = places_[p];
    Picoseconds* const end = ends + p;
    Picoseconds start = std::max(end[place.first], end[place.second]);
    if (place.more != 0) {
      const More& more = more_[place.more];
      for (std::uint32_t i = more.from; i < more.to; ++i) start = std::max(start, end[before_[i]]);
      if (more.queue != 0 && !is_next(served_[more.queue], {start, priority_[p], more.task, row})) return false;
    }
    *end = std::max(start, end[place.chain]) + work_[p];
  }
  return true;
}

/// Whoever is ready first is served first; at the same time priority, iteration and number decide.
bool InOrderPeriod::is_next(Served& last, const Served& now) {
  const auto rank = [](const Served& s) { return std::tuple(s.ready, s.priority, s.row, s.task); };
  if (now.ready <= last.ready && rank(now) < rank(last)) return false;
  last = now;
  return true;
}

std::optional<Picoseconds> InOrderPeriod::operator()(const TaskGraph& graph) {
  for (std::uint32_t p = 0; p < n_; ++p) work_[p] = graph.tasks[task_at_[p]].work;
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
