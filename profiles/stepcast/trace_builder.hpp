#pragma once
// TraceBuilder: from the raw entries of a Kineto file to a Trace that satisfies trace.hpp.
//
// Entries arrive in file order. Durations become events at once; arrows and labels wait until all events are known.
// What is dropped, assumed or not understood is counted and told in the report, and refused when `strict` is asked for.
#include <stepcast/format.hpp>
#include <stepcast/kineto_categories.hpp>
#include <stepcast/kineto_event.hpp>
#include <stepcast/process_groups.hpp>
#include <stepcast/string_table.hpp>
#include <stepcast/sync_records.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stepcast {

/// What the file says outside its events.
struct KinetoHeader {
  std::string device_name, backend, runtime, lab_writer;
  std::int64_t device_memory_bytes = -1, rank = -1, world_size = -1, base_ns = 0;
  std::vector<ListedGroup> groups;
  bool bare_array = false, has_base = false, has_distributed_info = false, has_device_properties = false;
};

/// The order of Trace::events, file order apart.
[[nodiscard]] inline bool precedes(const Event& a, const Event& b) {
  return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.duration_ns > b.duration_ns;
}

class TraceBuilder final : public KinetoSink {
 public:
  /// `expected_events` saves moving them while their number grows; any number is right.
  TraceBuilder(std::string_view source, bool strict, std::size_t expected_events);
  void add(const KinetoEvent&) override;
  /// Says what was repaired; throws InputError when `strict`.
  void repaired(const std::string& what);
  [[nodiscard]] std::uint64_t events_seen() const { return trace_.report.events_seen; }
  /// The finished trace; the builder is spent. Throws InputError when there is nothing that Kineto writes.
  [[nodiscard]] Trace finish(const KinetoHeader&, std::uint64_t bytes);
  /// The same, one trace for each rank where the events say which they are of (kineto_ranks.hpp).
  [[nodiscard]] std::vector<Trace> finish_ranks(const KinetoHeader&, std::uint64_t bytes);

 private:
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
  struct NameTraits {
    bool step, collective, hip;
  };
  struct Arrow {
    std::int64_t id = 0, process = 0, time = 0;
    TrackKey track;  // its rank keeps the arrows of several ranks apart
    bool end = false;
    bool launch = false;  ///< joins an operator with its kernel (before Kineto), not forward with backward
  };

  /// One end of a slice that is written as two entries, "B" and "E".
  struct Mark {
    Event event;                        ///< of an end only the time
    StringId lane = 0;                  ///< process and thread as written
    bool begin = false, known = false;  ///< known: of a known category
  };
  struct UnknownCategory {
    StringId name = 0;
    std::uint64_t events = 0;
    std::int64_t time_ns = 0;
  };

  void add_slice(const KinetoEvent&, bool begins_only);
  void add_end(const KinetoEvent&);
  void keep(const Event&, bool known);
  void count_unknown(std::string_view category, std::int64_t duration_ns);
  [[nodiscard]] StringId lane_of(const KinetoEvent&);
  void add_arrow(const KinetoEvent&);
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

  void add_base(std::int64_t base);
  void close_slices();
  void drop_zero_starts();
  void place_uncategorised();
  void sort_events();
  void resolve_arrows();
  void place_rank();
  [[nodiscard]] std::uint32_t event_at(const Arrow&, std::int64_t sequence) const;
  void label_tracks();
  void write_report(const KinetoHeader&);
  void report_missing(const KinetoHeader&);
  void report_unknown();
  void report_damage();
  [[nodiscard]] std::string producer_of(const KinetoHeader&) const;

  std::string source_;
  bool strict_;
  Trace trace_;
  StringTable strings_;
  std::unordered_map<TrackKey, std::uint32_t, TrackHash> tracks_;
  struct RecentTrack {
    std::string process, thread;
    bool on_device = false;
    std::uint32_t track = no_index;
  };
  std::array<RecentTrack, 64> recent_tracks_;
  std::vector<NameTraits> traits_;  ///< by StringId
  const KinetoCategory* recent_category_ = nullptr;
  std::string recent_category_name_;
  bool sorted_ = true;
  std::int64_t earliest_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t latest_ = std::numeric_limits<std::int64_t>::min();
  std::vector<Arrow> arrows_;
  std::vector<Mark> marks_;
  std::vector<UnknownCategory> unknown_;
  std::vector<std::int64_t> track_ranks_;                 ///< by track
  std::unordered_map<std::int64_t, StringId> processes_;  ///< names of numbered processes
  std::vector<SyncRecord> syncs_;
  std::vector<RegularGroup> regular_groups_;  ///< each group about once
  StringId rank_group_ = 0;                   ///< a group of which some collective said this process' place
  std::int64_t rank_in_group_ = -1;
  std::unordered_map<TrackKey, StringId, TrackHash> thread_names_;
  // What was seen, for the report.
  std::array<std::uint64_t, 10> of_kind_{};
  std::uint64_t with_shapes_ = 0, with_sequence_ = 0, with_correlation_ = 0, with_external_ = 0;
  std::uint64_t negative_ = 0, no_start_ = 0, no_duration_ = 0, unreadable_numbers_ = 0;
  std::uint64_t old_categories_ = 0, autograd_only_ = 0, fractional_ = 0, text_times_ = 0, steps_ = 0, hip_ = 0;
  std::uint64_t begin_end_ = 0, open_slices_ = 0, other_phases_ = 0, nccl_ = 0;
  std::uint64_t zero_starts_ = 0, zero_dropped_ = 0, ascend_ = 0;
  std::int64_t timed_ns_ = 0;  ///< summed duration of all slices
};

}  // namespace stepcast
