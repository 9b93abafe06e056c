#pragma once
// Layout gradients: what a stage's gradients take beyond its backward pass.
//
// Without ZeRO the plan's strategy sends them: the existing prediction of a profile made of the units of the stage's
// last micro-batch, on the data group's cluster, less its compute. With ZeRO they are reduce-scattered in buckets under
// the backward pass (stage 1; 2 and 3 do so in every micro-batch, stages.hpp) and the updated parameters are
// gathered after the update (1 and 2), as the plan's modifiers change that (sharded_messages.hpp). A unit's gradients
// become ready evenly over its backward pass. Units that choose for themselves: those without sharded gradients travel
// by the strategy, or as stage 1's do if none is left undivided, over the group of most of them; what travels over
// another group, or by another collective, counts as the bytes that take as long there. Internal to the layout
// prediction. Not modelled: gathers of updated parameters under the next forward pass.
#include <stepcast/parallelism/stages.hpp>
#include <stepcast/prediction/hot_loop.hpp>

#include <cstdint>
#include <span>

namespace stepcast {

/// Units of one device as indices into the priced units (kinds, or variants), in forward order.
using StageContent = std::vector<std::uint32_t>;

/// Last micro-batch of a stage as a profile: what the plan's strategy sees of it, with the shapes of what a device
/// holds of the tensors. `layers_to`: is given the end of each unit's layers. `again`: what each unit does again;
/// empty: what the layout says of all.
[[nodiscard]] Profile stage_profile(const Workload&, const PricedSplit&, const Layout& resolved,
                                    std::span<const std::uint32_t> units,
                                    std::vector<std::uint32_t>* layers_to = nullptr,
                                    std::span<const Recomputation> again = {});

/// Exposed after the last backward pass. Inapplicable when the plan is, or does not go with ZeRO.
[[nodiscard]] Answer<Seconds> exposed_gradients(const Workload&, const PricedSplit&, const Layout& resolved,
                                                const PlanSpec&, std::span<const std::uint32_t> units, HotLoop&,
                                                std::span<const Recomputation> again = {});

}  // namespace stepcast
