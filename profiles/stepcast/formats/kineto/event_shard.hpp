#pragma once
// EventShard: the part of a trace that one thread reads, from raw entries to events, a block for each window.
//
// Entries arrive as they stand in a window. Durations become events at once; arrows and labels wait until all events
// are known. Strings and tracks have numbers of the shard's own; each block brings what is new to them, so that
// whoever puts the blocks in order (TraceBuilder) can give them numbers that do not depend on the threads.
#include <stepcast/encodings/string_table.hpp>
#include <stepcast/formats/kineto/kineto_categories.hpp>
#include <stepcast/formats/kineto/kineto_event.hpp>
#include <stepcast/formats/kineto/process_groups.hpp>
#include <stepcast/formats/kineto/sync_records.hpp>
#include <stepcast/trace/trace.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stepcast {

/// What tells one thread or stream from another.
struct TrackKey {
  std::int64_t process = 0, thread = 0;
  std::int64_t rank = -1;  ///< in files that hold several ranks and tell them apart
  StringId label = 0;
  bool on_device = false;
  bool uncategorised = false;  ///< its slices have no category: the name of the process will tell (Ascend)
  bool operator==(const TrackKey&) const = default;
};
struct TrackHash {
  std::size_t operator()(const TrackKey&) const;
};

/// One end of an arrow between events.
struct KinetoArrow {
  std::int64_t id = 0, process = 0, time = 0;
  TrackKey track;  ///< its rank keeps the arrows of several ranks apart
  bool end = false;
  bool launch = false;  ///< joins an operator with its kernel (before Kineto), not forward with backward
};

/// One end of a slice that is written as two entries, "B" and "E".
struct KinetoMark {
  Event event;                        ///< for the end of a slice only the time
  StringId lane = 0;                  ///< process and thread as written
  bool begin = false, known = false;  ///< known: of a known category
};

struct UnknownCategory {
  StringId name = 0;
  std::uint64_t events = 0;
  std::int64_t time_ns = 0;
};

/// What was seen, for the report.
struct EventCounts {
  std::uint64_t seen = 0, python_frames = 0, unclassified = 0;
  std::uint64_t negative = 0, no_start = 0, no_duration = 0, unreadable_numbers = 0, zero_starts = 0;
  std::uint64_t old_categories = 0, autograd_only = 0, fractional = 0, text_times = 0, steps = 0;
  std::uint64_t begin_end = 0, other_phases = 0, wrapped_counts = 0;
  std::int64_t unclassified_ns = 0, timed_ns = 0;  ///< summed durations: of those without a known category; of all
  EventCounts& operator+=(const EventCounts&);
  /// Counts a slice.
  void take(const Event&, bool known, bool step);
};

/// A time that no profiler writes: the trace cannot be trusted.
struct ImpossibleTime {
  std::uint64_t event = 0;  ///< which of the block's entries, from 1
  std::string what, text;
};

/// The events of one window, in its order; all numbers are those of the shard.
struct EventBlock {
  std::size_t shard = no_shard;
  std::vector<Event> events;
  std::vector<CollectiveArguments> collectives;
  std::vector<KinetoArrow> arrows;
  std::vector<KinetoMark> marks;
  std::vector<UnknownCategory> unknown;
  std::vector<SyncRecord> syncs;
  std::vector<Allocation> allocations;
  std::vector<RegularGroup> regular_groups;
  StringId rank_group = 0;  ///< a group of which some collective said this process' place
  std::int64_t rank_in_group = -1;
  std::vector<std::pair<TrackKey, StringId>> thread_names;
  std::vector<std::pair<std::int64_t, StringId>> processes;  ///< names of numbered processes
  std::vector<std::string_view> new_strings;  ///< those behind the ones of the shard's block before; the shard has them
  std::vector<TrackKey> new_tracks;
  EventCounts counts;
  std::optional<ImpossibleTime> impossible;

  static constexpr std::size_t no_shard = ~std::size_t{0};
};

class EventShard final : public KinetoSink {
 public:
  explicit EventShard(std::size_t number) : number_(number) {}
  void add(const KinetoEvent&) override;
  /// What was added since the last call.
  [[nodiscard]] EventBlock taken();

 private:
  struct NameTraits {
    bool step;
  };
  struct RecentTrack {
    std::string process, thread;
    bool on_device = false;
    std::uint32_t track = no_index;
  };

  void add_slice(const KinetoEvent&, bool begins_only);
  void add_end(const KinetoEvent&);
  void keep(const Event&, bool known);
  void count_unknown(std::string_view category, std::int64_t duration_ns);
  [[nodiscard]] StringId lane_of(const KinetoEvent&);
  void add_arrow(const KinetoEvent&);
  void add_allocation(const KinetoEvent&);
  void add_label(const KinetoEvent&);
  void add_links(const KinetoEvent&, Event&);
  void add_collective(const KinetoEvent&, Event&);
  void add_sync(const KinetoEvent&, const Event&);
  TrackKey key_of(std::string_view process, std::string_view thread, bool on_device, const KinetoEvent&);
  std::uint32_t track_of(const KinetoEvent&, bool on_device, bool uncategorised);
  NameTraits traits_of(StringId name);
  std::int64_t number_of(std::string_view json);
  std::int32_t small_number_of(std::string_view json);
  bool read_time(std::string_view json, std::int64_t limit, const char* what, std::int64_t& ns);
  StringId text_id(std::string_view json);

  std::size_t number_;
  EventBlock block_;
  std::size_t usual_events_ = 0;  ///< how many a block usually has
  StringTable strings_;
  std::size_t known_strings_ = 1;  ///< those that blocks told so far; the empty one is known to all
  std::vector<TrackKey> tracks_;
  std::size_t known_tracks_ = 0;
  std::unordered_map<TrackKey, std::uint32_t, TrackHash> track_numbers_;
  std::array<RecentTrack, 64> recent_tracks_;
  std::vector<NameTraits> traits_;  ///< one for each StringId
  const KinetoCategory* recent_category_ = nullptr;
  std::string recent_category_name_;
};

}  // namespace stepcast
