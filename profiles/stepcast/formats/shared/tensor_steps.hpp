#pragma once
// TensorSteps: the steps of a timeline that marks none but shows when each gradient was communicated.
//
// Every gradient is communicated once a step, so a step lasts from one communication of a tensor to the next of the
// same tensor. The tensor is the one that comes first among those that occur as often as most do: broadcasts at the
// start and averaged metrics occur more seldom. Not modelled: gradients that are accumulated over several passes (a
// step is then what lies between two updates, as it should be).
#include <stepcast/trace/trace_draft.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace stepcast {

class TensorSteps {
 public:
  /// `tensor` began to be communicated at that time.
  void communicated(StringId tensor, std::int64_t start_ns) { starts_[tensor].push_back(start_ns); }
  /// Adds the steps to the trace as annotations and says in the report how they were found, or that there are none.
  void add_to(TraceDraft&);

 private:
  std::map<StringId, std::vector<std::int64_t>> starts_;
};

/// The common end of a reader: throws InputError when the draft holds no events, with what the file is instead.
void require_events(const TraceDraft&, std::string_view source, std::string_view expected, std::string_view found);

/// Adds a step annotation on a host track of its own, under the name that steps_of (steps.hpp) knows.
void add_step(TraceDraft&, std::int64_t number, std::int64_t start_ns, std::int64_t end_ns);

/// Traces that are held in memory end here: what follows is read, checked and counted, and left out.
inline constexpr std::size_t most_timeline_events = std::size_t{1} << 22;
/// Says so in the report when slices were left out beyond that.
void say_left_out(ReadReport&);

}  // namespace stepcast
