// Extremes of each dimension over all families, and the members of open families that no family has.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/search/batches.hpp>
#include <stepcast/search/space_text.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace stepcast {
namespace {

/// "tp 1 to 8"; nothing where only 1 was tried.
template <class Value>
void add_range(std::string& text, std::string_view name, std::span<const LayoutFamilies* const> all, Value value) {
  std::int64_t least = 0, most = 0;
  for (const LayoutFamilies* families : all)
    for (const LayoutFamily& f : families->families()) {
      const std::int64_t v = value(f);
      least = least == 0 ? v : std::min(least, v);
      most = std::max(most, v);
    }
  if (most <= 1) return;
  add_to_list(text, std::string(name) + " " + std::to_string(least) +
                        (most > least ? " to " + std::to_string(most) : std::string()));
}

std::set<std::string_view> schedules_of(std::span<const LayoutFamilies* const> all) {
  std::set<std::string_view> names;
  for (const LayoutFamilies* families : all)
    for (const LayoutFamily& f : families->families())
      if (f.pipeline > 1) names.insert(f.schedule->name);
  return names;
}

std::string joined(const std::set<std::int64_t>& numbers, std::size_t most) {
  std::string text;
  for (const std::int64_t n : numbers) {
    if (most-- == 0) return text + ", ...";
    add_to_list(text, std::to_string(n));
  }
  return text;
}

template <class Is>
bool any_family(std::span<const LayoutFamilies* const> all, const Is& is) {
  return std::ranges::any_of(all, [&](const LayoutFamilies* f) { return std::ranges::any_of(f->families(), is); });
}
template <class Is>
bool any_switches(std::span<const LayoutFamilies* const> all, const Is& is) {
  return std::ranges::any_of(all, [&](const LayoutFamilies* families) {
    return std::ranges::any_of(families->families(),
                               [&](const LayoutFamily& f) { return std::ranges::any_of(families->switches(f), is); });
  });
}
bool takes_products_apart(std::span<const LayoutFamilies* const> all) {
  return any_switches(all, [](const LayoutSwitches& s) { return s.overlap_tensor == TensorOverlap::products; });
}
bool tries_modules(std::span<const LayoutFamilies* const> all) {
  return any_switches(all, [](const LayoutSwitches& s) { return s.modules != 0; });
}

}  // namespace

std::string space_text(const LayoutSpace& space, std::span<const LayoutFamilies* const> all) {
  std::string text;
  add_range(text, "tp", all, [](const LayoutFamily& f) { return f.tensor; });
  add_range(text, "cp", all, [](const LayoutFamily& f) { return f.context; });
  add_range(text, "ep", all, [](const LayoutFamily& f) { return f.expert; });
  add_range(text, "pp", all, [](const LayoutFamily& f) { return f.pipeline; });
  add_range(text, "chunks", all, [](const LayoutFamily& f) { return f.chunks; });
  add_range(text, "dp", all, [](const LayoutFamily& f) { return f.data; });
  add_range(text, "mb", all, [](const LayoutFamily& f) { return f.micro_batch; });
  std::vector<std::string> names;
  for (const std::string_view name : schedules_of(all)) names.emplace_back(name);
  if (!names.empty()) add_to_list(text, "schedules " + listed(names, [](const std::string& s) { return s; }));
  const bool shards = space.zero.empty() || std::ranges::any_of(space.zero, [](int zero) { return zero > 0; });
  if (any_family(all, &LayoutFamily::whole_experts)) add_to_list(text, "whole experts beside divided layers");
  if (any_family(all, [](const LayoutFamily& f) { return f.expert_exchange == ExpertExchange::deduplicated; }))
    add_to_list(text, "tokens sent once to each machine");
  if (any_family(all, &LayoutFamily::overlap_expert)) add_to_list(text, "tokens beside another micro-batch's compute");
  if (shards && any_family(all, [](const LayoutFamily& f) { return f.machine_shard > 0; }))
    add_to_list(text, "ZeRO over all replicas and within machines");
  if (any_switches(all, [](const LayoutSwitches& s) { return s.in_machine == InMachine::backward; }))
    add_to_list(text, "a second copy of the parameters within machines (hpz)");
  if (takes_products_apart(all)) add_to_list(text, "tensor-parallel messages beside products");
  if (tries_modules(all)) add_to_list(text, "recomputation of modules, all at once");
  if (any_switches(all, &LayoutSwitches::some_blocks))
    add_to_list(text, "recomputation of all blocks and of the fewest that fit");
  if (space.offloaded != 0) add_to_list(text, offload_text(space.offloading()) + " in the host's memory");
  if (!space.framework.empty()) add_to_list(text, "that " + space.framework + " runs");
  return text.empty() ? "one device" : text;
}

std::vector<std::string> not_tried(const LayoutSpace& space, std::span<const LayoutFamilies* const> all,
                                   const Workload& workload, const Cluster& cluster, double global_batch) {
  std::vector<std::string> out;
  const std::int64_t batch = std::llround(global_batch);
  const std::set<std::int64_t> degrees = data_degrees(workload, cluster, space);
  std::set<std::int64_t> undivided;
  for (const std::int64_t d : degrees)
    if (batch % d != 0) undivided.insert(d);
  if (!undivided.empty())
    out.push_back(std::to_string(undivided.size()) + " of " + std::to_string(degrees.size()) + " data degrees (" +
                  joined(undivided, 5) + "), by which a batch of " + std::to_string(batch) + " does not divide");
  const std::set<std::string_view> used = schedules_of(all);
  std::vector<std::string> schedules;
  for (const PipelineSchedule& s : pipeline_schedules())
    if (!used.contains(s.name)) schedules.emplace_back(s.name);
  if (!used.empty() && !schedules.empty())
    out.push_back("schedules " + listed(schedules, [](const std::string& s) { return s; }) + " (--schedule)");
  if (space.schemes.empty() && cluster.devices_per_node > 1) out.push_back("tensor schemes other than 1d (--scheme)");
  if (space.tensor.empty() && cluster.nodes > 1) out.push_back("tensor parallelism between machines (--tensor)");
  const auto divides_sequence = [](const LayoutFamily& f) { return f.tensor > 1 && f.sequence_parallel; };
  const bool apart = workload.shape && !is_eager(workload.shape->kernels) && !takes_products_apart(all);
  if (apart && space.overlap_tensor.empty() && any_family(all, divides_sequence))
    out.push_back("tensor-parallel messages beside products (--overlap-tp products)");
  const auto rings = [](const LayoutFamily& f) { return f.context > 1; };
  const auto otherwise = [](const LayoutFamily& f) { return f.context_exchange != ContextExchange::ring; };
  if (space.context_exchange.empty() && workload.shape && any_family(all, rings) && !any_family(all, otherwise))
    out.push_back("keys and values gathered, or heads exchanged (--cp-comm allgather,a2a)");
  if (!used.empty())
    out.push_back("divisions into stages other than " +
                  std::string(workload.shape && !any_family(all, &LayoutFamily::stages_by_time)
                                  ? "the program's own"
                                  : "equal blocks or by time") +
                  " (stages=)");
  const bool casts = workload.shape && holds_whole_weights(workload.shape->kernels);
  const bool over_one = !space.zero.empty() && space.zero.front() == 3;
  if (casts && !over_one && any_family(all, [](const LayoutFamily& f) { return f.data * f.context == 1; }))
    out.push_back("fully_shard over one replica (--zero 3)");
  if (space.chunks.empty() && used.contains("interleaved"))
    out.push_back("chunks of which the longest is over a quarter above the mean (--chunks)");
  if (space.recomputation.empty() && workload.activations_known && workload.units.size() > 1)
    out.emplace_back("blocks that are done again in groups (recompute_group=)");
  if (tries_modules(all)) out.emplace_back("some modules alone (recompute=moe_act)");
  const auto spreads = [](const LayoutFamily& f) { return f.expert > 1; };
  const auto sends_once = [](const LayoutFamily& f) { return f.expert_exchange == ExpertExchange::deduplicated; };
  if (any_family(all, spreads) && !any_family(all, sends_once))
    out.emplace_back("tokens sent once to each machine (--ep-comm deepep)");
  if (any_family(all, spreads) && !any_family(all, &LayoutFamily::overlap_expert))
    out.emplace_back("tokens beside another micro-batch's compute (--overlap-ep on)");
  if (space.offloading().offloads(Offloaded::activations) && (space.some_blocks || space.recomputation.empty()))
    out.emplace_back("recomputation of some blocks (recompute_blocks=)");
  if (space.offloaded == 0) out.emplace_back("state in the host's memory (--offload)");
  if (any_switches(all, [](const LayoutSwitches& s) { return s.in_machine == InMachine::backward; }))
    out.emplace_back("second copies of other than a machine's size (hpz=)");
  const bool quantizes = space.framework.empty() || space.framework == "deepspeed";
  if (quantizes && any_switches(all, [](const LayoutSwitches& s) { return s.zero == 3; }))
    out.emplace_back("parameters in 8 bits, gradients in 4 (qwz=, qgz=)");
  if (cluster.nodes > 1) out.push_back("orders of ranks other than tp-cp-dp-pp");
  return out;
}

}  // namespace stepcast
