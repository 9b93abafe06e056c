#pragma once
// Straggler cause: what a rank did between two collectives while the others already waited in the second (internal to
// ranks.hpp).
//
// The late rank is compared with a punctual one over the same stretch of the program. If the launch was late, the
// stretch of the *host* that took longer is looked for: every moment belongs to the host event that began last, or to a
// gap between two events (a sleep, or work that leaves no event). If the launch was in time, or the host waited for the
// device, the kernels that ran longer are. Not modelled: causes outside the two processes.
#include <stepcast/ranks/ranks.hpp>

#include <span>
#include <string>

namespace stepcast {

struct LatenessCause {
  std::string what;  ///< "no host event after aten::view, before _AlltoAllSingle, in 'forward'"; empty: not found
  Seconds excess;    ///< how much longer than on the punctual rank
};

/// Why `rank` came late to `run.collectives[collective]`.
[[nodiscard]] LatenessCause cause_of_lateness(std::span<const Trace>, const RunOfRanks& run, std::size_t collective,
                                              std::size_t rank);

}  // namespace stepcast
