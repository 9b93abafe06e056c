// Products by their rate, traffic by the memory, kernels by their floor, host by its issue.
#include <stepcast/roofline/unit_roofline.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace stepcast {
namespace {

MatrixProduct left_gradient(const MatrixProduct& p) { return {p.batch, p.m, p.k, p.n, p.repeated}; }
MatrixProduct right_gradient(const MatrixProduct& p) { return {p.batch, p.k, p.n, p.m, p.repeated}; }

/// One product, or one part of it.
void add_product(UnitTimes& times, const Device& device, DataType dtype, const OperatorShape& o,
                 const LocalWork& local) {
  const double kernels = o.kernels * local.steps;
  const auto add = [&](PassTime& pass, const MatrixProduct& product, double launched, bool backward) {
    const AttentionRate rate = o.fused ? attention_rate(device, o.kernel) : AttentionRate{};
    const double share = backward ? rate.backward : rate.forward;
    pass.matrix += o.fused ? attention_time(device, dtype, product, share) : matrix_time(device, dtype, product);
    pass.kernels += launched;
  };
  const auto add_input_gradient = [&](const MatrixProduct& product, double launched) {
    add(times.input_gradient, product, launched, true);
    if (o.attention) add(times.attention_backward, product, launched, true);
  };
  add(times.forward, local.product, kernels, false);
  if (o.attention) add(times.attention, local.product, kernels, false);
  if (o.unread) add(times.unread, local.product, kernels, false);
  if (o.module) add(times.modules[static_cast<std::size_t>(*o.module)], local.product, kernels, false);
  if (o.again > 0) {
    PassTime once;
    add(once, local.product, kernels, false);
    times.operators.matrix += once.matrix * o.again;
    times.operators.kernels += once.kernels * o.again;
  }
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

void add_products(UnitTimes& times, const Device& device, DataType dtype, const OperatorShape& o,
                  const LocalWork& local) {
  for (const double share : o.parts) {
    if (share == 0) continue;
    LocalWork part = local;
    part.product.n *= share;
    part.product.repeated *= share;
    add_product(times, device, dtype, o, part);
  }
}

void add_traffic(UnitTimes& times, const Device& device, const OperatorShape& o, const LocalWork& local) {
  const auto add = [&](PassTime& pass, Bytes traffic, double kernels) {
    pass.memory += memory_time(device, traffic, kernels);
    pass.kernels += kernels;
  };
  const double kernels = o.kernels * local.steps;
  add(times.forward, local.traffic, kernels);
  add(times.operators, local.traffic, kernels);
  if (o.attention) add(times.attention, local.traffic, kernels);
  if (o.unread) add(times.unread, local.traffic, kernels);
  if (o.module) add(times.modules[static_cast<std::size_t>(*o.module)], local.traffic, kernels);
  const double backward_kernels =
      o.backward_kernels > 0 ? o.backward_kernels * local.steps : std::max(1.0, std::round(kernels * o.backward));
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

double known_error(const Device& device, const ModelShape& model) {
  return linear_type(model) == DataType::f4 && device.corrected_by == 0 ? 0 : device.relative_error;
}

RatesOf rates_of(const Device& device, const ModelShape& model) {
  const bool corrected = device.corrected_by > 0;
  return linear_type(model) == DataType::f4 && !corrected ? RatesOf::data_sheet : rates_of(device);
}

void UnitTimes::add(const Device& device, DataType dtype, const OperatorShape& o, const LocalWork& local) {
  if (local.product.m > 0) add_products(*this, device, o.operands.value_or(dtype), o, local);
  else add_traffic(*this, device, o, local);
}

LocalWork LocalWork::for_pairs(const OperatorShape& o, double pairs) const {
  LocalWork work = *this;
  if (o.fused_multiple == 0 || std::fmod(pairs, o.fused_multiple) == 0) return work;
  work.traffic *= o.unfused_traffic;
  work.steps *= o.unfused_kernels;
  return work;
}

WeightCopies weight_copies(const Device& device, KernelSet kernels, double parameters, double weight, double gradient) {
  constexpr double word = 4;
  if (parameters == 0) return {};
  if (holds_whole_weights(kernels)) {
    if (weight >= word) return {};
    const Bytes cast(parameters * (word + weight));
    return {memory_time(device, cast), widening_time(device, cast)};
  }
  if (kernels != KernelSet::deepspeed) return {};
  Seconds added = memory_time(device, Bytes(parameters * 3 * gradient));
  if (gradient > weight) added += widening_time(device, Bytes(parameters * (weight + gradient)));
  return {{}, added};
}

GradientPasses gradient_passes(const ModelShape& model) {
  if (model.kernels != KernelSet::megatron) return {};
  const double bytes = model.parameters() * size_of(model.gradient_dtype);
  const bool checked = model.launch != KernelLaunch::graphs;  // by the host
  return {Bytes((checked ? 2 : 1) * bytes), Bytes(2 * bytes)};
}

AccumulatedGradient accumulated_gradient(const ModelShape& model) {
  const double weight = size_of(model.dtype), gradient = size_of(model.gradient_dtype);
  if (holds_whole_weights(model.kernels)) return {3 * gradient, true};
  if (model.kernels != KernelSet::megatron || model.fused_accumulation) return {};
  return {weight + 2 * gradient, false};
}

PassTime UpdateShape::time(const Device& device, DataType dtype) const {
  PassTime time{Seconds(), memory_time(device, traffic), 1};
  for (const MatrixProduct& product : products) {
    time.matrix += matrix_time(device, dtype, product);
    ++time.kernels;
  }
  return time;
}

namespace {

/// What an optimizer keeps of a parameter: whole words, and bytes beside them.
struct OptimizerState {
  std::string_view title;
  double words = 0, bytes = 0;
};

OptimizerState state_of(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::adam:
      return {"Adam", 2};
    case Optimizer::adam8bit:
      // Dettmers et al. 2022 (arXiv 2110.02861): two moments of a byte, and of 256 elements one scale each.
      return {"8-bit Adam", 0, 2 + 2 * 4. / 256};
    case Optimizer::adafactor:
      // Shazeer and Stern 2018 (arXiv 1804.04235): rows' and columns' means of the second moment, no first one.
      return {"Adafactor", 0};
    case Optimizer::lion:
      return {"Lion", 1};  // Chen et al. 2023 (arXiv 2302.06675)
    case Optimizer::muon:
      return {"Muon", 1};  // Jordan et al. 2024 (kellerjordan.github.io/posts/muon)
    case Optimizer::sgd:
      return {"SGD with momentum", 1};
  }
  return {};
}

/// The matrices of the blocks, which Muon updates; all other parameters are Adam's.
bool is_muons(const UnitShape& unit, const ParameterShape& p) {
  return unit.name != "embedding" && unit.name != "head" && p.shape.size() >= 2;
}

/// Five iterations of Newton and Schulz on each matrix, r rows and c >= r columns: X X', its square, and what these
/// are multiplied with X to.
void add_orthogonalisation(const ModelShape& model, std::vector<MatrixProduct>& out) {
  constexpr double iterations = 5;
  for (const UnitShape& unit : model.units)
    for (const ParameterShape& p : unit.parameters) {
      if (!is_muons(unit, p)) continue;
      const auto last = p.shape.end();
      const double r = double(std::min(last[-1], last[-2])), c = double(std::max(last[-1], last[-2]));
      const double matrices = iterations * double(unit.repetitions) * p.elements() / (r * c);
      out.insert(out.end(), {{matrices, r, r, c}, {matrices, r, r, r}, {matrices, r, c, r}});
    }
}

/// Bytes that casts of the weights to the type of linear layers move, once a step: read, and written in both orders.
double casts_of_weights(const ModelShape& model) {
  double bytes = 0;
  for (const UnitShape& unit : model.units)
    for (const OperatorShape& o : unit.operators)
      if (o.operands)
        bytes += double(unit.repetitions) * o.product.batch * o.product.n * o.product.k *
                 (size_of(model.dtype) + 2 * size_of(*o.operands));
  return bytes;
}

}  // namespace

UpdateShape update_of(const ModelShape& model) {
  const double parameters = model.parameters(), element = size_of(model.dtype);
  const bool mixed = element < 4, muon = model.optimizer == Optimizer::muon;
  const double word = std::max(4.0, element);  // of what the optimizer keeps
  const OptimizerState state = state_of(model.optimizer);
  // Weight, gradient, what the optimizer keeps (two moments of Adam, SGD's momentum), and beside short weights the copy
  // that is updated. All but the gradient are read and written; of a short weight only its new value is.
  double kept = state.words * word + state.bytes + (mixed ? word : 0);
  if (muon) {
    double others = parameters;
    for (const UnitShape& unit : model.units)
      for (const ParameterShape& p : unit.parameters)
        if (is_muons(unit, p)) others -= double(unit.repetitions) * p.elements();
    kept += word * others / parameters;
  }
  UpdateShape update;
  update.optimizer = std::string(state.title) + (mixed ? " in mixed precision" : "");
  const double gradient = size_of(model.gradient_dtype);
  update.bytes_of_state = element + gradient + kept;
  // Megatron-LM reads the gradients that a rank updates once more, for their norm (get_grad_norm of its optimizer).
  const double norm = model.kernels == KernelSet::megatron ? gradient : 0;
  update.traffic =
      Bytes(parameters * (norm + gradient + (mixed ? 1 : 2) * element + 2 * kept) + casts_of_weights(model));
  if (muon) add_orthogonalisation(model, update.products);
  return update;
}

LocalWork work_of(const OperatorShape& o, double samples) {
  LocalWork work{o.product, o.traffic * samples};
  // Every expert's product is launched by itself (Transformer Engine's grouped layer), or all are one kernel; likewise
  // what is done expert by expert beside products.
  if (o.expert && !o.grouped) work.steps = o.product.batch;
  if (o.weighted) {
    work.product.m *= samples;
    work.product.repeated *= samples;
  } else {
    work.product.batch *= samples;
  }
  return work;
}

}  // namespace stepcast
