// The queue whose next event is the earliest acts next; ends are passed on at once.
#include <stepcast/schedule/steady_period.hpp>

#include <algorithm>
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
  in_order_.clear(), late_.clear();
  next_ = 0;
}

void SteadyPeriod::Claims::add(const Claim& claim) {
  if (next_ == in_order_.size()) in_order_.clear(), next_ = 0;
  if (in_order_.empty() || in_order_.back() < claim) {
    in_order_.push_back(claim);
    return;
  }
  late_.push_back(claim);
  std::push_heap(late_.begin(), late_.end(), [](const Claim& a, const Claim& b) { return b < a; });
}

bool SteadyPeriod::Claims::late_is_first() const {
  return !late_.empty() && (next_ == in_order_.size() || late_.front() < in_order_[next_]);
}

const SteadyPeriod::Claim& SteadyPeriod::Claims::first() const {
  return late_is_first() ? late_.front() : in_order_[next_];
}

void SteadyPeriod::Claims::pop() {
  if (!late_is_first()) {
    ++next_;
    return;
  }
  std::pop_heap(late_.begin(), late_.end(), [](const Claim& a, const Claim& b) { return b < a; });
  late_.pop_back();
}

// --- Tasks ----------------------------------------------------------------------------------------------------------

bool SteadyPeriod::covers(const TaskGraph& graph) {
  constexpr std::uint32_t most_lag = 4;
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
  rows_ = complete_ = most_lag_ = released_ = 0;
  for (const Arc& a : graph.arcs) most_lag_ = std::max(most_lag_, std::min(a.lag, most_iterations));
  // Row k: how many predecessors a task of iteration k has; arcs of larger lag come from before the first iteration.
  fresh_.assign(std::size_t{most_lag_ + 1} * n_, {});
  for (const Arc& a : graph.arcs)
    if (a.lag <= most_lag_) ++fresh_[std::size_t{a.lag} * n_ + a.task].pending;
  for (std::size_t i = n_; i < fresh_.size(); ++i) fresh_[i].pending += fresh_[i - n_].pending;
  instances_.clear(), unfinished_.clear(), ended_.clear();
  for (Held& held : held_) held.instances.clear(), held.first_start = never;
  prepare_queues();
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
    q.served = q.position = 0;
    q.claims.clear(), q.urgent.clear(), q.issued.clear(), q.order.clear();
    q.stale = true;
  }
  queues_.resize(queues);
  briefs_.clear();
  briefs_.reserve(n_);
  for (std::uint32_t t = 0; t < n_; ++t) {
    const Task& task = graph_->tasks[t];
    const Brief& brief = briefs_.emplace_back(Brief{task.work, queue_of_[task.resource], biased(task.priority)});
    if (brief.queue != none && queues_[brief.queue].discipline == Discipline::in_order)
      queues_[brief.queue].order.push_back(rank_of(brief.biased_priority, t));
  }
  for (Queue& q : queues_)
    if (!std::is_sorted(q.order.begin(), q.order.end())) std::sort(q.order.begin(), q.order.end());
}

void SteadyPeriod::add_row() {
  const Instance* fresh = fresh_.data() + std::size_t{std::min(rows_, most_lag_)} * n_;
  instances_.insert(instances_.end(), fresh, fresh + n_);
  unfinished_.push_back(n_);
  ++rows_;
  if (held_.size() < rows_) held_.emplace_back();
}

void SteadyPeriod::end_at(Number i, Picoseconds end) {
  at(i).time = end;
  ended_.push_back(i);
}

// All that an instance waits for has a known end.
void SteadyPeriod::make_ready(Number i, Picoseconds time) {
  const Brief& task = briefs_[task_of(i)];
  const std::uint32_t row = row_of(i);
  if (task.queue != none) {
    Queue& q = queues_[task.queue];
    q.stale = true;
    if (q.discipline == Discipline::in_order) return;  // whose turn it is, is known
    q.claims.add({time, rank_of(task.biased_priority, i)});
  } else if (row <= released_) {
    end_at(i, time + task.work);
  } else {
    held_[row].instances.push_back(i);
    held_[row].first_start = std::min(held_[row].first_start, time);
  }
}

// Tells the successors of all that has ended, and what follows from that without a queue.
void SteadyPeriod::follow_ends() {
  while (!ended_.empty()) {
    const Number ended = ended_.back();
    ended_.pop_back();
    const std::uint32_t row = row_of(ended), task = task_of(ended);
    const Picoseconds end = at(ended).time;
    --unfinished_[row];
    for (const Arc& a : graph_->successors(task)) {
      if (a.lag >= most_iterations - row) continue;
      const std::uint32_t to = row + a.lag;
      while (to >= rows_) add_row();
      Instance& successor = instances_[std::size_t{to} * n_ + a.task];
      successor.time = std::max(successor.time, end);
      if (--successor.pending == 0) make_ready(number_of(to, a.task), successor.time);
    }
  }
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
    for (const Number i : held.instances) end_at(i, at(i).time + briefs_[task_of(i)].work);
    held.instances.clear();
    held.first_start = never;
  }
}

// --- Queues ---------------------------------------------------------------------------------------------------------

// When the queue can do something next, as far as is known.
Picoseconds SteadyPeriod::next_event(const Queue& q) const {
  switch (q.discipline) {
    case Discipline::fifo:
      return q.claims.empty() ? never : std::max(q.free, q.claims.first().time);
    case Discipline::in_order: {
      if (q.order.empty()) return never;  // a channel that no transfer uses
      const std::size_t row = q.position / q.order.size();
      if (row >= rows_) return never;
      const Instance& next = instances_[row * n_ + instance_of(q.order[q.position % q.order.size()])];
      return next.pending == 0 ? std::max(q.free, next.time) : never;
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

void SteadyPeriod::serve(Queue& q, Number i, Picoseconds start) {
  q.free = start + briefs_[task_of(i)].work;
  end_at(i, q.free);
}

void SteadyPeriod::act(Queue& q, Picoseconds now) {
  q.stale = true;
  if (q.discipline == Discipline::in_order) {
    const std::size_t row = q.position / q.order.size();
    const std::uint32_t task = instance_of(q.order[q.position % q.order.size()]);
    ++q.position;
    serve(q, number_of(static_cast<std::uint32_t>(row), task), now);
    return;
  }
  if (q.discipline == Discipline::fifo) {
    const std::uint32_t instance = instance_of(q.claims.first().rank);
    q.claims.pop();
    serve(q, instance, now);
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
  const std::uint32_t instance = instance_of(q.urgent.back());
  q.urgent.pop_back();
  serve(q, instance, now);
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
  while (rows_ < std::min(most_lag_, most_iterations)) add_row();
  for (std::uint32_t row = 0, rows = rows_; row < rows; ++row)
    for (std::uint32_t t = 0; t < n_; ++t)
      if (at(number_of(row, t)).pending == 0) make_ready(number_of(row, t), 0);
  while (true) {
    follow_ends();
    while (complete_ < rows_ && unfinished_[complete_] == 0) {
      ++complete_;
      if (look_for_steady_state()) return period_;
    }
    if (complete_ >= most_iterations) break;
    Queue* next = nullptr;
    Picoseconds now = never;
    for (Queue& q : queues_) {
      if (q.stale) q.event = next_event(q), q.stale = false;
      if (q.event < now) now = q.event, next = &q;
    }
    if (const std::uint32_t row = row_held_until(now); row != none) release(row);
    else if (next) act(*next, now);
    else break;
  }
  return schedule(graph).period;
}

Picoseconds SteadyPeriod::marker_end(std::uint32_t row) const {
  return instances_[std::size_t{row} * n_ + graph_->marker].time;
}

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

bool SteadyPeriod::recurs_after(std::uint32_t row, std::uint32_t k, Picoseconds shift) const {
  constexpr Picoseconds tolerance = 1000;
  const Instance* now = instances_.data() + std::size_t{row} * n_;
  const Instance* before = now - std::size_t{k} * n_;
  for (std::uint32_t t = 0; t < n_; ++t) {
    const Picoseconds error = now[t].time - before[t].time - shift;
    if (error > tolerance) return false;
    if (error < -tolerance && graph_->resources[graph_->tasks[t].resource].kind != ResourceClass::host) return false;
  }
  return true;
}

}  // namespace stepcast
