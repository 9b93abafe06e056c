#pragma once
// Unit roofline: what a device needs for the operators of one unit, pass by pass (internal to the library).
//
// The caller says which part of every operator the device works on. The passes of a weighted product are three products
// with the extents turned: C = A B, A' = C' B^T, B' = A^T C'. Elapsed time is the larger of the host's (kernels times
// issue) and the device's, or their sum where the host waits for every kernel. Not modelled: kernels beside one
// another; a host that runs ahead from unit to unit.
#include <stepcast/roofline/device.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace stepcast {

struct PassTime {
  Seconds matrix, memory;  ///< device time in matrix products and in memory-bound kernels
  double kernels = 0;

  [[nodiscard]] Seconds device() const { return matrix + memory; }
  [[nodiscard]] PassTime with(const PassTime& more) const {
    return {matrix + more.matrix, memory + more.memory, kernels + more.kernels};
  }
  [[nodiscard]] PassTime without(const PassTime& part) const {
    return {matrix - part.matrix, memory - part.memory, kernels - part.kernels};
  }
  [[nodiscard]] Seconds host(const Device& d) const { return d.issue * kernels + (d.on_host ? device() : Seconds()); }
  /// What the kernels take where they run, and between them what the device waits for a host that launches none before
  /// the last one has ended.
  [[nodiscard]] Seconds busy(const Device& d) const {
    return device() + (d.on_host || d.launch_blocking ? d.issue * kernels : Seconds());
  }
  /// The host takes longer to launch the kernels than the device to run them.
  [[nodiscard]] bool paced_by_host(const Device& d) const { return !d.on_host && host(d) >= device(); }
  [[nodiscard]] Seconds elapsed(const Device& d) const { return std::max(busy(d), host(d)); }
};

/// As a profile has it: on the device's stream, or all of it on the thread that computes.
[[nodiscard]] inline PassCost cost_of(const PassTime& time, const Device& device) {
  PassCost cost{device.launch_blocking ? time.elapsed(device) : time.host(device), {}};
  if (device.on_host) return cost;
  cost.device = time.device();
  cost.part[KernelClass::gemm] = time.matrix;
  cost.part[KernelClass::memory] = time.memory;
  return cost;
}

/// The gradient of a convolution's weight sums over so many samples. Its results are few and the sums long, so that its
/// kernels give parts of each sum to different tiles of the device, as many as are fastest (split-k).
[[nodiscard]] Seconds weight_gradient_time(const Device&, DataType, const MatrixProduct&, double samples);

/// The device's relative error, if steps of such products stand behind it: none in four bits do, unless it was
/// corrected by some (--measured); else 0, which is not known.
[[nodiscard]] double known_error(const Device&, const ModelShape&);
/// Of the device, but that of four bits no product was measured, and no step unless some corrected it.
[[nodiscard]] RatesOf rates_of(const Device&, const ModelShape&);

/// The part of an operator that one device works on.
struct LocalWork {
  MatrixProduct product;
  Bytes traffic;
  double steps = 1;  ///< launches of every kernel (ring attention: one a block)

  /// With the operator's separate kernels, if its fused one does not serve so many pairs of sample and head.
  [[nodiscard]] LocalWork for_pairs(const OperatorShape&, double pairs) const;
};

struct UnitTimes {
  PassTime forward, input_gradient, weight_gradient;
  PassTime attention;           ///< part of `forward`
  PassTime attention_backward;  ///< part of `input_gradient`
  PassTime operators;           ///< part of `forward` that recomputation by operators does again
  PassTime unread;              ///< part of `forward` that full recomputation leaves out
  std::array<PassTime, recomputed_module_count> modules;  ///< parts of `forward` that these modules take

  void add(const Device&, DataType, const OperatorShape&, const LocalWork&);
  [[nodiscard]] PassTime backward() const { return input_gradient.with(weight_gradient); }
};

/// What the model's optimizer does with all of its parameters.
struct UpdateShape {
  std::string optimizer;
  double bytes_of_state = 0;              ///< per parameter: weight, gradient and what the optimizer keeps
  Bytes traffic;                          ///< bytes that one update reads and writes
  std::vector<MatrixProduct> products{};  ///< that it multiplies, in the type of the weights (Muon)

  [[nodiscard]] PassTime time(const Device&, DataType) const;
};
[[nodiscard]] UpdateShape update_of(const ModelShape&);

/// Gradients of a unit's weights beside those that are added up.
struct GradientsBeside {
  Bytes standing;  ///< as long as the job runs; units of the same shapes share them
  Bytes at_work;   ///< while the unit's backward pass runs
};
/// Megatron-LM hands autograd a gradient in the weights' type for each weight, also where the product has added it up
/// itself: Transformer Engine keeps one of each shape for that (get_dummy_wgrad of
/// transformer_engine/pytorch/module/base.py), the head's linear layer makes one anew
/// (megatron/core/tensor_parallel/layers.py). Where a kernel of its own adds gradients up (accumulation=apart) it is
/// that of one weight. PyTorch's kernels have that of the weight that was cast beside what it is cast to, of the
/// largest weight, where the types differ. `local` of an operator is what one device has of its product.
template <class Local>
[[nodiscard]] GradientsBeside gradients_beside(const ModelShape& model, const UnitShape& unit, const Local& local) {
  const double weight = size_of(model.dtype), gradient = size_of(model.gradient_dtype);
  double largest = 0, all = 0;
  std::vector<std::array<double, 2>> shapes;
  for (const OperatorShape& o : unit.operators) {
    if (!o.weighted) continue;
    const MatrixProduct product = local(o);
    const double elements = product.n * product.k;
    largest = std::max(largest, elements);
    const std::array shape{product.n, product.k};
    if (std::ranges::find(shapes, shape) != shapes.end()) continue;
    shapes.push_back(shape);
    all += elements;
  }
  if (model.kernels != KernelSet::megatron) return {{}, Bytes(weight == gradient ? 0 : largest * (weight + gradient))};
  if (model.fused_accumulation && !unit.makes_gradient) return {Bytes(all * weight), {}};
  return {{}, Bytes(largest * weight)};
}

/// What Megatron-LM does with the whole gradients of a step beside summing them: it takes their norm in every bucket
/// (--check-for-nan-in-loss-and-grad, its default, not of recorded steps) and clears them for the next step; with other
/// ranks it divides them by their number first. Source: check_grads, start_grad_sync and reset of
/// megatron/core/distributed/param_and_grad_buffer.py. Other kernels: nothing that all of their jobs do.
struct GradientPasses {
  Bytes always, with_ranks;  ///< of all parameters: bytes read and written
};
[[nodiscard]] GradientPasses gradient_passes(const ModelShape&);

/// Bytes that adding a gradient to those of the micro-batches before reads and writes, where a kernel of its own does
/// it: of a parameter, beside what weight_copies() counts. PyTorch hands the first of a step over (`all_but_first`).
struct AccumulatedGradient {
  double bytes = 0;
  bool all_but_first = false;
};
[[nodiscard]] AccumulatedGradient accumulated_gradient(const ModelShape&);

/// What frameworks do with whole weights and gradients of one device around the passes of a micro-batch.
struct WeightCopies {
  Seconds forward, backward;
};
/// Of so many parameters, `weight` and `gradient` bytes each. Weights of four bytes are cast in every pass, their
/// gradients back (autocast). DeepSpeed adds gradients up behind each micro-batch: in their own type, two reads and a
/// write; in four bytes (BF16_Optimizer.update_hp_grads) into a copy first. Source: DeepSpeed 0.8 to 0.14,
/// runtime/bf16_optimizer.py. Not modelled: that the first two-byte gradient of a step is handed over, not added.
/// Megatron-LM's weights and gradients stay where they are.
[[nodiscard]] WeightCopies weight_copies(const Device&, KernelSet, double parameters, double weight, double gradient);

/// The operator for so many samples, undivided.
[[nodiscard]] LocalWork work_of(const OperatorShape&, double samples);

}  // namespace stepcast
