#pragma once
// What holds of every reading, whatever the bytes were; a fuzzer aborts where it does not.
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/profile/profile.hpp>

#include <cstdlib>
#include <iostream>
#include <source_location>

namespace stepcast::fuzz {

inline void require(bool holds, std::source_location at = std::source_location::current()) {
  if (holds) return;
  std::cerr << "broken: " << at.file_name() << ':' << at.line() << '\n';
  std::abort();
}

inline void check(const Trace& trace) {
  require(!trace.events.empty());
  require(!trace.strings.empty() && trace.strings[0].empty());
  const auto is_text = [&](StringId id) { return id < trace.strings.size(); };
  const auto is_event = [&](std::uint32_t event) { return event < trace.events.size(); };
  const Event* previous = nullptr;
  for (const Event& event : trace.events) {
    require(event.duration_ns >= 0 && event.end_ns() >= event.start_ns);
    require(event.track < trace.tracks.size());
    require(is_text(event.name) && is_text(event.shapes) && is_text(event.types));
    require(event.collective == no_index || event.collective < trace.collectives.size());
    if (previous)
      require(previous->start_ns < event.start_ns ||
              (previous->start_ns == event.start_ns && previous->duration_ns >= event.duration_ns));
    previous = &event;
  }
  for (const Track& track : trace.tracks) require(is_text(track.label));
  for (const CollectiveArguments& c : trace.collectives) {
    require(is_text(c.name) && is_text(c.dtype) && is_text(c.group) && is_text(c.group_description));
    require(is_text(c.in_split) && is_text(c.out_split) && is_text(c.ranks));
  }
  for (const ForwardBackwardLink& link : trace.forward_backward)
    require(is_event(link.forward) && is_event(link.backward));
  for (const Dependency& dependency : trace.dependencies)
    require(is_event(dependency.before) && is_event(dependency.after));
  std::uint32_t last = 0;
  for (const OperationArguments& operation : trace.operations) {
    require(is_event(operation.event) && operation.event >= last);
    last = operation.event;
  }
}

inline void check(const ExecutionTrace& trace) {
  for (const ExecutionNode& node : trace.nodes) {
    require(node.parent == no_index || node.parent < trace.nodes.size());
    require(node.collective == no_index || node.collective < trace.collectives.size());
  }
}

inline void check(const Reading& reading) {
  require(!reading.traces.empty() || !reading.profiles.empty() || !reading.executions.empty());
  for (const Trace& trace : reading.traces) check(trace);
  for (const ExecutionTrace& execution : reading.executions) check(execution);
  for (const Profile& profile : reading.profiles) (void)checked(profile, "fuzz");
}

}  // namespace stepcast::fuzz
