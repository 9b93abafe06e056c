#pragma once
// Traced collectives: the communication that a trace shows, each operation counted once.
//
// One all-reduce leaves up to five events (c10d op, record_param_comms, annotation, kernel, device annotation). The one
// that says most is counted: the kernels if there are any, else the backend's host annotations, else the c10d calls.
// Not modelled: which tensors a coalesced call carried, when the trace does not say.
#include <stepcast/profile.hpp>
#include <stepcast/step_anatomy.hpp>

#include <span>
#include <string>
#include <vector>

namespace stepcast {

struct TracedCollective {
  std::uint32_t event = no_index;
  const CollectiveArguments* arguments = nullptr;  ///< of the event or of what launched it; null: none
  std::string operation;  ///< "allreduce", "reducescatter", ...
  Bytes size;             ///< the full vector; 0 when the trace does not say
  Seconds duration;
  std::int64_t group_size = -1;
};

/// All collectives of the trace, in order.
[[nodiscard]] std::vector<TracedCollective> collectives_of(const TraceIndex&);
/// The collectives that start within the window, in order.
[[nodiscard]] std::vector<TracedCollective> collectives_in(const TraceIndex&, const StepWindow&);
/// Averages over the windows, by operation and group size.
[[nodiscard]] std::vector<ObservedCollective> observed_collectives(const TraceIndex&, std::span<const StepWindow>);

}  // namespace stepcast
