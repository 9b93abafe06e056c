// The units of a workload as a placement sees them.
#include <stepcast/placement/placement.hpp>
#include <stepcast/workload/workload.hpp>

namespace stepcast {

Answer<std::vector<PlacedUnit>> placed_units(const Workload& workload, double micro_batch,
                                             std::uint32_t micro_batches) {
  std::vector<PlacedUnit> kinds, units;
  for (std::uint32_t kind = 0; kind < workload.kinds.size(); ++kind) {
    Split split;
    split.micro_batch = micro_batch;
    const Answer<UnitCost> cost = unit_cost(workload, kind, split);
    if (!cost) return Inapplicable{cost.reason()};
    const Bytes kept = cost->kept[static_cast<std::size_t>(Recomputation::none)];
    kinds.push_back({cost->forward, cost->input_gradient + cost->weight_gradient, cost->boundary,
                     Bytes(cost->parameters * workload.bytes_of_state) + micro_batches * kept});
  }
  for (const std::uint32_t kind : workload.units) units.push_back(kinds[kind]);
  return units;
}

}  // namespace stepcast
