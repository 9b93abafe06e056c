// XlaPlanes: lines to kinds, host lines to devices.
#include <stepcast/base/words.hpp>
#include <stepcast/formats/shared/tensor_steps.hpp>
#include <stepcast/formats/xla/xla_planes.hpp>

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>

namespace stepcast {
namespace {

// The digits behind a mark, or -1: "/device:GPU:3" behind "GPU:", "Stream #17(Kernel)" behind '#'.
std::int64_t number_behind(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return -1;
  std::int64_t value = -1;
  const char* const first = text.data() + at + mark.size();
  const auto [end, error] = std::from_chars(first, text.data() + text.size(), value);
  return error == std::errc() && value >= 0 ? value : -1;
}

}  // namespace

std::uint32_t XlaPlanes::line(std::int64_t plane, std::int64_t line) {
  const auto [found, is_new] = line_of_.try_emplace({plane, line}, static_cast<std::uint32_t>(lines_.size()));
  if (is_new) {
    lines_.emplace_back();
    lines_.back().plane = plane;
    lines_.back().id = line;
    planes_.try_emplace(plane);
  }
  return found->second;
}

void XlaPlanes::describe_plane(std::int64_t plane, std::string_view device, std::int64_t memory_bytes) {
  if (!device.empty()) planes_[plane].device = device;
  if (memory_bytes > 0) planes_[plane].memory_bytes = memory_bytes;
}

void XlaPlanes::add(const XlaEvent& event) {
  if (strings_[event.name].starts_with('$')) {
    ++python_frames_;  // "$profiler.py:101 start_trace"
  } else if (events_.size() >= most_timeline_events) {
    ++left_out_;
  } else {
    events_.push_back(event);
  }
}

void XlaPlanes::classify_lines() {
  constexpr std::string_view custom = "/device:CUSTOM:";  // also what plug-ins for devices of others may call theirs
  const bool has_device = std::ranges::any_of(planes_, [&](const auto& plane) {
    const std::string& name = plane.second.name;
    return name.starts_with("/device:") && !contains_any(name, {custom, "SparseCore"});
  });
  for (auto& [id, plane] : planes_) {
    const std::size_t device = plane.name.find("/device:");
    plane.apart = contains_any(plane.name, {"SparseCore", "Megascale"}) || plane.name.starts_with("#Chip") ||
                  (has_device && plane.name.starts_with(custom));
    plane.on_device = device != std::string::npos && !plane.apart;
    if (!plane.on_device) continue;
    plane.ordinal = number_behind(std::string_view(plane.name).substr(device + 8), ":");
  }
  for (Line& line : lines_) {
    Plane& plane = planes_[line.plane];
    if (!plane.on_device) continue;
    const std::string_view name = line.name;
    if (starts_with_any(name, {"Stream #", "stream #"})) line.kind = LineKind::stream;
    else if (name == "XLA Ops") line.kind = LineKind::operations;
    else if (name.starts_with("Async")) line.kind = LineKind::asynchronous;
    else if (name == "Steps") line.kind = LineKind::steps;
    else if (starts_with_any(name, {"XLA ", "Framework", "TensorFlow", "Source", "Overlay", "Launch Stats",
                                    "SparseCore", "Sparse Core", "Tensor Core Sync", "Host Offload", "_counters_"}))
      line.kind = LineKind::view;
    else line.kind = LineKind::unknown;
    if (line.kind == LineKind::stream) line.stream = number_behind(name, "#");
    plane.has_streams |= line.kind == LineKind::stream;
    plane.has_operations |= line.kind == LineKind::operations;
  }
  for (Line& line : lines_) {
    const Plane& plane = planes_[line.plane];
    line.works = line.kind == LineKind::stream || (line.kind == LineKind::operations && !plane.has_streams) ||
                 (line.kind == LineKind::asynchronous && !plane.has_streams) ||
                 (line.kind == LineKind::unknown && !plane.has_streams && !plane.has_operations);
  }
}

std::vector<std::int64_t> XlaPlanes::working_devices() const {
  std::set<std::int64_t> working;
  for (const XlaEvent& event : events_)
    if (lines_[event.line].works) working.insert(lines_[event.line].plane);
  return {working.begin(), working.end()};
}

void XlaPlanes::assign_host_lines() {
  std::unordered_map<std::int64_t, std::int64_t> device_of;
  for (const XlaEvent& event : events_)
    if (event.correlation > 0 && lines_[event.line].works)
      device_of.emplace(event.correlation, lines_[event.line].plane);
  for (const XlaEvent& event : events_) {
    Line& line = lines_[event.line];
    if (line.kind != LineKind::host || event.correlation <= 0) continue;
    const auto device = device_of.find(event.correlation);
    if (device != device_of.end() && std::ranges::find(line.devices, device->second) == line.devices.end())
      line.devices.push_back(device->second);
  }
}

const HloInstruction& XlaPlanes::instruction_of(const XlaEvent& event) {
  const StringId text = event.text != 0 ? event.text : event.name;
  const auto [known, is_new] = instructions_.try_emplace(text);
  if (is_new) known->second = hlo_instruction(strings_[text]);
  return known->second;
}

}  // namespace stepcast
