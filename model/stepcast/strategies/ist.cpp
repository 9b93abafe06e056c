// IST: independent subnet training; every worker trains a thin network of its own for J iterations, then parameters go
// to the partitioned server and back, and hidden units are dealt out again.
//
//   compute |  F B U  F B U ... F B U                   | F B U ...       J iterations of the thin network
//   up      |                         [ 3 ][ 2 ][ 1 ]
//   dn      |                              [ 3 ][ 2 ][ 1 ]
//
//   T = t_thin + exchange / J, the exchange being the thin network out and in
//
// The profile is that of the thin network: a plan does not change compute. `whatif subnet` makes it from a trace of the
// whole network. Every device has a network of its own, so that a machine sends that of each of its devices; within one
// machine the server is one of the devices. Not modelled: dealing out the units on the server.
#include <stepcast/strategies/shared/plan_writing.hpp>

namespace stepcast::strategy::ist {
namespace {

constexpr OptionSpec options[] = {{.name = "period",
                                   .kind = OptionKind::count,
                                   .standard = 30,
                                   .low = 1,
                                   .high = 1024,
                                   .summary = "iterations J between two exchanges"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> plan(const StrategyInput& in) {
  const bool remote = in.cluster.nodes > 1;
  const bool shared = !remote || server_directions_shared(in.cluster);
  const double devices = static_cast<double>(in.cluster.devices_per_node);
  CommPlan out = in.blank();
  out.period = static_cast<std::uint32_t>(in.options[named("period")]);
  out.channels.push_back({!remote ? "pcie" : shared ? "net" : "up", Discipline::fifo, Bytes(0)});
  if (!shared) out.channels.push_back({"dn", Discipline::fifo, Bytes(0)});
  for (std::uint32_t t = 0; t < in.profile.tensors.size(); ++t) {
    Transfer sent;
    sent.operation = remote ? Operation::push : Operation::local_reduce_scatter;
    sent.priority = static_cast<std::int32_t>(t);
    sent.dense = in.profile.tensors[t].size;
    sent.size = sent.dense * devices;
    sent.first_tensor = t;
    sent.tensors = 1;
    Transfer received = sent;
    received.operation = remote ? Operation::pull : Operation::local_all_gather;
    received.channel = shared ? 0 : 1;
    received.carries_gradient = false;
    const Node out_going = transfer(out.transfers.size()), back = transfer(out.transfers.size() + 1);
    out.transfers.push_back(sent);
    out.transfers.push_back(received);
    out.edges.push_back({{NodeKind::update, 0, out.period - 1}, out_going});
    out.edges.push_back({out_going, back});
    out.edges.push_back({back, forward_of(0), 1});
  }
  return out;
}

std::string settings(const OptionValues& v) {
  return "BinhangYuan/IST_Release: repartition every " + std::to_string(static_cast<long long>(v[named("period")])) +
         " iterations";
}

}  // namespace

extern constinit const Strategy record{
    .name = "ist",
    .title = "Independent subnet training",
    .summary = "thin networks of their own, exchanged with a partitioned server every J iterations",
    .reference = "Yuan et al., arXiv 1910.02120; BinhangYuan/IST_Release",
    .fidelity = Fidelity::periodic,
    .needs = "servers",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution =
        "the profile has to be that of one worker's thin network (whatif subnet); each worker trains another part "
        "of the model",
    .of_own_network = true,
};

}  // namespace stepcast::strategy::ist
