// Reliable transport on a network that loses packets: what bounded loss is measured against.
//
//   ideal    |[ M ]| U
//   reliable |[ M / (1 - dropped) ][ slowest of all flows waits for its time-out ]| U
//
// Flows that are hashed onto the same path share it; a flow that loses its tail waits for a retransmission time-out,
// which doubles when it happens again (transport.hpp). The step waits for the slowest flow of all machines. Derived
// from the descriptions of DLCP (arXiv 2008.08445) and MLT (NSDI 2024).
//
//   no loss, no stalls, one path: the plan as it was
#include <stepcast/modifiers/shared/bounded_loss.hpp>

namespace stepcast::modifier::reliable {
namespace {

constexpr OptionSpec options[] = {dropped_option,
                                  {.name = "flows",
                                   .kind = OptionKind::count,
                                   .standard = 1,
                                   .low = 1,
                                   .high = 1000,
                                   .summary = "flows that carry one message of one machine"},
                                  {.name = "stall",
                                   .kind = OptionKind::number,
                                   .standard = 0,
                                   .low = 0,
                                   .high = 0.99,
                                   .summary = "probability that a flow waits for a time-out"},
                                  {.name = "timeout",
                                   .kind = OptionKind::duration,
                                   .standard = 0.2,
                                   .low = 0,
                                   .high = 60,
                                   .summary = "first retransmission time-out (Linux: at least 200 ms)"},
                                  {.name = "paths",
                                   .kind = OptionKind::count,
                                   .standard = 1,
                                   .low = 1,
                                   .high = 1000,
                                   .summary = "uplinks among which flows are hashed"},
                                  oversubscription_option};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  Transport transport;
  transport.loss = in.options[named("dropped")];
  transport.flows = static_cast<std::int64_t>(in.options[named("flows")]);
  transport.stall_probability = in.options[named("stall")];
  transport.timeout = Seconds(in.options[named("timeout")]);
  transport.paths = static_cast<std::int64_t>(in.options[named("paths")]);
  transport.oversubscription = in.options[named("oversubscription")];
  return over_reliable_transport(std::move(plan), in, transport);
}

}  // namespace

extern constinit const Modifier record{
    .name = "reliable",
    .title = "reliable transport on a lossy network",
    .summary = "messages wait for the time-outs of their slowest flow, and share hashed paths",
    .reference = "derived: Wang et al., arXiv 2008.08445; MLT, NSDI 2024",
    .fidelity = Fidelity::exact,
    .usual_base = {},
    .options = options,
    .apply = apply,
};

}  // namespace stepcast::modifier::reliable
