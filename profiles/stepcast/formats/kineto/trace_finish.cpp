// The end of a trace: one clock, one order, arrows to indices, and the report.
#include <stepcast/base/error.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/formats/kineto/kineto_ranks.hpp>
#include <stepcast/formats/kineto/trace_builder.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <tuple>
#include <utility>

namespace stepcast {
namespace {

struct SortKey {
  std::uint32_t lead;  ///< leading digits of the start
  std::uint32_t index;
};

constexpr unsigned digit_bits = 11;
constexpr std::size_t digits = std::size_t{1} << digit_bits;

// One stable pass of a radix sort by the digit at `shift`.
void counting_pass(std::vector<SortKey>& keys, std::vector<SortKey>& other, unsigned shift) {
  std::array<std::size_t, digits> next{};
  const auto digit = [shift](const SortKey& key) { return (key.lead >> shift) & (digits - 1); };
  for (const SortKey& key : keys) ++next[digit(key)];
  std::size_t sum = 0;
  for (std::size_t& n : next) sum += std::exchange(n, sum);
  for (const SortKey& key : keys) other[next[digit(key)]++] = key;
  keys.swap(other);
}

bool names_collective(std::string_view name) { return name.starts_with("nccl") || name.starts_with("rccl"); }
bool names_step(std::string_view name) { return name.starts_with("ProfilerStep#"); }

bool calls_hip(const Trace& trace, const StringTable& strings) {
  return std::ranges::any_of(trace.events, [&](const Event& event) {
    return event.kind == EventKind::runtime_call && strings[event.name].starts_with("hip");
  });
}

}  // namespace

Trace TraceBuilder::finish(const KinetoHeader& header, std::uint64_t bytes) {
  ReadReport& report = trace_.report;
  report.bytes = bytes;
  numbers_.clear();
  shards_.clear();
  close_slices();
  drop_zero_starts(header);
  place_uncategorised();
  end_with_a_step();
  report.events_seen = counts_.seen;
  report.events_unclassified = counts_.unclassified;
  report.unclassified_ns = counts_.unclassified_ns;
  report.python_frames = counts_.python_frames;
  const std::uint64_t classified = trace_.events.size() + left_out_ - report.events_unclassified;
  if (classified == 0 && report.python_frames == 0) {
    const std::string found =
        report.events_seen == 0 ? "no events at all"
        : counts_.begin_end > 0 ? "begin and end marks, as Horovod, MXNet and others write them"
        : trace_.events.empty() ? counted(report.events_seen, "event") + ", none with a readable time and duration"
                                : counted(trace_.events.size(), "event") + " of categories that Kineto does not write";
    throw InputError(source_, "a PyTorch trace with operators or kernels", found);
  }
  if (trace_.events.empty())
    throw InputError(source_, "operators or kernels", "Python frames only", "record CPU or CUDA activities");
  sort_events();
  std::ranges::stable_sort(trace_.allocations, {}, &Allocation::time_ns);
  add_base(header.base_ns);
  resolve_arrows();
  label_tracks();
  trace_.device_name = header.device_name;
  trace_.device_memory_bytes = header.device_memory_bytes;
  trace_.machine_devices = header.machine_devices;
  trace_.rank = header.rank;
  trace_.world_size = header.world_size;
  trace_.backend = header.backend;
  trace_.base_ns = header.base_ns;
  write_report(header);
  trace_.strings = strings_.release();
  trace_.groups = groups_of(trace_, header.groups, regular_groups_);
  place_rank();
  trace_.dependencies = dependencies_of(trace_, syncs_);
  return std::move(trace_);
}

std::vector<Trace> TraceBuilder::finish_ranks(const KinetoHeader& header, std::uint64_t bytes) {
  Trace whole = finish(header, bytes);
  return traces_by_rank(std::move(whole), track_ranks_, syncs_);
}

// Slices that are written as two entries: a stack on each thread, as the Trace Event Format says.
void TraceBuilder::close_slices() {
  std::ranges::stable_sort(marks_, {}, [](const KinetoMark& m) { return std::pair(m.lane, m.event.start_ns); });
  std::vector<KinetoMark*> open;
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    if (i > 0 && marks_[i].lane != marks_[i - 1].lane) {
      open_slices_ += open.size();
      open.clear();
    }
    if (marks_[i].begin) {
      open.push_back(&marks_[i]);
    } else if (open.empty()) {
      ++open_slices_;
    } else {
      KinetoMark& begin = *open.back();
      open.pop_back();
      begin.event.duration_ns = marks_[i].event.start_ns - begin.event.start_ns;
      const bool step = begin.event.kind == EventKind::annotation && names_step(strings_[begin.event.name]);
      counts_.take(begin.event, begin.known, step);
      push(begin.event);
    }
  }
  open_slices_ += open.size();
  marks_.clear();
}

// A start of 0 far before everything else is one that the profiler did not know. Relative times begin when the program
// loads the profiler: nobody records that moment and then nothing for a second.
void TraceBuilder::drop_zero_starts(const KinetoHeader& header) {
  if (counts_.zero_starts == 0) return;
  const std::int64_t far = (header.has_base && header.base_ns > 0 ? 1 : 3600) * std::int64_t{1'000'000'000};
  std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
  for (const Event& event : trace_.events)
    if (event.start_ns != 0) earliest = std::min(earliest, event.start_ns);
  if (earliest < far || earliest == std::numeric_limits<std::int64_t>::max()) return;
  for (const Event& event : trace_.events) {
    if (event.start_ns != 0) continue;
    if (event.kind == EventKind::annotation && names_step(strings_[event.name])) --counts_.steps;
  }
  zero_dropped_ = std::erase_if(trace_.events, [](const Event& event) { return event.start_ns == 0; });
  zero_dropped_ += std::erase_if(trace_.allocations, [](const Allocation& a) { return a.time_ns == 0; });
}

// Slices without a category are what the name of their process says, which may come anywhere in the file.
void TraceBuilder::place_uncategorised() {
  std::vector<const KinetoCategory*> last(trace_.tracks.size(), nullptr);
  std::vector<TrackKey> open;
  std::vector<StringId> name(trace_.tracks.size(), 0);
  for (const auto& [key, track] : tracks_) {
    if (!key.uncategorised) continue;
    open.push_back(key);
    if (const auto found = processes_.find(key.process); found != processes_.end()) name[track] = found->second;
  }
  if (open.empty()) return;
  std::vector<bool> uncategorised(trace_.tracks.size(), false);
  for (const TrackKey& key : open) uncategorised[tracks_.at(key)] = true;
  for (Event& event : trace_.events) {
    if (!uncategorised[event.track]) continue;
    const KinetoCategory* category = category_of_process(strings_[name[event.track]], strings_[event.name]);
    if (!category) {
      count_unknown({0, 1, event.duration_ns});
      continue;
    }
    last[event.track] = category;
    event.kind = category->kind;
    --counts_.unclassified;
    counts_.unclassified_ns -= event.duration_ns;
    ++ascend_;
  }
  std::vector<std::uint32_t> moved(trace_.tracks.size());
  for (std::uint32_t i = 0; i < moved.size(); ++i) moved[i] = i;
  for (TrackKey key : open) {
    const std::uint32_t track = tracks_.at(key);
    key.uncategorised = false;
    key.on_device = trace_.tracks[track].on_device = last[track] && last[track]->on_device;
    moved[track] = tracks_.try_emplace(key, track).first->second;
  }
  for (Event& event : trace_.events) event.track = moved[event.track];
}

// Without distributedInfo, collectives may still say which of its group this process is. That of traces on demand is
// made from the first collective, where a broadcast says the rank of its root.
void TraceBuilder::place_rank() {
  if (rank_in_group_ < 0) return;
  for (const ProcessGroup& group : trace_.groups) {
    if (group.name != trace_.text(rank_group_) || static_cast<std::size_t>(rank_in_group_) >= group.ranks.size())
      continue;
    const std::int64_t rank = group.ranks[static_cast<std::size_t>(rank_in_group_)];
    if (rank == trace_.rank) return;
    trace_.report.assumed.push_back(
        "rank " + std::to_string(rank) + " from the arguments of collectives" +
        (trace_.rank < 0 ? "" : ", not " + std::to_string(trace_.rank) + " as distributedInfo says"));
    trace_.rank = rank;
    return;
  }
}

void TraceBuilder::add_base(std::int64_t base) {
  if (base == 0) return;
  constexpr std::int64_t latest = std::int64_t{1} << 62;
  for (Event& event : trace_.events) {
    if (base > latest - event.start_ns)
      throw InputError(source_, "baseTimeNanoseconds and times before the year 2116", std::to_string(base));
    event.start_ns += base;
  }
  for (SyncRecord& sync : syncs_) sync.start_ns += base;
  for (Allocation& a : trace_.allocations) a.time_ns = base > latest - a.time_ns ? latest : a.time_ns + base;
  for (KinetoArrow& arrow : arrows_) arrow.time = base > latest - arrow.time ? latest : arrow.time + base;
}

// Files are sorted in long runs at best (operators, then launches, then kernels). Two counting passes by the leading
// digits of the start leave groups of a few events, which are sorted by comparison.
void TraceBuilder::sort_events() {
  std::vector<Event>& events = trace_.events;
  if (sorted_) return;
  const auto [first, last] = std::ranges::minmax(events, {}, &Event::start_ns);
  const std::int64_t earliest = first.start_ns;
  const std::uint64_t span = static_cast<std::uint64_t>(last.start_ns - earliest);
  const unsigned width = static_cast<unsigned>(std::bit_width(span));
  const unsigned shift = width > 2 * digit_bits ? width - 2 * digit_bits : 0;
  std::vector<SortKey> keys(events.size()), other(events.size());
  for (std::size_t i = 0; i < events.size(); ++i)
    keys[i] = {static_cast<std::uint32_t>(static_cast<std::uint64_t>(events[i].start_ns - earliest) >> shift),
               static_cast<std::uint32_t>(i)};
  counting_pass(keys, other, 0);
  counting_pass(keys, other, digit_bits);
  // Which of two slices of the same nanoseconds is within the other follows from what they are, not from the file:
  // operators are numbered as they begin, and issue runtime calls. Alike in all that, the names decide.
  const auto nesting = [](const Event& e) {
    const bool issues = e.kind == EventKind::annotation || e.kind == EventKind::host_op;
    return std::tuple(!issues, e.external_id, e.kind != EventKind::annotation, e.kind, e.correlation, e.sequence);
  };
  const auto before = [&](const SortKey& a, const SortKey& b) {
    const Event &x = events[a.index], &y = events[b.index];
    if (precedes(x, y) || precedes(y, x)) return precedes(x, y);
    if (nesting(x) != nesting(y)) return nesting(x) < nesting(y);
    if (x.name != y.name) return strings_[x.name] < strings_[y.name];
    return a.index < b.index;
  };
  for (auto from = keys.begin(); from != keys.end();) {
    auto to = from + 1;
    while (to != keys.end() && to->lead == from->lead) ++to;
    if (to - from > 1) std::sort(from, to, before);
    from = to;
  }
  std::vector<Event> sorted;
  sorted.reserve(events.size());
  for (const SortKey& key : keys) sorted.push_back(events[key.index]);
  events.swap(sorted);
}

// The event on the arrow's track that starts where the arrow is: with the wanted sequence number if there is one,
// else the innermost that has a sequence number, else the innermost.
std::uint32_t TraceBuilder::event_at(const KinetoArrow& arrow, std::int64_t sequence) const {
  const auto found = tracks_.find(arrow.track);
  if (found == tracks_.end()) return no_index;
  const auto first = std::lower_bound(trace_.events.begin(), trace_.events.end(), arrow.time,
                                      [](const Event& e, std::int64_t time) { return e.start_ns < time; });
  std::uint32_t innermost = no_index, numbered = no_index, wanted = no_index;
  for (auto event = first; event != trace_.events.end() && event->start_ns == arrow.time; ++event) {
    if (event->track != found->second || (event->kind == EventKind::runtime_call && !arrow.launch)) continue;
    const auto index = static_cast<std::uint32_t>(event - trace_.events.begin());
    innermost = index;
    if (event->sequence >= 0) numbered = index;
    if (sequence >= 0 && event->sequence == sequence) wanted = index;
  }
  return wanted != no_index ? wanted : numbered != no_index ? numbered : innermost;
}

void TraceBuilder::resolve_arrows() {
  std::stable_sort(arrows_.begin(), arrows_.end(), [](const KinetoArrow& a, const KinetoArrow& b) {
    return std::tie(a.launch, a.track.rank, a.process, a.id) < std::tie(b.launch, b.track.rank, b.process, b.id);
  });
  std::uint64_t loose = 0;
  for (std::size_t i = 0; i < arrows_.size(); ++i) {
    const KinetoArrow& tail = arrows_[i];
    const bool paired = i + 1 < arrows_.size() && arrows_[i + 1].id == tail.id &&
                        arrows_[i + 1].process == tail.process && arrows_[i + 1].launch == tail.launch &&
                        arrows_[i + 1].track.rank == tail.track.rank;
    const KinetoArrow& other = paired ? arrows_[i + 1] : tail;
    if (!paired || tail.end == other.end) {
      ++loose;
      continue;
    }
    ++i;
    const KinetoArrow &start = tail.end ? other : tail, &end = tail.end ? tail : other;
    const std::uint32_t from = event_at(start, -1);
    const std::uint32_t to = from == no_index ? no_index : event_at(end, trace_.events[from].sequence);
    if (from == no_index || to == no_index) {
      ++loose;
    } else if (start.launch) {
      const bool by_call = trace_.events[from].kind == EventKind::runtime_call;
      constexpr auto correlation = &Event::correlation, external_id = &Event::external_id;
      const auto id = by_call ? correlation : external_id;
      trace_.events[from].*id = trace_.events[to].*id = start.id;
    } else {
      trace_.forward_backward.push_back({from, to});
    }
  }
  if (loose > 0) trace_.report.missing.push_back(counted(loose, "arrow end") + " without an event or a partner");
}

void TraceBuilder::label_tracks() {
  for (const auto& [key, label] : thread_names_)
    if (const auto track = tracks_.find(key); track != tracks_.end()) trace_.tracks[track->second].label = label;
}

std::string TraceBuilder::producer_of(const KinetoHeader& header) const {
  std::string name;
  if (!header.lab_writer.empty()) {
    name = header.lab_writer;
  } else if (ascend_ > 0) {
    name = "Ascend PyTorch profiler (trace_view.json)";
  } else if (counts_.autograd_only > 0) {
    name = "PyTorch autograd profiler (until 1.7, or built without Kineto)";
  } else if (counts_.old_categories > 0) {
    name = "PyTorch Kineto of 2021 (1.8 to 1.11)";
  } else if (header.has_base) {
    name = "PyTorch Kineto >= 2.4 (relative times with nanoseconds)";
  } else if (counts_.fractional > 0) {
    name = "PyTorch Kineto about 2.3 (absolute times with nanoseconds)";
  } else {
    name = "PyTorch Kineto 1.12 to 2.2 (whole microseconds)";
  }
  if (!header.runtime.empty()) name += ", " + header.runtime;
  if (header.runtime.empty() && calls_hip(trace_, strings_)) name += ", HIP";
  return name;
}

void TraceBuilder::write_report(const KinetoHeader& header) {
  ReadReport& report = trace_.report;
  report.format = "kineto";
  report.producer = producer_of(header);
  report_missing(header);
  report_stretch();
  report_unknown();
  if (header.bare_array) report.assumed.push_back("times are microseconds (a bare array says no unit)");
  if (counts_.text_times > 0) report.assumed.push_back("times written as strings are decimal microseconds");
  if (counts_.wrapped_counts > 0)
    report.assumed.push_back("element counts of " + counted(counts_.wrapped_counts, "record") +
                             " of collectives overflowed 32 bits: the multiples of 2^32 that are missing were added");
  report_damage();
}

void TraceBuilder::report_missing(const KinetoHeader& header) {
  std::vector<std::string>& missing = trace_.report.missing;
  std::array<std::uint64_t, 10> of_kind{};
  std::uint64_t with_correlation = 0, with_external = 0, with_shapes = 0, with_sequence = 0, nccl = 0;
  for (const Event& event : trace_.events) {
    ++of_kind[static_cast<std::size_t>(event.kind)];
    with_correlation += event.correlation >= 0 && is_device_work(event.kind);
    with_external += event.external_id >= 0;
    with_sequence += event.sequence >= 0;
    with_shapes += event.shapes != 0;
    nccl += event.kind == EventKind::kernel && names_collective(strings_[event.name]);
  }
  const auto count = [&](EventKind kind) { return of_kind[static_cast<std::size_t>(kind)]; };
  const std::uint64_t device = count(EventKind::kernel) + count(EventKind::copy) + count(EventKind::fill);
  if (count(EventKind::host_op) == 0) missing.push_back("host operators");
  if (device == 0) missing.push_back("device activity");
  if (device > 0 && with_correlation == 0) missing.push_back("correlation of launches and device work");
  if (with_external == 0) missing.push_back("external ids");
  if (with_shapes == 0) missing.push_back("input shapes");
  if (with_sequence == 0) missing.push_back("sequence numbers");
  if (counts_.steps == 0) missing.push_back("step annotations (ProfilerStep#N)");
  if (nccl > 0 && trace_.collectives.empty()) missing.push_back("sizes of collectives");
  if (!header.has_distributed_info) missing.push_back("distributedInfo (rank and world size)");
  if (device > 0 && header.device_name.empty()) missing.push_back("device name");
}

void TraceBuilder::report_unknown() {
  ReadReport& report = trace_.report;
  if (report.events_unclassified == 0) return;
  const std::string names = listed(unknown_, [&](const UnknownCategory& unknown) {
    return (unknown.name ? "\"" + strings_[unknown.name] + "\"" : std::string("none")) + " (" +
           std::to_string(unknown.events) + ")";
  });
  const double share =
      counts_.timed_ns > 0 ? static_cast<double>(report.unclassified_ns) / static_cast<double>(counts_.timed_ns) : 0;
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.3g", 100 * share);
  report.missing.push_back("the meaning of " + counted(report.events_unclassified, "event") + ", " + percent +
                           " % of the time of all events; categories: " + names);
}

void TraceBuilder::report_damage() {
  const auto dropped = [this](std::uint64_t count, std::string_view what) {
    if (count > 0) repaired(counted(count, "event") + " dropped: " + std::string(what));
  };
  dropped(counts_.negative, "negative duration");
  dropped(counts_.no_start, "no readable time stamp");
  dropped(counts_.no_duration, "no readable duration");
  dropped(zero_dropped_, "time stamp 0");
  dropped(open_slices_, "a begin without an end, or an end without a begin");
  dropped(counts_.other_phases, "no phase that the Trace Event Format knows");
  if (counts_.unreadable_numbers > 0)
    repaired(counted(counts_.unreadable_numbers, "id or count") + " not readable, taken as absent");
}

}  // namespace stepcast
