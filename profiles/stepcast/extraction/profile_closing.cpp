// Profile closing: see profile_closing.hpp.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/extraction/profile_closing.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace stepcast {
namespace {

void scale(Profile& p, double factor) {
  scale_work(p, factor);
  p.input *= factor;
}

Seconds host_total(const Profile& p) {
  Seconds sum = p.input + p.optimizer.host + p.other.host;
  for (const Layer& layer : p.layers) sum += layer.forward.host + layer.backward.host;
  return sum;
}
Seconds device_total(const Profile& p) {
  Seconds sum = p.optimizer.device + p.other.device;
  for (const Layer& layer : p.layers) sum += layer.forward.device + layer.backward.device;
  return sum;
}
/// Steady-state time of a step. A host that never waits runs ahead: the slower of the two streams sets the pace.
Seconds period(const Profile& p) {
  if (!p.host_waits_for_device) return std::max(host_total(p), device_total(p));
  Profile whole = p;
  whole.layers.front().forward.host += p.input;
  return compute_time(whole);
}

constexpr double worth_telling = 0.02, doubtful = 0.10, meaningless = 0.30;  // deviations of the scale from one

void scale_to(Profile& p, Seconds measured, Seconds modelled, std::string_view source) {
  const double factor = measured / modelled;
  if (std::abs(factor - 1) > meaningless)
    throw InputError(
        std::string(source), "a step that takes as long as its parts, within " + percent(meaningless),
        "parts of " + text_of(modelled) + " in a step of " + text_of(measured) + " (median of " +
            counted(std::ssize(p.step_times), "step") + ")",
        "record several steps after the first, in torch.profiler with schedule(wait=1, warmup=1, active=3)");
  scale(p, factor);
  if (std::abs(factor - 1) > worth_telling)
    p.assumed.push_back("all times scaled to " + percent(factor) + " so that they sum to the measured step");
  if (std::abs(factor - 1) > doubtful)
    p.cautions.push_back("the parts of the traced step take " + text_of(modelled) + ", the step " + text_of(measured) +
                         ": all times are scaled to " + percent(factor));
}

/// Time in which neither host nor device did anything that the trace shows, and what FSDP does on a device alone, where
/// no plan of gradients stands for it.
void add_idle(Profile& p, Seconds idle, Seconds for_sharding) {
  const bool host_ends_last =
      p.host_waits_for_device ? period(p) <= host_total(p) * (1 + 1e-9) : host_total(p) >= device_total(p);
  (host_ends_last ? p.other.host : p.other.device) += idle;
  const Seconds copies = std::min(idle, for_sharding);
  if (copies / p.measured_step() > worth_telling)
    p.assumed.push_back("FSDP's own copies on its one device, " + text_of(copies) +
                        " a step, count as 'other', which every plan keeps");
  const double share = (idle - copies) / p.measured_step();
  if (share > worth_telling)
    p.assumed.push_back(percent(share) + " of the step in which " + (host_ends_last ? "the host" : "the device") +
                        " does nothing that the trace shows counts as 'other'");
}

}  // namespace

void slice_fused_layers(Profile& p, const StepAnatomy& step) {
  if (!p.has_device()) return;
  constexpr std::uint32_t slices = 16;
  constexpr std::int64_t many_kernels = 4 * slices;  // an operator of eager mode launches a few
  std::vector<Layer> layers;
  std::vector<std::uint32_t> first(p.layers.size()), count(p.layers.size(), 1), order;
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    const Layer& whole = p.layers[l];
    first[l] = std::uint32_t(layers.size());
    const AnatomyLayer& traced = step.layers[l];
    const bool large = std::max(traced.forward.device.pieces, traced.backward.device.pieces) >= many_kernels;
    if (large) count[l] = slices;
    for (std::uint32_t k = 0; k < count[l]; ++k) {
      Layer part = whole;
      if (count[l] > 1) part.name += "/" + std::to_string(k + 1), part.slice = k > 0;
      part.forward = whole.forward / count[l];
      part.backward = whole.backward / count[l];
      if (k > 0) part.input_shape.clear(), part.input_dtype = DataType::f32;
      part.kept = whole.kept / double(count[l]);
      layers.push_back(std::move(part));
    }
  }
  if (layers.size() == p.layers.size()) return;
  for (const std::uint32_t l : p.backward_order)
    for (std::uint32_t k = count[l]; k-- > 0;) order.push_back(first[l] + k);
  for (Tensor& tensor : p.tensors) tensor.layer = first[tensor.layer];
  p.layers = std::move(layers);
  p.backward_order = std::move(order);
  const auto cut = std::count(count.begin(), count.end(), slices);
  p.assumed.push_back(
      counted(cut, "layer") +
      " of many kernels (compiled, fused or without parameters to tell its parts) issued evenly: cut into " +
      std::to_string(slices) + " slices of equal cost");
}

void sum_to_measured_step(Profile& p, bool distributed, Seconds for_sharding, std::string_view source) {
  const Seconds measured = p.measured_step();
  if (measured.value() <= 0) return;
  const Seconds modelled = period(p);
  if (modelled > measured || (!p.has_device() && !distributed && modelled.value() > 0))
    scale_to(p, measured, modelled, source);
  else if (!distributed) add_idle(p, measured - modelled, for_sharding);
}

void round_times(Profile& p) {
  const auto round = [](Seconds& t) { t = Seconds(std::round(t.value() * 1e9) / 1e9); };
  const auto round_cost = [&](PassCost& c) {
    const Seconds rest = c.rest();
    round(c.host);
    for (Seconds& time : c.part) round(time);
    c.device = c.part.sum() + rest;
    round(c.device);
  };
  for_each_cost(p, round_cost);
  for_each_communication_cost(p, round_cost);
  round(p.communication.message);
  for (TracedMessage& m : p.messages) round(m.duration);
  round(p.input);
  for (ObservedCollective& c : p.collectives) round(c.duration);
}

}  // namespace stepcast
