// Profile JSON, schema "stepcast.profile/1": written to be read and edited by people, read strictly.
//
// One line per layer and per tensor; layers are referred to by name (an index is accepted). Keys that hold their
// default may be left out: no backward order is the reverse of the forward order, no size is shape times dtype. An
// unknown key is an error with a suggestion, because a misspelt key would otherwise be a silent default.
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/json_node.hpp>
#include <stepcast/profile/profile.hpp>

#include <cmath>
#include <numeric>
#include <unordered_map>

namespace stepcast {
namespace {

using Json = JsonNode::Json;
constexpr std::string_view profile_schema = "stepcast.profile/1";

// ---- writing ----

/// Whole numbers without a fraction, as people write them; both read back to the same value.
Json json_of_number(double value) {
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (value == std::floor(value) && std::abs(value) < exact && !(value == 0 && std::signbit(value)))
    return Json(std::int64_t(value));
  return Json(value);
}

Json json_of_cost(const PassCost& cost) {
  Json out{{"host_s", json_of_number(cost.host.value())}};
  if (cost.device.value() != 0) out["device_s"] = json_of_number(cost.device.value());
  for (const KernelClass kind : classes_apart)
    if (cost.part[kind].value() != 0) out[key_of(kind)] = json_of_number(cost.part[kind].value());
  return out;
}

Json json_of_tensor(const Tensor& tensor, const std::vector<Layer>& layers) {
  Json out{{"name", tensor.name}};
  if (!tensor.shape.empty()) out["shape"] = tensor.shape;
  out["dtype"] = name_of(tensor.dtype);
  out["size_bytes"] = json_of_number(tensor.size.value());
  out["layer"] = layers[tensor.layer].name;
  if (tensor.packing != PassCost{}) out["packing"] = json_of_cost(tensor.packing);
  return out;
}

Json json_of_collective(const ObservedCollective& c) {
  Json out{{"operation", c.operation}, {"count", c.count}, {"size_bytes", json_of_number(c.size.value())}};
  out["duration_s"] = json_of_number(c.duration.value());
  if (c.waiting.value() != 0) out["waiting_s"] = json_of_number(c.waiting.value());
  if (c.group_size != -1) out["group_size"] = c.group_size;
  out["size_source"] = name_of(c.source);
  out["role"] = name_of(c.role);
  return out;
}

Json json_of_transfers(const TransferTimes& t) {
  Json out{{"operation", t.operation}, {"workers", t.workers}};
  if (t.per_machine != -1) out["per_machine"] = t.per_machine;
  if (!t.library.empty()) out["library"] = t.library;
  for (const Bytes size : t.sizes) out["sizes_bytes"].push_back(json_of_number(size.value()));
  for (const Seconds time : t.times) out["times_s"].push_back(json_of_number(time.value()));
  return out;
}

Json json_of_communication(const CommunicationWork& work) {
  Json out = {{"before", json_of_cost(work.before)},
              {"after", json_of_cost(work.after)},
              {"message_s", json_of_number(work.message.value())}};
  if (work.sharding != PassCost{}) out["sharding"] = json_of_cost(work.sharding);
  return out;
}

Json json_of_message(const TracedMessage& m) {
  return {{"size_bytes", json_of_number(m.size.value())},
          {"duration_s", json_of_number(m.duration.value())},
          {"tensors", m.tensors}};
}

Json json_of_rank(const TracedRank& r) {
  Json out{{"rank", r.rank}, {"source", r.source}, {"step_s", json_of_number(r.step.value())}};
  out["transfer_s"] = json_of_number(r.transfer.value());
  out["waiting_s"] = json_of_number(r.waiting.value());
  out["late_s"] = json_of_number(r.late.value());
  out["clock_offset_s"] = json_of_number(r.clock_offset.value());
  out["clock_residual_s"] = json_of_number(r.clock_residual.value());
  return out;
}

Json json_of_layer(const Layer& layer) {
  Json out{{"name", layer.name}, {"forward", json_of_cost(layer.forward)}, {"backward", json_of_cost(layer.backward)}};
  if (!layer.input_shape.empty()) {
    out["input_shape"] = layer.input_shape;
    out["input_dtype"] = name_of(layer.input_dtype);
  }
  if (layer.kept.value() != 0) out["kept_bytes"] = json_of_number(layer.kept.value());
  if (layer.slice) out["slice"] = true;
  return out;
}

std::vector<std::uint32_t> reversed(std::size_t n) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.rbegin(), order.rend(), 0u);
  return order;
}

std::string dumped(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// Top-level keys on lines of their own, and the entries of lists of objects and of texts as well.
std::string text_of_document(const Json& document) {
  std::string out = "{";
  for (const auto& [key, value] : document.items()) {
    out += (out.size() == 1 ? "\n  " : ",\n  ") + dumped(Json(key)) + ": ";
    const bool list = value.is_array() && !value.empty() && (value[0].is_object() || value[0].is_string());
    if (!list) {
      out += dumped(value);
      continue;
    }
    for (std::size_t i = 0; i < value.size(); ++i) out += (i == 0 ? "[\n    " : ",\n    ") + dumped(value[i]);
    out += "\n  ]";
  }
  return out + "\n}\n";
}

// ---- reading ----

PassCost cost_of_json(const JsonNode& parent, const char* key) {
  const JsonNode node = parent.object(key);
  PassCost cost{Seconds(node.number("host_s")), Seconds(node.number("device_s"))};
  std::vector<std::string> known{"host_s", "device_s"};
  for (const KernelClass kind : classes_apart) {
    known.emplace_back(key_of(kind));
    cost.part[kind] = Seconds(node.number(known.back().c_str()));
  }
  node.require_keys(known);
  return cost;
}

std::vector<std::int64_t> shape_of_json(const JsonNode& node, const char* key) {
  std::vector<std::int64_t> shape;
  for (const JsonNode& extent : node.elements(key, "a list of extents")) shape.push_back(extent.integer());
  return shape;
}

/// f32 where nothing is said.
DataType data_type_of_json(const JsonNode& node, const char* key) {
  const std::string name = node.text(key);
  if (name.empty()) return DataType::f32;
  const Answer<DataType> type = data_type_of(name);
  if (!type) node.at(key).refuse("an element type such as f32 or bf16");
  return *type;
}

std::vector<Layer> layers_of_json(const JsonNode& document) {
  std::vector<Layer> layers;
  for (const JsonNode& node : document.at("layers", "a list of layers").elements("a list of layers")) {
    node.require_object();
    Layer layer;
    layer.name = node.text("name");
    layer.forward = cost_of_json(node, "forward");
    layer.backward = cost_of_json(node, "backward");
    layer.input_shape = shape_of_json(node, "input_shape");
    layer.input_dtype = data_type_of_json(node, "input_dtype");
    layer.kept = Bytes(node.number("kept_bytes"));
    layer.slice = node.boolean("slice");
    node.require_keys({"name", "forward", "backward", "input_shape", "input_dtype", "kept_bytes", "slice"});
    layers.push_back(std::move(layer));
  }
  return layers;
}

/// References to layers, by name or by index.
class LayerIndex {
 public:
  explicit LayerIndex(const std::vector<Layer>& layers) : layers_(layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) index_.emplace(layers[i].name, std::uint32_t(i));
  }
  std::uint32_t of(const JsonNode& node) const {
    if (node.json().is_string()) {
      const std::string name = node.text();
      if (const auto it = index_.find(name); it != index_.end()) return it->second;
      node.refuse("the name of a layer", hint_for(name));
    }
    const std::int64_t i = node.integer();
    if (i < 0 || i >= std::int64_t(layers_.size()))
      node.refuse("one of the " + std::to_string(layers_.size()) + " layers");
    return std::uint32_t(i);
  }

 private:
  std::string hint_for(const std::string& name) const {
    std::vector<std::string> names;
    for (const Layer& layer : layers_) names.push_back(layer.name);
    return did_you_mean(name, names);
  }
  const std::vector<Layer>& layers_;
  std::unordered_map<std::string, std::uint32_t> index_;
};

Tensor tensor_of_json(const JsonNode& node, const LayerIndex& layers) {
  node.require_object();
  Tensor tensor;
  tensor.name = node.text("name");
  tensor.shape = shape_of_json(node, "shape");
  double elements = 1;
  for (const std::int64_t extent : tensor.shape) elements *= double(extent);
  tensor.dtype = data_type_of_json(node, "dtype");
  if (node.has("size_bytes") || tensor.shape.empty())
    tensor.size = Bytes(node.at("size_bytes", "the gradient's size, or a shape").number());
  else tensor.size = Bytes(elements * size_of(tensor.dtype));
  tensor.layer = layers.of(node.at("layer", "the name of a layer"));
  tensor.packing = cost_of_json(node, "packing");
  node.require_keys({"name", "shape", "dtype", "size_bytes", "layer", "packing"});
  return tensor;
}

CommunicationWork communication_of_json(const JsonNode& document) {
  const JsonNode node = document.object("communication");
  CommunicationWork work{cost_of_json(node, "before"), cost_of_json(node, "after"), Seconds(node.number("message_s")),
                         cost_of_json(node, "sharding")};
  node.require_keys({"before", "after", "message_s", "sharding"});
  return work;
}

TracedMessage message_of_json(const JsonNode& node) {
  node.require_object();
  TracedMessage m;
  m.size = Bytes(node.number("size_bytes"));
  m.duration = Seconds(node.number("duration_s"));
  const std::int64_t tensors = node.integer("tensors", 0);
  if (tensors < 1 || tensors > 100'000'000) node.at("tensors", "a number of gradients").refuse("a number of gradients");
  m.tensors = static_cast<std::uint32_t>(tensors);
  node.require_keys({"size_bytes", "duration_s", "tensors"});
  return m;
}

/// Profiles from before there was a source have a size, or 0 for an unknown one.
BytesSource source_of_json(const JsonNode& node, Bytes size) {
  const std::string name = node.text("size_source");
  if (name.empty()) return size > Bytes(0) ? BytesSource::metadata : BytesSource::unknown;
  std::vector<std::string> known;
  for (std::size_t i = 0; i < bytes_sources; ++i) {
    known.emplace_back(name_of(BytesSource(i)));
    if (known.back() == name) return BytesSource(i);
  }
  node.at("size_source").refuse("metadata, execution_trace, shapes, gradients or unknown", did_you_mean(name, known));
}

CollectiveRole role_of_json(const JsonNode& node) {
  const std::string name = node.text("role");
  if (name.empty()) return CollectiveRole::unknown;
  std::vector<std::string> known;
  for (std::size_t i = 0; i < collective_roles; ++i) {
    known.emplace_back(name_of(CollectiveRole(i)));
    if (known.back() == name) return CollectiveRole(i);
  }
  node.at("role").refuse("the role of a collective, such as gradient_bucket or unknown", did_you_mean(name, known));
}

ObservedCollective collective_of_json(const JsonNode& node) {
  node.require_object();
  ObservedCollective c;
  c.operation = node.text("operation");
  c.count = node.integer("count", 0);
  c.size = Bytes(node.number("size_bytes"));
  c.duration = Seconds(node.number("duration_s"));
  c.waiting = Seconds(node.number("waiting_s"));
  c.group_size = node.integer("group_size", -1);
  c.source = source_of_json(node, c.size);
  c.role = role_of_json(node);
  node.require_keys(
      {"operation", "count", "size_bytes", "duration_s", "waiting_s", "group_size", "size_source", "role"});
  return c;
}

TransferTimes transfers_of_json(const JsonNode& node) {
  node.require_object();
  TransferTimes t{.operation = node.text("operation"),
                  .workers = node.integer("workers", 0),
                  .per_machine = node.integer("per_machine", -1),
                  .sizes = {},
                  .times = {},
                  .library = node.text("library")};
  for (const JsonNode& size : node.elements("sizes_bytes", "a list of sizes")) t.sizes.emplace_back(size.number());
  for (const JsonNode& time : node.elements("times_s", "a list of times")) t.times.emplace_back(time.number());
  node.require_keys({"operation", "workers", "per_machine", "library", "sizes_bytes", "times_s"});
  return t;
}

TracedRank rank_of_json(const JsonNode& node) {
  node.require_object();
  TracedRank r;
  r.rank = node.integer("rank", -1);
  r.source = node.text("source");
  r.step = Seconds(node.number("step_s"));
  r.transfer = Seconds(node.number("transfer_s"));
  r.waiting = Seconds(node.number("waiting_s"));
  r.late = Seconds(node.number("late_s"));
  r.clock_offset = Seconds(node.number("clock_offset_s"));
  r.clock_residual = Seconds(node.number("clock_residual_s"));
  node.require_keys(
      {"rank", "source", "step_s", "transfer_s", "waiting_s", "late_s", "clock_offset_s", "clock_residual_s"});
  return r;
}

void read_graph(const JsonNode& document, Profile& p) {
  p.layers = layers_of_json(document);
  const LayerIndex layers(p.layers);
  for (const JsonNode& node : document.elements("backward_order", "a list of layers"))
    p.backward_order.push_back(layers.of(node));
  if (p.backward_order.empty()) p.backward_order = reversed(p.layers.size());
  for (const JsonNode& node : document.elements("tensors", "a list of tensors"))
    p.tensors.push_back(tensor_of_json(node, layers));
}

void read_rest(const JsonNode& document, Profile& p) {
  p.model = document.text("model");
  p.device = document.text("device");
  p.communication = communication_of_json(document);
  for (const JsonNode& node : document.elements("messages", "a list of messages"))
    p.messages.push_back(message_of_json(node));
  p.optimizer = cost_of_json(document, "optimizer");
  p.other = cost_of_json(document, "other");
  p.input = Seconds(document.number("input_s"));
  p.input_period = Seconds(document.number("input_period_s"));
  p.host_waits_for_device = document.boolean("host_waits_for_device");
  p.without_profiler = document.boolean("without_profiler");
  p.batch_samples = document.number("batch_samples");
  p.bytes_of_state = document.number("bytes_of_state");
  p.activation_memory = Bytes(document.number("activation_memory_bytes"));
  p.transient_memory = Bytes(document.number("transient_memory_bytes"));
  p.described = document.boolean("described");
  p.device_error = document.number("device_error");
  if (p.device_error != 0 && !p.described)
    document.at("device_error").refuse("\"described\": true beside it: traced times have no error of a device");
  if (p.described && p.device_error == 0) {
    p.rates = RatesOf::data_sheet;
    if (document.has("rates") && document.at("rates").text() == name_of(RatesOf::products)) p.rates = RatesOf::products;
    else if (document.has("rates")) document.at("rates").refuse(in_quotes(name_of(RatesOf::products)));
  } else if (document.has("rates")) {
    document.at("rates").refuse("\"described\": true beside it, and no error of its device");
  }
  p.half_precision_share = document.number("half_precision_share");
  p.tf32_share = document.number("tf32_share");
  p.fused_update_share = document.number("fused_update_share");
  for (const JsonNode& node : document.elements("step_times_s", "a list of times"))
    p.step_times.emplace_back(node.number());
  for (const JsonNode& node : document.elements("collectives", "a list of collectives"))
    p.collectives.push_back(collective_of_json(node));
  for (const JsonNode& node : document.elements("transfers", "a list of transfer times"))
    p.transfers.push_back(transfers_of_json(node));
  p.unclassified_share = document.number("unclassified_share", -1);
  for (const JsonNode& node : document.elements("ranks", "a list of ranks")) p.ranks.push_back(rank_of_json(node));
  p.lateness = document.text("lateness");
  p.traced_workers = document.integer("traced_workers", 1);
  p.provenance = document.text("provenance");
  p.recognised = document.texts("recognised", "a list of strings");
  p.missing = document.texts("missing", "a list of strings");
  p.assumed = document.texts("assumed", "a list of strings");
  p.cautions = document.texts("cautions", "a list of strings");
}

}  // namespace

std::string json_of(const Profile& p) {
  Json out{{"schema", profile_schema}, {"model", p.model}};
  if (p.has_device()) out["device"] = p.device;
  out["provenance"] = p.provenance;
  out["traced_workers"] = p.traced_workers;
  if (p.described) out["described"] = true;
  if (p.device_error != 0) out["device_error"] = json_of_number(p.device_error);
  if (p.rates == RatesOf::products) out["rates"] = name_of(p.rates);
  if (p.batch_samples != 0) out["batch_samples"] = json_of_number(p.batch_samples);
  if (p.bytes_of_state != 0) out["bytes_of_state"] = json_of_number(p.bytes_of_state);
  if (p.activation_memory.value() != 0) out["activation_memory_bytes"] = json_of_number(p.activation_memory.value());
  if (p.transient_memory.value() != 0) out["transient_memory_bytes"] = json_of_number(p.transient_memory.value());
  if (p.half_precision_share != 0) out["half_precision_share"] = json_of_number(p.half_precision_share);
  if (p.tf32_share != 0) out["tf32_share"] = json_of_number(p.tf32_share);
  if (p.fused_update_share != 0) out["fused_update_share"] = json_of_number(p.fused_update_share);
  out["host_waits_for_device"] = p.host_waits_for_device;
  if (p.without_profiler) out["without_profiler"] = true;
  out["input_s"] = json_of_number(p.input.value());
  if (p.input_period.value() != 0) out["input_period_s"] = json_of_number(p.input_period.value());
  out["optimizer"] = json_of_cost(p.optimizer);
  out["other"] = json_of_cost(p.other);
  if (p.communication != CommunicationWork{}) out["communication"] = json_of_communication(p.communication);
  for (const TracedMessage& m : p.messages) out["messages"].push_back(json_of_message(m));
  out["step_times_s"] = Json::array();
  for (const Seconds t : p.step_times) out["step_times_s"].push_back(json_of_number(t.value()));
  for (const Layer& layer : p.layers) out["layers"].push_back(json_of_layer(layer));
  if (p.backward_order != reversed(p.layers.size())) out["backward_order"] = p.backward_order;
  out["tensors"] = Json::array();
  for (const Tensor& tensor : p.tensors) out["tensors"].push_back(json_of_tensor(tensor, p.layers));
  out["collectives"] = Json::array();
  for (const ObservedCollective& c : p.collectives) out["collectives"].push_back(json_of_collective(c));
  for (const TransferTimes& t : p.transfers) out["transfers"].push_back(json_of_transfers(t));
  for (const TracedRank& r : p.ranks) out["ranks"].push_back(json_of_rank(r));
  if (!p.lateness.empty()) out["lateness"] = p.lateness;
  if (p.unclassified_share >= 0) out["unclassified_share"] = json_of_number(p.unclassified_share);
  out["recognised"] = p.recognised;
  out["missing"] = p.missing;
  out["assumed"] = p.assumed;
  if (!p.cautions.empty()) out["cautions"] = p.cautions;
  return text_of_document(out);
}

Profile profile_of_json(std::string_view text, std::string_view source) {
  const Json json = parsed_json(text, source);
  const JsonNode document(json, std::string(source) + "#");
  document.require_object();
  const std::string expected = in_quotes(profile_schema);
  const JsonNode schema = document.at("schema", expected.c_str());
  if (schema.text() != profile_schema) schema.refuse(expected);
  Profile profile;
  read_graph(document, profile);
  read_rest(document, profile);
  document.require_keys({"schema",
                         "model",
                         "device",
                         "provenance",
                         "traced_workers",
                         "described",
                         "device_error",
                         "rates",
                         "half_precision_share",
                         "tf32_share",
                         "fused_update_share",
                         "batch_samples",
                         "bytes_of_state",
                         "activation_memory_bytes",
                         "transient_memory_bytes",
                         "host_waits_for_device",
                         "without_profiler",
                         "input_s",
                         "input_period_s",
                         "optimizer",
                         "other",
                         "communication",
                         "messages",
                         "step_times_s",
                         "layers",
                         "backward_order",
                         "tensors",
                         "collectives",
                         "transfers",
                         "ranks",
                         "lateness",
                         "unclassified_share",
                         "recognised",
                         "missing",
                         "assumed",
                         "cautions"});
  return checked(std::move(profile), source);
}

}  // namespace stepcast
