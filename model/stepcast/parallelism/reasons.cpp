// Sentences about a layout: its bound, why it is too large, what was assumed, what to beware of.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/carried.hpp>
#include <stepcast/cluster/stragglers.hpp>
#include <stepcast/layout/process_group.hpp>
#include <stepcast/parallelism/reasons.hpp>
#include <stepcast/parallelism/stage_division.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace stepcast {
namespace {

/// " between machines" or " inside machines": where the collectives of a dimension run.
std::string where(const Cluster& cluster, const Layout& l, Dimension d) {
  Layout widest = l;  // where units choose for themselves, the one with the largest tensor group
  for (const UnitChoice& c : l.unit_choices)
    if (d == Dimension::tensor && c.tensor > widest.tensor) {
      widest.data = l.devices() / c.tensor;
      widest.tensor = c.tensor;
    }
  return group_shape(cluster, widest, d).nodes > 1 ? " between machines" : " inside machines";
}

std::string where_experts(const Cluster& cluster, const Layout& l) {
  const RankAxis axis = expert_axis(l);
  return group_shape(cluster, l.devices(), {&axis, 1}).nodes > 1 ? " between machines" : " inside machines";
}

std::string whole_text(double number) { return std::to_string(std::llround(number)); }

std::string hint_for_memory(const Layout& l, const MemoryUse& m) {
  if (!l.unit_choices.empty()) return "zero3 and full in units= keep less (recommend --unit-frontier shows what fits)";
  if (m.activations > m.parameters + m.gradients + m.optimizer) {
    if (l.recomputation != Recomputation::full) return "recompute=full keeps fewer activations";
    return "a smaller micro-batch or more tensor parallelism with sp=on keeps fewer activations";
  }
  if (l.backward_shard > 0) return "without hpz= there is one copy of the parameters";
  if (l.shard > 0) return "without shard= ZeRO divides the state over all data-parallel ranks";
  if (l.zero < 3 && l.data * l.context > 1)
    return "zero=" + std::to_string(l.zero + 1) + " divides more of the state over the data dimension";
  return "more stages or tensor parallelism divide the parameters";
}

}  // namespace

std::string too_large_text(const Layout& l, const MemoryUse& m, Bytes cap, std::uint32_t stage) {
  std::vector<std::pair<std::string_view, Bytes>> parts = {
      {"parameters", m.parameters},   {"gradients", m.gradients}, {"optimizer state", m.optimizer},
      {"activations", m.activations}, {"buffers", m.buffers},     {"margin", m.margin}};
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text =
      "needs " + text_of(m.total()) + " of " + text_of(cap) + " on stage " + std::to_string(stage) + ": ";
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].second > Bytes(0))
      text += (i == 0 ? "" : ", ") + std::string(parts[i].first) + " " + text_of(parts[i].second);
  return text + "; " + hint_for_memory(l, m);
}

std::string tight_memory_text(Bytes used, Bytes card) {
  return "memory is tight: " + whole_percent(used / card) + " of the " + text_of(card) +
         " of a device; what an allocator, its libraries and the driver take beyond this count decides whether it runs";
}

std::string bound_of(const LayoutPrediction& p, const Cluster& cluster, bool host_paced, bool gradients_inside) {
  const LayoutBreakdown& b = p.breakdown;
  const Layout& l = p.plan.layout;
  const std::pair<std::string, Seconds> parts[] = {
      {"pipeline bubble", b.bubble},
      {"tensor collectives" + where(cluster, l, Dimension::tensor), b.tensor},
      {"context collectives" + where(cluster, l, Dimension::context), b.context},
      {"expert exchanges" + where_experts(cluster, l), b.expert},
      {l.offloads(Offloaded::parameters) ? std::string(LayoutBreakdown::gradients_in_words(l))
       : gradients_inside                ? "gradients inside machines"
                                         : "gradients" + where(cluster, l, Dimension::data),
       b.gradients},
      {std::string(LayoutBreakdown::copies_in_words(l)), b.copies},
      {"sends between stages", b.pipeline},
      {"recomputation", b.recomputation},
      {l.offloads(Offloaded::optimizer) ? "optimizer update by the host" : "optimizer update", b.update},
      {"waiting for input", b.input},
      {"work of every step outside the model", b.other}};
  const auto* largest = std::max_element(std::begin(parts), std::end(parts),
                                         [](const auto& x, const auto& y) { return x.second < y.second; });
  // Beside compute the largest of the others is what can be improved, if there is one.
  const std::string passes = host_paced ? "compute at the pace of the host" : "compute";
  if (!(largest->second >= 0.01 * p.iteration)) return passes;
  const auto part = [&](const std::string& name, Seconds time) {
    return name + " (" + whole_percent(time / p.iteration) + ")";
  };
  const std::string compute = part(passes, b.compute), other = part(largest->first, largest->second);
  return b.compute > largest->second ? compute + ", then " + other : other + ", then " + compute;
}

namespace {

/// What is taken for granted where tensor parallelism hides messages; empty: what Megatron-LM does by default.
std::string overlap_text(KernelSet kernels, TensorOverlap overlap) {
  const std::string hides_nothing = "overlap_tp=" + std::string(name_of(overlap)) + " hides nothing: ";
  if (is_eager(kernels))
    return hides_nothing + "PyTorch waits for each message unless it is compiled (kernels=compiled)";
  if (overlap == TensorOverlap::sums)
    return is_pytorch(kernels) ? hides_nothing + "PyTorch waits for sums of input gradients" : std::string();
  return is_pytorch(kernels)
             ? "overlap_tp=products hides messages of forward passes, all that PyTorch's compiler is known to"
             : "overlap_tp=products: NVIDIA's recipes have it; no step of Megatron-LM with and without it is known, "
               "and users report gains, none, and losses";
}

}  // namespace

std::vector<std::string> assumptions_of(const Workload& w, const Cluster& cluster, const Layout& l,
                                        const PlanSpec& plan) {
  std::vector<std::string> out = w.assumed;
  if (l.pipeline > 1 && l.tensor > 1 && !l.sequence_parallel && l.scheme->name == "1d")
    out.push_back("stages send a part of the activations per device and gather them (Megatron-LM's scatter-gather)");
  if (l.overlap_tensor != TensorOverlap::nothing && l.tensor > 1 && !w.shape)
    out.push_back("overlap_tp hides nothing: a trace does not tell the times of single products and their gradients");
  if (l.overlap_tensor != TensorOverlap::nothing && l.tensor > 1 && w.shape)
    if (std::string text = overlap_text(w.shape->kernels, l.overlap_tensor); !text.empty())
      out.push_back(std::move(text));
  if (l.overlap_expert)
    out.emplace_back(
        "overlap_ep=on: a backward pass and the forward pass behind it go through their blocks together, with weight "
        "gradients of experts apart (--delay-wgrad-compute); blocks of both are taken to be of one kind, and the host "
        "to issue both in time");
  if (!l.unit_choices.empty()) {
    out.push_back("between units of other degrees the activations, and backward their gradients, are gathered");
    const auto differs = [&](const UnitChoice& c) {
      return c.tensor != l.unit_choices.front().tensor || (c.zero > 0) != (l.unit_choices.front().zero > 0);
    };
    if (std::any_of(l.unit_choices.begin(), l.unit_choices.end(), differs))
      out.push_back(
          "gradients of other groups or by reduce-scatter count as the bytes that take as long in the plan's");
  }
  if (l.zero_in_passes() == 1 && !plan.strategy->name.starts_with("ddp"))
    out.push_back("zero=1 sends buckets of " + std::string(plan.strategy->name) +
                  "'s size by reduce-scatter and all-gather");
  if (l.zero >= 2)
    out.push_back("zero=" + std::to_string(l.zero) +
                  " reduces gradients unit by unit in every micro-batch; the plan's buckets play no part");
  if (gathers_updates(l.zero) && l.data * l.context > 1)
    out.emplace_back(
        gathers_ahead(w, l) ? "updated parameters are gathered beside the first forward pass of the next step"
        : l.whole_tensors   ? "each rank updates whole tensors and broadcasts them behind the update, one rank after "
                              "the other"
                            : "all updated parameters are gathered behind the update");
  if (l.shard > 0 && l.whole_tensors)
    out.push_back("the optimizer's state is divided within groups of " + std::to_string(l.shard) +
                  " data-parallel ranks; whole gradients are summed over all");
  else if (l.shard > 0)
    out.push_back("ZeRO divides within groups of " + std::to_string(l.shard) +
                  " data-parallel ranks; shards of gradients are summed across the " +
                  std::to_string(l.data / l.shard) + " groups once a step");
  if (l.backward_shard > 0)
    out.push_back("each " + std::to_string(l.backward_shard) +
                  " data-parallel ranks have a second copy of the parameters, which backward passes gather" +
                  (keeps_second_copy(w) ? ", and all forward passes but the first of a step"
                                        : "; forward passes gather over all ranks"));
  if (l.quantized_weights) out.emplace_back("parameters travel in 8 bits, with DeepSpeed's kernels before and behind");
  if (l.quantized_gradients)
    out.push_back(sums_codes(l, cluster)
                      ? "gradients are summed in 4 bits within machines and then across them, matrix by matrix"
                      : "qgz=on changes nothing inside one machine, where gradients are summed as they are");
  if (l.zero >= 2 && w.on_host && l.overlap_gradients)
    out.push_back("computed on the host: zero=" + std::to_string(l.zero) +
                  " hides nothing, since the thread that computes waits for each of its collectives");
  const bool gathers_plain = std::any_of(plan.modifiers.begin(), plan.modifiers.end(),
                                         [](const ModifierSpec& m) { return !m.modifier->of_parameters; });
  if (l.zero >= 1 && l.data * l.context > 1 && gathers_plain)
    out.push_back("ZeRO's gathered parameters travel as they are: compression is of gradients");
  if (w.input > Seconds(0) || w.input_period > Seconds(0))
    out.push_back("the loaders of a machine are shared by the replicas that it feeds; the first device of each loads");
  return out;
}

std::string division_text(const Workload& w, const Layout& l, const LayoutPrediction& p) {
  if (l.pipeline == 1 || !l.stage_units.empty() || l.stages_by_time || p.stages.size() < 2) return {};
  if (w.shape && p.stage_units == usual_stages(*w.shape, l.pipeline * l.chunks)) {
    switch (stage_rule_of(w.shape->kernels)) {
      case StageRule::equal_blocks:
        return {};
      case StageRule::equal_units:
        return "stages hold equal numbers of units, embedding and head among them, as torchtitan's do; stages= says "
               "otherwise";
      case StageRule::by_parameters:
        return "units are dealt to stages by their parameters, as DeepSpeed does; stages= says otherwise";
    }
  }
  const auto [least, most] = std::ranges::minmax_element(p.stages, {}, &StageSummary::units);
  if (least->units == most->units) return {};
  return "units are dealt to stages by time, " + std::to_string(least->units) + " to " + std::to_string(most->units) +
         " a stage; stages= says otherwise";
}

std::string ring_text(const Layout& l, Seconds ring, Seconds exposed) {
  if (l.context == 1) return {};
  if (l.context_exchange != ContextExchange::ring)
    return std::string(l.context_exchange == ContextExchange::all_gather
                           ? "keys and values of the whole sequence are gathered before attention, and backward again"
                           : "heads are exchanged for parts of the sequence before attention, and back behind it") +
           ": " + text_of(exposed) + " a step; tokens are dealt in zig-zag, which evens out a causal mask";
  return "keys and values, backward with their gradients, go around a ring of " + std::to_string(l.context) +
         " devices in " + text_of(ring) + " a step, " + (exposed > Seconds(0) ? text_of(exposed) : "nothing") +
         " of it beyond the attention beside it; tokens are dealt in zig-zag, which evens out a causal mask";
}

std::string micro_batch_text(const LayoutTables& tables, const EvaluatedLayout& e) {
  const std::string size = "micro-batches of " + counted(e.layout.micro_batch, "sample");
  const std::string samples = whole_text(tables.global_batch / static_cast<double>(e.layout.data));
  switch (e.micro_batch_by) {
    case MicroBatchBy::layout:
      return {};
    case MicroBatchBy::trace:
      return e.micro_batches > 1 ? size + ", as traced; mb= says otherwise" : "";
    case MicroBatchBy::time:
      return size + ", of those that divide the " + samples + " of a replica" +
             (tables.memory_cap() > Bytes(0) ? " and fit" : "") + " the fastest; mb= says otherwise";
    case MicroBatchBy::nearness:
      return size + ", of those that divide the " + samples + " of a replica the nearest to the traced batch of " +
             whole_text(tables.workload.traced_batch) + "; mb= says otherwise";
  }
  return {};
}

std::vector<std::string> offload_texts(const Layout& l, const Cluster& cluster, Bytes of_host) {
  if (l.offloaded == 0) return {};
  const Host host = host_of(cluster);
  const auto said = [](bool by_cluster) { return by_cluster ? "" : ", as is usual"; };
  std::vector<std::string> out;
  out.push_back("in the host's memory: " + text_of(of_host) + " of a machine" +
                (cluster.host.memory > Bytes(0) ? ", which has " + text_of(cluster.host.memory) : ""));
  if (l.offloads(Offloaded::optimizer) && cluster.host.updates > 0)
    out.push_back("the processors of a machine update " + large_number_text(host.updates) + " parameters a second");
  out.push_back("copies between host and device run at " + exact_text_in_best_unit(host.copies) +
                said(cluster.host.copies > BytesPerSecond(0)));
  if (l.offloads(Offloaded::activations))
    out.push_back("activations leave beside the forward pass and return beside the backward pass");
  return out;
}

std::string unknown_host_text(const Layout& l, const Cluster& cluster) {
  if (!l.offloads(Offloaded::optimizer) || cluster.host.updates > 0) return {};
  return "the processors of a machine are taken to update " + large_number_text(usual_host.updates) +
         " parameters a second, and published rates lie up to a factor of " + fixed(host_rate_spread, 1) +
         " about it: \"host\": {\"updates\": ...} in a cluster's file says what was measured";
}

std::string too_much_for_host(Bytes of_host, const Cluster& cluster) {
  if (cluster.host.memory == Bytes(0) || of_host <= cluster.host.memory) return {};
  return "offload= leaves " + text_of(of_host) + " with a machine, whose own memory is " + text_of(cluster.host.memory);
}

std::vector<std::string> warnings_of(const Workload& w, const Cluster& cluster, const Layout& l, const PlanSpec& plan,
                                     Bytes memory_cap) {
  std::vector<std::string> out;
  if (w.rates != RatesOf::steps) out.push_back(unmeasured_text(w.device ? w.device->name : "", w.rates));
  else if (w.relative_error == 0) out.emplace_back("the compute times have no known error: the interval leaves it out");
  if (relative_error_of(cluster) == 0 && cluster.workers() > 1)
    out.push_back("cluster '" + cluster.name +
                  "' has no fitted error: the interval does not include that of its links");
  if (std::string missing = missing_log_text(cluster); !missing.empty()) out.push_back(std::move(missing));
  if (!w.activations_known) out.emplace_back(activations_not_counted);
  if (memory_cap == Bytes(0)) out.push_back("the memory of a device is not known: layouts of any size are accepted");
  if (!cluster.stragglers.none()) out.emplace_back(stragglers_of_layouts);
  if (cluster.nodes > 1 && cluster.transport.stalls > 0)
    out.push_back(
        "time-outs hold up gradients and sharded parameters; messages of tensor parallelism and of pipelines "
        "are taken to have none");
  if (l.pipeline > 1 && delays_weight_gradients(*l.schedule))
    out.push_back(
        std::string(l.schedule->name) +
        " splits backward passes, and what that costs by itself is not modelled: of two published comparisons "
        "zero bubbles were 3 % slower and 11 % faster than interleaved 1F1B");
  if (sums_codes(l, cluster))
    out.emplace_back("qgz=on rounds gradients to 4 bits twice: what the model loses by it is not predicted");
  if (l.quantized_weights)
    out.emplace_back("qwz=on rounds parameters to 8 bits on their way: what the model loses by it is not predicted");
  if (!plan.strategy->caution.empty())
    out.push_back(std::string(plan.strategy->name) + ": " + std::string(plan.strategy->caution));
  const bool halves = w.bytes_of_gradient <= 2;
  for (const ModifierSpec& m : plan.modifiers)
    if (halves && m.modifier->name == "fp16")
      out.emplace_back("fp16 changes nothing: gradients travel in two bytes already");
    else if (!m.modifier->caution.empty())
      out.push_back(std::string(m.modifier->name) + ": " + std::string(m.modifier->caution));
  return out;
}

}  // namespace stepcast
