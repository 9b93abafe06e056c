// Transfers of a unit are priced on the cluster of their group; each group is priced once.
#include <stepcast/cluster/stragglers.hpp>
#include <stepcast/parallelism/priced_split.hpp>
#include <stepcast/parallelism/unit_messages.hpp>
#include <stepcast/roofline/unit_roofline.hpp>

#include <boost/functional/hash.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace stepcast {
namespace {

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

/// The same unit that sends this share of its tokens' copies.
UnitCost sending(double share, UnitCost cost) {
  for (TensorTransfer& t : cost.expert_transfers) t.size *= share;
  return cost;
}

/// Without sharding, and in DeepSpeed's stage 1, weights and gradients are copied whole (weight_copies). FSDP casts its
/// shard, sends it, and copies the units' weights out of what was gathered, for either pass (stage 3), once (2), or
/// once a step (1); gradients go in the type that is sent into the buffer that is scattered (chunk_cat), or, in stage
/// 1, are added to those of the micro-batches before, in that type. A device alone sends to itself, which are copies,
/// too. Source: PyTorch 2.11, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py.
///
/// DeepSpeed's stages 2 and 3 copy gradients into its buckets. Source: DeepSpeed 0.8 to 0.14, stage_1_and_2.py and
/// stage3.py of runtime/zero. Not modelled: that its BF16_Optimizer, which is stage 1 with four-byte gradients,
/// sums all of them up on every device (all-reduce) after the last pass.
void add_copies(const Workload& workload, const Layout& l, double slowness, PricedUnit& p) {
  if (!copies_differ_by_stage(workload) || p.parameters == 0) return;
  const double weight = workload.bytes_of_weight, gradient = workload.bytes_of_gradient;
  // Of bytes that a dense parameter and one of an expert take: those are shared by groups of their own.
  const auto bytes = [&](const auto& of) {
    return Bytes((p.parameters - p.expert_parameters) * of(l.sharding()) +
                 p.expert_parameters * of(l.expert_sharding()));
  };
  const auto moved = [&](const auto& of) {
    const Bytes all = bytes(of);
    return all > Bytes(0) ? memory_time(*workload.device, all) * slowness : Seconds(0);
  };
  const auto widened = [&](double of) {
    const Bytes all(p.parameters * of);
    return all > Bytes(0) ? widening_time(*workload.device, all) * slowness : Seconds(0);
  };
  const WeightCopies whole = weight_copies(*workload.device, workload.shape->kernels, p.parameters, weight, gradient);
  const Seconds forward = whole.forward * slowness, backward = whole.backward * slowness;
  const double copied = weight + gradient;
  const Seconds copy = gradient > weight ? widened(copied) : moved([&](std::int64_t) { return copied; });
  if (!has_copies(workload)) {
    p.copies_backward = {backward, backward, copy, copy};
    return;
  }
  const double cast = weight < 4 ? 4 + weight : 0;
  const auto shared = [](double bytes, std::int64_t sharing) { return bytes / static_cast<double>(sharing); };
  // A second copy for the backward pass is written behind the forward pass, as it is sent.
  const double second = l.backward_shard > 0 ? shared(2 * weight, l.backward_shard * l.context) : 0;
  const Seconds gather = moved([&](std::int64_t sharing) { return shared(cast, sharing) + second + 2 * weight; });
  const Seconds again = l.backward_shard > 0 ? moved([&](std::int64_t) { return 2 * weight; }) : gather;
  const Seconds scatter = copy + moved([&](std::int64_t sharing) { return sharing == 1 ? 2 * gradient : 0; });
  const double summed = weight + 2 * gradient;
  const Seconds added = gradient > weight ? widened(summed) : moved([&](std::int64_t) { return summed; });
  p.copies_once = gather;
  p.copies_forward = {forward, Seconds(0), gather, gather};
  p.copies_backward = {backward, added, scatter, again + scatter};
}

/// What DeepSpeed's kernels read and write (DeepSpeed 0.19: CUDAQuantizer of zero/partition_parameters.py,
/// all_to_all_quant_reduce of comm/coalesced_collectives.py): a shard is cast to f16 and encoded, what is gathered
/// decoded and cast; gradients are encoded whole, added up in codes within the machine, decoded and added up across.
void add_quantizing(const Workload& w, const Layout& l, std::uint32_t kind, double slowness, const PricedSplit& split,
                    PricedUnit& p) {
  if (p.parameters == 0) return;
  constexpr double half = 2, code = 1, small_code = 0.5;
  const auto moved = [&](double bytes) { return memory_time(*w.device, Bytes(p.parameters * bytes)) * slowness; };
  const double cast = w.dtype == DataType::f16 ? 0 : w.bytes_of_weight + half;
  const auto weights = [&](std::int64_t sharing) {
    return moved((cast + half + code) / static_cast<double>(sharing) + code + half + cast);
  };
  if (l.quantized_weights) {
    p.quantizing.gather = weights(l.sharding());
    p.quantizing.gather_again = split.backward ? weights(split.backward->members) : p.quantizing.gather;
  }
  if (!split.machine) return;
  const double within = static_cast<double>(split.machine->members), all = static_cast<double>(split.data->members);
  p.quantizing.reduce = moved(w.bytes_of_gradient + 2 * small_code + (2 * small_code + 2 * half) / within + half / all);
  const auto add = [&](const std::vector<std::int64_t>& shape) {
    if (shape.size() < 2) return;  // those are summed as they are
    ++p.quantizing.matrices;
    p.quantizing.scales += static_cast<double>(std::max(shape[0], shape[1]));
  };
  if (w.kinds[kind].shape)
    for (const ParameterShape& t : w.kinds[kind].shape->parameters) add(t.shape);
  else
    for (const TracedTensor& t : w.kinds[kind].inside.tensors) add(t.shape);
}

/// What PyTorch's fully_shard takes of the host around a unit's passes, Python for the most part: hooks, views of every
/// tensor, the calls that gather and scatter. Source: PyTorch 2.11, units of 2 to 24 tensors in a process group of
/// eight that sends nothing, on an EPYC core, with weights in f32 and bf16 (validation/lab/sharding_hooks.py): sittings
/// differ by a third either way. Other hosts are slower or faster, which this does not know.
struct ShardingHooks {
  Seconds forward, backward;
};
ShardingHooks sharding_hooks(double tensors) {
  return {Seconds(0.5e-3 + 40e-6 * tensors), Seconds(0.6e-3 + 60e-6 * tensors)};
}

/// The blocks are sharded one by one, what is around them together.
void add_issue(const Workload& w, std::uint32_t kind, const UnitCost& unit, double slowness, PricedUnit& p) {
  if (w.on_host) return;
  p.forward_issue = unit.forward_issue * slowness;
  p.backward_issue = unit.backward_issue * slowness;
  p.waits_forward = unit.waits_forward;
  if (w.sharded || (w.shape && (!has_copies(w) || w.shape->launch == KernelLaunch::graphs))) return;
  const auto times = [&](std::uint32_t k) { return std::count(w.units.begin(), w.units.end(), k); };
  const auto tensors_of = [&](std::uint32_t k) {
    const UnitKind& of = w.kinds[k];
    return static_cast<double>(of.shape ? of.shape->parameters.size() : of.inside.tensors.size());
  };
  const double tensors = tensors_of(kind);
  if (tensors == 0) return;
  double shared_by = 1;
  if (times(kind) == 1)
    for (std::uint32_t k = 0; k < w.kinds.size(); ++k) shared_by += k != kind && times(k) == 1 && tensors_of(k) > 0;
  const ShardingHooks hooks = sharding_hooks(tensors * shared_by);
  p.forward_hooks = hooks.forward * (slowness / shared_by);
  p.backward_hooks = hooks.backward * (slowness / shared_by);
}

/// Why the parts of products cannot go from device to device; empty: they can, or the layout has none. Programs write
/// them into one another's memory over links inside a machine; those of a torus are of that kind everywhere.
std::string reach_flaw(const Cluster& cluster, const Layout& l) {
  if (l.overlap_tensor != TensorOverlap::products || l.tensor == 1) return {};
  const GroupShape group = group_shape(cluster, l, Dimension::tensor);
  if (reach_each_other(group)) return {};
  return "overlap_tp=products sends between devices that share a machine, and those of tp " + std::to_string(l.tensor) +
         " are on " + std::to_string(group.nodes);
}

/// What a forward and a backward pass through a block take less beside each other than one after the other. Tokens go
/// to experts and back in either pass; what is sent in one of them runs beside what the other one computes, and the
/// weight gradients of the experts hold up no tokens (--delay-wgrad-compute):
///
///     compute   attention F | experts B | their weights B, experts F | attention B
///     tokens    back B      | there F   | there B                    | back F
///
/// Source: core/pipeline_parallel/combined_1f1b.py and core/models/common/model_chunk_schedule_plan.py of Megatron-LM.
/// Not modelled: tensor-parallel messages beside tokens; that the blocks of both passes may be of other kinds.
Seconds saved_beside(const UnitCost& unit, double slowness, RankAxis axis, GroupPrices& prices) {
  Seconds saved;
  for (TensorTransfer t : unit.expert_transfers) {
    const double pairs = std::exchange(t.count, 1) / 2;  // there and back
    const Seconds alone = prices.once(t, axis), sent = prices.beside(t, axis, Seconds(0)).transfer;
    Seconds computed;
    const auto beside = [&](Seconds compute) {
      computed += compute * slowness;
      return prices.beside(t, axis, compute * slowness).compute;
    };
    const Seconds experts = unit.experts_forward, returned = unit.experts_input_gradient;
    const Seconds weights = unit.experts_weight_gradient;
    const Seconds attention = beside(std::max(Seconds(0), unit.forward - experts));
    const Seconds experts_back = beside(returned), weights_back = beside(weights), experts_on = beside(experts);
    const Seconds attention_back =
        beside(std::max(Seconds(0), unit.input_gradient + unit.weight_gradient - returned - weights));
    const Seconds there =
        std::max(std::max(sent, experts_back) + sent, std::max(experts_back + weights_back, sent) + experts_on);
    const Seconds both = std::max(sent, attention) + there + std::max(sent, attention_back);
    saved += std::max(Seconds(0), computed + 4 * alone - both) * pairs;
  }
  return saved;
}

PricedUnit priced_unit(const Cluster& cluster, const Layout& l, const UnitCost& unit, double slowness,
                       GroupPrices& prices) {
  PricedUnit p;
  p.forward = unit.forward * slowness;
  p.input_gradient = unit.input_gradient * slowness;
  p.weight_gradient = unit.weight_gradient * slowness;
  p.attention = unit.attention * slowness;
  p.operators = unit.operators * slowness;
  p.unread = unit.unread * slowness;
  p.unread_tensor = prices.sum(unit.unread_tensor, rank_axis(l, Dimension::tensor));
  p.forward_idle = unit.forward_idle * slowness;
  p.backward_idle = unit.backward_idle * slowness;
  p.paced = unit.paced * slowness;
  for (std::size_t m = 0; m < recomputed_module_count; ++m) p.module_times[m] = unit.modules[m] * slowness;
  p.of_module = unit.of_module;
  const double blocks = static_cast<double>(l.context);
  p.checkpointed = unit.checkpointed;
  for (const bool backward : {false, true}) {
    UnitExchanges& exchanges = backward ? p.backward_exchanges : p.forward_exchanges;
    Seconds& alone = backward ? p.backward_ring : p.forward_ring;
    const Seconds block = (backward ? unit.attention_backward * slowness : p.attention) / blocks;
    Seconds first;
    for_each_message(unit, l, backward, [&](MessageRole role, const std::vector<TensorTransfer>& sent, RankAxis axis) {
      switch (role) {
        case MessageRole::context:
          first = prices.sum(sent, axis);
          break;
        case MessageRole::ring:
          exchanges.context = prices.exposed(sent, axis, block) + first;
          alone = prices.exposed(sent, axis, Seconds(0)) + first;
          break;
        case MessageRole::tensor:
          exchanges.tensor = prices.sum(sent, axis);
          if (backward && l.overlap_tensor != TensorOverlap::nothing)
            for (const InputSum& s : unit.input_sums)
              exchanges.tensor -= prices.hidden(slowed(s, slowness), axis).saved(s.weight_gradient * slowness);
          for (const PipelinedProduct& product : backward ? unit.backward_products : unit.forward_products) {
            const Seconds saved = prices.pipelined(slowed(product, slowness), axis).saved(product.whole * slowness);
            exchanges.tensor -= saved;
            if (product.unread) p.unread_tensor -= saved;
          }
          if (backward) break;
          for (const TensorTransfer& t : sent)
            if (is_sent_again(Recomputation::operators, p, role, t.operation))
              p.gathered_again += prices.sum({t}, axis);
          break;
        case MessageRole::expert:
          exchanges.expert = prices.sum(sent, axis);
          break;
      }
    });
  }
  if (l.overlap_expert) p.beside_forward = p.beside_backward = saved_beside(unit, slowness, expert_axis(l), prices) / 2;
  p.parameters = unit.parameters;
  p.expert_parameters = unit.expert_parameters;
  p.tied_parameters = unit.tied_parameters;
  p.kept = unit.kept;
  p.working = unit.working;
  p.gradient_at_work = unit.gradient_at_work;
  p.standing_gradient = unit.standing_gradient;
  p.boundary = unit.boundary;
  p.send = stage_send(cluster, l, unit.boundary, prices).sum();
  return p;
}

}  // namespace

PricedUnit on_device(PricedUnit u) {
  const auto works = [](Seconds elapsed, Seconds idle) {
    return elapsed > Seconds(0) ? (elapsed - idle) / elapsed : 1;
  };
  const double forward = works(u.forward, u.forward_idle);
  const double backward = works(u.input_gradient + u.weight_gradient, u.backward_idle);
  for (Seconds* part : {&u.forward, &u.attention, &u.operators, &u.unread, &u.modules}) *part = *part * forward;
  for (Seconds* part : {&u.input_gradient, &u.weight_gradient}) *part = *part * backward;
  u.forward_idle = u.backward_idle = Seconds(0);
  return u;
}

// Every device of the tensor group holds the whole boundary unless sequence parallelism divides it: then each sends its
// part, and the receivers gather the whole (Megatron-LM's scatter-gather optimisation, Narayanan et al. 2021).
StageSend stage_send(const Cluster& cluster, const Layout& l, Bytes boundary, GroupPrices& prices) {
  if (l.pipeline == 1) return {};
  const bool scattered = !l.sequence_parallel && l.scheme->name == "1d" && l.tensor > 1;
  const Link link = stage_link(cluster, l);
  StageSend send;
  send.part = scattered ? boundary / static_cast<double>(l.tensor) : boundary;
  send.link = link.latency + send.part / link.bandwidth + cluster.message_overhead;
  if (!scattered) return send;
  send.gathered = boundary;
  send.gather = prices.sum({{Operation::all_gather, l.tensor, boundary, 1, 1}}, rank_axis(l, Dimension::tensor));
  return send;
}

std::vector<RankAxis> data_axes(const Layout& l) {
  const RankAxis context = rank_axis(l, Dimension::context), data = rank_axis(l, Dimension::data);
  const bool context_inside = context.stride < data.stride || l.data == 1;
  return context_inside ? std::vector{context, data} : std::vector{data, context};
}

std::vector<RankAxis> expert_data_axes(const Layout& l) {
  return l.expert == 1 && !l.whole_experts() ? data_axes(l) : expert_replica_axes(l);
}

std::vector<RankAxis> part_axes(const Layout& l, std::int64_t members) {
  const RankAxis context = rank_axis(l, Dimension::context), data = rank_axis(l, Dimension::data);
  const RankAxis part{data.stride, members};
  return context.stride < data.stride ? std::vector{context, part} : std::vector{part, context};
}

RankAxis across_parts(const Layout& l, std::int64_t part) {
  return {rank_axis(l, Dimension::data).stride * part, l.data / part};
}

Split split_of(const Layout& l) {
  return {static_cast<double>(l.micro_batch),
          l.scheme,
          *l.scheme->grid(l.tensor, l.depth),
          l.sequence_parallel && l.tensor > 1,
          l.context,
          l.expert,
          l.whole_experts(),
          l.context_exchange,
          l.overlap_tensor == TensorOverlap::products && l.tensor > 1};
}

bool copies_differ_by_stage(const Workload& w) {
  return has_copies(w) || (w.shape && w.shape->kernels == KernelSet::deepspeed);
}

bool has_copies(const Workload& w) { return w.shape && holds_whole_weights(w.shape->kernels); }

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

std::size_t CostedUnits::Hash::operator()(const Split& s) const {
  std::size_t hash = boost::hash_value(s.micro_batch);
  for (const std::int64_t n : {s.grid.devices, s.grid.side, s.grid.depth, s.context, s.expert})
    boost::hash_combine(hash, n);
  boost::hash_combine(hash, s.scheme);
  boost::hash_combine(hash, int(s.context_exchange) << 3 | int{s.sequence_parallel} << 2 | int{s.whole_experts} << 1 |
                                int{s.pipelines_products});
  return hash;
}

std::span<const Answer<UnitCost>> CostedUnits::of(const Split& split) {
  constexpr std::size_t most = 20'000;  // a hundred MB
  if (const auto found = known_.find(split); found != known_.end()) return found->second;
  if (known_.size() >= most) known_.clear();
  std::vector<Answer<UnitCost>>& costs = known_[split];
  for (std::uint32_t kind = 0; kind < workload_->kinds.size(); ++kind)
    costs.push_back(unit_cost(*workload_, kind, split));
  return costs;
}

Answer<UnitCost> unit_cost(const Workload& workload, const Cluster& cluster, const Layout& l, std::uint32_t kind) {
  Answer<UnitCost> cost = unit_cost(workload, kind, split_of(l));
  if (!cost || cost->expert_transfers.empty()) return cost;
  return sending(share_sent_once(workload, cluster, l), *std::move(cost));
}

bool host_waits(const Workload& w, const PricedSplit& split, const Layout& l) {
  if (!w.shape) return false;
  return w.host_waits || l.pipeline > 1 ||
         std::ranges::any_of(split.units, [](const PricedUnit& u) { return u.waits_forward; });
}

PricedSplit priced_split(const Workload& workload, const Cluster& cluster, const Layout& l) {
  PricedGroups groups(cluster);
  CostedUnits units(workload);
  return priced_split(units, groups, l);
}

PricedSplit priced_split(CostedUnits& units, PricedGroups& groups, const Layout& l) {
  PricedSplit out;
  const Workload& workload = units.workload();
  const Cluster& cluster = groups.cluster();
  GroupPrices prices(groups, l);
  const double slowness = slowest(cluster.stragglers).factor;
  const double share = share_sent_once(workload, cluster, l);
  const std::span<const Answer<UnitCost>> costs = units.of(split_of(l));
  out.units.reserve(costs.size());
  for (std::uint32_t kind = 0; kind < costs.size(); ++kind) {
    const Answer<UnitCost>& cost = costs[kind];
    if (!cost) {
      out.units.emplace_back().unsuitable = cost.reason();
      if (out.unsuitable.empty()) out.unsuitable = cost.reason();
      continue;
    }
    const bool fewer = share < 1 && !cost->expert_transfers.empty();
    out.units.push_back(fewer ? priced_unit(cluster, l, sending(share, *cost), slowness, prices)
                              : priced_unit(cluster, l, *cost, slowness, prices));
    add_copies(workload, l, slowness, out.units.back());
    add_issue(workload, kind, *cost, slowness, out.units.back());
  }
  if (out.unsuitable.empty() && workload.shape) out.unsuitable = reach_flaw(cluster, l);
  // A host that waits may be late for every unit, which devices wait for in its place.
  if (host_waits(workload, out, l))
    for (PricedUnit& u : out.units) u.forward_idle = u.backward_idle = Seconds(0);
  // Also where some kind cannot be split so: units that choose for themselves ask for the others.
  out.data = prices.group(data_axes(l));
  const bool alike = l.expert == 1 && !l.whole_experts();
  out.expert_data = alike ? out.data : prices.group(expert_data_axes(l));
  const RankAxis stages = rank_axis(l, Dimension::pipeline);
  const RankAxis ends{stages.stride * std::max<std::int64_t>(1, l.pipeline - 1), l.pipeline > 1 ? 2 : 1};
  out.ends = out.mirror = prices.group({&ends, 1});
  return out;
}

PricedSplit with_accumulation(const Workload& w, PricedSplit split, const Cluster& cluster,
                              std::int64_t micro_batches) {
  const AccumulatedGradient added = w.shape ? accumulated_gradient(*w.shape) : AccumulatedGradient{};
  const double times = added.all_but_first ? 1 - 1 / static_cast<double>(micro_batches) : 1;
  if (!(added.bytes * times > 0) || !w.device) return split;
  const double slowness = slowest(cluster.stragglers).factor * times;
  for (PricedUnit& u : split.units) {
    if (u.parameters == 0) continue;
    const Seconds time = memory_time(*w.device, Bytes(u.parameters * added.bytes)) * slowness;
    u.copies_backward[0] += time;
    if (has_copies(w)) continue;  // those of fully_shard have it
    for (std::size_t stage = 1; stage < u.copies_backward.size(); ++stage) u.copies_backward[stage] += time;
  }
  return split;
}

PricedSplit with_shards(const Workload& workload, PricedSplit split, PricedGroups& groups, const Layout& l) {
  if (!split.unsuitable.empty()) return split;
  for (PricedUnit& unit : split.units) add_copies(workload, l, slowest(groups.cluster().stragglers).factor, unit);
  const GroupPrices prices(groups, l);
  const RankAxis across = across_parts(l, l.shard);
  split.shard = prices.group(part_axes(l, l.shard));
  split.replicas = prices.group({&across, 1});
  return split;
}

PricedSplit with_zero_plus(const Workload& workload, PricedSplit split, PricedGroups& groups, const Layout& l) {
  if (!split.unsuitable.empty()) return split;
  const double slowness = slowest(groups.cluster().stragglers).factor;
  const GroupPrices prices(groups, l);
  if (l.backward_shard > 0) split.backward = prices.group(part_axes(l, l.backward_shard));
  const std::int64_t part = std::min(l.data, ranks_of_machine(l, groups.cluster()));
  if (l.quantized_gradients && l.data % part != 0) {
    split.unsuitable = "qgz=on sums gradients within machines first, whose " + std::to_string(part) +
                       " data-parallel ranks do not divide dp " + std::to_string(l.data);
    return split;
  }
  if ((l.quantized_weights || l.quantized_gradients) && !workload.device) {
    split.unsuitable = std::string(l.quantized_weights ? "qwz" : "qgz") +
                       (workload.on_host ? "=on encodes on devices, and the host computes this job"
                                         : "=on encodes on the device, whose memory is not known: --device says which "
                                           "it is");
    return split;
  }
  if (sums_codes(l, groups.cluster())) {
    const RankAxis across = across_parts(l, part);
    split.machine = prices.group(part_axes(l, part));
    split.machines = prices.group({&across, 1});
  }
  for (std::uint32_t kind = 0; kind < split.units.size(); ++kind) {
    PricedUnit& unit = split.units[kind];
    if (l.backward_shard > 0) add_copies(workload, l, slowness, unit);
    if (l.quantized_weights || l.quantized_gradients) add_quantizing(workload, l, kind, slowness, split, unit);
  }
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
  out.data = out.expert_data =
      prices.group(std::vector{rank_axis(l, Dimension::context), rank_axis(l, Dimension::data)});
  out.ends = out.mirror = prices.group(std::vector{RankAxis{1, 1}});
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
