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

class Activations {
 public:
  Activations(const TraceIndex& index, const StepAnatomy& step) : index_(index), trace_(index.trace), step_(step) {}

  LayerActivations result() {
    take_inputs();
    out_.kept.assign(step_.layers.size(), Bytes());
    if (!keep_allocated()) keep_saved();
    return std::move(out_);
  }

 private:
  std::string_view name_of_event(std::uint32_t event) const { return trace_.text(trace_.events[event].name); }

  void take_inputs() {
    out_.inputs.resize(step_.layers.size());
    for (std::size_t l = 0; l < step_.layers.size(); ++l) {
      const std::uint32_t anchor = step_.layers[l].anchor;
      if (anchor == no_index) continue;
      const Arguments arguments(trace_, anchor);
      const std::string key = naming::operator_key(name_of_event(anchor));
      std::optional<std::size_t> at = activation_argument(key);
      // A sum with a parameter (of positions, say): the larger one is the activations.
      if (key == "add" || key == "mul") at = arguments.elements(1) > arguments.elements(0) ? 1 : 0;
      if (at && arguments.has(*at)) out_.inputs[l] = {arguments.shape(*at), arguments.type(*at)};
    }
  }

  /// The allocator's balance between the start of an operator and that of the next, or of the backward pass.
  bool keep_allocated() {
    const std::size_t passes = step_.backward_starts_ns.size();
    if (step_.forward.empty() || passes == 0) return false;
    std::vector<double> balance(step_.layers.size(), 0);
    bool any = false;
    std::size_t at = 0;
    for (std::size_t k = 0; k < step_.forward.size(); ++k) {
      const std::int64_t begin = trace_.events[step_.forward[k].event].start_ns;
      std::int64_t end = k + 1 < step_.forward.size() ? trace_.events[step_.forward[k + 1].event].start_ns
                                                      : step_.backward_starts_ns.back();
      const auto backward = std::lower_bound(step_.backward_starts_ns.begin(), step_.backward_starts_ns.end(), begin);
      if (backward != step_.backward_starts_ns.end()) end = std::min(end, *backward);
      while (at < trace_.allocations.size() && trace_.allocations[at].time_ns < begin) ++at;
      for (; at < trace_.allocations.size() && trace_.allocations[at].time_ns < end; ++at) {
        if (trace_.allocations[at].on_device != index_.has_device_work) continue;
        balance[step_.forward[k].layer] += double(trace_.allocations[at].bytes);
        any = true;
      }
    }
    if (!any) return false;
    for (std::size_t l = balance.size(); l-- > 0;) {
      if (balance[l] < 0 && l > 0) balance[l - 1] += std::exchange(balance[l], 0);
      out_.kept[l] = Bytes(std::max(0.0, balance[l]) / double(passes));
    }
    if (std::all_of(out_.kept.begin(), out_.kept.end(), [](Bytes kept) { return kept == Bytes(); })) return false;
    out_.source = KeptSource::allocations;
    return true;
  }

  void keep_saved() {
    const double passes = std::max<double>(1, double(step_.backward_starts_ns.size()));
    for (const AnatomyOperator& o : step_.forward) {
      if (!o.saves) continue;
      const std::string key = naming::operator_key(name_of_event(o.event));
      const Bytes saved = saved_by(key, Arguments(trace_, o.event), index_.has_device_work);
      if (saved > Bytes()) out_.source = KeptSource::shapes;
      out_.kept[o.layer] += saved / passes;
    }
  }

  const TraceIndex& index_;
  const Trace& trace_;
  const StepAnatomy& step_;
  LayerActivations out_;
};

}  // namespace

std::optional<std::size_t> activation_argument(std::string_view operator_name) {
  const std::string key = naming::operator_key(operator_name);
  if (key == "addmm" || key == "embedding" || key == "embeddingbag") return 1;  // bias, input, weight; weight, indices
  if (key == "linear" || key == "mm" || contains(key, "conv") || contains(key, "norm")) return 0;
  return std::nullopt;
}

LayerActivations layer_activations(const TraceIndex& index, const StepAnatomy& step) {
  return Activations(index, step).result();
}

}  // namespace stepcast
