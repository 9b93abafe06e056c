#pragma once
// CollectiveRole: what a recorded collective is for in the training step.
//
// The operation does not say it: one and the same all-gather brings parameters for the forward pass (FSDP), activations
// within a layer (sequence parallelism), parameters that were just updated (ZeRO-1), or an accuracy. Whoever changes a
// step on paper has to know: gradients can be exchanged by another plan, activations within a layer cannot, and they
// hold up the layers behind them.
//
//   "33 all-gathers, parameters for the forward pass; 34 reduce-scatters, gradients to their owners"
//
// A collective has one role; `unknown` is a role, too, and is said. Not modelled: collectives that carry several things
// at once (a loss packed behind the gradients), and which layer they belong to.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

enum class CollectiveRole : std::uint8_t {
  gradient_bucket,            ///< sums gradients that every worker of the group gets (DDP), compressed ones too
  gradient_scatter,           ///< sums gradients, each for the worker that owns it (FSDP, ZeRO)
  parameter_gather_forward,   ///< brings sharded parameters before the forward pass uses them
  parameter_gather_backward,  ///< brings them again for the backward pass
  gather_after_update,        ///< brings what the owners have just updated (ZeRO-1)
  within_layer,  ///< in the data path of the model: tensor, sequence and context parallelism, SyncBatchNorm
  pipeline,      ///< sends activations or their gradients to another stage, or receives them
  all_to_all,    ///< brings tokens to their experts or embeddings to their samples
  buffers,       ///< makes buffers alike before the forward pass (DDP)
  metrics,       ///< a few numbers beside the model: losses, norms, accuracies
  barrier,
  unknown,
};
inline constexpr std::size_t collective_roles = 12;
/// "gradient_bucket", "gradient_scatter", ...
[[nodiscard]] std::string_view name_of(CollectiveRole);
/// "gradients", "gradients to their owners", "role unknown", ...: for people.
[[nodiscard]] std::string_view words_of(CollectiveRole);

}  // namespace stepcast
