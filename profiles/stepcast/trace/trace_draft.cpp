// Events are sorted at the end, and all indices to them renumbered.
#include <stepcast/trace/trace_draft.hpp>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace stepcast {

TraceDraft::TraceDraft(std::string_view source) { trace_.source = source; }

std::uint32_t TraceDraft::track(std::int64_t process, std::int64_t thread, bool on_device, std::string_view label) {
  const StringId name = text(label);
  const auto number = static_cast<std::uint32_t>(trace_.tracks.size());
  const auto [entry, is_new] = tracks_.try_emplace({process, thread, on_device, name}, number);
  if (is_new) trace_.tracks.push_back({process, thread, on_device, name});
  return entry->second;
}

std::uint32_t TraceDraft::add(const Event& event) {
  const auto index = static_cast<std::uint32_t>(trace_.events.size());
  trace_.events.push_back(event);
  if (event.duration_ns < 0) {
    trace_.events.back().duration_ns = 0;
    ++negative_;
  }
  return index;
}

Trace TraceDraft::finish() {
  std::vector<Event>& events = trace_.events;
  std::vector<std::uint32_t> order(events.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) {
    if (events[a].start_ns != events[b].start_ns) return events[a].start_ns < events[b].start_ns;
    return events[a].duration_ns > events[b].duration_ns;
  });
  std::vector<Event> sorted;
  sorted.reserve(events.size());
  std::vector<std::uint32_t> place(events.size());
  for (const std::uint32_t from : order) {
    place[from] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(events[from]);
  }
  events = std::move(sorted);
  const auto moved = [&](std::uint32_t event) { return event < place.size() ? place[event] : no_index; };
  for (Dependency& d : trace_.dependencies) d = {moved(d.before), moved(d.after), d.kind};
  std::erase_if(trace_.dependencies, [](const Dependency& d) { return d.before == no_index || d.after == no_index; });
  for (ForwardBackwardLink& link : trace_.forward_backward) link = {moved(link.forward), moved(link.backward)};
  std::erase_if(trace_.forward_backward,
                [](const ForwardBackwardLink& l) { return l.forward == no_index || l.backward == no_index; });
  for (OperationArguments& operation : trace_.operations) operation.event = moved(operation.event);
  std::erase_if(trace_.operations, [](const OperationArguments& o) { return o.event == no_index; });
  std::ranges::sort(trace_.operations, {}, &OperationArguments::event);
  if (negative_ > 0) trace_.report.repaired.push_back(std::to_string(negative_) + " negative durations set to 0");
  trace_.strings = strings_.release();
  return std::move(trace_);
}

}  // namespace stepcast
