#pragma once
// Bounded loss: rewriting a plan so that its messages may lose a share of their bytes on the way.
//
//   reliable   |[ M / (1 - loss) ]|~ repairs ~|          and now and then a time-out
//   bounded    |[ M (1 - share) / (1 - loss) ]|          repairs only of what is lost beyond the share
//
// What the network loses is the cluster's (Cluster::transport), so that every plan pays for it; a plan with bounded
// loss sends less, waits for no time-out, and has its packets sprayed over all paths. Stages inside a machine stay as
// they are. How much may be lost is said for the whole model, by layer (falling from the input to the output), or by
// magnitude (little of the large values, more of the small ones). Invariant: nothing tolerated on a network that loses
// nothing, served in the order of issue: the plan as it was. Not modelled: which values are lost, and what that does
// to convergence.
#include <stepcast/plan/modifier.hpp>

namespace stepcast {

struct LossTolerance {
  double push = 0;        ///< share of a gradient's bytes that need not arrive
  double pull = 0;        ///< the same for what comes back (pull, all-gather)
  double at_input = 1;    ///< factor on both at the layer of the input; by the number of the layer in between
  double at_output = 1;   ///< factor at the layer of the output
  bool by_layer = false;  ///< the network serves messages of input-side layers first, packet by packet
};

/// The plan over a transport that may lose what `tolerance` allows and never times out.
[[nodiscard]] CommPlan over_lossy_transport(CommPlan, const ModifierInput&, const LossTolerance&);

// Options that the transports share.
inline constexpr OptionSpec loss_option{.name = "loss",
                                        .kind = OptionKind::number,
                                        .standard = 0.01,
                                        .low = 0,
                                        .high = 1,
                                        .summary = "share of a gradient that need not arrive"};
inline constexpr OptionSpec bound_option{
    .name = "bound",
    .kind = OptionKind::choice,
    .standard = 0,
    .low = 0,
    .high = 2,
    .summary = "loss for all layers; by layer from 1.1 of it at the input to 0.4; or by magnitude",
    .choices = {"uniform", "graded", "magnitude"}};
inline constexpr OptionSpec large_option{.name = "large",
                                         .kind = OptionKind::number,
                                         .standard = 0.1,
                                         .low = 0,
                                         .high = 1,
                                         .summary = "bound=magnitude: share of the values that count as large"};
inline constexpr OptionSpec of_large_option{.name = "of_large",
                                            .kind = OptionKind::number,
                                            .standard = 0.1,
                                            .low = 0,
                                            .high = 1,
                                            .summary = "bound=magnitude: what large values may lose, over loss"};
inline constexpr OptionSpec network_order_option{
    .name = "order",
    .kind = OptionKind::choice,
    .standard = 1,
    .low = 0,
    .high = 1,
    .summary = "what the network serves first: what was issued first, or input-side layers",
    .choices = {"issue", "layer"}};

/// What small values may lose where it goes by magnitude, over the loss of all [secondary: 1.6 % of 1 %].
inline constexpr double tolerated_of_small_values = 1.6;
/// What the options from `bound` on say; a magnitude's without bound=magnitude are Inapplicable.
struct BoundOptions {
  double bound, large, of_large;
};
[[nodiscard]] Answer<LossTolerance> bounded_by(LossTolerance whole, const BoundOptions&);

}  // namespace stepcast
