#pragma once
// Kineto categories: what every producer calls its events, as tables, and what each of them is to us.
//
// The field "cat" decides. Writers without it are told by the process that a slice belongs to: the autograd profiler
// before Kineto, and Ascend's tools, which name the process in metadata. A new backend is a new line here. What is in
// no table is kept as EventKind::other and counted as unclassified.
#include <stepcast/trace/trace.hpp>

#include <string_view>

namespace stepcast {

struct KinetoCategory {
  std::string_view name;
  EventKind kind = EventKind::other;
  bool on_device = false;
};

/// The category with this name, or null.
[[nodiscard]] const KinetoCategory* kineto_category(std::string_view name);
/// What a slice without a category is by the name of its process and its own; null where that tells nothing.
[[nodiscard]] const KinetoCategory* category_of_process(std::string_view process, std::string_view name);
/// Arrows that join a host event with the device work that it caused.
[[nodiscard]] bool is_launch_arrow(std::string_view category);

}  // namespace stepcast
