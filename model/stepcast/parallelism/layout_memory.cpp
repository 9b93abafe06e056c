// Every part of the memory is a product of what a stage holds and the share of it that stays on this device.
#include <stepcast/parallelism/layout_memory.hpp>

#include <algorithm>

namespace stepcast {
namespace {

constexpr Bytes bucket = mebibytes(25);  // PyTorch DDP's standard; Megatron-LM's and DeepSpeed's are of that order

/// Elements that one device holds of a stage's parameters after dividing them over the replicas, or undivided.
struct Held {
  double whole, divided;
  [[nodiscard]] double at(bool sharded) const { return sharded ? divided : whole; }
};
Held held_of(const Layout& l, const StageMemoryInput& in) {
  const double replicas = static_cast<double>(l.data * l.context);
  // An expert has fewer replicas: its copies are `expert` times as few.
  const double dense = in.parameters - in.expert_parameters;
  return {in.parameters, dense / replicas + in.expert_parameters * static_cast<double>(l.expert) / replicas};
}

Bytes buffers_of(const Workload& w, const Layout& l, const StageMemoryInput& in) {
  Bytes sum;
  if (l.data * l.context > 1) {
    // Two buckets: one is filled while the other one travels. ZeRO gathers updated parameters the same way.
    sum += 2 * std::min(bucket, Bytes(in.parameters * w.bytes_of_gradient));
    if (l.zero == 2 || l.zero == 3) sum += Bytes(in.largest_unit * w.bytes_of_gradient);
    if (l.zero == 3) sum += Bytes(in.largest_unit * w.bytes_of_weight * static_cast<double>(l.units_in_flight));
  }
  // One activation arrives while the one before is read, in each direction.
  if (l.pipeline > 1) sum += 4 * in.boundary;
  return sum;
}

}  // namespace

MemoryUse memory_of(const Workload& w, const Layout& l, const StageMemoryInput& in, const MemoryOptions& options) {
  const Held held = held_of(l, in);
  const double bytes_of_optimizer = std::max(0.0, w.bytes_of_state - w.bytes_of_weight - w.bytes_of_gradient);
  MemoryUse use;
  use.parameters = Bytes(held.at(l.zero >= 3) * w.bytes_of_weight);
  use.gradients = Bytes(held.at(l.zero >= 2) * w.bytes_of_gradient);
  use.optimizer = Bytes(held.at(l.zero >= 1) * bytes_of_optimizer);
  use.activations = in.kept_per_micro_batch * in.micro_batches_kept + in.working;
  use.buffers = buffers_of(w, l, in);
  use.margin = options.framework + use.total() * options.fragmentation;
  return use;
}

}  // namespace stepcast
