// What described and traced workloads have in common.
#include <stepcast/workload/unit_cost.hpp>
#include <stepcast/workload/workload.hpp>

namespace stepcast {

double Workload::parameters() const {
  double sum = 0;
  for (const std::uint32_t unit : units) {
    const UnitKind& kind = kinds[unit];
    sum += kind.divided_parameters + kind.other_parameters + kind.expert_parameters;
  }
  return sum;
}

Answer<UnitCost> unit_cost(const Workload& workload, std::uint32_t kind, const Split& split) {
  return workload.kinds[kind].shape ? described_unit_cost(workload, kind, split)
                                    : traced_unit_cost(workload, kind, split);
}

}  // namespace stepcast
