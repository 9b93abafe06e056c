#pragma once
// Layout words: why a layout takes as long as it does, why it does not fit, what was assumed. Internal to the layout
// prediction.
#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/parallelism/tables.hpp>

#include <span>
#include <string>
#include <vector>

namespace stepcast {

/// "needs 93.1 GiB of 80 GiB on stage 0: activations 51 GiB, ...; recompute=full keeps fewer activations".
[[nodiscard]] std::string too_large_text(const Layout&, const MemoryUse&, Bytes cap, std::uint32_t stage);
/// "the memory is tight: 94 % of the 80 GiB of a device; ...".
[[nodiscard]] std::string tight_memory_text(Bytes used, Bytes card);
/// The largest part of the step that is not compute, with what could be done about it. `host_paced`: passes take as
/// long as the host issues their kernels.
/// `gradients_inside`: most of what ZeRO in groups of ranks sends stays inside machines.
[[nodiscard]] std::string bound_of(const LayoutPrediction&, const Cluster&, bool host_paced, bool gradients_inside);
[[nodiscard]] std::vector<std::string> assumptions_of(const Workload&, const Cluster&, const Layout&, const PlanSpec&);
/// By which rule units are dealt to stages, and how many they have where it is by time; empty: equal blocks, or as the
/// layout says.
[[nodiscard]] std::string division_text(const Workload&, const Layout&, const LayoutPrediction&);
/// Who chose the micro-batch, and how; empty where the layout says it, or there is one.
[[nodiscard]] std::string micro_batch_text(const LayoutTables&, const EvaluatedLayout&);
/// What context parallelism sends in a step, and how much of it nothing hides; empty: the layout has none.
[[nodiscard]] std::string ring_text(const Layout&, Seconds ring, Seconds exposed);
/// What is with the host, and at which rates it updates and copies; empty: nothing is.
[[nodiscard]] std::vector<std::string> offload_texts(const Layout&, const Cluster&, Bytes of_host);
/// That nobody said how fast the host updates; empty: somebody did, or it does not.
[[nodiscard]] std::string unknown_host_text(const Layout&, const Cluster&);
/// "offload= leaves 3.1 TiB with a machine, whose own memory is 2 TiB"; empty: it has that much, or is not known.
[[nodiscard]] std::string too_much_for_host(Bytes of_host, const Cluster&);
[[nodiscard]] std::vector<std::string> warnings_of(const Workload&, const Cluster&, const Layout&, const PlanSpec&,
                                                   Bytes memory_cap);

}  // namespace stepcast
