// What the runtime calls of a replayed step do: launch work, copy memory, wait for the device.
#include <stepcast/replay/calls.hpp>
#include <stepcast/trace/event_names.hpp>

#include <algorithm>
#include <map>
#include <string_view>

namespace stepcast::replaying {
namespace {

/// Launch calls block when about this many launches are pending (CUDA queues 1024).
constexpr std::int64_t launch_queue_depth = 1000;

bool has(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

/// A device time as a moment within a host call: the two clocks may disagree.
std::int64_t within(const Event& call, std::int64_t time) { return std::clamp(time, call.start_ns, call.end_ns()); }

class DeviceCalls {
 public:
  DeviceCalls(StepBuilder& build, const DeviceSide& device, const std::vector<std::uint32_t>& device_tasks)
      : build_(build), links_(build.links), device_(device), device_tasks_(device_tasks) {}

  std::vector<std::pair<std::uint32_t, Release>> releases() {
    measure_usual_launches();
    for (std::size_t t = 0; t < build_.threads.size(); ++t) add_calls(t);
    std::ranges::sort(releases_, {}, &std::pair<std::uint32_t, Release>::first);
    return std::move(releases_);
  }

 private:
  const Event& event(std::uint32_t e) const { return links_.event(e); }
  std::string_view name(std::uint32_t e) const { return links_.trace.text(event(e).name); }
  void depend(const Counterpart& on, std::uint32_t task) { build_.add_arc(device_tasks_[on.task], task, on.lag); }

  /// Median duration of each launch function, over the whole trace, while the launch queue was not full.
  void measure_usual_launches() {
    bool full = false;
    std::map<StringId, std::vector<std::int64_t>> durations;
    for (const std::uint32_t e : links_.launches) {
      if (links_.pending(event(e).start_ns) < launch_queue_depth)
        durations[event(e).name].push_back(event(e).duration_ns);
      else full = true;
    }
    if (!full) return;
    for (auto& [id, all] : durations) {
      const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
      std::nth_element(all.begin(), middle, all.end());
      usual_launches_[id] = *middle;
    }
  }

  void add_calls(std::size_t t) {
    std::uint32_t last_launched = no_index;
    for (const std::uint32_t e : build_.threads[t].events) {
      if (event(e).kind != EventKind::runtime_call) continue;
      const std::uint32_t task = device_.launched_by(e);
      if (task == no_index) {
        add_synchronisation(t, e, last_launched);
        continue;
      }
      last_launched = task;
      if (event(device_.tasks[task].event).kind == EventKind::copy) add_copy(t, e, task);
      else add_launch(t, e);
    }
  }

  void release_at(std::size_t t, std::uint32_t call, std::int64_t time, std::int64_t latency_ns) {
    releases_.push_back({call, {build_.add_point(t, time, at(call), call), latency_ns}});
  }
  void release_at_start(std::size_t t, std::uint32_t call) {
    release_at(t, call, event(call).start_ns, device_.latency_of(call));
  }

  void add_launch(std::size_t t, std::uint32_t call) {
    const Event& c = event(call);
    release_at_start(t, call);
    if (links_.pending(c.start_ns) < launch_queue_depth) return;
    // Blocked by the full queue: the usual cost of the call stays, the rest was waiting for the device.
    const auto own = usual_launches_.find(c.name);
    const std::int64_t cost = own == usual_launches_.end() ? 0 : own->second;
    if (cost < c.duration_ns) build_.cut(t, c.start_ns + cost, c.end_ns());
  }

  /// Pageable memory makes the host take part in a copy: to the host it waits for the end, to the device for the start.
  void add_copy(std::size_t t, std::uint32_t call, std::uint32_t number) {
    const std::uint32_t work = device_.tasks[number].event;
    const Event &c = event(call), &copy = event(work);
    const bool takes_part = !has(name(work), "Pinned") || !has(name(call), "Async");
    const bool to_host = naming::copy_way(name(work)) == naming::CopyWay::to_host;
    const bool from_host = naming::copy_way(name(work)) == naming::CopyWay::from_host;
    if (takes_part && to_host && copy.end_ns() <= c.end_ns() + clock_slack_ns) {
      // A copy that seems to end before its own call began: the device's clock runs behind, the call tells more.
      const std::int64_t until = copy.end_ns() > c.start_ns ? within(c, copy.end_ns()) : c.end_ns();
      release_at_start(t, call);
      build_.add_arc(device_tasks_[number], build_.resume(t, c.start_ns, until, at(call), call));
    } else if (takes_part && from_host && copy.start_ns < c.end_ns()) {
      std::int64_t ready = c.start_ns;
      const std::uint32_t before = links_.before_on_stream(work);
      if (before != no_index && event(before).end_ns() > ready) {
        ready = within(c, std::min(event(before).end_ns(), copy.start_ns));
        const std::uint32_t resumed = build_.resume(t, c.start_ns, ready, at(call), call);
        if (const auto on = device_.counterpart(before)) depend(*on, resumed);
      }
      release_at(t, call, ready, std::max<std::int64_t>(0, copy.start_ns - ready));
    } else {
      release_at_start(t, call);
    }
  }

  /// What the call may have waited for: recorded, or else what ended during it and what it waits for by its nature.
  std::vector<std::uint32_t> awaited_by(std::uint32_t call, std::uint32_t last_launched_here) const {
    std::vector<std::uint32_t> awaited;
    const auto recorded = std::ranges::equal_range(links_.host_waits, call, {}, &Dependency::after);
    for (const Dependency& wait : recorded) awaited.push_back(wait.before);
    if (!awaited.empty()) return awaited;
    const std::string_view called = name(call);
    const bool whole_device = has(called, "DeviceSynchronize") || has(called, "CtxSynchronize") ||
                              called == "cudaFree" || called == "hipFree";
    const std::int64_t start = event(call).start_ns;
    if (whole_device) awaited = device_.last_launched(start);
    else if (!has(called, "EventSynchronize") && last_launched_here != no_index)
      awaited.push_back(device_.tasks[last_launched_here].event);
    const std::uint32_t ended = device_.last_ended(start, event(call).end_ns() + clock_slack_ns, start);
    if (ended != no_index) awaited.push_back(ended);
    return awaited;
  }

  void add_synchronisation(std::size_t t, std::uint32_t call, std::uint32_t last_launched_here) {
    const std::string_view called = name(call);
    if (!has(called, "Synchronize") && called != "cudaFree" && called != "hipFree") return;
    const Event& c = event(call);
    std::vector<std::uint32_t> awaited = awaited_by(call, last_launched_here);
    // Work that goes on after the call returned was not waited for.
    std::erase_if(awaited, [&](std::uint32_t on) { return event(on).end_ns() > c.end_ns() + clock_slack_ns; });
    std::int64_t until = c.start_ns;
    for (const std::uint32_t on : awaited) until = std::max(until, within(c, event(on).end_ns()));
    const std::uint32_t resumed = build_.resume(t, c.start_ns, until, at(call), call);
    for (const std::uint32_t on : awaited)
      if (const auto it = device_.counterpart(on)) depend(*it, resumed);
  }

  StepBuilder& build_;
  const TraceLinks& links_;
  const DeviceSide& device_;
  const std::vector<std::uint32_t>& device_tasks_;
  std::map<StringId, std::int64_t> usual_launches_;
  std::vector<std::pair<std::uint32_t, Release>> releases_;
};

}  // namespace

std::vector<std::pair<std::uint32_t, Release>> add_device_calls(StepBuilder& build, const DeviceSide& device,
                                                                const std::vector<std::uint32_t>& device_tasks) {
  return DeviceCalls(build, device, device_tasks).releases();
}

}  // namespace stepcast::replaying
