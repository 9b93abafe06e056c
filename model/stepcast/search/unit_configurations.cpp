// What a device can choose for each unit, as an operator graph with costs in memory and time.
#include <stepcast/parallelism/stages.hpp>
#include <stepcast/search/families.hpp>
#include <stepcast/search/unit_configurations.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace stepcast {
namespace {

// All units divided alike: what each kind of them costs.
struct DegreeSplit {
  Layout layout;
  PricedSplit split;
};
// Everything that a unit of one kind costs under one pair of degrees.
struct DegreeCosts {
  const DegreeSplit* degrees = nullptr;
  std::vector<UnitChoice> configurations;
  std::vector<CostPoint> costs;
  Bytes boundary;  // that it hands on, of one sample and undivided
};

class UnitCosts {
 public:
  UnitCosts(const Workload& workload, const Cluster& cluster, const LayoutOptions& options, const UnitGraphOptions& how)
      : workload_(workload), cluster_(cluster), options_(options), how_(how) {
    options_.memory.framework = Bytes(0);  // once, not once a unit
    batch_ = global_batch_of(workload, cluster, options);
    const std::int64_t n = cluster.workers();
    for (std::int64_t t = 1; t <= std::min(n, cluster.devices_per_node); ++t) {
      const double share = batch_ / static_cast<double>(n / t * how.micro_batches);
      if (n % t != 0 || !(share >= 1) || share != std::floor(share)) continue;
      Layout layout;
      layout.tensor = t;
      layout.micro_batch = std::llround(share);
      if (Answer<Layout> whole = resolved(layout, n, batch_))
        splits_.push_back({*whole, priced_split(workload, cluster, *whole)});
    }
  }

  // All of one kind, by tensor degree.
  [[nodiscard]] Answer<std::vector<DegreeCosts>> of(std::uint32_t kind) const;
  [[nodiscard]] Seconds change(const DegreeCosts& from, const DegreeCosts& to) const {
    const UnitChange both = unit_change(cluster_, from.degrees->layout, to.degrees->layout, from.boundary);
    return both.forward + both.backward;
  }
  // Samples of a step over those of the traced batch on every device.
  [[nodiscard]] double loaded() const {
    return batch_ / (std::max(1.0, workload_.traced_batch) * static_cast<double>(cluster_.workers()));
  }

 private:
  [[nodiscard]] DegreeCosts of(std::uint32_t kind, const DegreeSplit&) const;
  [[nodiscard]] Seconds passes(const PricedUnit&, const PricedSplit&, const UnitChoice&) const;
  [[nodiscard]] CostPoint cost_of(const PricedUnit&, const DegreeSplit&, const UnitChoice&) const;

  const Workload& workload_;
  const Cluster& cluster_;
  LayoutOptions options_;
  UnitGraphOptions how_;
  double batch_ = 1;
  std::vector<DegreeSplit> splits_;
};

// ZeRO: reduce-scatter of gradients and all-gather of weights, once after the update or, with stages 2 and 3, in the
// passes of every micro-batch.
Seconds UnitCosts::passes(const PricedUnit& u, const PricedSplit& split, const UnitChoice& c) const {
  const auto sent = [&](Operation operation, double bytes) {
    return exchange(*split.data, operation, Bytes((u.parameters - u.expert_parameters) * bytes), false) +
           exchange(*split.expert_data, operation, Bytes(u.expert_parameters * bytes), false);
  };
  const auto beside = [&](Seconds pass, Seconds transfers) {
    return how_.overlap_gradients ? std::max(pass, transfers) : pass + transfers;
  };
  const UnitPasses once = unit_passes(u, c.recomputation, c.zero);
  const double count = static_cast<double>(how_.micro_batches);
  const double weight = workload_.bytes_of_weight, gradient = workload_.bytes_of_gradient;
  if (c.zero < 2) {
    const Seconds last = c.zero == 0 ? beside(once.backward, sent(Operation::all_reduce, gradient))
                                     : beside(once.backward, sent(Operation::reduce_scatter, gradient)) +
                                           sent(Operation::all_gather, weight);
    return once.forward * count + once.backward * (count - 1) + last;
  }
  const Seconds scatter = sent(Operation::reduce_scatter, gradient), gather = sent(Operation::all_gather, weight);
  if (c.zero == 2) return (once.forward + beside(once.backward, scatter)) * count + gather;
  return (beside(once.forward, gather) + beside(once.backward, gather + scatter)) * count;
}

CostPoint UnitCosts::cost_of(const PricedUnit& u, const DegreeSplit& degrees, const UnitChoice& c) const {
  const Layout layout = layout_of_choice(degrees.layout, c);
  const double share = workload_.parameters() > 0 ? u.parameters / workload_.parameters() : 0;
  const Seconds update = workload_.update * (share / (c.zero > 0 ? static_cast<double>(layout.data) : 1.0));
  StageMemoryInput stage;
  stage.parameters = u.parameters;
  stage.expert_parameters = u.expert_parameters;
  stage.kept_per_micro_batch = u.kept[static_cast<std::size_t>(c.recomputation)];
  stage.micro_batches_kept = 1;
  stage.one_pass = false;  // what one unit holds adds to what others do
  const MemoryUse memory = memory_of(workload_, layout, stage, options_.memory);
  return {memory.total().value(), (passes(u, degrees.split, c) + update).value(), 0};
}

DegreeCosts UnitCosts::of(std::uint32_t kind, const DegreeSplit& degrees) const {
  const PricedUnit& u = degrees.split.units[kind];
  DegreeCosts result{&degrees, {}, {}, u.boundary / static_cast<double>(degrees.layout.micro_batch)};
  std::vector<UnitChoice> all;
  std::vector<CostPoint> points;
  for (int zero = 0; zero <= (degrees.layout.data > 1 ? 3 : 0); ++zero)
    for (const Recomputation r : {Recomputation::none, Recomputation::selective, Recomputation::full}) {
      const UnitChoice c{1, degrees.layout.tensor, zero, r};
      points.push_back(cost_of(u, degrees, c));
      points.back().trace = static_cast<std::uint32_t>(all.size());
      all.push_back(c);
    }
  for (const CostPoint& p : how_.dominated ? points : reduced(points)) {
    result.configurations.push_back(all[p.trace]);
    result.costs.push_back(p);
  }
  return result;
}

Answer<std::vector<DegreeCosts>> UnitCosts::of(std::uint32_t kind) const {
  std::vector<DegreeCosts> all;
  std::string reason = "nothing divides " + std::to_string(cluster_.workers()) + " devices and a global batch of " +
                       std::to_string(std::llround(batch_));
  for (const DegreeSplit& degrees : splits_)
    if (const std::string& why = degrees.split.units[kind].unsuitable; why.empty()) all.push_back(of(kind, degrees));
    else reason = why;
  if (all.empty()) return Inapplicable{"no configuration works for '" + workload_.kinds[kind].name + "': " + reason};
  return all;
}

}  // namespace

Answer<UnitGraph> unit_graph(const Workload& workload, const Cluster& cluster, const LayoutOptions& options,
                             const UnitGraphOptions& how) {
  const UnitCosts costs(workload, cluster, options, how);
  std::vector<std::vector<DegreeCosts>> kinds;
  for (std::uint32_t kind = 0; kind < workload.kinds.size(); ++kind) {
    Answer<std::vector<DegreeCosts>> of_kind = costs.of(kind);
    if (!of_kind) return Inapplicable{of_kind.reason()};
    kinds.push_back(std::move(*of_kind));
  }
  UnitGraph result;
  for (const std::uint32_t kind : workload.units) {
    OperatorGraph::Operator op;
    std::vector<UnitChoice> configurations;
    for (const DegreeCosts& d : kinds[kind]) {
      op.configurations.insert(op.configurations.end(), d.costs.begin(), d.costs.end());
      configurations.insert(configurations.end(), d.configurations.begin(), d.configurations.end());
    }
    if (result.of.empty())  // what the framework holds and every step takes, whatever the configuration
      for (CostPoint& p : op.configurations) {
        p.memory += options.memory.framework.value();
        p.time += (workload.step_overhead + workload.input * costs.loaded()).value();
      }
    result.graph.operators.push_back(std::move(op));
    result.of.push_back(std::move(configurations));
  }
  for (std::uint32_t u = 0; u + 1 < workload.units.size(); ++u) {
    OperatorGraph::Edge edge{u, u + 1, {}};
    for (const DegreeCosts& from : kinds[workload.units[u]]) {
      std::vector<CostPoint> row;
      for (const DegreeCosts& to : kinds[workload.units[u + 1]])
        row.insert(row.end(), to.costs.size(), CostPoint{0, costs.change(from, to).value(), 0});
      for (std::size_t i = 0; i < from.costs.size(); ++i) edge.change.insert(edge.change.end(), row.begin(), row.end());
    }
    result.graph.edges.push_back(std::move(edge));
  }
  return result;
}

}  // namespace stepcast
