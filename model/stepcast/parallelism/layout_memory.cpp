// Every part of the memory is a product of what a stage holds and the share of it that stays on this device.
#include <stepcast/parallelism/layout_memory.hpp>
#include <stepcast/parallelism/priced_split.hpp>

#include <algorithm>
#include <array>
#include <string_view>

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
  if (l.whole_tensors) return {in.parameters, in.most_dealt};
  return {in.parameters, (in.parameters - in.expert_parameters) / replicas + in.expert_parameters / of_experts};
}

/// Elements of the second copy that backward passes gather (hpz).
double second_copy(const Layout& l, double parameters) {
  return l.backward_shard > 0 ? parameters / static_cast<double>(l.backward_shard * l.context) : 0;
}

/// Activations of all micro-batches in flight that are on the device, and in the host's memory.
struct Kept {
  Bytes device, host;
};
Kept kept_of(const Layout& l, const StageMemoryInput& in) {
  const Bytes all = in.kept_per_micro_batch * in.micro_batches_kept;
  if (!l.offloads(Offloaded::activations)) return {all, Bytes(0)};
  const Bytes stays = all - kept_by_host(l, in.kept_per_micro_batch, in.sharded, l.chunks) * in.micro_batches_kept;
  // One block's are on their way there, one's on their way back.
  const Bytes device = std::min(all, stays + 2 * in.sharded.block_kept);
  return {device, all - device};
}
/// What the host holds of parameters, gradients and optimizer: beside the optimizer a copy of the gradients, in four
/// bytes.
Bytes state_with_host(const Layout& l, const Held& held, const BytesPerParameter& bytes) {
  constexpr double copied = 4;
  if (l.offloads(Offloaded::parameters)) return Bytes(held.divided * (bytes.weight + copied + bytes.optimizer()));
  // Weights of four bytes have no copy among the optimizer's state: theirs is beside it.
  const double whole = bytes.weight >= 4 ? bytes.weight : 0;
  if (l.offloads(Offloaded::optimizer)) return Bytes(held.at(l.zero >= 1) * (copied + whole + bytes.optimizer()));
  return {};
}

/// What all parts of a device hold together; every one's largest counts where only one is at work.
struct Buffers {
  double bucketed = 0;  ///< elements whose gradients travel in buckets
  Bytes divided;        ///< the largest unit's gathered parameters and its gradients
  Bytes received;
  Bytes standing;  ///< gradients that nothing is added up in
};
/// PyTorch's fully_shard: whole weights in four bytes, divided, and units of them gathered in two.
bool fully_shards(const Workload& w, const Layout& l) { return has_copies(w) && l.zero_in_passes() >= 1; }

/// What is there at one time of a backward pass beside weights and optimizer.
struct Moment {
  std::string_view name;
  Bytes gradients, activations, buffers;
  [[nodiscard]] Bytes sum() const { return gradients + activations + buffers; }
};

/// The parts of a device together, each under fully_shard.
struct ShardedDevice {
  ShardedUnits units;
  double parameters = 0;  ///< elements before ZeRO
  HeldParameters held;
  Bytes kept, boundary, largest_boundary;  ///< activations of all micro-batches; what one hands on
  Bytes host;                              ///< what is there of all
  bool one_pass = true;
  Bytes gradients;    ///< that stay, all of them
  Bytes block, root;  ///< gathered weights: of the largest block, and of the root
  double second = 0;  ///< bytes of the second copy of weights for an element of them, of the blocks
  std::int64_t in_flight = 1;
};
ShardedDevice sharded_device(const Workload& w, std::span<const DividedMemory> parts, const BytesPerParameter& bytes) {
  ShardedDevice d;
  for (const auto& [l, in] : parts) {
    const Held held = held_of(l, in);
    const bool there = !l.offloads(Offloaded::parameters);
    if (there) d.held.weights += held.at(l.zero >= 3);
    // Whole ones add up over micro-batches, and what is left of the last one is divided.
    if (there) d.held.gradients += held.at(l.zero >= 2 || in.one_pass);
    if (!l.offloads(Offloaded::optimizer)) d.held.optimizer += held.divided;
    const Kept kept = kept_of(l, in);
    d.host += kept.host + state_with_host(l, held, bytes);
    d.parameters += in.parameters;
    d.kept += kept.device;
    d.one_pass &= in.one_pass;
    d.boundary = std::max(d.boundary, in.boundary);
    d.largest_boundary = std::max(d.largest_boundary, in.largest_boundary);
    d.units += in.sharded;
    if (l.zero < 3) continue;
    d.block = std::max(d.block, Bytes(in.sharded.block * w.bytes_of_weight));
    d.root += Bytes(in.sharded.root * w.bytes_of_weight);
    d.in_flight = std::max(d.in_flight, l.units_in_flight);
    d.second = second_copy(l, w.bytes_of_weight);
  }
  d.gradients = Bytes(d.held.gradients * bytes.gradient);
  return d;
}

/// Buffers of what a tensor group gathers or scatters that Transformer Engine registers once for each of ten products
/// of a block, in bytes of a device's part of one; of products in eight bits six are of that type (initialize_ub in
/// transformer_engine/pytorch/module/base.py, version 1). PyTorch's are of one part.
double registered_buffers(const Workload& w, const Layout& l) {
  constexpr double all = 10, short_ones = 6;
  if (l.overlap_tensor != TensorOverlap::products || l.tensor == 1 || !w.shape) return 0;
  if (is_pytorch(w.shape->kernels)) return is_eager(w.shape->kernels) ? 0 : 1;
  const std::optional<DataType> linear = linear_type(*w.shape);
  const double saved = linear ? short_ones * (1 - 1 / size_of(w.dtype)) : 0;
  return (all - saved) * static_cast<double>(l.tensor);
}

/// The fullest moment of a backward pass under fully_shard (PyTorch 2.11, _fsdp_param_group.py and
/// _fsdp_collectives.py). A block's weights are gathered before its backward pass, and the next block's beside it; its
/// gradients are there in the weights' type until all of them are copied into one buffer of four-byte numbers, which is
/// held until the backward pass of the next block ends. The root's weights stay gathered from the forward pass on, and
/// its gradients are reduced last. Gradients appear as the pass goes, unless a micro-batch before it left them.
Moment fullest_moment(const Workload& w, const ShardedDevice& d) {
  const ShardedUnits& u = d.units;
  const auto before = [&](double elements) {
    if (!d.one_pass || d.parameters <= 0) return d.gradients;
    return d.gradients * (elements / d.parameters);
  };
  const double blocks = std::max(0.0, d.parameters - u.root), but_one = std::max(0.0, blocks - u.block);
  const Bytes none, whole(u.block * w.bytes_of_weight), sent(u.block * w.bytes_of_gradient);  // gradients of a block
  const bool several = u.blocks > 1;
  const auto ahead = [&](std::int64_t left) {  // blocks that are gathered before their turn
    return d.block * static_cast<double>(std::clamp<std::int64_t>(d.in_flight - 1, 0, std::max<std::int64_t>(left, 0)));
  };
  const Bytes of_blocks = d.kept - u.end_kept;
  // It is made behind a block's forward pass, and goes with its backward pass.
  const auto second = [&](double left) { return Bytes((d.one_pass ? left : blocks) * d.second); };
  const Bytes root = d.root + Bytes(u.end * w.bytes_of_weight), flight = d.block + ahead(u.blocks - 1) + root;
  const Moment at_head{"in the backward pass of the head", before(0), d.kept + u.end_working,
                       ahead(u.blocks) + root + second(blocks)};
  const Moment in_last_block{"in the backward pass of the last block", before(0), of_blocks + u.block_working,
                             flight + second(blocks)};
  const Moment first_block_begins{"in the backward pass of the first block", before(but_one),
                                  u.block_kept + u.block_working,
                                  d.block + root + (several ? sent : none) + second(u.block)};
  const Moment first_block_ends{"as the gradients of the first block are reduced", before(but_one), none,
                                root + whole + (several ? d.block + sent : std::max(d.block, sent)) + second(0)};
  const Moment at_end{"as the gradients of the root are reduced", before(d.parameters), none,
                      Bytes(u.root * (w.bytes_of_weight + w.bytes_of_gradient)) + second(0)};
  const Bytes next = d.block + ahead(u.blocks - 2) + root + sent + second(but_one);
  const Moment last_but_one_begins{"in the backward pass of the last block but one", before(u.block),
                                   of_blocks - u.block_kept + u.block_working, next};
  const Moment last_but_one_ends{"as the gradients of the last block but one are reduced", before(u.block),
                                 of_blocks - 2 * u.block_kept, next + whole};
  const std::array moments{at_head,
                           in_last_block,
                           first_block_begins,
                           first_block_ends,
                           at_end,
                           several ? last_but_one_begins : at_head,
                           several ? last_but_one_ends : at_head};
  return *std::ranges::max_element(moments, {}, &Moment::sum);
}

MemoryUse fully_sharded(const Workload& w, std::span<const DividedMemory> parts, const MemoryOptions& options) {
  BytesPerParameter bytes{w.bytes_of_weight, w.bytes_of_gradient, w.bytes_of_state};
  const bool gathers = std::ranges::all_of(parts, [](const DividedMemory& part) { return part.layout.zero == 3; });
  if (gathers) bytes = with_whole_weights(bytes);
  const ShardedDevice d = sharded_device(w, parts, bytes);
  const Moment m = fullest_moment(w, d);
  HeldParameters held = d.held;
  held.gradients = bytes.gradient > 0 ? m.gradients.value() / bytes.gradient : 0;
  const Layout& l = parts.front().layout;
  const Bytes received = (l.pipeline > 1 ? 4 * d.boundary : Bytes(0)) + registered_buffers(w, l) * d.largest_boundary;
  MemoryUse use = memory_use(held, bytes, m.activations, m.buffers + received, options);
  use.moment = m.name;
  use.host = d.host;
  return use;
}

void add(Buffers& b, const Workload& w, const Layout& l, const StageMemoryInput& in) {
  if (l.data * l.context > 1 || fully_shards(w, l) || l.offloads(Offloaded::parameters)) {
    // ZeRO gathers updated parameters in buckets, too.
    if (!fully_shards(w, l)) b.bucketed += in.parameters;
    Bytes divided;
    if (l.zero == 2 || l.zero == 3) divided += Bytes(in.largest_unit * w.bytes_of_gradient);
    // In codes beside what they become.
    const double gathered = w.bytes_of_weight + (l.quantized_weights ? 1 : 0);
    if (l.zero == 3) divided += Bytes(in.largest_unit * gathered * static_cast<double>(l.units_in_flight));
    constexpr double sent = 0.5, received = 0.5;  // bytes of a code of four bits
    if (l.quantized_gradients) divided += Bytes(in.largest_unit * (sent + received));
    b.divided = std::max(b.divided, divided);
  }
  // One activation arrives while the one before is read, in each direction.
  if (l.pipeline > 1) b.received += 4 * in.boundary;
  b.received += registered_buffers(w, l) * in.largest_boundary;
  b.standing = std::max(b.standing, in.standing_gradient);
}

/// Whether DistributedDataParallel runs the layout, around the model or around each stage of a pipeline, and casts.
bool under_autocast(const Workload& w, const Layout& l) {
  const bool mixed = w.shape && w.bytes_of_weight < 4;
  const bool alone =
      l.tensor * l.context * l.expert == 1 && (l.shard == 0 || l.whole_tensors) && l.unit_choices.empty();
  return mixed && alone && l.zero_in_passes() == 0;
}

}  // namespace

ShardedUnits& ShardedUnits::operator+=(const ShardedUnits& o) {
  blocks += o.blocks;
  block = std::max(block, o.block);
  root += o.root;
  end = std::max(end, o.end);
  block_kept = std::max(block_kept, o.block_kept);
  block_working = std::max(block_working, o.block_working);
  end_kept += o.end_kept;
  end_working = std::max(end_working, o.end_working);
  return *this;
}

Bytes kept_by_host(const Layout& l, Bytes kept, const ShardedUnits& units, std::int64_t chunks) {
  const Bytes blocks = kept - units.end_kept;
  if (l.offloaded_blocks == 0) return blocks;
  return std::min(blocks, units.block_kept * static_cast<double>(l.offloaded_blocks * chunks));
}

MemoryUse memory_of(const Workload& w, std::span<const DividedMemory> parts, const MemoryOptions& options) {
  if (std::ranges::all_of(parts, [&](const DividedMemory& part) { return fully_shards(w, part.layout); }))
    return fully_sharded(w, parts, options);
  HeldParameters parameters;
  Buffers buffers;
  Bytes kept, working, host;
  bool appear = has_copies(w);
  const BytesPerParameter bytes{w.bytes_of_weight, w.bytes_of_gradient, w.bytes_of_state};
  for (const auto& [l, in] : parts) {
    const Held held = held_of(l, in);
    const bool there = !l.offloads(Offloaded::parameters);
    if (there) parameters.weights += held.at(l.zero >= 3) + second_copy(l, in.parameters);
    if (there) parameters.gradients += held.at(l.zero >= 2);
    if (!l.offloads(Offloaded::optimizer)) parameters.optimizer += held.at(l.zero >= 1);
    add(buffers, w, l, in);
    const Kept of_part = kept_of(l, in);
    kept += of_part.device;
    host += of_part.host + state_with_host(l, held, bytes);
    working = std::max(working, in.working);
    appear &= in.one_pass && l.data * l.context == 1;
  }
  const Bytes buckets = buffers.bucketed > 0 ? gradient_buckets(buffers.bucketed, w.bytes_of_gradient) : Bytes(0);
  const bool autocast =
      (options.autocast || has_copies(w)) && parts.size() == 1 && under_autocast(w, parts.front().layout);
  // Gradients that are allocated as the backward pass goes take the place of what it needs no more: at its beginning
  // none are there, and at its end beside them only what a unit works with.
  std::string_view moment;
  Bytes activations = kept + working;
  if (appear) {
    const double gradient = autocast ? with_whole_weights(bytes).gradient : bytes.gradient;
    if (kept >= Bytes(parameters.gradients * gradient) + buffers.divided) {
      moment = "as the backward pass begins";
      parameters.gradients = 0, buffers.divided = Bytes(0);
    } else {
      moment = "as the backward pass ends";
      activations = working;
    }
  }
  MemoryUse use = memory_use(parameters, bytes, activations,
                             buckets + buffers.divided + buffers.received + buffers.standing, options);
  if (autocast) use = stepcast::under_autocast(use, bytes, buffers.bucketed > 0, options);
  use.moment = moment;
  use.host = host;
  return use;
}

MemoryUse memory_of(const Workload& w, const Layout& l, const StageMemoryInput& in, const MemoryOptions& options) {
  const DividedMemory all{l, in};
  return memory_of(w, {&all, 1}, options);
}

}  // namespace stepcast
