// TraceIndex: one sweep over the host events with a stack per thread, one over the device events.
#include <stepcast/base/words.hpp>
#include <stepcast/trace/trace_index.hpp>

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace stepcast {
namespace {

using naming::Role;

bool is_host_event(const Trace& trace, const Event& e) {
  const bool kind =
      e.kind == EventKind::host_op || e.kind == EventKind::runtime_call || e.kind == EventKind::annotation;
  return kind && !trace.tracks[e.track].on_device;
}

/// A launch that takes this much longer than the usual one found the launch queue full and waited for the device.
constexpr std::int64_t stalled_launch_factor = 10;
constexpr std::int64_t stalled_launch_floor_ns = 100'000;

/// Optimizer annotations that hold a whole step (an optimizer called with a closure) are containers.
std::vector<std::int64_t> backward_starts(const Trace& trace, const std::vector<naming::NameFacts>& names) {
  std::vector<std::int64_t> starts;
  for (const Event& e : trace.events)
    if (names[e.name].role == Role::backward_node && e.kind == EventKind::host_op) starts.push_back(e.start_ns);
  return starts;
}
bool any_within(const std::vector<std::int64_t>& sorted, const Event& e) {
  const auto it = std::lower_bound(sorted.begin(), sorted.end(), e.start_ns);
  return it != sorted.end() && *it < e.end_ns();
}

bool communicates(const TraceIndex& index) {
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i) {
    const Event& e = index.trace.events[i];
    if (is_host_event(index.trace, e) && index.facts(i).role == Role::communication) return true;
    if (e.kind == EventKind::kernel && index.facts(i).work == KernelClass::collective) return true;
  }
  return false;
}

void nest_host_events(TraceIndex& index) {
  const Trace& trace = index.trace;
  const std::vector<std::int64_t> backward = backward_starts(trace, index.names);
  std::vector<std::vector<std::uint32_t>> stacks(trace.tracks.size());
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    const Event& e = trace.events[i];
    if (!is_host_event(trace, e)) continue;
    std::vector<std::uint32_t>& stack = stacks[e.track];
    while (!stack.empty() && trace.events[stack.back()].end_ns() <= e.start_ns) stack.pop_back();
    const std::uint32_t around = stack.empty() ? no_index : stack.back();
    stack.push_back(i);
    index.parent[i] = around;
    const Role role = index.facts(i).role;
    const bool annotation = e.kind == EventKind::annotation && role == Role::plain;
    const bool closure = role == Role::optimizer && any_within(backward, e);
    if (around != no_index && index.operator_of[around] != no_index) index.operator_of[i] = index.operator_of[around];
    else if (role != Role::container && !annotation && !closure) index.operator_of[i] = i;

    const bool inherited = around != no_index && index.serves_communication[around] != 0;
    const bool hook = index.distributed && around != no_index && index.facts(around).role == Role::accumulate_node;
    index.serves_communication[i] =
        role == Role::communication || role == Role::sharding || ((inherited || hook) && role != Role::accumulate);
  }
}

std::int64_t usual_launch_ns(const TraceIndex& index) {
  std::vector<std::int64_t> durations;
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i)
    if (index.trace.events[i].kind == EventKind::runtime_call && index.facts(i).role == Role::launch_call)
      durations.push_back(index.trace.events[i].duration_ns);
  if (durations.empty()) return 0;
  std::nth_element(durations.begin(), durations.begin() + std::ptrdiff_t(durations.size() / 2), durations.end());
  return durations[durations.size() / 2];
}

/// On the host a blocking collective shows as the gap between its call and whatever its thread does next.
void add_waits_for_collectives(TraceIndex& index) {
  const Trace& trace = index.trace;
  std::vector<std::uint32_t> last_call(trace.tracks.size(), no_index);
  const auto close = [&](std::uint32_t call, std::int64_t next_start) {
    const std::uint32_t around = index.parent[call];
    const std::uint32_t owner = index.operator_of[call];
    if (around == no_index || owner == no_index || owner == call) return;
    const std::int64_t until = std::min(next_start, trace.events[around].end_ns());
    const std::int64_t held_up = std::max<std::int64_t>(0, until - trace.events[call].end_ns());
    index.held_up_ns[owner] += held_up;
    if (!index.within_sharding(call)) index.communication_ns[owner] += held_up;  // else it is counted already
  };
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    if (!is_host_event(trace, trace.events[i])) continue;
    std::uint32_t& call = last_call[trace.events[i].track];
    if (call != no_index && trace.events[i].start_ns >= trace.events[call].end_ns()) {
      close(call, trace.events[i].start_ns);
      call = no_index;
    }
    if (call == no_index && index.facts(i).role == Role::communication) call = i;
  }
}

/// A call that hands a collective to its library: "c10d::allreduce_".
bool issues_collective(const TraceIndex& index, std::uint32_t i) {
  return index.facts(i).role == Role::communication &&
         !naming::collective_operation(index.trace.text(index.trace.events[i].name)).empty();
}

/// Host time by operator: waiting, communication, accumulation.
void sum_host_parts(TraceIndex& index) {
  const std::int64_t usual = usual_launch_ns(index);
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i) {
    const std::uint32_t owner = index.operator_of[i];
    if (owner == no_index) continue;
    const Event& e = index.trace.events[i];
    const Role role = index.facts(i).role;
    const std::uint32_t around = index.parent[i];
    const bool nested = around != no_index && index.operator_of[around] == owner;
    if (role == Role::accumulate) index.accumulate_ns[owner] += e.duration_ns;
    if (index.serves_communication[i] != 0 && !(nested && index.serves_communication[around] != 0))
      index.communication_ns[owner] += e.duration_ns;
    if (role == Role::sharding && !index.within_sharding(i)) index.sharding_ns[owner] += e.duration_ns;
    if (index.copies_for_sharding(i)) index.sharding_copies_ns[owner] += e.duration_ns;
    if (issues_collective(index, i) && !(nested && issues_collective(index, around))) {
      index.issuing_ns[owner] += e.duration_ns;
      ++index.issued[owner];
    }
    if (e.kind != EventKind::runtime_call) continue;
    if (index.serves_communication[i] != 0) {
      if (role == Role::blocking_call) index.held_up_ns[owner] += e.duration_ns;
      continue;
    }
    if (role == Role::blocking_call) index.waiting_ns[owner] += e.duration_ns;
    if (role == Role::launch_call && e.duration_ns > std::max(stalled_launch_factor * usual, stalled_launch_floor_ns))
      index.stalled_ns[owner] += e.duration_ns - usual;
  }
}

/// The host event that launched each piece of device work: by correlation, else the operator of its external id.
void link_device_work(TraceIndex& index) {
  const Trace& trace = index.trace;
  std::unordered_map<std::int64_t, std::uint32_t> call, op;
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    const Event& e = trace.events[i];
    if (!is_host_event(trace, e)) continue;
    if (e.kind == EventKind::runtime_call && e.correlation >= 0) call[e.correlation] = i;
    if (e.kind == EventKind::host_op && e.external_id > 0) op.emplace(e.external_id, i);
  }
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    const Event& e = trace.events[i];
    if (!is_device_work(e.kind)) continue;
    index.has_device_work = true;
    if (const auto it = call.find(e.correlation); e.correlation >= 0 && it != call.end())
      index.launcher[i] = it->second;
    else if (const auto other = op.find(e.external_id); e.external_id > 0 && other != op.end())
      index.launcher[i] = other->second;
  }
}

/// Launches that were issued and had not started on the device, at any time.
class LaunchQueue {
 public:
  explicit LaunchQueue(const TraceIndex& index) {
    std::vector<bool> seen(index.trace.events.size(), false);  // a graph's launch starts many kernels
    for (std::uint32_t i = 0; i < index.trace.events.size(); ++i) {
      const std::uint32_t from = index.launcher[i];
      if (!is_device_work(index.trace.events[i].kind) || from == no_index || seen[from]) continue;
      seen[from] = true;
      launched_.push_back(index.trace.events[from].start_ns);
      started_.push_back(index.trace.events[i].start_ns);
    }
    std::sort(launched_.begin(), launched_.end());
    std::sort(started_.begin(), started_.end());
  }
  [[nodiscard]] bool full(std::int64_t time) const {
    constexpr std::ptrdiff_t nearly = 900;  // CUDA queues 1024 launches
    return std::upper_bound(launched_.begin(), launched_.end(), time) - launched_.begin() -
               (std::upper_bound(started_.begin(), started_.end(), time) - started_.begin()) >=
           nearly;
  }

 private:
  std::vector<std::int64_t> launched_, started_;
};

/// Copies to pageable memory, and copies of calls that are not asynchronous, keep the host until they have ended.
bool holds_the_host(std::string_view call, std::string_view copy) {
  return naming::copy_way(copy) == naming::CopyWay::to_host &&
         (copy.find("Pinned") == std::string_view::npos || call.find("Async") == std::string_view::npos);
}

/// A long launch found the queue full only if it was full: else it is a copy that held the host until the device had
/// come to it, which is waiting but for the copy itself, or host work that took long by accident. A copy from pageable
/// memory keeps the host busy while it runs.
void tell_stalls_apart(TraceIndex& index) {
  const Trace& trace = index.trace;
  const std::int64_t usual = usual_launch_ns(index);
  const std::int64_t stalled_from = std::max(stalled_launch_factor * usual, stalled_launch_floor_ns);
  const LaunchQueue queue(index);
  std::vector<bool> seen(trace.events.size(), false);
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    const std::uint32_t from = index.launcher[i];
    if (!is_device_work(trace.events[i].kind) || from == no_index || seen[from]) continue;
    seen[from] = true;
    const std::uint32_t owner = index.operator_of[from];
    const Event& call = trace.events[from];
    if (owner == no_index || call.kind != EventKind::runtime_call || index.facts(from).role != Role::launch_call ||
        call.duration_ns <= stalled_from)
      continue;
    const bool copy = trace.events[i].kind == EventKind::copy;
    const std::int64_t beyond = call.duration_ns - usual;
    if (index.serves_communication[from] != 0) {
      if (queue.full(call.start_ns)) index.held_up_ns[owner] += beyond;
      continue;
    }
    if (copy && holds_the_host(trace.text(call.name), trace.text(trace.events[i].name))) {
      index.stalled_ns[owner] -= std::min(index.stalled_ns[owner], beyond);
      index.waiting_ns[owner] += std::max<std::int64_t>(0, beyond - trace.events[i].duration_ns);
    } else if (!queue.full(call.start_ns)) {
      index.stalled_ns[owner] -= std::min(index.stalled_ns[owner], beyond);
    } else if (copy) {
      index.stalled_ns[owner] -= std::min(index.stalled_ns[owner], trace.events[i].duration_ns);
    }
  }
}

void sum_device_work(TraceIndex& index) {
  std::int64_t first_call = std::numeric_limits<std::int64_t>::max();
  for (const Event& e : index.trace.events)
    if (e.kind == EventKind::runtime_call && e.correlation >= 0) first_call = std::min(first_call, e.correlation);
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i) {
    const Event& e = index.trace.events[i];
    if (!is_device_work(e.kind)) continue;
    const KernelClass work = index.work(i);
    const std::uint32_t from = index.launcher[i];
    if (work == KernelClass::collective || e.collective != no_index) continue;
    if (from != no_index && index.serves_communication[from] != 0) {
      if (index.operator_of[from] != no_index) index.packing_work[index.operator_of[from]].add(work, e.duration_ns);
      continue;
    }
    if (from == no_index || index.operator_of[from] == no_index) {
      // What was launched before the recording began belongs to no step of it.
      if (e.correlation < 0 || e.correlation > first_call) index.unlinked_device_ns += e.duration_ns;
      continue;
    }
    index.linked_device_ns += e.duration_ns;
    index.device_work[index.operator_of[from]].add(work, e.duration_ns);
  }
}

}  // namespace

bool TraceIndex::within_sharding(std::uint32_t event) const {
  for (std::uint32_t i = parent[event]; i != no_index; i = parent[i])
    if (facts(i).role == Role::sharding) return true;
  return false;
}

bool TraceIndex::copies_for_sharding(std::uint32_t event) const {
  if (!facts(event).copies) return false;
  for (std::uint32_t i = parent[event]; i != no_index; i = parent[i]) {
    if (facts(i).role == Role::sharding) return true;
    if (facts(i).copies || facts(i).role == Role::communication) return false;
  }
  return false;
}

TraceIndex::TraceIndex(const Trace& t)
    : trace(t),
      names(naming::facts_of_names(t)),
      parent(t.events.size(), no_index),
      operator_of(t.events.size(), no_index),
      serves_communication(t.events.size(), 0),
      device_work(t.events.size()),
      waiting_ns(t.events.size(), 0),
      stalled_ns(t.events.size(), 0),
      communication_ns(t.events.size(), 0),
      held_up_ns(t.events.size(), 0),
      sharding_ns(t.events.size(), 0),
      sharding_copies_ns(t.events.size(), 0),
      issuing_ns(t.events.size(), 0),
      issued(t.events.size(), 0),
      packing_work(t.events.size()),
      accumulate_ns(t.events.size(), 0),
      launcher(t.events.size(), no_index) {
  distributed = communicates(*this);
  nest_host_events(*this);
  sum_host_parts(*this);
  link_device_work(*this);
  tell_stalls_apart(*this);
  if (!has_device_work) add_waits_for_collectives(*this);
  sum_device_work(*this);
}

}  // namespace stepcast
