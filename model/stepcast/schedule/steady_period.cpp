// The queue whose next event is the earliest acts next; ends are passed on at once.
#include <stepcast/schedule/steady_period.hpp>

#include <algorithm>
#include <bit>
#include <functional>

namespace stepcast {
namespace {

constexpr std::uint32_t most_iterations = ScheduleOptions{}.most_iterations;

constexpr std::uint32_t biased(std::int32_t priority) { return static_cast<std::uint32_t>(priority) ^ 0x80000000u; }
constexpr std::uint64_t rank_of(std::uint32_t biased_priority, std::uint32_t instance) {
  return std::uint64_t{biased_priority} << 32 | instance;
}
std::uint32_t instance_of(std::uint64_t rank) { return static_cast<std::uint32_t>(rank); }

}  // namespace

// --- Claims ---------------------------------------------------------------------------------------------------------

void SteadyPeriod::Claims::clear() {
  late_.clear();
  next_ = end_ = 0;
}

inline void SteadyPeriod::Claims::add(const Claim& claim) {
  if (next_ == end_) next_ = end_ = 0;
  if (end_ > 0 && !(in_order_[end_ - 1] < claim)) {
    late_.push_back(claim);
    std::push_heap(late_.begin(), late_.end(), [](const Claim& a, const Claim& b) { return b < a; });
    return;
  }
  if (end_ == in_order_.size()) in_order_.resize(2 * end_ + 16);
  in_order_[end_++] = claim;
}

inline void SteadyPeriod::Claims::pop() {
  if (!late_is_first()) {
    ++next_;
    return;
  }
  std::pop_heap(late_.begin(), late_.end(), [](const Claim& a, const Claim& b) { return b < a; });
  late_.pop_back();
}

// --- Tasks ----------------------------------------------------------------------------------------------------------

bool SteadyPeriod::covers(const TaskGraph& graph) {
  return graph.tasks.size() < std::size_t{1} << task_bits &&
         std::none_of(graph.resources.begin(), graph.resources.end(), [](const Resource& r) { return r.preemptive; }) &&
         std::all_of(graph.arcs.begin(), graph.arcs.end(), [](const Arc& a) { return a.lag <= most_lag; }) &&
         std::all_of(graph.tasks.begin(), graph.tasks.end(), [&](const Task& t) {
           return t.slow_down == 1 && (t.work > 0 || graph.resources[t.resource].discipline == Discipline::parallel);
         });
}

void SteadyPeriod::prepare(const TaskGraph& graph) {
  graph_ = &graph;
  n_ = static_cast<std::uint32_t>(graph.tasks.size());
  bits_ = static_cast<std::uint32_t>(std::bit_width(n_ - 1));
  rows_ = complete_ = most_lag_ = released_ = 0;
  first_held_ = never;
  times_.clear(), pending_.clear(), unfinished_.clear(), order_.clear();
  ready_.resize(n_);
  all_ended_ = 0;
  row_finished_ = false;
  for (Held& held : held_) held.instances.clear(), held.first_start = never;
  prepare_queues();
  prepare_tasks();
}

void SteadyPeriod::prepare_queues() {
  const std::size_t resources = graph_->resources.size();
  queue_of_.assign(resources, none);
  std::uint32_t queues = 0;
  for (std::size_t r = 0; r < resources; ++r) {
    const Resource& resource = graph_->resources[r];
    if (resource.discipline == Discipline::parallel) continue;
    queue_of_[r] = queues++;
    if (queues_.size() < queues) queues_.emplace_back();
    Queue& q = queues_[queue_of_[r]];
    q.discipline = resource.discipline;
    q.credit = q.credit_left = resource.discipline == Discipline::priority ? resource.credit : 0;
    q.free = 0;
    q.serving = none;
    q.served = q.position = q.row = 0;
    q.claims.clear(), q.urgent.clear(), q.issued.clear(), q.order.clear();
    q.begin.fill(never), q.end.fill(0);
  }
  queues_.resize(queues);
  events_.assign(queues, never);
}

void SteadyPeriod::prepare_tasks() {
  for (const Arc& a : graph_->arcs) most_lag_ = std::max(most_lag_, a.lag);
  // Row k: how many predecessors a task of iteration k has; arcs of larger lag come from before the first iteration.
  const std::size_t row = std::size_t{1} << bits_;
  waits_.assign((most_lag_ + 1) * row, 0);
  followers_.resize(graph_->arcs.size()), briefs_.resize(n_), lagged_.clear();
  for (std::uint32_t t = 0; t < n_; ++t) {
    const Task& task = graph_->tasks[t];
    const std::uint32_t first = graph_->first_arc[t], last = graph_->first_arc[t + 1];
    const Brief brief{task.work, queue_of_[task.resource], biased(task.priority), first, last};
    briefs_[t] = brief;
    if (brief.queue != none && queues_[brief.queue].discipline == Discipline::in_order)
      queues_[brief.queue].order.push_back(rank_of(brief.biased_priority, t));
    for (std::uint32_t i = first; i < last; ++i) {
      const Arc a = graph_->arcs[i];
      followers_[i] = {(a.lag << bits_) + a.task - t, a.lag};
      ++waits_[a.lag * row + a.task];
      if (a.lag > 0) lagged_.push_back({a.task, t, a.lag});
    }
  }
  for (std::size_t i = row; i < waits_.size(); ++i) waits_[i] += waits_[i - row];
  for (Queue& q : queues_)
    if (!std::is_sorted(q.order.begin(), q.order.end())) std::sort(q.order.begin(), q.order.end());
}

void SteadyPeriod::add_row() {
  const std::size_t row = std::size_t{1} << bits_;
  const auto waits = waits_.begin() + static_cast<std::ptrdiff_t>(std::min(rows_, most_lag_) * row);
  pending_.insert(pending_.end(), waits, waits + static_cast<std::ptrdiff_t>(row));
  unfinished_.push_back(n_);
  ++rows_;
  times_.resize(rows_ * row);
  if (ended_.size() < times_.size()) ended_.resize(times_.size());
  if (held_.size() < rows_) held_.emplace_back();
}

inline void SteadyPeriod::end_at(Number i, Picoseconds end) {
  times_[i] = end;
  if (row_of(i) == 0) order_.push_back(i);
  ended_[all_ended_++] = i;
}

// All that an instance waits for has a known end.
inline void SteadyPeriod::make_ready(Number i, Picoseconds time) {
  const Brief& task = briefs_[task_of(i)];
  if (task.queue != none) {
    join(task.queue, i, task.biased_priority, time);
  } else if (const std::uint32_t row = row_of(i); row <= released_) {
    end_at(i, time + task.work);
  } else {
    held_[row].instances.push_back(i);
    held_[row].first_start = std::min(held_[row].first_start, time);
    first_held_ = std::min(first_held_, time);
  }
}

// Tells those that wait for an instance when it ends.
inline void SteadyPeriod::follow(Number ended) {
  const Brief& task = briefs_[task_of(ended)];
  const Picoseconds end = times_[ended];
  if (--unfinished_[row_of(ended)] == 0) row_finished_ = true;
  for (std::uint32_t f = task.first_follower; f < task.last_follower; ++f) {
    const Follower follower = followers_[f];
    if (follower.lag > 0) {
      if (follower.lag >= most_iterations - row_of(ended)) continue;
      while (row_of(ended) + follower.lag >= rows_) add_row();
    }
    const Number next = ended + follower.ahead;
    const Picoseconds ready = std::max(times_[next], end);
    times_[next] = ready;
    if (--pending_[next] == 0) make_ready(next, ready);
  }
}

// Tells the successors of all that has ended, and what follows from that without a queue.
void SteadyPeriod::follow_ends() {
  while (all_ended_ > 0) follow(ended_[--all_ended_]);
}

// The first iteration of which something held back starts at or before `time`.
std::uint32_t SteadyPeriod::row_held_until(Picoseconds time) const {
  for (std::uint32_t row = released_ + 1; row < rows_; ++row)
    if (!held_[row].instances.empty() && held_[row].first_start <= time) return row;
  return none;
}

void SteadyPeriod::release(std::uint32_t until) {
  while (released_ < until) {
    Held& held = held_[++released_];
    for (const Number i : held.instances) end_at(i, times_[i] + briefs_[task_of(i)].work);
    held.instances.clear();
    held.first_start = never;
  }
  first_held_ = never;
  for (std::uint32_t row = released_ + 1; row < rows_; ++row)
    first_held_ = std::min(first_held_, held_[row].first_start);
}

// --- Queues ---------------------------------------------------------------------------------------------------------

// When the queue can do something next, as far as is known.
inline Picoseconds SteadyPeriod::next_event(const Queue& q) const {
  switch (q.discipline) {
    case Discipline::fifo:
      return q.claims.empty() ? never : std::max(q.free, q.claims.first().time);
    case Discipline::in_order: {
      if (q.order.empty() || q.row >= rows_) return never;
      const Number next = q.row << bits_ | instance_of(q.order[q.position]);
      return pending_[next] == 0 ? std::max(q.free, times_[next]) : never;
    }
    case Discipline::priority: {
      if (q.credit == 0) {
        if (!q.urgent.empty()) return q.free;
        return q.claims.empty() ? never : std::max(q.free, q.claims.first().time);
      }
      // Something is issued when it becomes ready, if credit is left; else when what is served ends.
      const Picoseconds done = q.serving == none ? never : q.free;
      const bool may_issue = q.credit_left > 0 && !q.claims.empty();
      return may_issue ? std::min(done, q.claims.first().time) : done;
    }
    case Discipline::parallel:
      break;
  }
  return never;
}

// Its next event may become an earlier one, but not a later one.
inline void SteadyPeriod::join(std::uint32_t queue, Number i, std::uint32_t biased_priority, Picoseconds time) {
  Queue& q = queues_[queue];
  if (row_of(i) == 0) ready_[i] = time;
  Picoseconds& begin = q.begin[row_of(i) >= most_lag_];
  begin = std::min(begin, time);
  if (q.discipline == Discipline::in_order) {  // whose turn it is, is known
    if (row_of(i) == q.row && task_of(i) == instance_of(q.order[q.position])) events_[queue] = std::max(q.free, time);
    return;
  }
  q.claims.add({time, rank_of(biased_priority, i)});
  if (q.credit == 0) events_[queue] = std::min(events_[queue], std::max(q.free, time));
  else if (q.credit_left > 0) events_[queue] = std::min(events_[queue], time);
}

inline void SteadyPeriod::serve(Queue& q, Number i, Picoseconds start) {
  q.free = start + briefs_[task_of(i)].work;
  q.end[row_of(i) >= most_lag_] = q.free;
  end_at(i, q.free);
}

inline void SteadyPeriod::act(Queue& q, Picoseconds now) {
  if (q.discipline == Discipline::in_order) {
    const Number next = q.row << bits_ | instance_of(q.order[q.position]);
    if (++q.position == q.order.size()) q.position = 0, ++q.row;
    serve(q, next, now);
    return;
  }
  if (q.discipline == Discipline::fifo) {
    const Number next = instance_of(q.claims.first().rank);
    q.claims.pop();
    serve(q, next, now);
    return;
  }
  for (; !q.claims.empty() && q.claims.first().time <= now; q.claims.pop()) {
    q.urgent.push_back(q.claims.first().rank);
    std::push_heap(q.urgent.begin(), q.urgent.end(), std::greater<>());
  }
  if (q.credit > 0) {
    act_under_credit(q, now);
    return;
  }
  std::pop_heap(q.urgent.begin(), q.urgent.end(), std::greater<>());
  const Number next = instance_of(q.urgent.back());
  q.urgent.pop_back();
  serve(q, next, now);
}

void SteadyPeriod::act_under_credit(Queue& q, Picoseconds now) {
  if (q.serving != none && q.free == now) {
    q.credit_left = std::min(q.credit, q.credit_left + graph_->tasks[task_of(q.serving)].bytes);
    q.serving = none;
  }
  while (q.credit_left > 0 && !q.urgent.empty()) {
    std::pop_heap(q.urgent.begin(), q.urgent.end(), std::greater<>());
    q.issued.push_back(instance_of(q.urgent.back()));
    q.urgent.pop_back();
    q.credit_left -= graph_->tasks[task_of(q.issued.back())].bytes;
  }
  if (q.serving != none || q.served == q.issued.size()) return;
  q.serving = q.issued[q.served++];
  serve(q, q.serving, now);
}

// --- Iterations -----------------------------------------------------------------------------------------------------

Picoseconds SteadyPeriod::operator()(const TaskGraph& graph) {
  prepare(graph);
  // What waits only for iterations before the first one may start at once, also in iterations after the first.
  add_row();
  while (rows_ < most_lag_) add_row();
  for (std::uint32_t row = 0, rows = rows_; row < rows; ++row)
    for (std::uint32_t t = 0; t < n_; ++t)
      if (const Number i = row << bits_ | t; pending_[i] == 0) make_ready(i, 0);
  while (true) {
    follow_ends();
    while (row_finished_ && complete_ < rows_ && unfinished_[complete_] == 0) {
      ++complete_;
      if (look_for_steady_state() || goes_on() || (complete_ == 1 && repeats_the_first())) return period_;
    }
    row_finished_ = false;
    if (complete_ >= most_iterations) break;
    std::size_t next = 0;
    Picoseconds now = never;
    for (std::size_t q = 0; q < events_.size(); ++q)
      if (events_[q] < now) now = events_[q], next = q;
    if (first_held_ != never && first_held_ <= now) {
      release(row_held_until(now));
    } else if (now != never) {
      act(queues_[next], now);
      events_[next] = next_event(queues_[next]);
    } else {
      break;
    }
  }
  return schedule(graph).period;
}

Picoseconds SteadyPeriod::marker_end(std::uint32_t row) const { return row_at(row)[graph_->marker]; }

// The rule of schedule.hpp.
bool SteadyPeriod::look_for_steady_state() {
  const std::uint32_t last = complete_ - 1;
  if (graph_->barrier || most_lag_ == 0) {
    period_ = marker_end(last);
    return true;
  }
  for (std::uint32_t k = 1; k <= 4; ++k) {
    if (complete_ < most_lag_ + k + 1) return false;
    const Picoseconds shift = marker_end(last) - marker_end(last - k);
    bool recurs = true;
    for (std::uint32_t back = 0; recurs && back < most_lag_; ++back) recurs = recurs_after(last - back, k, shift);
    if (!recurs) continue;
    period_ = shift / k;
    return true;
  }
  return false;
}

// Does the rule apply with the next iteration, which is the last one, a period later?
bool SteadyPeriod::goes_on() {
  if (complete_ != most_lag_ + 1) return false;
  const std::uint32_t last = complete_ - 1;
  const Picoseconds shift = marker_end(last) - marker_end(last - 1);
  // No queue holds anything of an iteration before the last one, or of that one when the next one comes.
  for (const Queue& q : queues_) {
    if (q.begin[1] == never) continue;
    if (q.end[0] > q.begin[1] || q.end[1] > q.begin[1] + shift) return false;
  }
  if (!continues(shift)) return false;
  period_ = shift;
  return true;
}

// True where all that the next iteration waits for in earlier ones comes a period later than for the last one.
bool SteadyPeriod::continues(Picoseconds shift) const {
  for (const Lagged& wait : lagged_)
    if (!comes_later(wait, shift)) return false;
  for (std::uint32_t row = complete_ - 1; row > 1; --row)
    if (!recurs_after(row, 1, shift)) return false;
  return true;
}

// Is the period known from the first iteration and those that follow if the queues repeat it? Else nothing has changed.
bool SteadyPeriod::repeats_the_first() {
  repeated_.assign((most_lag_ + 1) << bits_, 0);
  std::copy_n(times_.begin(), n_, repeated_.begin());
  std::swap(times_, repeated_);
  const bool is_known = repeat_the_first();
  std::swap(times_, repeated_);
  complete_ = 1;
  return is_known;
}

bool SteadyPeriod::repeat_the_first() {
  // For how long a queue has work in an iteration.
  Picoseconds longest = 0;
  for (const std::uint32_t t : order_) {
    if (briefs_[t].queue == none) continue;
    Queue& q = queues_[briefs_[t].queue];
    longest = std::max(longest, times_[t] - q.begin[0]);
  }
  Picoseconds last_shift = 0;
  for (std::uint32_t row = 1; row <= most_lag_; ++row) {
    for (const Lagged& wait : lagged_) {
      if (wait.lag > row) continue;
      Picoseconds& ready = times_[row << bits_ | wait.task];
      ready = std::max(ready, row_at(row - wait.lag)[wait.source]);
    }
    Picoseconds* const ends = times_.data() + (std::size_t{row} << bits_);
    Picoseconds shift = never;
    for (const std::uint32_t t : order_) {
      const Brief& task = briefs_[t];
      Picoseconds& end = ends[t];
      if (task.queue == none) {
        end += task.work;
      } else {
        if (shift == never) shift = end - ready_[t];
        if (end - ready_[t] != shift) return false;
        end = row_at(0)[t] + shift;
      }
      for (std::uint32_t f = task.first_follower; f < task.last_follower; ++f) {
        if (followers_[f].lag > 0) continue;
        Picoseconds& next = ends[t + followers_[f].ahead];
        next = std::max(next, end);
      }
    }
    if (shift != never && shift - last_shift < longest) return false;
    last_shift = shift;
  }
  complete_ = most_lag_ + 1;
  const Picoseconds shift = marker_end(most_lag_) - marker_end(most_lag_ - 1);
  if (shift < longest || !continues(shift)) return false;
  period_ = shift;
  return true;
}

// Of a task that is known, or was one period before.
Picoseconds SteadyPeriod::end_of(std::uint32_t row, std::uint32_t task, Picoseconds shift) const {
  const std::uint32_t known = std::min(row, complete_ - 1);
  return row_at(known)[task] + (row - known) * shift;
}

// True where the task waits until one period later from iteration to iteration, if not for this one then for another
// one in earlier iterations.
bool SteadyPeriod::comes_later(const Lagged& wait, Picoseconds shift) const {
  const auto next_of = [&](const Lagged& a, std::uint32_t ahead) {
    return end_of(complete_ - 1 + ahead - a.lag, a.source, shift);
  };
  bool each = true;
  for (std::uint32_t ahead = 1; each && ahead <= most_lag_; ++ahead)
    each = next_of(wait, ahead) - next_of(wait, ahead - 1) == shift;
  if (each) return true;
  for (std::uint32_t ahead = 1; ahead <= most_lag_; ++ahead) {
    Picoseconds now = 0, next = 0;
    for (const Lagged& other : lagged_) {
      if (other.task != wait.task) continue;
      now = std::max(now, next_of(other, ahead - 1));
      next = std::max(next, next_of(other, ahead));
    }
    if (next - now != shift) return false;
  }
  return true;
}

bool SteadyPeriod::recurs_after(std::uint32_t row, std::uint32_t k, Picoseconds shift) const {
  constexpr Picoseconds tolerance = 1000;
  const Picoseconds *now = row_at(row), *before = row_at(row - k);
  for (std::uint32_t t = 0; t < n_; ++t) {
    const Picoseconds error = now[t] - before[t] - shift;
    if (error > tolerance) return false;
    if (error < -tolerance && graph_->resources[graph_->tasks[t].resource].kind != ResourceClass::host) return false;
  }
  return true;
}

}  // namespace stepcast
