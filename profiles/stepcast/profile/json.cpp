// Profile JSON, schema "stepcast.profile/1": written to be read and edited by people, read strictly.
//
// One line per layer and per tensor; layers are referred to by name (an index is accepted). Keys that hold their
// default may be left out: no backward order is the reverse of the forward order, no size is shape times dtype. An
// unknown key is an error with a suggestion, because a misspelt key would otherwise be a silent default.
#include <stepcast/base/text.hpp>
#include <stepcast/profile/profile.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <unordered_map>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;
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
  return out;
}

Json json_of_collective(const ObservedCollective& c) {
  Json out{{"operation", c.operation}, {"count", c.count}, {"size_bytes", json_of_number(c.size.value())}};
  out["duration_s"] = json_of_number(c.duration.value());
  if (c.waiting.value() != 0) out["waiting_s"] = json_of_number(c.waiting.value());
  if (c.group_size != -1) out["group_size"] = c.group_size;
  out["size_source"] = name_of(c.source);
  return out;
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

std::string kind_of(const Json& value) {
  return value.is_null() ? "null" : value.is_structured() ? "an " + std::string(value.type_name()) : dumped(value);
}

/// One JSON object that is read key by key; knows its pointer, and at the end which keys nobody asked for.
class Object {
 public:
  Object(const Json& json, std::string where, std::string pointer)
      : json_(json), source_(std::move(where)), pointer_(std::move(pointer)) {
    if (!json.is_object()) fail("", "an object", kind_of(json));
  }
  [[noreturn]] void fail(std::string_view key, std::string expected, std::string found, std::string hint = {}) const {
    std::string at = source_ + "#" + pointer_;
    if (!key.empty()) at += "/" + std::string(key);
    throw InputError(at, std::move(expected), std::move(found), std::move(hint));
  }
  /// The value of `key`, or null if it is absent.
  const Json* find(std::string_view key) {
    known_.emplace_back(key);
    const auto it = json_.find(key);
    return it == json_.end() ? nullptr : &*it;
  }
  const Json& required(std::string_view key, std::string_view expected) {
    const Json* value = find(key);
    if (value == nullptr) fail(key, std::string(expected), "nothing");
    return *value;
  }
  std::string text(std::string_view key) {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) fail(key, "a text", kind_of(*value));
    return value->get<std::string>();
  }
  double number(std::string_view key) {
    const Json* value = find(key);
    if (value == nullptr) return 0;
    if (!value->is_number()) fail(key, "a number", kind_of(*value));
    return value->get<double>();
  }
  std::int64_t integer(std::string_view key, std::int64_t otherwise) {
    const Json* value = find(key);
    return value == nullptr ? otherwise : integer_of_json(*value, key);
  }
  bool flag(std::string_view key) {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) fail(key, "true or false", kind_of(*value));
    return value->get<bool>();
  }
  /// The entries of the list `key`; none if it is absent.
  const Json& list(std::string_view key) {
    static const Json empty = Json::array();
    const Json* value = find(key);
    if (value == nullptr) return empty;
    if (!value->is_array()) fail(key, "a list", kind_of(*value));
    return *value;
  }
  std::int64_t integer_of_json(const Json& value, const std::string_view key) const {
    if (!value.is_number_integer()) fail(key, "a whole number", kind_of(value));
    constexpr auto largest = std::uint64_t(std::numeric_limits<std::int64_t>::max());
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > largest)
      fail(key, "a whole number below 2^63", kind_of(value));
    return value.get<std::int64_t>();
  }
  std::vector<std::string> texts(std::string_view key) {
    std::vector<std::string> out;
    const Json& entries = list(key);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (!entries[i].is_string()) fail(entry(key, i), "a text", kind_of(entries[i]));
      out.push_back(entries[i].get<std::string>());
    }
    return out;
  }
  Object child(std::string_view key, const Json& value) const {
    return Object(value, source_, pointer_ + "/" + std::string(key));
  }
  static std::string entry(std::string_view key, std::size_t i) { return std::string(key) + "/" + std::to_string(i); }
  /// Refuses keys that were never asked for.
  void finish() const {
    for (const auto& [key, value] : json_.items()) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      const std::string nearest = suggestion_for(key, known_);
      fail(key, "a known key", "'" + key + "'", nearest.empty() ? "" : "did you mean '" + nearest + "'?");
    }
  }

 private:
  const Json& json_;
  std::string source_, pointer_;
  std::vector<std::string> known_;
};

PassCost cost_of_json(Object& parent, std::string_view key) {
  const Json* value = parent.find(key);
  if (value == nullptr) return {};
  Object object = parent.child(key, *value);
  PassCost cost{Seconds(object.number("host_s")), Seconds(object.number("device_s"))};
  for (const KernelClass kind : classes_apart) cost.part[kind] = Seconds(object.number(key_of(kind)));
  object.finish();
  return cost;
}

std::vector<std::int64_t> shape_of_json(Object& object, std::string_view key) {
  std::vector<std::int64_t> shape;
  const Json& extents = object.list(key);
  for (std::size_t d = 0; d < extents.size(); ++d)
    shape.push_back(object.integer_of_json(extents[d], Object::entry(key, d)));
  return shape;
}

/// f32 where nothing is said.
DataType data_type_of_json(Object& object, std::string_view key) {
  const std::string name = object.text(key);
  if (name.empty()) return DataType::f32;
  const Answer<DataType> type = data_type_of(name);
  if (!type) object.fail(key, "an element type such as f32 or bf16", "'" + name + "'");
  return *type;
}

std::vector<Layer> layers_of_json(Object& document) {
  std::vector<Layer> layers;
  document.required("layers", "a list of layers");
  const Json& entries = document.list("layers");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Object object = document.child(Object::entry("layers", i), entries[i]);
    Layer layer;
    layer.name = object.text("name");
    layer.forward = cost_of_json(object, "forward");
    layer.backward = cost_of_json(object, "backward");
    layer.input_shape = shape_of_json(object, "input_shape");
    layer.input_dtype = data_type_of_json(object, "input_dtype");
    layer.kept = Bytes(object.number("kept_bytes"));
    object.finish();
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
  std::uint32_t of(const Json& value, std::string_view key, const Object& owner) const {
    if (value.is_string()) {
      const auto name = value.get<std::string>();
      if (const auto it = index_.find(name); it != index_.end()) return it->second;
      owner.fail(key, "the name of a layer", "'" + name + "'", hint_for(name));
    }
    const std::int64_t i = owner.integer_of_json(value, key);
    if (i < 0 || i >= std::int64_t(layers_.size()))
      owner.fail(key, "one of the " + std::to_string(layers_.size()) + " layers", std::to_string(i));
    return std::uint32_t(i);
  }

 private:
  std::string hint_for(const std::string& name) const {
    std::vector<std::string> names;
    for (const Layer& layer : layers_) names.push_back(layer.name);
    const std::string nearest = suggestion_for(name, names);
    return nearest.empty() ? "" : "did you mean '" + nearest + "'?";
  }
  const std::vector<Layer>& layers_;
  std::unordered_map<std::string, std::uint32_t> index_;
};

Tensor tensor_of_json(Object object, const LayerIndex& layers) {
  Tensor tensor;
  tensor.name = object.text("name");
  tensor.shape = shape_of_json(object, "shape");
  double elements = 1;
  for (const std::int64_t extent : tensor.shape) elements *= double(extent);
  tensor.dtype = data_type_of_json(object, "dtype");
  if (object.find("size_bytes") != nullptr) tensor.size = Bytes(object.number("size_bytes"));
  else if (!tensor.shape.empty()) tensor.size = Bytes(elements * size_of(tensor.dtype));
  else object.fail("size_bytes", "the gradient's size, or a shape", "neither");
  tensor.layer = layers.of(object.required("layer", "the name of a layer"), "layer", object);
  object.finish();
  return tensor;
}

/// Profiles from before there was a source have a size, or 0 for an unknown one.
BytesSource source_of_json(Object& object, Bytes size) {
  const std::string name = object.text("size_source");
  if (name.empty()) return size > Bytes(0) ? BytesSource::metadata : BytesSource::unknown;
  std::vector<std::string> known;
  for (std::size_t i = 0; i < bytes_sources; ++i) {
    known.emplace_back(name_of(BytesSource(i)));
    if (known.back() == name) return BytesSource(i);
  }
  const std::string nearest = suggestion_for(name, known);
  object.fail("size_source", "metadata, execution_trace, shapes, gradients or unknown", "'" + name + "'",
              nearest.empty() ? "" : "did you mean '" + nearest + "'?");
}

ObservedCollective collective_of_json(Object object) {
  ObservedCollective c;
  c.operation = object.text("operation");
  c.count = object.integer("count", 0);
  c.size = Bytes(object.number("size_bytes"));
  c.duration = Seconds(object.number("duration_s"));
  c.waiting = Seconds(object.number("waiting_s"));
  c.group_size = object.integer("group_size", -1);
  c.source = source_of_json(object, c.size);
  object.finish();
  return c;
}

TracedRank rank_of_json(Object object) {
  TracedRank r;
  r.rank = object.integer("rank", -1);
  r.source = object.text("source");
  r.step = Seconds(object.number("step_s"));
  r.transfer = Seconds(object.number("transfer_s"));
  r.waiting = Seconds(object.number("waiting_s"));
  r.late = Seconds(object.number("late_s"));
  r.clock_offset = Seconds(object.number("clock_offset_s"));
  r.clock_residual = Seconds(object.number("clock_residual_s"));
  object.finish();
  return r;
}

void read_graph(Object& document, Profile& p) {
  p.layers = layers_of_json(document);
  const LayerIndex layers(p.layers);
  const Json& order = document.list("backward_order");
  for (std::size_t i = 0; i < order.size(); ++i)
    p.backward_order.push_back(layers.of(order[i], Object::entry("backward_order", i), document));
  if (order.empty()) p.backward_order = reversed(p.layers.size());
  const Json& tensors = document.list("tensors");
  for (std::size_t i = 0; i < tensors.size(); ++i)
    p.tensors.push_back(tensor_of_json(document.child(Object::entry("tensors", i), tensors[i]), layers));
}

void read_rest(Object& document, Profile& p) {
  p.model = document.text("model");
  p.device = document.text("device");
  p.optimizer = cost_of_json(document, "optimizer");
  p.other = cost_of_json(document, "other");
  p.input = Seconds(document.number("input_s"));
  p.input_period = Seconds(document.number("input_period_s"));
  p.host_waits_for_device = document.flag("host_waits_for_device");
  p.batch_samples = document.number("batch_samples");
  p.activation_memory = Bytes(document.number("activation_memory_bytes"));
  const Json& steps = document.list("step_times_s");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].is_number()) document.fail(Object::entry("step_times_s", i), "a number", kind_of(steps[i]));
    p.step_times.emplace_back(steps[i].get<double>());
  }
  const Json& collectives = document.list("collectives");
  for (std::size_t i = 0; i < collectives.size(); ++i)
    p.collectives.push_back(collective_of_json(document.child(Object::entry("collectives", i), collectives[i])));
  p.unclassified_share = document.find("unclassified_share") ? document.number("unclassified_share") : -1;
  const Json& ranks = document.list("ranks");
  for (std::size_t i = 0; i < ranks.size(); ++i)
    p.ranks.push_back(rank_of_json(document.child(Object::entry("ranks", i), ranks[i])));
  p.lateness = document.text("lateness");
  p.traced_workers = document.integer("traced_workers", 1);
  p.provenance = document.text("provenance");
  p.recognised = document.texts("recognised");
  p.missing = document.texts("missing");
  p.assumed = document.texts("assumed");
}

/// Parses; refuses repeated keys, of which JSON parsers silently keep one.
Json parsed(std::string_view text, std::string_view source) {
  std::vector<std::set<std::string>> open;
  const auto on_event = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      throw InputError(std::string(source), "each key of an object once", "'" + value.get<std::string>() + "' twice");
    return true;
  };
  try {
    return Json::parse(text, on_event);
  } catch (const Json::parse_error& e) {
    throw InputError(std::string(source) + "@" + std::to_string(e.byte), "a profile in JSON", "text that is no JSON",
                     "the text breaks off or goes wrong at this byte");
  } catch (const Json::exception& e) { throw InputError(std::string(source), "a profile in JSON", e.what()); }
}

}  // namespace

std::string json_of(const Profile& p) {
  Json out{{"schema", profile_schema}, {"model", p.model}};
  if (p.has_device()) out["device"] = p.device;
  out["provenance"] = p.provenance;
  out["traced_workers"] = p.traced_workers;
  if (p.batch_samples != 0) out["batch_samples"] = json_of_number(p.batch_samples);
  if (p.activation_memory.value() != 0) out["activation_memory_bytes"] = json_of_number(p.activation_memory.value());
  out["host_waits_for_device"] = p.host_waits_for_device;
  out["input_s"] = json_of_number(p.input.value());
  if (p.input_period.value() != 0) out["input_period_s"] = json_of_number(p.input_period.value());
  out["optimizer"] = json_of_cost(p.optimizer);
  out["other"] = json_of_cost(p.other);
  out["step_times_s"] = Json::array();
  for (const Seconds t : p.step_times) out["step_times_s"].push_back(json_of_number(t.value()));
  for (const Layer& layer : p.layers) out["layers"].push_back(json_of_layer(layer));
  if (p.backward_order != reversed(p.layers.size())) out["backward_order"] = p.backward_order;
  out["tensors"] = Json::array();
  for (const Tensor& tensor : p.tensors) out["tensors"].push_back(json_of_tensor(tensor, p.layers));
  out["collectives"] = Json::array();
  for (const ObservedCollective& c : p.collectives) out["collectives"].push_back(json_of_collective(c));
  for (const TracedRank& r : p.ranks) out["ranks"].push_back(json_of_rank(r));
  if (!p.lateness.empty()) out["lateness"] = p.lateness;
  if (p.unclassified_share >= 0) out["unclassified_share"] = json_of_number(p.unclassified_share);
  out["recognised"] = p.recognised;
  out["missing"] = p.missing;
  out["assumed"] = p.assumed;
  return text_of_document(out);
}

Profile profile_of_json(std::string_view text, std::string_view source) {
  const Json json = parsed(text, source);
  Object document(json, std::string(source), "");
  const std::string schema = document.text("schema");
  if (schema != profile_schema)
    document.fail("schema", "'" + std::string(profile_schema) + "'", schema.empty() ? "nothing" : "'" + schema + "'");
  Profile profile;
  read_graph(document, profile);
  read_rest(document, profile);
  document.finish();
  return checked(std::move(profile), source);
}

}  // namespace stepcast
