// Convolutional networks for image classification: ResNet, VGG and AlexNet as torchvision defines them.
//
// A convolution is an implicit matrix product: a row per output pixel, a column per output channel, a term per input
// channel and position of the window; its input crosses the memory once. Units are residual blocks, or single
// convolutions with what follows them, and the classifier. Kept between the passes: what a norm, a convolution or a
// pool reads; ReLU works in place. He et al. 2015 (arXiv 1512.03385, with the stride in the 3 x 3 convolution),
// Simonyan and Zisserman 2014 (arXiv 1409.1556), Krizhevsky 2014 (arXiv 1404.5997).
#include <stepcast/roofline/description.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace stepcast {
namespace {

struct Window {
  std::int64_t size = 3, stride = 1, padding = 1;
};

/// Channels and extent of a square image on its way through the network.
struct Image {
  std::int64_t channels = 3, side = 224;
  [[nodiscard]] double elements() const { return double(channels) * double(side) * double(side); }
  [[nodiscard]] Image after(const Window& w, std::int64_t to) const {
    return {to, (side + 2 * w.padding - w.size) / w.stride + 1};
  }
};

/// One unit, operator by operator.
class Unit {
 public:
  Unit(std::string name, Image input, DataType dtype) : bytes_(size_of(dtype)), input_(input), image_(input) {
    unit_.name = std::move(name);
    unit_.kept.input = unit_.kept.divided = size_of_all(input.elements());
  }

  void convolution(const std::string& name, std::int64_t to, Window w, bool bias, bool norm) {
    unit_.operators.push_back(product(name, unit_.parameters, image_, to, w, bias));
    widest_ = std::max(widest_, image_.elements() + image_.after(w, to).elements());
    image_ = image_.after(w, to);
    if (bias) traffic("bias", 2 * image_.elements(), 0.5);
    if (norm) batch_norm(name + ".norm", image_);
  }
  /// The 1 x 1 convolution beside a residual block, from the unit's input.
  void shortcut(std::int64_t to, std::int64_t stride) {
    const Window w{1, stride, 0};
    unit_.operators.push_back(product("shortcut", unit_.parameters, input_, to, w, false));
    batch_norm("shortcut.norm", input_.after(w, to));
  }
  void relu(bool kept = true) {
    traffic("relu", 2 * image_.elements(), 1.5);
    if (kept) keep(image_.elements());
  }
  void sum() { traffic("residual", 3 * image_.elements(), 1); }
  void pool(Window w) {
    const Image to = image_.after(w, image_.channels);
    traffic("pool", image_.elements() + to.elements() * (1 + 8 / bytes_), 1);
    unit_.kept.divided += Bytes(8 * to.elements());  // where each maximum was
    image_ = to;
  }
  void average_pool(std::int64_t side) {
    traffic("average pool", image_.elements(), 1);
    image_.side = side;
  }
  /// `features` of the classifier, dropped out in front.
  void dense(const std::string& name, std::int64_t to, bool dropout) {
    const auto from = std::int64_t(image_.elements());
    if (dropout) {
      traffic("dropout", 2 * double(from) + double(from) / bytes_, 1);
      keep(double(from) * (1 + 1 / bytes_));
    }
    image_ = {from, 1};
    unit_.operators.push_back(product(name, unit_.parameters, image_, to, {1, 1, 0}, true));
    unit_.parameters[unit_.parameters.size() - 2].shape = {to, from};
    image_ = {to, 1};
  }
  void loss() { traffic("cross entropy", 4 * image_.elements(), 1); }

  [[nodiscard]] const Image& image() const { return image_; }
  [[nodiscard]] UnitShape shape(std::int64_t repetitions = 1) {
    unit_.repetitions = repetitions;
    unit_.boundary = size_of_all(image_.elements());
    unit_.transient = size_of_all(widest_);
    return counted(unit_);
  }

 private:
  [[nodiscard]] Bytes size_of_all(double elements) const { return Bytes(elements * bytes_); }
  void keep(double elements) { unit_.kept.divided += size_of_all(elements); }

  static OperatorShape product(const std::string& name, std::vector<ParameterShape>& parameters, const Image& from,
                               std::int64_t to, const Window& w, bool bias) {
    const Image out = from.after(w, to);
    OperatorShape o;
    o.name = name;
    o.weighted = o.convolution = true;
    const double pixels = double(out.side) * double(out.side), terms = double(from.channels * w.size * w.size);
    o.product = {1, pixels, double(to), terms, std::max(0.0, pixels * terms - from.elements())};
    parameters.push_back({name + ".weight", {to, from.channels, w.size, w.size}});
    if (bias) parameters.push_back({name + ".bias", {to}});
    return o;
  }
  /// Statistics, then the norm: two reads and a write; backward each of them for input and gradient.
  void batch_norm(const std::string& name, const Image& image) {
    traffic(name, 3 * image.elements(), 5.0 / 3);
    keep(image.elements());
    unit_.parameters.push_back({name + ".weight", {image.channels}});
    unit_.parameters.push_back({name + ".bias", {image.channels}});
  }
  void traffic(std::string name, double elements, double backward) {
    OperatorShape o;
    o.name = std::move(name);
    o.traffic = size_of_all(elements);
    o.backward = backward;
    unit_.operators.push_back(std::move(o));
  }

  UnitShape unit_;
  double bytes_;
  double widest_ = 0;  ///< elements on both sides of a convolution
  Image input_, image_;
};

struct Start {
  Image image;
  std::int64_t classes;
  DataType dtype;
};

// ---- ResNet ----

/// A block at its first (striding, widening) or a later place of its stage. The last ReLU's result is the next unit's
/// input, which keeps it.
Unit residual_block(const std::string& name, Image in, std::int64_t width, std::int64_t stride, bool bottleneck,
                    DataType dtype) {
  const std::int64_t out = bottleneck ? 4 * width : width;
  Unit unit(name, in, dtype);
  if (bottleneck) {
    unit.convolution("conv1", width, {1, 1, 0}, false, true);
    unit.relu();
    unit.convolution("conv2", width, {3, stride, 1}, false, true);
    unit.relu();
    unit.convolution("conv3", out, {1, 1, 0}, false, true);
  } else {
    unit.convolution("conv1", width, {3, stride, 1}, false, true);
    unit.relu();
    unit.convolution("conv2", out, {3, 1, 1}, false, true);
  }
  if (stride != 1 || in.channels != out) unit.shortcut(out, stride);
  unit.sum();
  unit.relu(false);
  return unit;
}

std::vector<UnitShape> resnet(const Start& start, const std::array<int, 4>& blocks, bool bottleneck) {
  std::vector<UnitShape> units;
  Unit stem("stem", start.image, start.dtype);
  stem.convolution("conv", 64, {7, 2, 3}, false, true);
  stem.relu();
  stem.pool({3, 2, 1});
  units.push_back(stem.shape());
  Image image = stem.image();
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t width = 64 << stage;
    const std::string name = "stage" + std::to_string(stage + 1);
    Unit first = residual_block(name + ".first", image, width, stage == 0 ? 1 : 2, bottleneck, start.dtype);
    units.push_back(first.shape());
    image = first.image();
    Unit later = residual_block(name + ".block", image, width, 1, bottleneck, start.dtype);
    if (blocks[std::size_t(stage)] > 1) units.push_back(later.shape(blocks[std::size_t(stage)] - 1));
  }
  Unit head("head", image, start.dtype);
  head.average_pool(1);
  head.dense("classifier", start.classes, false);
  head.loss();
  units.push_back(head.shape());
  return units;
}

// ---- networks without residuals ----

struct PlainLayer {
  std::int64_t channels = 0;
  Window window;
  Window pool{0, 0, 0};  ///< size 0: none follows
};

std::vector<UnitShape> plain_network(const Start& start, std::span<const PlainLayer> layers, bool norm,
                                     std::int64_t pooled_side, bool dropout_first) {
  std::vector<UnitShape> units;
  Image image = start.image;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Unit unit("conv" + std::to_string(i + 1), image, start.dtype);
    unit.convolution("conv", layers[i].channels, layers[i].window, true, norm);
    const bool pools = layers[i].pool.size > 0;
    unit.relu(pools);
    if (pools) unit.pool(layers[i].pool);
    image = unit.image();
    units.push_back(unit.shape());
  }
  const std::array<std::int64_t, 3> widths = {4096, 4096, start.classes};
  for (std::size_t i = 0; i < widths.size(); ++i) {
    Unit unit("dense" + std::to_string(i + 1), image, start.dtype);
    if (i == 0) unit.average_pool(pooled_side);
    // AlexNet drops out in front of its first two dense layers, VGG behind them.
    unit.dense("dense", widths[i], dropout_first ? i < 2 : i > 0);
    if (i < 2) unit.relu(false);
    else unit.loss();
    image = unit.image();
    units.push_back(unit.shape());
  }
  return units;
}

/// Numbers of 3 x 3 convolutions in the five stages, each closed by a pool.
std::vector<UnitShape> vgg(const Start& start, const std::array<int, 5>& stages, bool norm) {
  std::vector<PlainLayer> layers;
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    for (int i = 0; i < stages[stage]; ++i) {
      layers.push_back({std::min<std::int64_t>(512, 64 << stage), {}});
      if (i + 1 == stages[stage]) layers.back().pool = {2, 2, 0};
    }
  return plain_network(start, layers, norm, 7, false);
}

std::vector<UnitShape> alexnet(const Start& start) {
  constexpr Window pool{3, 2, 0};
  const PlainLayer layers[] = {{64, {11, 4, 2}, pool}, {192, {5, 1, 2}, pool}, {384, {}}, {256, {}}, {256, {}, pool}};
  return plain_network(start, layers, false, 6, true);
}

struct Network {
  std::string_view name;
  std::int64_t smallest_image;
  std::vector<UnitShape> (*units)(const Start&);
};

constexpr Network networks[] = {
    {"resnet18", 1,
     [](const Start& s) {
       return resnet(s, {2, 2, 2, 2}, false);
     }},
    {"resnet34", 1,
     [](const Start& s) {
       return resnet(s, {3, 4, 6, 3}, false);
     }},
    {"resnet50", 1,
     [](const Start& s) {
       return resnet(s, {3, 4, 6, 3}, true);
     }},
    {"resnet101", 1,
     [](const Start& s) {
       return resnet(s, {3, 4, 23, 3}, true);
     }},
    {"resnet152", 1,
     [](const Start& s) {
       return resnet(s, {3, 8, 36, 3}, true);
     }},
    {"vgg11", 32,
     [](const Start& s) {
       return vgg(s, {1, 1, 2, 2, 2}, false);
     }},
    {"vgg13", 32,
     [](const Start& s) {
       return vgg(s, {2, 2, 2, 2, 2}, false);
     }},
    {"vgg16", 32,
     [](const Start& s) {
       return vgg(s, {2, 2, 3, 3, 3}, false);
     }},
    {"vgg19", 32,
     [](const Start& s) {
       return vgg(s, {2, 2, 4, 4, 4}, false);
     }},
    {"vgg11_bn", 32,
     [](const Start& s) {
       return vgg(s, {1, 1, 2, 2, 2}, true);
     }},
    {"vgg13_bn", 32,
     [](const Start& s) {
       return vgg(s, {2, 2, 2, 2, 2}, true);
     }},
    {"vgg16_bn", 32,
     [](const Start& s) {
       return vgg(s, {2, 2, 3, 3, 3}, true);
     }},
    {"vgg19_bn", 32,
     [](const Start& s) {
       return vgg(s, {2, 2, 4, 4, 4}, true);
     }},
    {"alexnet", 63, alexnet},
};

const Network* network_named(std::string_view name) {
  const auto* const found = std::find_if(std::begin(networks), std::end(networks),
                                         [&](const Network& network) { return network.name == name; });
  return found == std::end(networks) ? nullptr : found;
}

}  // namespace

bool is_convolutional(std::string_view family) { return network_named(family) != nullptr; }

ModelShape convolutional_shape(ModelDescriptionText& text) {
  const Network& network = *network_named(text.family());
  Start start{};
  start.image = {3, text.integer("image", 224, network.smallest_image, 1 << 14)};
  start.classes = text.integer("classes", 1000, 1, 10000000);
  start.dtype = text.data_type("dtype", DataType::tf32);
  text.require_all_known();
  ModelShape model;
  model.name = text.normalised();
  model.dtype = model.gradient_dtype = start.dtype;
  model.optimizer = Optimizer::sgd;
  model.units = network.units(start);
  for (const UnitShape& unit : model.units) model.layers += unit.repetitions;
  return model;
}

std::vector<std::string> model_families() {
  std::vector<std::string> all = {"gpt", "bert", "llama"};
  for (const Network& network : networks) all.emplace_back(network.name);
  return all;
}

}  // namespace stepcast
