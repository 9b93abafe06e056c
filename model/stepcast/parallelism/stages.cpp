// The units of a stage one after the other: their passes, what sharding adds, and what they keep.
#include <stepcast/parallelism/sharded_pass.hpp>
#include <stepcast/parallelism/stage_division.hpp>
#include <stepcast/parallelism/stages.hpp>

#include <algorithm>

namespace stepcast {

PassParts& PassParts::operator+=(const PassParts& o) {
  compute += o.compute;
  recomputation += o.recomputation;
  tensor += o.tensor;
  context += o.context;
  expert += o.expert;
  sharding += o.sharding;
  return *this;
}

namespace {

/// What the backward pass does again.
struct Again {
  Seconds compute;
  UnitExchanges exchanges;
};
Again again(const PricedUnit& u, Recomputation r) {
  if (r == Recomputation::full && u.checkpointed) return {u.forward, u.forward_exchanges};
  if (r == Recomputation::selective) return {u.attention, {}};
  return {};
}

PassParts parts_of(const PricedUnit& u, Recomputation r) {
  const Again a = again(u, r);
  return {u.forward + u.input_gradient + u.weight_gradient,
          a.compute,
          u.forward_exchanges.tensor + u.backward_exchanges.tensor + a.exchanges.tensor,
          u.forward_exchanges.context + u.backward_exchanges.context + a.exchanges.context,
          u.forward_exchanges.expert + u.backward_exchanges.expert + a.exchanges.expert,
          {}};
}

/// Gathers and reductions of the units of one virtual stage, in forward order.
class Sharding {
 public:
  Sharding(const Workload& w, const PricedSplit& split, const Layout& l)
      : workload_(w),
        split_(split),
        layout_(l),
        gathers_(l.zero == 3 && split.data.members > 1),
        reduces_(l.zero >= 2 && split.data.members > 1) {}

  [[nodiscard]] bool any() const { return gathers_ || reduces_; }
  void add(const PricedUnit& u) {
    const UnitPasses passes = unit_passes(u, layout_.recomputation);
    const Seconds gather = gathers_ ? time(Operation::all_gather, u, workload_.bytes_of_weight) : Seconds(0);
    const Seconds reduce = reduces_ ? time(Operation::reduce_scatter, u, workload_.bytes_of_gradient) : Seconds(0);
    forward_.push_back({gather, passes.forward, {}});
    backward_.push_back({gather, passes.backward, reduce});
  }
  [[nodiscard]] Seconds forward() const { return end_of(forward_); }
  [[nodiscard]] Seconds backward() {
    std::reverse(backward_.begin(), backward_.end());
    return end_of(backward_);
  }

 private:
  [[nodiscard]] Seconds time(Operation op, const PricedUnit& u, double bytes) const {
    const bool hidden = layout_.overlap_gradients && (layout_.units_in_flight > 1 || !gathers_);
    return exchange(split_.data, op, Bytes((u.parameters - u.expert_parameters) * bytes), hidden) +
           exchange(split_.expert_data, op, Bytes(u.expert_parameters * bytes), hidden);
  }
  [[nodiscard]] Seconds end_of(const std::vector<ShardedUnit>& units) const {
    if (layout_.overlap_gradients) return sharded_pass(units, layout_.units_in_flight);
    Seconds sum;
    for (const ShardedUnit& u : units) sum += u.gather + u.compute + u.reduce;
    return sum;
  }

  const Workload& workload_;
  const PricedSplit& split_;
  const Layout& layout_;
  bool gathers_, reduces_;
  std::vector<ShardedUnit> forward_, backward_;
};

/// First unit of each virtual stage, and the number of units.
std::vector<std::uint32_t> division(const Workload& workload, const PricedSplit& split, const Layout& l,
                                    std::uint32_t virtual_stages) {
  if (!l.stage_units.empty()) {
    std::vector<std::uint32_t> first{0};
    for (const std::uint32_t units : l.stage_units) first.push_back(first.back() + units);
    return first;
  }
  std::vector<Seconds> of_kind, time;
  for (const PricedUnit& u : split.units) {
    const UnitPasses passes = unit_passes(u, l.recomputation);
    of_kind.push_back(passes.forward + passes.backward);
  }
  for (const std::uint32_t kind : workload.units) time.push_back(of_kind[kind]);
  return stage_division(time, virtual_stages);
}

/// What the recomputation leaves to a unit at work beyond what it keeps.
Bytes transient(const PricedUnit& u, Recomputation r) {
  return std::max(Bytes(0), u.working - u.kept[static_cast<std::size_t>(r)]);
}

void add(VirtualStage& stage, ChunkTimes& times, const PricedUnit& u, Recomputation r) {
  const UnitPasses passes = unit_passes(u, r);
  times.forward += passes.forward;
  times.input_gradient += passes.backward - u.weight_gradient;
  times.weight_gradient += u.weight_gradient;
  stage.parts += parts_of(u, r);
  stage.parameters += u.parameters;
  stage.expert_parameters += u.expert_parameters;
  stage.tied_parameters += u.tied_parameters;
  stage.largest_unit = std::max(stage.largest_unit, u.parameters);
  stage.kept += u.kept[static_cast<std::size_t>(r)];
  stage.working = std::max(stage.working, transient(u, r));
  stage.boundary = u.boundary;
}

}  // namespace

void add(StageMemoryInput& device, const VirtualStage& stage) {
  device.parameters += stage.parameters;
  device.expert_parameters += stage.expert_parameters;
  device.kept_per_micro_batch += stage.kept;
  device.working = std::max(device.working, stage.working);
  device.largest_unit = std::max(device.largest_unit, stage.largest_unit);
  device.boundary = std::max(device.boundary, stage.boundary);
}

UnitPasses unit_passes(const PricedUnit& u, Recomputation r) {
  const Again a = again(u, r);
  return {u.forward + u.forward_exchanges.sum(),
          u.input_gradient + u.weight_gradient + u.backward_exchanges.sum() + a.compute + a.exchanges.sum()};
}

Seconds exchange(const PricedGroup& group, Operation op, Bytes bytes, bool hidden) {
  if (group.members == 1 || bytes == Bytes(0)) return {};
  return group.cost(op, bytes) * (hidden ? group.cost.slow_down(op, bytes) : 1.0);
}

StagedSplit staged_split(const Workload& workload, const PricedSplit& split, const Layout& l,
                         std::uint32_t virtual_stages) {
  const std::vector<std::uint32_t> first = division(workload, split, l, virtual_stages);
  StagedSplit out;
  out.stages.resize(virtual_stages);
  out.chunks.resize(virtual_stages);
  for (std::uint32_t v = 0; v < virtual_stages; ++v) {
    VirtualStage& stage = out.stages[v];
    ChunkTimes& times = out.chunks[v];
    stage.first = first[v];
    stage.units = first[v + 1] - first[v];
    Sharding sharding(workload, split, l);
    for (std::uint32_t u = first[v]; u < first[v + 1]; ++u) {
      const PricedUnit& unit = split.units[workload.units[u]];
      add(stage, times, unit, l.recomputation);
      if (sharding.any()) sharding.add(unit);
    }
    if (sharding.any()) {
      const Seconds forward = sharding.forward() - times.forward;
      const Seconds backward = sharding.backward() - times.input_gradient - times.weight_gradient;
      times.forward += forward;
      times.input_gradient += backward;
      stage.parts.sharding = forward + backward;
    }
    if (v > 0) times.send_backward = split.units[workload.units[first[v] - 1]].send;
    if (v + 1 < virtual_stages) times.send_forward = split.units[workload.units[first[v + 1] - 1]].send;
  }
  return out;
}

}  // namespace stepcast
