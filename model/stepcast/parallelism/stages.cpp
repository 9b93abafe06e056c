// The units of a stage one after the other: their passes, what sharding adds, and what they keep.
#include <stepcast/base/statistics.hpp>
#include <stepcast/parallelism/sharded_pass.hpp>
#include <stepcast/parallelism/stage_division.hpp>
#include <stepcast/parallelism/stages.hpp>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace stepcast {

PassParts& PassParts::operator+=(const PassParts& o) {
  compute += o.compute;
  recomputation += o.recomputation;
  tensor += o.tensor;
  context += o.context;
  ring += o.ring;
  expert += o.expert;
  sharding += o.sharding;
  copies += o.copies;
  idle += o.idle;
  paced += o.paced;
  meanwhile += o.meanwhile;
  return *this;
}

namespace {

UnitPasses copies_of(const PricedUnit& u, int zero) {
  const auto stage = static_cast<std::size_t>(zero);
  return {u.copies_forward[stage], u.copies_backward[stage]};
}

/// What the backward pass does again.
struct Again {
  Seconds compute;
  UnitExchanges exchanges;
  Seconds ring;
};
Again again(const PricedUnit& u, Recomputation r) {
  if (r == Recomputation::full && u.checkpointed) {
    Again all{u.forward - u.unread, u.forward_exchanges, u.forward_ring};
    all.exchanges.tensor -= u.unread_tensor;
    return all;
  }
  if (r == Recomputation::modules) return {u.modules, {}, {}};
  if (r == Recomputation::operators) return {u.operators, {u.gathered_again, {}, {}}, {}};
  // Attention that is done again needs the keys and values of the other devices again.
  if (r == Recomputation::selective) return {u.attention, {{}, u.forward_exchanges.context, {}}, u.forward_ring};
  return {};
}

PassParts parts_of(const PricedUnit& u, Recomputation r, int zero) {
  const Again a = again(u, r);
  return {u.forward + u.input_gradient + u.weight_gradient,
          a.compute,
          u.forward_exchanges.tensor + u.backward_exchanges.tensor + a.exchanges.tensor + u.change_forward +
              u.change_backward,
          u.forward_exchanges.context + u.backward_exchanges.context + a.exchanges.context,
          u.forward_exchanges.expert + u.backward_exchanges.expert + a.exchanges.expert,
          {},
          copies_of(u, zero).forward + copies_of(u, zero).backward,
          u.forward_ring + u.backward_ring + a.ring,
          u.forward_idle + u.backward_idle,
          u.paced,
          {}};
}

/// The passes of a micro-batch where the host issues kernels and the device runs them: the stream with the larger sum
/// sets the pace, unless the host waits for the device; then it runs ahead within the micro-batch, of which the device
/// ends the forward pass no sooner than the host has issued it.
UnitPasses paced(const UnitPasses& host, const UnitPasses& device, bool host_waits) {
  const Seconds issued = host.forward + host.backward, ran = device.forward + device.backward;
  if (!host_waits) return issued > ran ? host : device;
  const Seconds forward = std::max(host.forward, device.forward);
  return {forward, std::max({issued, ran, host.forward + device.backward}) - forward};
}

/// What the host needs for a unit, under PyTorch's fully_shard its part of that with it, which ZeRO-1 is where it
/// gathers ahead.
UnitPasses issued(const PricedUnit& u, Recomputation r, int zero, bool ahead) {
  UnitPasses issue{u.forward_issue, u.backward_issue + again(u, r).compute};
  if (zero >= 2 || (zero == 1 && ahead)) issue.forward += u.forward_hooks, issue.backward += u.backward_hooks;
  return issue;
}

/// Whether ZeRO divides some unit over several ranks, in a stage of which that is true.
template <class Stage>
bool divides_some(const PricedSplit& split, const Layout& l, const Stage& stage) {
  for (std::uint32_t unit = 0; unit < split.units.size(); ++unit)
    if (stage(split.layout(unit, l).zero_in_passes()) && split.own(unit).sharding().members > 1) return true;
  return false;
}

/// The units of one virtual stage, in forward order, whose gathers and reductions run beside them; and what the host
/// issues meanwhile.
class StagePasses {
 public:
  StagePasses(const Workload& w, const PricedSplit& split, const Layout& l, const ShardedMessages& messages)
      : workload_(w),
        split_(split),
        layout_(l),
        messages_(messages),
        sharded_(divides_gradients(split, l)),
        gathers_(gathers_first(w, split, l)),
        hooked_(by_fully_shard(w, l) && divides_some(split, l, [](int zero) { return zero == 1; }) &&
                std::ranges::any_of(
                    split.units, [](const PricedUnit& u) { return u.forward_hooks + u.backward_hooks > Seconds(0); })),
        waits_(host_waits(w, split, l)) {}

  /// Whether a stage takes something else than its units one by one.
  [[nodiscard]] bool any() const { return sharded_ || hooked_ || host_is_ahead(); }
  /// Whether the first forward pass of a step gathers what the others find there.
  [[nodiscard]] bool gathers() const { return gathers_ || makes_copy(); }
  void add(std::uint32_t number, std::uint32_t unit, Recomputation recomputation) {
    const PricedUnit& u = split_.units[unit];
    const ShardedTransfers sent = sharded_transfers(workload_, split_, layout_, number, unit, messages_);
    const int zero = split_.layout(unit, layout_).zero_in_passes();
    const UnitPasses elapsed = unit_passes(u, recomputation, zero);
    const bool waits = u.forward_idle != Seconds(0) || u.backward_idle != Seconds(0);
    const UnitPasses passes = waits ? unit_passes(on_device(u), recomputation, zero) : elapsed;
    forward_.push_back({sent.gather.time(), passes.forward, {}});
    if (gathers()) first_.push_back({sent.first.time(), passes.forward, {}});
    backward_.push_back({sent.again.time(), passes.backward + sent.codec, sent.reduce.time() + sent.across.time()});
    if (layout_.overlap_expert) {
      forward_beside_.push_back(forward_.back());
      forward_beside_.back().compute -= u.beside_forward;
      backward_beside_.push_back(backward_.back());
      backward_beside_.back().compute -= u.beside_backward;
    }
    const UnitPasses issue = issued(u, recomputation, zero, gathers_);
    host_.forward += issue.forward;
    host_.backward += issue.backward;
    one_by_one_ += elapsed.forward - passes.forward + elapsed.backward - passes.backward;
    if (workload_.on_host) copies_ += sent.gather.copies + sent.again.copies + sent.reduce.copies;
  }
  /// Of all units; what of it the device waits for the host, and what it would if the host did not run ahead from unit
  /// to unit.
  struct Passes {
    UnitPasses elapsed, waits;
    Seconds one_by_one;
  };
  [[nodiscard]] Passes passes() {
    std::reverse(backward_.begin(), backward_.end());
    const UnitPasses device{end_of(forward_), end_of(backward_)};
    const UnitPasses elapsed = paced(host_, device, workload_.host_waits);
    const Seconds idle = elapsed.forward - device.forward + (elapsed.backward - device.backward);
    constexpr double rounding = 1e-9;
    if (idle <= rounding * elapsed.backward) return {elapsed, {}, one_by_one_};
    return {elapsed, {elapsed.forward - device.forward, elapsed.backward - device.backward}, one_by_one_};
  }
  /// By which passes of so long are shorter beside the other one (ChunkTimes::beside_forward): tokens that travel there
  /// hold up neither what is gathered meanwhile nor the host.
  [[nodiscard]] UnitPasses saved_beside(const UnitPasses& elapsed) {
    if (forward_beside_.empty()) return {};
    std::reverse(backward_beside_.begin(), backward_beside_.end());
    const UnitPasses device{end_of(forward_beside_), end_of(backward_beside_)};
    const UnitPasses beside = paced(host_, device, workload_.host_waits);
    return {std::max(Seconds(0), elapsed.forward - beside.forward),
            std::max(Seconds(0), elapsed.backward - beside.backward)};
  }
  /// VirtualStage::longer_first beside forward passes of `others`, of a stage to which a step's first micro-batch comes
  /// so late.
  [[nodiscard]] Seconds longer_first(Seconds others, Seconds comes) {
    if (!makes_copy()) {
      for (ShardedUnit& u : first_) {
        const Seconds before = std::min(comes, u.gather);
        u.gather -= before, comes -= before;
      }
    }
    return std::max(Seconds(0), end_of(first_, first_in_flight(layout_)) - others);
  }
  /// Of all gathers of that pass.
  [[nodiscard]] Seconds gathered_first() const {
    Seconds sum;
    for (const ShardedUnit& u : first_) sum += u.gather;
    return sum;
  }
  [[nodiscard]] Seconds copies() const { return copies_; }
  [[nodiscard]] bool sharded() const { return sharded_; }
  [[nodiscard]] bool host_is_ahead() const { return workload_.shape && !waits_; }

 private:
  /// Whether the first forward pass of a step gathers over all ranks, and the others do not.
  [[nodiscard]] bool makes_copy() const { return split_.backward && keeps_second_copy(workload_); }
  [[nodiscard]] static bool gathers_first(const Workload& w, const PricedSplit& split, const Layout& l) {
    return gathers_ahead(w, l) && divides_some(split, l, gathers_updates);
  }
  [[nodiscard]] Seconds end_of(const std::vector<ShardedUnit>& units) const {
    return end_of(units, layout_.units_in_flight);
  }
  [[nodiscard]] Seconds end_of(const std::vector<ShardedUnit>& units, std::int64_t in_flight) const {
    if (overlaps_sharding(workload_, layout_))
      return sharded_pass(units, in_flight, split_.data->cluster.contention.compute_under_communication);
    Seconds sum;
    for (const ShardedUnit& u : units) sum += u.gather + u.compute + u.reduce;
    return sum;
  }

  const Workload& workload_;
  const PricedSplit& split_;
  const Layout& layout_;
  const ShardedMessages& messages_;
  bool sharded_, gathers_, hooked_, waits_;
  std::vector<ShardedUnit> forward_, first_, backward_;        // on the device
  std::vector<ShardedUnit> forward_beside_, backward_beside_;  // the same beside the other pass
  UnitPasses host_;                                            // what it needs for them
  Seconds one_by_one_, copies_;
};

/// The device of each virtual stage; of a schedule with two copies of each, that of the first.
std::vector<std::uint32_t> devices_of(const Layout& l, std::uint32_t virtual_stages) {
  std::vector<std::uint32_t> device(virtual_stages);
  if (l.schedule == nullptr || l.chunks == 1 || l.schedule->copies > 1) {
    for (std::uint32_t v = 0; v < virtual_stages; ++v) device[v] = v % static_cast<std::uint32_t>(l.pipeline);
    return device;
  }
  const PipelineShape shape =
      pipeline_shape(*l.schedule, static_cast<std::uint32_t>(l.pipeline), static_cast<std::uint32_t>(l.chunks), 1);
  for (std::uint32_t d = 0; d < shape.stages; ++d)
    for (std::uint32_t c = 0; c < shape.chunks; ++c)
      if (const std::uint32_t v = l.schedule->place(shape, d, c); v < virtual_stages) device[v] = d;
  return device;
}

std::vector<std::uint32_t> first_units(std::span<const std::uint32_t> units) {
  std::vector<std::uint32_t> first{0};
  for (const std::uint32_t n : units) first.push_back(first.back() + n);
  return first;
}

/// By what each unit takes in both passes.
std::vector<std::uint32_t> division_by_time(const Workload& workload, const PricedSplit& split, const Layout& l,
                                            std::span<const std::uint32_t> device, std::vector<double>& weight) {
  std::vector<Seconds> of_kind, time;
  for (const PricedUnit& u : split.units) {
    const auto unit = static_cast<std::uint32_t>(of_kind.size());
    // Of some blocks every stage does as many again, which moves none of them.
    const Recomputation r = l.recomputed_blocks > 0 ? Recomputation::none : split.layout(unit, l).recomputation;
    // What ZeRO adds to passes is left out, so that layouts that differ in it alone have the same stages.
    const UnitPasses passes = unit_passes(u, r, {}), issue = issued(u, r, 0, false);
    of_kind.push_back(std::max(passes.forward + passes.backward, issue.forward + issue.backward));
  }
  for (const std::uint32_t unit : split.sequence(workload)) time.push_back(of_kind[unit]);
  weight = weights_of(time);
  std::vector<std::uint32_t> first = stage_division(weight, static_cast<std::uint32_t>(device.size()));
  return l.chunks > 1 ? sparing_the_busiest(weight, std::move(first), device) : first;
}

/// First unit of each virtual stage, and the number of units.
struct Division {
  std::vector<std::uint32_t> first;
  bool told_by_time = false;  ///< by time, where the program would deal units out otherwise
};
Division division(const Workload& workload, const PricedSplit& split, const Layout& l, std::uint32_t virtual_stages) {
  if (!l.stage_units.empty()) return {first_units(l.stage_units)};
  std::vector<std::uint32_t> usual;
  if (workload.shape) usual = first_units(usual_stages(*workload.shape, virtual_stages));
  const bool known = usual.size() > 1 && usual.back() == split.sequence(workload).size();
  if (known && !l.stages_by_time) return {std::move(usual)};
  const std::vector<std::uint32_t> device = devices_of(l, virtual_stages);
  std::vector<double> weight;
  std::vector<std::uint32_t> by_time = division_by_time(workload, split, l, device, weight);
  if (!known) return {std::move(by_time)};
  const double least = heaviest_device(weight, by_time, device);
  if (heaviest_device(weight, usual, device) <= least * (1 + indifference)) return {std::move(usual)};
  return {std::move(by_time), true};
}

std::string_view where_modules_are(RecomputedModule m) {
  switch (m) {
    case RecomputedModule::layernorm:
      return "mixtures of experts and latent attention do, other norms are part of the product behind them";
    case RecomputedModule::moe_act:
      return "mixtures of experts do";
    case RecomputedModule::mla_up_proj:
      return "latent attention does";
  }
  return {};
}

/// What the recomputation leaves to a unit at work beyond what it keeps, gradients apart.
Bytes beyond_kept(const PricedUnit& u, Recomputation r) {
  return std::max(Bytes(0), u.working - u.kept[static_cast<std::size_t>(r)]);
}

/// The same unit as fully_shard sees it, a group of its own or a part of the root's.
void add(ShardedUnits& units, const PricedUnit& u, Recomputation r) {
  const Bytes kept = u.kept[static_cast<std::size_t>(r)], working = beyond_kept(u, r);
  if (u.checkpointed) {
    ++units.blocks;
    units.block = std::max(units.block, u.parameters);
    units.block_kept = std::max(units.block_kept, kept);
    units.block_working = std::max(units.block_working, working);
  } else {
    units.root += u.parameters;
    units.end = std::max(units.end, u.parameters + u.tied_parameters);
    units.end_kept += kept;
    units.end_working = std::max(units.end_working, working);
  }
}

/// Blocks that are done again together: the input of the first is kept, and in the backward pass the activations of all
/// are there at once.
class TogetherAgain {
 public:
  explicit TogetherAgain(const Layout& l) : most_(l.recomputed_together) {}
  /// Of a unit that was added to the stage as fully recomputed.
  void add(VirtualStage& stage, const PricedUnit& u) {
    if (most_ == 1 || !u.checkpointed) return;
    const Bytes input = u.kept[static_cast<std::size_t>(Recomputation::full)];
    if (in_group_ == most_) in_group_ = 0;
    if (in_group_++ == 0) first_input_ = input, activations_ = largest_ = Bytes(0);
    else stage.kept -= input;
    activations_ += u.kept[static_cast<std::size_t>(Recomputation::none)];
    largest_ = std::max(largest_, beyond_kept(u, Recomputation::none));
    const Bytes working = activations_ + largest_ - first_input_;
    stage.working = std::max(stage.working, working + u.gradient_at_work);
    stage.sharded.block_working = std::max(stage.sharded.block_working, working);
  }

 private:
  std::int64_t most_, in_group_ = 0;
  Bytes first_input_, activations_, largest_;
};

/// Why modules cannot be done again by themselves; empty: they can.
std::string module_flaw(const Workload& workload, const PricedSplit& split, std::uint8_t modules) {
  if (!workload.shape)
    return "recompute=" + modules_text(modules) +
           " does some modules again, and a traced job has layers: describe the model";
  for (std::size_t m = 0; m < recomputed_module_count; ++m)
    if ((modules >> m & 1) != 0 &&
        std::ranges::none_of(split.units, [&](const PricedUnit& u) { return u.of_module[m] > Bytes(0); }))
      return "recompute=" + std::string(name_of(static_cast<RecomputedModule>(m))) +
             ": the blocks of this model have no such module that keeps something by itself; " +
             std::string(where_modules_are(static_cast<RecomputedModule>(m)));
  return {};
}

}  // namespace

void add(VirtualStage& stage, ChunkTimes& times, const PricedUnit& u, Recomputation r, int zero) {
  const UnitPasses passes = unit_passes(u, r, zero);
  times.forward += passes.forward;
  times.input_gradient += passes.backward - u.weight_gradient;
  times.weight_gradient += u.weight_gradient;
  times.beside_forward += u.beside_forward;
  times.beside_backward += u.beside_backward;
  stage.parts += parts_of(u, r, zero);
  stage.parameters += u.parameters;
  stage.expert_parameters += u.expert_parameters;
  stage.tied_parameters += u.tied_parameters;
  stage.largest_unit = std::max(stage.largest_unit, u.parameters);
  stage.kept += u.kept[static_cast<std::size_t>(r)];
  stage.working = std::max(stage.working, beyond_kept(u, r) + u.gradient_at_work);
  stage.standing_gradient = std::max(stage.standing_gradient, u.standing_gradient);
  add(stage.sharded, u, r);
  stage.boundary = u.boundary;
  stage.largest_boundary = std::max(stage.largest_boundary, u.boundary);
}

void add(StageMemoryInput& device, const VirtualStage& stage) {
  device.parameters += stage.parameters;
  device.expert_parameters += stage.expert_parameters;
  device.kept_per_micro_batch += stage.kept;
  device.working = std::max(device.working, stage.working);
  device.standing_gradient = std::max(device.standing_gradient, stage.standing_gradient);
  device.largest_unit = std::max(device.largest_unit, stage.largest_unit);
  device.sharded += stage.sharded;
  device.boundary = std::max(device.boundary, stage.boundary);
  device.largest_boundary = std::max(device.largest_boundary, stage.largest_boundary);
}

void add_tied(StageMemoryInput& device, double elements) {
  device.parameters += elements;
  device.sharded.root += elements;
}

Blocks::Blocks(const Workload& w, const PricedSplit& split) : workload_(w), split_(split) {
  std::vector<std::int64_t> count(w.kinds.size());
  for (const std::uint32_t kind : w.units) ++count[kind];
  most_ = static_cast<std::uint32_t>(std::max_element(count.begin(), count.end()) - count.begin());
}

bool Blocks::is_block(std::uint32_t unit) const {
  if (!workload_.shape) return workload_.units[unit] == most_;
  return split_.units[split_.sequence(workload_)[unit]].checkpointed;
}

std::int64_t Blocks::among(std::uint32_t first, std::uint32_t units) const {
  std::int64_t count = 0;
  for (std::uint32_t u = first; u < first + units; ++u) count += is_block(u);
  return count;
}

std::vector<Recomputation> Blocks::again(std::int64_t recomputed, std::uint32_t first, std::uint32_t units) const {
  std::vector<Recomputation> again(units, Recomputation::none);
  for (std::uint32_t u = 0; u < units && recomputed > 0; ++u) {
    if (!is_block(first + u)) continue;
    again[u] = Recomputation::full;
    --recomputed;
  }
  return again;
}

bool divides_gradients(const PricedSplit& split, const Layout& l) {
  return l.offloads(Offloaded::parameters) || divides_some(split, l, [](int zero) { return zero >= 2; });
}

bool gathers_ahead(const Workload& w, const Layout& l) {
  const bool waits = w.shape && w.shape->kernels == KernelSet::deepspeed;
  return l.overlap_gather && !l.whole_tensors && overlaps_sharding(w, l) && !waits;
}

bool by_fully_shard(const Workload& w, const Layout& l) {
  if (w.shape) return has_copies(w) && gathers_ahead(w, l);
  return gathers_ahead(w, l);
}

bool sends_in_passes(const Workload& w, const PricedSplit& split, const Layout& l) {
  return divides_gradients(split, l) ||
         (gathers_ahead(w, l) && divides_some(split, l, [](int zero) { return zero == 1; }));
}

namespace {

/// A unit's messages under ZeRO-2 and 3, one by one.
class UnitTransfers {
 public:
  UnitTransfers(const Workload& w, const PricedSplit& split, const Layout& layout, std::uint32_t unit)
      : workload_(w),
        unit_(split.units[unit]),
        layout_(split.layout(unit, layout)),
        own_(split.own(unit)),
        host_(host_of(split.data->cluster).copies),
        from_host_(layout_.offloads(Offloaded::parameters)),
        shares_(own_.sharding().members > 1),
        ahead_(stepcast::gathers_ahead(w, layout)),
        hidden_(overlaps_sharding(w, layout) && (layout.units_in_flight > 1 || !gathers())) {}

  [[nodiscard]] bool gathers() const { return layout_.zero == 3 && (shares_ || from_host_); }
  [[nodiscard]] bool gathers_ahead() const { return ahead_ && shares_ && gathers_updates(layout_.zero); }
  [[nodiscard]] bool reduces() const { return layout_.zero >= 2 && (shares_ || from_host_); }

  [[nodiscard]] ShardedMessage gather(ShardedOver over, const ModifiedMessage& message) const {
    const bool quantized = shares_ && layout_.quantized_weights;
    constexpr double code = 1, scale = 4.0 / 8000;  // one for 8,000 elements or more
    ShardedMessage out =
        sent(over, Operation::all_gather, (quantized ? code : workload_.bytes_of_weight) * message.share);
    if (unit_.parameters > 0) out.overhead = message.overhead;
    out.copies = beside(Operation::all_gather, workload_.bytes_of_weight);
    if (!quantized) return out;
    out.overhead += sent(over, Operation::all_gather, scale).dense_time;
    out.copies += over == ShardedOver::backward ? unit_.quantizing.gather_again : unit_.quantizing.gather;
    return out;
  }
  [[nodiscard]] ShardedMessage reduce(const ModifiedMessage& message) const {
    ShardedMessage out = sent(ShardedOver::all, Operation::reduce_scatter, workload_.bytes_of_gradient * message.share);
    if (unit_.parameters > 0) out.overhead = message.overhead;
    out.copies = beside(Operation::reduce_scatter, workload_.bytes_of_gradient);
    return out;
  }
  /// Within machines, and behind it across them what each rank has of the sum: matrix by matrix, each with its scales.
  [[nodiscard]] ShardedMessage reduce_codes(ShardedOver over) const {
    constexpr double code = 0.5, scale = 4;
    const bool within = over == ShardedOver::machine;
    const double share = within ? 1 : 1 / static_cast<double>(own_.machine->members);
    const double matrices = std::max(1.0, unit_.quantizing.matrices);
    const PricedGroup& group = ranks(over);
    ShardedMessage out{.over = over, .operation = Operation::all_to_all};
    out.dense = Bytes(unit_.parameters * code * share);
    out.dense_time = exchange(group, out.operation, out.dense / matrices, hidden_) * matrices;
    out.overhead =
        exchange(group, out.operation, Bytes(unit_.quantizing.scales * scale * share) / matrices, hidden_) * matrices;
    if (within) out.copies = beside(Operation::reduce_scatter, workload_.bytes_of_gradient) + unit_.quantizing.reduce;
    return out;
  }

 private:
  [[nodiscard]] const PricedGroup& ranks(ShardedOver over) const {
    switch (over) {
      case ShardedOver::all:
        break;
      case ShardedOver::backward:
        return *own_.backward;
      case ShardedOver::machine:
        return *own_.machine;
      case ShardedOver::machines:
        return *own_.machines;
    }
    return own_.sharding();
  }
  [[nodiscard]] ShardedMessage sent(ShardedOver over, Operation operation, double bytes) const {
    ShardedMessage out{.over = over, .operation = operation};
    if (!(unit_.parameters > 0)) return out;
    const bool all = over == ShardedOver::all;
    const double experts = all ? unit_.expert_parameters : 0;
    out.dense = Bytes((unit_.parameters - experts) * bytes);
    out.expert = Bytes(experts * bytes);
    out.dense_time = exchange(ranks(over), operation, out.dense, hidden_);
    if (all) out.expert_time = exchange(own_.expert_sharding(), operation, out.expert, hidden_);
    return out;
  }
  /// What is copied beside a collective: into what is scattered, out of what was gathered (the host also copies into
  /// what is gathered), and between the device and the host that holds its part.
  [[nodiscard]] Seconds beside(Operation operation, double bytes) const {
    const Workload& w = workload_;
    const double copies = operation != Operation::all_gather ? w.copy_in
                          : w.on_host                        ? w.copy_in + w.copy_out
                                                             : w.copy_out;
    const double experts = own_.expert_sharding().members > 1 ? 0 : unit_.expert_parameters;
    const Seconds copied((unit_.parameters - experts) * (w.sharding + copies) * bytes);
    return (shares_ ? copied : Seconds(0)) + with_host(bytes);
  }
  /// The host holds whole weights where the kernels cast them, and their gradients.
  [[nodiscard]] Seconds with_host(double bytes) const {
    constexpr double whole = 4;
    if (!from_host_) return Seconds(0);
    const double shard = (unit_.parameters - unit_.expert_parameters) / static_cast<double>(own_.sharding().members) +
                         unit_.expert_parameters / static_cast<double>(own_.expert_sharding().members);
    return Bytes(shard * (has_copies(workload_) ? whole : bytes)) / host_;
  }

  const Workload& workload_;
  const PricedUnit& unit_;
  const Layout& layout_;
  const PricedSplit& own_;
  BytesPerSecond host_;
  bool from_host_, shares_, ahead_, hidden_;
};

}  // namespace

ShardedTransfers sharded_transfers(const Workload& w, const PricedSplit& split, const Layout& layout,
                                   std::uint32_t number, std::uint32_t unit, const ShardedMessages& messages) {
  const UnitTransfers unit_sends(w, split, layout, unit);
  const ModifiedMessage up = messages.reduce.empty() ? ModifiedMessage{} : messages.reduce[number];
  const ModifiedMessage down = messages.gather.empty() ? ModifiedMessage{} : messages.gather[number];
  const PricedSplit& own = split.own(unit);
  ShardedTransfers out;
  if (unit_sends.gathers()) {
    out.first = out.gather = unit_sends.gather(ShardedOver::all, down);
    out.again = own.backward ? unit_sends.gather(ShardedOver::backward, down) : out.gather;
    if (own.backward && keeps_second_copy(w)) out.gather = out.again;
  } else if (unit_sends.gathers_ahead()) {
    out.first = unit_sends.gather(ShardedOver::all, down);
    // Casts and copies of what the other passes find there.
    if (has_copies(w) && split.layout(unit, layout).zero == 1) out.first.copies += split.units[unit].copies_once;
  }
  if (unit_sends.reduces() && own.machine) {
    out.reduce = unit_sends.reduce_codes(ShardedOver::machine);
    out.across = unit_sends.reduce_codes(ShardedOver::machines);
  } else if (unit_sends.reduces()) {
    out.reduce = unit_sends.reduce(up);
    out.codec = up.codec;
  }
  return out;
}

UnitPasses unit_passes(const PricedUnit& u, Recomputation r, std::optional<int> zero) {
  const Again a = again(u, r);
  const UnitPasses copies = zero ? copies_of(u, *zero) : UnitPasses{};
  return {u.forward + u.forward_exchanges.sum() + u.change_forward + copies.forward,
          u.input_gradient + u.weight_gradient + u.backward_exchanges.sum() + a.compute + a.exchanges.sum() +
              u.change_backward + copies.backward};
}

Seconds exchange(const PricedGroup& group, Operation op, Bytes bytes, bool hidden) {
  if (group.members == 1 || bytes == Bytes(0)) return {};
  return group.cost(op, bytes) * (hidden ? group.cost.slow_down(op, bytes) : 1.0);
}

namespace {

/// What blocks keep goes to the host beside the forward pass, and returns beside the backward pass: each is as long as
/// its copies at least. Those of some blocks are spread over the pass of all, as Transformer Engine does.
void offload_activations(const Layout& l, VirtualStage& stage, ChunkTimes& times, BytesPerSecond copies) {
  const Seconds copied = kept_by_host(l, stage.kept, stage.sharded, 1) / copies;
  const Seconds backward = times.input_gradient + times.weight_gradient;
  // Passes beside others wait for the same copies.
  const auto saved = [&](Seconds alone, Seconds beside) {
    return std::max(alone, copied) - std::max(alone - beside, copied);
  };
  times.beside_forward = saved(times.forward, times.beside_forward);
  times.beside_backward = saved(backward, times.beside_backward);
  stage.copies.forward = std::max(Seconds(0), copied - times.forward);
  stage.copies.backward = std::max(Seconds(0), copied - backward);
  times.forward += stage.copies.forward;
  times.input_gradient += stage.copies.backward;
  stage.parts.copies += stage.copies.forward + stage.copies.backward;
}

}  // namespace

bool deals_by_device(const Layout& l) { return l.chunks > 1 && l.stage_units.empty(); }

StagedSplit staged_split(const Workload& workload, const PricedSplit& split, const Layout& l,
                         std::uint32_t virtual_stages, const ShardedMessages& messages) {
  const auto [first, told_by_time] = division(workload, split, l, virtual_stages);
  const std::span<const std::uint32_t> units = split.sequence(workload);
  StagedSplit out;
  out.told_by_time = told_by_time;
  out.stages.resize(virtual_stages);
  out.chunks.resize(virtual_stages);
  const bool some = l.recomputed_blocks > 0;
  std::optional<Blocks> blocks;
  if (some) blocks.emplace(workload, split);
  const auto add_sends = [&](std::uint32_t v) {
    ChunkTimes& times = out.chunks[v];
    times.send_backward = v > 0 ? split.units[units[first[v] - 1]].send : Seconds(0);
    times.send_forward = v + 1 < virtual_stages ? split.units[units[first[v + 1] - 1]].send : Seconds(0);
  };
  // When the first micro-batch comes to a stage, and how long before that its device's links are free of what earlier
  // chunks gather.
  Seconds comes;
  const std::vector<std::uint32_t> device = devices_of(l, virtual_stages);
  std::vector<Seconds> gathered(static_cast<std::size_t>(l.pipeline));
  const auto link_free = [&](std::uint32_t v) { return std::max(Seconds(0), comes - gathered[device[v]]); };
  // Most stages hold as many units of the same kinds as the one before, and take as long.
  const auto like_the_one_before = [&](std::uint32_t v) {
    if (v == 0 || !messages.reduce.empty() || !messages.gather.empty()) return false;
    const VirtualStage& before = out.stages[v - 1];
    if (before.longer_first > Seconds(0) || link_free(v) < before.gathered_first) return false;
    return std::ranges::equal(units.subspan(first[v - 1], first[v] - first[v - 1]),
                              units.subspan(first[v], first[v + 1] - first[v]));
  };
  std::int64_t most_blocks = 0;
  for (std::uint32_t v = 0; v < virtual_stages; ++v) {
    if (v > 0) comes += out.chunks[v - 1].forward + out.stages[v - 1].longer_first;
    VirtualStage& stage = out.stages[v];
    ChunkTimes& times = out.chunks[v];
    if (like_the_one_before(v)) {
      stage = out.stages[v - 1], times = out.chunks[v - 1];
      stage.first = first[v];
      add_sends(v);
      gathered[device[v]] += stage.gathered_first;
      continue;
    }
    stage.first = first[v];
    stage.units = first[v + 1] - first[v];
    StagePasses passes(workload, split, l, messages);
    std::vector<Recomputation> again;
    if (some) {
      again = blocks->again(l.recomputed_blocks, stage.first, stage.units);
      most_blocks = std::max(most_blocks, blocks->among(stage.first, stage.units));
    }
    TogetherAgain together(l);
    for (std::uint32_t u = first[v]; u < first[v + 1]; ++u) {
      const std::uint32_t unit = units[u];
      const Recomputation r = some ? again[u - first[v]] : split.layout(unit, l).recomputation;
      add(stage, times, split.units[unit], r, split.layout(unit, l).zero_in_passes());
      if (r == Recomputation::full) together.add(stage, split.units[unit]);
      if (passes.any() || passes.gathers()) passes.add(u, unit, r);
    }
    if (passes.any()) {
      const StagePasses::Passes all = passes.passes();
      const Seconds forward = all.elapsed.forward - times.forward;
      const Seconds backward = all.elapsed.backward - times.input_gradient - times.weight_gradient;
      const UnitPasses saved = passes.saved_beside(all.elapsed);
      times.beside_forward = saved.forward, times.beside_backward = saved.backward;
      times.forward += forward;
      times.input_gradient += backward;
      if (times.input_gradient < Seconds(0)) times.weight_gradient += std::exchange(times.input_gradient, Seconds(0));
      stage.parts.copies += passes.copies();
      stage.parts.compute -= all.one_by_one;
      stage.parts.sharding = forward + backward + all.one_by_one - passes.copies();
      stage.waits = all.waits;
      stage.parts.idle = all.waits.forward + all.waits.backward;
      if (passes.host_is_ahead()) stage.parts.meanwhile = stage.parts.idle, stage.parts.paced = Seconds(0);
      // A host that sets the pace issues what sharding adds, too, beside which the device sends.
      if (stage.parts.idle > Seconds(0) || !passes.sharded())
        stage.parts.compute += std::exchange(stage.parts.sharding, Seconds(0));
    }
    if (passes.gathers()) {
      stage.gathered_first = passes.gathered_first();
      stage.longer_first = passes.longer_first(times.forward, link_free(v));
      gathered[device[v]] += stage.gathered_first;
    }
    if (l.offloads(Offloaded::activations)) offload_activations(l, stage, times, host_of(split.data->cluster).copies);
    add_sends(v);
  }
  if (l.recomputation == Recomputation::operators && !workload.shape)
    out.unsuitable = "recompute=op does some operators again, and a traced job has layers: describe the model";
  if (l.recomputation == Recomputation::modules) out.unsuitable = module_flaw(workload, split, l.recomputed_modules);
  std::int64_t held = 0;
  for (const VirtualStage& s : out.stages) held = std::max(held, s.sharded.blocks);
  if (l.offloaded_blocks > held)
    out.unsuitable = "offload_blocks=" + std::to_string(l.offloaded_blocks) + ", and a stage" +
                     (l.chunks > 1 ? "'s chunk" : "") + " holds at most " + std::to_string(held) +
                     " blocks; without it what all of them keep is left with the host";
  if (l.recomputed_blocks > most_blocks)
    out.unsuitable = "recompute_blocks=" + std::to_string(l.recomputed_blocks) + ", and a stage" +
                     (l.chunks > 1 ? "'s chunk" : "") + " holds at most " + std::to_string(most_blocks) +
                     " blocks; without it recompute=full does all of them again";
  return out;
}

}  // namespace stepcast
