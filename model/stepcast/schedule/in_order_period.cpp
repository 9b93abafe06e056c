// One pass over flat arrays an iteration; what was assumed of the queues is checked on the way.
#include <stepcast/schedule/in_order_period.hpp>
#include <stepcast/schedule/schedule.hpp>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

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
/// A resource is followed as long as something of it is ready, so that most tasks come right after the one before them
/// in their queue or program. False where they wait for one another: then the queues serve in another order.
bool InOrderPeriod::order_tasks(const TaskGraph& graph) {
  open_.assign(n_, 0);
  for (const Arc& a : graph.arcs) open_[a.task] += a.lag == 0;
  std::vector<std::uint32_t>& next_in_queue = place_of_;  // until places are known
  next_in_queue.assign(n_, none);
  for (std::uint32_t t = 0; t < n_; ++t)
    if (chained_after_[t] != none) ++open_[t], next_in_queue[chained_after_[t]] = t;
  const auto resources = static_cast<std::uint32_t>(graph.resources.size());
  std::vector<std::uint32_t>& ready = by_rank_;  // the last ready one of each resource, then those before it
  ready.assign(resources, none);
  next_ready_.resize(n_);
  const auto add_ready = [&](std::uint32_t t) {
    std::uint32_t& last = ready[graph.tasks[t].resource];
    next_ready_[t] = std::exchange(last, t);
  };
  for (std::uint32_t t = n_; t-- > 0;)
    if (open_[t] == 0) add_ready(t);
  task_at_.clear();
  task_at_.reserve(n_);
  for (std::uint32_t r = 0, empty = 0; empty < resources;) {
    const std::uint32_t t = ready[r];
    if (t == none) {
      r = r + 1 < resources ? r + 1 : 0;
      ++empty;
      continue;
    }
    empty = 0;
    ready[r] = next_ready_[t];
    task_at_.push_back(t);
    const auto follow = [&](std::uint32_t to) {
      if (--open_[to] == 0) add_ready(to);
    };
    for (const Arc& a : graph.successors(t))
      if (a.lag == 0) follow(a.task);
    if (next_in_queue[t] != none) follow(next_in_queue[t]);
  }
  if (task_at_.size() != n_) return false;
  for (std::uint32_t p = 0; p < n_; ++p) place_of_[task_at_[p]] = p;
  return true;
}

/// Adds one that a place waits for. Of several in one queue and its own iteration, the last one served is enough.
inline void InOrderPeriod::tie_to(const TaskGraph& graph, std::uint32_t p, std::uint32_t source, std::uint32_t lag,
                                  bool source_queues) {
  Place& place = places_[p];
  const std::int32_t before = offset(source, p, lag);
  if (lag > 0) lagged_.push_back({p, source, lag, false});
  if (before == -1 && place.chain == 0) {  // what comes right before it in the order is its chain
    place.chain = -1;
    return;
  }
  if (source_queues && lag == 0) {
    const auto in_same_queue = [&](std::int32_t known) {
      const std::int64_t other = std::int64_t{p} + known;
      return known != 0 && other >= 0 &&
             graph.tasks[task_at_[static_cast<std::size_t>(other)]].resource == graph.tasks[task_at_[source]].resource;
    };
    for (std::int32_t* const known : {&place.first, &place.second}) {
      if (!in_same_queue(*known)) continue;
      *known = std::max(*known, before);
      return;
    }
  }
  if (place.first == 0) place.first = before;
  else if (place.second == 0) place.second = before;
  else others_.emplace_back(p, before);
}

inline void InOrderPeriod::add_to_run(std::uint32_t p) {
  const Place& place = places_[p];
  bool in_line = place.chain == -1 && place.first == place.second;
  std::uint32_t queue = 0;
  if (place.more != 0) {
    const More& more = more_[place.more];
    in_line = in_line && more.from == more.to && !more.is_first;
    queue = more.queue;
  }
  if (p == 0 || runs_.back().is_line != in_line || (in_line && runs_.back().queue != queue))
    runs_.push_back({p, p, queue, in_line});
  runs_.back().to = p + 1;
}

/// Where everything lies that a task waits for.
void InOrderPeriod::tie(const TaskGraph& graph) {
  places_.assign(n_, {}), more_.assign(1, {}), others_.clear(), lagged_.clear(), runs_.clear(), alone_.clear();
  work_.resize(n_), priority_.resize(n_), runs_ahead_.resize(n_);
  queues_ = 0;
  for (std::uint32_t r = 0; r < graph.resources.size(); ++r) {
    const std::uint32_t first = first_of_queue_[r];
    if (first == none) continue;
    const std::uint32_t place = place_of_[first], last = place_of_[last_of_queue_[r]];
    places_[place].chain = offset(last, place, 1);
    lagged_.push_back({place, last, 1, true});
    first_of_queue_[r] = graph.resources[r].discipline == Discipline::fifo ? ++queues_ : 0;  // from now on its number
  }
  for (std::uint32_t t = 0; t < n_; ++t)
    if (chained_after_[t] != none) places_[place_of_[t]].chain = offset(place_of_[chained_after_[t]], place_of_[t], 0);
  for (std::uint32_t t = 0; t < n_; ++t) {
    const bool queues = graph.resources[graph.tasks[t].resource].discipline != Discipline::parallel;
    for (const Arc& a : graph.successors(t)) tie_to(graph, place_of_[a.task], place_of_[t], a.lag, queues);
  }
  if (!std::ranges::is_sorted(others_)) std::ranges::sort(others_);
  before_.clear();
  for (const auto& [p, before] : others_) {
    const auto at = static_cast<std::uint32_t>(before_.size());
    before_.push_back(before);
    if (places_[p].more == 0) places_[p].more = add_more({at, at});
    more_[places_[p].more].to = at + 1;
  }
  for (std::uint32_t p = 0; p < n_; ++p) {
    const std::uint32_t t = task_at_[p];
    const Task& task = graph.tasks[t];
    const Resource& resource = graph.resources[task.resource];
    priority_[p] = task.priority;
    runs_ahead_[p] = resource.kind == ResourceClass::host;
    Place& place = places_[p];
    if (resource.discipline == Discipline::fifo) {
      if (place.more == 0) place.more = add_more({});
      more_[place.more].queue = first_of_queue_[task.resource];
      more_[place.more].is_first = chained_after_[t] == none;
    }
    if (place.second == 0) place.second = place.first;
    if (place.first == 0 || place.chain == 0) alone_.push_back(p);
    add_to_run(p);
  }
  marker_ = place_of_[graph.marker];
}

/// The ends of one more iteration; false where a queue would have served in another order.
bool InOrderPeriod::evaluate(std::uint32_t row) {
  if (ends_.size() < std::size_t{row + pad_ + 1} * n_) ends_.resize(std::size_t{row + pad_ + 1} * n_);
  Picoseconds* const ends = row_at(row);
  for (const std::uint32_t p : alone_) ends[p] = 0;
  for (const Run& run : runs_) {
    if (run.is_line) {
      if (!evaluate_line(run, ends, row)) return false;
      continue;
    }
    for (std::uint32_t p = run.from; p < run.to; ++p) {
      const Place place = places_[p];
      Picoseconds* const end = ends + p;
      Picoseconds start = std::max(end[place.first], end[place.second]);
      if (place.more != 0) {
        const More& more = more_[place.more];
        for (std::uint32_t i = more.from; i < more.to; ++i) start = std::max(start, end[before_[i]]);
        if (more.queue != 0 && !is_next(served_[more.queue], {start, p, row})) return false;
        if (more.is_first) first_ready_[more.queue] = start;
      }
      *end = std::max(start, end[place.chain]) + work_[p];
    }
  }
  return true;
}

bool InOrderPeriod::evaluate_line(const Run& run, Picoseconds* ends, std::uint32_t row) {
  Picoseconds last = ends[static_cast<std::int64_t>(run.from) - 1];
  if (run.queue == 0) {
    for (std::uint32_t p = run.from; p < run.to; ++p)
      ends[p] = last = std::max(last, ends[std::int64_t{p} + places_[p].first]) + work_[p];
    return true;
  }
  Served& served = served_[run.queue];
  for (std::uint32_t p = run.from; p < run.to; ++p) {
    const Picoseconds ready = ends[std::int64_t{p} + places_[p].first];
    if (!is_next(served, {ready, p, row})) return false;
    ends[p] = last = std::max(last, ready) + work_[p];
  }
  return true;
}

/// Whoever is ready first is served first; at the same time priority, iteration and number decide.
bool InOrderPeriod::is_next(Served& last, const Served& now) const {
  const auto rank = [&](const Served& s) { return std::tuple(s.ready, priority_[s.place], s.row, task_at_[s.place]); };
  if (now.ready <= last.ready && rank(now) < rank(last)) return false;
  last = now;
  return true;
}

std::optional<Picoseconds> InOrderPeriod::operator()(const TaskGraph& graph) {
  for (std::uint32_t p = 0; p < n_; ++p) work_[p] = graph.tasks[task_at_[p]].work;
  if (ends_.size() < std::size_t{pad_} * n_) ends_.resize(std::size_t{pad_} * n_);
  std::fill_n(ends_.begin(), std::size_t{pad_} * n_, 0);
  served_.assign(queues_ + 1, {});
  first_ready_.assign(queues_ + 1, 0);
  for (std::uint32_t row = 0; row < most_rows; ++row) {
    if (!evaluate(row)) return std::nullopt;
    if (goes_on(row + 1)) return period_;
    if (!recurs(row + 1)) continue;
    // Nothing of the next iteration may come before what was served last in this one.
    if (queues_ > 0 && !barrier_ && most_lag_ > 0 && !evaluate(row + 1)) return std::nullopt;
    return period_;
  }
  return std::nullopt;
}

/// Is it known by now that the next iteration will end the search, with every task one period after its copy in the
/// last one?
bool InOrderPeriod::goes_on(std::uint32_t rows) {
  if (barrier_ || most_lag_ == 0 || rows != most_lag_ + 1) return false;
  const std::uint32_t last = rows - 1;
  const Picoseconds shift = row_at(last)[marker_] - row_at(last - 1)[marker_];
  // What the two iterations after it wait for in those before them comes a period later each time.
  const auto end_of = [&](std::uint32_t row, std::uint32_t source) {
    return row <= last ? row_at(row)[source] : row_at(last)[source] + (row - last) * shift;
  };
  const auto comes_later = [&](const Lagged& wait) {
    const std::uint32_t now = last - wait.lag;
    if (end_of(now + 1, wait.source) - end_of(now, wait.source) == shift &&
        end_of(now + 2, wait.source) - end_of(now + 1, wait.source) == shift)
      return true;
    // If not this one, then perhaps another one that the place waits for longer.
    std::array<Picoseconds, 3> until{};
    for (const Lagged& other : lagged_)
      for (std::uint32_t ahead = 0; other.is_beside(wait) && ahead < until.size(); ++ahead)
        until[ahead] = std::max(until[ahead], end_of(last + ahead - other.lag, other.source));
    return until[1] - until[0] == shift && until[2] - until[1] == shift;
  };
  if (!std::ranges::all_of(lagged_, comes_later)) return false;
  // The first of a queue in the next iteration comes after the last one of this.
  for (std::uint32_t q = 1; q <= queues_; ++q)
    if (first_ready_[q] + shift <= served_[q].ready) return false;
  // The rule itself, of the iterations that are there.
  for (std::uint32_t row = last; row > 1; --row)
    if (!recurs_after(row, 1, shift)) return false;
  period_ = shift;
  return true;
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
