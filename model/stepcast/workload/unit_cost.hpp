#pragma once
// Parts of workload.hpp: one unit's cost where its kind was described by its shape, and where it was traced. Not
// public.
#include <stepcast/workload/workload.hpp>

#include <cstdint>

namespace stepcast {

/// The shape of the kind and the device are known: the roofline (described.cpp).
[[nodiscard]] Answer<UnitCost> described_unit_cost(const Workload&, std::uint32_t kind, const Split&);
/// The kind comes from a profile (traced.cpp).
[[nodiscard]] Answer<UnitCost> traced_unit_cost(const Workload&, std::uint32_t kind, const Split&);

}  // namespace stepcast
