// Messages that leave a machine are counted neighbour by neighbour.
#include <stepcast/cluster/closed_forms.hpp>
#include <stepcast/strategies/shared/neighbours.hpp>
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <algorithm>

namespace stepcast {
namespace {

/// Distance on the ring of the k-th neighbour: 1, -1, 2, -2, ...
std::int64_t distance(std::int64_t k) { return k % 2 == 0 ? k / 2 + 1 : -(k / 2 + 1); }

/// Messages that leave so many devices in a row (a machine, or a unit of a level): one from each of them to each
/// neighbour elsewhere.
double leaving(const Cluster& c, std::int64_t devices, std::int64_t degree) {
  const std::int64_t workers = c.workers();
  std::int64_t count = 0;
  for (std::int64_t k = 0; k < degree; ++k) {
    const std::int64_t step = (distance(k) % workers + workers) % workers;
    // Targets are `devices` consecutive places from `step` on; those among the devices themselves stay.
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
  const double card_rate = network_link(c).bandwidth.value();
  const double of_card = leaving(c, c.devices_per_node, degree) / static_cast<double>(c.nics_per_node);
  NeighbourLoad busiest{of_card, 1};
  const auto also = [&](NeighbourLoad load) {
    if (load.flows() > busiest.flows()) busiest = load;
  };
  if (c.devices_per_node > 1) also({own.messages, card_rate / inside_link(c).bandwidth.value()});
  // Uplinks that hold all cards below up make the messages of each as much longer.
  std::int64_t machines = 1;
  for (const NetworkLevel& level : network_levels(c)) {
    if (machines > 1)
      also({of_card, leaving(c, machines * c.devices_per_node, degree) * card_rate / level.unit.value() / of_card});
    machines *= level.units;
  }
  return busiest;
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
