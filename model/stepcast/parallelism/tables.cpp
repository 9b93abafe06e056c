// What is asked for again and again is kept: priced splits, staged splits, pipelines and exposed gradients.
#include <stepcast/cluster/stragglers.hpp>
#include <stepcast/parallelism/reasons.hpp>
#include <stepcast/parallelism/tables.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace stepcast {
namespace {

// When tables are thrown away: a few hundred MB.
constexpr std::size_t most_entries = 400'000, most_stages = 1'000'000, most_passes = 12'000'000;

std::uint64_t word(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }
std::uint64_t word(std::int64_t high, std::int64_t low) {
  return static_cast<std::uint64_t>(high) << 32 | static_cast<std::uint64_t>(low);
}

std::uint64_t order_word(const Layout& l) {
  std::uint64_t bits = 0;
  for (const Dimension d : l.order) bits = bits << 2 | static_cast<std::uint64_t>(d);
  return bits;
}

bool same(const ModifierSpec& a, const ModifierSpec& b) { return a.modifier == b.modifier && a.options == b.options; }
bool same(const PlanSpec& a, const PlanSpec& b) {
  // Options left open (NaN) are tuned for each stage, so that such a plan equals itself.
  const auto value_equal = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  return a.strategy == b.strategy && a.collective == b.collective &&
         std::equal(a.options.begin(), a.options.end(), b.options.begin(), value_equal) &&
         std::equal(a.modifiers.begin(), a.modifiers.end(), b.modifiers.begin(), b.modifiers.end(),
                    [](const ModifierSpec& x, const ModifierSpec& y) { return same(x, y); });
}

std::uint32_t virtual_stages_of(const Layout& l) { return static_cast<std::uint32_t>(l.pipeline * l.chunks); }

/// Why units cannot be dealt to the stages; empty: they can.
std::string division_flaw(const Layout& l, std::size_t units) {
  if (static_cast<std::size_t>(l.pipeline * l.chunks) > units)
    return std::to_string(units) + " units do not fill " + std::to_string(l.pipeline * l.chunks) + " stages";
  if (!l.unit_choices.empty()) {
    std::uint64_t chosen = 0;
    for (const UnitChoice& c : l.unit_choices) chosen += c.units;
    if (chosen == units) return {};
    return "units= chooses for " + std::to_string(chosen) + " units, the model has " + std::to_string(units);
  }
  if (l.stage_units.empty()) return {};
  std::uint64_t sum = 0;
  bool empty = false;
  for (const std::uint32_t n : l.stage_units) {
    sum += n;
    empty = empty || n == 0;
  }
  if (sum == units && !empty) return {};
  return "stages= deals out " + std::to_string(sum) + " units, the model has " + std::to_string(units) +
         (empty ? "; no stage may be empty" : "");
}

}  // namespace

LayoutTables::LayoutTables(const Workload& w, const Cluster& c, const LayoutOptions& o)
    : workload(w), cluster(c), options(o), parameters(w.parameters()), delay(slowest(c.stragglers).delay) {
  const double per_device = w.traced_batch > 0 ? w.traced_batch : 1;
  global_batch = o.global_batch > 0 ? o.global_batch : per_device * static_cast<double>(c.workers());
}

Bytes LayoutTables::memory_cap() const { return memory_cap_of(options, cluster); }

namespace {

/// Why the ranks that share a machine make no group of the layout, where it asks for one; empty: they do.
std::string machine_flaw(const Layout& l, const Cluster& cluster) {
  const bool copies = l.backward_shard == shard_of_machine;
  if (l.shard != shard_of_machine && !copies && !l.quantized_gradients) return {};
  const std::string said = l.shard == shard_of_machine ? "shard=machine" : copies ? "hpz=machine" : "qgz=on";
  const std::int64_t stride = rank_axis(l, Dimension::data).stride;
  const std::int64_t machine = std::min(cluster.devices_per_node, cluster.workers());
  if (stride < machine && machine % stride != 0)
    return said + ": machines of " + std::to_string(machine) + " devices cut through the " + std::to_string(stride) +
           " of a data-parallel rank, and no number of ranks shares one";
  if (copies && l.context == 1 && stride >= machine)
    return said + ": a machine has one data-parallel rank, which would keep whole parameters";
  return {};
}

}  // namespace

Answer<Layout> LayoutTables::resolved(const Layout& l) const {
  if (std::string why = machine_flaw(l, cluster); !why.empty()) return Inapplicable{std::move(why)};
  Answer<Layout> out = stepcast::resolved(with_machine_shard(l, cluster), cluster.workers(), global_batch);
  if (!out) return out;
  if (std::string why = division_flaw(*out, workload.units.size()); !why.empty()) return Inapplicable{std::move(why)};
  return out;
}

void LayoutTables::forget_if_full() {
  if (gradients_.size() < most_entries && held_stages_ < most_stages && evaluated_passes_ < most_passes) return;
  // Numbers go on, so that what stays (splits, contents) never meets an old key.
  staged_.clear();
  pipelines_.clear();
  gradients_.clear();
  evaluators_.clear();
  evaluated_passes_ = held_stages_ = 0;
}

std::uint64_t LayoutTables::choices_number(const Layout& l) {
  if (l.unit_choices.empty()) return 0;
  std::vector<std::int64_t> key;
  for (const UnitChoice& c : l.unit_choices)
    key.insert(key.end(), {c.units, c.tensor, c.zero, static_cast<std::int64_t>(c.recomputation)});
  return choices_.try_emplace(std::move(key), choices_.size() + 1).first->second;
}

const NumberedTable<PricedSplit>::Entry& LayoutTables::split_entry(const Layout& l) {
  if (!l.unit_choices.empty()) {
    constexpr std::uint64_t chosen = std::uint64_t{1} << 63;
    const TableKey key{word(l.tensor, l.data),
                       choices_number(l),
                       static_cast<std::uint64_t>(l.micro_batch),
                       static_cast<std::uint64_t>(l.units_in_flight),
                       static_cast<std::uint64_t>(l.overlap_gradients),
                       0,
                       0,
                       chosen | static_cast<std::uint64_t>(l.overlap_tensor) << 1};
    return splits_(key, [&] {
      std::vector<const PricedSplit*> own;
      for (const UnitChoice& c : l.unit_choices) own.push_back(&split_entry(layout_of_choice(l, c)).value);
      return priced_split(workload, cluster, l, own);
    });
  }
  const TableKey key{
      word(l.tensor, l.context),
      word(l.data, l.pipeline),
      word(l.expert, l.depth),
      static_cast<std::uint64_t>(l.micro_batch),
      word(l.scheme),
      order_word(l) << 8 | static_cast<std::uint64_t>(l.overlap_expert) << 7 |
          static_cast<std::uint64_t>(l.expert_exchange) << 6 | static_cast<std::uint64_t>(l.whole_experts()) << 5 |
          static_cast<std::uint64_t>(l.context_exchange) << 3 | static_cast<std::uint64_t>(l.overlap_tensor) << 1 |
          static_cast<std::uint64_t>(l.sequence_parallel),
      word(l.shard, l.recomputed_modules),
      word(l.backward_shard, int{l.quantized_weights} << 1 | int{l.quantized_gradients})};
  Layout whole = l;
  if (l.recomputed_modules != 0) {
    whole.recomputed_modules = 0;
    return splits_(key, [&] { return with_modules(split_entry(whole).value, l.recomputed_modules); });
  }
  if (l.backward_shard > 0 || l.quantized_weights || l.quantized_gradients) {
    whole.backward_shard = 0, whole.quantized_weights = whole.quantized_gradients = false;
    return splits_(key, [&] { return with_zero_plus(workload, split_entry(whole).value, groups_, l); });
  }
  const auto accumulating = [&](PricedSplit split) {
    return with_accumulation(workload, std::move(split), cluster, micro_batches(l, global_batch));
  };
  if (l.shard == 0) return splits_(key, [&] { return accumulating(priced_split(units_, groups_, l)); });
  whole.shard = 0;
  return splits_(key, [&] {
    // Copies are counted again, and with them what is added up.
    PricedSplit split = with_shards(workload, split_entry(whole).value, groups_, l);
    return copies_differ_by_stage(workload) ? accumulating(std::move(split)) : split;
  });
}

PipelineEvaluator* LayoutTables::evaluator(const PipelineSchedule& schedule, const PipelineShape& shape,
                                           std::string& why) {
  const TableKey key{word(&schedule), word(shape.stages, shape.chunks), shape.micro_batches};
  auto& entry = evaluators_(key, [&] {
    evaluated_passes_ += std::size_t{2} * shape.stages * shape.chunks * shape.micro_batches;
    return PipelineEvaluator::of(schedule, shape);
  });
  if (!entry.value) {
    why = entry.value.reason();
    return nullptr;
  }
  return &*entry.value;
}

std::uint64_t LayoutTables::content_of(std::span<const std::uint32_t> units, const std::vector<VirtualStage>& stages,
                                       const std::vector<std::uint32_t>& held) {
  StageContent& content = scratch_content_;
  content.clear();
  for (const std::uint32_t v : held)
    content.insert(content.end(), units.begin() + stages[v].first, units.begin() + stages[v].first + stages[v].units);
  // Neighbouring stages are mostly alike.
  if (!content_list_.empty() && *content_list_[last_content_] == content) return last_content_;
  auto found = contents_.find(content);
  if (found == contents_.end()) {
    found = contents_.emplace(content, contents_.size()).first;
    content_list_.push_back(&found->first);
  }
  return last_content_ = found->second;
}

void LayoutTables::describe_devices(const EvaluatedLayout& e, PipelineOutcome& out) {
  const std::vector<VirtualStage>& stages = e.staged->stages;
  const auto last = static_cast<std::uint32_t>(stages.size() - 1);
  const double tied = stages[last].tied_parameters;
  const std::optional<Blocks> blocks =
      e.layout.recomputed_blocks > 0 ? std::optional<Blocks>(Blocks(workload, *e.split)) : std::nullopt;
  out.devices.resize(out.shape.stages);
  held_stages_ += out.shape.stages;
  for (std::uint32_t d = 0; d < out.shape.stages; ++d) {
    PipelineDevice& device = out.devices[d];
    for (std::uint32_t c = 0; c < out.shape.chunks; ++c)
      device.virtual_stages.push_back(e.layout.schedule->place(out.shape, d, c));
    std::sort(device.virtual_stages.begin(), device.virtual_stages.end());
    StageMemoryInput& memory = device.memory;
    const bool first_held = device.virtual_stages.front() == 0, last_held = device.virtual_stages.back() == last;
    for (const std::uint32_t v : device.virtual_stages) {
      const VirtualStage& s = stages[v];
      device.parts += s.parts;
      add(memory, s);
    }
    // A head that shares its weights with the embedding holds a copy of them, unless it is on the same device.
    if (last_held && !first_held) add_tied(memory, tied);
    if (last > 0 && first_held != last_held) device.tied_parameters = tied;
    device.parameters = memory.parameters;
    device.update_share = parameters > 0 ? memory.parameters / parameters : 0;
    device.content = content_of(e.split->sequence(workload), stages, device.virtual_stages);
    if (blocks) {
      for (const std::uint32_t v : device.virtual_stages) {
        const std::vector<Recomputation> stage =
            blocks->again(e.layout.recomputed_blocks, stages[v].first, stages[v].units);
        device.again.insert(device.again.end(), stage.begin(), stage.end());
      }
      device.again_number = again_.try_emplace(device.again, again_.size() + 1).first->second;
    }
    divide(e, device);
    if (e.layout.whole_tensors && out.unsuitable.empty()) {
      const Profile profile =
          stage_profile(workload, *e.split, e.layout, *content_list_[device.content], nullptr, device.again);
      const bool copy = last_held && !first_held;
      Answer<DealtTensors> dealt = dealt_tensors(workload, *e.split, profile, copy ? tied : 0);
      if (!dealt) out.unsuitable = dealt.reason();
      else memory.most_dealt = dealt->most(), device.dealt = *std::move(dealt);
    }
  }
}

// Units that choose for themselves have no pipeline: the one device holds them all.
void LayoutTables::divide(const EvaluatedLayout& e, PipelineDevice& device) const {
  const PricedSplit& split = *e.split;
  if (split.variants.empty()) return;
  const Layout& base = e.layout;
  device.update_share = 0;
  for (const UnitChoice& c : base.unit_choices) {
    const Layout own = layout_of_choice(base, c);
    const auto same = [&](const DividedMemory& d) { return d.layout == own; };
    if (std::none_of(device.divided.begin(), device.divided.end(), same)) device.divided.push_back({own, {}});
  }
  for (const std::uint32_t unit : split.variant_of) {
    const Layout& own = split.variants[unit].layout;
    const auto part = std::find_if(device.divided.begin(), device.divided.end(),
                                   [&](const DividedMemory& d) { return d.layout == own; });
    VirtualStage alone;
    ChunkTimes unused;
    add(alone, unused, split.units[unit], own.recomputation, own.zero);
    add(part->input, alone);
    const double share = parameters > 0 ? split.units[unit].parameters / parameters : 0;
    if (own.zero < 2) device.whole_share += share;
    if (own.zero < 2 && own.data > 1) device.summed_share += share;
    device.update_share += own.zero > 0 ? share / static_cast<double>(own.data) : share;
  }
}

PipelineOutcome LayoutTables::outcome_of(const EvaluatedLayout& e) {
  PipelineOutcome out;
  const Layout& l = e.layout;
  out.shape = pipeline_shape(*l.schedule, static_cast<std::uint32_t>(l.pipeline), static_cast<std::uint32_t>(l.chunks),
                             static_cast<std::uint32_t>(e.micro_batches));
  PipelineEvaluator* pipeline = evaluator(*l.schedule, out.shape, out.unsuitable);
  if (!pipeline) return out;
  describe_devices(e, out);
  const PipelineTimes& times = (*pipeline)(e.staged->chunks, l.overlap_pipeline);
  out.last_backward = times.last_backward;
  out.saved = times.saved;
  for (std::uint32_t d = 0; d < out.shape.stages; ++d) {
    StageMemoryInput& memory = out.devices[d].memory;
    memory.micro_batches_kept = times.kept[d] / out.shape.chunks;
    memory.one_pass = e.micro_batches == 1;
    for (DividedMemory& part : out.devices[d].divided) {
      part.input.micro_batches_kept = memory.micro_batches_kept;
      part.input.one_pass = memory.one_pass;
    }
  }
  return out;
}

const NumberedTable<PipelineOutcome>::Entry* LayoutTables::pipeline_entry(EvaluatedLayout& e, const PlanSpec& plan) {
  const Layout& l = e.layout;
  const auto& split = split_entry(l);
  e.split = &split.value;
  if (!e.split->unsuitable.empty()) return nullptr;
  const bool sharded = sends_in_passes(workload, *e.split, l);
  constexpr std::uint64_t by_time = std::numeric_limits<std::uint64_t>::max();  // no number of a division that was told
  std::uint64_t division = 0;
  if (!l.stage_units.empty()) division = divisions_.try_emplace(l.stage_units, divisions_.size() + 1).first->second;
  else if (l.stages_by_time) division = by_time;
  const bool by_device = deals_by_device(l);
  const TableKey staged_key{
      split.number, word(by_device ? l.pipeline : 0, virtual_stages_of(l)),
      word(l.recomputed_blocks, l.recomputed_together << 3 | static_cast<std::int64_t>(l.recomputation)),
      static_cast<std::uint64_t>(l.offloaded_blocks) << 20 | std::uint64_t{l.whole_tensors} << 16 |
          std::uint64_t{l.offloaded} << 8 |
          (sharded ? static_cast<std::uint64_t>(l.zero << 2 | int{l.overlap_gather} << 1 | int{l.overlap_gradients})
           : copies_differ_by_stage(workload) ? static_cast<std::uint64_t>(l.zero << 2)
                                              : 0),
      sharded ? static_cast<std::uint64_t>(l.units_in_flight) : 0, division, sharded ? plan_number(plan) : 0,
      // Which chunks share a device, and in the first forward pass its links.
      by_device || (sharded && l.zero < 3 && l.chunks > 1) ? word(l.schedule) : 0};
  const auto& staged = staged_(staged_key, [&] {
    held_stages_ += virtual_stages_of(l);
    if (!sharded) return staged_split(workload, *e.split, l, virtual_stages_of(l));
    const Answer<ShardedMessages> messages = sharded_messages(workload, *e.split, l, plan);
    if (!messages) return StagedSplit{messages.reason(), {}, {}};
    return staged_split(workload, *e.split, l, virtual_stages_of(l), *messages);
  });
  e.staged = &staged.value;
  if (!e.staged->unsuitable.empty()) return nullptr;
  const TableKey key{staged.number, word(l.schedule), static_cast<std::uint64_t>(e.micro_batches),
                     static_cast<std::uint64_t>(l.chunks << 1 | int{l.overlap_pipeline})};
  return &pipelines_(key, [&] { return outcome_of(e); });
}

std::uint64_t LayoutTables::plan_number(const PlanSpec& plan) {
  if (last_plan_ < plans_.size() && same(plans_[last_plan_], plan)) return last_plan_;
  for (last_plan_ = 0; last_plan_ < plans_.size(); ++last_plan_)
    if (same(plans_[last_plan_], plan)) return last_plan_;
  plans_.push_back(plan);
  return last_plan_;
}

Answer<Seconds> LayoutTables::gradients(const EvaluatedLayout& e, const PlanSpec& plan, const PipelineDevice& device) {
  const Layout& l = e.layout;
  const auto& split = split_entry(l);
  const TableKey key{
      split.number, device.content, plan_number(plan),
      static_cast<std::uint64_t>(int{l.whole_tensors} << 7 | l.zero << 5 | static_cast<int>(l.recomputation) << 2 |
                                 int{l.overlap_gather} << 1 | int{l.overlap_gradients}),
      device.again_number};
  const auto& entry = gradients_(key, [&] {
    const Answer<Seconds> time =
        exposed_gradients(workload, *e.split, l, plan, *content_list_[device.content], loop_, device.again);
    return time ? ExposedGradients{*time, {}} : ExposedGradients{{}, time.reason()};
  });
  if (!entry.value.unsuitable.empty()) return Inapplicable{entry.value.unsuitable};
  Seconds time = entry.value.time + device.dealt.broadcasts();
  const auto reduced = [&](const PricedGroup& group, double elements) {
    return exchange(group, Operation::all_reduce, Bytes(elements * workload.bytes_of_gradient), false);
  };
  // The first micro-batch comes through the first chunk of every stage before the last one begins.
  const std::vector<VirtualStage>& stages = e.staged->stages;
  const auto first_chunks = static_cast<std::uint32_t>(l.pipeline);
  for (std::uint32_t v = 0; v < first_chunks; ++v) time += stages[v].longer_first;
  for (const std::uint32_t v : device.virtual_stages)
    if (v >= first_chunks) time += stages[v].longer_first;
  if (device.tied_parameters > 0) time += reduced(*e.split->ends, device.tied_parameters);
  if (l.schedule->copies > 1) time += reduced(*e.split->mirror, device.parameters);
  return time;
}

Seconds LayoutTables::bucket_copies(const EvaluatedLayout& e, const PlanSpec& plan, const PipelineDevice& device) {
  return stepcast::bucket_copies(workload, *e.split, e.layout, plan, *content_list_[device.content], device.again);
}

namespace {

/// Samples that the machine with the most replicas loads for a step, over what every machine loaded in the trace.
double loaded(const Layout& l, double global_batch, double traced_batch, std::int64_t ranks) {
  // The replicas' first devices are so many ranks apart.
  std::int64_t apart = 1;
  for (const Dimension d : l.order) {
    if (d == Dimension::data) break;
    apart *= l.degree(d);
  }
  const double replicas = static_cast<double>(std::min(l.data, (ranks + apart - 1) / apart));
  return replicas * (global_batch / static_cast<double>(l.data)) / (traced_batch * static_cast<double>(ranks));
}

}  // namespace

LayoutTables::WholeStep LayoutTables::whole_step(Seconds work, const Layout& l) const {
  const Seconds busy = work + workload.step_overhead + delay;
  if (workload.input == Seconds(0) && workload.input_period == Seconds(0)) return {busy, Seconds(0)};
  const Layout loading = l.unit_choices.empty() ? l : layout_of_choice(l, l.unit_choices.front());
  const double share = loaded(loading, global_batch, workload.traced_batch, cluster.devices_per_node);
  const Seconds iteration = std::max(busy + workload.input * share, workload.input_period * share);
  return {iteration, iteration - busy};
}

Bytes LayoutTables::fullest_host(const Layout& l, std::span<const Bytes> of_device) const {
  const RankAxis axis = rank_axis(l, Dimension::pipeline);
  const std::int64_t ranks = cluster.workers(), own = devices_of_host(cluster);
  if (of_device.size() == 1) return of_device.front() * static_cast<double>(own);
  Bytes most;
  for (std::int64_t first = 0; first < ranks; first += own) {
    Bytes sum;
    for (std::int64_t rank = first; rank < std::min(first + own, ranks); ++rank)
      sum += of_device[static_cast<std::size_t>(rank / axis.stride % axis.degree)];
    most = std::max(most, sum);
  }
  return most;
}

std::string LayoutTables::offload_flaw(const Layout& l) const {
  if (workload.on_host) return "offload=: the host computes this job, and all of it is in its memory";
  const bool adam = !workload.shape || workload.shape->optimizer == Optimizer::adam;
  if (l.offloads(Offloaded::optimizer) && !adam)
    return "offload=: the rates at which hosts update are those of Adam (optimizer=adam)";
  return {};
}

Seconds LayoutTables::host_update(const Layout& l, double elements) const {
  const Host host = host_of(cluster);
  const double ranks = static_cast<double>(devices_of_host(cluster));
  const bool travelled = l.offloads(Offloaded::parameters);
  const Bytes copied(travelled ? 0 : elements * std::max(workload.bytes_of_gradient, workload.bytes_of_weight));
  return std::max(Seconds(elements * ranks / host.updates), copied / host.copies);
}

Seconds LayoutTables::update(const Layout& l, const PipelineDevice& device) const {
  double whole = device.whole_share, summed = device.summed_share;
  if (l.unit_choices.empty() && l.zero < 2) {
    whole = device.update_share;
    if (l.data * l.context > 1) summed = whole;
  }
  return optimizer_step(l, device) + workload.gradient_passes * whole + workload.gradient_scaling * summed;
}

Seconds LayoutTables::optimizer_step(const Layout& l, const PipelineDevice& device) const {
  if (!l.unit_choices.empty()) return workload.update * device.update_share;
  const StageMemoryInput& held = device.memory;
  const double experts = held.parameters > 0 ? held.expert_parameters / held.parameters : 0;
  const double divided = l.zero == 0       ? 1
                         : l.whole_tensors ? (held.parameters > 0 ? held.most_dealt / held.parameters : 1)
                                           : (1 - experts) / static_cast<double>(l.sharding()) +
                                                 experts / static_cast<double>(l.expert_sharding());
  if (l.offloads(Offloaded::optimizer)) return host_update(l, held.parameters * divided);
  // Those who deal whole tensors out have fewer of them each; fully_shard divides every one.
  const bool each = l.zero >= 2 || (l.zero == 1 && by_fully_shard(workload, l));
  if (l.zero == 0 || (workload.host_updates && each)) return workload.update * device.update_share;
  return workload.update * (device.update_share * divided);
}

Answer<LayoutTables::AfterPasses> LayoutTables::after_passes(const EvaluatedLayout& e, const PlanSpec& plan,
                                                             const PipelineDevice& device) {
  const Answer<Seconds> exposed = gradients(e, plan, device);
  if (!exposed) return Inapplicable{exposed.reason()};
  const Seconds update = this->update(e.layout, device);
  const Seconds waits = device.parts.meanwhile * static_cast<double>(e.micro_batches);
  const Seconds meanwhile = std::min(*exposed, waits);
  return AfterPasses{*exposed - meanwhile, update - std::min(update, waits - meanwhile)};
}

MemoryUse LayoutTables::memory(const Layout& l, const PipelineDevice& device) const {
  if (!device.divided.empty()) return memory_of(workload, device.divided, options.memory);
  return memory_of(workload, l, device.memory, options.memory);
}

Answer<EvaluatedLayout> LayoutTables::evaluated(const LayoutPlan& plan) {
  if (plan.layout.micro_batch != 0) return evaluated_as_said(plan);
  const std::vector<std::int64_t> choices = micro_batch_choices(plan.layout, cluster.workers(), global_batch);
  if (choices.empty()) return evaluated_as_said(plan);
  const MicroBatch chosen = micro_batch_of(plan, choices);
  LayoutPlan said = plan;
  said.layout.micro_batch = chosen.samples;
  Answer<EvaluatedLayout> out = evaluated_as_said(said);
  if (out && choices.size() > 1) out->micro_batch_by = chosen.by;
  return out;
}

bool LayoutTables::fits(const Answer<EvaluatedLayout>& e) const {
  return e && (memory_cap() == Bytes(0) || e->memory.total() <= memory_cap());
}

// What ran once is what is run again, where it divides and fits.
LayoutTables::MicroBatch LayoutTables::micro_batch_of(LayoutPlan plan, const std::vector<std::int64_t>& choices) {
  const double traced = workload.traced_batch;
  for (const std::int64_t samples : choices) {
    if (static_cast<double>(samples) != traced) continue;
    plan.layout.micro_batch = samples;
    if (fits(evaluated_as_said(plan))) return {samples, MicroBatchBy::trace};
  }
  if (traced == 0 || memory_is_known()) return {fastest(std::move(plan), choices), MicroBatchBy::time};
  const auto distance = [&](std::int64_t samples) { return std::abs(std::log(static_cast<double>(samples) / traced)); };
  return {*std::min_element(choices.begin(), choices.end(),
                            [&](std::int64_t a, std::int64_t b) { return distance(a) < distance(b); }),
          MicroBatchBy::nearness};
}

// Where none fits, the one that needs the least memory tells by how much.
std::int64_t LayoutTables::fastest(LayoutPlan plan, const std::vector<std::int64_t>& choices) {
  std::int64_t best = 0, smallest = choices.front();
  Seconds time;
  Bytes least;
  for (const std::int64_t samples : choices) {
    plan.layout.micro_batch = samples;
    const Answer<EvaluatedLayout> e = evaluated_as_said(plan);
    if (!e) continue;
    if (least == Bytes(0) || e->memory.total() < least) {
      least = e->memory.total();
      smallest = samples;
    }
    // Of equals the one with the fewest micro-batches; sums in another order differ in the last digits.
    if (!fits(e) || (best > 0 && e->iteration >= time * (1 - 1e-9))) continue;
    time = e->iteration;
    best = samples;
  }
  return best > 0 ? best : smallest;
}

Answer<EvaluatedLayout> LayoutTables::evaluated_as_said(const LayoutPlan& plan) {
  forget_if_full();
  Answer<Layout> layout = resolved(plan.layout);
  if (!layout) return Inapplicable{layout.reason()};
  EvaluatedLayout e;
  e.layout = std::move(*layout);
  if (e.layout.offloaded != 0)
    if (std::string why = offload_flaw(e.layout); !why.empty()) return Inapplicable{std::move(why)};
  e.micro_batches = micro_batches(e.layout, global_batch);
  const auto* pipeline = pipeline_entry(e, plan.gradients);
  if (!pipeline) return Inapplicable{e.staged ? e.staged->unsuitable : e.split->unsuitable};
  if (!pipeline->value.unsuitable.empty()) return Inapplicable{pipeline->value.unsuitable};
  e.pipeline = &pipeline->value;
  e.layout.stages_by_time &= e.staged->told_by_time;
  std::vector<Bytes> with_host;
  for (std::uint32_t d = 0; d < e.pipeline->shape.stages; ++d) {
    const PipelineDevice& device = e.pipeline->devices[d];
    const Answer<AfterPasses> after = after_passes(e, plan.gradients, device);
    if (!after) return Inapplicable{after.reason()};
    const Seconds end = e.pipeline->last_backward[d] + after->gradients + after->update;
    if (end > e.iteration) {
      e.iteration = end;
      e.last_device = d;
    }
    const MemoryUse memory = this->memory(e.layout, device);
    if (e.layout.offloaded != 0) with_host.push_back(memory.host);
    if (d == 0 || memory.total() > e.memory.total()) {
      e.memory = memory;
      e.fullest_device = d;
    }
  }
  if (!with_host.empty()) {
    e.host = fullest_host(e.layout, with_host);
    if (std::string why = too_much_for_host(e.host, cluster); !why.empty()) return Inapplicable{std::move(why)};
  }
  const WholeStep whole = whole_step(e.iteration, e.layout);
  e.iteration = whole.iteration;
  e.input = whole.input;
  return e;
}

}  // namespace stepcast
