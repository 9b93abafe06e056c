#pragma once
// TraceSummary: what a trace holds, in one line: producer, rank, steps, step time, kernels, collectives, and the share
// of its time that nobody could classify.
//
// All figures are over the whole trace unless they say otherwise; "exposed" is the time in which a collective kernel
// ran on some stream of a device and no other kernel did on that device. Several devices in one trace are summed.
// Not modelled: why; that is for profiles and replays.
#include <stepcast/base/units.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/trace/trace.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct TraceSummary {
  std::string source, format, producer, device;
  std::int64_t rank = -1, world_size = -1;
  std::size_t steps = 0;  ///< annotated steps
  std::int64_t first_step = -1, last_step = -1;
  std::string step_annotation;  ///< how the steps are annotated: "ProfilerStep#N", "step N"; empty: not at all
  Seconds host_step;            ///< median duration of the annotations; 0: none
  Seconds device_period;        ///< median start-to-start time of kernels that occur once a step; 0: none
  Seconds step;                 ///< the iteration time, by host or by device (profile_of.hpp); 0: cannot be told
  Seconds span;                 ///< first start to last end
  std::size_t events = 0, kernels = 0;
  std::size_t collectives = 0;  ///< collective kernels; without a device, collective operations of the host
  /// By the source of their bytes (BytesSource): how many, and their bytes, max(in, out) elements x bytes of the dtype.
  std::array<std::size_t, bytes_sources> collectives_by_source{};
  std::array<Bytes, bytes_sources> bytes_by_source{};
  Seconds collective_time;               ///< union of the collectives
  Seconds exposed;                       ///< 0 without a device; -1: only the host shows the collectives of a device
  double unclassified_share = 0;         ///< time of events of unknown kind / time of all events with a duration
  std::size_t unclassified_kernels = 0;  ///< kernels of which no rule says what they do
  Seconds kernel_time, unclassified_kernel_time;  ///< summed durations
};

[[nodiscard]] TraceSummary summary_of(const Trace&);
/// Time of the events whose kind nobody knows / time of all events with a duration.
[[nodiscard]] double unclassified_share(const Trace&);

}  // namespace stepcast
