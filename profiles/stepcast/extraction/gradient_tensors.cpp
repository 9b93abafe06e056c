// Gradient tensors: one function a source; see gradient_tensors.hpp for their order.
#include <stepcast/base/text.hpp>
#include <stepcast/extraction/gradient_tensors.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/roofline/shipped_models.hpp>
#include <stepcast/trace/tensor_shapes.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace stepcast {
namespace {

/// Kinds of parameterised operators, as far as a model description and a trace can both tell them.
enum class ModuleKind : std::uint8_t { convolution, linear, norm, embedding, other };

ModuleKind kind_of_operator(std::string_view name) {
  const std::string key = naming::operator_key(name);
  const auto has = [&](std::string_view part) { return key.find(part) != std::string::npos; };
  if (has("norm")) return ModuleKind::norm;
  if (has("conv")) return ModuleKind::convolution;
  if (has("embedding")) return ModuleKind::embedding;
  if (key == "linear" || key == "addmm" || key == "matmul" || key == "mm" || key == "bmm") return ModuleKind::linear;
  return ModuleKind::other;
}

ModuleKind kind_of_parameter(const Tensor& first) {
  if (first.shape.size() >= 3) return ModuleKind::convolution;
  if (first.shape.size() == 2)
    return first.name.find("embedding") == std::string::npos ? ModuleKind::linear : ModuleKind::embedding;
  return ModuleKind::norm;
}

/// The modules of a model description: consecutive parameters of one `layer`.
struct Module {
  std::size_t first = 0, count = 0;
};
std::vector<Module> modules_of(std::span<const Tensor> parameters) {
  std::vector<Module> modules;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (i == 0 || parameters[i].layer != parameters[i - 1].layer) modules.push_back({i, 0});
    ++modules.back().count;
  }
  return modules;
}

/// Positions of the parameter arguments of an operator, in the order in which modules register them.
std::vector<std::size_t> parameter_arguments(std::string_view name) {
  const std::string key = naming::operator_key(name);
  if (key == "addmm") return {2, 0};
  if (key == "layernorm" || key == "nativelayernorm" || key == "groupnorm" || key == "rmsnorm") return {2, 3};
  if (key == "embedding" || key == "embeddingbag") return {0};
  return {1, 2};  // conv*, linear, matmul, mm, batch_norm, prelu
}

struct Shaped {
  TensorShape shape;
  DataType dtype = DataType::f32;
};

class Finder {
 public:
  Finder(const TraceIndex& index, const StepAnatomy& step, const ProfileOptions& options,
         std::span<const TracedCollective> collectives)
      : trace_(index.trace), step_(step), options_(options), collectives_(collectives) {
    for (std::size_t g = 0; g < step.gradients.size(); ++g) by_layer_[step.gradients[g].layer].push_back(g);
  }

  GradientTensors result() {
    name_layers_by_operator();
    std::optional<std::vector<Shaped>> shapes = accumulated_shapes();
    if (!shapes) shapes = argument_shapes();
    if (shapes) {
      if (options_.parameter_count > 0)
        throw InputError(trace_.source, "a trace without shapes beside a number of parameters", "shapes of its own",
                         "leave the number of parameters out");
      use_shapes(*shapes);
      adopt_names();
    } else if (!options_.parameters.empty()) {
      use_parameters(options_.parameters);
      out_.assumed.push_back("gradient sizes from the given model description");
    } else if (options_.parameter_count > 0) {
      use_count();
    } else if (!use_recognised_model() && !use_messages() && !use_reductions()) {
      throw InputError(trace_.source, "gradient sizes (input shapes, or a model that is known)",
                       std::to_string(step_.gradients.size()) + " gradients without shapes",
                       "pass --parameters 350M (how many there are), --model NAME, or record the trace with "
                       "record_shapes=True");
    }
    return std::move(out_);
  }

 private:
  std::string_view text(StringId id) const { return trace_.text(id); }
  const Event& gradient_event(std::size_t g) const { return trace_.events[step_.gradients[g].event]; }

  void name_layers_by_operator() {
    std::map<std::string, int> used;
    for (const AnatomyLayer& layer : step_.layers) {
      const std::string name =
          layer.anchor == no_index ? "model" : naming::short_name(text(trace_.events[layer.anchor].name));
      out_.layer_names.push_back(name + "_" + std::to_string(used[name]++));
    }
  }

  // ---- shapes from the trace ----

  std::optional<std::vector<Shaped>> accumulated_shapes() {
    std::vector<Shaped> shapes;
    std::size_t scalars = 0;
    for (std::size_t g = 0; g < step_.gradients.size(); ++g) {
      const Event& e = gradient_event(g);
      std::vector<TensorShape> dims = shapes_of(text(e.shapes));
      if (dims.empty()) return std::nullopt;
      if (dims[0].empty()) ++scalars;  // a parameter without dimensions, or a trace without shapes
      shapes.push_back({std::move(dims[0]), first_type_of(text(e.types))});
    }
    if (2 * scalars >= shapes.size()) return std::nullopt;
    out_.recognised.push_back("gradient shapes from the AccumulateGrad nodes");
    return shapes;
  }

  std::optional<std::vector<Shaped>> argument_shapes() {
    std::vector<Shaped> shapes(step_.gradients.size());
    for (const auto& [layer, gradients] : by_layer_) {
      if (step_.layers[layer].anchor == no_index) return std::nullopt;
      const Event& e = trace_.events[step_.layers[layer].anchor];
      const std::vector<TensorShape> dims = shapes_of(text(e.shapes));
      std::size_t found = 0;
      for (const std::size_t argument : parameter_arguments(text(e.name)))
        if (argument < dims.size() && !dims[argument].empty() && found < gradients.size())
          shapes[gradients[found++]] = {dims[argument], first_type_of(text(e.types))};
      if (found != gradients.size()) return std::nullopt;
    }
    if (shapes.empty()) return std::nullopt;
    out_.recognised.push_back("gradient shapes from the arguments of the forward operators");
    return shapes;
  }

  void use_shapes(const std::vector<Shaped>& shapes) {
    std::vector<int> others(step_.layers.size(), 0);
    std::vector<bool> has_weight(step_.layers.size(), false);
    std::unordered_set<std::string> names;
    for (std::size_t g = 0; g < shapes.size(); ++g) {
      Tensor tensor;
      tensor.layer = step_.gradients[g].layer;
      tensor.shape = shapes[g].shape;
      tensor.dtype = shapes[g].dtype;
      tensor.size = Bytes(elements_of(tensor.shape) * size_of(tensor.dtype));
      const bool small = by_layer_[tensor.layer].size() <= 2;
      const bool vector_only = norm_like(tensor.layer);
      const bool weight = vector_only ? !has_weight[tensor.layer] : tensor.shape.size() > 1;
      std::string suffix = weight ? ".weight" : ".bias";
      if (!small || names.count(out_.layer_names[tensor.layer] + suffix) != 0)
        suffix = ".parameter_" + std::to_string(others[tensor.layer]++);
      if (weight) has_weight[tensor.layer] = true;
      tensor.name = out_.layer_names[tensor.layer] + suffix;
      names.insert(tensor.name);
      out_.tensors.push_back(std::move(tensor));
    }
  }
  bool norm_like(std::uint32_t layer) const {
    const std::uint32_t anchor = step_.layers[layer].anchor;
    return anchor != no_index && kind_of_operator(text(trace_.events[anchor].name)) == ModuleKind::norm;
  }

  // ---- names and sizes from a description ----

  /// Gradients in the forward order of their layers, weight before bias where the sizes tell.
  std::vector<std::size_t> forward_order() const {
    std::vector<std::size_t> order;
    for (const auto& [layer, gradients] : by_layer_) order.insert(order.end(), gradients.begin(), gradients.end());
    return order;
  }

  void use_parameters(std::span<const Tensor> parameters) {
    if (parameters.size() != step_.gradients.size())
      throw InputError(trace_.source,
                       "as many parameters as gradients (" + std::to_string(step_.gradients.size()) + ")",
                       "a model description with " + std::to_string(parameters.size()),
                       "is this the model that was traced, and are all its parameters trained?");
    const std::vector<std::size_t> order = forward_order();
    out_.tensors.resize(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      Tensor tensor = parameters[i];
      tensor.layer = step_.gradients[order[i]].layer;
      out_.tensors[order[i]] = std::move(tensor);
    }
    name_layers_by_parameters();
  }

  /// "layer1.0.conv1.weight" -> "layer1.0.conv1", where that is unique.
  void name_layers_by_parameters() {
    std::unordered_set<std::string> used;
    std::vector<std::string> names = out_.layer_names;
    for (const auto& [layer, gradients] : by_layer_) {
      std::string name = out_.tensors[gradients.front()].name;
      if (const std::size_t dot = name.rfind('.'); dot != std::string::npos) name.resize(dot);
      if (!name.empty() && used.insert(name).second) names[layer] = name;
    }
    if (std::unordered_set<std::string>(names.begin(), names.end()).size() == names.size()) out_.layer_names = names;
  }

  /// True when module by module the number of tensors and the kind of operator agree.
  bool same_modules(const ModelDescription& model) const {
    const std::vector<Module> modules = modules_of(model.parameters);
    if (modules.size() != by_layer_.size()) return false;
    std::size_t m = 0;
    for (const auto& [layer, gradients] : by_layer_) {
      if (modules[m].count != gradients.size()) return false;
      const std::uint32_t anchor = step_.layers[layer].anchor;
      if (anchor == no_index) return false;
      const ModuleKind traced = kind_of_operator(text(trace_.events[anchor].name));
      if (traced != kind_of_parameter(model.parameters[modules[m].first])) return false;
      ++m;
    }
    return true;
  }

  Bytes reduced() const {
    Bytes sum;
    for (const TracedCollective& c : collectives_)
      if (naming::is_reduction(c.operation)) sum += c.size;
    return sum;
  }

  bool use_recognised_model() {
    for (const ModelDescription& model : shipped_models()) {
      if (model.parameters.size() != step_.gradients.size() || !same_modules(model)) continue;
      Bytes size;
      for (const Tensor& parameter : model.parameters) size += parameter.size;
      const double share = reduced() / size;
      // The same gradients may be reduced in half precision, and next to other small reductions.
      const bool agrees = reduced().value() == 0 || (share > 0.49 && share < 1.02);
      if (!agrees) {
        out_.missing.push_back("the modules are those of " + model.name + " but " + text_of(reduced()) +
                               " were reduced per step, not " + text_of(size) + ": not used");
        continue;
      }
      use_parameters(model.parameters);
      out_.model = model.name;
      out_.missing.push_back("input shapes");
      out_.assumed.push_back("the model is " + model.name + " (" + std::to_string(model.parameters.size()) +
                             " gradients, same sequence of modules" +
                             (std::abs(share - 1) < 0.02 ? ", and the reduced bytes agree" : "") +
                             "): gradient sizes from its description");
      return true;
    }
    return false;
  }

  /// Gives a trace with shapes the parameter names of the shipped model, or of the caller's description, that it fits.
  void adopt_names() {
    if (!options_.parameters.empty()) {
      if (!adopt_names_of(options_.parameters))
        throw InputError(trace_.source, "the parameters of the given model description",
                         std::to_string(out_.tensors.size()) + " gradients with other shapes",
                         "leave the model out: this trace has shapes of its own");
      return;
    }
    for (const ModelDescription& model : shipped_models()) {
      if (!adopt_names_of(model.parameters)) continue;
      out_.model = model.name;
      out_.recognised.push_back("all " + std::to_string(out_.tensors.size()) + " gradient shapes are those of " +
                                model.name);
      return;
    }
  }

  bool adopt_names_of(std::span<const Tensor> parameters) {
    if (parameters.size() != out_.tensors.size()) return false;
    std::vector<std::size_t> order = forward_order();
    std::vector<std::size_t> gradient_of(order.size());
    std::size_t first = 0;
    for (const auto& [layer, gradients] : by_layer_) {  // within a layer any order will do
      std::vector<bool> taken(gradients.size(), false);
      for (std::size_t p = first; p < first + gradients.size(); ++p) {
        std::size_t k = 0;
        while (k < gradients.size() && (taken[k] || out_.tensors[gradients[k]].shape != parameters[p].shape)) ++k;
        if (k == gradients.size()) return false;
        taken[k] = true;
        gradient_of[p] = gradients[k];
      }
      first += gradients.size();
    }
    for (std::size_t p = 0; p < parameters.size(); ++p) out_.tensors[gradient_of[p]].name = parameters[p].name;
    name_layers_by_parameters();
    return true;
  }

  // ---- sizes from what travels ----

  /// How the gradients share the bytes of the messages that take them along: evenly within each. Messages that follow
  /// one another with no gradient in between (buckets that waited for their turn, tensors of a compiled backward pass)
  /// took the gradients before them together. Empty where a gradient travels with none, or with one of unknown size.
  std::vector<double> shares_of_messages() const {
    std::vector<const TracedCollective*> messages;
    for (const TracedCollective& c : collectives_)
      if (naming::is_reduction(c.operation)) messages.push_back(&c);
    std::ranges::stable_sort(messages, {}, &TracedCollective::issued_ns);
    std::vector<std::size_t> order(step_.gradients.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::ranges::stable_sort(order, {}, [&](std::size_t g) { return step_.gradients[g].ready_ns; });
    constexpr double smallest = 2;             // of a gradient of one element
    constexpr double smallest_message = 4096;  // losses and norms are reduced too
    std::vector<double> bytes(order.size(), 0);
    std::size_t begin = 0, next = 0;  // the gradients of the message before
    double taken = 0;
    const auto share_out = [&] {
      for (std::size_t i = begin; i < next; ++i) bytes[order[i]] = taken / double(next - begin);
      return begin == next || taken / double(next - begin) >= smallest;
    };
    for (const TracedCollective* m : messages) {
      std::size_t end = next;
      while (end < order.size() && step_.gradients[order[end]].ready_ns <= m->issued_ns) ++end;
      if (end == next && m->size.value() < smallest_message) continue;
      if (end > next) {
        if (!share_out()) return {};
        begin = next, next = end, taken = 0;
      }
      taken += m->size.value();
    }
    if (next != order.size() || !share_out()) return {};
    return bytes;
  }

  void use_bytes(const std::vector<double>& bytes) {
    std::vector<int> used(step_.layers.size(), 0);
    for (std::size_t g = 0; g < bytes.size(); ++g) {
      Tensor tensor;
      tensor.layer = step_.gradients[g].layer;
      const double element = size_of(DataType::f32);
      tensor.size = Bytes(std::max(1.0, std::round(bytes[g] / element)) * element);
      tensor.name = out_.layer_names[tensor.layer] + ".parameter_" + std::to_string(used[tensor.layer]++);
      out_.tensors.push_back(std::move(tensor));
    }
    out_.missing.push_back("input shapes");
  }

  bool use_messages() {
    const std::vector<double> bytes = shares_of_messages();
    if (bytes.empty()) return false;
    use_bytes(bytes);
    out_.assumed.push_back("gradient sizes: the bytes of each reduction (" + text_of(reduced()) +
                           " in all), shared out evenly among the gradients that became ready before it");
    return true;
  }

  /// So many parameters of four bytes; by messages where these have sizes.
  void use_count() {
    const std::size_t gradients = step_.gradients.size();
    if (options_.parameter_count < double(gradients))
      throw InputError(trace_.source, "a parameter or more for each of " + std::to_string(gradients) + " gradients",
                       exact_text_of(options_.parameter_count), "350M are 350 million");
    const Bytes all(options_.parameter_count * size_of(DataType::f32));
    std::vector<double> bytes = shares_of_messages();
    const bool by_messages = !bytes.empty();
    if (!by_messages) bytes.assign(gradients, 1);
    const double sum = std::accumulate(bytes.begin(), bytes.end(), 0.0);
    for (double& b : bytes) b *= all.value() / sum;
    use_bytes(bytes);
    out_.assumed.push_back("gradient sizes: " + text_of(all) + " of parameters, as their number says, shared out " +
                           (by_messages ? "like the bytes of the reductions that take them along"
                                        : "evenly among " + std::to_string(bytes.size()) + " gradients"));
  }

  bool use_reductions() {
    constexpr double smallest_bytes = 4096;  // losses and norms are reduced too
    std::map<std::string, int> used;
    const std::uint32_t layer = step_.backward_order.back();
    for (const TracedCollective& c : collectives_) {
      if (!naming::is_reduction(c.operation) || c.size.value() < smallest_bytes) continue;
      Tensor tensor;
      tensor.name = c.operation + "_" + std::to_string(used[c.operation]++);
      tensor.size = c.size;
      tensor.layer = layer;
      out_.tensors.push_back(std::move(tensor));
    }
    if (out_.tensors.empty()) return false;
    out_.missing.push_back("input shapes");
    out_.assumed.push_back("gradient sizes are those of the " + std::to_string(out_.tensors.size()) +
                           " reductions of a step (" + text_of(reduced()) +
                           "), all of them ready at the end of the backward pass");
    return true;
  }

  const Trace& trace_;
  const StepAnatomy& step_;
  const ProfileOptions& options_;
  std::span<const TracedCollective> collectives_;
  std::map<std::uint32_t, std::vector<std::size_t>> by_layer_;  ///< layer -> gradients, in forward order of layers
  GradientTensors out_;
};

}  // namespace

GradientTensors gradient_tensors(const TraceIndex& index, const StepAnatomy& step, const ProfileOptions& options,
                                 std::span<const TracedCollective> collectives) {
  return Finder(index, step, options, collectives).result();
}

}  // namespace stepcast
