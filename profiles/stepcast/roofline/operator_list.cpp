// Lists of operators: read from JSON, and timed by a roofline.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/json_node.hpp>
#include <stepcast/roofline/operator_list.hpp>
#include <stepcast/roofline/unit_roofline.hpp>

#include <cmath>
#include <utility>

namespace stepcast {
namespace {

constexpr std::string_view list_schema = "stepcast.operators/1";

double amount_of(const JsonNode& node) {
  const double number = node.number();
  if (!(number >= 0 && number <= 1e24)) node.refuse("a number from 0 to 1e24");
  return number;
}
double amount_of(const JsonNode& node, const char* key, double otherwise = 0) {
  return node.has(key) ? amount_of(node.at(key)) : otherwise;
}

DataType listed_type(const JsonNode& node, const char* key) {
  if (!node.has(key)) return DataType::f32;
  Answer<DataType> type = data_type_of(node.at(key).text());
  if (!type) node.at(key).refuse("a data type such as f32 or bf16");
  return *type;
}

std::vector<std::int64_t> extents_of(const JsonNode& node, const char* key) {
  std::vector<std::int64_t> extents;
  for (const JsonNode& extent : node.elements(key, "an array of extents")) extents.push_back(extent.integer());
  return extents;
}

MatrixProduct listed_product(const JsonNode& node) {
  const std::vector<JsonNode> numbers = node.elements("batch, m, n, k and repeated elements");
  if (numbers.size() != 5) node.refuse("five numbers: batch, m, n, k and repeated elements");
  MatrixProduct p{amount_of(numbers[0]), amount_of(numbers[1]), amount_of(numbers[2]), amount_of(numbers[3]),
                  amount_of(numbers[4])};
  if (!(p.operations() > 0 && p.operations() <= 1e24)) node.refuse("a product of 1 to 1e24 operations");
  if (!(p.operand_elements() >= 0)) numbers[4].refuse("no more elements than the operands have");
  return p;
}

ListedOperator::Attention attention_of(const JsonNode& node) {
  if (!node.has("attention")) return ListedOperator::Attention::none;
  const std::string pass = node.at("attention").text();
  if (pass == "forward") return ListedOperator::Attention::forward;
  if (pass == "backward") return ListedOperator::Attention::backward;
  node.at("attention").refuse("'forward' or 'backward'");
}

std::vector<ListedOperator> operators_of(const JsonNode& layer, const char* key) {
  std::vector<ListedOperator> all;
  for (const JsonNode& node : layer.elements(key, "an array of operators")) {
    node.require_keys({"name", "dtype", "products", "traffic_bytes", "kernels", "attention", "split"});
    ListedOperator o;
    o.name = node.at("name").text();
    o.dtype = listed_type(node, "dtype");
    for (const JsonNode& product : node.elements("products", "an array of products"))
      o.products.push_back(listed_product(product));
    o.traffic = Bytes(amount_of(node, "traffic_bytes"));
    if (o.products.empty() != node.has("traffic_bytes")) node.refuse("either products or traffic_bytes");
    o.kernels = amount_of(node, "kernels", 1);
    o.attention = attention_of(node);
    o.split = amount_of(node, "split", 1);
    all.push_back(std::move(o));
  }
  return all;
}

ListedLayer listed_layer(const JsonNode& node) {
  node.require_keys({"name", "input_shape", "input_dtype", "kept_bytes", "forward", "backward"});
  return {node.at("name").text(),           extents_of(node, "input_shape"),
          listed_type(node, "input_dtype"), Bytes(amount_of(node, "kept_bytes")),
          operators_of(node, "forward"),    operators_of(node, "backward")};
}

Tensor listed_tensor(const JsonNode& node, std::size_t layers) {
  node.require_keys({"name", "shape", "dtype", "layer"});
  Tensor tensor{.name = node.at("name").text(),
                .shape = extents_of(node, "shape"),
                .dtype = listed_type(node, "dtype"),
                .size = {},
                .layer = 0};
  double elements = 1;
  for (const std::int64_t extent : tensor.shape) elements *= double(extent);
  tensor.size = Bytes(elements * size_of(tensor.dtype));
  const std::int64_t layer = node.at("layer").integer();
  if (layer < 0 || std::size_t(layer) >= layers) node.at("layer").refuse("the index of a layer");
  tensor.layer = std::uint32_t(layer);
  return tensor;
}

/// The type whose rate a product takes: tf32 only where the device knows it.
DataType rated(const Device& device, DataType type) {
  return type == DataType::tf32 && !(device.matrix_rate[std::size_t(type)] > 0) ? DataType::f32 : type;
}

Seconds listed_time(const Device& device, const ListedOperator& o, const MatrixProduct& p) {
  const DataType type = rated(device, o.dtype);
  switch (o.attention) {
    case ListedOperator::Attention::forward:
      return attention_time(device, type, p, device.attention_forward);
    case ListedOperator::Attention::backward:
      return attention_time(device, type, p, device.attention_backward);
    case ListedOperator::Attention::none:
      break;
  }
  return weight_gradient_time(device, type, p, o.split);
}

PassCost listed_cost(const std::vector<ListedOperator>& operators, const Device& device) {
  PassTime time;
  for (const ListedOperator& o : operators) {
    for (const MatrixProduct& p : o.products) time.matrix += listed_time(device, o, p);
    if (o.products.empty()) time.memory += memory_time(device, o.traffic, o.kernels);
    time.kernels += o.kernels;
  }
  return cost_of(time, device);
}

}  // namespace

OperatorList operator_list_of_json(std::string_view text, std::string_view source) {
  const JsonNode::Json json = parsed_json(text, source);
  const JsonNode top(json, std::string(source) + "#");
  top.require_keys({"schema", "model", "batch_samples", "layers", "backward_order", "tensors", "update",
                    "bytes_of_state_per_parameter", "transient_memory_bytes", "recognised", "assumed"});
  if (top.at("schema").text() != list_schema) top.at("schema").refuse("'" + std::string(list_schema) + "'");
  OperatorList list;
  list.model = top.at("model").text();
  list.batch_samples = amount_of(top, "batch_samples");
  for (const JsonNode& node : top.elements("layers", "an array of layers")) list.layers.push_back(listed_layer(node));
  for (const JsonNode& node : top.elements("backward_order", "an array of indices of layers")) {
    const std::int64_t layer = node.integer();
    if (layer < 0 || std::size_t(layer) >= list.layers.size()) node.refuse("the index of a layer");
    list.backward_order.push_back(std::uint32_t(layer));
  }
  for (const JsonNode& node : top.elements("tensors", "an array of parameters"))
    list.tensors.push_back(listed_tensor(node, list.layers.size()));
  list.update = operators_of(top, "update");
  list.bytes_of_state = amount_of(top, "bytes_of_state_per_parameter");
  list.transient = Bytes(amount_of(top, "transient_memory_bytes"));
  list.recognised = top.texts("recognised", "an array of texts");
  list.assumed = top.texts("assumed", "an array of texts");
  return list;
}

Profile listed_profile(const OperatorList& list, const Device& device) {
  Profile profile;
  const std::string on = device.name.empty() ? "described device" : device.name;
  profile.model = list.model;
  if (!device.on_host) profile.device = on;
  profile.batch_samples = list.batch_samples;
  profile.described = true;
  profile.device_error = device.relative_error;
  profile.rates = rates_of(device);
  for (const ListedLayer& listed : list.layers) {
    Layer& layer = profile.layers.emplace_back();
    layer.name = listed.name;
    layer.forward = listed_cost(listed.forward, device);
    layer.backward = listed_cost(listed.backward, device);
    layer.input_shape = listed.input_shape;
    layer.input_dtype = listed.input_dtype;
    layer.kept = listed.kept;
    profile.activation_memory += layer.kept;
  }
  profile.backward_order = list.backward_order;
  profile.tensors = list.tensors;
  profile.optimizer = listed_cost(list.update, device);
  profile.bytes_of_state = list.bytes_of_state;
  profile.transient_memory = list.transient;
  profile.provenance = "operators of " + list.model + ", on the roofline of " + on;
  profile.recognised = list.recognised;
  profile.assumed.push_back(source_of_times(device));
  profile.assumed.insert(profile.assumed.end(), list.assumed.begin(), list.assumed.end());
  if (device.relative_error > 0)
    profile.assumed.push_back(on + ": its roofline misses steps by " + percent(device.relative_error) +
                              " rms, which intervals of predictions from this profile have in them");
  for (const std::string& line : device.provenance) profile.assumed.push_back(on + ": " + line);
  return checked(std::move(profile), list.model);
}

}  // namespace stepcast
