#pragma once
// SyncRecords: the synchronisation records of CUPTI as Kineto writes them, made into the calls of stream_waits.hpp.
//
// A record (category cuda_sync) names the stream that waits, the correlation id of the call that made it wait, and the
// id of the call that recorded the event. Not modelled: calls that poll (cudaEventQuery), which do not wait.
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace stepcast {

enum class SyncKind : std::uint8_t {
  stream_for_event,  ///< work behind it on `stream` waits for the event
  host_for_event,
  host_for_stream,
  host_for_device,
};

/// One record as the file has it; what it did not say is -1.
struct SyncRecord {
  std::int64_t start_ns = 0;
  std::int64_t correlation = -1;    ///< that of the host call that waits or makes the stream wait
  std::int64_t device = -1;         ///< Track::process of the device's streams
  std::int64_t stream = -1;         ///< the stream that waits, or that the host waits for
  std::int64_t waited_stream = -1;  ///< where the event was recorded
  std::int64_t marked_by = -1;      ///< correlation of the call that recorded the event
  std::int64_t rank = -1;           ///< in files that hold several ranks
  SyncKind kind = SyncKind::stream_for_event;
};

/// The dependencies that the records prove. The trace's events and tracks are final.
[[nodiscard]] std::vector<Dependency> dependencies_of(const Trace&, std::span<const SyncRecord>);

}  // namespace stepcast
