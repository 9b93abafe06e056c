// From raw fields to events: classification, numbers, tracks. The end of the work is in trace_builder_finish.cpp.
#include <stepcast/decimal.hpp>
#include <stepcast/error.hpp>
#include <stepcast/trace_builder.hpp>

#include <algorithm>
#include <limits>

namespace stepcast {
namespace {

// The most frequent first; see ActivityType in libkineto, and torch/csrc/autograd/profiler_kineto.cpp of 2021.
constexpr KinetoCategory categories[] = {
    {"cpu_op", EventKind::host_op, false},
    {"kernel", EventKind::kernel, true},
    {"cuda_runtime", EventKind::runtime_call, false},
    {"python_function", EventKind::python, false},
    {"user_annotation", EventKind::annotation, false},
    {"gpu_memcpy", EventKind::copy, true},
    {"gpu_memset", EventKind::fill, true},
    {"gpu_user_annotation", EventKind::device_annotation, true},
    {"cuda_driver", EventKind::runtime_call, false},
    {"cuda_sync", EventKind::synchronization, true},
    {"Operator", EventKind::host_op, false},
    {"Runtime", EventKind::runtime_call, false},
    {"Kernel", EventKind::kernel, true},
    {"Memcpy", EventKind::copy, true},
    {"Memset", EventKind::fill, true},
    {"mtia_ccp_events", EventKind::kernel, true},
    {"mtia_runtime", EventKind::runtime_call, false},
    {"glow_runtime", EventKind::runtime_call, false},
    {"hpu_op", EventKind::kernel, true},
    {"xpu_runtime", EventKind::runtime_call, false},
    {"xpu_driver", EventKind::runtime_call, false},
    {"xpu_sync", EventKind::synchronization, true},
    {"cuda_event", EventKind::synchronization, true},
    {"privateuse1_runtime", EventKind::runtime_call, false},
    {"privateuse1_driver", EventKind::runtime_call, false},
    {"overhead", EventKind::other, false},
    {"Trace", EventKind::other, false},
    {"cuda_profiler_range", EventKind::other, true},
};

const KinetoCategory* category_of(std::string_view name) {
  for (const KinetoCategory& c : categories)
    if (c.name == name) return &c;
  return nullptr;
}

// Before Kineto there were no categories: pid says host or device, the name says what.
KinetoCategory category_before_kineto(std::string_view process, std::string_view name) {
  if (process == "CPU functions") return {"", EventKind::host_op, false};
  if (name.starts_with("Memcpy")) return {"", EventKind::copy, true};
  if (name.starts_with("Memset")) return {"", EventKind::fill, true};
  return {"", EventKind::kernel, true};
}

void add_saturating(std::int64_t& sum, std::int64_t value) {
  if (__builtin_add_overflow(sum, value, &sum)) sum = std::numeric_limits<std::int64_t>::max();
}

}  // namespace

TraceBuilder::TraceBuilder(std::string_view source, bool strict, std::size_t expected_events)
    : source_(source), strict_(strict) {
  trace_.source = source;
  trace_.events.reserve(expected_events);
}

void TraceBuilder::repaired(const std::string& what) {
  if (strict_) throw InputError(source_, "an undamaged trace", what, "without --strict it is repaired and reported");
  trace_.report.repaired.push_back(what);
}

void TraceBuilder::add(const KinetoEvent& event) {
  ++trace_.report.events_seen;
  switch (event.phase.size() >= 3 ? event.phase[1] : '\0') {
    case 'X':
      return add_duration(event);
    case 's':
    case 'f':
      return add_arrow(event);
    case 'M':
      return add_label(event);
    case 'B':
    case 'E':
      ++begin_end_;
      return;
    case 'i':
    case 'I':
    case 'C':
      return;
    default:
      ++other_phases_;
  }
}

void TraceBuilder::add_duration(const KinetoEvent& event) {
  const std::string_view category_name = content_of(event.category), process = content_of(event.process);
  const KinetoCategory* category = recent_category_;
  if (!same_text(category_name, recent_category_name_)) {
    category = recent_category_ = category_of(category_name);
    recent_category_name_ = category_name;
  }
  KinetoCategory before_kineto;
  if (!category && category_name.empty() && (process == "CPU functions" || process == "CUDA functions")) {
    before_kineto = category_before_kineto(process, content_of(event.name));
    category = &before_kineto;
    ++autograd_only_;
  }
  if (category && category->kind == EventKind::python) {
    ++trace_.report.python_frames;
    return;
  }
  constexpr std::int64_t latest = std::int64_t{1} << 62, longest = std::int64_t{1} << 53;
  Event out;
  if (!read_time(event.start, latest, "a time stamp", out.start_ns)) {
    ++no_start_;
    return;
  }
  if (!read_time(event.duration, longest, "a duration", out.duration_ns)) {
    ++no_duration_;
    return;
  }
  if (out.duration_ns < 0) {
    ++negative_;
    return;
  }
  out.name = text_id(event.name);
  out.kind = category ? category->kind : EventKind::other;
  if (traits_of(out.name).step && (out.kind == EventKind::host_op || out.kind == EventKind::annotation)) {
    out.kind = EventKind::annotation;
    ++steps_;
  }
  if (!category) {
    ++trace_.report.events_unclassified;
    add_saturating(trace_.report.unclassified_ns, out.duration_ns);
  } else if (!category_name.empty() && category_name[0] >= 'A' && category_name[0] <= 'Z' && category_name != "Trace") {
    ++old_categories_;
  }
  out.track = track_of(event, category && category->on_device);
  add_links(event, out);
  ++of_kind_[static_cast<std::size_t>(out.kind)];
  if (!trace_.events.empty()) sorted_ = sorted_ && !precedes(out, trace_.events.back());
  earliest_ = std::min(earliest_, out.start_ns);
  latest_ = std::max(latest_, out.start_ns);
  trace_.events.push_back(out);
}

void TraceBuilder::add_links(const KinetoEvent& event, Event& out) {
  if (!event.correlation.empty()) out.correlation = number_of(event.correlation);
  if (!event.external_id.empty()) out.external_id = number_of(event.external_id);
  // Kineto writes 0 for "not linked"; its ids count from 1.
  if (out.correlation == 0) out.correlation = -1;
  if (out.external_id == 0) out.external_id = -1;
  if (!event.sequence.empty()) out.sequence = number_of(event.sequence);
  if (!event.forward_thread.empty()) out.forward_thread = small_number_of(event.forward_thread);
  if (!event.shapes.empty()) out.shapes = strings_.id_of(content_of(event.shapes));
  if (!event.types.empty()) out.types = strings_.id_of(content_of(event.types));
  if (!event.record_function.empty()) out.record_function = small_number_of(event.record_function);
  // Written as 0 where nobody asked for them; ids count from 1.
  if (out.record_function == 0 || out.record_function == std::numeric_limits<std::int32_t>::max())
    out.record_function = -1;
  if (event.has_rare) {
    if (!event.rare.collective.empty()) add_collective(event, out);
    if (out.kind == EventKind::synchronization) add_sync(event, out);
  }
  with_correlation_ += out.correlation >= 0 && is_device_work(out.kind);
  with_external_ += out.external_id >= 0;
  with_sequence_ += out.sequence >= 0;
  with_shapes_ += out.shapes != 0;
  nccl_ += out.kind == EventKind::kernel && traits_of(out.name).collective;
  hip_ += out.kind == EventKind::runtime_call && traits_of(out.name).hip;
}

void TraceBuilder::add_collective(const KinetoEvent& event, Event& out) {
  const KinetoEvent::Rare& said = event.rare;
  const auto count = [this](std::string_view json) { return json.empty() ? -1 : number_of(json); };
  CollectiveArguments arguments;
  arguments.name = text_id(said.collective);
  arguments.dtype = text_id(said.dtype);
  arguments.group = text_id(said.group);
  arguments.group_description = text_id(said.group_description);
  arguments.ranks = text_id(said.ranks);
  arguments.in_split = text_id(said.in_split);
  arguments.out_split = text_id(said.out_split);
  arguments.in_elements = count(said.in_elements);
  arguments.out_elements = count(said.out_elements);
  arguments.group_size = count(said.group_size);
  arguments.sequence = count(said.collective_sequence);
  arguments.source_rank = count(said.source_rank);
  arguments.destination_rank = count(said.destination_rank);
  out.collective = static_cast<std::uint32_t>(trace_.collectives.size());
  trace_.collectives.push_back(arguments);
  if (arguments.group == 0) return;
  if (const std::int64_t rank = count(said.rank); rank >= 0 && rank_in_group_ < 0) {
    rank_group_ = arguments.group;
    rank_in_group_ = rank;
  }
  const auto known = [&](const RegularGroup& group) { return group.name == arguments.group; };
  if (!said.rank_stride.empty() && std::ranges::none_of(regular_groups_, known))
    regular_groups_.push_back({arguments.group, count(said.first_rank), count(said.rank_stride)});
}

// CUPTI writes streams and records that it does not know as -1, in 32 bits or as unsigned.
void TraceBuilder::add_sync(const KinetoEvent& event, const Event& out) {
  const auto id = [this](std::string_view json) {
    const std::int64_t value = json.empty() ? -1 : number_of(json);
    return value == std::int64_t{std::numeric_limits<std::uint32_t>::max()} ? -1 : value;
  };
  const std::string_view kind = content_of(event.rare.sync_kind);
  SyncRecord sync;
  if (kind == "Stream Wait Event") {
    sync.kind = SyncKind::stream_for_event;
  } else if (kind == "Event Sync") {
    sync.kind = SyncKind::host_for_event;
  } else if (kind == "Stream Sync") {
    sync.kind = SyncKind::host_for_stream;
  } else if (kind == "Context Sync") {
    sync.kind = SyncKind::host_for_device;
  } else {
    return;
  }
  sync.start_ns = out.start_ns;
  sync.correlation = out.correlation;
  sync.device = trace_.tracks[out.track].process;
  sync.stream = id(event.stream);
  sync.waited_stream = id(event.rare.waited_stream);
  sync.marked_by = id(event.rare.waited_record);
  syncs_.push_back(sync);
}

void TraceBuilder::add_arrow(const KinetoEvent& event) {
  const std::string_view category = content_of(event.category);
  const bool launch = category == "cpu_to_cuda";
  if (category != "fwdbwd" && !launch) return;  // ac2g and its older names say what correlation says
  Arrow arrow;
  arrow.end = event.phase[1] == 'f';
  arrow.launch = launch;
  arrow.id = number_of(event.id);
  std::int64_t process = 0;
  if (!launch && read_integer(content_of(event.process), process) == Parsed::fine) arrow.process = process;
  if (!read_time(event.start, std::int64_t{1} << 62, "a time stamp", arrow.time)) return;
  arrow.track = key_of(content_of(event.process), content_of(event.thread), launch && arrow.end, event);
  arrows_.push_back(arrow);
}

void TraceBuilder::add_label(const KinetoEvent& event) {
  if (content_of(event.name) != "thread_name") return;
  const StringId label = text_id(event.label);
  if (label == 0) return;
  // Metadata does not say whether it is about a host thread or a device stream.
  for (const bool on_device : {false, true}) {
    const TrackKey key = key_of(content_of(event.process), content_of(event.thread), on_device, event);
    thread_names_.insert_or_assign(key, label);
  }
}

StringId TraceBuilder::text_id(std::string_view json) { return strings_.id_of_json(content_of(json)); }

std::int64_t TraceBuilder::number_of(std::string_view json) {
  std::int64_t value = -1;
  if (read_integer(content_of(json), value) == Parsed::fine) return value;
  ++unreadable_numbers_;
  return -1;
}

std::int32_t TraceBuilder::small_number_of(std::string_view json) {
  return static_cast<std::int32_t>(
      std::clamp<std::int64_t>(number_of(json), -1, std::numeric_limits<std::int32_t>::max()));
}

bool TraceBuilder::read_time(std::string_view json, std::int64_t limit, const char* what, std::int64_t& ns) {
  const std::string_view text = content_of(json);
  if (text.empty()) return false;
  const Parsed reading = read_microseconds(text, ns);
  if (reading == Parsed::out_of_range || (reading == Parsed::fine && (ns > limit || ns < -limit)))
    throw InputError(source_ + ", event " + std::to_string(events_seen()), std::string(what) + " in microseconds",
                     std::string(text), "no profiler runs that long: the file is damaged or its times are not us");
  text_times_ += json[0] == '"';
  fractional_ += ns % 1000 != 0;
  return reading == Parsed::fine;
}

std::size_t TraceBuilder::TrackHash::operator()(const TrackKey& key) const {
  std::uint64_t h = static_cast<std::uint64_t>(key.process) * 0x9e3779b97f4a7c15u;
  h = (h ^ static_cast<std::uint64_t>(key.thread)) * 0x9e3779b97f4a7c15u;
  h = (h ^ key.label ^ (key.on_device ? 1u << 31 : 0u)) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 32);
}

TraceBuilder::TrackKey TraceBuilder::key_of(std::string_view process, std::string_view thread, bool on_device,
                                            const KinetoEvent& event) {
  TrackKey key;
  key.on_device = on_device;
  if (read_integer(process, key.process) != Parsed::fine) {
    if (!on_device || read_integer(content_of(event.device), key.process) != Parsed::fine) key.process = -1;
    if (!on_device) key.label = strings_.id_of_json(process);
  }
  constexpr std::string_view stream = "stream ";  // "stream 7" until 2021
  if (thread.starts_with(stream)) thread.remove_prefix(stream.size());
  while (!thread.empty() && thread.back() == ' ') thread.remove_suffix(1);
  if (read_integer(thread, key.thread) != Parsed::fine) {
    if (!on_device || read_integer(content_of(event.stream), key.thread) != Parsed::fine) {
      key.thread = -1;
      key.label = strings_.id_of_json(thread);
    }
  }
  return key;
}

// Most events are on one of a few tracks, so the raw text of the two ids is looked up before they are read.
std::uint32_t TraceBuilder::track_of(const KinetoEvent& event, bool on_device) {
  const std::string_view process = content_of(event.process), thread = content_of(event.thread);
  const auto last = [](std::string_view s) { return s.empty() ? 0u : static_cast<unsigned>(s.back()); };
  const std::size_t slot = last(process) * 5 + last(thread) * 9 + thread.size() * 3 + (on_device ? 32 : 0);
  RecentTrack& recent = recent_tracks_[slot % recent_tracks_.size()];
  if (recent.track != no_index && recent.on_device == on_device && same_text(recent.process, process) &&
      same_text(recent.thread, thread))
    return recent.track;
  const TrackKey key = key_of(process, thread, on_device, event);
  const auto [found, added] = tracks_.try_emplace(key, static_cast<std::uint32_t>(trace_.tracks.size()));
  if (added) trace_.tracks.push_back({key.process, key.thread, key.on_device, key.label});
  // Ids that are not numbers may come from the arguments and differ from event to event.
  const bool from_text = key.label == 0 && key.process != -1 && key.thread != -1;
  if (from_text) recent = {std::string(process), std::string(thread), on_device, found->second};
  return found->second;
}

TraceBuilder::NameTraits TraceBuilder::traits_of(StringId name) {
  while (traits_.size() <= name) {
    const std::string_view text = strings_[static_cast<StringId>(traits_.size())];
    traits_.push_back({text.starts_with("ProfilerStep#"), text.starts_with("nccl") || text.starts_with("rccl"),
                       text.starts_with("hip")});
  }
  return traits_[name];
}

}  // namespace stepcast
