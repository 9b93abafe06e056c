// Sentences about a layout: its bound, why it is too large, what was assumed, what to beware of.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/stragglers.hpp>
#include <stepcast/layout/process_group.hpp>
#include <stepcast/parallelism/reasons.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace stepcast {
namespace {

/// " between machines" or " inside machines": where the collectives of a dimension run.
std::string where(const Cluster& cluster, const Layout& l, Dimension d) {
  return group_shape(cluster, l, d).nodes > 1 ? " between machines" : " inside machines";
}

std::string hint_for_memory(const Layout& l, const MemoryUse& m) {
  if (m.activations > m.parameters + m.gradients + m.optimizer) {
    if (l.recomputation != Recomputation::full) return "recompute=full keeps fewer activations";
    return "a smaller micro-batch or more tensor parallelism with sp=on keeps fewer activations";
  }
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

std::string bound_of(const LayoutPrediction& p, const Cluster& cluster) {
  const LayoutBreakdown& b = p.breakdown;
  const Layout& l = p.plan.layout;
  const std::pair<std::string, Seconds> parts[] = {
      {"pipeline bubble", b.bubble},
      {"tensor collectives" + where(cluster, l, Dimension::tensor), b.tensor},
      {"context collectives" + where(cluster, l, Dimension::context), b.context},
      {"expert exchanges" + where(cluster, l, Dimension::data), b.expert},
      {"gradients" + where(cluster, l, Dimension::data), b.gradients},
      {"sends between stages", b.pipeline},
      {"recomputation", b.recomputation},
      {"optimizer update", b.update},
      {"work of every step outside the model", b.other}};
  const auto* largest = std::max_element(std::begin(parts), std::end(parts),
                                         [](const auto& x, const auto& y) { return x.second < y.second; });
  // Beside compute the largest of the others is what can be improved, if there is one.
  if (!(largest->second >= 0.01 * p.iteration)) return "compute";
  const auto part = [&](const std::string& name, Seconds time) {
    return name + " (" + whole_percent(time / p.iteration) + ")";
  };
  const std::string compute = part("compute", b.compute), other = part(largest->first, largest->second);
  return b.compute > largest->second ? compute + ", then " + other : other + ", then " + compute;
}

std::vector<std::string> assumptions_of(const Workload& w, const Layout& l, const PlanSpec& plan,
                                        std::span<const StageSummary> stages) {
  std::vector<std::string> out = w.assumed;
  if (l.pipeline > 1 && l.tensor > 1 && !l.sequence_parallel && l.scheme->name == "1d")
    out.push_back("stages send a part of the activations per device and gather them (Megatron-LM's scatter-gather)");
  if (l.overlap_tensor && l.tensor > 1 && !w.shape)
    out.push_back("overlap_tp hides nothing: a trace does not tell the weight gradients of single products");
  if (l.zero == 1 && !plan.strategy->name.starts_with("ddp"))
    out.push_back("zero=1 sends buckets of " + std::string(plan.strategy->name) +
                  "'s size by reduce-scatter and all-gather");
  if (l.zero >= 2)
    out.push_back("zero=" + std::to_string(l.zero) +
                  " reduces gradients unit by unit in every micro-batch; the plan's buckets play no part");
  if (l.pipeline > 1 && l.stage_units.empty() && stages.size() > 1) {
    const auto [least, most] = std::minmax_element(stages.begin(), stages.end(),
                                                   [](const auto& a, const auto& b) { return a.units < b.units; });
    if (least->units != most->units)
      out.push_back("units are dealt to stages by time, " + std::to_string(least->units) + " to " +
                    std::to_string(most->units) + " a stage; stages= says otherwise");
  }
  return out;
}

std::vector<std::string> warnings_of(const Workload& w, const Cluster& cluster, const PlanSpec& plan,
                                     Bytes memory_cap) {
  std::vector<std::string> out;
  if (w.relative_error == 0) out.push_back("the compute times have no known error: the interval leaves it out");
  if (cluster.relative_error == 0 && cluster.workers() > 1)
    out.push_back("cluster '" + cluster.name +
                  "' has no fitted error: the interval does not include that of its links");
  if (!w.activations_known) out.push_back("the memory of activations is not known and not counted");
  if (memory_cap == Bytes(0)) out.push_back("the memory of a device is not known: layouts of any size are accepted");
  if (!cluster.stragglers.none())
    out.push_back("every stage is taken to be as slow as the slowest worker; jitter is left out of layouts");
  if (!plan.strategy->caution.empty())
    out.push_back(std::string(plan.strategy->name) + ": " + std::string(plan.strategy->caution));
  return out;
}

}  // namespace stepcast
