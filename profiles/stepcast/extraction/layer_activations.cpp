// Layer activations: see layer_activations.hpp.
#include <stepcast/extraction/layer_activations.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace stepcast {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), key) != names.end();
}

/// The shapes and types of an operator's arguments.
class Arguments {
 public:
  Arguments(const Trace& trace, std::uint32_t event)
      : shapes_(shapes_of(trace.text(trace.events[event].shapes))), types_(trace.text(trace.events[event].types)) {}

  [[nodiscard]] bool has(std::size_t i) const { return i < shapes_.size() && !shapes_[i].empty(); }
  [[nodiscard]] const TensorShape& shape(std::size_t i) const { return shapes_[i]; }
  [[nodiscard]] DataType type(std::size_t i) const {
    const Answer<DataType> type = type_of_argument(types_, i);
    return type ? *type : first_type_of(types_);
  }
  [[nodiscard]] double elements(std::size_t i) const { return has(i) ? elements_of(shapes_[i]) : 0; }
  [[nodiscard]] Bytes size(std::size_t i) const { return Bytes(elements(i) * size_of(type(i))); }

 private:
  std::vector<TensorShape> shapes_;
  std::string_view types_;
};

/// What autograd saves of an operator's arguments (derivatives.yaml of PyTorch). A result that the next operator saves
/// as its own input is left to that one: so are those of relu and of dropout.
Bytes saved_by(std::string_view key, const Arguments& a, bool has_device) {
  if (const auto input = activation_argument(key)) return a.size(*input);
  if (is_one_of(key, {"matmul", "bmm", "baddbmm", "mul", "einsum"})) return a.size(0) + a.size(1);
  if (contains(key, "attention")) return a.size(0) * 2 + a.size(1) + a.size(2);  // query and result; key, value
  if (is_one_of(key, {"gelu", "silu", "elu", "leakyrelu", "hardswish", "mish", "softplus", "softmax", "logsoftmax",
                      "tanh", "sigmoid", "pow", "maxpool2d", "maxpool3d", "crossentropyloss", "mseloss"}))
    return a.size(0);
  // A mask: on a device one byte an element, on the host an array of the input's type.
  if (contains(key, "dropout")) return has_device ? Bytes(a.elements(0)) : a.size(0);
  return Bytes();
}

std::string_view name_of_event(const Trace& trace, std::uint32_t event) { return trace.text(trace.events[event].name); }

/// What each layer works on, by the arguments of its anchor.
std::vector<LayerActivations::Input> inputs_of(const Trace& trace, const StepAnatomy& step) {
  std::vector<LayerActivations::Input> inputs(step.layers.size());
  for (std::size_t l = 0; l < step.layers.size(); ++l) {
    const std::uint32_t anchor = step.layers[l].anchor;
    if (anchor == no_index) continue;
    const Arguments arguments(trace, anchor);
    const std::string key = naming::operator_key(name_of_event(trace, anchor));
    std::optional<std::size_t> at = activation_argument(key);
    // A sum with a parameter (of positions, say): the larger one is the activations.
    if (key == "add" || key == "mul") at = arguments.elements(1) > arguments.elements(0) ? 1 : 0;
    if (at && arguments.has(*at)) inputs[l] = {arguments.shape(*at), arguments.type(*at)};
  }
  return inputs;
}

/// By layer the allocator's balance between the start of an operator and that of the next, or of the backward pass;
/// empty without allocations.
std::vector<double> balances_of(const Trace& trace, const StepAnatomy& step, bool on_device) {
  std::vector<double> balance(step.layers.size(), 0);
  bool any = false;
  std::size_t at = 0;
  for (std::size_t k = 0; k < step.forward.size(); ++k) {
    const std::int64_t begin = trace.events[step.forward[k].event].start_ns;
    std::int64_t end =
        k + 1 < step.forward.size() ? trace.events[step.forward[k + 1].event].start_ns : step.backward_starts_ns.back();
    const auto backward = std::lower_bound(step.backward_starts_ns.begin(), step.backward_starts_ns.end(), begin);
    if (backward != step.backward_starts_ns.end()) end = std::min(end, *backward);
    while (at < trace.allocations.size() && trace.allocations[at].time_ns < begin) ++at;
    for (; at < trace.allocations.size() && trace.allocations[at].time_ns < end; ++at) {
      if (trace.allocations[at].on_device != on_device) continue;
      balance[step.forward[k].layer] += double(trace.allocations[at].bytes);
      any = true;
    }
  }
  return any ? balance : std::vector<double>();
}

/// Kept bytes of each layer as the allocator shows them; empty where it shows nothing.
std::vector<Bytes> allocated(const TraceIndex& index, const StepAnatomy& step) {
  const std::size_t passes = step.backward_starts_ns.size();
  if (step.forward.empty() || passes == 0) return {};
  std::vector<double> balance = balances_of(index.trace, step, index.has_device_work);
  std::vector<Bytes> kept(balance.size());
  for (std::size_t l = balance.size(); l-- > 0;) {
    if (balance[l] < 0 && l > 0) balance[l - 1] += std::exchange(balance[l], 0);
    kept[l] = Bytes(std::max(0.0, balance[l]) / double(passes));
  }
  const bool none = std::all_of(kept.begin(), kept.end(), [](Bytes bytes) { return bytes == Bytes(); });
  return none ? std::vector<Bytes>() : kept;
}

/// Kept bytes of each layer by what its operators save.
std::vector<Bytes> saved(const TraceIndex& index, const StepAnatomy& step) {
  std::vector<Bytes> kept(step.layers.size());
  const double passes = std::max<double>(1, double(step.backward_starts_ns.size()));
  for (const AnatomyOperator& o : step.forward) {
    if (!o.saves) continue;
    const std::string key = naming::operator_key(name_of_event(index.trace, o.event));
    kept[o.layer] += saved_by(key, Arguments(index.trace, o.event), index.has_device_work) / passes;
  }
  return kept;
}

}  // namespace

std::optional<std::size_t> activation_argument(std::string_view operator_name) {
  const std::string key = naming::operator_key(operator_name);
  if (key == "addmm" || key == "embedding" || key == "embeddingbag") return 1;  // bias, input, weight; weight, indices
  if (key == "linear" || key == "mm" || contains(key, "conv") || contains(key, "norm")) return 0;
  return std::nullopt;
}

LayerActivations layer_activations(const TraceIndex& index, const StepAnatomy& step) {
  LayerActivations out;
  out.inputs = inputs_of(index.trace, step);
  out.kept = allocated(index, step);
  if (!out.kept.empty()) {
    out.source = KeptSource::allocations;
    return out;
  }
  out.kept = saved(index, step);
  if (std::any_of(out.kept.begin(), out.kept.end(), [](Bytes bytes) { return bytes > Bytes(); }))
    out.source = KeptSource::shapes;
  return out;
}

}  // namespace stepcast
