// Transfers of a unit are priced on the cluster of their group; each group is priced once.
#include <stepcast/cluster/stragglers.hpp>
#include <stepcast/parallelism/priced_split.hpp>
#include <stepcast/parallelism/sharded_pass.hpp>

#include <algorithm>
#include <map>
#include <numeric>

namespace stepcast {
namespace {

/// Prices collectives of parts of a job's groups, each kind of part once.
class GroupPrices {
 public:
  GroupPrices(PricedGroups& groups, const Layout& layout) : groups_(groups), layout_(layout) {}

  [[nodiscard]] PricedSplit::Group group(std::initializer_list<RankAxis> axes) const {
    return group(std::span(axes.begin(), axes.size()));
  }
  [[nodiscard]] PricedSplit::Group group(std::span<const RankAxis> axes) const {
    return groups_.of(group_shape(groups_.cluster(), layout_.devices(), axes));
  }
  /// `stride` and `members` within the group along `axis`.
  Seconds sum(const std::vector<TensorTransfer>& transfers, RankAxis axis) {
    Seconds total;
    for (const TensorTransfer& t : transfers)
      if (t.members > 1) total += cost(t, axis)(t.operation, t.size) * t.count;
    return total;
  }
  /// What each transfer takes beyond the `compute` beside it, which it slows, at the pace that the links have under
  /// compute.
  Seconds exposed(const std::vector<TensorTransfer>& transfers, RankAxis axis, Seconds compute) {
    Seconds total;
    for (const TensorTransfer& t : transfers) {
      if (t.members <= 1) continue;
      const CommunicationCost& price = cost(t, axis);
      const Seconds beside = price(t.operation, t.size) * price.slow_down(t.operation, t.size);
      total += (std::max(compute_beside(compute, beside, slowed()), beside) - compute) * t.count;
    }
    return total;
  }
  /// What runs beside weight gradients, at the pace that the links have under compute.
  Seconds hidden(const std::vector<InputSum>& sums, RankAxis axis) {
    Seconds total;
    for (const InputSum& s : sums) {
      const TensorTransfer& t = s.transfer;
      if (t.members <= 1) continue;
      const CommunicationCost& price = cost(t, axis);
      const double slow_down = price.slow_down(t.operation, t.size);
      const Seconds alone = price(t.operation, t.size) * t.count, beside = alone * slow_down;
      const Seconds computed = compute_beside(s.weight_gradient, beside, slowed());
      const Seconds elapsed = computed + std::max(Seconds(0), beside - computed) / slow_down;
      total += std::max(Seconds(0), alone + s.weight_gradient - elapsed);
    }
    return total;
  }

 private:
  [[nodiscard]] double slowed() const { return groups_.cluster().contention.compute_under_communication; }
  const CommunicationCost& cost(const TensorTransfer& t, RankAxis axis) {
    const auto key = std::pair(axis.stride * t.stride, t.members);
    auto found = parts_.find(key);
    if (found == parts_.end()) found = parts_.emplace(key, group({{key.first, key.second}})).first;
    return found->second->cost;
  }

  PricedGroups& groups_;
  const Layout& layout_;
  std::map<std::pair<std::int64_t, std::int64_t>, PricedSplit::Group> parts_;
};

/// Every device of the tensor group holds the whole boundary unless sequence parallelism divides it: then each sends
/// its part, and the receivers gather the whole (Megatron-LM's scatter-gather optimisation, Narayanan et al. 2021).
Seconds send_time(const Cluster& cluster, const Layout& l, Bytes boundary, GroupPrices& prices) {
  if (l.pipeline == 1) return {};
  const bool scattered = !l.sequence_parallel && l.scheme->name == "1d" && l.tensor > 1;
  const Link link = stage_link(cluster, l);
  const Bytes part = scattered ? boundary / static_cast<double>(l.tensor) : boundary;
  Seconds time = link.latency + part / link.bandwidth + cluster.message_overhead;
  if (scattered)
    time += prices.sum({{Operation::all_gather, l.tensor, boundary, 1, 1}}, rank_axis(l, Dimension::tensor));
  return time;
}

/// Of the copies of a token that go to its experts the share that is sent where each machine (inside one, each device)
/// with some of them gets one: what `places` are expected to be met when the experts are chosen at random. Inside
/// machines it goes on to their devices beside the network, which takes longer. Not modelled: routers that keep to some
/// groups of experts (DeepSeek-V3's four machines of eight), which send less.
double share_sent_once(const Workload& workload, const Cluster& cluster, const Layout& l) {
  if (l.expert_exchange == ExpertExchange::all_to_all || !workload.shape) return 1;
  const RankAxis axis = expert_axis(l);
  const GroupShape group = group_shape(cluster, l.devices(), {&axis, 1});
  const double places = static_cast<double>(group.nodes > 1 ? group.nodes : group.members);
  const double experts = static_cast<double>(workload.shape->experts), here = experts / places;
  const double chosen = static_cast<double>(workload.shape->experts_per_token);
  double missed = 1;  // the probability that a place has none of them
  for (double i = 0; i < chosen; ++i) missed *= std::max(0.0, (experts - here - i) / (experts - i));
  return std::min(1.0, places * (1 - missed) / chosen);
}

PricedUnit priced_unit(const Cluster& cluster, const Layout& l, UnitCost unit, double slowness, double exchanged,
                       GroupPrices& prices) {
  PricedUnit p;
  p.forward = unit.forward * slowness;
  p.input_gradient = unit.input_gradient * slowness;
  p.weight_gradient = unit.weight_gradient * slowness;
  p.attention = unit.attention * slowness;
  p.operators = unit.operators * slowness;
  for (std::size_t m = 0; m < recomputed_module_count; ++m) p.module_times[m] = unit.modules[m] * slowness;
  p.of_module = unit.of_module;
  const RankAxis tensor = rank_axis(l, Dimension::tensor);
  const RankAxis ring = rank_axis(l, Dimension::context);
  const double blocks = static_cast<double>(l.context);
  const Seconds first_forward = prices.sum(unit.context_first_forward, ring);
  const Seconds first_backward = prices.sum(unit.context_first_backward, ring);
  const Seconds context_forward = prices.exposed(unit.context_forward, ring, p.attention / blocks) + first_forward;
  const Seconds context_backward =
      prices.exposed(unit.context_backward, ring, unit.attention_backward * slowness / blocks) + first_backward;
  for (TensorTransfer& t : unit.expert_transfers) t.size *= exchanged;
  const Seconds expert = prices.sum(unit.expert_transfers, expert_axis(l));
  p.forward_ring = prices.exposed(unit.context_forward, ring, Seconds(0)) + first_forward;
  p.backward_ring = prices.exposed(unit.context_backward, ring, Seconds(0)) + first_backward;
  p.forward_exchanges = {prices.sum(unit.forward_tensor, tensor), context_forward, expert};
  p.backward_exchanges = {prices.sum(unit.backward_tensor, tensor), context_backward, expert};
  // It keeps what reduce-scatters gave (torchtitan's list of what is saved), and gathers inputs again.
  if (p.operators > Seconds(0))
    for (const TensorTransfer& t : unit.forward_tensor)
      if (t.operation == Operation::all_gather) p.gathered_again += prices.sum({t}, tensor);
  if (l.overlap_tensor) p.backward_exchanges.tensor -= prices.hidden(unit.input_sums, tensor);
  p.parameters = unit.parameters;
  p.expert_parameters = unit.expert_parameters;
  p.tied_parameters = unit.tied_parameters;
  p.kept = unit.kept;
  p.checkpointed = unit.checkpointed;
  p.working = unit.working;
  p.boundary = unit.boundary;
  p.send = send_time(cluster, l, unit.boundary, prices);
  return p;
}

}  // namespace

PricedGroup priced(Cluster group) {
  const std::int64_t members = group.workers();
  Answer<CommunicationCost> cost = communication_cost(group);
  if (!cost) cost = communication_cost(group, "ring");
  return {std::move(group), std::move(*cost), members};
}

std::shared_ptr<const PricedGroup> PricedGroups::of(const GroupShape& shape) {
  std::vector<std::int64_t> key{shape.members, shape.per_node, shape.nodes, shape.sharing_network, shape.sharing_torus};
  for (const GroupLevel& level : shape.levels) key.insert(key.end(), {level.units, level.sharing});
  key.push_back(0);  // no level has no units
  for (const TorusSide& side : shape.torus) key.insert(key.end(), {side.units, side.closed ? 1 : 0});
  std::shared_ptr<const PricedGroup>& group = known_[std::move(key)];
  if (!group) group = std::make_shared<const PricedGroup>(priced(group_cluster(*cluster_, shape)));
  return group;
}

PricedSplit priced_split(const Workload& workload, const Cluster& cluster, const Layout& l) {
  PricedGroups groups(cluster);
  return priced_split(workload, groups, l);
}

PricedSplit priced_split(const Workload& workload, PricedGroups& groups, const Layout& l) {
  PricedSplit out;
  const Cluster& cluster = groups.cluster();
  GroupPrices prices(groups, l);
  const TensorGrid grid = *l.scheme->grid(l.tensor, l.depth);
  const Split split{static_cast<double>(l.micro_batch),
                    l.scheme,
                    grid,
                    l.sequence_parallel && l.tensor > 1,
                    l.context,
                    l.expert,
                    l.whole_experts(),
                    l.context_exchange};
  const double slowness = slowest(cluster.stragglers).factor, exchanged = share_sent_once(workload, cluster, l);
  for (std::uint32_t kind = 0; kind < workload.kinds.size(); ++kind) {
    const Answer<UnitCost> cost = unit_cost(workload, kind, split);
    if (!cost) {
      out.units.emplace_back().unsuitable = cost.reason();
      if (out.unsuitable.empty()) out.unsuitable = cost.reason();
      continue;
    }
    out.units.push_back(priced_unit(cluster, l, *cost, slowness, exchanged, prices));
  }
  // Also where some kind cannot be split so: units that choose for themselves ask for the others.
  const RankAxis context = rank_axis(l, Dimension::context), data = rank_axis(l, Dimension::data);
  const bool context_inside = context.stride < data.stride || l.data == 1;
  out.data = context_inside ? prices.group({context, data}) : prices.group({data, context});
  const bool alike = l.expert == 1 && !l.whole_experts();
  out.expert_data = alike ? out.data : prices.group(expert_replica_axes(l));
  const RankAxis stages = rank_axis(l, Dimension::pipeline);
  const RankAxis ends{stages.stride * std::max<std::int64_t>(1, l.pipeline - 1), l.pipeline > 1 ? 2 : 1};
  out.ends = out.mirror = prices.group({ends});
  return out;
}

PricedSplit with_shards(PricedSplit split, PricedGroups& groups, const Layout& l) {
  if (!split.unsuitable.empty()) return split;
  const GroupPrices prices(groups, l);
  const RankAxis context = rank_axis(l, Dimension::context), data = rank_axis(l, Dimension::data);
  const RankAxis part{data.stride, l.shard}, across{data.stride * l.shard, l.data / l.shard};
  split.shard = context.stride < data.stride ? prices.group({context, part}) : prices.group({part, context});
  split.replicas = prices.group({across});
  return split;
}

PricedSplit with_modules(PricedSplit split, std::uint8_t modules) {
  for (PricedUnit& u : split.units)
    for (std::size_t m = 0; m < recomputed_module_count; ++m)
      if ((modules >> m & 1) != 0) {
        u.modules += u.module_times[m];
        u.kept[static_cast<std::size_t>(Recomputation::modules)] -= u.of_module[m];
      }
  return split;
}

std::span<const std::uint32_t> PricedSplit::sequence(const Workload& w) const {
  return variants.empty() ? w.units : variant_of;
}

Layout layout_of_choice(const Layout& l, const UnitChoice& choice) {
  Layout own = l;
  own.unit_choices.clear();
  own.data = l.devices() / choice.tensor;
  own.micro_batch = l.micro_batch * l.data / own.data;
  own.tensor = choice.tensor;
  own.zero = choice.zero;
  own.recomputation = choice.recomputation;
  return own;
}

UnitChange unit_change(const Cluster& cluster, const Layout& from, const Layout& to, Bytes sample) {
  if (from.data == to.data) return {};
  PricedGroups groups(cluster);
  GroupPrices prices(groups, from);
  const std::int64_t common = std::gcd(from.data, to.data);
  const Bytes part = sample * (static_cast<double>(from.micro_batch * from.data) / static_cast<double>(common));
  const auto gathered = [&](const Layout& side) {
    const RankAxis axis{side.tensor, side.data / common};
    return prices.sum({{Operation::all_gather, axis.degree, part, 1, 1}}, axis);
  };
  return {gathered(from), gathered(to)};
}

PricedSplit priced_split(const Workload& workload, const Cluster& cluster, const Layout& l,
                         std::span<const PricedSplit* const> own) {
  PricedSplit out;
  PricedGroups groups(cluster);
  const GroupPrices prices(groups, l);
  out.data = out.expert_data = prices.group({rank_axis(l, Dimension::context), rank_axis(l, Dimension::data)});
  out.ends = out.mirror = prices.group({RankAxis{1, 1}});
  // Variants by kind, choice and the variant before: few, as the layers of a model are alike.
  std::map<std::array<std::uint32_t, 4>, std::uint32_t> known;
  std::uint32_t before = 0, choice_before = 0, unit = 0;
  for (std::uint32_t c = 0; c < l.unit_choices.size(); ++c)
    for (std::uint32_t i = 0; i < l.unit_choices[c].units; ++i, ++unit) {
      const std::uint32_t kind = workload.units[unit];
      const PricedUnit& priced = own[c]->units[kind];
      if (!priced.unsuitable.empty()) {
        out.unsuitable =
            "units=" + text_of(l.unit_choices[c]) + " for '" + workload.kinds[kind].name + "': " + priced.unsuitable;
        return out;
      }
      const std::uint32_t kind_before = unit > 0 ? out.variants[before].kind : kind;
      const auto [found, added] = known.try_emplace({kind, c, kind_before, unit > 0 ? choice_before : c},
                                                    static_cast<std::uint32_t>(out.units.size()));
      if (added) {
        out.units.push_back(priced);
        out.variants.push_back({kind, layout_of_choice(l, l.unit_choices[c]), own[c]});
        if (unit > 0) {
          const UnitVariant& from = out.variants[before];
          const Bytes sample = out.units[before].boundary / static_cast<double>(from.layout.micro_batch);
          const UnitChange change = unit_change(cluster, from.layout, out.variants.back().layout, sample);
          out.units.back().change_forward = change.forward;
          out.units.back().change_backward = change.backward;
        }
      }
      out.variant_of.push_back(found->second);
      before = found->second;
      choice_before = c;
    }
  return out;
}

}  // namespace stepcast
