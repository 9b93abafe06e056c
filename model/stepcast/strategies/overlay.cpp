// Overlay: decentralised training; every worker mixes its model with those of its neighbours on an overlay network.
//
//   compute |  F B        | U | F B        | U | ...
//   net     |     [ models ]      [ models ]             to and from all neighbours at once
//
//   T = t_C + tau + t_U,  tau = max over links e of M n_e / C_e (n_e flows share link e equally), plus one latency
//
// Where the cluster has an overlay network (overlay/overlay.hpp; --overlay), its edges say who exchanges with whom, and
// C_e / n_e is the least share that any of them gets of the links on its route. Else the overlay is a ring with
// `degree` neighbours a worker (neighbours.hpp), whose busiest link is worked out from the cluster; for any other one
// `flows` can give the n_e of the busiest link between machines. Models are as large as the gradients here. Not
// modelled: how many iterations the mixing takes to converge, which depends on the overlay's spectral gap.
#include <stepcast/strategies/shared/neighbours.hpp>
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <algorithm>

namespace stepcast::strategy::overlay {
namespace {

constexpr OptionSpec options[] = {degree_option(),
                                  {.name = "flows",
                                   .kind = OptionKind::count,
                                   .standard = 0,
                                   .low = 0,
                                   .high = 1e6,
                                   .summary = "models on the busiest link between machines; 0: those of the ring"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

/// Models on the busiest link, for a link that carries what the cluster's do; and the latency of the longest route.
struct Load {
  double flows = 0;
  Seconds latency;
};

Answer<Load> load_of(const StrategyInput& in) {
  const auto degree = static_cast<std::int64_t>(in.options[named("degree")]);
  const double flows = in.options[named("flows")];
  if (!in.cluster.overlay) return Load{flows > 0 ? flows : neighbour_load(in.cluster, degree).flows(), Seconds(0)};
  if (flows > 0 || in.options[named("degree")] != options[named("degree")].standard)
    return Inapplicable{"the cluster's overlay says who exchanges with whom: leave out degree and flows"};
  const OverlayExchange exchange = exchange_over(*in.cluster.overlay);
  // Its links are the overlay's, with what slow links and lost packets leave of the cluster's.
  const CostLine link = in.cost.line(Operation::send);
  const BytesPerSecond healthy = in.cluster.nodes > 1 ? in.cluster.network.bandwidth : in.cluster.inside.bandwidth;
  return Load{healthy / exchange.least, std::max(Seconds(0), exchange.latency - link.start_up)};
}

Answer<CommPlan> plan(const StrategyInput& in) {
  const Answer<Load> load = load_of(in);
  if (!load) return Inapplicable{load.reason()};
  CommPlan out = all_reduced(in, all_in_one(in.profile, in.memory));
  for (Transfer& t : out.transfers) {
    t.operation = Operation::send;
    t.dense = t.size;
    t.size *= load->flows;
    t.overhead = load->latency;
  }
  for (Edge& e : out.edges)
    if (e.from.kind == NodeKind::backward) e.from.index = in.profile.backward_order.back();
  return out;
}

std::string settings(const OptionValues& v) {
  return "x = sum_j W_ij x_j over " + std::to_string(static_cast<long long>(v[named("degree")])) +
         " neighbours before each step (torch.distributed.batch_isend_irecv)";
}

}  // namespace

extern constinit const Strategy record{
    .name = "overlay",
    .title = "Overlay exchange",
    .summary = "decentralised: whole models to and from neighbours on an overlay (--overlay), after the passes",
    .reference = "Huang, Sun, He, arXiv 2408.04705",
    .fidelity = Fidelity::periodic,
    .needs = "a library of exchanges between neighbours",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution =
        "every worker has weights of its own; with few neighbours more iterations are needed, which the step "
        "time does not show",
};

}  // namespace stepcast::strategy::overlay
