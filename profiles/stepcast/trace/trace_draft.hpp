#pragma once
// TraceDraft: a trace under construction, for readers whose events come one by one in any order.
//
// Strings and tracks are added once each and referred to by number. Indices that `add` returns hold until `finish`,
// which sorts the events as trace.hpp asks and renumbers all that refers to them. Not modelled: reading in parallel;
// the Kineto reader has its own builder.
#include <stepcast/encodings/string_table.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

namespace stepcast {

/// A slice of more than 104 days is damage, and the sum of a thousand shorter ones is still in range.
inline constexpr std::int64_t longest_slice_ns = std::int64_t{1} << 53;

class TraceDraft {
 public:
  explicit TraceDraft(std::string_view source);

  [[nodiscard]] StringId text(std::string_view text) { return strings_.id_of(text); }
  [[nodiscard]] const std::string& text_of(StringId id) const { return strings_[id]; }
  /// The id of the JSON string whose text between the quotes is `raw`.
  [[nodiscard]] StringId json_text(std::string_view raw) { return strings_.id_of_json(raw); }
  /// The track of this process and thread (for device tracks: device and stream); made on first use.
  [[nodiscard]] std::uint32_t track(std::int64_t process, std::int64_t thread, bool on_device,
                                    std::string_view label = {});
  /// Gives a track its label after the fact.
  void label(std::uint32_t track, std::string_view label) { trace_.tracks[track].label = text(label); }
  /// Index of the new event, for dependencies, operations and links. A negative duration is set to 0 and counted.
  std::uint32_t add(const Event&);
  [[nodiscard]] Event& operator[](std::uint32_t event) { return trace_.events[event]; }
  [[nodiscard]] std::size_t size() const { return trace_.events.size(); }

  /// Everything that is not an event: device, rank, report, collectives, groups; dependencies, operations and links by
  /// the indices that `add` returned.
  [[nodiscard]] Trace& trace() { return trace_; }
  /// The finished trace; the draft is spent. Arrows with an end that is `no_index` are dropped.
  [[nodiscard]] Trace finish();

 private:
  Trace trace_;
  StringTable strings_;
  std::map<std::tuple<std::int64_t, std::int64_t, bool, StringId>, std::uint32_t> tracks_;
  std::uint64_t negative_ = 0;
};

}  // namespace stepcast
