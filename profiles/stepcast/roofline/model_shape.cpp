// ModelShape: what its units add up to, what it has to satisfy, and which family reads a description.
#include <stepcast/base/words.hpp>
#include <stepcast/roofline/description.hpp>
#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/roofline/named_models.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace stepcast {

double ParameterShape::elements() const {
  return std::accumulate(shape.begin(), shape.end(), 1.0,
                         [](double n, std::int64_t extent) { return n * double(extent); });
}

UnitShape counted(UnitShape unit) {
  unit.divided_parameters = unit.other_parameters = unit.expert_parameters = 0;
  for (const ParameterShape& p : unit.parameters)
    (p.expert ? unit.expert_parameters : p.divided ? unit.divided_parameters : unit.other_parameters) += p.elements();
  return unit;
}

std::string_view name_of(KernelSet set) {
  static constexpr std::array<std::string_view, 4> names{"megatron", "compiled", "eager", "deepspeed"};
  return names[static_cast<std::size_t>(set)];
}

std::string_view name_of(RecomputedModule m) {
  static constexpr std::array<std::string_view, recomputed_module_count> names{"layernorm", "moe_act", "mla_up_proj"};
  return names[static_cast<std::size_t>(m)];
}

Device driven_by(Device device, KernelLaunch launch) {
  device.launch_blocking = launch == KernelLaunch::blocking;
  if (launch == KernelLaunch::graphs && !device.on_host) device.issue = Seconds(0);
  return device;
}

double ModelShape::parameters() const {
  double sum = 0;
  for (const UnitShape& u : units)
    sum += double(u.repetitions) * (u.divided_parameters + u.other_parameters + u.expert_parameters);
  return sum;
}

double ModelShape::operations() const {
  double sum = 0;
  for (const UnitShape& u : units)
    for (const OperatorShape& o : u.operators) sum += 3 * double(u.repetitions) * o.product.operations();
  return sum;
}

std::string flaw_of(const ModelShape& model) {
  if (model.units.empty()) return "a model has at least one unit";
  for (const UnitShape& u : model.units) {
    if (u.repetitions < 1) return "unit '" + u.name + "' is repeated less than once";
    for (const OperatorShape& o : u.operators) {
      const MatrixProduct& p = o.product;
      const std::string name = "operator '" + o.name + "' of unit '" + u.name + "'";
      if (p.m != 0 && !(p.m > 0 && p.n > 0 && p.k > 0 && p.batch > 0 && std::isfinite(p.operations())))
        return name + " has an extent that is not above zero";
      if (!(o.traffic.value() >= 0 && std::isfinite(o.traffic.value()))) return name + " moves less than nothing";
      if (!(o.kernels >= 0 && o.backward >= 0)) return name + " has less than no kernels";
    }
  }
  return {};
}

bool has_fused_attention(const ModelShape& model) {
  return std::any_of(model.units.begin(), model.units.end(), [](const UnitShape& unit) {
    return std::any_of(unit.operators.begin(), unit.operators.end(), [](const OperatorShape& o) { return o.fused; });
  });
}

std::optional<AttentionKernel> attention_kernel(const ModelShape& model) {
  for (const UnitShape& unit : model.units)
    for (const OperatorShape& o : unit.operators)
      if (o.kernel) return o.kernel;
  return std::nullopt;
}

std::optional<DataType> linear_type(const ModelShape& model) {
  for (const UnitShape& unit : model.units)
    for (const OperatorShape& o : unit.operators)
      if (o.operands) return o.operands;
  return std::nullopt;
}

bool describes_model(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return named_model(trimmed(text)) != nullptr;
  const std::string_view family = trimmed(text.substr(0, colon));
  // A single letter is a drive of Windows.
  return family.size() > 1 && std::all_of(family.begin(), family.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                  c == '.';
         });
}

ModelShape model_shape_of(std::string_view text) {
  ModelDescriptionText description(text);
  if (is_transformer(description.family())) return transformer_shape(description);
  if (is_convolutional(description.family())) return convolutional_shape(description);
  description.refuse_family(model_families());
}

std::string with_word(std::string description, std::string_view key, std::string_view value) {
  const std::string word = std::string(key) + "=";
  for (std::size_t at = description.find(word); at != std::string::npos; at = description.find(word, at + 1)) {
    if (at == 0 || (description[at - 1] != ',' && description[at - 1] != ':')) continue;
    return description.replace(at, std::min(description.find(',', at), description.size()) - at,
                               word + std::string(value));
  }
  return description + (description.find(':') == std::string::npos ? ":" : ",") + word + std::string(value);
}

}  // namespace stepcast
