#pragma once
// Unit cost: what one unit takes under a split (internal to the library; see workload.hpp).
//
// described.cpp: by the roofline, where the kind was described by its shape. traced.cpp: from the traced times.
#include <stepcast/workload/workload.hpp>

#include <cstdint>

namespace stepcast {

/// The shape of the kind and the device are known: the roofline.
[[nodiscard]] Answer<UnitCost> described_unit_cost(const Workload&, std::uint32_t kind, const Split&);
/// The kind comes from a profile.
[[nodiscard]] Answer<UnitCost> traced_unit_cost(const Workload&, std::uint32_t kind, const Split&);

}  // namespace stepcast
