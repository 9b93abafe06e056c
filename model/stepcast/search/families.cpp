// The product of all degrees and choices, less what does not multiply to the devices or divide the batch.
#include <stepcast/launch/frameworks.hpp>
#include <stepcast/parallelism/stage_division.hpp>
#include <stepcast/search/families.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace stepcast {
namespace {

using Degrees = std::vector<std::int64_t>;

Degrees divisors(std::int64_t n) {
  Degrees all;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    all.push_back(d);
    if (d * d != n) all.push_back(n / d);
  }
  std::sort(all.begin(), all.end());
  return all;
}

// Those of `asked` that divide n; nothing asked for: all divisors up to `most`.
Degrees degrees(const Degrees& asked, std::int64_t n, std::int64_t most) {
  Degrees found = asked.empty() ? divisors(n) : asked;
  std::erase_if(found, [&](std::int64_t d) { return d < 1 || n % d != 0 || (asked.empty() && d > most); });
  return found;
}

template <class T>
std::vector<T> or_all(const std::vector<T>& asked, std::vector<T> all) {
  return asked.empty() ? std::move(all) : asked;
}

std::vector<const TensorScheme*> schemes_of(const LayoutSpace& space) {
  return or_all(space.schemes, {tensor_scheme("1d")});
}

// Units of the kind that there is most of: the blocks, which stages and chunks share evenly.
std::int64_t blocks(const Workload& workload) {
  std::vector<std::int64_t> count(workload.kinds.size(), 0);
  for (const std::uint32_t kind : workload.units) ++count[kind];
  return count.empty() ? 1 : *std::max_element(count.begin(), count.end());
}

double experts(const Workload& workload) {
  if (workload.shape) return static_cast<double>(workload.shape->experts);
  return 0;
}

// Collects the families of one space, from the outermost dimension in.
class Families {
 public:
  Families(const LayoutSpace& space, const Workload& workload, const Cluster& cluster, double global_batch)
      : space_(space), devices_(cluster.workers()), batch_(std::llround(global_batch)) {
    units_ = static_cast<std::int64_t>(workload.units.size());
    blocks_ = blocks(workload);
    machine_ = cluster.devices_per_node;
    most_tensor_ = space.most_tensor > 0 ? space.most_tensor : cluster.devices_per_node;
    sequence_ = std::llround(workload.sequence);
    is_described_ = workload.shape.has_value();
    splits_passes_ = !workload.shape || workload.shape->kernels != KernelSet::compiled;
    divides_context_ = !workload.shape || has_fused_attention(*workload.shape);
    experts_ = std::llround(experts(workload));
    family_.offloaded = space.offloaded;
    is_recorded_ = workload.shape && workload.shape->launch == KernelLaunch::graphs;
    if (workload.shape && workload.shape->kernels == KernelSet::megatron &&
        (space.framework.empty() || space.framework == "megatron"))
      megatrons_ = &*workload.shape;
    for (const PipelineSchedule& s : pipeline_schedules())
      if (pairs_passes(s)) pairing_.push_back(&s);
    // A batch that is no whole number of samples has no whole micro-batches.
    if (static_cast<double>(batch_) != global_batch) batch_ = 0;
  }

  std::vector<LayoutFamily> all() {
    if (batch_ < 1) return {};
    for (const TensorScheme* scheme : schemes_of(space_)) {
      family_.scheme = scheme;
      for (const std::int64_t t : degrees(space_.tensor, devices_, most_tensor_)) {
        if (t == 1 && scheme != schemes_of(space_).front()) continue;  // nothing is divided
        family_.tensor = t;
        for (const std::int64_t depth : depths(*scheme, t)) {
          family_.depth = depth;
          with_tensor(devices_ / t);
        }
      }
    }
    return std::move(found_);
  }

 private:
  // Only 2.5-D has depths; depth 1 is 2-D and belongs to it.
  static Degrees depths(const TensorScheme& scheme, std::int64_t tensor) {
    if (scheme.name != "2.5d") return scheme.grid(tensor, 1) ? Degrees{1} : Degrees{};
    Degrees found;
    for (const std::int64_t d : divisors(tensor))
      if ((d > 1 || tensor == 1) && scheme.grid(tensor, d)) found.push_back(d);
    return found;
  }

  void with_tensor(std::int64_t left) {
    const std::int64_t sequence = sequence_ > 0 && divides_context_ ? std::gcd(left, sequence_) : 1;
    for (const std::int64_t c : degrees(space_.context, space_.context.empty() ? sequence : left, sequence)) {
      family_.context = c;
      for (const std::int64_t p : degrees(space_.pipeline, left / c, units_)) {
        if (p > units_) continue;
        family_.pipeline = p;
        family_.data = left / c / p;
        if (batch_ % family_.data != 0) continue;
        for (const bool whole : wholes()) {
          family_.whole_experts = whole;
          with_experts();
        }
      }
    }
  }

  // Whole experts beside divided layers differ from divided ones where there are both.
  [[nodiscard]] std::vector<bool> wholes() const {
    if (experts_ == 0 || family_.tensor == 1) return {false};
    std::vector<bool> out;
    for (const int whole : or_all(space_.whole_experts, {0, 1}))
      if (whole == 0 || family_.scheme->name == "1d") out.push_back(whole != 0);
    return out;
  }

  void with_experts() {
    const std::int64_t ranks = family_.data * family_.context * (family_.whole_experts ? family_.tensor : 1);
    const std::int64_t expert = experts_ > 0 ? std::gcd(ranks, experts_) : 1;
    for (const std::int64_t e : degrees(space_.expert, expert, expert)) {
      if (family_.whole_experts && family_.data * family_.context == 1 && e < family_.tensor) continue;
      if (family_.whole_experts && e == 1 && space_.whole_experts.empty()) continue;  // whole to be spread
      family_.expert = e;
      const std::int64_t share = machine_ / (family_.tensor * family_.context);
      const bool several =
          share > 1 && family_.data > share && family_.data % share == 0 && e == 1 && !family_.whole_experts;
      family_.machine_shard = several ? share : 0;
      with_degrees();
    }
  }

  void with_degrees() {
    const std::int64_t samples = batch_ / family_.data;
    const std::int64_t most = std::max<std::int64_t>(1, units_ / family_.pipeline);
    Degrees chunks = space_.chunks;
    for (std::int64_t v = 1; space_.chunks.empty() && v <= most; ++v)
      if (v == 1 || even_enough(family_.pipeline * v)) chunks.push_back(v);
    std::erase_if(chunks, [&](std::int64_t v) { return v < 1 || v > most || (v > 1 && family_.pipeline == 1); });
    for (const std::int64_t v : chunks) {
      family_.chunks = v;
      for (const bool by_time : divisions_by_time()) {
        family_.stages_by_time = by_time;
        for (const PipelineSchedule* schedule : schedules(v)) {
          family_.schedule = schedule;
          for (const std::int64_t b : degrees(space_.micro_batch, samples, samples)) {
            family_.micro_batch = b;
            family_.micro_batches = samples / b;
            with_micro_batch();
          }
        }
      }
    }
  }

  // Where blocks do not divide units are dealt out by time anyway.
  [[nodiscard]] std::vector<bool> divisions_by_time() const {
    if (megatrons_ == nullptr || equal_blocks(*megatrons_, family_.pipeline * family_.chunks).empty()) return {false};
    return {false, true};
  }

  // A pipeline waits for its longest chunk: blocks divide evenly among them, or the longest has at most a
  // quarter more units than the mean.
  [[nodiscard]] bool even_enough(std::int64_t parts) const {
    const std::int64_t longest = (units_ + parts - 1) / parts;
    return blocks_ % parts == 0 || 4 * longest * parts <= 5 * units_;
  }

  // Without a pipeline all schedules are the same.
  [[nodiscard]] std::vector<const PipelineSchedule*> schedules(std::int64_t chunks) const {
    const PipelineSchedule* usual = pipeline_schedule(chunks > 1 ? "interleaved" : "1f1b");
    if (family_.pipeline == 1) return {usual};
    if (!space_.schedules.empty()) return space_.schedules;
    // No other runs it, and these not with compiled blocks.
    const bool in_a_v = splits_passes_ && (space_.framework == "pytorch" || space_.framework == "torchtitan");
    if (chunks == 2 && in_a_v) return {usual, pipeline_schedule("zb_v")};
    if (chunks > 1) return {usual};
    return {usual, pipeline_schedule("zb_h1")};
  }

  // Without context parallelism nothing is exchanged.
  [[nodiscard]] std::vector<ContextExchange> exchanges() const {
    if (family_.context == 1) return {ContextExchange::ring};
    if (!space_.context_exchange.empty()) return space_.context_exchange;
    if (space_.framework == "torchtitan" && is_described_) return {ContextExchange::all_gather};
    if (megatrons_ == nullptr) return {ContextExchange::ring};
    const std::vector<ContextExchange> run = context_exchanges_of(*megatrons_);
    return run.front() == ContextExchange::ring ? std::vector{ContextExchange::ring} : run;
  }

  [[nodiscard]] std::vector<ExpertExchange> expert_exchanges() const {
    if (family_.expert == 1) return {ExpertExchange::all_to_all};
    if (!space_.expert_exchange.empty()) return space_.expert_exchange;
    if (megatrons_ != nullptr && is_recorded_) return {ExpertExchange::deduplicated};
    if (megatrons_ != nullptr) return {ExpertExchange::all_to_all, ExpertExchange::deduplicated};
    return {ExpertExchange::all_to_all};
  }

  // Exchanges beside another micro-batch: what was asked for, where forward passes follow backward passes; else what
  // Megatron-LM runs of a mixture that is trained with its kernels.
  [[nodiscard]] std::vector<bool> expert_overlaps() const {
    if (family_.expert == 1 || std::ranges::find(pairing_, family_.schedule) == pairing_.end()) return {false};
    const bool by_megatron = megatrons_ != nullptr && (family_.pipeline == 1 || family_.chunks > 1);
    if (space_.overlap_expert.empty() && by_megatron) return {false, true};
    std::vector<bool> out;
    for (const int overlap : or_all(space_.overlap_expert, {0})) out.push_back(overlap != 0);
    return out;
  }

  void with_micro_batch() {
    constexpr std::int64_t most = 1u << 24;
    if (family_.micro_batches > most) return;
    const PipelineShape shape =
        pipeline_shape(*family_.schedule, static_cast<std::uint32_t>(family_.pipeline),
                       static_cast<std::uint32_t>(family_.chunks), static_cast<std::uint32_t>(family_.micro_batches));
    if (!family_.schedule->unsuitable(shape).empty()) return;
    std::vector<int> sequence_parallel = or_all(space_.sequence_parallel, {0, 1});
    if (family_.tensor == 1) sequence_parallel.resize(1);
    if (family_.whole_experts) std::erase(sequence_parallel, 0);  // takes tokens of each rank's own
    for (const int s : sequence_parallel) {
      if (s != 0 && family_.tensor > 1 && family_.scheme->name != "1d")
        continue;  // others divide activations themselves
      family_.sequence_parallel = s != 0;
      for (const ContextExchange exchange : exchanges()) {
        family_.context_exchange = exchange;
        for (const ExpertExchange of_experts : expert_exchanges()) {
          family_.expert_exchange = of_experts;
          for (const bool overlap : expert_overlaps()) {
            family_.overlap_expert = overlap;
            found_.push_back(family_);
          }
        }
      }
    }
  }

  const LayoutSpace& space_;
  std::int64_t devices_, batch_, units_ = 1, blocks_ = 1, machine_ = 1, most_tensor_ = 1, sequence_ = 0, experts_ = 0;
  bool divides_context_ = true;  // fused attention only
  bool is_described_ = false;
  bool splits_passes_ = true;
  bool is_recorded_ = false;               // a CUDA graph, which Megatron-LM makes of mixtures whose tokens are sent so
  const ModelShape* megatrons_ = nullptr;  // the model, where its kernels are Megatron-LM's, which may run it
  std::vector<const PipelineSchedule*> pairing_{};  // that run forward behind backward passes
  LayoutFamily family_;
  std::vector<LayoutFamily> found_;
};

/// Selective recomputation frees what the core of attention keeps. Fused attention keeps next to nothing: it is done
/// again for nothing there.
bool frees_attention(const Workload& workload) {
  return std::ranges::any_of(workload.kinds, [](const UnitKind& kind) {
    if (kind.shape) return kind.shape->kept.attention > Bytes(0);
    return kind.attention_share > 0 || kind.kept.attention > Bytes(0);
  });
}

/// Those of the model's modules that can be done again by themselves, a bit each.
std::uint8_t modules_of(const Workload& workload) {
  std::uint8_t modules = 0;
  for (const UnitKind& kind : workload.kinds)
    for (std::size_t m = 0; kind.shape && m < recomputed_module_count; ++m) {
      const KeptActivations::Results& of = kind.shape->kept.of_module[m];
      if (of.divided + of.sequence > Bytes(0)) modules |= static_cast<std::uint8_t>(1u << m);
    }
  return modules;
}

/// What a switch of a family depends on; `replicas`: several ranks sum their gradients, those of context among them.
struct SwitchesOf {
  bool products, blocks, machines, sums, replicas, pipeline;
};

/// What of tensor parallelism's messages may run beside compute: all that was asked for, or by default what programs
/// do. PyTorch's compiler can take products apart, Megatron-LM hides sums unless told not to; that it can take products
/// apart, too, is told beside a winner (`beside_products`), since no step of its with that is known.
std::vector<TensorOverlap> tensor_overlaps_of(const LayoutSpace& space, const Workload& workload) {
  if (!space.overlap_tensor.empty() || !workload.shape) return or_all(space.overlap_tensor, {TensorOverlap::nothing});
  const KernelSet kernels = workload.shape->kernels;
  if (is_eager(kernels)) return {TensorOverlap::nothing};
  return {TensorOverlap::nothing, is_pytorch(kernels) ? TensorOverlap::products : TensorOverlap::sums};
}

/// Those of a family, the shortest steps first, since its bound is of its first member. Without tensor parallelism
/// there is nothing to hide.
std::vector<TensorOverlap> tensor_overlaps_of(const LayoutSpace& space, const Workload& workload, SwitchesOf of) {
  std::vector<TensorOverlap> all = tensor_overlaps_of(space, workload);
  if (!of.products) std::erase(all, TensorOverlap::products);
  if (!of.sums) std::erase(all, TensorOverlap::sums);
  if (all.empty()) return {TensorOverlap::nothing};
  std::sort(all.rbegin(), all.rend());
  return all;
}

/// Recomputation, and whether it is of some blocks only.
using Again = std::pair<Recomputation, bool>;
std::vector<Again> recomputations_of(const LayoutSpace& space, const Workload& workload, bool several_blocks) {
  std::vector<Recomputation> all = {Recomputation::none, Recomputation::selective, Recomputation::full};
  if (!frees_attention(workload)) std::erase(all, Recomputation::selective);
  // What one framework alone does is tried for it.
  if (space.framework == "torchtitan" && workload.shape) all.push_back(Recomputation::operators);
  if ((space.framework.empty() || space.framework == "megatron") && modules_of(workload) != 0)
    all.push_back(Recomputation::modules);
  // Where activations leave beside compute, what is done again has no copies, and more blocks may take less time.
  const bool some = !space.offloading().offloads(Offloaded::activations) &&
                    (space.some_blocks || (space.recomputation.empty() && workload.activations_known));
  std::vector<Recomputation> tried = space.recomputation;
  // The fewest blocks may be none.
  if (space.some_blocks && std::ranges::find(tried, Recomputation::none) == tried.end())
    tried.insert(tried.begin(), Recomputation::none);
  if (space.recomputation.empty() && !space.some_blocks) tried = std::move(all);
  std::vector<Again> out;
  for (const Recomputation r : tried) out.emplace_back(r, false);
  if (several_blocks && some) out.emplace_back(Recomputation::full, true);
  return out;
}

std::vector<LayoutSwitches> switches_of(const LayoutSpace& space, const Workload& workload, const Cluster& cluster,
                                        std::size_t gradients, SwitchesOf of) {
  const auto [products, blocks, machines, sums, replicas, pipeline] = of;
  const bool divided = space.offloading().offloads(Offloaded::parameters);
  // Those that have a second copy of the parameters.
  const bool copies =
      !divided && (space.framework.empty() || space.framework == "pytorch" || space.framework == "deepspeed");
  std::vector<int> zero = divided ? std::vector<int>{3} : or_all(space.zero, {0, 1, 2, 3});
  // Where links are not slowed by what runs beside them, waiting never wins: what transfers cost compute beside them is
  // less than they take.
  const Contention& c = cluster.contention;
  const bool slows = c.inside_under_compute > 1 || c.network_under_compute > 1 || c.latency_under_compute > 1;
  const std::vector<int> both = slows ? std::vector<int>{1, 0} : std::vector<int>{1};
  std::vector<int> overlap_gradients = or_all(space.overlap_gradients, both);
  // Their pipelines reduce behind the last backward pass.
  const bool reduces_behind = space.framework == "torchtitan" || space.framework == "deepspeed";
  if (reduces_behind && pipeline && space.overlap_gradients.empty()) overlap_gradients = {1, 0};
  std::vector<int> overlap_pipeline = or_all(space.overlap_pipeline, both);
  // DeepSpeed's pipelines in bf16 have an optimizer without a second copy of gradients with ZeRO-1 alone.
  const bool staged = space.framework == "deepspeed" && pipeline && workload.dtype == DataType::bf16;
  if (!replicas && staged && std::ranges::find(zero, 1) != zero.end()) zero.front() = 1;
  if (!replicas) zero.resize(1), overlap_gradients.resize(1), gradients = 1;
  if (!pipeline) overlap_pipeline.resize(1);
  const std::uint8_t modules = modules_of(workload);
  const std::vector<TensorOverlap> overlap_tensor = tensor_overlaps_of(space, workload, of);
  std::vector<LayoutSwitches> all;
  for (const auto& [r, some] : recomputations_of(space, workload, blocks))
    for (const int z : zero)
      for (const int g : overlap_gradients)
        for (const int p : overlap_pipeline)
          for (const TensorOverlap t : overlap_tensor)
            for (std::uint32_t i = 0; i < gradients; ++i)
              for (const InMachine in_machine : {InMachine::nothing, InMachine::all, InMachine::backward})
                if (in_machine == InMachine::nothing ||
                    (machines && z > 0 && (z == 3 || in_machine == InMachine::all) &&
                     (copies || in_machine == InMachine::all)))
                  all.push_back({r, some, z, g != 0, p != 0, t, i,
                                 r == Recomputation::modules ? modules : std::uint8_t{0}, in_machine});
  return all;
}

}  // namespace

LayoutFamilies::LayoutFamilies(const LayoutSpace& space, const Workload& workload, const Cluster& cluster,
                               double global_batch)
    : families_(Families(space, workload, cluster, global_batch).all()),
      gradients_(or_all(space.gradients, {plan_spec_of("ddp")})) {
  add_overlaps(space, workload, cluster);
  for (std::size_t i = 0; i < switches_.size(); ++i)
    switches_[i] = switches_of(space, workload, cluster, gradients_.size(),
                               {i >= 32, i % 32 >= 16, i % 16 >= 8, i % 8 >= 4, i % 4 >= 2, i % 2 == 1});
  blocks_ = blocks(workload);
  for (LayoutFamily& f : families_) {
    f.gathers_ahead = space.framework != "deepspeed";
    f.first = size_;
    size_ += switches(f).size();
  }
}

void LayoutFamilies::add_overlaps(const LayoutSpace& space, const Workload& workload, const Cluster& cluster) {
  std::map<std::int64_t, bool> reach;  // by tensor degree
  std::map<const PipelineSchedule*, bool> delays;
  for (LayoutFamily& f : families_) {
    if (!workload.shape || f.tensor == 1 || f.scheme->name != "1d") continue;
    if (!delays.contains(f.schedule)) delays[f.schedule] = delays_weight_gradients(*f.schedule);
    if (!reach.contains(f.tensor)) {
      const RankAxis axis{1, f.tensor};  // the innermost dimension
      reach[f.tensor] = reach_each_other(group_shape(cluster, cluster.workers(), {&axis, 1}));
    }
    f.hides_sums = !delays[f.schedule] && !f.overlap_expert;  // Megatron-LM hides one or the other
    f.hides_products = f.hides_sums && f.sequence_parallel && reach[f.tensor];
  }
  // Of what was asked for they have to have something.
  const std::vector<TensorOverlap>& asked = space.overlap_tensor;
  const auto has = [&](TensorOverlap o) { return std::ranges::find(asked, o) != asked.end(); };
  if (asked.empty() || has(TensorOverlap::nothing)) return;
  std::erase_if(families_, [&](const LayoutFamily& f) {
    return f.tensor > 1 && !(has(TensorOverlap::sums) && f.hides_sums) &&
           !(has(TensorOverlap::products) && f.hides_products);
  });
}

const std::vector<LayoutSwitches>& LayoutFamilies::switches(const LayoutFamily& family) const {
  const bool several_blocks = blocks_ > family.pipeline * family.chunks;  // of some chunk
  return switches_[(family.hides_products ? 32u : 0u) + (several_blocks ? 16u : 0u) +
                   (family.machine_shard > 0 ? 8u : 0u) + (family.hides_sums ? 4u : 0u) +
                   (family.data * family.context > 1 ? 2u : 0u) + (family.pipeline > 1 ? 1u : 0u)];
}

Layout layout_of(const LayoutFamily& family, const LayoutSwitches& switches, std::uint32_t blocks) {
  Layout layout;
  layout.tensor = family.tensor;
  layout.context = family.context;
  layout.context_exchange = family.context_exchange;
  layout.expert_exchange = family.expert_exchange;
  layout.overlap_expert = family.overlap_expert;
  layout.data = family.data;
  layout.pipeline = family.pipeline;
  layout.expert = family.expert;
  layout.expert_tensor = family.whole_experts ? 1 : 0;
  layout.chunks = family.chunks;
  layout.micro_batch = family.micro_batch;
  layout.zero = switches.zero;
  layout.shard = switches.in_machine == InMachine::all ? family.machine_shard : 0;
  layout.backward_shard = switches.in_machine == InMachine::backward ? family.machine_shard : 0;
  layout.recomputation = switches.recomputation;
  layout.recomputed_blocks = blocks;
  layout.recomputed_modules = switches.modules;
  layout.offloaded = family.offloaded;
  layout.sequence_parallel = family.sequence_parallel;
  layout.overlap_pipeline = switches.overlap_pipeline;
  layout.overlap_gradients = switches.overlap_gradients;
  layout.overlap_tensor = switches.overlap_tensor;
  layout.overlap_gather = family.gathers_ahead || switches.zero == 0 || switches.zero == 3;
  layout.scheme = family.scheme;
  layout.depth = family.depth;
  layout.schedule = family.schedule;
  layout.stages_by_time = family.stages_by_time;
  return layout;
}

bool of_one_kind(Layout a, const Layout& b) {
  if (a.chunks > 1 && b.chunks > 1) a.chunks = b.chunks, a.stage_units = b.stage_units;
  if (a.recomputed_blocks > 0 && b.recomputed_blocks > 0) a.recomputed_blocks = b.recomputed_blocks;
  a.stages_by_time = b.stages_by_time;
  a.overlap_pipeline = b.overlap_pipeline;
  a.overlap_gradients = b.overlap_gradients;
  a.overlap_tensor = b.overlap_tensor;
  a.overlap_expert = b.overlap_expert;
  return a == b;
}

double global_batch_of(const Workload& workload, const Cluster& cluster, const LayoutOptions& options) {
  if (options.global_batch > 0) return options.global_batch;
  return std::max(1.0, workload.traced_batch) * static_cast<double>(cluster.workers());
}

}  // namespace stepcast
