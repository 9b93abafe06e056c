// Every part of the memory is a product of what a stage holds and the share of it that stays on this device.
#include <stepcast/parallelism/layout_memory.hpp>
#include <stepcast/parallelism/priced_split.hpp>

#include <algorithm>

namespace stepcast {
namespace {

/// Elements that one device holds of a stage's parameters after dividing them over the replicas, or undivided.
struct Held {
  double whole, divided;
  [[nodiscard]] double at(bool sharded) const { return sharded ? divided : whole; }
};
Held held_of(const Layout& l, const StageMemoryInput& in) {
  const double replicas = static_cast<double>(l.sharding());
  const double of_experts = static_cast<double>(l.expert_sharding());
  return {in.parameters, (in.parameters - in.expert_parameters) / replicas + in.expert_parameters / of_experts};
}

/// What all parts of a device hold together; every one's largest counts where only one is at work.
struct Buffers {
  double bucketed = 0;  ///< elements whose gradients travel in buckets
  Bytes divided;        ///< the largest unit's gathered parameters and its gradients
  Bytes received;
};
/// PyTorch's fully_shard: whole weights in four bytes, divided, and units of them gathered in two.
bool fully_shards(const Workload& w, const Layout& l) { return has_copies(w) && l.zero >= 2; }

void add(Buffers& b, const Workload& w, const Layout& l, const StageMemoryInput& in) {
  if (l.data * l.context > 1 || fully_shards(w, l)) {
    // ZeRO gathers updated parameters in buckets, too.
    if (!fully_shards(w, l)) b.bucketed += in.parameters;
    Bytes divided;
    if (l.zero == 2 || l.zero == 3) divided += Bytes(in.largest_unit * w.bytes_of_gradient);
    // Behind the last unit's backward pass nothing is gathered ahead.
    if (l.zero == 3 && fully_shards(w, l) && in.one_pass) divided += Bytes(in.largest_unit * w.bytes_of_weight);
    else if (l.zero == 3)
      divided += Bytes(in.largest_unit * w.bytes_of_weight * static_cast<double>(l.units_in_flight));
    b.divided = std::max(b.divided, divided);
  }
  // One activation arrives while the one before is read, in each direction.
  if (l.pipeline > 1) b.received += 4 * in.boundary;
}

/// Whether DistributedDataParallel runs the layout, around the model or around each stage of a pipeline, and casts.
bool under_autocast(const Workload& w, const Layout& l) {
  const bool mixed = w.shape && w.bytes_of_weight < 4;
  const bool alone = l.tensor * l.context * l.expert == 1 && l.shard == 0 && l.unit_choices.empty();
  return mixed && alone && l.zero <= (l.pipeline == 1 ? 1 : 0);
}

}  // namespace

MemoryUse memory_of(const Workload& w, std::span<const DividedMemory> parts, const MemoryOptions& options) {
  HeldParameters parameters;
  Buffers buffers;
  Bytes kept, working;
  bool sharded = true, whole = w.bytes_of_weight < 4, appear = has_copies(w);
  for (const auto& [l, in] : parts) {
    const Held held = held_of(l, in);
    parameters.weights += held.at(l.zero >= 3);
    parameters.gradients += held.at(l.zero >= 2);
    parameters.optimizer += held.at(l.zero >= 1);
    add(buffers, w, l, in);
    kept += in.kept_per_micro_batch * in.micro_batches_kept;
    working = std::max(working, in.working);
    sharded &= fully_shards(w, l);
    whole &= fully_shards(w, l) && l.zero == 3;
    appear &= in.one_pass && (sharded || l.data * l.context == 1);
  }
  const Bytes buckets = buffers.bucketed > 0 ? gradient_buckets(buffers.bucketed, w.bytes_of_gradient) : Bytes(0);
  BytesPerParameter bytes{w.bytes_of_weight, w.bytes_of_gradient, w.bytes_of_state};
  if (whole) bytes = with_whole_weights(bytes);
  // Gradients that are allocated as the backward pass goes take the place of what it needs no more: at its beginning
  // none are there, and at its end beside them only what a unit works with.
  Bytes activations = kept + working;
  const Bytes at_end = Bytes(parameters.gradients * bytes.gradient) + buffers.divided;
  if (appear) activations = std::max(activations - at_end, working);
  const MemoryUse use =
      memory_use(parameters, bytes, activations, buckets + buffers.divided + buffers.received, options);
  if (!(options.autocast || has_copies(w)) || parts.size() != 1 || !under_autocast(w, parts.front().layout)) return use;
  return stepcast::under_autocast(use, bytes, buffers.bucketed > 0, options);
}

MemoryUse memory_of(const Workload& w, const Layout& l, const StageMemoryInput& in, const MemoryOptions& options) {
  const DividedMemory all{l, in};
  return memory_of(w, {&all, 1}, options);
}

}  // namespace stepcast
