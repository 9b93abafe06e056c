// Bounds of families by sums over units, of members by their stages, and lastly with exposed gradients.
#include <stepcast/search/bounds.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace stepcast {
namespace {

// Sums in another order differ in their last digits; a bound stays below them all.
LayoutBound rounded_down(LayoutBound b) {
  constexpr double just_below = 1 - 1e-10;
  return {b.iteration * just_below, b.memory * just_below};
}

// Of a described model the host runs ahead from unit to unit: together they may take no longer than on the device.
PricedUnit at_least(const Workload& w, const PricedUnit& unit) { return w.shape ? on_device(unit) : unit; }

// Of passes that may all run beside others.
UnitPasses least_passes(const Workload& w, const PricedUnit& unit, Recomputation r, std::optional<int> zero) {
  UnitPasses passes = unit_passes(at_least(w, unit), r, zero);
  passes.forward -= unit.beside_forward;
  passes.backward -= unit.beside_backward;
  return passes;
}

// What a family's units add up to.
struct WholeModel {
  Seconds passes, largest;
  Seconds path;  // that one micro-batch has to go: all passes, or those forward where the backward pass is split
  Seconds ways;  // to and from every device at least, summed over the devices
  double parameters = 0, expert_parameters = 0;
  Bytes kept;                                             // under full recomputation
  std::vector<std::pair<std::int64_t, Seconds>> kinds{};  // units of each kind and what one takes
  [[nodiscard]] Seconds most_of_a_kind(double devices) const {
    Seconds most;
    for (const auto& [units, time] : kinds)
      most = std::max(most, time * std::ceil(static_cast<double>(units) / devices));
    return most;
  }
};

// A way leads through all stages before a device's first, that is through at least as many units: forward, and back
// where the backward pass is one piece.
WholeModel whole_model(const Workload& w, const PricedSplit& split, std::int64_t devices, bool and_back) {
  WholeModel sum;
  Seconds way;
  std::int64_t u = 0;
  sum.kinds.resize(w.kinds.size());
  std::vector<UnitPasses> of_kind;
  for (const PricedUnit& unit : split.units) of_kind.push_back(least_passes(w, unit, Recomputation::none, {}));
  for (const std::uint32_t kind : w.units) {
    const PricedUnit& unit = split.units[kind];
    const UnitPasses& passes = of_kind[kind];
    if (u++ < devices) sum.ways += way;
    way += and_back ? passes.forward + passes.backward : passes.forward;
    sum.passes += passes.forward + passes.backward;
    sum.largest = std::max(sum.largest, passes.forward + passes.backward);
    ++sum.kinds[kind].first, sum.kinds[kind].second = passes.forward + passes.backward;
    sum.parameters += unit.parameters;
    sum.expert_parameters += unit.expert_parameters;
    sum.kept += *std::min_element(unit.kept.begin(), unit.kept.end());
  }
  sum.path = way;
  return sum;
}

// Of a device, buffers left out, since their least does not add up.
Bytes without_buffers(const MemoryUse& use, const MemoryOptions& options) {
  return (use.parameters + use.gradients + use.optimizer + use.activations) * (1 + options.fragmentation) +
         options.framework;
}

// Micro-batches (of a device's chunks) that device d keeps at least: with one copy of the model a stage further on
// keeps at most one less.
double kept_at_least(const PipelineSchedule& schedule, const PipelineShape& shape, double first, std::uint32_t d) {
  if (schedule.copies > 1) return 1.0 / shape.chunks;
  return std::max(1.0 / shape.chunks, first - d);
}

}  // namespace

LayoutBounds::LayoutBounds(const LayoutFamilies& families, LayoutTables& tables)
    : families_(families),
      tables_(tables),
      units_of_kind_(tables.workload.kinds.size(), 0),
      entered_(std::numeric_limits<std::uint64_t>::max()) {
  for (const std::uint32_t kind : tables.workload.units) ++units_of_kind_[kind];
}

// Whether the stage before waits for input gradients only: the order of a small pipeline tells.
bool LayoutBounds::returns_input_gradients(const PipelineSchedule& schedule) {
  for (const auto& [known, splits] : splitting_)
    if (known == &schedule) return splits;
  const std::vector<PipelineSlot> order = schedule.order(small_shape(schedule), 0);
  const bool splits =
      std::ranges::any_of(order, [](const PipelineSlot& slot) { return slot.pass == PipelinePass::input_gradient; });
  splitting_.emplace_back(&schedule, splits);
  return splits;
}

PipelineShape LayoutBounds::shape_of(const LayoutFamily& f) const {
  return pipeline_shape(*f.schedule, static_cast<std::uint32_t>(f.pipeline), static_cast<std::uint32_t>(f.chunks),
                        static_cast<std::uint32_t>(f.micro_batches));
}

Seconds LayoutBounds::update_of(const Layout& l, double parameters) const {
  if (tables_.parameters <= 0) return {};
  const double replicas = l.zero > 0 ? static_cast<double>(std::max(l.sharding(), l.expert_sharding())) : 1;
  if (l.offloads(Offloaded::optimizer)) return tables_.host_update(l, parameters / replicas);
  return tables_.workload.update * (parameters / tables_.parameters / replicas);
}

Answer<LayoutBound> LayoutBounds::of(const LayoutFamily& family) {
  const Workload& w = tables_.workload;
  const Layout layout = layout_of(family, families_.switches(family).front());
  const PricedSplit& split = tables_.split_of(layout);
  if (!split.unsuitable.empty()) return Inapplicable{split.unsuitable};
  const double m = static_cast<double>(family.micro_batches), p = static_cast<double>(family.pipeline);
  const bool one_copy = family.schedule->copies == 1;
  const WholeModel whole = whole_model(w, split, family.pipeline, !returns_input_gradients(*family.schedule));
  const Seconds mean = (whole.passes * m + (one_copy ? whole.ways : Seconds(0))) / p;
  // Units are not cut: of the kind that there is most of some device has its share, rounded up.
  const Seconds unit = std::max(whole.largest * std::ceil(m / family.schedule->copies),
                                one_copy ? whole.most_of_a_kind(p) * m : Seconds(0));
  LayoutBound bound;
  bound.iteration = tables_.whole_step(std::max({mean, unit, whole.path}), layout).iteration;

  // Of the fullest device: the mean, under full recomputation and with everything divided.
  Layout smallest = layout;
  smallest.zero = 3;
  StageMemoryInput stage;
  stage.parameters = whole.parameters / p;
  stage.expert_parameters = whole.expert_parameters / p;
  stage.kept_per_micro_batch = whole.kept / p;
  stage.micro_batches_kept = 1.0 / shape_of(family).chunks;
  const MemoryOptions& options = tables_.options.memory;
  bound.memory = without_buffers(memory_of(w, smallest, stage, options), options);
  return rounded_down(bound);
}

LayoutBound LayoutBounds::by_sums(const LayoutFamily& family, const LayoutSwitches& switches) {
  const Workload& w = tables_.workload;
  enter(family);
  const PricedSplit& split = split_of(family, switches);
  const Recomputation r = switches.some_blocks ? Recomputation::none : switches.recomputation;
  Seconds passes;
  StageMemoryInput stage;
  for (std::uint32_t kind = 0; kind < units_of_kind_.size(); ++kind) {
    const double units = static_cast<double>(units_of_kind_[kind]) / static_cast<double>(family.pipeline);
    const PricedUnit& unit = split.units[kind];
    const UnitPasses own = least_passes(w, unit, r, switches.zero);
    passes += (own.forward + own.backward) * units;
    stage.parameters += unit.parameters * units;
    stage.expert_parameters += unit.expert_parameters * units;
    const Bytes kept = switches.some_blocks ? *std::min_element(unit.kept.begin(), unit.kept.end())
                                            : unit.kept[static_cast<std::size_t>(r)];
    stage.kept_per_micro_batch += kept * units;
  }
  stage.micro_batches_kept = 1.0 / shape_of(family).chunks;
  const Layout layout = layout_of(family, switches, switches.some_blocks ? 1 : 0);
  const MemoryOptions& options = tables_.options.memory;
  return rounded_down({tables_.whole_step(passes * static_cast<double>(family.micro_batches), layout).iteration,
                       without_buffers(memory_of(w, layout, stage, options), options)});
}

void LayoutBounds::enter(const LayoutFamily& family) {
  if (entered_ == family.first) return;
  entered_ = family.first;
  splits_.fill(nullptr);
  for (auto& division : divisions_) division.clear();
  for (auto& staged : staged_) staged.reset();
  held_.clear();
}

const PricedSplit& LayoutBounds::split_of(const LayoutFamily& family, const LayoutSwitches& switches) {
  const PricedSplit*& split = splits_[static_cast<unsigned>(switches.overlap_tensor) +
                                      tensor_overlaps * ((switches.recomputation == Recomputation::modules ? 1u : 0u) +
                                                         2u * static_cast<unsigned>(switches.in_machine))];
  if (split == nullptr) split = &tables_.split_of(layout_of(family, switches));
  return *split;
}

const LayoutBounds::Staged& LayoutBounds::staged(const LayoutFamily& family, const LayoutSwitches& switches) {
  enter(family);
  const std::size_t r = static_cast<std::size_t>(switches.recomputation) +
                        static_cast<std::size_t>(switches.overlap_tensor) * recomputation_count;
  std::optional<Staged>& slot =
      staged_[static_cast<std::size_t>(switches.in_machine) * tensor_overlaps * recomputation_count * 8 + r * 8 +
              static_cast<std::size_t>(switches.zero) * 2 + (switches.overlap_gradients ? 1u : 0u)];
  if (slot) return *slot;
  Layout layout = layout_of(family, switches);
  layout.stage_units = divisions_[r];  // sharding does not move units
  slot = staged_as(family, switches, layout);
  if (divisions_[r].empty())
    for (const VirtualStage& s : slot->split.stages) divisions_[r].push_back(s.units);
  return *slot;
}

LayoutBounds::Staged LayoutBounds::staged_as(const LayoutFamily& family, const LayoutSwitches& switches,
                                             const Layout& layout) {
  Staged made;
  ShardedMessages least;
  const std::vector<PlanSpec>& plans = families_.gradients();
  if (std::any_of(plans.begin(), plans.end(), [](const PlanSpec& plan) { return !plan.modifiers.empty(); }))
    least.reduce = least.gather = std::vector<ModifiedMessage>(tables_.workload.units.size(), {.share = 0});
  made.split = staged_split(tables_.workload, split_of(family, switches), layout,
                            static_cast<std::uint32_t>(family.pipeline * family.chunks), least);
  bound_memory(family, layout, made);
  bound_times(family, layout, made);
  return made;
}

namespace {

LayoutSwitches recomputing(LayoutSwitches switches, Recomputation r) {
  switches.recomputation = r, switches.some_blocks = false, switches.modules = 0;
  return switches;
}

}  // namespace

Bytes LayoutBounds::memory_of_blocks(const LayoutFamily& family, const LayoutSwitches& switches, std::int64_t blocks) {
  const std::vector<VirtualStage>& none = staged(family, recomputing(switches, Recomputation::none)).split.stages;
  Layout layout = layout_of(family, switches, static_cast<std::uint32_t>(blocks));
  // What a stage holds before ZeRO divides it depends on no other switch.
  const std::pair<TensorOverlap, std::int64_t> key{switches.overlap_tensor, blocks};
  auto held = held_.find(key);
  if (held == held_.end()) {
    Layout whole = layout;
    whole.zero = 0, whole.shard = whole.backward_shard = 0;
    for (const VirtualStage& s : none) whole.stage_units.push_back(s.units);
    held = held_.emplace(key, Staged{}).first;
    held->second.split = staged_split(tables_.workload, split_of(family, switches), whole,
                                      static_cast<std::uint32_t>(family.pipeline * family.chunks));
  }
  held->second.memory = Bytes(0);
  bound_memory(family, layout, held->second);
  return held->second.memory;
}

LayoutBounds::Staged LayoutBounds::with_blocks(const LayoutFamily& family, const LayoutSwitches& switches,
                                               std::int64_t blocks) {
  Layout layout = layout_of(family, switches, static_cast<std::uint32_t>(blocks));
  // Units are dealt out as without recomputation.
  for (const VirtualStage& s : staged(family, recomputing(switches, Recomputation::none)).split.stages)
    layout.stage_units.push_back(s.units);
  return staged_as(family, switches, layout);
}

std::int64_t LayoutBounds::most_blocks(const LayoutFamily& family, const LayoutSwitches& switches) {
  const Staged& none = staged(family, recomputing(switches, Recomputation::none));
  const Blocks blocks(tables_.workload, split_of(family, switches));
  std::int64_t most = 0;
  for (const VirtualStage& s : none.split.stages) most = std::max(most, blocks.among(s.first, s.units) - 1);
  return most;
}

LayoutBounds::BlockCounts LayoutBounds::blocks_of(const LayoutFamily& family, const LayoutSwitches& switches) {
  const Staged& none = staged(family, recomputing(switches, Recomputation::none));
  BlockCounts found{.most = most_blocks(family, switches)};
  const Bytes cap = tables_.memory_cap();
  if (cap <= Bytes(0) || none.memory <= cap) return found;
  std::int64_t fits = found.most + 1;  // the fewest that may fit are in [least, fits]
  while (found.least < fits) {
    const std::int64_t middle = found.least + (fits - found.least) / 2;
    if (memory_of_blocks(family, switches, middle) <= cap) fits = middle;
    else found.least = middle + 1;
  }
  return found;
}

void LayoutBounds::bound_times(const LayoutFamily& family, const Layout& layout, Staged& s) const {
  const PipelineShape shape = shape_of(family);
  const bool split =
      std::find(splitting_.begin(), splitting_.end(), std::pair(family.schedule, true)) != splitting_.end();
  const std::size_t stages = s.split.chunks.size();
  const auto forward = [](const ChunkTimes& c) { return c.forward - c.beside_forward; };
  const auto returned = [&](const ChunkTimes& c) {
    return split ? c.input_gradient : c.input_gradient + c.weight_gradient - c.beside_backward;
  };
  s.meanwhile = s.split.stages.front().parts.meanwhile * static_cast<double>(family.micro_batches);
  // Nothing is sent between neighbours on one device. Those of several copies are never.
  const bool turns =
      family.schedule->copies == 1 && shape.chunks > 1 &&
      family.schedule->place(shape, shape.stages - 1, 0) + 1 == family.schedule->place(shape, shape.stages - 1, 1);
  const auto apart = [&](std::size_t v) { return !turns || v + 1 != shape.stages; };
  // Ways from the start to each virtual stage, and back from it to the end of the first one.
  std::vector<Seconds> to(stages), back(stages);
  for (std::size_t v = 1; v < stages; ++v) {
    const ChunkTimes &before = s.split.chunks[v - 1], &own = s.split.chunks[v];
    to[v] = to[v - 1] + forward(before) + (apart(v - 1) ? before.send_forward : Seconds(0));
    back[v] = back[v - 1] + (apart(v - 1) ? own.send_backward : Seconds(0)) + returned(before);
  }
  const ChunkTimes& last = s.split.chunks.back();
  const Seconds of_first_weights = split ? s.split.chunks.front().weight_gradient : Seconds(0);
  const Seconds path = to.back() + forward(last) + returned(last) + back.back() + of_first_weights;
  const bool one_copy = family.schedule->copies == 1;
  const double m = static_cast<double>(family.micro_batches) / family.schedule->copies;
  for (const bool overlap : {false, true}) {
    Seconds& first_end = s.first_end[overlap];
    if (one_copy) first_end = path;
    Seconds& iteration = s.iteration[overlap];
    for (std::uint32_t d = 0; d < shape.stages; ++d) {
      Seconds work, returning, sent, last_send;
      std::uint32_t lowest = static_cast<std::uint32_t>(stages);
      double parameters = 0;
      for (std::uint32_t c = 0; c < shape.chunks; ++c) {
        const std::uint32_t v = family.schedule->place(shape, d, c);
        const ChunkTimes& times = s.split.chunks[v];
        work += forward(times) + returned(times) + (split ? times.weight_gradient : Seconds(0));
        returning += forward(times) + returned(times);
        parameters += s.split.stages[v].parameters;
        lowest = std::min(lowest, v);
        // A sender that waits; where neighbours are on the same device nothing is sent.
        if (overlap || !one_copy) continue;
        const Seconds onward = v + 1 < stages && apart(v) ? times.send_forward : Seconds(0);
        const Seconds returns = v > 0 && apart(v - 1) ? times.send_backward : Seconds(0);
        sent += onward + returns;
        last_send = std::max({last_send, onward, returns});
      }
      const Seconds waited = std::max(Seconds(0), sent * m - last_send);
      if (one_copy)
        first_end = std::max(first_end, to[lowest] + returning * m + waited + back[lowest] + of_first_weights);
      const Seconds end = (one_copy ? to[lowest] : Seconds(0)) + work * m + waited;
      iteration = std::max(iteration, end + std::max(Seconds(0), update_of(layout, parameters) - s.meanwhile));
      if (lowest == 0) first_end = std::max(first_end, end);
    }
    iteration = std::max(iteration, first_end + std::max(Seconds(0), s.update - s.meanwhile));
  }
}

void LayoutBounds::bound_memory(const LayoutFamily& family, const Layout& layout, Staged& s) const {
  const PipelineShape shape = shape_of(family);
  const double first_kept = family.schedule->textbook(shape, Seconds(1), Seconds(1), Seconds(1)).kept;
  const auto last = static_cast<std::uint32_t>(s.split.stages.size() - 1);
  std::vector<std::uint32_t> held(shape.chunks);
  for (std::uint32_t d = 0; d < shape.stages; ++d) {
    for (std::uint32_t c = 0; c < shape.chunks; ++c) held[c] = family.schedule->place(shape, d, c);
    std::sort(held.begin(), held.end());
    StageMemoryInput in;
    for (const std::uint32_t v : held) add(in, s.split.stages[v]);
    if (held.back() == last && held.front() != 0) add_tied(in, s.split.stages[last].tied_parameters);
    in.micro_batches_kept = kept_at_least(*family.schedule, shape, first_kept, d);
    s.memory = std::max(s.memory, memory_of(tables_.workload, layout, in, tables_.options.memory).total());
    if (held.front() != 0) continue;
    s.update = update_of(layout, in.parameters);
    if (!s.first_content.empty()) continue;
    for (const std::uint32_t v : held)
      for (std::uint32_t u = 0; u < s.split.stages[v].units; ++u)
        s.first_content.push_back(tables_.workload.units[s.split.stages[v].first + u]);
  }
}

LayoutBound LayoutBounds::of(const LayoutFamily& family, const LayoutSwitches& switches) {
  (void)returns_input_gradients(*family.schedule);
  if (switches.some_blocks) {
    const LayoutSwitches not_again = recomputing(switches, Recomputation::none);
    const LayoutSwitches all_again = recomputing(switches, Recomputation::full);
    const Seconds least = of(family, not_again).iteration;
    const Bytes memory = of(family, all_again).memory;
    const auto same = [](const VirtualStage& a, const VirtualStage& b) { return a.units == b.units; };
    const bool alike =
        std::ranges::equal(staged(family, not_again).split.stages, staged(family, all_again).split.stages, same);
    // Dealt out as without recomputation, stages may hold less than where all blocks are done again.
    if (alike) return {least, memory};
    return {least, memory_of_blocks(family, switches, std::max<std::int64_t>(1, most_blocks(family, switches)))};
  }
  const Staged& s = staged(family, switches);
  return rounded_down(
      {tables_.whole_step(s.iteration[switches.overlap_pipeline], layout_of(family, switches)).iteration, s.memory});
}

Answer<LayoutBound> LayoutBounds::with_gradients(const LayoutFamily& family, const LayoutSwitches& switches) {
  const LayoutBound bound = of(family, switches);
  if (switches.some_blocks) {
    const Bytes cap = tables_.memory_cap();
    if (cap <= Bytes(0) || staged(family, recomputing(switches, Recomputation::none)).memory <= cap) return bound;
    const BlockCounts blocks = blocks_of(family, switches);
    if (blocks.least > blocks.most) return LayoutBound{bound.iteration, Bytes(std::numeric_limits<double>::max())};
    const Staged s = with_blocks(family, switches, blocks.least);
    const Seconds end = s.iteration[switches.overlap_pipeline];
    return rounded_down({tables_.whole_step(end, layout_of(family, switches)).iteration, s.memory});
  }
  if (family.schedule->copies > 1 && family.pipeline > 1) return bound;
  const Staged& s = staged(family, switches);
  const Answer<Seconds> exposed =
      exposed_gradients(tables_.workload, split_of(family, switches), layout_of(family, switches),
                        families_.gradients()[switches.gradients], s.first_content, loop_);
  if (!exposed) return Inapplicable{exposed.reason()};
  const Seconds end = s.first_end[switches.overlap_pipeline] + std::max(Seconds(0), *exposed + s.update - s.meanwhile);
  const LayoutBound own = rounded_down({tables_.whole_step(end, layout_of(family, switches)).iteration, s.memory});
  return LayoutBound{std::max(bound.iteration, own.iteration), bound.memory};
}

}  // namespace stepcast
