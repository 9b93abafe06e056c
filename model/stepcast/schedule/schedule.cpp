// The clock goes from event to event: ends free resources and successors, starts change the rates of what runs.
#include <stepcast/schedule/schedule.hpp>

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdlib>
#include <limits>
#include <unordered_map>

namespace stepcast {
namespace {

// One task of one iteration.
struct Instance {
  std::uint32_t iteration;
  std::uint32_t task;
  auto operator<=>(const Instance&) const = default;
};

// A waiting transfer; the heap yields the smallest (major, minor, instance), which is a total order.
struct Waiting {
  std::int64_t major;
  std::int64_t minor;
  Instance instance;
  bool operator<(const Waiting& o) const {  // reversed: std heaps keep the largest first
    if (major != o.major) return major > o.major;
    if (minor != o.minor) return minor > o.minor;
    return instance > o.instance;
  }
};

// A task in progress.
struct Running {
  Picoseconds end;
  Instance instance;
  Picoseconds remaining = 0;  // work left at the last change of rates; used only where tasks disturb one another
  Picoseconds since = 0;      // when it was started, or went on after an interruption
  bool operator<(const Running& o) const { return end != o.end ? end > o.end : instance > o.instance; }
};

struct Queue {
  std::vector<Waiting> waiting;  // heap
  std::vector<Instance> issued;  // under a credit: in order of issue, served from `served`
  std::size_t served = 0;
  std::int64_t credit_left = 0;
  std::vector<std::uint32_t> order;  // in_order: the resource's tasks in the order in which they must start
  std::size_t position = 0;          // in_order: how many have started, over all iterations
  bool busy = false;
  Instance serving{};                          // while busy
  std::uint32_t last = Timeline::no_instance;  // the task that it served last
};

class Simulation {
 public:
  Simulation(const TaskGraph& graph, Timeline& timeline, const ScheduleOptions& options)
      : graph_(graph),
        out_(timeline),
        options_(options),
        n_(static_cast<std::uint32_t>(graph.tasks.size())),
        disturbed_(
            std::any_of(graph.tasks.begin(), graph.tasks.end(), [](const Task& t) { return t.slow_down != 1; })) {
    prepare();
  }

  void run() {
    // What waits only for iterations before the first one may start at once, also in iterations after the first.
    while (rows_ < std::min(most_lag_, options_.most_iterations)) add_row();
    for (std::uint32_t k = 0; k < rows_; ++k)
      for (std::uint32_t t = 0; t < n_; ++t)
        if (pending_[at({k, t})] == 0) make_ready({k, t}, Timeline::no_instance);
    dispatch_all();
    while (!running_.empty()) {
      now_ = next_end();
      do { finish_due(); } while (!running_.empty() && next_end() == now_);
      if (done()) break;
      dispatch_all();
      if (disturbed_) change_rates();
    }
    if (!out_.steady) conclude_unsteady();
    out_.iterations = complete_;
  }

 private:
  void prepare() {
    for (const Arc& a : graph_.arcs) most_lag_ = std::max(most_lag_, a.lag);
    // Row k: how many predecessors a task of iteration k has; arcs of larger lag come from before the first iteration.
    degrees_.assign(std::size_t{most_lag_ + 1} * n_, 0);
    for (const Arc& a : graph_.arcs) ++degrees_[std::size_t{a.lag} * n_ + a.task];
    for (std::size_t i = n_; i < degrees_.size(); ++i) degrees_[i] += degrees_[i - n_];
    queues_.resize(graph_.resources.size());
    for (std::size_t r = 0; r < queues_.size(); ++r) queues_[r].credit_left = graph_.resources[r].credit;
    for (std::uint32_t t = 0; t < n_; ++t) {
      const std::uint32_t r = graph_.tasks[t].resource;
      if (graph_.resources[r].discipline == Discipline::in_order) queues_[r].order.push_back(t);
    }
    for (Queue& q : queues_)
      std::stable_sort(q.order.begin(), q.order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return graph_.tasks[a].priority < graph_.tasks[b].priority;
      });
    out_.tasks = n_;
    out_.steady = false;
    out_.period = 0;
    out_.period_iterations = 1;
    out_.start.clear();
    out_.end.clear();
    out_.cause.clear();
    add_row();
  }

  void add_row() {
    const std::uint32_t row = std::min(rows_, most_lag_);
    const auto* degrees = degrees_.data() + std::size_t{row} * n_;
    pending_.insert(pending_.end(), degrees, degrees + n_);
    const std::size_t size = std::size_t{rows_ + 1} * n_;
    out_.start.resize(size);
    out_.end.resize(size);
    out_.cause.resize(size);
    unfinished_.push_back(n_);
    ++rows_;
  }

  Picoseconds next_end() const {
    if (!disturbed_) return running_.front().end;
    return std::max_element(running_.begin(), running_.end())->end;
  }

  // Ends every task that is due now; tasks in program order follow at once, queued ones after all have been collected.
  void finish_due() {
    if (disturbed_) {
      due_.clear();
      for (std::size_t i = 0; i < running_.size();) {
        if (running_[i].end != now_) {
          ++i;
          continue;
        }
        due_.push_back(running_[i].instance);
        running_[i] = running_.back();
        running_.pop_back();
      }
      std::sort(due_.begin(), due_.end());
      for (const Instance& instance : due_) finish(instance);
      return;
    }
    while (!running_.empty() && running_.front().end == now_) {
      const Instance instance = running_.front().instance;
      std::pop_heap(running_.begin(), running_.end());
      running_.pop_back();
      finish(instance);
    }
  }

  // Where an instance stands in the rows of the timeline.
  std::uint32_t at(const Instance& i) const { return i.iteration * n_ + i.task; }
  const Task& task_of(const Instance& i) const { return graph_.tasks[i.task]; }
  const Resource& resource_of(const Instance& i) const { return graph_.resources[task_of(i).resource]; }

  void finish(const Instance instance) {
    const Task& task = task_of(instance);
    const std::uint32_t here = at(instance);
    out_.end[here] = now_;
    const Resource& resource = graph_.resources[task.resource];
    if (disturbed_) count(resource.kind, -1);
    if (resource.discipline != Discipline::parallel) {
      Queue& q = queues_[task.resource];
      q.busy = false;
      q.last = here;
      if (resource.discipline == Discipline::priority && resource.credit > 0)
        q.credit_left = std::min(resource.credit, q.credit_left + task.bytes);
    }
    for (const Arc& a : graph_.successors(instance.task)) {
      const std::uint32_t to = instance.iteration + a.lag;
      if (to >= options_.most_iterations) continue;
      while (to >= rows_) add_row();
      const Instance successor{to, a.task};
      if (--pending_[at(successor)] == 0) make_ready(successor, here);
    }
    if (--unfinished_[instance.iteration] == 0)
      while (complete_ < rows_ && unfinished_[complete_] == 0) {
        ++complete_;
        look_for_steady_state();
      }
  }

  void make_ready(const Instance instance, std::uint32_t cause) {
    const Task& task = task_of(instance);
    const Resource& resource = graph_.resources[task.resource];
    out_.cause[at(instance)] = cause;
    Queue& q = queues_[task.resource];
    switch (resource.discipline) {
      case Discipline::parallel:
        start(instance);
        return;
      case Discipline::fifo:
        q.waiting.push_back({now_, task.priority, instance});
        break;
      case Discipline::in_order:
        q.waiting.push_back({instance.iteration, task.priority, instance});
        break;
      case Discipline::priority:
        q.waiting.push_back({task.priority, 0, instance});
        break;
    }
    std::push_heap(q.waiting.begin(), q.waiting.end());
    out_.start[at(instance)] = now_;  // until it is served: the time at which it became ready
  }

  void dispatch_all() {
    for (std::uint32_t r = 0; r < queues_.size(); ++r)
      if (graph_.resources[r].discipline != Discipline::parallel) dispatch(r);
  }

  void dispatch(std::uint32_t r) {
    Queue& q = queues_[r];
    const Resource& resource = graph_.resources[r];
    const bool credit = resource.discipline == Discipline::priority && resource.credit > 0;
    if (credit)
      while (q.credit_left > 0 && !q.waiting.empty()) {
        const Instance instance = popped(q);
        q.credit_left -= task_of(instance).bytes;
        q.issued.push_back(instance);
      }
    if (q.busy && !(resource.preemptive && interrupted(q))) return;
    if (credit) {
      if (q.served == q.issued.size()) return;
      serve(q, q.issued[q.served++]);
    } else if (!q.waiting.empty()) {
      if (resource.discipline == Discipline::in_order) {
        const std::size_t length = q.order.size();
        const Instance turn{static_cast<std::uint32_t>(q.position / length), q.order[q.position % length]};
        if (q.waiting.front().instance != turn) return;
        ++q.position;
      }
      serve(q, popped(q));
    }
  }

  static Instance popped(Queue& q) {
    std::pop_heap(q.waiting.begin(), q.waiting.end());
    const Instance instance = q.waiting.back().instance;
    q.waiting.pop_back();
    return instance;
  }

  void serve(Queue& q, const Instance instance) {
    q.busy = true;
    q.serving = instance;
    if (const auto half_done = left_.find(at(instance)); half_done != left_.end()) {
      run(instance, half_done->second);
      left_.erase(half_done);
      return;
    }
    if (out_.start[at(instance)] != now_ && q.last != Timeline::no_instance) out_.cause[at(instance)] = q.last;
    start(instance);
  }

  // Takes what is in service out of it if something more urgent waits; it waits again, with the work that it has left.
  bool interrupted(Queue& q) {
    if (q.waiting.empty() || q.waiting.front().major >= task_of(q.serving).priority) return false;
    const auto found =
        std::find_if(running_.begin(), running_.end(), [&](const Running& r) { return r.instance == q.serving; });
    Picoseconds left = found->end - now_;
    if (disturbed_) {
      const double progress = static_cast<double>(now_ - std::max(changed_at_, found->since)) *
                              rate_of(q.serving, computing_before_, communicating_before_);
      left = std::max<Picoseconds>(0, found->remaining - std::llround(progress));
      count(resource_of(q.serving).kind, -1);
    }
    *found = running_.back();
    running_.pop_back();
    if (!disturbed_) std::make_heap(running_.begin(), running_.end());
    left_[at(q.serving)] = left;
    q.waiting.push_back({task_of(q.serving).priority, 0, q.serving});
    std::push_heap(q.waiting.begin(), q.waiting.end());
    return true;
  }

  void start(const Instance instance) {
    out_.start[at(instance)] = now_;
    run(instance, task_of(instance).work);
  }

  void run(const Instance instance, Picoseconds work) {
    running_.push_back({now_ + work, instance, work, now_});
    if (disturbed_) count(graph_.resources[task_of(instance).resource].kind, +1);
    else std::push_heap(running_.begin(), running_.end());
  }

  void count(ResourceClass kind, int by) {
    if (kind == ResourceClass::compute) computing_ += by;
    if (kind == ResourceClass::communication) communicating_ += by;
  }

  double rate_of(const Instance& instance, int computing, int communicating) const {
    switch (resource_of(instance).kind) {
      case ResourceClass::compute:
        return communicating > 0 ? 1 / task_of(instance).slow_down : 1;
      case ResourceClass::communication:
        return computing > 0 ? 1 / task_of(instance).slow_down : 1;
      default:
        return 1;
    }
  }

  // Brings every running task's remaining work up to date at the old rates and its end at the new ones. A task that
  // started just now has made no progress, whatever its old rate.
  void change_rates() {
    const bool same =
        (computing_ > 0) == (computing_before_ > 0) && (communicating_ > 0) == (communicating_before_ > 0);
    for (Running& r : running_) {
      const Picoseconds since = std::max(changed_at_, r.since);
      if (same && since != now_) continue;
      if (since != now_) {
        const double progress =
            static_cast<double>(now_ - since) * rate_of(r.instance, computing_before_, communicating_before_);
        r.remaining = std::max<Picoseconds>(0, r.remaining - std::llround(progress));
      }
      const double left = static_cast<double>(r.remaining) / rate_of(r.instance, computing_, communicating_);
      r.end = now_ + std::llround(left);
    }
    if (same) return;
    changed_at_ = now_;
    computing_before_ = computing_;
    communicating_before_ = communicating_;
  }

  bool done() const {
    if (complete_ < options_.least_iterations) return false;
    return out_.steady || complete_ >= options_.most_iterations;
  }

  void look_for_steady_state() {
    if (out_.steady) return;
    const std::uint32_t last = complete_ - 1;
    if (graph_.barrier || (most_lag_ == 0)) {
      settle(out_.end[std::size_t{last} * n_ + graph_.marker], 1);
      return;
    }
    const std::uint32_t needed = std::max(1u, most_lag_);  // consecutive recurrences that fix all that follows
    for (std::uint32_t k = 1; k <= 4; ++k) {
      if (complete_ < needed + k + 1) return;
      const Picoseconds shift = marker_end(last) - marker_end(last - k);
      bool recurs = true;
      for (std::uint32_t back = 0; recurs && back < needed; ++back) recurs = recurs_after(last - back, k, shift);
      if (recurs) {
        settle(shift / k, k);
        return;
      }
    }
  }

  Picoseconds marker_end(std::uint32_t iteration) const {
    return out_.end[std::size_t{iteration} * n_ + graph_.marker];
  }

  // Did every task of `iteration` end `shift` after its copy k iterations before? A host that runs ahead may be
  // earlier.
  bool recurs_after(std::uint32_t iteration, std::uint32_t k, Picoseconds shift) const {
    constexpr Picoseconds tolerance = 1000;
    const Picoseconds* now = out_.end.data() + std::size_t{iteration} * n_;
    const Picoseconds* before = now - std::size_t{k} * n_;
    for (std::uint32_t t = 0; t < n_; ++t) {
      const Picoseconds error = now[t] - before[t] - shift;
      if (error > tolerance) return false;
      if (error < -tolerance && graph_.resources[graph_.tasks[t].resource].kind != ResourceClass::host) return false;
    }
    return true;
  }

  void settle(Picoseconds period, std::uint32_t k) {
    out_.steady = true;
    out_.period = period;
    out_.period_iterations = k;
  }

  void conclude_unsteady() {
    if (complete_ < 2) {
      out_.period = complete_ == 1 ? marker_end(0) : 0;
      return;
    }
    const std::uint32_t half = (complete_ - 1) / 2;
    out_.period = (marker_end(complete_ - 1) - marker_end(half)) / (complete_ - 1 - half);
  }

  const TaskGraph& graph_;
  Timeline& out_;
  const ScheduleOptions& options_;
  const std::uint32_t n_;
  const bool disturbed_;
  Picoseconds now_ = 0, changed_at_ = 0;
  std::uint32_t most_lag_ = 0, rows_ = 0, complete_ = 0;
  int computing_ = 0, communicating_ = 0, computing_before_ = 0, communicating_before_ = 0;
  std::vector<std::uint32_t> degrees_, pending_, unfinished_;
  std::vector<Instance> due_;
  std::vector<Queue> queues_;
  std::vector<Running> running_;
  std::unordered_map<std::uint32_t, Picoseconds> left_;  // work that interrupted tasks have left
};

}  // namespace

void schedule(const TaskGraph& graph, Timeline& timeline, const ScheduleOptions& options) {
  Simulation(graph, timeline, options).run();
}

Timeline schedule(const TaskGraph& graph, const ScheduleOptions& options) {
  Timeline timeline;
  schedule(graph, timeline, options);
  return timeline;
}

}  // namespace stepcast
