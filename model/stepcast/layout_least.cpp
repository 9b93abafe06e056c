// Bounds for searches: what every layout that shares the degrees and the micro-batch of this one takes at least.
#include <stepcast/layout_tables.hpp>
#include <stepcast/tensor_scheme.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace stepcast {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The fields that a search fixes first; the rest as in the simplest layout.
Layout fixed_fields(const Layout& l, bool sequence_parallel) {
  Layout fixed = l;
  fixed.chunks = 1;
  fixed.schedule = nullptr;
  fixed.stage_units.clear();
  fixed.sequence_parallel = sequence_parallel;
  fixed.overlap_tensor = l.scheme == nullptr || l.scheme->name == "1d";
  return fixed;
}

/// Sums and extremes over the units of a model.
struct Whole {
  Seconds passes, largest, send;
  Seconds path;  ///< forward and back again: weight gradients may run beside it
  double parameters = 0, expert_parameters = 0;
  Bytes kept;
};
Whole whole_of(const Workload& w, const PricedSplit& split, Recomputation r) {
  Whole sum;
  sum.send = Seconds(infinity);
  for (const std::uint32_t kind : w.units) {
    const PricedUnit& u = split.units[kind];
    const UnitPasses passes = unit_passes(u, Recomputation::none);
    sum.passes += passes.forward + passes.backward;
    sum.largest = std::max(sum.largest, passes.forward + passes.backward);
    sum.path += passes.forward + passes.backward - u.weight_gradient;
    sum.send = std::min(sum.send, u.send);
    sum.parameters += u.parameters;
    sum.expert_parameters += u.expert_parameters;
    sum.kept += u.kept[static_cast<std::size_t>(r)];
  }
  return sum;
}

/// Calls `use(layout, split)` for the layout with and without sequence parallelism, where they work.
template <class Use>
void for_each_split(LayoutTables& state, const Layout& l, const Use& use) {
  for (const bool sequence_parallel : {false, true}) {
    if (sequence_parallel && l.tensor == 1) continue;
    const Answer<Layout> layout = state.resolved(fixed_fields(l, sequence_parallel));
    if (!layout) continue;
    const PricedSplit& split = state.split_of(*layout);
    if (split.unsuitable.empty()) use(*layout, split);
  }
}

}  // namespace

Seconds LayoutEvaluator::lower_bound(const LayoutPlan& plan) {
  Seconds least(infinity);
  for_each_split(*state_, plan.layout, [&](const Layout& l, const PricedSplit& split) {
    const Whole whole = whole_of(state_->workload, split, Recomputation::none);
    const double count = static_cast<double>(micro_batches(l, state_->global_batch));
    const double stages = static_cast<double>(l.pipeline);
    // Some device has at least the mean of the work, and every micro-batch passes the largest unit on the devices that
    // hold it: one, or with copies of the model (two at most) each its share.
    const Seconds mean = whole.passes * (count / stages);
    const Seconds unit = whole.largest * std::ceil(count / 2);
    // One micro-batch crosses all stages and comes back.
    const Seconds path = whole.path + whole.send * (2 * (stages - 1));
    least = std::min(least, std::max({mean, unit, path}));
  });
  return least + state_->workload.step_overhead + state_->delay;
}

Bytes LayoutEvaluator::least_memory(const LayoutPlan& plan) {
  Bytes least(infinity);
  for_each_split(*state_, plan.layout, [&](const Layout& l, const PricedSplit& split) {
    const Whole whole = whole_of(state_->workload, split, l.recomputation);
    const double stages = static_cast<double>(l.pipeline);
    // The fullest device holds at least the mean, of the activations those of one micro-batch.
    StageMemoryInput mean;
    mean.parameters = whole.parameters / stages;
    mean.expert_parameters = whole.expert_parameters / stages;
    mean.kept_per_micro_batch = whole.kept / stages;
    mean.micro_batches_kept = 1;
    least = std::min(least, memory_of(state_->workload, l, mean, state_->options.memory).total());
  });
  return least;
}

}  // namespace stepcast
