#pragma once
// KeptStretch: which part of a recording is kept when all of it would take too much memory.
//
// A stretch of time that begins with the recording and ends where a step begins (without known steps: anywhere), so
// that whole steps are kept. Host events belong to it by their start; device work by its launch, wherever it runs,
// else by its start. A stretch is only ever made shorter. Not modelled: launches that a file has behind their kernels;
// what such kernels do behind the end of the stretch is lost.
#include <stepcast/trace/steps.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <unordered_set>
#include <vector>

namespace stepcast {

class KeptStretch {
 public:
  /// True as long as nothing was left out.
  [[nodiscard]] bool is_whole() const { return until_ns_ == everything; }
  /// Whether the event belongs to it; a launch that does is remembered.
  [[nodiscard]] bool keeps(const Event& event, bool on_device) {
    if (is_whole()) return true;
    if (on_device && event.correlation >= 0 && launches_.contains(event.correlation)) return true;
    if (event.start_ns >= until_ns_) return false;
    if (event.kind == EventKind::runtime_call && event.correlation >= 0) launches_.insert(event.correlation);
    return true;
  }
  [[nodiscard]] bool keeps(std::int64_t start_ns) const { return start_ns < until_ns_; }
  /// Ends it so that at most `most` of these events begin in it, if that leaves some steps; else ends it as late as
  /// it may. False when it cannot be made shorter.
  bool shorten(std::span<const Event> events, std::span<const Step> steps, std::size_t most);
  /// Leaves out the last step if the stretch ends inside it.
  bool end_with_a_step(std::span<const Step> steps);

 private:
  bool end_at(std::int64_t until_ns);

  static constexpr std::int64_t everything = std::numeric_limits<std::int64_t>::max();
  std::int64_t until_ns_ = everything;
  std::unordered_set<std::int64_t> launches_;  ///< correlation ids of the launches in it
};

}  // namespace stepcast
