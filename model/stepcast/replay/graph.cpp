// The graph of one step: its resources, its device work, what other threads do for the main thread, and its end.
#include <stepcast/replay/calls.hpp>
#include <stepcast/replay/collectives.hpp>
#include <stepcast/replay/graph.hpp>
#include <stepcast/replay/step_builder.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace stepcast::replaying {
namespace {

using Part = TaskRole::Part;

class Assembly {
 public:
  Assembly(const TraceLinks& links, const Step& step)
      : links_(links),
        step_(step),
        device_(links, step_),
        build_(links, step_, host_threads_of(links, step_, device_)) {}

  StepGraph graph() {
    add_streams();
    const std::uint32_t begin = build_.add_point(0, step_.start_ns, INT64_MIN, no_index);
    const std::uint32_t end = build_.add_point(0, step_.end_ns, INT64_MAX, no_index);
    add_releases(add_device_calls(build_, device_, device_tasks_));
    for (std::size_t t = 1; t < build_.threads.size(); ++t) add_hand_overs(t);
    add_host_collectives(build_, end);
    build_.chain_threads();
    return build_.build(add_end(), begin);
  }

 private:
  void add_streams() {
    device_tasks_.resize(device_.tasks.size());
    for (std::size_t s = 0; s < device_.streams.size(); ++s) {
      const std::vector<std::uint32_t>& stream = device_.streams[s];
      const std::uint32_t resource = build_.add_resource("stream " + std::to_string(s), ResourceClass::compute,
                                                         links_.event(device_.tasks[stream.front()].event).track);
      for (std::size_t i = 0; i < stream.size(); ++i) {
        const DeviceTask& task = device_.tasks[stream[i]];
        device_tasks_[stream[i]] = build_.add(Part::device, TaskKind::kernel, resource, task.work_ns, task.event);
        if (i > 0) follow(resource, stream[i - 1], stream[i], 0);
      }
      follow(resource, stream.back(), stream.front(), 1);
    }
    for (const StreamWait& wait : device_.stream_waits)
      build_.add_arc(device_tasks_[wait.on.task], device_tasks_[wait.task], wait.on.lag);
  }

  /// The next work of a stream starts a turn-around after the work before it.
  void follow(std::uint32_t stream, std::uint32_t before, std::uint32_t after, std::uint32_t lag) {
    const DeviceTask& next = device_.tasks[after];
    std::uint32_t from = device_tasks_[before];
    if (next.turn_ns > 0) {
      const std::uint32_t turn = build_.add(Part::turn_around, TaskKind::other, stream, next.turn_ns, no_index);
      build_.add_arc(from, turn, std::exchange(lag, 0));
      from = turn;
    }
    build_.add_arc(from, device_tasks_[after], lag);
  }

  /// Every launch reaches its stream a latency later; of a graph's tasks only the first on each stream waits for it.
  void add_releases(const std::vector<std::pair<std::uint32_t, Release>>& releases) {
    const std::uint32_t launches = build_.add_resource("launch", ResourceClass::host, no_index);
    for (const std::vector<std::uint32_t>& stream : device_.streams)
      for (std::size_t i = 0; i < stream.size(); ++i) {
        const std::uint32_t launch = device_.tasks[stream[i]].launch;
        if (launch == no_index || (i > 0 && device_.tasks[stream[i - 1]].launch == launch)) continue;
        const auto it = std::ranges::lower_bound(releases, launch, {}, &std::pair<std::uint32_t, Release>::first);
        if (it == releases.end() || it->first != launch) continue;
        const std::uint32_t latency =
            build_.add(Part::latency, TaskKind::other, launches, it->second.latency_ns, launch);
        build_.add_arc(it->second.point, latency);
        build_.add_arc(latency, device_tasks_[stream[i]]);
      }
  }

  void add_hand_overs(std::size_t t) {
    const HostThread &main = build_.threads[0], &thread = build_.threads[t];
    std::int64_t busy_until = step_.start_ns;
    for (const Burst& burst : bursts_of(main, thread)) {
      build_.cut(t, busy_until, burst.begin);
      busy_until = burst.end;
      const std::uint32_t begins = build_.add_point(t, burst.begin, just_before(burst.first), burst.first);
      if (burst.quiet < 0) {
        build_.add_arc(build_.add_point(0, burst.begin, just_before(burst.first), burst.first), begins);
        continue;
      }
      const HostSpan& span = main.spans[static_cast<std::size_t>(burst.quiet)];
      const auto after = std::ranges::upper_bound(thread.events, burst.end, {},
                                                  [&](std::uint32_t e) { return links_.event(e).start_ns; });
      const std::uint32_t last = *(after - 1);
      const std::uint32_t ends = build_.add_point(t, burst.end, just_after(last), burst.first);
      build_.add_gap_between(build_.add_point(0, span.begin, just_before(burst.first), burst.first), begins,
                             burst.begin - span.begin, t);
      build_.add_gap_between(ends, build_.resume(0, span.begin, span.end, just_after(last), burst.first),
                             span.end - burst.end, t);
    }
    build_.cut(t, busy_until, step_.end_ns);
  }

  /// The step ends when the main thread and every stream have ended theirs.
  std::uint32_t add_end() {
    const std::uint32_t end = build_.add(Part::point, TaskKind::host, build_.resource_of(0), 0, no_index);
    build_.add_arc(build_.last_of(0), end);
    for (const std::vector<std::uint32_t>& stream : device_.streams) build_.add_arc(device_tasks_[stream.back()], end);
    return end;
  }

  const TraceLinks& links_;
  Step step_;
  DeviceSide device_;
  StepBuilder build_;
  std::vector<std::uint32_t> device_tasks_;  // by task of the device side
};

}  // namespace

StepGraph graph_of_step(const TraceLinks& links, const Step& step) { return Assembly(links, step).graph(); }

}  // namespace stepcast::replaying
