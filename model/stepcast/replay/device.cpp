// The device side of a replay: what one step put on the streams, and which stream waited for which.
//
// A dependency between streams is *recorded* (the file holds the ids of the events), or else *called* (the host asked
// one stream to wait for an event just before the launch); in both cases it may also be *seen* (the work started later
// than its stream, its launch and the known waits explain, and right after other work ended: an event that the trace
// does not show, the inside of a CUDA graph, or a device without room for both). What is seen needs that the awaited
// work was launched before, or by the same graph, and had ended, or was draining its last blocks. Without ids, of
// several candidates the last is taken.
#include <stepcast/replay/device.hpp>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace stepcast::replaying {
namespace {

/// Mean of the middle half: immune to the few values that hold a wait, and finer than a median of whole microseconds.
std::int64_t interquartile_mean(std::vector<std::int64_t>& values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t from = values.size() / 4, to = std::max(from + 1, values.size() - values.size() / 4);
  std::int64_t sum = 0;
  for (std::size_t i = from; i < to; ++i) sum += values[i];
  return sum / static_cast<std::int64_t>(to - from);
}

/// How long before its end a kernel may have freed room for another: its last wave of blocks.
std::int64_t drain_ns(const Event& kernel) {
  constexpr std::int64_t longest_ns = 20'000;
  return std::min(longest_ns, kernel.duration_ns / 20);
}

}  // namespace

// TraceLinks.

TraceLinks::TraceLinks(const Trace& t) : trace(t) {
  const std::size_t n = trace.events.size();
  streams.resize(trace.tracks.size());
  position.assign(n, no_index);
  launch_of.assign(n, no_index);
  first_of_launch.assign(n, no_index);
  std::unordered_map<std::int64_t, std::uint32_t> calls;
  for (std::uint32_t e = 0; e < n; ++e)
    if (event(e).kind == EventKind::runtime_call && event(e).correlation > 0)
      calls.try_emplace(event(e).correlation, e);
  for (std::uint32_t e = 0; e < n; ++e) {
    if (!is_device_work(event(e).kind)) continue;
    work.push_back(e);
    position[e] = static_cast<std::uint32_t>(streams[event(e).track].size());
    streams[event(e).track].push_back(e);
    const auto call = calls.find(event(e).correlation);
    if (call == calls.end()) continue;
    launch_of[e] = call->second;
    if (first_of_launch[call->second] != no_index) continue;  // further work of a graph
    first_of_launch[call->second] = e;
    launches.push_back(call->second);
    launch_times_.push_back(event(call->second).start_ns);
    start_times_.push_back(event(e).start_ns);
  }
  std::sort(launch_times_.begin(), launch_times_.end());
  std::sort(start_times_.begin(), start_times_.end());
  for (const Dependency& d : trace.dependencies) {
    if (d.kind == DependencyKind::stream_wait) stream_waits.push_back(d);
    if (d.kind == DependencyKind::host_wait) host_waits.push_back(d);
  }
  for (std::vector<Dependency>* waits : {&stream_waits, &host_waits})
    std::ranges::stable_sort(*waits, {}, &Dependency::after);
}

std::int64_t TraceLinks::launch_time(std::uint32_t e) const {
  return launch_of[e] == no_index ? INT64_MIN : event(launch_of[e]).start_ns;
}

std::uint32_t TraceLinks::before_on_stream(std::uint32_t e) const {
  return position[e] == 0 ? no_index : streams[event(e).track][position[e] - 1];
}

std::pair<std::uint32_t, std::uint32_t> TraceLinks::events_within(std::int64_t from, std::int64_t to) const {
  const auto index_at = [&](std::int64_t time) {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(trace.events, time, {}, &Event::start_ns) -
                                      trace.events.begin());
  };
  return {index_at(from), index_at(to)};
}

std::int64_t TraceLinks::pending(std::int64_t time) const {
  const auto launched = std::ranges::upper_bound(launch_times_, time) - launch_times_.begin();
  const auto started = std::ranges::upper_bound(start_times_, time) - start_times_.begin();
  return launched - started;
}

// DeviceSide.

DeviceSide::DeviceSide(const TraceLinks& links, const Step& step) : links_(links), step_(step) {
  collect_tasks();
  measure_constants();
  shape_tasks();
  if (links_.stream_waits.empty()) add_called_waits();
  else add_recorded_waits();
  add_seen_waits();
}

void DeviceSide::collect_tasks() {
  of_step_.resize(links_.streams.size());
  task_of_.assign(links_.trace.events.size(), no_index);
  // Work that no call explains (a lossy recording) belongs to the step of the work before it on its stream.
  std::vector<bool> inside(links_.streams.size(), false);
  for (const std::uint32_t e : links_.work) {
    const std::uint32_t track = links_.event(e).track;
    const std::int64_t launched = links_.launch_time(e);
    if (links_.launch_of[e] != no_index) inside[track] = launched >= step_.start_ns && launched < step_.end_ns;
    if (!inside[track]) continue;
    task_of_[e] = static_cast<std::uint32_t>(tasks.size());
    if (!of_step_[track].used) {
      of_step_[track] = {links_.position[e], streams.size(), true};
      streams.emplace_back();
    }
    streams[of_step_[track].stream].push_back(task_of_[e]);
    tasks.push_back({e, links_.launch_of[e]});
  }
}

std::uint32_t DeviceSide::launched_by(std::uint32_t call) const {
  const std::uint32_t first = links_.first_of_launch[call];
  return first == no_index ? no_index : task_of_[first];
}

std::int64_t DeviceSide::latency_of(std::uint32_t call) const {
  const auto own = latencies_.find(links_.event(call).name);
  return own == latencies_.end() ? latency_ns_ : own->second;
}

/// Time from the launch call to the start, if only the launch can explain it.
std::optional<std::int64_t> DeviceSide::pure_latency(const DeviceTask& task) const {
  if (task.launch == no_index || links_.first_of_launch[task.launch] != task.event) return std::nullopt;
  const std::uint32_t before = links_.before_on_stream(task.event);
  const Event &event = links_.event(task.event), &call = links_.event(task.launch);
  if (before != no_index && links_.event(before).end_ns() > call.start_ns) return std::nullopt;
  const bool staged = event.kind == EventKind::copy && call.end_ns() > event.start_ns;  // the host prepares the copy
  const bool waited = draining(task) != no_index ||
                      last_ended(call.start_ns, event.start_ns + clock_slack_ns, call.start_ns) != no_index;
  if (staged || waited) return std::nullopt;
  return event.start_ns - call.start_ns;
}

void DeviceSide::measure_constants() {
  constexpr std::size_t telling = 8;  // fewer samples of one function say less than all of them
  std::map<StringId, std::vector<std::int64_t>> of_function;
  std::vector<std::int64_t> latencies, turns;
  for (const DeviceTask& task : tasks)
    if (const auto latency = pure_latency(task)) {
      latencies.push_back(*latency);
      of_function[links_.event(task.launch).name].push_back(*latency);
    }
  latency_ns_ = std::max<std::int64_t>(0, interquartile_mean(latencies));
  for (auto& [name, values] : of_function)
    if (values.size() >= telling) latencies_[name] = std::max<std::int64_t>(0, interquartile_mean(values));
  for (const DeviceTask& task : tasks) {
    const std::uint32_t before = links_.before_on_stream(task.event);
    if (before == no_index || task.launch == no_index) continue;
    // Queued for sure: the launch had reached the stream before the work ahead of it ended.
    const std::int64_t free = links_.event(before).end_ns(), start = links_.event(task.event).start_ns;
    const bool queued = links_.event(task.launch).start_ns + latency_of(task.launch) < free;
    if (start < free || !queued) continue;
    const bool waited =
        last_ended(free, start + clock_slack_ns, links_.launch_time(task.event), task.event) != no_index;
    if (!waited) turns.push_back(start - free);
  }
  turn_around_ns = interquartile_mean(turns);
}

void DeviceSide::shape_tasks() {
  for (DeviceTask& task : tasks) {
    const Event& event = links_.event(task.event);
    const std::vector<std::uint32_t>& stream = links_.streams[event.track];
    std::int64_t end = event.end_ns();
    if (const std::size_t next = links_.position[task.event] + std::size_t{1}; next < stream.size())
      end = std::min(end, links_.event(stream[next]).start_ns);
    task.work_ns = end - event.start_ns;
    const std::uint32_t before = links_.before_on_stream(task.event);
    if (before == no_index || links_.event(before).end_ns() <= event.start_ns) task.turn_ns = turn_around_ns;
  }
}

std::int64_t DeviceSide::expected_start(const DeviceTask& task) const {
  std::int64_t expected = INT64_MIN;
  if (task.launch != no_index) expected = links_.event(task.launch).start_ns + latency_of(task.launch);
  const std::uint32_t before = links_.before_on_stream(task.event);
  return before == no_index ? expected : std::max(expected, links_.event(before).end_ns() + turn_around_ns);
}

std::optional<Counterpart> DeviceSide::counterpart(std::uint32_t event) const {
  if (event == no_index) return std::nullopt;
  if (task_of_[event] != no_index) return Counterpart{task_of_[event], 0};
  const StreamOfStep& row = of_step_[links_.event(event).track];
  if (!row.used || links_.position[event] >= row.first) return std::nullopt;
  // Work of the step before: the task as far from the end of this step as it was from the end of that one.
  const std::size_t from_end = row.first - links_.position[event];
  const std::vector<std::uint32_t>& stream = streams[row.stream];
  if (from_end > stream.size()) return std::nullopt;
  return Counterpart{stream[stream.size() - from_end], 1};
}

bool DeviceSide::is_before(std::uint32_t other, std::int64_t launched_before, std::uint32_t mate) const {
  if (links_.launch_time(other) < launched_before) return true;
  return mate != no_index && links_.launch_of[other] == links_.launch_of[mate] && other < mate;
}

std::uint32_t DeviceSide::last_ended(std::int64_t from, std::int64_t to, std::int64_t launched_before,
                                     std::uint32_t mate) const {
  std::uint32_t best = no_index;
  std::int64_t best_end = from;
  for (const std::vector<std::uint32_t>& stream : links_.streams) {
    // Work on one stream does not overlap, but for a few nanoseconds: its ends are in order.
    auto it = std::partition_point(stream.begin(), stream.end(),
                                   [&](std::uint32_t e) { return links_.event(e).end_ns() <= to; });
    while (it != stream.begin() && links_.event(*(it - 1)).end_ns() > best_end &&
           !is_before(*(it - 1), launched_before, mate))
      --it;
    if (it == stream.begin() || links_.event(*(it - 1)).end_ns() <= best_end) continue;
    best = *(it - 1);
    best_end = links_.event(best).end_ns();
  }
  return best;
}

std::uint32_t DeviceSide::draining(const DeviceTask& task) const {
  const std::int64_t start = links_.event(task.event).start_ns;
  for (const std::vector<std::uint32_t>& stream : links_.streams) {
    const auto it = std::partition_point(stream.begin(), stream.end(),
                                         [&](std::uint32_t e) { return links_.event(e).end_ns() <= start; });
    if (it == stream.end() || *it == task.event) continue;
    const Event& other = links_.event(*it);
    if (is_before(*it, links_.launch_time(task.event), task.event) && other.start_ns < start &&
        other.end_ns() - start <= drain_ns(other))
      return *it;
  }
  return no_index;
}

std::vector<std::uint32_t> DeviceSide::last_launched(std::int64_t time) const {
  std::vector<std::uint32_t> last;
  for (const std::vector<std::uint32_t>& stream : links_.streams) {
    const auto it = std::partition_point(stream.begin(), stream.end(),
                                         [&](std::uint32_t e) { return links_.launch_time(e) < time; });
    if (it != stream.begin()) last.push_back(*(it - 1));
  }
  return last;
}

void DeviceSide::add_wait(std::uint32_t task, std::uint32_t on) {
  if (links_.event(on).track == links_.event(tasks[task].event).track) return;
  if (const auto it = counterpart(on)) stream_waits.push_back({*it, task, on});
}

void DeviceSide::add_seen_wait(std::uint32_t task, std::uint32_t on) {
  const Event &waiting = links_.event(tasks[task].event), &awaited = links_.event(on);
  if (awaited.start_ns >= waiting.start_ns) return;
  if (awaited.end_ns() <= waiting.start_ns + std::max(clock_slack_ns, drain_ns(awaited))) add_wait(task, on);
}

void DeviceSide::add_recorded_waits() {
  for (const Dependency& wait : links_.stream_waits)
    if (task_of_[wait.after] != no_index) add_wait(task_of_[wait.after], wait.before);
}

/// A thread that makes a stream wait has just recorded the event: of the other streams the one that was given work
/// last. What it asks for after its last launch concerns the next launch of another thread: the backward pass waits for
/// the collectives of DDP and FSDP, and the optimizer's kernels come from the main thread.
void DeviceSide::add_called_waits() {
  std::vector<CalledWaits> called(links_.trace.tracks.size());  // by host track, since the last launch
  std::vector<std::uint32_t> last_launch(called.size(), 0);
  std::vector<std::uint32_t> threads;  // that make streams wait
  const auto [first, end] = links_.events_within(step_.start_ns, step_.end_ns);
  const auto asks = [&](const Event& event) {
    return links_.trace.text(event.name).find("StreamWaitEvent") != std::string_view::npos;
  };
  for (std::uint32_t e = first; e < end; ++e) {
    const Event& event = links_.event(e);
    if (event.kind != EventKind::runtime_call) continue;
    if (launched_by(e) != no_index) last_launch[event.track] = e;
    else if (asks(event) && std::ranges::find(threads, event.track) == threads.end()) threads.push_back(event.track);
  }
  for (std::uint32_t e = first; e < end; ++e) {
    const Event& event = links_.event(e);
    if (event.kind != EventKind::runtime_call) continue;
    CalledWaits& waits = called[event.track];
    const std::uint32_t task = launched_by(e);
    if (task == no_index) {
      if (asks(event)) waits = {event.start_ns, waits.count + 1};
      continue;
    }
    if (waits.count > 0) (void)add_called_waits(task, std::exchange(waits, {}), false);
    for (const std::uint32_t other : threads)
      if (called[other].count > 0 && last_launch[other] < e && add_called_waits(task, called[other], true))
        called[other] = {};
  }
}

bool DeviceSide::add_called_waits(std::uint32_t task, const CalledWaits& waits, bool of_another_thread) {
  std::vector<std::uint32_t> last = last_launched(waits.time);
  std::erase_if(last, [&](std::uint32_t on) {
    const Event& work = links_.event(on);
    const bool sends =
        work.collective != no_index || links_.trace.text(work.name).find("nccl") != std::string_view::npos;
    return work.track == links_.event(tasks[task].event).track || (of_another_thread && !sends);
  });
  std::ranges::sort(last, std::ranges::greater{}, [&](std::uint32_t on) { return links_.launch_time(on); });
  last.resize(std::min(last.size(), waits.count));
  const std::size_t before = stream_waits.size();
  for (const std::uint32_t on : last) add_seen_wait(task, on);
  return stream_waits.size() > before;
}

void DeviceSide::add_seen_waits() {
  std::vector<std::int64_t> ready(tasks.size(), INT64_MIN);  // what recorded waits explain
  if (!links_.stream_waits.empty())
    for (const StreamWait& wait : stream_waits)
      ready[wait.task] = std::max(ready[wait.task], links_.event(wait.event).end_ns());
  for (std::uint32_t task = 0; task < tasks.size(); ++task) {
    if (tasks[task].launch == no_index) continue;
    const std::uint32_t event = tasks[task].event;
    const std::int64_t expected = std::max(expected_start(tasks[task]), ready[task]);
    const std::int64_t start = links_.event(event).start_ns;
    if (start <= expected + std::max(latency_of(tasks[task].launch), clock_slack_ns)) continue;
    const std::uint32_t draining_work = draining(tasks[task]);
    const std::uint32_t on = draining_work != no_index
                                 ? draining_work
                                 : last_ended(expected, start + clock_slack_ns, links_.launch_time(event), event);
    if (on != no_index) add_seen_wait(task, on);
  }
}

}  // namespace stepcast::replaying
