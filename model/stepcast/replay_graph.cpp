// The graph that a replay schedules: one step's host spans and device work as tasks, and what each waited for.
//
// Recorded time is a task only where somebody worked. Where a thread waited the recorded time is cut out, and an arc
// from what it waited for takes its place, so that the wait emerges, longer or shorter, when something else changes:
//
//   launch         host ---o--- host            o -> launch latency -> device task
//   synchronise    host ---[ cut ]o--- host     awaited device task -> o
//   hand-over      main ---o[ cut ]o--- main    o -> other thread's burst -> o     (backward pass)
//   collective     main ---o ... [ cut ]o---    o -> collective on its thread -> o (gloo)
//
// Points (o) are tasks without work. Arcs of lag 1 lead from the last task of every thread and stream to its first.
#include <stepcast/replay.hpp>
#include <stepcast/replay_parts.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace stepcast {
namespace replaying {
namespace {

/// Launch calls block when about this many launches are pending (CUDA queues 1024).
constexpr std::int64_t launch_queue_depth = 1000;

Picoseconds picoseconds(std::int64_t ns) { return ns * 1000; }

/// At `time` the thread passes `task`. Clocks are coarse: of points at one time the order of their events decides.
struct HostPoint {
  std::int64_t time = 0;
  std::int64_t order = 0;
  std::uint32_t task = no_index;
};
std::int64_t just_before(std::uint32_t event) { return 2 * std::int64_t{event} - 1; }
std::int64_t at(std::uint32_t event) { return 2 * std::int64_t{event}; }
std::int64_t just_after(std::uint32_t event) { return 2 * std::int64_t{event} + 1; }
/// Recorded waiting of a thread.
struct Cut {
  std::int64_t begin = 0, end = 0;
};
struct Plan {
  std::vector<HostPoint> points;
  std::vector<Cut> cuts;
  std::uint32_t resource = 0;
  std::uint32_t first = no_index, last = no_index;  ///< tasks of the chain
};

class Assembly {
 public:
  Assembly(const Trace& trace, const Step& step)
      : trace_(trace),
        step_(step),
        device_(trace, step_),
        threads_(host_threads_of(trace, step_, device_)),
        plans_(threads_.size()),
        usual_launches_(usual_launch_times()) {}

  TaskGraph graph() {
    add_resources();
    add_device_tasks();
    add_point(0, step_.start_ns, INT64_MIN, no_index);
    end_point_ = add_point(0, step_.end_ns, INT64_MAX, no_index);
    for (std::size_t t = 0; t < threads_.size(); ++t) add_device_points(t);
    add_releases();
    for (std::size_t t = 1; t < threads_.size(); ++t) add_hand_overs(t);
    add_collectives();
    for (std::size_t t = 0; t < threads_.size(); ++t) chain(t);
    close();
    return builder_.build();
  }

 private:
  const Event& event(std::uint32_t e) const { return trace_.events[e]; }
  std::string_view name(std::uint32_t e) const { return trace_.text(trace_.events[e].name); }

  std::uint32_t add(TaskKind kind, std::uint32_t resource, std::int64_t work_ns, std::uint32_t index) {
    return builder_.add_task({picoseconds(work_ns), resource, 0, index, kind, 0});
  }
  std::uint32_t add_point(std::size_t thread, std::int64_t time, std::int64_t order, std::uint32_t index) {
    const std::uint32_t task = add(TaskKind::host, plans_[thread].resource, 0, index);
    plans_[thread].points.push_back({time, order, task});
    return task;
  }
  void depend(const Counterpart& on, std::uint32_t task) { builder_.add_arc(device_tasks_[on.task], task, on.lag); }

  void add_resources() {
    for (std::size_t t = 0; t < threads_.size(); ++t)
      plans_[t].resource = builder_.add_resource({"thread " + std::to_string(t), ResourceClass::host});
    launches_ = builder_.add_resource({"launch", ResourceClass::host});
    for (std::size_t s = 0; s < device_.streams.size(); ++s)
      streams_.push_back(builder_.add_resource({"stream " + std::to_string(s), ResourceClass::compute}));
  }

  void add_device_tasks() {
    device_tasks_.resize(device_.tasks.size());
    for (std::size_t s = 0; s < device_.streams.size(); ++s) {
      const std::vector<std::uint32_t>& stream = device_.streams[s];
      for (std::size_t i = 0; i < stream.size(); ++i) {
        const DeviceTask& task = device_.tasks[stream[i]];
        device_tasks_[stream[i]] = add(TaskKind::kernel, streams_[s], task.work_ns, task.event);
        if (i > 0) follow(s, stream[i - 1], stream[i], 0);
      }
      follow(s, stream.back(), stream.front(), 1);
    }
    for (const StreamWait& wait : device_.stream_waits) depend(wait.on, device_tasks_[wait.task]);
  }

  /// The next work of a stream starts a turn-around after the work before it.
  void follow(std::size_t stream, std::uint32_t before, std::uint32_t after, std::uint32_t lag) {
    const DeviceTask& next = device_.tasks[after];
    std::uint32_t from = device_tasks_[before];
    if (next.turn_ns > 0) {
      const std::uint32_t turn = add(TaskKind::other, streams_[stream], next.turn_ns, no_index);
      builder_.add_arc(from, turn, std::exchange(lag, 0));
      from = turn;
    }
    builder_.add_arc(from, device_tasks_[after], lag);
  }

  /// Launches and synchronising calls of one thread.
  void add_device_points(std::size_t t) {
    std::uint32_t last_launched = no_index;
    for (const std::uint32_t e : threads_[t].events) {
      if (event(e).kind != EventKind::runtime_call) continue;
      const std::uint32_t task = device_.launched_by(e);
      if (task == no_index) {
        add_synchronisation(t, e, last_launched);
        continue;
      }
      last_launched = task;
      if (event(device_.tasks[task].event).kind == EventKind::copy) add_copy(t, e, device_.tasks[task], task);
      else add_launch(t, e);
    }
  }

  /// Median duration of each launch function, over the whole trace, while the launch queue was not full.
  std::map<StringId, std::int64_t> usual_launch_times() const {
    std::map<StringId, std::vector<std::int64_t>> durations;
    for (const std::uint32_t e : device_.launches())
      if (device_.pending(event(e).start_ns) < launch_queue_depth)
        durations[event(e).name].push_back(event(e).duration_ns);
    std::map<StringId, std::int64_t> usual;
    for (auto& [id, all] : durations) {
      const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
      std::nth_element(all.begin(), middle, all.end());
      usual[id] = *middle;
    }
    return usual;
  }

  void release_at(std::size_t t, std::uint32_t call, std::int64_t time, std::int64_t latency_ns) {
    releases_[call] = {add_point(t, time, at(call), call), latency_ns};
  }

  void add_launch(std::size_t t, std::uint32_t call) {
    const Event& c = event(call);
    release_at(t, call, c.start_ns, device_.latency_ns);
    if (device_.pending(c.start_ns) < launch_queue_depth) return;
    // Blocked by the full queue: the usual cost of the call stays, the rest was waiting for the device.
    const auto own = usual_launches_.find(c.name);
    const std::int64_t cost = own == usual_launches_.end() ? 0 : own->second;
    if (cost < c.duration_ns) plans_[t].cuts.push_back({c.start_ns + cost, c.end_ns()});
  }

  /// Pageable memory makes the host take part in a copy: to the host it waits for the end, to the device for the start.
  void add_copy(std::size_t t, std::uint32_t call, const DeviceTask& task, std::uint32_t number) {
    const Event &c = event(call), &copy = event(task.event);
    const bool pinned = name(task.event).find("Pinned") != std::string_view::npos;
    const bool takes_part = !pinned || name(call).find("Async") == std::string_view::npos;
    const bool to_host = name(task.event).find("DtoH") != std::string_view::npos;
    const bool from_host = name(task.event).find("HtoD") != std::string_view::npos;
    if (takes_part && to_host && copy.end_ns() <= c.end_ns() + clock_slack_ns) {
      // A copy that seems to end before its own call began: the device's clock runs behind, the call tells more.
      const std::int64_t until = copy.end_ns() > c.start_ns ? within(c, copy.end_ns()) : c.end_ns();
      release_at(t, call, c.start_ns, device_.latency_ns);
      builder_.add_arc(device_tasks_[number], resume(t, c.start_ns, until, at(call), call));
    } else if (takes_part && from_host && copy.start_ns < c.end_ns()) {
      std::int64_t ready = c.start_ns;
      const std::uint32_t before = device_.before_on_stream(task.event);
      if (before != no_index && event(before).end_ns() > ready) {
        ready = within(c, std::min(event(before).end_ns(), copy.start_ns));
        const std::uint32_t resumed = resume(t, c.start_ns, ready, at(call), call);
        if (const auto on = device_.counterpart(before)) depend(*on, resumed);
      }
      release_at(t, call, ready, std::max<std::int64_t>(0, copy.start_ns - ready));
    } else {
      release_at(t, call, c.start_ns, device_.latency_ns);
    }
  }

  /// A device time as a moment within a host call: the two clocks may disagree.
  static std::int64_t within(const Event& call, std::int64_t time) {
    return std::clamp(time, call.start_ns, call.end_ns());
  }

  /// Cuts [from, to] out of a thread and returns the point at which it goes on.
  std::uint32_t resume(std::size_t t, std::int64_t from, std::int64_t to, std::int64_t order, std::uint32_t index) {
    if (from < to) plans_[t].cuts.push_back({from, to});
    return add_point(t, to, order, index);
  }

  void add_synchronisation(std::size_t t, std::uint32_t call, std::uint32_t last_launched_here) {
    const std::string_view called = name(call);
    const auto says = [&](std::string_view word) { return called.find(word) != std::string_view::npos; };
    const bool frees = called == "cudaFree" || called == "hipFree";
    if (!says("Synchronize") && !frees) return;
    const Event& c = event(call);
    const std::int64_t latest = c.end_ns() + clock_slack_ns;
    const std::uint32_t awaited = device_.last_ended(c.start_ns, latest, c.start_ns);
    std::vector<std::uint32_t> others;
    if (frees || says("DeviceSynchronize") || says("CtxSynchronize")) others = device_.last_launched(c.start_ns);
    else if (last_launched_here != no_index) others.push_back(device_.tasks[last_launched_here].event);
    const std::int64_t until = awaited == no_index ? c.start_ns : within(c, event(awaited).end_ns());
    others.push_back(awaited);
    const std::uint32_t resumed = resume(t, c.start_ns, until, at(call), call);
    for (const std::uint32_t on : others) {
      if (on == no_index || event(on).end_ns() > latest) continue;
      if (const auto it = device_.counterpart(on)) depend(*it, resumed);
    }
  }

  /// Every launch reaches its stream a latency later; of a graph's tasks only the first on each stream waits for it.
  void add_releases() {
    for (const std::vector<std::uint32_t>& stream : device_.streams)
      for (std::size_t i = 0; i < stream.size(); ++i) {
        const DeviceTask& task = device_.tasks[stream[i]];
        if (task.launch == no_index || (i > 0 && device_.tasks[stream[i - 1]].launch == task.launch)) continue;
        const auto released = releases_.find(task.launch);
        if (released == releases_.end()) continue;
        const auto [point, latency_ns] = released->second;
        const std::uint32_t latency = add(TaskKind::other, launches_, latency_ns, task.launch);
        builder_.add_arc(point, latency);
        builder_.add_arc(latency, device_tasks_[stream[i]]);
      }
  }

  void add_hand_overs(std::size_t t) {
    std::int64_t busy_until = step_.start_ns;
    for (const Burst& burst : bursts_of(threads_[0], threads_[t])) {
      plans_[t].cuts.push_back({busy_until, burst.begin});
      busy_until = burst.end;
      const std::uint32_t begins = add_point(t, burst.begin, just_before(burst.first), burst.first);
      if (burst.quiet < 0) {
        builder_.add_arc(add_point(0, burst.begin, just_before(burst.first), burst.first), begins);
        continue;
      }
      const HostSpan& span = threads_[0].spans[static_cast<std::size_t>(burst.quiet)];
      const auto after = std::ranges::upper_bound(threads_[t].events, burst.end, {},
                                                  [&](std::uint32_t e) { return event(e).start_ns; });
      const std::uint32_t last = *(after - 1);
      const std::uint32_t ends = add_point(t, burst.end, just_after(last), burst.first);
      add_gap_between(add_point(0, span.begin, just_before(burst.first), burst.first), begins, burst.begin - span.begin,
                      t);
      add_gap_between(ends, resume(0, span.begin, span.end, just_after(last), burst.first), span.end - burst.end, t);
    }
    plans_[t].cuts.push_back({busy_until, step_.end_ns});
  }

  void add_gap_between(std::uint32_t from, std::uint32_t to, std::int64_t gap_ns, std::size_t t) {
    const std::uint32_t gap = add(TaskKind::gap, plans_[t].resource, gap_ns, no_index);
    builder_.add_arc(from, gap);
    builder_.add_arc(gap, to);
  }

  /// A collective on a worker thread, and who waited for it.
  struct HostCollective {
    std::uint32_t event = no_index;
    std::int64_t released_ns = 0;                                 ///< when the first waiting thread went on
    std::vector<std::pair<std::int64_t, std::uint32_t>> waiting;  ///< time and point
  };

  void add_collectives() {
    std::vector<HostCollective> collectives;
    const std::vector<std::uint32_t> events = host_collectives_of(trace_, step_, threads_);
    for (const std::uint32_t e : events) collectives.push_back({e, event(e).end_ns(), {}});
    if (collectives.empty()) return;
    for (const CollectiveWait& wait : collective_waits_of(trace_, threads_, events)) {
      HostCollective& awaited = collectives[wait.collective];
      awaited.released_ns = std::min(awaited.released_ns, wait.until);
      awaited.waiting.emplace_back(wait.until,
                                   resume(wait.thread, wait.from, wait.until, at(awaited.event), awaited.event));
    }
    collect_unseen_waits(collectives);
    const std::vector<CollectiveIssue> issues = collective_issues_of(trace_, threads_);
    std::size_t issued = 0;
    std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> worker;  // track -> first and last task
    for (const HostCollective& collective : collectives) {
      const Event& c = event(collective.event);
      const auto [first, last] = add_transfer(collective);
      if (issued < issues.size() && event(issues[issued].event).start_ns <= c.start_ns) {
        const auto [thread, call] = issues[issued++];
        builder_.add_arc(add_point(thread, std::min(event(call).end_ns(), c.start_ns), at(call), call), first);
      } else {
        builder_.add_arc(add_point(0, c.start_ns, at(collective.event), collective.event), first);
      }
      const auto [entry, is_new] = worker.try_emplace(c.track, first, last);
      if (!is_new) builder_.add_arc(std::exchange(entry->second.second, last), first);
    }
    for (const auto& [track, tasks] : worker) builder_.add_arc(tasks.second, tasks.first, 1);
  }

  /// Results are collected in order: a collective that nobody was seen waiting for had ended before its turn came. It
  /// is awaited where the next wait after its end was over, at the latest when the step ends.
  void collect_unseen_waits(std::vector<HostCollective>& collectives) const {
    std::vector<std::pair<std::int64_t, std::uint32_t>> seen;
    for (const HostCollective& c : collectives) seen.insert(seen.end(), c.waiting.begin(), c.waiting.end());
    seen.emplace_back(step_.end_ns, end_point_);
    std::ranges::sort(seen);
    for (HostCollective& collective : collectives) {
      const std::int64_t ended = event(collective.event).end_ns();
      const auto next = std::ranges::lower_bound(seen, std::pair(ended, std::uint32_t{0}));
      if (collective.waiting.empty() && next != seen.end()) collective.waiting.push_back(*next);
    }
  }

  /// The collective as one task, or as two where a thread went on before its recorded end.
  std::pair<std::uint32_t, std::uint32_t> add_transfer(const HostCollective& collective) {
    const Event& c = event(collective.event);
    const auto [entry, is_new] = workers_.try_emplace(c.track, 0);
    if (is_new)
      entry->second =
          builder_.add_resource({"collectives " + std::to_string(workers_.size() - 1), ResourceClass::communication});
    const std::uint32_t head =
        add(TaskKind::transfer, entry->second, collective.released_ns - c.start_ns, collective.event);
    std::uint32_t tail = head;
    if (collective.released_ns < c.end_ns()) {
      tail = add(TaskKind::transfer, entry->second, c.end_ns() - collective.released_ns, collective.event);
      builder_.add_arc(head, tail);
    }
    for (const auto& [time, point] : collective.waiting)
      builder_.add_arc(time <= collective.released_ns ? head : tail, point);
    return {head, tail};
  }

  /// Walks a thread's spans, skips what was cut out, and threads the points in at their times.
  void chain(std::size_t t) {
    Plan& plan = plans_[t];
    std::ranges::stable_sort(plan.points, {}, [](const HostPoint& p) { return std::pair(p.time, p.order); });
    std::ranges::sort(plan.cuts, {}, &Cut::begin);
    Chain chain{*this, plan};
    std::size_t point = 0, cut = 0;
    for (const HostSpan& span : threads_[t].spans) {
      for (std::int64_t now = span.begin; now < span.end;) {
        for (; point < plan.points.size() && plan.points[point].time <= now; ++point)
          chain.pass(plan.points[point].task);
        while (cut < plan.cuts.size() && plan.cuts[cut].end <= now) ++cut;
        std::int64_t stop = span.end;
        if (point < plan.points.size()) stop = std::min(stop, plan.points[point].time);
        if (cut < plan.cuts.size() && plan.cuts[cut].begin <= now) {
          now = std::min(stop, plan.cuts[cut].end);
          continue;
        }
        if (cut < plan.cuts.size()) stop = std::min(stop, plan.cuts[cut].begin);
        chain.work(span, stop - now);
        now = stop;
      }
    }
    for (; point < plan.points.size(); ++point) chain.pass(plan.points[point].task);
    chain.flush();
    if (plan.first != no_index) builder_.add_arc(plan.last, plan.first, 1);
  }

  /// The growing row of a thread's tasks: one a top-level operator or gap between two points.
  struct Chain {
    Assembly& assembly;
    Plan& plan;
    std::uint32_t outermost = no_index, event = no_index;
    std::int64_t work_ns = 0;

    void work(const HostSpan& span, std::int64_t duration_ns) {
      if (work_ns > 0 && span.outermost != outermost) flush();
      if (work_ns == 0) outermost = span.outermost, event = span.event;
      work_ns += duration_ns;
    }
    void flush() {
      if (work_ns == 0) return;
      const TaskKind kind = outermost == no_index ? TaskKind::gap : TaskKind::host;
      link(assembly.add(kind, plan.resource, std::exchange(work_ns, 0), event));
    }
    void pass(std::uint32_t task) {
      flush();
      link(task);
    }
    void link(std::uint32_t task) {
      if (plan.first == no_index) plan.first = task;
      else assembly.builder_.add_arc(plan.last, task);
      plan.last = task;
    }
  };

  /// The step ends when the main thread and every stream have ended theirs.
  void close() {
    const std::uint32_t end = add(TaskKind::host, plans_[0].resource, 0, no_index);
    builder_.add_arc(plans_[0].last, end);
    for (const std::vector<std::uint32_t>& stream : device_.streams)
      builder_.add_arc(device_tasks_[stream.back()], end);
    builder_.graph().marker = end;
  }

  const Trace& trace_;
  Step step_;
  DeviceSide device_;
  std::vector<HostThread> threads_;
  std::vector<Plan> plans_;
  std::map<StringId, std::int64_t> usual_launches_;
  TaskGraphBuilder builder_;
  std::vector<std::uint32_t> streams_, device_tasks_;
  std::map<std::uint32_t, std::pair<std::uint32_t, std::int64_t>> releases_;  // launch call -> point, latency
  std::map<std::uint32_t, std::uint32_t> workers_;                            // track -> resource
  std::uint32_t launches_ = 0, end_point_ = no_index;
};

}  // namespace

TaskGraph graph_of_step(const Trace& trace, const Step& step) { return Assembly(trace, step).graph(); }

}  // namespace replaying
}  // namespace stepcast
