// Trace: the words for its closed vocabulary.
#include <stepcast/trace/trace.hpp>

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

}  // namespace stepcast
