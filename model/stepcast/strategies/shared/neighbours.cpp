// Messages that leave a machine are counted neighbour by neighbour.
#include <stepcast/cluster/closed_forms.hpp>
#include <stepcast/strategies/shared/neighbours.hpp>
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <algorithm>

namespace stepcast {
namespace {

/// Distance on the ring of the k-th neighbour: 1, -1, 2, -2, ...
std::int64_t distance(std::int64_t k) { return k % 2 == 0 ? k / 2 + 1 : -(k / 2 + 1); }

/// Messages that leave a machine: one from every device to each neighbour elsewhere.
double leaving(const Cluster& c, std::int64_t degree) {
  const std::int64_t workers = c.workers(), devices = c.devices_per_node;
  std::int64_t count = 0;
  for (std::int64_t k = 0; k < degree; ++k) {
    const std::int64_t step = (distance(k) % workers + workers) % workers;
    // Targets are `devices` consecutive places from `step` on; those on the machine itself stay.
    const std::int64_t stay =
        std::max<std::int64_t>(0, devices - step) + std::max<std::int64_t>(0, step + devices - workers);
    count += devices - std::min(devices, stay);
  }
  return static_cast<double>(count);
}

}  // namespace

NeighbourLoad neighbour_load(const Cluster& c, std::int64_t degree) {
  degree = std::min(degree, c.workers() - 1);
  const NeighbourLoad own{static_cast<double>(degree), 1};
  if (c.nodes == 1) return own;  // Operation::send is the link inside, then
  const NeighbourLoad cards{leaving(c, degree) / static_cast<double>(c.nics_per_node), 1};
  if (c.devices_per_node == 1) return cards;
  const NeighbourLoad inside{own.messages, network_link(c).bandwidth.value() / inside_link(c).bandwidth.value()};
  return inside.flows() > cards.flows() ? inside : cards;
}

CommPlan mixed_beside_compute(const StrategyInput& in, double flows) {
  CommPlan out = all_reduced(in, all_in_one(in.profile, in.memory));
  out.edges.clear();
  for (std::size_t x = 0; x < out.transfers.size(); ++x) {
    Transfer& t = out.transfers[x];
    t.operation = Operation::send;
    t.dense = t.size;
    t.size *= flows;
    out.edges.push_back({common_update, transfer(x), 1});
    out.edges.push_back({transfer(x), common_update});
  }
  return out;
}

}  // namespace stepcast
