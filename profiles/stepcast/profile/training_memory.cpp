// Every part is a number of elements times the bytes of one; the margin is on top of all.
#include <stepcast/profile/training_memory.hpp>

#include <algorithm>
#include <map>

namespace stepcast {
namespace {

constexpr Bytes bucket = mebibytes(25);  // PyTorch DDP's standard; Megatron-LM's and DeepSpeed's are of that order

/// Traced as a whole, or layer by layer. What-ifs change the whole and not the layers' parts.
Bytes kept_activations(const Profile& p) {
  if (p.activation_memory > Bytes(0)) return p.activation_memory;
  Bytes sum;
  for (const Layer& layer : p.layers) sum += layer.kept;
  return sum;
}

}  // namespace

double BytesPerParameter::optimizer() const { return std::max(0.0, state - weight - gradient); }

DataType weight_type(const Profile& p) {
  std::map<DataType, double> bytes;
  for (const Tensor& t : p.tensors) bytes[t.dtype] += t.size.value();
  DataType type = DataType::f32;
  double most = 0;
  for (const auto& [each, amount] : bytes)
    if (amount > most) most = amount, type = each;
  return type;
}

BytesPerParameter bytes_per_parameter(const Profile& p) {
  const double size = size_of(weight_type(p));
  if (p.bytes_of_state > 0) return {size, size, p.bytes_of_state};
  return {size, size, size >= 4 ? 4 * size : 16};
}

MemoryUse memory_use(const HeldParameters& held, const BytesPerParameter& bytes, Bytes activations, Bytes buffers,
                     const MemoryOptions& options) {
  MemoryUse use;
  use.parameters = Bytes(held.weights * bytes.weight);
  use.gradients = Bytes(held.gradients * bytes.gradient);
  use.optimizer = Bytes(held.optimizer * bytes.optimizer());
  use.activations = activations;
  use.buffers = buffers;
  use.margin = options.framework + use.total() * options.fragmentation;
  return use;
}

BytesPerParameter with_whole_weights(const BytesPerParameter& bytes) {
  constexpr double whole = 4;
  if (bytes.weight >= whole) return bytes;
  return {whole, whole, 2 * whole + std::max(0.0, bytes.optimizer() - whole)};
}

MemoryUse under_autocast(const MemoryUse& use, const BytesPerParameter& bytes, bool has_peers,
                         const MemoryOptions& options) {
  constexpr double whole = 4;
  if (!(bytes.weight > 0 && bytes.weight < whole && bytes.gradient > 0)) return use;
  const double weights = use.parameters.value() / bytes.weight, gradients = use.gradients.value() / bytes.gradient;
  const double kept = bytes.optimizer() > 0 ? use.optimizer.value() / bytes.optimizer() : 0;
  const Bytes other = has_peers ? use.buffers - gradient_buckets(weights, bytes.gradient) : use.buffers;
  return memory_use({weights, gradients, kept}, with_whole_weights(bytes), use.activations,
                    std::max(Bytes(0), other) + use.parameters + (has_peers ? Bytes(gradients * whole) : Bytes(0)),
                    options);
}

Bytes gradient_buckets(double parameters, double bytes_of_gradient) {
  return 2 * std::min(bucket, Bytes(parameters * bytes_of_gradient));
}

bool knows_activations(const Profile& p) { return kept_activations(p) > Bytes(0); }

MemoryUse memory_of_worker(const Profile& p, bool has_peers) {
  const BytesPerParameter bytes = bytes_per_parameter(p);
  double all = 0;
  for (const Tensor& t : p.tensors) all += t.size.value() / size_of(t.dtype);
  return memory_use({all, all, all}, bytes, kept_activations(p) + p.transient_memory,
                    has_peers ? gradient_buckets(all, bytes.gradient) : Bytes(0));
}

}  // namespace stepcast
