// MLT: bounded loss like DLCP's, of gradients and of parameters, over parameter servers, rings and sharded training.
//
//   reliable |[ M / (1 - lost) ]~ repairs, time-outs ~| U
//   mlt      |[ M (1 - loss) / (1 - lost) ]| U
//
// NSDI 2024 (detail secondary). A lost gradient reads as zero, a lost parameter keeps its previous value, so that both
// directions tolerate the same. Packets are sprayed; queues serve input-side layers first, packet by packet; dropping
// protects output-side layers and large values. What the network loses is the cluster's.
//
//   loss = 0, order = issue on a network that loses nothing: the plan as it was; effective loss min(lost, loss)
#include <stepcast/modifiers/shared/bounded_loss.hpp>

namespace stepcast::modifier::mlt {
namespace {

constexpr OptionSpec options[] = {loss_option, network_order_option, bound_option, large_option, of_large_option};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const double loss = in.options[named("loss")];
  const Answer<LossTolerance> tolerance =
      bounded_by({.push = loss, .pull = loss, .by_layer = in.options[named("order")] == 1},
                 {in.options[named("bound")], in.options[named("large")], in.options[named("of_large")]});
  if (!tolerance) return Inapplicable{tolerance.reason()};
  return over_lossy_transport(std::move(plan), in, *tolerance);
}

}  // namespace

extern constinit const Modifier record{
    .name = "mlt",
    .title = "MLT",
    .summary = "gradients and parameters may lose a bounded share on the way; no time-outs",
    .reference = "MLT, NSDI 2024",
    .fidelity = Fidelity::lossy,
    .usual_base = "wfbp",
    .framework = "its authors' code",
    .options = options,
    .apply = apply,
    .of_parameters = true,
    .caution = "sixteen CNN and RNN models tolerate 0.7 to 3.3 % at the same rounds and accuracy [secondary]",
};

}  // namespace stepcast::modifier::mlt
