#pragma once
// Bounded loss: rewriting a plan so that its messages travel over a transport that loses packets.
//
// Every message between machines takes as long as transport.hpp says, in place of as long as its bytes take alone: its
// size on the link grows (what is sent again, paths that are shared unevenly) or shrinks (what need not arrive), and
// what is waited for (repair rounds, time-outs of the slowest flow of any machine) is added once a message. Stages
// inside a machine stay as they are. Invariant: no loss, no tolerance, no stalls: the plan as it was. Not modelled:
// pre-emption of a message by a more urgent one (DLCP's switches do that packet by packet).
#include <stepcast/modifiers/shared/transport.hpp>
#include <stepcast/plan/modifier.hpp>

namespace stepcast {

struct LossTolerance {
  double push = 0;        ///< share of a gradient's bytes that need not arrive
  double pull = 0;        ///< the same for what comes back (pull, all-gather)
  bool graded = false;    ///< 1.1 of it at the input and 0.4 at the output of the model, as DLCP's bounds
  bool by_layer = false;  ///< the network serves messages of input-side layers first
};

/// Over a transport that may lose what `tolerance` allows and never times out.
[[nodiscard]] Answer<CommPlan> over_lossy_transport(CommPlan, const ModifierInput&, Transport, const LossTolerance&);
/// Over a reliable transport, whose slowest flow is waited for.
[[nodiscard]] Answer<CommPlan> over_reliable_transport(CommPlan, const ModifierInput&, Transport);

// Options that the transports share.
inline constexpr OptionSpec dropped_option{.name = "dropped",
                                           .kind = OptionKind::number,
                                           .standard = 0,
                                           .low = 0,
                                           .high = 0.9,
                                           .summary = "share of the packets that the network loses"};
inline constexpr OptionSpec oversubscription_option{.name = "oversubscription",
                                                    .kind = OptionKind::number,
                                                    .standard = 1,
                                                    .low = 0.01,
                                                    .high = 1000,
                                                    .summary = "bandwidth of all hosts over that of all uplinks"};
inline constexpr OptionSpec network_order_option{
    .name = "order",
    .kind = OptionKind::choice,
    .standard = 1,
    .low = 0,
    .high = 1,
    .summary = "what the network serves first: what was issued first, or input-side layers",
    .choices = {"issue", "layer"}};

}  // namespace stepcast
