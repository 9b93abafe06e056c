// Lowering of one plan, with arrays that are used once.
#include <stepcast/schedule/lower.hpp>
#include <stepcast/schedule/lowering.hpp>

namespace stepcast {

TaskGraph lowered(const Profile& profile, const CommPlan& plan, const CommunicationCost& cost,
                  const Contention& contention, const LowerOptions& options) {
  TaskGraph graph;
  Lowering().write(ComputeTimes(profile), plan, cost, contention, options, graph);
  return graph;
}

// --- The same structure once more -----------------------------------------------------------------------------------

}  // namespace stepcast
