// EASGD: elastic averaging; every tau-th step a worker is drawn towards a centre, and the centre towards the worker.
//
//   compute |  F B U  F B U  F B U  F B U | F B   U  F B U ...       tau = 4
//   dn      |                               [ centre ]
//   up      |                                     [ difference ]     needed before the next exchange only
//
//   x_i <- x_i - eta g(x_i) - alpha (x_i - centre),  centre <- centre + alpha (x_i - centre)   (algorithm 1)
//
//   overlap=yes: the gradient is taken at the old x_i, so that the centre travels beside the passes of that step:
//   T = max(t_C + t_U, [(tau-1) t + max(t_C, Y) + t_U] / tau) while push and pull of M keep pace
//   overlap=no: T = t_C + t_U + Y / tau, Y the pull of the centre (or the all-reduce)
//
// The centre is on servers, one exchange per worker, and nobody waits for the others (asynchronous EASGD); or every
// worker keeps a copy of it that an all-reduce of the differences updates (synchronous EASGD). Every device is a
// worker: a machine exchanges for each of its devices. Not modelled: momentum (EAMSGD), the difference itself, a few
// passes over the weights.
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <cmath>

namespace stepcast::strategy::easgd {
namespace {

enum class Centre : std::uint8_t { servers, all_reduce };
constexpr OptionSpec options[] = {
    {.name = "period",
     .kind = OptionKind::count,
     .standard = 10,
     .low = 1,
     .high = 1024,
     .summary = "steps tau between two exchanges"},
    {.name = "centre",
     .kind = OptionKind::choice,
     .standard = static_cast<double>(Centre::servers),
     .low = 0,
     .high = 1,
     .summary = "where it is: on servers, each worker by itself, or kept by an all-reduce",
     .choices = {"servers", "all_reduce"}},
    {.name = "overlap",
     .kind = OptionKind::choice,
     .standard = 1,
     .low = 0,
     .high = 1,
     .summary = "whether the centre travels beside the step's passes, or before them",
     .choices = {"no", "yes"}}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

bool on_servers(const OptionValues& v) { return v[named("centre")] == static_cast<double>(Centre::servers); }
double lead(const OptionValues& v) { return on_servers(v) ? HUGE_VAL : 0; }

/// Whoever waits for the centre, in the first step of the repetition after.
Node held(const OptionValues& v) { return v[named("overlap")] != 0 ? common_update : forward_of(0); }

CommPlan by_all_reduce(const StrategyInput& in, std::uint32_t period) {
  CommPlan out = all_reduced(in, all_in_one(in.profile, in.memory));
  out.period = period;
  out.edges.clear();
  for (std::size_t x = 0; x < out.transfers.size(); ++x) {
    out.edges.push_back({{NodeKind::update, 0, period - 1}, transfer(x)});
    out.edges.push_back({transfer(x), held(in.options), 1});
  }
  return out;
}

CommPlan over_servers(const StrategyInput& in, std::uint32_t period) {
  const bool remote = in.cluster.nodes > 1;
  const bool shared = !remote || server_directions_shared(in.cluster);
  CommPlan out = in.blank();
  out.period = period;
  out.channels.push_back({!remote ? "pcie" : shared ? "net" : "dn", Discipline::fifo, Bytes(0)});
  if (!shared) out.channels.push_back({"up", Discipline::fifo, Bytes(0)});
  if (in.profile.tensors.empty()) return out;
  Transfer centre;
  centre.operation = remote ? Operation::pull : Operation::local_all_gather;
  centre.dense = in.profile.gradient_size();
  centre.size = centre.dense * static_cast<double>(in.cluster.devices_per_node);
  centre.tensors = static_cast<std::uint32_t>(in.profile.tensors.size());
  centre.carries_gradient = false;
  Transfer difference = centre;
  difference.operation = remote ? Operation::push : Operation::local_reduce_scatter;
  difference.channel = shared ? 0 : 1;
  difference.carries_gradient = true;
  out.transfers = {centre, difference};
  out.edges.push_back({{NodeKind::update, 0, period - 1}, transfer(0)});
  out.edges.push_back({transfer(0), held(in.options), 1});
  // The worker's own step in between: a moment, after which the difference exists.
  out.codecs.push_back({"difference", Seconds(1e-12), Engine::processor, 0, centre.tensors});
  const Node subtracted{NodeKind::codec, 0};
  out.edges.push_back({transfer(0), subtracted});
  out.edges.push_back({subtracted, transfer(1)});
  out.edges.push_back({transfer(1), transfer(0), 1});
  return out;
}

Answer<CommPlan> plan(const StrategyInput& in) {
  const auto period = static_cast<std::uint32_t>(in.options[named("period")]);
  return on_servers(in.options) ? over_servers(in, period) : by_all_reduce(in, period);
}

std::string settings(const OptionValues& v) {
  return std::string(on_servers(v) ? "asynchronous" : "synchronous") + " EASGD: x -= alpha (x - centre) every " +
         std::to_string(static_cast<long long>(v[named("period")])) + " steps, moving rate alpha = 0.9 / workers";
}

}  // namespace

extern constinit const Strategy record{
    .name = "easgd",
    .title = "Elastic averaging SGD",
    .summary = "local updates, drawn towards a common centre every tau-th step",
    .reference = "Zhang, Choromanska, LeCun, NeurIPS 2015, arXiv 1412.6651",
    .fidelity = Fidelity::periodic,
    .needs = "servers",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution =
        "every worker has weights of its own, which the centre holds together only elastically; the result is the "
        "centre's",
    .lead = lead,
};

}  // namespace stepcast::strategy::easgd
