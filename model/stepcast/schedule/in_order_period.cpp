// One pass over flat arrays an iteration; what was assumed of the queues is checked on the way.
#include <stepcast/schedule/in_order_period.hpp>
#include <stepcast/schedule/schedule.hpp>

#include <algorithm>
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
  for (std::uint32_t t = 0; t < n_; ++t)
    if (chained_after_[t] != none) places_[place_of_[t]].chain = offset(chained_after_[t], t, 0);
  std::vector<std::uint32_t>& latest = last_of_queue_;  // of a queue, among what a place waits for
  latest.assign(graph.resources.size(), none);
  more_.assign(1, {}), runs_.clear(), lagged_.clear();
  work_.resize(n_), priority_.resize(n_), runs_ahead_.resize(n_);
  for (std::uint32_t p = 0, from = 0; p < n_; from = open_[p++]) {  // its entries end where those of the next begin
    std::uint32_t to = open_[p];
    if (from + 1 < to) keep_last_of_queues(graph, p, from, to);
    tie_place(graph, p, from, to);
    add_to_run(p);
  }
  marker_ = place_of_[graph.marker];
}

/// Of several that a place waits for in one queue and its own iteration, the last one served is enough.
void InOrderPeriod::keep_last_of_queues(const TaskGraph& graph, std::uint32_t p, std::uint32_t from,
                                        std::uint32_t& to) {
  std::vector<std::uint32_t>& latest = last_of_queue_;
  const auto queue_of = [&](std::int32_t offset) {
    const std::int64_t before = std::int64_t{p} + offset;
    if (before < 0) return none;
    const std::uint32_t r = graph.tasks[task_at_[static_cast<std::size_t>(before)]].resource;
    return graph.resources[r].discipline == Discipline::parallel ? none : r;
  };
  std::uint32_t kept = from;
  for (std::uint32_t i = from; i < to; ++i) {
    const std::int32_t offset = before_[i];
    const std::uint32_t queue = queue_of(offset);
    if (queue == none) {
      before_[kept++] = offset;
    } else if (latest[queue] == none) {
      latest[queue] = kept;
      before_[kept++] = offset;
    } else {
      before_[latest[queue]] = std::max(before_[latest[queue]], offset);
    }
  }
  to = kept;
  for (std::uint32_t i = from; i < to; ++i)
    if (const std::uint32_t queue = queue_of(before_[i]); queue != none) latest[queue] = none;
}

void InOrderPeriod::tie_place(const TaskGraph& graph, std::uint32_t p, std::uint32_t from, std::uint32_t to) {
  const Task& task = graph.tasks[task_at_[p]];
  Place& place = places_[p];
  const bool queues = place.chain != 0;
  const auto note_lag = [&](std::int32_t offset, bool in_queue) {
    const std::int64_t before = std::int64_t{p} + offset;
    if (before >= 0) return false;
    const auto lag = static_cast<std::uint32_t>((-before + n_ - 1) / n_);
    lagged_.push_back({p, static_cast<std::uint32_t>(before + std::int64_t{lag} * n_), lag, in_queue});
    return true;
  };
  for (std::uint32_t i = from; i < to; ++i) note_lag(before_[i], false);
  const bool is_first = queues && note_lag(place.chain, true);
  if (!queues) {  // what comes right before it in the order is its chain, if it waits for that
    const auto begin = before_.begin() + from, end = before_.begin() + to;
    const auto right_before = std::find(begin, end, -1);
    if (right_before != end) {
      place.chain = -1;
      std::iter_swap(right_before, begin);
      ++from;
    }
  }
  if (from < to) place.first = place.second = before_[from];
  if (from + 1 < to) place.second = before_[from + 1];
  const std::uint32_t queue = queues ? first_of_queue_[task.resource] : 0;
  if (queue != 0 || from + 2 < to) {
    place.more = static_cast<std::uint32_t>(more_.size());
    more_.push_back({std::min(from + 2, to), to, queue, is_first});
  }
  priority_[p] = task.priority;
  runs_ahead_[p] = graph.resources[task.resource].kind == ResourceClass::host;
}

void InOrderPeriod::add_to_run(std::uint32_t p) {
  const Place& place = places_[p];
  const More& more = more_[place.more];
  const bool in_line = place.chain == -1 && place.first == place.second && more.from == more.to && !more.is_first;
  if (runs_.empty() || runs_.back().is_line != in_line || (in_line && runs_.back().queue != more.queue))
    runs_.push_back({p, p, more.queue, in_line});
  runs_.back().to = p + 1;
}

/// The ends of one more iteration; false where a queue would have served in another order.
bool InOrderPeriod::evaluate(std::uint32_t row) {
  ends_.resize(std::size_t{row + pad_ + 1} * n_);
  Picoseconds* const ends = row_at(row);
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
  ends_.assign(std::size_t{pad_} * n_, 0);
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
  for (std::size_t from = 0, to = 0; from < lagged_.size(); from = to) {
    Picoseconds now = 0, next = 0, after = 0;
    for (; to < lagged_.size() && lagged_[to].is_beside(lagged_[from]); ++to) {
      const auto [place, source, lag, in_queue] = lagged_[to];
      now = std::max(now, end_of(last - lag, source));
      next = std::max(next, end_of(last + 1 - lag, source));
      after = std::max(after, end_of(last + 2 - lag, source));
    }
    if (next - now != shift || after - next != shift) return false;
  }
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
