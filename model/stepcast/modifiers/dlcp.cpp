// DLCP: a transport that is content when all but a bounded share of a gradient has arrived, and a network that serves
// and drops packets by importance.
//
//   reliable |[ M / (1 - lost) ]~ repairs, time-outs ~| U
//   dlcp     |[ M (1 - loss) / (1 - lost) ]| U
//
// Wang et al., arXiv 2008.08445 (detail secondary). Packets are sprayed over all paths, so that oversubscription is
// all that the fabric costs; loss beyond what is tolerated is repaired in rounds of one round trip. What the network
// loses is the cluster's. The pull of summed gradients tolerates less than the push. Tolerated 1 % of a whole model at
// the same rounds and accuracy; by layer 1.1 % at the input and 0.4 % at the output; by magnitude 1.6 % of small
// values and 0.1 % of large ones. Switches serve input-side layers first, packet by packet, while host cards keep
// their order; a plan has one queue for both, which is served by layer.
//
//   loss = 0, pull = 0, order = issue on a network that loses nothing: the plan as it was
#include <stepcast/modifiers/shared/bounded_loss.hpp>

namespace stepcast::modifier::dlcp {
namespace {

constexpr OptionSpec graded_by_default() {
  OptionSpec bound = bound_option;
  bound.standard = 1;
  return bound;
}
constexpr OptionSpec options[] = {loss_option,
                                  {.name = "pull",
                                   .kind = OptionKind::number,
                                   .standard = 0.004,
                                   .low = 0,
                                   .high = 1,
                                   .summary = "the same for summed gradients on their way back"},
                                  network_order_option,
                                  graded_by_default(),
                                  large_option,
                                  of_large_option};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const LossTolerance whole{.push = in.options[named("loss")],
                            .pull = in.options[named("pull")],
                            .by_layer = in.options[named("order")] == 1};
  const Answer<LossTolerance> tolerance =
      bounded_by(whole, {in.options[named("bound")], in.options[named("large")], in.options[named("of_large")]});
  if (!tolerance) return Inapplicable{tolerance.reason()};
  return over_lossy_transport(std::move(plan), in, *tolerance);
}

}  // namespace

extern constinit const Modifier record{
    .name = "dlcp",
    .title = "DLCP",
    .summary = "messages are complete when all but a bounded share arrived; no time-outs",
    .reference = "Wang et al., arXiv 2008.08445",
    .fidelity = Fidelity::lossy,
    .usual_base = "dist_sync",
    .framework = "its authors' code",
    .options = options,
    .apply = apply,
    .caution =
        "lost gradients read as zero; models tolerate 0.6 to 3.5 % at the same rounds and accuracy, more costs "
        "epochs [secondary]; needs switches that drop and queue by tag",
};

}  // namespace stepcast::modifier::dlcp
