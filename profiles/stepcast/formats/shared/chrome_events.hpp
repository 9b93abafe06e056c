#pragma once
// Chrome events: the walk over a Chrome trace of any writer, one event at a time, in bounded memory.
//
// A Chrome trace is an array of events, bare or under the key "traceEvents" of an object. Fields are handed over as raw
// JSON text; arguments are looked up on demand. Damage is survived event by event and counted. The Kineto reader, which
// is made for speed, has a walk of its own (kineto_windows.hpp). Not modelled: what the fields mean.
#include <stepcast/encodings/json_text.hpp>
#include <stepcast/encodings/source.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stepcast {

/// One entry of a Chrome trace as raw JSON text (quotes included; empty: absent), valid while it is being looked at.
struct ChromeEvent {
  using Text = std::string_view;
  Text phase, category, name, process, thread, start, duration, id, arguments;

  /// 'X', 'B', 'E', 'i', 'M', ...; '\0' when there is none.
  [[nodiscard]] char kind() const { return phase.size() >= 3 ? phase[1] : '\0'; }
};

/// The raw text of a member of a JSON object, or empty.
[[nodiscard]] std::string_view member_of(std::string_view object, std::string_view key);
/// The member between its quotes, if it has any: writers disagree on whether numbers are strings.
[[nodiscard]] std::string_view content_of_member(std::string_view object, std::string_view key);
/// The member as a whole number, or -1.
[[nodiscard]] std::int64_t integer_member(std::string_view object, std::string_view key);
/// A process or thread id: a number of up to 64 bits, never through a double. False for text.
[[nodiscard]] bool read_id(std::string_view json, std::int64_t& id);

/// What a reader repairs: counted into the report, or refused when the user asked for strictness.
class Repairs {
 public:
  Repairs(const Source& source, const ReadOptions& options) : source_(source.name), strict_(options.strict) {}
  /// "3 events dropped: no readable time". Nothing when `count` is 0. Throws InputError when strict.
  void count(std::uint64_t count, std::string_view one, std::string_view many, std::string_view why = {});
  void say(const std::string& what);
  [[nodiscard]] std::vector<std::string> take() { return std::move(repaired_); }

 private:
  std::string source_;
  bool strict_;
  std::vector<std::string> repaired_;
};

struct ChromeWalk {
  std::uint64_t events = 0;  ///< objects of the array, empty ones included
  std::uint64_t bytes = 0;   ///< plain text read
  bool saw_events = false;   ///< there was an array of events at all
  bool closed = false;       ///< the array had its closing bracket
  bool bare_array = false;
  std::vector<std::string> keys;  ///< those of the object around the events
};

struct ChromeVisitor {
  std::function<void(const ChromeEvent&)> event;
  /// A key next to the events and its raw value (cut at 1 MiB); may be empty.
  std::function<void(std::string_view key, std::string_view value)> member;
};

/// Walks the whole text. Repairs what it can; a missing closing bracket is left to the caller, since some writers never
/// write one. Throws InputError for text that is no array or object, or of which most is unreadable.
ChromeWalk walk_chrome_trace(const Source&, const ReadOptions&, Repairs&, const ChromeVisitor&);

/// What every reader of such a trace says: who wrote it, what it is good for, how much was walked, what was repaired.
void describe(ReadReport&, const ChromeWalk&, Repairs&, std::string_view format, std::string_view producer,
              std::string_view good_for);

/// Reads the start (and duration) of an event; false, and counted, when there is none that can be read.
class ChromeTimes {
 public:
  explicit ChromeTimes(const Source& source) : source_(source.name) {}
  bool start(const ChromeEvent&, std::int64_t& ns);
  bool duration(const ChromeEvent&, std::int64_t& ns);
  void report(Repairs&) const;

 private:
  bool read(std::string_view json, std::int64_t limit, std::int64_t& ns);
  std::string source_;
  std::uint64_t no_start_ = 0, no_duration_ = 0;
};

/// Begin and end marks of one kind of slice, paired per track.
///
/// An end with a name closes the innermost open slice of that name, one without a name the innermost of all. Ends
/// without a beginning and slices without an end belong to a recording that starts or stops in the middle; they are
/// counted and left out.
class OpenSlices {
 public:
  struct Slice {
    std::int64_t start_ns = 0;
    std::uint32_t name = 0;            ///< StringId
    std::uint32_t depth = 0;           ///< slices open around it
    std::uint32_t user = 0xffffffffu;  ///< whatever the reader wants to find again
  };
  using Track = std::uint64_t;

  Slice& begin(Track track, std::uint32_t name, std::int64_t start_ns);
  /// False when nothing that fits is open, and when the end lies before the beginning.
  bool end(Track track, std::uint32_t name, std::int64_t end_ns, Slice& slice);
  [[nodiscard]] std::uint64_t without_end() const;
  void report(Repairs&) const;
  /// "the beginning of 2 slices ...", "the end of 1 slice ...", for ReadReport::missing.
  void report(std::vector<std::string>& missing) const;

 private:
  std::unordered_map<Track, std::vector<Slice>> open_;
  std::uint64_t without_beginning_ = 0, negative_ = 0, too_long_ = 0;
};

}  // namespace stepcast
