#pragma once
// Critical path: what one period of a steady timeline is made of, walking back along what each task waited for last
// (internal to the library).
//
// The walk starts a few periods after the one that it tells: what is near the end may merely lag behind (a device
// behind its host), but far enough back the walk is on the cycle that sets the pace. Example: "backward layer4",
// "all_reduce bucket 0", "update". Invariant: the parts add up to no
// more than the window.
#include <stepcast/cluster/collective.hpp>
#include <stepcast/plan/comm_plan.hpp>
#include <stepcast/prediction/breakdown.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace stepcast {

struct CriticalPath {
  Interval window;
  std::vector<std::uint32_t> tasks;  ///< first to last
  Seconds compute, codec, host, input, start_up, transfer, timer, late;
};
/// Iterations that a schedule has to have for the walk.
inline constexpr std::uint32_t iterations_walked = 8;
[[nodiscard]] CriticalPath critical_path_of(const TaskGraph&, const Timeline&, const CommPlan&,
                                            const CommunicationCost&);
/// The largest part, and beside it compute, or the largest of the others: "communication bandwidth (63 % of the
/// critical path; compute 30 %)", "compute (86 % of the critical path; start-up of messages 9 %)"; "compute" alone
/// where the others are too short to see. `late`: what time-outs add to the window.
[[nodiscard]] std::string bound_of(const CriticalPath&, Seconds late = {});

}  // namespace stepcast
