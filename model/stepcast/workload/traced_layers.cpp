// Traced layers: weights become products, products columns and rows; see traced_layers.hpp.
#include <stepcast/workload/traced_layers.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

namespace stepcast {
namespace {

bool is_integer(DataType t) {
  return t == DataType::i64 || t == DataType::i32 || t == DataType::i16 || t == DataType::i8;
}

class Shapes {
 public:
  Shapes(const Profile& p, const ProfileBlocks& blocks, double samples, const Device* device)
      : p_(p), blocks_(blocks), samples_(samples), device_(device), of_layer_(p.layers.size()) {
    for (const Tensor& t : p.tensors) of_layer_[t.layer].push_back(&t);
    out_.layers.resize(p.layers.size());
  }

  TracedShapes result() {
    for (std::uint32_t l = 0; l < out_.layers.size(); ++l) recognise(l);
    find_hidden();
    turn_around();
    if (out_.hidden > 0) {
      for (std::uint32_t b = 0; b < blocks_.repetitions; ++b)
        divide_block(blocks_.before + b * blocks_.layers, blocks_.before + (b + 1) * blocks_.layers);
      divide_end(0, blocks_.before);
      divide_end(blocks_.before + blocks_.repetitions * blocks_.layers, std::uint32_t(out_.layers.size()));
      divide_embedding();
    }
    find_rows();
    count_parameters();
    return std::move(out_);
  }

 private:
  std::uint32_t blocks_end() const { return blocks_.before + blocks_.repetitions * blocks_.layers; }

  void recognise(std::uint32_t l) {
    TracedLayer& layer = out_.layers[l];
    const Layer& traced = p_.layers[l];
    const Tensor* weight = nullptr;
    for (const Tensor* t : of_layer_[l]) {
      if (t->shape.size() >= 3 && t->shape[0] > 1) layer.has_convolution = true;
      if (t->shape.size() == 2 && (weight == nullptr || t->size > weight->size)) weight = t;
    }
    if (weight == nullptr || layer.has_convolution) return;
    const bool indexed = !traced.input_shape.empty() && is_integer(traced.input_dtype);
    layer.is_embedding = indexed || traced.name.find("embed") != std::string::npos;
    if (layer.is_embedding) return;
    layer.has_product = true;
    layer.product = {1, 0, double(weight->shape[0]), double(weight->shape[1])};
    if (traced.input_shape.empty()) return;
    const auto width = double(traced.input_shape.back());
    if (width != layer.product.k && width == layer.product.n) std::swap(layer.product.n, layer.product.k);
    if (width == layer.product.k) layer.product.m = traced.input_elements() / (layer.product.k * samples_);
  }

  /// The most frequent extent of the block's weights; of equally frequent ones the first product's input.
  void find_hidden() {
    std::map<double, int> count;
    double first = 0;
    for (std::uint32_t l = blocks_.before; l < blocks_.before + blocks_.layers; ++l) {
      const TracedLayer& layer = out_.layers[l];
      if (!layer.has_product) continue;
      if (first == 0) first = layer.product.k;
      ++count[layer.product.n];
      ++count[layer.product.k];
    }
    for (const auto& [extent, n] : count)
      if (out_.hidden == 0 || n > count[out_.hidden] || (n == count[out_.hidden] && extent == first))
        out_.hidden = extent;
  }

  /// Some modules keep their weights as k x n: then the first product that is not square would leave the model's width.
  void turn_around() {
    for (std::uint32_t l = blocks_.before; l < blocks_.before + blocks_.layers; ++l) {
      const TracedLayer& layer = out_.layers[l];
      if (!layer.has_product || layer.product.n == layer.product.k) continue;
      if (layer.product.m > 0 || layer.product.k == out_.hidden || layer.product.n != out_.hidden) return;
      for (TracedLayer& each : out_.layers)
        if (each.has_product && each.product.m == 0) std::swap(each.product.n, each.product.k);
      return;
    }
  }

  void divide_block(std::uint32_t begin, std::uint32_t end) {
    std::vector<std::uint32_t> products;
    for (std::uint32_t l = begin; l < end; ++l)
      if (out_.layers[l].has_product) products.push_back(l);
    bool open = false;
    for (std::size_t i = 0; i < products.size(); ++i) {
      TracedLayer& layer = out_.layers[products[i]];
      const bool from = layer.product.k == out_.hidden, to = layer.product.n == out_.hidden;
      const bool square = from && to;
      const TracedLayer* next = i + 1 < products.size() ? &out_.layers[products[i + 1]] : nullptr;
      const bool next_from = next != nullptr && next->product.k == out_.hidden;
      const bool next_square = next_from && next->product.n == out_.hidden;
      // Of a row of square products the last one closes the group, unless what follows takes its columns.
      const bool closes = !from || (square && open && !next_square && (next == nullptr || next_from));
      layer.division = closes ? Division::rows : Division::columns;
      layer.closes_attention = closes && square;
      open = !closes;
    }
    mark_divided(begin, end);
  }
  /// What lies behind a product by columns, up to the next product by rows, works on a part of the columns.
  void mark_divided(std::uint32_t begin, std::uint32_t end) {
    bool open = false;
    for (std::uint32_t l = begin; l < end; ++l) {
      TracedLayer& layer = out_.layers[l];
      if (layer.has_product) open = layer.division == Division::columns;
      layer.divided = open;
    }
  }
  /// At the ends of a model frameworks divide what is as long as the vocabulary, and nothing else.
  void divide_end(std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t l = begin; l < end; ++l) {
      TracedLayer& layer = out_.layers[l];
      if (!layer.has_product || layer.product.k != out_.hidden || layer.product.n < 4 * out_.hidden) continue;
      layer.division = Division::columns;
      layer.divided = true;
    }
  }
  void divide_embedding() {
    TracedLayer* largest = nullptr;
    double elements = 4 * out_.hidden * out_.hidden;
    for (std::uint32_t l = 0; l < out_.layers.size(); ++l)
      if (out_.layers[l].is_embedding && weights_of(l) >= elements) {
        elements = weights_of(l);
        largest = &out_.layers[l];
      }
    if (largest != nullptr) largest->division = Division::rows;
  }

  static double elements_of(const Tensor& t) { return t.size.value() / size_of(t.dtype); }
  double weights_of(std::uint32_t l) const {
    double sum = 0;
    for (const Tensor* t : of_layer_[l])
      if (t->shape.size() >= 2) sum += elements_of(*t);
    return sum;
  }

  void find_rows() {
    std::map<double, int> count;
    for (std::uint32_t l = blocks_.before; l < blocks_end(); ++l)
      if (out_.layers[l].product.m > 0) ++count[out_.layers[l].product.m];
    for (const auto& [rows, n] : count)
      if (out_.sequence == 0 || n >= count[out_.sequence]) out_.sequence = rows;
    if (out_.sequence > 0 || out_.hidden == 0) return;
    out_.sequence = estimated_rows();
    if (out_.sequence == 0) return;
    out_.assumed.push_back("the trace has no shapes of activations: about " +
                           std::to_string(std::int64_t(out_.sequence)) +
                           " rows a sample, from the time of the products at the rate of " + device_->name);
    for (TracedLayer& layer : out_.layers)
      if (layer.has_product) layer.product.m = out_.sequence;
  }
  /// The time of the blocks' products (attention's own among them) at the device's rate, over what one row costs.
  double estimated_rows() const {
    if (device_ == nullptr) return 0;
    double seconds = 0, per_row = 0;
    for (std::uint32_t l = blocks_.before; l < blocks_end(); ++l) {
      const TracedLayer& layer = out_.layers[l];
      if (!layer.has_product) continue;
      const double rate = rate_of(l);
      if (rate == 0) return 0;
      MatrixProduct many = layer.product;
      many.m = 1e6;
      seconds += p_.layers[l].forward.part[KernelClass::gemm].value();
      per_row += 2 * layer.product.n * layer.product.k / (rate * matrix_efficiency(*device_, many));
    }
    return per_row > 0 ? std::floor(seconds / per_row / samples_) : 0;
  }
  double rate_of(std::uint32_t l) const {
    for (const Tensor* t : of_layer_[l])
      if (t->shape.size() == 2) return device_->matrix_rate[std::size_t(t->dtype)];
    return 0;
  }

  void count_parameters() {
    for (std::uint32_t l = 0; l < out_.layers.size(); ++l) {
      TracedLayer& layer = out_.layers[l];
      const bool columns = layer.division == Division::columns;
      for (const Tensor* t : of_layer_[l]) {
        // A vector between columns and rows, a bias on its own say, has an entry for each column.
        const bool between = layer.divided && !layer.has_product;
        const bool divided = between || (layer.division != Division::none && (t->shape.size() == 2 || columns));
        (divided ? layer.divided_parameters : layer.other_parameters) += elements_of(*t);
      }
    }
  }

  const Profile& p_;
  const ProfileBlocks& blocks_;
  double samples_;
  const Device* device_;
  std::vector<std::vector<const Tensor*>> of_layer_;
  TracedShapes out_;
};

}  // namespace

TracedShapes traced_shapes(const Profile& p, const ProfileBlocks& blocks, double samples, const Device* device) {
  return Shapes(p, blocks, samples, device).result();
}

}  // namespace stepcast
