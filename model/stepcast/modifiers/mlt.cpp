// MLT: bounded loss like DLCP's, of gradients and of parameters, over parameter servers, rings and sharded training.
//
//   reliable |[ M ........ ][ waits for a time-out ]| U
//   mlt      |[ M (1 - loss) ]| U
//
// NSDI 2024 (detail secondary). A lost gradient reads as zero, a lost parameter keeps its previous value, so that both
// directions tolerate the same. Packets are sprayed; queues serve input-side layers first; dropping protects
// output-side layers and large values.
//
//   loss = 0, dropped = 0, order = issue: the plan as it was; effective loss min(dropped, loss)
#include <stepcast/modifiers/shared/bounded_loss.hpp>

namespace stepcast::modifier::mlt {
namespace {

constexpr OptionSpec options[] = {{.name = "loss",
                                   .kind = OptionKind::number,
                                   .standard = 0.01,
                                   .low = 0,
                                   .high = 1,
                                   .summary = "share of a message that need not arrive"},
                                  dropped_option,
                                  oversubscription_option,
                                  network_order_option};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  Transport transport;
  transport.loss = in.options[named("dropped")];
  transport.oversubscription = in.options[named("oversubscription")];
  transport.spraying = true;
  const LossTolerance tolerance{in.options[named("loss")], in.options[named("loss")], false,
                                in.options[named("order")] == 1};
  return over_lossy_transport(std::move(plan), in, transport, tolerance);
}

}  // namespace

extern constinit const Modifier record{
    .name = "mlt",
    .title = "MLT",
    .summary = "gradients and parameters may lose a bounded share on the way; no time-outs",
    .reference = "MLT, NSDI 2024",
    .fidelity = Fidelity::lossy,
    .usual_base = "wfbp",
    .options = options,
    .apply = apply,
    .caution =
        "sixteen CNN and RNN models tolerate 0.7 to 3.3 % at the same rounds and accuracy [secondary]; compare with "
        "'+reliable', not with an ideal network",
};

}  // namespace stepcast::modifier::mlt
