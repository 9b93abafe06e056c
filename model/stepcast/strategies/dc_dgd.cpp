// DC-DGD: decentralised gradient descent; compressed differences go to the neighbours one after another.
//
//   compute |  F B                      | U | F B ...
//   net     |     [ to 1 ][ to 2 ] ...                   degree messages on one card
//
//   T = t_C + deg (alpha + c / B) + t_U,  c = share * M: linear in the degree and in c; share = 1 is plain gossip
//
// A compressor after it ("dc_dgd+topk") says what c is and what its codec takes: a worker encodes its difference once
// and decodes one from each neighbour. `share` is the plain form, a volume knob without codec time; both at once are
// refused. Neighbours stand on a ring (neighbours.hpp). Where several devices share a machine's cards, their messages
// to other machines queue there. Not modelled: amplifying the differences, which costs no bytes; that the error bound
// asks for a compressor whose noise shrinks with the differences.
#include <stepcast/strategies/shared/neighbours.hpp>
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace stepcast::strategy::dc_dgd {
namespace {

constexpr OptionSpec options[] = {
    degree_option(),
    {.name = "share",
     .kind = OptionKind::number,
     .standard = 1,
     .low = 0,
     .high = 1,
     .summary = "bytes of a compressed difference over those of the dense one; 1: uncompressed gossip"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> plan(const StrategyInput& in) {
  const NeighbourLoad load = neighbour_load(in.cluster, static_cast<std::int64_t>(in.options[named("degree")]));
  CommPlan out = in.blank();
  out.channels.push_back({"net", Discipline::fifo, Bytes(0)});
  if (in.profile.tensors.empty()) return out;
  const auto messages = static_cast<std::size_t>(std::max(1.0, std::ceil(load.messages)));
  const double degree = std::min(in.options[named("degree")], static_cast<double>(in.cluster.workers() - 1));
  out.neighbours = static_cast<std::uint32_t>(std::max(1.0, degree));
  if (in.options[named("share")] < 1) out.coding = Coding::encoded;
  Transfer t;
  t.operation = Operation::send;
  t.dense = in.profile.gradient_size();
  t.size = t.dense * (in.options[named("share")] * load.scale);
  t.tensors = static_cast<std::uint32_t>(in.profile.tensors.size());
  for (std::size_t x = 0; x < messages; ++x) {
    t.carries_gradient = x == 0;  // the others tell more neighbours the same
    out.transfers.push_back(t);
    out.edges.push_back({{NodeKind::backward, in.profile.backward_order.back()}, transfer(x)});
    out.edges.push_back({transfer(x), common_update});
  }
  return out;
}

std::string settings(const OptionValues& v) {
  char text[120];
  std::snprintf(text, sizeof text, "compressed differences (%.3g of the dense bytes) to %.0f neighbours each step",
                v[named("share")], v[named("degree")]);
  return text;
}

}  // namespace

extern constinit const Strategy record{
    .name = "dc_dgd",
    .title = "DC-DGD",
    .summary = "decentralised: compressed differences to the neighbours, one after another",
    .reference = "Zhang, Liu, Zhu, Bentley, INFOCOM 2020, arXiv 1912.03208",
    .fidelity = Fidelity::periodic,
    .needs = "its authors' code",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution =
        "every worker has weights of its own; the source gives convergence in theory and no timings [source: "
        "abstract]",
};

}  // namespace stepcast::strategy::dc_dgd
