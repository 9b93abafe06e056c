#pragma once
// Room formats/kineto: the parts of the reader of PyTorch traces, which reads in parallel and in bounded memory.
//
//   windows of the file -> shards of events, one a thread -> the builder, in order -> trace
//
// It may include base, encodings, trace and formats/shared.
//
// TraceBuilder: from the blocks of events of a Kineto file, in their order, to a Trace that satisfies trace.hpp.
//
// Blocks come from the shards of several threads (event_shard.hpp); here they get common numbers for strings and
// tracks, in the order of first appearance, so that the trace does not depend on the threads. More events than the
// memory is meant for make the kept stretch of the recording shorter (kept_stretch.hpp). What is dropped, left out,
// assumed or not understood is counted and told in the report, and refused when `strict` is asked for.
//
// trace_builder.cpp takes blocks in; trace_finish.cpp sorts, joins and reports what they amount to.
#include <stepcast/encodings/string_table.hpp>
#include <stepcast/formats/kineto/event_shard.hpp>
#include <stepcast/formats/kineto/kept_stretch.hpp>
#include <stepcast/formats/kineto/process_groups.hpp>
#include <stepcast/formats/kineto/sync_records.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stepcast {

/// What the file says outside its events.
struct KinetoHeader {
  std::string device_name, backend, runtime, lab_writer;
  std::int64_t device_memory_bytes = -1, machine_devices = -1, rank = -1, world_size = -1, base_ns = 0;
  std::vector<ListedGroup> groups;
  bool bare_array = false, has_base = false, has_distributed_info = false, has_device_properties = false;
};

/// The order of Trace::events, file order apart.
[[nodiscard]] inline bool precedes(const Event& a, const Event& b) {
  return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.duration_ns > b.duration_ns;
}

class TraceBuilder {
 public:
  /// `expected_events` saves moving them while their number grows; any number is right.
  TraceBuilder(std::string_view source, bool strict, std::size_t expected_events,
               std::size_t most_events = std::numeric_limits<std::size_t>::max());
  /// A shard whose blocks may be added; it lives until the trace is finished.
  [[nodiscard]] EventShard& new_shard();
  /// Adds the next block. Every block that a shard gives is either added or forgotten, in the shard's order. Throws
  /// InputError for times that nobody writes.
  void add(EventBlock&&);
  void forget(EventBlock&&);
  /// Says what was repaired; throws InputError when `strict`.
  void repaired(const std::string& what);
  [[nodiscard]] std::uint64_t events_seen() const { return counts_.seen; }
  /// The finished trace; the builder is spent. Throws InputError when there is nothing that Kineto writes.
  [[nodiscard]] Trace finish(const KinetoHeader&, std::uint64_t bytes);
  /// The same, one trace for each rank where the events say which they are of (kineto_ranks.hpp).
  [[nodiscard]] std::vector<Trace> finish_ranks(const KinetoHeader&, std::uint64_t bytes);

 private:
  /// What the numbers of a shard are in the trace; `no_index` before their first appearance.
  struct ShardNumbers {
    std::vector<std::string_view> texts{std::string_view()};
    std::vector<StringId> strings{0};
    std::vector<TrackKey> keys;
    std::vector<std::uint32_t> tracks;
  };
  StringId string_of(ShardNumbers&, StringId own);
  TrackKey key_of(ShardNumbers&, TrackKey own);
  std::uint32_t track_of(ShardNumbers&, std::uint32_t own);
  void give_common_numbers(ShardNumbers&, const EventBlock&, Event&);
  void add_event(ShardNumbers&, const EventBlock&, Event);
  void push(const Event&);
  void count_unknown(const UnknownCategory&);
  void add_collective(ShardNumbers&, const CollectiveArguments&, Event&);
  void add_around(ShardNumbers&, EventBlock&);

  void bound_memory();
  void leave_out();
  [[nodiscard]] std::vector<Step> steps_so_far() const;
  void end_with_a_step();
  void report_stretch();

  void add_base(std::int64_t base);
  void close_slices();
  void drop_zero_starts(const KinetoHeader&);
  void place_uncategorised();
  void sort_events();
  void resolve_arrows();
  void place_rank();
  [[nodiscard]] std::uint32_t event_at(const KinetoArrow&, std::int64_t sequence) const;
  void label_tracks();
  void write_report(const KinetoHeader&);
  void report_missing(const KinetoHeader&);
  void report_unknown();
  void report_damage();
  [[nodiscard]] std::string producer_of(const KinetoHeader&) const;

  std::string source_;
  bool strict_;
  std::deque<EventShard> shards_;
  std::deque<ShardNumbers> numbers_;  ///< one for each shard
  Trace trace_;
  StringTable strings_;
  std::unordered_map<TrackKey, std::uint32_t, TrackHash> tracks_;
  std::vector<KinetoArrow> arrows_;
  std::vector<KinetoMark> marks_;
  std::vector<UnknownCategory> unknown_;
  std::vector<std::int64_t> track_ranks_;                 ///< the rank of each track
  std::unordered_map<std::int64_t, StringId> processes_;  ///< names of numbered processes
  std::vector<SyncRecord> syncs_;
  std::vector<RegularGroup> regular_groups_;  ///< each group once
  StringId rank_group_ = 0;                   ///< a group of which some collective said this process' place
  std::int64_t rank_in_group_ = -1;
  std::unordered_map<TrackKey, StringId, TrackHash> thread_names_;
  EventCounts counts_;
  std::uint64_t open_slices_ = 0, zero_dropped_ = 0, ascend_ = 0;
  bool sorted_ = true;
  std::size_t most_events_, limit_;  ///< `limit_`: when to make the stretch shorter
  KeptStretch stretch_;
  std::uint64_t left_out_ = 0;
};

}  // namespace stepcast
