// The profile that a roofline gives for a described model, for commands that work on layers and gradients.
#include <stepcast/base/words.hpp>
#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/roofline/unit_roofline.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace stepcast {
namespace {

/// Gradients as the profile and its copies have them; products of tf32 have results in f32.
DataType gradient_type(const ModelShape& model) {
  return model.gradient_dtype == DataType::tf32 ? DataType::f32 : model.gradient_dtype;
}

/// Copies of weights and gradients take the device; as in layouts, what the host takes to launch them is left out.
void add_copy(PassCost& pass, Seconds copy, const Device& device) {
  if (device.on_host) {
    pass.host += copy;
    return;
  }
  pass.device += copy;
  pass.part[KernelClass::memory] += copy;
}

/// Where the host waits for the device it is late for every layer, as measured steps say: the device then takes as long
/// as the host to launch its kernels, one layer after the other (as in layouts, described.cpp).
PassCost paced(const PassTime& time, const ModelShape& model, const Device& device) {
  PassCost cost = cost_of(time, device);
  if (!device.on_host && (waits_for_device(model.kernels) || device.launch_blocking))
    cost.device = time.elapsed(device);
  return cost;
}

Layer layer_of(const UnitShape& unit, const ModelShape& model, const Device& device, double samples) {
  UnitTimes times;
  for (const OperatorShape& o : unit.operators)
    times.add(device, model.dtype, o, work_of(o, samples).for_pairs(o, samples * double(model.heads)));
  Layer layer;
  layer.forward = paced(times.forward, model, device);
  layer.backward = paced(times.backward(), model, device);
  const double parameters = unit.divided_parameters + unit.other_parameters + unit.expert_parameters;
  const WeightCopies copies =
      weight_copies(device, model.kernels, parameters, size_of(model.dtype), size_of(gradient_type(model)));
  add_copy(layer.forward, copies.forward, device);
  add_copy(layer.backward, copies.backward, device);
  layer.kept = (unit.kept.divided + unit.kept.sequence) * samples;
  if (model.sequence > 0 && samples == std::floor(samples) && samples < 1e9) {
    const bool of_tokens = &unit == &model.units.front() && model.units.size() > 1;
    layer.input_shape = {std::int64_t(samples), model.sequence};
    if (!of_tokens) layer.input_shape.push_back(model.hidden);
    layer.input_dtype = of_tokens ? DataType::i64 : model.dtype;
  }
  return layer;
}

/// Gradients of `unit` as they become ready: those of its last operators first.
void add_tensors(const UnitShape& unit, DataType dtype, std::uint32_t layer, const std::string& prefix,
                 std::vector<Tensor>& out) {
  for (auto p = unit.parameters.rbegin(); p != unit.parameters.rend(); ++p)
    out.push_back({prefix + "." + p->name, p->shape, dtype, Bytes(p->elements() * size_of(dtype)), layer});
}

}  // namespace

Profile described_profile(const ModelShape& model, const Device& described, double samples) {
  const Device device = driven_by(described, model.launch);
  if (!(samples > 0 && std::isfinite(samples)))
    throw InputError("--batch", "a number of samples above zero", fixed(samples, 0));
  Profile profile;
  profile.model = model.name;
  const std::string name = device.name.empty() ? "described device" : device.name;
  if (!device.on_host) profile.device = name;
  profile.batch_samples = samples;
  profile.described = true;
  profile.device_error = known_error(device, model);
  profile.rates = rates_of(device, model);
  const DataType dtype = gradient_type(model);
  std::vector<std::pair<const UnitShape*, std::string>> units;
  Bytes standing;
  for (const UnitShape& unit : model.units) {
    Layer layer = layer_of(unit, model, device, samples);
    const GradientsBeside beside = gradients_beside(model, unit, std::mem_fn(&OperatorShape::product));
    standing = std::max(standing, beside.standing);
    profile.transient_memory =
        std::max(profile.transient_memory, (unit.transient + unit.kept.input) * samples + beside.at_work);
    for (std::int64_t i = 0; i < unit.repetitions; ++i) {
      layer.name = unit.repetitions == 1 ? unit.name : unit.name + "." + std::to_string(i);
      profile.layers.push_back(layer);
      profile.activation_memory += layer.kept;
      units.emplace_back(&unit, layer.name);
    }
  }
  profile.transient_memory += standing;
  profile.backward_order.resize(profile.layers.size());
  std::iota(profile.backward_order.rbegin(), profile.backward_order.rend(), 0u);
  for (const std::uint32_t l : profile.backward_order)
    add_tensors(*units[l].first, dtype, l, units[l].second, profile.tensors);

  const UpdateShape update = update_of(model);
  PassTime behind = update.time(device, model.dtype);
  // What gradients that travel are divided by is left out: of a worker alone nobody knows.
  if (const Bytes passes = gradient_passes(model).always; passes > Bytes(0))
    behind.memory += memory_time(device, passes);
  profile.optimizer = cost_of(behind, device);
  profile.bytes_of_state = update.bytes_of_state;
  profile.provenance = "described as " + model.name + ", on the roofline of " + name;
  profile.recognised.push_back(fixed(model.parameters() / 1e6, 1) + " million parameters in " +
                               std::to_string(profile.layers.size()) + " units");
  profile.assumed.push_back(source_of_times(device));
  profile.assumed.push_back("optimizer: " + update.optimizer + " in one fused kernel");
  for (const std::string& line : device.provenance) profile.assumed.push_back(name + ": " + line);
  return checked(std::move(profile), model.name);
}

}  // namespace stepcast
