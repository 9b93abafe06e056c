// Trace: the words for its closed vocabulary.
#include <stepcast/trace/trace.hpp>

#include <algorithm>

namespace stepcast {

std::string_view name_of(EventKind kind) {
  switch (kind) {
    case EventKind::host_op:
      return "host operator";
    case EventKind::runtime_call:
      return "runtime call";
    case EventKind::annotation:
      return "annotation";
    case EventKind::kernel:
      return "kernel";
    case EventKind::copy:
      return "copy";
    case EventKind::fill:
      return "fill";
    case EventKind::device_annotation:
      return "device annotation";
    case EventKind::synchronization:
      return "synchronization";
    case EventKind::python:
      return "Python frame";
    case EventKind::other:
      return "other";
  }
  return "other";
}

std::string device_of(const Trace& trace) {
  if (std::ranges::none_of(trace.events, is_device_work, &Event::kind)) return {};
  return trace.device_name.empty() ? "unknown device" : trace.device_name;
}

}  // namespace stepcast
