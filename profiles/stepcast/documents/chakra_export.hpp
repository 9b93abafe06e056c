#pragma once
// Chakra export: a trace as a Chakra execution trace, for ASTRA-sim and whatever else reads them.
//
// Nodes, in the order of their start:
// - Host threads are cut into pieces. At every moment the innermost event of a thread has the time (its self time), so
//   that nothing counts twice and the pieces of a thread add up to the union of its events. A call that waits for the
//   device keeps only the time after the work it waited for had ended, behind a node without duration where it began;
//   the wait emerges from the dependency.
// - Device work is one node a kernel, copy or fill.
// - A collective is one COMM_COLL_NODE (point to point: COMM_SEND_NODE, COMM_RECV_NODE): its kernel or, without a
//   device, the backend's own event, with its full duration. What runs inside a collective of the host is part of it.
// data_deps: program order of a thread, its latest predecessor on other threads where it resumes after a gap, launch ->
// device work, stream order, and the dependencies that the trace recorded; ctrl_deps: program order (part of data_deps,
// because the reference feeder follows those alone). Every dependency leads from an earlier node to a later one.
// Durations are whole microseconds, rounded; attributes start_ns and duration_ns say both exactly. comm_size is what
// goes in, in bytes, as in Chakra's own converter; 0 where the trace does not say. Not modelled: that the host waits
// for a collective of the host (no profiler records it); Python frames.
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct ChakraExport {
  std::string bytes;
  std::size_t nodes = 0, communication_nodes = 0;
  std::int64_t host_ns = 0, device_ns = 0, communication_ns = 0;  ///< sums of node durations
  std::int64_t waiting_ns = 0;                                    ///< how long the host waited for the device; left out
  std::vector<std::string> remarks;                               ///< what the trace did not say
};

/// One step, or with `step` = -1 the whole trace. Throws InputError when there is no such step or nothing to write.
[[nodiscard]] ChakraExport chakra_export_of(const Trace&, std::int64_t step = -1);

}  // namespace stepcast
