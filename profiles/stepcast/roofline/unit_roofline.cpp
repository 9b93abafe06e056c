// Products by their rate, traffic by the memory, kernels by their floor, host by its issue.
#include <stepcast/roofline/unit_roofline.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

MatrixProduct left_gradient(const MatrixProduct& p) { return {p.batch, p.m, p.k, p.n, p.repeated}; }
MatrixProduct right_gradient(const MatrixProduct& p) { return {p.batch, p.k, p.n, p.m, p.repeated}; }

void add_products(UnitTimes& times, const Device& device, DataType dtype, const OperatorShape& o,
                  const LocalWork& local) {
  const double kernels = o.kernels * local.steps;
  const auto add = [&](PassTime& pass, const MatrixProduct& product, double launched, bool backward) {
    const double share = backward ? device.attention_backward : device.attention_forward;
    pass.matrix += o.fused ? attention_time(device, dtype, product, share) : matrix_time(device, dtype, product);
    pass.kernels += launched;
  };
  const auto add_input_gradient = [&](const MatrixProduct& product, double launched) {
    add(times.input_gradient, product, launched, true);
    if (o.attention) add(times.attention_backward, product, launched, true);
  };
  add(times.forward, local.product, kernels, false);
  if (o.attention) add(times.attention, local.product, kernels, false);
  add_input_gradient(left_gradient(local.product), kernels);
  if (o.fused) {  // one kernel for both gradients, which are of inputs, and for the scores again
    add_input_gradient(right_gradient(local.product), 0);
    if (o.recomputed) add_input_gradient(local.product, 0);
    return;
  }
  // Without a parameter both gradients are of inputs.
  const Seconds right_time = weight_gradient_time(device, dtype, right_gradient(local.product),
                                                  o.convolution ? local.product.m / o.product.m : 1);
  const auto add_right = [&](PassTime& pass) {
    pass.matrix += right_time;
    pass.kernels += kernels;
  };
  add_right(o.weighted ? times.weight_gradient : times.input_gradient);
  if (o.attention && !o.weighted) add_right(times.attention_backward);
}

void add_traffic(UnitTimes& times, const Device& device, const OperatorShape& o, const LocalWork& local) {
  const auto add = [&](PassTime& pass, Bytes traffic, double kernels) {
    pass.memory += memory_time(device, traffic, kernels);
    pass.kernels += kernels;
  };
  const double kernels = o.kernels * local.steps;
  add(times.forward, local.traffic, kernels);
  if (o.attention) add(times.attention, local.traffic, kernels);
  const double backward_kernels = std::max(1.0, std::round(kernels * o.backward));
  add(o.weighted ? times.weight_gradient : times.input_gradient, local.traffic * o.backward, backward_kernels);
  if (o.attention) add(times.attention_backward, local.traffic * o.backward, backward_kernels);
}

}  // namespace

Seconds weight_gradient_time(const Device& device, DataType dtype, const MatrixProduct& p, double samples) {
  Seconds best = matrix_time(device, dtype, p);
  for (double parts = 2; parts <= samples; parts *= 2)
    best = std::min(best, matrix_time(device, dtype, {p.batch * parts, p.m, p.n, p.k / parts, p.repeated / parts}));
  return best;
}

void UnitTimes::add(const Device& device, DataType dtype, const OperatorShape& o, const LocalWork& local) {
  if (local.product.m > 0) add_products(*this, device, dtype, o, local);
  else add_traffic(*this, device, o, local);
}

LocalWork LocalWork::for_pairs(const OperatorShape& o, double pairs) const {
  LocalWork work = *this;
  if (o.fused_multiple == 0 || std::fmod(pairs, o.fused_multiple) == 0) return work;
  work.traffic *= o.unfused_traffic;
  work.steps *= o.unfused_kernels;
  return work;
}

UpdateShape update_of(const ModelShape& model) {
  const double parameters = model.parameters(), element = size_of(model.dtype);
  const bool transformer = model.heads > 0, mixed = element < 4;
  const double word = std::max(4.0, element);  // of what the optimizer keeps
  // Weight, gradient, two moments of Adam (or SGD's momentum), and beside short weights the copy that is updated. All
  // but the gradient are read and written; of a short weight only its new value is.
  const double kept = (transformer ? 2 : 1) * word + (mixed ? word : 0);
  UpdateShape update;
  update.optimizer = std::string(transformer ? "Adam" : "SGD with momentum") + (mixed ? " in mixed precision" : "");
  const double gradient = size_of(model.gradient_dtype);
  update.bytes_of_state = element + gradient + kept;
  update.traffic = Bytes(parameters * (gradient + (mixed ? 1 : 2) * element + 2 * kept));
  return update;
}

LocalWork work_of(const OperatorShape& o, double samples) {
  LocalWork work{o.product, o.traffic * samples};
  if (o.weighted) {
    work.product.m *= samples;
    work.product.repeated *= samples;
  } else {
    work.product.batch *= samples;
  }
  return work;
}

}  // namespace stepcast
