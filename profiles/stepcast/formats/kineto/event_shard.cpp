// From raw fields to events: classification, numbers, tracks.
#include <stepcast/base/decimal.hpp>
#include <stepcast/formats/kineto/event_shard.hpp>
#include <stepcast/formats/shared/ascend_lists.hpp>
#include <stepcast/formats/shared/recorded_collective.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace stepcast {
namespace {

/// The text of a negative number of nanoseconds that passed through 64 bits without a sign, as Kineto wrote the length
/// of a span that had no end.
bool is_wrapped(std::string_view text) {
  double us = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), us);
  return error == std::errc() && end == text.data() + text.size() && us >= 0x1p63 / 1000 && us <= 0x1p64 / 1000;
}

void add_saturating(std::int64_t& sum, std::int64_t value) {
  if (__builtin_add_overflow(sum, value, &sum)) sum = std::numeric_limits<std::int64_t>::max();
}

}  // namespace

EventCounts& EventCounts::operator+=(const EventCounts& more) {
  for (std::uint64_t EventCounts::*count :
       {&EventCounts::seen, &EventCounts::python_frames, &EventCounts::unclassified, &EventCounts::negative,
        &EventCounts::no_start, &EventCounts::no_duration, &EventCounts::unreadable_numbers,
        &EventCounts::old_categories, &EventCounts::autograd_only, &EventCounts::fractional, &EventCounts::text_times,
        &EventCounts::steps, &EventCounts::begin_end, &EventCounts::other_phases, &EventCounts::zero_starts,
        &EventCounts::wrapped_counts})
    this->*count += more.*count;
  add_saturating(unclassified_ns, more.unclassified_ns);
  add_saturating(timed_ns, more.timed_ns);
  return *this;
}

void EventCounts::take(const Event& event, bool known, bool step) {
  if (!known) {
    ++unclassified;
    add_saturating(unclassified_ns, event.duration_ns);
  }
  add_saturating(timed_ns, event.duration_ns);
  steps += step;
  zero_starts += event.start_ns == 0;
}

EventBlock EventShard::taken() {
  block_.shard = number_;
  for (; known_strings_ < strings_.size(); ++known_strings_)
    block_.new_strings.push_back(strings_[static_cast<StringId>(known_strings_)]);
  block_.new_tracks.assign(tracks_.begin() + static_cast<std::ptrdiff_t>(known_tracks_), tracks_.end());
  known_tracks_ = tracks_.size();
  usual_events_ = block_.events.size();
  return std::exchange(block_, EventBlock());
}

void EventShard::add(const KinetoEvent& event) {
  ++block_.counts.seen;
  switch (event.phase.size() >= 3 ? event.phase[1] : '\0') {
    case 'X':
      return add_slice(event, false);
    case 's':
    case 'f':
      return add_arrow(event);
    case 'M':
      return add_label(event);
    case 'B':
      ++block_.counts.begin_end;
      return add_slice(event, true);
    case 'E':
      ++block_.counts.begin_end;
      return add_end(event);
    case 'i':  // instants, counters, asynchronous and object events: known, but without a place on a thread
      return add_allocation(event);
    case 'I':
    case 'R':
    case 'C':
    case 't':
    case 'b':
    case 'e':
    case 'n':
    case 'N':
    case 'O':
    case 'D':
      return;
    default:
      ++block_.counts.other_phases;
  }
}

constexpr std::int64_t latest_time = std::int64_t{1} << 62, longest_time = std::int64_t{1} << 53;

void EventShard::add_slice(const KinetoEvent& event, bool begins_only) {
  const std::string_view category_name = content_of(event.category);
  const KinetoCategory* category = recent_category_;
  if (!same_text(category_name, recent_category_name_)) {
    category = recent_category_ = kineto_category(category_name);
    recent_category_name_ = category_name;
  }
  if (!category && category_name.empty()) {
    category = category_of_process(content_of(event.process), content_of(event.name));
    block_.counts.autograd_only += category != nullptr;
  }
  if (category && category->kind == EventKind::python) {
    ++block_.counts.python_frames;
    return;
  }
  Event out;
  if (!read_time(event.start, latest_time, "a time stamp", out.start_ns)) {
    ++block_.counts.no_start;
    return;
  }
  if (!begins_only && !read_time(event.duration, longest_time, "a duration", out.duration_ns)) {
    ++block_.counts.no_duration;
    return;
  }
  if (out.duration_ns < 0) {
    ++block_.counts.negative;
    return;
  }
  out.name = text_id(event.name);
  out.kind = category ? category->kind : EventKind::other;
  const bool is_step = traits_of(out.name).step && (out.kind == EventKind::host_op || category_name.empty());
  if (is_step) out.kind = EventKind::annotation;
  const bool known = category || is_step, later = !known && category_name.empty();
  if (!known && !later) count_unknown(category_name, out.duration_ns);
  if (category && !category_name.empty() && category_name[0] >= 'A' && category_name[0] <= 'Z' &&
      category_name != "Trace")
    ++block_.counts.old_categories;
  out.track = track_of(event, category && category->on_device, later);
  add_links(event, out);
  if (begins_only) {
    block_.marks.push_back({out, lane_of(event), true, known});
  } else {
    keep(out, known);
  }
}

void EventShard::keep(const Event& event, bool known) {
  if (block_.events.empty()) block_.events.reserve(usual_events_ + usual_events_ / 8);
  block_.counts.take(event, known, event.kind == EventKind::annotation && traits_of(event.name).step);
  block_.events.push_back(event);
}

void EventShard::add_end(const KinetoEvent& event) {
  KinetoMark mark;
  if (!read_time(event.start, latest_time, "a time stamp", mark.event.start_ns)) {
    ++block_.counts.no_start;
    return;
  }
  mark.lane = lane_of(event);
  block_.marks.push_back(mark);
}

StringId EventShard::lane_of(const KinetoEvent& event) {
  std::string lane(content_of(event.process));
  lane += '/';
  lane += content_of(event.thread);
  return strings_.id_of(lane);
}

void EventShard::count_unknown(std::string_view category, std::int64_t duration_ns) {
  const StringId name = strings_.id_of_json(category);
  auto found = std::ranges::find(block_.unknown, name, &UnknownCategory::name);
  if (found == block_.unknown.end()) found = block_.unknown.insert(block_.unknown.end(), {name, 0, 0});
  ++found->events;
  add_saturating(found->time_ns, duration_ns);
}

void EventShard::add_links(const KinetoEvent& event, Event& out) {
  if (!event.correlation.empty()) out.correlation = number_of(event.correlation);
  if (!event.external_id.empty()) out.external_id = number_of(event.external_id);
  // Kineto writes 0 for "not linked"; its ids count from 1.
  if (out.correlation == 0) out.correlation = -1;
  if (out.external_id == 0) out.external_id = -1;
  if (!event.sequence.empty()) out.sequence = number_of(event.sequence);
  if (!event.forward_thread.empty()) out.forward_thread = small_number_of(event.forward_thread);
  const auto is_text = [](std::string_view json) { return !json.empty() && json[0] == '"'; };
  if (is_text(event.shapes)) out.shapes = strings_.id_of(shapes_of_ascend(content_of(event.shapes)));
  else if (!event.shapes.empty()) out.shapes = strings_.id_of(content_of(event.shapes));
  if (is_text(event.types)) out.types = strings_.id_of(types_of_ascend(content_of(event.types)));
  else if (!event.types.empty()) out.types = strings_.id_of(content_of(event.types));
  if (!event.record_function.empty()) out.record_function = small_number_of(event.record_function);
  // Written as 0 where nobody asked for them; ids count from 1.
  if (out.record_function == 0 || out.record_function == std::numeric_limits<std::int32_t>::max())
    out.record_function = -1;
  if (event.has_rare) {
    // PyTorch's search for NaN in what is sent is launched within the call, whose arguments all kernels get.
    const bool checks =
        out.kind == EventKind::kernel && content_of(event.name).find("checkForNaN") != std::string::npos;
    if (!event.rare.collective.empty() && !checks) add_collective(event, out);
    if (out.kind == EventKind::synchronization) add_sync(event, out);
  }
}

void EventShard::add_collective(const KinetoEvent& event, Event& out) {
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
  const std::string_view name = content_of(said.collective);
  block_.counts.wrapped_counts +=
      restore_counts(name, arguments.group_size, arguments.in_elements, arguments.out_elements);
  arguments.sequence = count(said.collective_sequence);
  arguments.source_rank = count(said.source_rank);
  arguments.destination_rank = count(said.destination_rank);
  out.collective = static_cast<std::uint32_t>(block_.collectives.size());
  block_.collectives.push_back(arguments);
  if (arguments.group == 0) return;
  if (const std::int64_t rank = count(said.rank); rank >= 0 && block_.rank_in_group < 0 && tells_own_rank(name)) {
    block_.rank_group = arguments.group;
    block_.rank_in_group = rank;
  }
  const auto known = [&](const RegularGroup& group) { return group.name == arguments.group; };
  if (!said.rank_stride.empty() && std::ranges::none_of(block_.regular_groups, known))
    block_.regular_groups.push_back({arguments.group, count(said.first_rank), count(said.rank_stride)});
}

// CUPTI writes streams and records that it does not know as -1, in 32 bits or as unsigned.
void EventShard::add_sync(const KinetoEvent& event, const Event& out) {
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
  sync.device = tracks_[out.track].process;
  sync.stream = id(event.stream);
  sync.waited_stream = id(event.rare.waited_stream);
  sync.marked_by = id(event.rare.waited_record);
  sync.rank = tracks_[out.track].rank;
  block_.syncs.push_back(sync);
}

void EventShard::add_arrow(const KinetoEvent& event) {
  const std::string_view category = content_of(event.category);
  const bool launch = is_launch_arrow(category), backward = category == "fwdbwd" || category == "forward_backward";
  if (!backward && !launch) return;  // ac2g and its older names say what correlation says
  KinetoArrow arrow;
  arrow.end = event.phase[1] == 'f';
  arrow.launch = launch;
  arrow.id = number_of(event.id);
  std::int64_t process = 0;
  if (!launch && read_integer(content_of(event.process), process) == Parsed::fine) arrow.process = process;
  if (!read_time(event.start, std::int64_t{1} << 62, "a time stamp", arrow.time)) return;
  arrow.track = key_of(content_of(event.process), content_of(event.thread), launch && arrow.end, event);
  block_.arrows.push_back(arrow);
}

void EventShard::add_allocation(const KinetoEvent& event) {
  if (!event.has_rare || event.rare.bytes.empty() || content_of(event.name) != "[memory]") return;
  Allocation allocation;
  if (!read_time(event.start, latest_time, "a time stamp", allocation.time_ns)) return;
  allocation.bytes = number_of(event.rare.bytes);
  allocation.on_device = content_of(event.rare.memory_of) != "0";  // c10::DeviceType: 0 is the host
  block_.allocations.push_back(allocation);
}

void EventShard::add_label(const KinetoEvent& event) {
  const std::string_view what = content_of(event.name);
  const StringId label = text_id(event.label);
  if (label == 0) return;
  std::int64_t process = 0;
  if (what == "process_name" && read_integer(content_of(event.process), process) == Parsed::fine)
    block_.processes.emplace_back(process, label);
  if (what != "thread_name") return;
  // Metadata does not say whether it is about a host thread or a device stream.
  for (const bool on_device : {false, true}) {
    const TrackKey key = key_of(content_of(event.process), content_of(event.thread), on_device, event);
    block_.thread_names.emplace_back(key, label);
  }
}

StringId EventShard::text_id(std::string_view json) { return strings_.id_of_json(content_of(json)); }

std::int64_t EventShard::number_of(std::string_view json) {
  std::int64_t value = -1;
  if (read_integer(content_of(json), value) == Parsed::fine) return value;
  ++block_.counts.unreadable_numbers;
  return -1;
}

std::int32_t EventShard::small_number_of(std::string_view json) {
  return static_cast<std::int32_t>(
      std::clamp<std::int64_t>(number_of(json), -1, std::numeric_limits<std::int32_t>::max()));
}

bool EventShard::read_time(std::string_view json, std::int64_t limit, const char* what, std::int64_t& ns) {
  const std::string_view text = content_of(json);
  if (text.empty()) return false;
  const Parsed reading = read_microseconds(text, ns);
  if (reading == Parsed::out_of_range && is_wrapped(text)) return false;
  if (reading == Parsed::out_of_range || (reading == Parsed::fine && (ns > limit || ns < -limit))) {
    if (!block_.impossible) block_.impossible = ImpossibleTime{block_.counts.seen, what, std::string(text)};
    return false;
  }
  block_.counts.text_times += json[0] == '"';
  block_.counts.fractional += ns % 1000 != 0;
  return reading == Parsed::fine;
}

std::size_t TrackHash::operator()(const TrackKey& key) const {
  std::uint64_t h = static_cast<std::uint64_t>(key.process) * 0x9e3779b97f4a7c15u;
  h = (h ^ static_cast<std::uint64_t>(key.thread)) * 0x9e3779b97f4a7c15u;
  h = (h ^ key.label ^ (key.on_device ? 1u << 31 : 0u) ^ (key.uncategorised ? 1u << 30 : 0u)) * 0x9e3779b97f4a7c15u;
  h = (h ^ static_cast<std::uint64_t>(key.rank)) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 32);
}

namespace {

// Merged files say in an argument which rank an event is of (TraceLens' TraceFuse), or in the text of the process.
std::int64_t rank_of(std::string_view process, const KinetoEvent& event) {
  std::int64_t rank = -1;
  if (event.has_rare && !event.rare.event_rank.empty() &&
      read_integer(content_of(event.rare.event_rank), rank) == Parsed::fine)
    return rank;
  const std::size_t at = process.find("ank");
  if (at == std::string_view::npos || at == 0 || (process[at - 1] != 'r' && process[at - 1] != 'R')) return -1;
  std::string_view digits = process.substr(at + 3);
  digits.remove_prefix(std::min(digits.find_first_not_of(" :_#="), digits.size()));
  digits = digits.substr(0, std::min(digits.find_first_not_of("0123456789"), digits.size()));
  return read_integer(digits, rank) == Parsed::fine ? rank : -1;
}

}  // namespace

TrackKey EventShard::key_of(std::string_view process, std::string_view thread, bool on_device,
                            const KinetoEvent& event) {
  TrackKey key;
  key.on_device = on_device;
  key.rank = rank_of(process, event);
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
std::uint32_t EventShard::track_of(const KinetoEvent& event, bool on_device, bool uncategorised) {
  const std::string_view process = content_of(event.process), thread = content_of(event.thread);
  const auto last = [](std::string_view s) { return s.empty() ? 0u : static_cast<unsigned>(s.back()); };
  const std::size_t slot = last(process) * 5 + last(thread) * 9 + thread.size() * 3 + (on_device ? 32 : 0);
  RecentTrack& recent = recent_tracks_[slot % recent_tracks_.size()];
  const bool plain = !uncategorised && !(event.has_rare && !event.rare.event_rank.empty());
  if (plain && recent.track != no_index && recent.on_device == on_device && same_text(recent.process, process) &&
      same_text(recent.thread, thread))
    return recent.track;
  TrackKey key = key_of(process, thread, on_device, event);
  key.uncategorised = uncategorised;
  const auto [found, added] = track_numbers_.try_emplace(key, static_cast<std::uint32_t>(tracks_.size()));
  if (added) tracks_.push_back(key);
  // Ids that are not numbers may come from the arguments and differ from event to event.
  const bool from_text = plain && key.label == 0 && key.process != -1 && key.thread != -1;
  if (from_text) recent = {std::string(process), std::string(thread), on_device, found->second};
  return found->second;
}

EventShard::NameTraits EventShard::traits_of(StringId name) {
  while (traits_.size() <= name) {
    const std::string_view text = strings_[static_cast<StringId>(traits_.size())];
    traits_.push_back({text.starts_with("ProfilerStep#")});
  }
  return traits_[name];
}

}  // namespace stepcast
