#pragma once
// TraceSummary: what a trace holds, in one line: producer, rank, steps, step time, kernels, collectives, and the share
// of its time that nobody could classify.
//
// All figures are over the whole trace unless they say otherwise; "exposed" is the time in which a collective kernel
// ran on some stream of the device and no other kernel did. Not modelled: why; that is for profiles and replays.
#include <stepcast/profile_of.hpp>
#include <stepcast/trace.hpp>
#include <stepcast/units.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace stepcast {

/// Where the bytes of a collective come from, best source first.
enum class BytesSource : std::uint8_t {
  metadata,         ///< element counts x dtype in the event's arguments
  execution_trace,  ///< the same, from the execution trace of the run
  shapes,           ///< the tensors that the operator around it was called with
  gradients,        ///< the gradients that the step produces between two collectives
  unknown,
};
[[nodiscard]] std::string_view name_of(BytesSource);

struct TraceSummary {
  std::string source, format, producer, device;
  std::int64_t rank = -1, world_size = -1;
  std::size_t steps = 0;  ///< annotated steps
  std::int64_t first_step = -1, last_step = -1;
  Seconds host_step;      ///< median duration of the annotations; 0: none
  Seconds device_period;  ///< median start-to-start time of kernels that occur once a step; 0: none
  Seconds step;           ///< which of the two is the iteration time (profile_of.hpp); 0: cannot be told
  Seconds span;           ///< first start to last end
  std::size_t events = 0, kernels = 0;
  std::size_t collectives = 0;        ///< collective kernels; without a device, collective operations of the host
  std::size_t collectives_sized = 0;  ///< of these, how many carry their size in their arguments
  Bytes collective_bytes;             ///< of those, summed: max(in, out) elements x bytes of the dtype
  Seconds collective_time;            ///< union of the collective kernels
  Seconds exposed;
  double unclassified_share = 0;  ///< time of events of unknown kind / time of all events with a duration
  std::vector<std::string> repaired;
};

[[nodiscard]] TraceSummary summary_of(const Trace&);

}  // namespace stepcast
