// The device side of a replay: what one step put on the streams, and which stream waited for which.
//
// A dependency between streams is either *called* (the host asked one stream to wait for an event just before the
// launch) or *seen* (the work started later than its own stream and its launch explain, and right after other work
// ended: an event that the trace does not show, or a device without room for both). Both need that the awaited work was
// launched before and had ended, or was draining its last blocks. Traces carry no event ids, so of several candidates
// the last is taken.
#include <stepcast/replay_parts.hpp>

#include <algorithm>
#include <unordered_map>

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

DeviceSide::DeviceSide(const Trace& trace, const Step& step) : trace_(trace), step_(step) {
  link();
  collect_tasks();
  measure_constants();
  shape_tasks();
  find_stream_waits();
}

void DeviceSide::link() {
  const std::size_t n = trace_.events.size();
  rows_.resize(trace_.tracks.size());
  position_.assign(n, no_index);
  launch_of_.assign(n, no_index);
  task_of_.assign(n, no_index);
  task_of_launch_.assign(n, no_index);
  std::unordered_map<std::int64_t, std::uint32_t> calls;
  for (std::uint32_t e = 0; e < n; ++e) {
    const Event& event = trace_.events[e];
    if (event.kind == EventKind::runtime_call && event.correlation > 0) calls.try_emplace(event.correlation, e);
  }
  for (std::uint32_t e = 0; e < n; ++e) {
    const Event& event = trace_.events[e];
    if (!is_device_work(event.kind)) continue;
    StreamRow& row = rows_[event.track];
    position_[e] = static_cast<std::uint32_t>(row.events.size());
    row.events.push_back(e);
    const auto call = calls.find(event.correlation);
    if (call == calls.end()) continue;
    launch_of_[e] = call->second;
    launches_.push_back(call->second);
    launch_times_.push_back(trace_.events[call->second].start_ns);
    start_times_.push_back(event.start_ns);
  }
  std::sort(launch_times_.begin(), launch_times_.end());
  std::sort(start_times_.begin(), start_times_.end());
}

std::int64_t DeviceSide::launch_time(std::uint32_t event) const {
  return launch_of_[event] == no_index ? INT64_MIN : trace_.events[launch_of_[event]].start_ns;
}

void DeviceSide::collect_tasks() {
  // Work that no call explains (a lossy recording) belongs to the step of the work before it on its stream.
  std::vector<bool> of_step(trace_.tracks.size(), false);
  for (std::uint32_t e = 0; e < trace_.events.size(); ++e) {
    if (!is_device_work(trace_.events[e].kind)) continue;
    const std::int64_t launched = launch_time(e);
    const bool inside = launched >= step_.start_ns && launched < step_.end_ns;
    if (launch_of_[e] != no_index) of_step[trace_.events[e].track] = inside;
    if (!of_step[trace_.events[e].track]) continue;
    const auto task = static_cast<std::uint32_t>(tasks.size());
    tasks.push_back({e, launch_of_[e]});
    task_of_[e] = task;
    if (inside && task_of_launch_[launch_of_[e]] == no_index) task_of_launch_[launch_of_[e]] = task;
    StreamRow& row = rows_[trace_.events[e].track];
    if (!row.used) {
      row = {std::move(row.events), position_[e], streams.size(), true};
      streams.emplace_back();
    }
    streams[row.stream].push_back(task);
  }
}

std::uint32_t DeviceSide::before_on_stream(std::uint32_t event) const {
  if (position_[event] == 0) return no_index;
  return rows_[trace_.events[event].track].events[position_[event] - 1];
}

/// Time from the launch call to the start, if only the launch can explain it.
std::optional<std::int64_t> DeviceSide::pure_latency(const DeviceTask& task) const {
  if (task.launch == no_index) return std::nullopt;
  const std::uint32_t before = before_on_stream(task.event);
  const Event &event = trace_.events[task.event], &call = trace_.events[task.launch];
  if (before != no_index && trace_.events[before].end_ns() > call.start_ns) return std::nullopt;
  const bool staged = event.kind == EventKind::copy && call.end_ns() > event.start_ns;  // the host prepares the copy
  const bool waited = draining(task) != no_index ||
                      last_ended(call.start_ns, event.start_ns + clock_slack_ns, call.start_ns) != no_index;
  if (staged || waited) return std::nullopt;
  return event.start_ns - call.start_ns;
}

void DeviceSide::measure_constants() {
  std::vector<std::int64_t> latencies, turns;
  for (const DeviceTask& task : tasks)
    if (const auto latency = pure_latency(task)) latencies.push_back(*latency);
  latency_ns = std::max<std::int64_t>(0, interquartile_mean(latencies));
  for (const DeviceTask& task : tasks) {
    const std::uint32_t before = before_on_stream(task.event);
    if (before == no_index || task.launch == no_index) continue;
    // Queued for sure: the launch had reached the stream before the work ahead of it ended.
    const std::int64_t free = trace_.events[before].end_ns(), start = trace_.events[task.event].start_ns;
    if (start >= free && trace_.events[task.launch].start_ns + latency_ns < free) turns.push_back(start - free);
  }
  turn_around_ns = interquartile_mean(turns);
}

void DeviceSide::shape_tasks() {
  for (DeviceTask& task : tasks) {
    const Event& event = trace_.events[task.event];
    const StreamRow& row = rows_[event.track];
    std::int64_t end = event.end_ns();
    if (const std::size_t next = position_[task.event] + std::size_t{1}; next < row.events.size())
      end = std::min(end, trace_.events[row.events[next]].start_ns);
    task.work_ns = end - event.start_ns;
    const std::uint32_t before = before_on_stream(task.event);
    if (before == no_index || trace_.events[before].end_ns() <= event.start_ns) task.turn_ns = turn_around_ns;
  }
}

std::int64_t DeviceSide::expected_start(const DeviceTask& task) const {
  const std::int64_t launched = launch_time(task.event) + latency_ns;
  const std::uint32_t before = before_on_stream(task.event);
  return before == no_index ? launched : std::max(launched, trace_.events[before].end_ns() + turn_around_ns);
}

std::optional<Counterpart> DeviceSide::counterpart(std::uint32_t event) const {
  if (event == no_index) return std::nullopt;
  if (task_of_[event] != no_index) return Counterpart{task_of_[event], 0};
  const StreamRow& row = rows_[trace_.events[event].track];
  if (!row.used || position_[event] >= row.first_of_step) return std::nullopt;
  // Work of the step before: the task as far from the end of this step as it was from the end of that one.
  const std::size_t from_end = row.first_of_step - position_[event];
  const std::vector<std::uint32_t>& stream = streams[row.stream];
  if (from_end > stream.size()) return std::nullopt;
  return Counterpart{stream[stream.size() - from_end], 1};
}

std::uint32_t DeviceSide::last_ended(std::int64_t from, std::int64_t to, std::int64_t launched_before) const {
  std::uint32_t best = no_index;
  std::int64_t best_end = from;
  for (const StreamRow& row : rows_) {
    // Work on one stream does not overlap, but for a few nanoseconds: its ends are in order.
    auto it = std::partition_point(row.events.begin(), row.events.end(),
                                   [&](std::uint32_t e) { return trace_.events[e].end_ns() <= to; });
    while (it != row.events.begin() && launch_time(*(it - 1)) >= launched_before) --it;
    if (it == row.events.begin()) continue;
    const std::uint32_t event = *(it - 1);
    if (trace_.events[event].end_ns() <= best_end) continue;
    best = event;
    best_end = trace_.events[event].end_ns();
  }
  return best;
}

std::uint32_t DeviceSide::draining(const DeviceTask& task) const {
  const std::int64_t start = trace_.events[task.event].start_ns;
  for (const StreamRow& row : rows_) {
    const auto it = std::partition_point(row.events.begin(), row.events.end(),
                                         [&](std::uint32_t e) { return trace_.events[e].end_ns() <= start; });
    if (it == row.events.end() || *it == task.event) continue;
    const Event& other = trace_.events[*it];
    const bool launched_before = launch_time(*it) < launch_time(task.event);
    if (launched_before && other.start_ns < start && other.end_ns() - start <= drain_ns(other)) return *it;
  }
  return no_index;
}

std::vector<std::uint32_t> DeviceSide::last_launched(std::int64_t time) const {
  std::vector<std::uint32_t> last;
  for (const StreamRow& row : rows_) {
    const auto it = std::partition_point(row.events.begin(), row.events.end(),
                                         [&](std::uint32_t e) { return launch_time(e) < time; });
    if (it != row.events.begin()) last.push_back(*(it - 1));
  }
  return last;
}

std::int64_t DeviceSide::pending(std::int64_t time) const {
  const auto launched = std::ranges::upper_bound(launch_times_, time) - launch_times_.begin();
  const auto started = std::ranges::upper_bound(start_times_, time) - start_times_.begin();
  return launched - started;
}

void DeviceSide::add_wait(std::uint32_t task, std::uint32_t on) {
  const Event &waiting = trace_.events[tasks[task].event], &awaited = trace_.events[on];
  if (awaited.track == waiting.track || awaited.start_ns >= waiting.start_ns) return;
  if (awaited.end_ns() > waiting.start_ns + std::max(clock_slack_ns, drain_ns(awaited))) return;
  if (const auto it = counterpart(on)) stream_waits.push_back({*it, task});
}

void DeviceSide::find_stream_waits() {
  std::vector<std::int64_t> wait_called(trace_.tracks.size(), INT64_MIN);  // by host track, since the last launch
  for (std::uint32_t e = 0; e < trace_.events.size(); ++e) {
    const Event& event = trace_.events[e];
    if (event.start_ns >= step_.end_ns) break;
    if (event.kind != EventKind::runtime_call || event.start_ns < step_.start_ns) continue;
    if (trace_.text(event.name).find("StreamWaitEvent") != std::string_view::npos) {
      wait_called[event.track] = event.start_ns;
    } else if (task_of_launch_[e] != no_index && wait_called[event.track] != INT64_MIN) {
      for (const std::uint32_t on : last_launched(wait_called[event.track])) add_wait(task_of_launch_[e], on);
      wait_called[event.track] = INT64_MIN;
    }
  }
  for (std::uint32_t task = 0; task < tasks.size(); ++task) {
    if (tasks[task].launch == no_index) continue;
    const std::int64_t expected = expected_start(tasks[task]), start = trace_.events[tasks[task].event].start_ns;
    if (start <= expected + std::max(latency_ns, clock_slack_ns)) continue;
    const std::uint32_t draining_work = draining(tasks[task]);
    const std::uint32_t on = draining_work != no_index
                                 ? draining_work
                                 : last_ended(expected, start + clock_slack_ns, launch_time(tasks[task].event));
    if (on != no_index) add_wait(task, on);
  }
}

}  // namespace stepcast::replaying
