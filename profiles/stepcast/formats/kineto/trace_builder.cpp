// Blocks in their order: common numbers, and the bound on what is kept. The end of the work is in
// trace_finish.cpp.
#include <stepcast/base/error.hpp>
#include <stepcast/formats/kineto/trace_builder.hpp>

#include <algorithm>
#include <cctype>
#include <utility>

namespace stepcast {
namespace {

// Whether an annotation of this name may mark a step: says less than steps_of, which is asked about the few left.
bool may_name_a_step(std::string_view name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0 &&
         (name.find("tep") != std::string_view::npos || name.find("TEP") != std::string_view::npos ||
          name.find("ter") != std::string_view::npos || name.find("TER") != std::string_view::npos);
}

}  // namespace

TraceBuilder::TraceBuilder(std::string_view source, bool strict, std::size_t expected_events, std::size_t most_events)
    : source_(source), strict_(strict), most_events_(std::max<std::size_t>(1, most_events)), limit_(most_events_) {
  trace_.source = source;
  trace_.events.reserve(std::min(expected_events, most_events_));
}

void TraceBuilder::repaired(const std::string& what) {
  if (strict_) throw InputError(source_, "an undamaged trace", what, "without --strict it is repaired and reported");
  trace_.report.repaired.push_back(what);
}

EventShard& TraceBuilder::new_shard() {
  numbers_.emplace_back();
  return shards_.emplace_back(shards_.size());
}

void TraceBuilder::forget(EventBlock&& block) {
  if (block.shard == EventBlock::no_shard) return;
  ShardNumbers& numbers = numbers_[block.shard];
  numbers.texts.insert(numbers.texts.end(), block.new_strings.begin(), block.new_strings.end());
  numbers.strings.resize(numbers.texts.size(), no_index);
  numbers.keys.insert(numbers.keys.end(), block.new_tracks.begin(), block.new_tracks.end());
  numbers.tracks.resize(numbers.keys.size(), no_index);
}

void TraceBuilder::add(EventBlock&& block) {
  if (block.shard == EventBlock::no_shard) return;
  forget(std::move(block));  // which only learns what is new to the shard
  ShardNumbers& numbers = numbers_[block.shard];
  if (const auto& bad = block.impossible)
    throw InputError(source_ + ", event " + std::to_string(counts_.seen + bad->event), bad->what + " in microseconds",
                     bad->text, "no profiler runs that long: the file is damaged or its times are not us");
  counts_ += block.counts;
  for (const Event& event : block.events) add_event(numbers, block, event);
  add_around(numbers, block);
}

StringId TraceBuilder::string_of(ShardNumbers& numbers, StringId own) {
  StringId& id = numbers.strings[own];
  if (id == no_index) id = strings_.id_of(numbers.texts[own]);
  return id;
}

TrackKey TraceBuilder::key_of(ShardNumbers& numbers, TrackKey own) {
  own.label = string_of(numbers, own.label);
  return own;
}

std::uint32_t TraceBuilder::track_of(ShardNumbers& numbers, std::uint32_t own) {
  std::uint32_t& track = numbers.tracks[own];
  if (track != no_index) return track;
  const TrackKey key = key_of(numbers, numbers.keys[own]);
  const auto [found, added] = tracks_.try_emplace(key, static_cast<std::uint32_t>(trace_.tracks.size()));
  if (added) {
    trace_.tracks.push_back({key.process, key.thread, key.on_device, key.label});
    track_ranks_.push_back(key.rank);
  }
  return track = found->second;
}

void TraceBuilder::give_common_numbers(ShardNumbers& numbers, const EventBlock& block, Event& event) {
  event.name = string_of(numbers, event.name);
  event.shapes = string_of(numbers, event.shapes);
  event.types = string_of(numbers, event.types);
  event.track = track_of(numbers, event.track);
  if (event.collective != no_index) add_collective(numbers, block.collectives[event.collective], event);
}

void TraceBuilder::add_event(ShardNumbers& numbers, const EventBlock& block, Event event) {
  if (!stretch_.keeps(event, numbers.keys[event.track].on_device)) {
    ++left_out_;
    return;
  }
  give_common_numbers(numbers, block, event);
  push(event);
  if (trace_.events.size() > limit_) bound_memory();
}

void TraceBuilder::push(const Event& event) {
  if (!trace_.events.empty()) sorted_ = sorted_ && precedes(trace_.events.back(), event);
  trace_.events.push_back(event);
}

void TraceBuilder::count_unknown(const UnknownCategory& category) {
  constexpr std::size_t most_listed = 16;
  auto found = std::ranges::find(unknown_, category.name, &UnknownCategory::name);
  if (found == unknown_.end()) {
    if (unknown_.size() == most_listed) return;
    found = unknown_.insert(unknown_.end(), {category.name, 0, 0});
  }
  found->events += category.events;
  found->time_ns += category.time_ns;
}

void TraceBuilder::add_collective(ShardNumbers& numbers, const CollectiveArguments& own, Event& event) {
  CollectiveArguments arguments = own;
  for (StringId CollectiveArguments::*text :
       {&CollectiveArguments::name, &CollectiveArguments::dtype, &CollectiveArguments::group,
        &CollectiveArguments::group_description, &CollectiveArguments::ranks, &CollectiveArguments::in_split,
        &CollectiveArguments::out_split})
    arguments.*text = string_of(numbers, own.*text);
  event.collective = static_cast<std::uint32_t>(trace_.collectives.size());
  trace_.collectives.push_back(arguments);
}

// What a block has next to its events.
void TraceBuilder::add_around(ShardNumbers& numbers, EventBlock& block) {
  for (KinetoArrow& arrow : block.arrows) {
    if (!stretch_.keeps(arrow.time)) continue;
    arrow.track = key_of(numbers, arrow.track);
    arrows_.push_back(arrow);
  }
  for (KinetoMark& mark : block.marks) {
    mark.lane = string_of(numbers, mark.lane);
    if (mark.begin) give_common_numbers(numbers, block, mark.event);
    marks_.push_back(mark);
  }
  for (UnknownCategory& category : block.unknown) {
    category.name = string_of(numbers, category.name);
    count_unknown(category);
  }
  for (const SyncRecord& sync : block.syncs)
    if (stretch_.keeps(sync.start_ns)) syncs_.push_back(sync);
  for (const Allocation& allocation : block.allocations)
    if (stretch_.keeps(allocation.time_ns)) trace_.allocations.push_back(allocation);
  if (rank_in_group_ < 0 && block.rank_in_group >= 0) {
    rank_group_ = string_of(numbers, block.rank_group);
    rank_in_group_ = block.rank_in_group;
  }
  for (RegularGroup& group : block.regular_groups) {
    group.name = string_of(numbers, group.name);
    if (std::ranges::find(regular_groups_, group.name, &RegularGroup::name) == regular_groups_.end())
      regular_groups_.push_back(group);
  }
  for (const auto& [key, label] : block.thread_names)
    thread_names_.insert_or_assign(key_of(numbers, key), string_of(numbers, label));
  for (const auto& [process, name] : block.processes) processes_.insert_or_assign(process, string_of(numbers, name));
}

// Half of what may be kept is left free, because the work of kept launches may follow later in the file.
void TraceBuilder::bound_memory() {
  if (stretch_.shorten(trace_.events, steps_so_far(), most_events_ / 2)) leave_out();
  limit_ = std::max(most_events_, 2 * trace_.events.size());
}

// Drops what is no longer within the stretch. Launches first: device work belongs to them.
void TraceBuilder::leave_out() {
  std::vector<Event>& events = trace_.events;
  const auto on_device = [&](const Event& event) { return trace_.tracks[event.track].on_device; };
  for (const Event& event : events)
    if (!on_device(event)) (void)stretch_.keeps(event, false);
  const std::size_t before = events.size();
  std::erase_if(events, [&](const Event& event) { return !stretch_.keeps(event, on_device(event)); });
  left_out_ += before - events.size();
  std::erase_if(arrows_, [&](const KinetoArrow& arrow) { return !stretch_.keeps(arrow.time); });
  std::erase_if(syncs_, [&](const SyncRecord& sync) { return !stretch_.keeps(sync.start_ns); });
  std::erase_if(trace_.allocations, [&](const Allocation& a) { return !stretch_.keeps(a.time_ns); });
  std::vector<CollectiveArguments> collectives;
  const auto keep_collective = [&](Event& event) {
    if (event.collective == no_index) return;
    collectives.push_back(trace_.collectives[event.collective]);
    event.collective = static_cast<std::uint32_t>(collectives.size() - 1);
  };
  for (Event& event : events) keep_collective(event);
  for (KinetoMark& mark : marks_) keep_collective(mark.event);
  trace_.collectives = std::move(collectives);
}

// The steps among the events that are kept so far: steps_of a trace of the few events that may mark one.
std::vector<Step> TraceBuilder::steps_so_far() const {
  Trace marks;
  marks.tracks = trace_.tracks;
  std::vector<std::uint8_t> may(strings_.size());
  for (StringId id = 0; id < may.size(); ++id) may[id] = may_name_a_step(strings_[id]);
  for (const Event& event : trace_.events) {
    const bool host = event.kind == EventKind::annotation || event.kind == EventKind::host_op;
    if (!host || may[event.name] == 0) continue;
    marks.events.push_back(event);
    marks.events.back().name = static_cast<StringId>(marks.strings.size());
    marks.strings.push_back(strings_[event.name]);
  }
  std::ranges::stable_sort(marks.events, precedes);
  return steps_of(marks);
}

void TraceBuilder::end_with_a_step() {
  if (!stretch_.is_whole() && stretch_.end_with_a_step(steps_so_far())) leave_out();
}

void TraceBuilder::report_stretch() {
  trace_.report.events_left_out = left_out_;
  if (trace_.events.size() > most_events_)
    trace_.report.assumed.push_back("memory is not bounded: the fewest steps that a profile needs have " +
                                    std::to_string(trace_.events.size()) + " events, more than " +
                                    std::to_string(most_events_));
  if (left_out_ == 0) return;
  const std::vector<Step> steps = steps_so_far();
  std::string kept = "the beginning of the recording";
  if (!steps.empty())
    kept = "steps #" + std::to_string(steps.front().number) + " to #" + std::to_string(steps.back().number);
  if (counts_.steps > 0) kept += " of " + std::to_string(counts_.steps) + " annotated ones";
  trace_.report.assumed.push_back("to bound memory, only " + kept + (steps.empty() ? " is" : " are") +
                                  " kept: " + std::to_string(left_out_) + " events left out");
}

}  // namespace stepcast
