// DLCP: a transport that is content when all but a bounded share of a gradient has arrived, and a network that serves
// and drops packets by importance.
//
//   reliable |[ M ........ ][ waits for a time-out ]| U
//   dlcp     |[ M (1 - loss) ]| U
//
// Wang et al., arXiv 2008.08445 (detail secondary). Packets are sprayed over all paths, so that `oversubscription` is
// all that the fabric costs; loss beyond what is tolerated is repaired in rounds of one round trip. The pull of summed
// gradients tolerates less than the push. Tolerated 1 % of a whole model at the same rounds and accuracy; by layer 1.1
// % at the input and 0.4 % at the output. Switches serve input-side layers first while host cards keep their order; a
// plan has one queue for both, which is served by layer, message by message.
//
//   loss = 0, dropped = 0, order = issue: the plan as it was; time is not increasing in loss, nor less with dropped
#include <stepcast/modifiers/shared/bounded_loss.hpp>

namespace stepcast::modifier::dlcp {
namespace {

constexpr OptionSpec options[] = {
    {.name = "loss",
     .kind = OptionKind::number,
     .standard = 0.01,
     .low = 0,
     .high = 1,
     .summary = "share of a gradient that need not arrive"},
    {.name = "pull",
     .kind = OptionKind::number,
     .standard = 0.004,
     .low = 0,
     .high = 1,
     .summary = "the same for summed gradients on their way back"},
    dropped_option,
    oversubscription_option,
    network_order_option,
    {.name = "bound",
     .kind = OptionKind::choice,
     .standard = 1,
     .low = 0,
     .high = 1,
     .summary = "the same for all layers, or from 1.1 of it at the input to 0.4 at the output",
     .choices = {"uniform", "graded"}}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  Transport transport;
  transport.loss = in.options[named("dropped")];
  transport.oversubscription = in.options[named("oversubscription")];
  transport.spraying = true;
  const LossTolerance tolerance{in.options[named("loss")], in.options[named("pull")], in.options[named("bound")] == 1,
                                in.options[named("order")] == 1};
  return over_lossy_transport(std::move(plan), in, transport, tolerance);
}

}  // namespace

extern constinit const Modifier record{
    .name = "dlcp",
    .title = "DLCP",
    .summary = "messages are complete when all but a bounded share arrived; no time-outs",
    .reference = "Wang et al., arXiv 2008.08445",
    .fidelity = Fidelity::lossy,
    .usual_base = "wfbp_ps",
    .options = options,
    .apply = apply,
    .caution =
        "lost gradients read as zero; models tolerate 0.6 to 3.5 % at the same rounds and accuracy, more costs "
        "epochs [secondary]; needs switches that drop and queue by tag. Compare with '+reliable', not with an ideal "
        "network",
};

}  // namespace stepcast::modifier::dlcp
