// What a device can choose for each unit, as an operator graph with costs in memory and time.
#include <stepcast/base/text.hpp>
#include <stepcast/search/families.hpp>
#include <stepcast/search/unit_configurations.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

namespace stepcast {
namespace {

// A collective over `degree` devices that lie `stride` apart.
Answer<Seconds> collective_time(const Cluster& cluster, const RankAxis& axis, Operation operation, Bytes size) {
  if (axis.degree == 1) return Seconds(0);
  const Cluster group = group_cluster(cluster, group_shape(cluster, cluster.workers(), std::span(&axis, 1)));
  Answer<CommunicationCost> cost = communication_cost(group);
  if (!cost || !cost->defines(operation)) cost = communication_cost(group, "ring");
  if (!cost) return Inapplicable{cost.reason()};
  return (*cost)(operation, size);
}

// Everything that a unit of one kind costs under one pair of degrees.
struct DegreeCosts {
  std::int64_t tensor = 1, data = 1;
  std::vector<UnitConfiguration> configurations;
  std::vector<CostPoint> costs;
  Bytes boundary;  // that it hands on, of one sample and undivided
};

class UnitCosts {
 public:
  UnitCosts(const Workload& workload, const Cluster& cluster, const LayoutOptions& options, bool overlap)
      : workload_(workload), cluster_(cluster), options_(options), overlap_(overlap) {
    options_.memory.framework = Bytes(0);  // once, not once a unit
    batch_ = global_batch_of(workload, cluster, options);
  }

  Answer<DegreeCosts> of(std::uint32_t kind, std::int64_t tensor, std::int64_t data) const;
  // All of one kind, by tensor degree.
  Answer<std::vector<DegreeCosts>> of(std::uint32_t kind) const;
  Answer<Seconds> change(const DegreeCosts& from, const DegreeCosts& to) const;

 private:
  Answer<Seconds> transfers(const std::vector<TensorTransfer>& all, std::int64_t tensor) const;
  Answer<Seconds> gradients(const UnitCost& cost, const UnitConfiguration& c) const;
  CostPoint cost_of(const UnitCost&, const UnitConfiguration&, Seconds forward, Seconds backward,
                    Seconds gradients) const;

  const Workload& workload_;
  const Cluster& cluster_;
  LayoutOptions options_;
  double batch_ = 1;
  bool overlap_;
};

Answer<Seconds> UnitCosts::transfers(const std::vector<TensorTransfer>& all, std::int64_t tensor) const {
  Seconds sum;
  for (const TensorTransfer& t : all) {
    const Answer<Seconds> one = collective_time(cluster_, {1, tensor}, t.operation, t.size);
    if (!one) return one;
    sum += *one * t.count;
  }
  return sum;
}

// ZeRO: reduce-scatter of gradients and all-gather of weights, once after the update or, with stage 3, once a pass.
Answer<Seconds> UnitCosts::gradients(const UnitCost& cost, const UnitConfiguration& c) const {
  const RankAxis replicas{c.tensor, c.data};
  const Bytes gradient(cost.parameters * workload_.bytes_of_gradient),
      weight(cost.parameters * workload_.bytes_of_weight);
  if (c.zero == 0) return collective_time(cluster_, replicas, Operation::all_reduce, gradient);
  const Answer<Seconds> scatter = collective_time(cluster_, replicas, Operation::reduce_scatter, gradient);
  if (!scatter) return scatter;
  const Answer<Seconds> gather = collective_time(cluster_, replicas, Operation::all_gather, weight);
  if (!gather) return gather;
  return *scatter + *gather * (c.zero == 3 ? 2.0 : 1.0);
}

CostPoint UnitCosts::cost_of(const UnitCost& cost, const UnitConfiguration& c, Seconds forward, Seconds backward,
                             Seconds gradients) const {
  if (c.recomputation == Recomputation::full && cost.checkpointed) backward += forward;
  if (c.recomputation == Recomputation::selective) backward += cost.attention;
  const double share = workload_.parameters() > 0 ? cost.parameters / workload_.parameters() : 0;
  const Seconds update = workload_.update * (share / (c.zero > 0 ? static_cast<double>(c.data) : 1.0));
  Layout layout;
  layout.tensor = c.tensor;
  layout.data = c.data;
  layout.zero = c.zero;
  layout.recomputation = c.recomputation;
  layout.micro_batch = std::llround(batch_ / static_cast<double>(c.data));
  StageMemoryInput stage;
  stage.parameters = cost.parameters;
  stage.expert_parameters = cost.expert_parameters;
  stage.kept_per_micro_batch = cost.kept[static_cast<std::size_t>(c.recomputation)];
  stage.micro_batches_kept = 1;
  const MemoryUse memory = memory_of(workload_, layout, stage, options_.memory);
  const Seconds end = overlap_ ? std::max(backward, gradients) : backward + gradients;
  return {memory.total().value(), (forward + end + update).value(), 0};
}

Answer<DegreeCosts> UnitCosts::of(std::uint32_t kind, std::int64_t tensor, std::int64_t data) const {
  DegreeCosts result{tensor, data, {}, {}, {}};
  Split split;
  split.micro_batch = batch_ / static_cast<double>(data);
  split.scheme = tensor_scheme("1d");
  split.grid = {tensor, tensor, 1};
  const Answer<UnitCost> cost = unit_cost(workload_, kind, split);
  if (!cost) return Inapplicable{cost.reason()};
  const Answer<Seconds> forward = transfers(cost->forward_tensor, tensor),
                        backward = transfers(cost->backward_tensor, tensor);
  if (!forward || !backward) return Inapplicable{(forward ? backward : forward).reason()};
  result.boundary = cost->boundary / split.micro_batch;
  std::vector<UnitConfiguration> all;
  std::vector<CostPoint> points;
  for (int zero = 0; zero <= (data > 1 ? 3 : 0); ++zero)
    for (const Recomputation r : {Recomputation::none, Recomputation::selective, Recomputation::full}) {
      const UnitConfiguration c{tensor, data, zero, r};
      const Answer<Seconds> sent = gradients(*cost, c);
      if (!sent) return Inapplicable{sent.reason()};
      points.push_back(
          cost_of(*cost, c, cost->forward + *forward, cost->input_gradient + cost->weight_gradient + *backward, *sent));
      points.back().trace = static_cast<std::uint32_t>(all.size());
      all.push_back(c);
    }
  for (const CostPoint& p : reduced(std::move(points))) {
    result.configurations.push_back(all[p.trace]);
    result.costs.push_back(p);
  }
  return result;
}

Answer<std::vector<DegreeCosts>> UnitCosts::of(std::uint32_t kind) const {
  std::vector<DegreeCosts> all;
  std::string reason = "nothing divides " + std::to_string(cluster_.workers()) + " devices and a global batch of " +
                       std::to_string(std::llround(batch_));
  const std::int64_t n = cluster_.workers();
  for (std::int64_t t = 1; t <= std::min(n, cluster_.devices_per_node); ++t) {
    if (n % t != 0 || std::fmod(batch_, static_cast<double>(n / t)) != 0) continue;
    Answer<DegreeCosts> costs = of(kind, t, n / t);
    if (costs) all.push_back(std::move(*costs));
    else reason = costs.reason();
  }
  if (all.empty()) return Inapplicable{"no configuration works for '" + workload_.kinds[kind].name + "': " + reason};
  return all;
}

// From d to e parts of the batch: forward, what the consumer's part needs and the producer does not have comes from the
// devices that share it in gcd(d, e) parts; backward the same with the roles exchanged.
Answer<Seconds> UnitCosts::change(const DegreeCosts& from, const DegreeCosts& to) const {
  const std::int64_t common = std::gcd(from.data, to.data);
  const Bytes part = from.boundary * (batch_ / static_cast<double>(common));
  const Answer<Seconds> forward =
      collective_time(cluster_, {from.tensor, from.data / common}, Operation::all_gather, part);
  if (!forward) return forward;
  const Answer<Seconds> backward =
      collective_time(cluster_, {to.tensor, to.data / common}, Operation::all_gather, part);
  if (!backward) return backward;
  return *forward + *backward;
}

}  // namespace

std::string UnitConfiguration::text() const {
  std::string text = "tp=" + std::to_string(tensor) + " dp=" + std::to_string(data);
  if (zero > 0) text += " zero=" + std::to_string(zero);
  if (recomputation != Recomputation::none) text += " recompute=" + std::string(name_of(recomputation));
  return text;
}

Answer<UnitGraph> unit_graph(const Workload& workload, const Cluster& cluster, const LayoutOptions& options,
                             bool overlap_gradients) {
  const UnitCosts costs(workload, cluster, options, overlap_gradients);
  std::vector<std::vector<DegreeCosts>> kinds;
  for (std::uint32_t kind = 0; kind < workload.kinds.size(); ++kind) {
    Answer<std::vector<DegreeCosts>> of_kind = costs.of(kind);
    if (!of_kind) return Inapplicable{of_kind.reason()};
    kinds.push_back(std::move(*of_kind));
  }
  UnitGraph result;
  for (const std::uint32_t kind : workload.units) {
    OperatorGraph::Operator op;
    std::vector<UnitConfiguration> configurations;
    for (const DegreeCosts& d : kinds[kind]) {
      op.configurations.insert(op.configurations.end(), d.costs.begin(), d.costs.end());
      configurations.insert(configurations.end(), d.configurations.begin(), d.configurations.end());
    }
    if (result.of.empty())  // what the framework holds and every step takes, whatever the configuration
      for (CostPoint& p : op.configurations) {
        p.memory += options.memory.framework.value();
        p.time += workload.step_overhead.value();
      }
    result.graph.operators.push_back(std::move(op));
    result.of.push_back(std::move(configurations));
  }
  for (std::uint32_t u = 0; u + 1 < workload.units.size(); ++u) {
    OperatorGraph::Edge edge{u, u + 1, {}};
    for (const DegreeCosts& from : kinds[workload.units[u]]) {
      std::vector<CostPoint> row;
      for (const DegreeCosts& to : kinds[workload.units[u + 1]]) {
        const Answer<Seconds> change = costs.change(from, to);
        if (!change) return Inapplicable{change.reason()};
        row.insert(row.end(), to.costs.size(), CostPoint{0, change->value(), 0});
      }
      for (std::size_t i = 0; i < from.costs.size(); ++i) edge.change.insert(edge.change.end(), row.begin(), row.end());
    }
    result.graph.edges.push_back(std::move(edge));
  }
  return result;
}

}  // namespace stepcast
