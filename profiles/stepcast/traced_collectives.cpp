// Traced collectives: choice of the level that says most, sizes from the arguments or the shapes.
#include <stepcast/tensor_shapes.hpp>
#include <stepcast/traced_collectives.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace stepcast {
namespace {

enum class Level : std::uint8_t { kernels, annotations, calls };

bool counts_at(const TraceIndex& index, std::uint32_t i, Level level) {
  const Event& e = index.trace.events[i];
  const std::string_view name = index.trace.text(e.name);
  if (level == Level::kernels) return e.kind == EventKind::kernel && index.facts(i).work == naming::Work::communication;
  if (index.trace.tracks[e.track].on_device) return false;
  const bool host = e.kind == EventKind::host_op || e.kind == EventKind::annotation;
  if (!host || naming::collective_operation(name).empty()) return false;
  if (level == Level::annotations) return name.starts_with("nccl:") || name.starts_with("gloo:");
  return name.starts_with("c10d::") || name.find("c10d_functional::") != std::string_view::npos;
}

Level level_of(const TraceIndex& index) {
  Level level = Level::calls;
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i) {
    if (counts_at(index, i, Level::kernels)) return Level::kernels;
    if (counts_at(index, i, Level::annotations)) level = Level::annotations;
  }
  return level;
}

/// The arguments of the event or of the host events around its launch.
const CollectiveArguments* arguments_of(const TraceIndex& index, std::uint32_t i) {
  if (index.trace.events[i].collective != no_index) return &index.trace.collectives[index.trace.events[i].collective];
  std::uint32_t at = is_device_work(index.trace.events[i].kind) ? index.launcher[i] : index.parent[i];
  for (; at != no_index; at = index.parent[at])
    if (index.trace.events[at].collective != no_index)
      return &index.trace.collectives[index.trace.events[at].collective];
  return nullptr;
}

TracedCollective collective_of(const TraceIndex& index, std::uint32_t i) {
  const Event& e = index.trace.events[i];
  TracedCollective out;
  out.duration = Seconds(double(e.duration_ns) * 1e-9);
  const CollectiveArguments* arguments = arguments_of(index, i);
  out.event = i;
  out.arguments = arguments;
  if (arguments != nullptr) {
    const Answer<DataType> type = data_type_of(index.trace.text(arguments->dtype));
    out.operation = naming::collective_operation(index.trace.text(arguments->name));
    out.size = Bytes(double(std::max({arguments->in_elements, arguments->out_elements, std::int64_t(0)})) *
                     (type ? size_of(*type) : 0));
    out.group_size = arguments->group_size > 0 ? arguments->group_size : -1;
  } else {
    for (const TensorShape& shape : shapes_of(index.trace.text(e.shapes)))
      if (!shape.empty()) out.size += Bytes(elements_of(shape) * size_of(first_type_of(index.trace.text(e.types))));
  }
  if (out.operation.empty()) out.operation = naming::collective_operation(index.trace.text(e.name));
  if (out.operation.empty()) out.operation = "unknown";
  return out;
}

std::vector<TracedCollective> collected(const TraceIndex& index, const StepWindow& window, Level level) {
  std::vector<TracedCollective> out;
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i) {
    // The device may lag behind: what counts is the step that launched it.
    const std::uint32_t from = index.launcher[i] == no_index ? i : index.launcher[i];
    const std::int64_t start = index.trace.events[from].start_ns;
    if (start >= window.start_ns && start < window.end_ns && counts_at(index, i, level))
      out.push_back(collective_of(index, i));
  }
  return out;
}

}  // namespace

std::vector<TracedCollective> collectives_of(const TraceIndex& index) {
  std::vector<TracedCollective> out;
  const Level level = level_of(index);
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i)
    if (counts_at(index, i, level)) out.push_back(collective_of(index, i));
  return out;
}

std::vector<TracedCollective> collectives_in(const TraceIndex& index, const StepWindow& window) {
  return collected(index, window, level_of(index));
}

std::vector<ObservedCollective> observed_collectives(const TraceIndex& index, std::span<const StepWindow> windows) {
  std::map<std::pair<std::string, std::int64_t>, ObservedCollective> sums;
  const Level level = level_of(index);
  for (const StepWindow& window : windows) {
    for (const TracedCollective& c : collected(index, window, level)) {
      ObservedCollective& sum = sums[{c.operation, c.group_size}];
      sum.operation = c.operation;
      sum.group_size = c.group_size;
      ++sum.count;
      sum.size += c.size;
      sum.duration += c.duration;
    }
  }
  std::vector<ObservedCollective> out;
  const auto n = double(std::max<std::size_t>(1, windows.size()));
  for (auto& [key, sum] : sums) {
    sum.count = std::max<std::int64_t>(1, std::llround(double(sum.count) / n));
    sum.size /= n;
    sum.duration /= n;
    out.push_back(std::move(sum));
  }
  return out;
}

}  // namespace stepcast
