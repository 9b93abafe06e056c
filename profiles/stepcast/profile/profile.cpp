// Profile: its invariants, and the two-stream recurrence that says how long one step takes without communication.
//
// The recurrence: the host issues passes in program order; the device work of a pass starts when its host part is done
// and the device is free. With h_i and d_i the host and device time of pass i,
//   host_i = host_{i-1} + h_i,   device_i = max(device_{i-1}, host_i) + d_i,   step = max(host_n, device_n).
#include <stepcast/profile/profile.hpp>
#include <stepcast/profile/ready_times.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <unordered_set>
#include <utility>

namespace stepcast {
namespace {

struct DataTypeFacts {
  DataType type;
  std::string_view name;
  double bytes;
};
constexpr std::array data_types{
    DataTypeFacts{DataType::f64, "f64", 8},      DataTypeFacts{DataType::f32, "f32", 4},
    DataTypeFacts{DataType::tf32, "tf32", 4},    DataTypeFacts{DataType::f16, "f16", 2},
    DataTypeFacts{DataType::bf16, "bf16", 2},    DataTypeFacts{DataType::i64, "i64", 8},
    DataTypeFacts{DataType::i32, "i32", 4},      DataTypeFacts{DataType::i16, "i16", 2},
    DataTypeFacts{DataType::i8, "i8", 1},        DataTypeFacts{DataType::u8, "u8", 1},
    DataTypeFacts{DataType::boolean, "bool", 1}, DataTypeFacts{DataType::f8, "f8", 1},
    DataTypeFacts{DataType::f4, "f4", 0.5625},
};

/// What frameworks call their types, in lower case and without the prefixes "c10::" and "torch.".
struct Alias {
  std::string_view name;
  DataType type;
};
constexpr std::array aliases{
    Alias{"double", DataType::f64},
    Alias{"float64", DataType::f64},
    Alias{"float", DataType::f32},
    Alias{"float32", DataType::f32},
    Alias{"fp32", DataType::f32},
    Alias{"half", DataType::f16},
    Alias{"float16", DataType::f16},
    Alias{"fp16", DataType::f16},
    Alias{"bfloat16", DataType::bf16},
    Alias{"long", DataType::i64},
    Alias{"long int", DataType::i64},
    Alias{"int64", DataType::i64},
    Alias{"int", DataType::i32},
    Alias{"int32", DataType::i32},
    Alias{"short", DataType::i16},
    Alias{"short int", DataType::i16},
    Alias{"int16", DataType::i16},
    Alias{"char", DataType::i8},
    Alias{"signed char", DataType::i8},
    Alias{"int8", DataType::i8},
    Alias{"byte", DataType::u8},
    Alias{"unsigned char", DataType::u8},
    Alias{"uint8", DataType::u8},
    Alias{"unsigned short", DataType::i16},
    Alias{"uint16", DataType::i16},
    Alias{"unsigned int", DataType::i32},
    Alias{"uint32", DataType::i32},
    Alias{"unsigned long", DataType::i64},
    Alias{"uint64", DataType::i64},
    Alias{"float4_e2m1fn_x2", DataType::u8},  // two in a byte
    Alias{"boolean", DataType::boolean},
    Alias{"float8_e4m3fn", DataType::f8},
    Alias{"float8_e5m2", DataType::f8},
    Alias{"float8_e4m3fnuz", DataType::f8},
    Alias{"float8_e5m2fnuz", DataType::f8},
    Alias{"float8_e8m0fnu", DataType::f8},
    Alias{"fp8", DataType::f8},
    Alias{"mxfp8", DataType::f8},
    Alias{"fp4", DataType::f4},
    Alias{"nvfp4", DataType::f4},
};

/// Nothing that a training step does takes eleven days or moves a petabyte: such numbers are wrong units.
constexpr double longest_s = 1e6;
constexpr double largest_bytes = 1e15;

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// Checks parts of one profile and names the offending one by its JSON pointer.
class Checker {
 public:
  explicit Checker(std::string_view source) : source_(source) {}

  [[noreturn]] void fail(const std::string& pointer, std::string expected, std::string found,
                         std::string hint = {}) const {
    throw InputError(source_ + "#" + pointer, std::move(expected), std::move(found), std::move(hint));
  }
  void time(Seconds t, const std::string& pointer) const { number(t.value(), longest_s, "seconds", pointer); }
  void size(Bytes b, const std::string& pointer) const { number(b.value(), largest_bytes, "bytes", pointer); }
  void number(double value, double largest, std::string_view unit, const std::string& pointer) const {
    if (!(std::isfinite(value) && value >= 0)) fail(pointer, "a finite number >= 0", shown(value));
    if (value > largest)
      fail(pointer, "at most " + shown(largest) + " " + std::string(unit), shown(value), "numbers are in SI units");
  }
  void cost(const PassCost& c, bool has_device, const std::string& pointer) const {
    time(c.host, pointer + "/host_s");
    time(c.device, pointer + "/device_s");
    for (const KernelClass kind : classes_apart) time(c.part[kind], pointer + "/" + key_of(kind));
    if (!has_device && c.device.value() > 0)
      fail(pointer + "/device_s", "0, because the profile names no device", shown(c.device.value()), "set 'device'");
    const double parts = c.part.sum().value();
    if (parts <= c.device.value() * (1 + 1e-9) + 1e-15) return;
    std::string keys;
    for (const KernelClass kind : classes_apart) keys += (keys.empty() ? "" : " + ") + key_of(kind);
    fail(pointer + "/device_s", "at least " + keys + " = " + shown(parts), shown(c.device.value()));
  }

 private:
  std::string source_;
};

std::string at(std::string_view list, std::size_t i) { return "/" + std::string(list) + "/" + std::to_string(i); }

void check_layers(const Profile& p, const Checker& check) {
  if (p.layers.empty()) check.fail("/layers", "at least one layer", "none");
  std::unordered_set<std::string_view> names;
  for (std::size_t i = 0; i < p.layers.size(); ++i) {
    const Layer& layer = p.layers[i];
    if (layer.name.empty()) check.fail(at("layers", i) + "/name", "a name", "an empty one");
    if (!names.insert(layer.name).second)
      check.fail(at("layers", i) + "/name", "a name that no other layer has", "'" + layer.name + "' again");
    check.cost(layer.forward, p.has_device(), at("layers", i) + "/forward");
    check.cost(layer.backward, p.has_device(), at("layers", i) + "/backward");
    for (std::size_t d = 0; d < layer.input_shape.size(); ++d)
      if (layer.input_shape[d] < 1)
        check.fail(at("layers", i) + at("input_shape", d), "a dimension >= 1", std::to_string(layer.input_shape[d]));
    check.size(layer.input_size(), at("layers", i) + "/input_shape");
    check.size(layer.kept, at("layers", i) + "/kept_bytes");
  }
}

/// Returns the position of each layer in the backward pass.
std::vector<std::size_t> checked_backward_positions(const Profile& p, const Checker& check) {
  const std::size_t n = p.layers.size();
  if (p.backward_order.size() != n)
    check.fail("/backward_order", "each of the " + std::to_string(n) + " layers once",
               std::to_string(p.backward_order.size()) + " entries");
  std::vector<std::size_t> position(n, n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t layer = p.backward_order[i];
    if (layer >= n)
      check.fail(at("backward_order", i), "a layer index below " + std::to_string(n), std::to_string(layer));
    if (position[layer] != n)
      check.fail(at("backward_order", i), "each layer once", "layer " + std::to_string(layer) + " again");
    position[layer] = i;
  }
  return position;
}

void check_shape(const Tensor& tensor, const Checker& check, const std::string& pointer) {
  double elements = 1;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.shape[d] < 1) check.fail(pointer + at("shape", d), "a dimension >= 1", std::to_string(tensor.shape[d]));
    elements *= double(tensor.shape[d]);
  }
  const double bytes = elements * size_of(tensor.dtype);
  if (!tensor.shape.empty() && bytes != tensor.size.value())
    check.fail(pointer + "/size_bytes", shown(bytes) + ", which shape and dtype say", shown(tensor.size.value()));
}

void check_tensors(const Profile& p, const Checker& check) {
  const std::vector<std::size_t> position = checked_backward_positions(p, check);
  std::unordered_set<std::string_view> names;
  std::size_t latest = 0;
  for (std::size_t i = 0; i < p.tensors.size(); ++i) {
    const Tensor& tensor = p.tensors[i];
    const std::string pointer = at("tensors", i);
    if (tensor.name.empty()) check.fail(pointer + "/name", "a name", "an empty one");
    if (!names.insert(tensor.name).second)
      check.fail(pointer + "/name", "a name that no other tensor has", "'" + tensor.name + "' again");
    check.size(tensor.size, pointer + "/size_bytes");
    check_shape(tensor, check, pointer);
    if (tensor.layer >= p.layers.size())
      check.fail(pointer + "/layer", "one of the " + std::to_string(p.layers.size()) + " layers",
                 std::to_string(tensor.layer));
    if (position[tensor.layer] < latest)
      check.fail(pointer + "/layer", "tensors in the order in which the backward pass meets their layers",
                 "'" + tensor.name + "' after a tensor of a later layer");
    latest = position[tensor.layer];
    check.cost(tensor.packing, p.has_device(), pointer + "/packing");
  }
}

void check_transfers(const TransferTimes& t, const Checker& check, const std::string& pointer) {
  if (t.workers < 2) check.fail(pointer + "/workers", "a group of at least 2", std::to_string(t.workers));
  if (t.per_machine != -1 && (t.per_machine < 1 || t.workers % t.per_machine != 0))
    check.fail(pointer + "/per_machine",
               "a divisor of the " + std::to_string(t.workers) + " workers, or -1 for unknown",
               std::to_string(t.per_machine));
  if (t.sizes.empty() || t.sizes.size() != t.times.size())
    check.fail(pointer + "/times_s", "one time for each of at least one size",
               std::to_string(t.times.size()) + " for " + std::to_string(t.sizes.size()));
  for (std::size_t i = 0; i < t.sizes.size(); ++i) {
    check.size(t.sizes[i], pointer + at("sizes_bytes", i));
    check.time(t.times[i], pointer + at("times_s", i));
    if (!(t.sizes[i] > (i == 0 ? Bytes(0) : t.sizes[i - 1])))
      check.fail(pointer + at("sizes_bytes", i), "sizes above 0 that increase", shown(t.sizes[i].value()));
    if (!(t.times[i] > Seconds(0))) check.fail(pointer + at("times_s", i), "a time above 0", shown(t.times[i].value()));
  }
}

void check_rest(const Profile& p, const Checker& check) {
  check.cost(p.optimizer, p.has_device(), "/optimizer");
  check.cost(p.other, p.has_device(), "/other");
  check.cost(p.communication.before, p.has_device(), "/communication/before");
  check.cost(p.communication.after, p.has_device(), "/communication/after");
  check.time(p.communication.message, "/communication/message_s");
  check.cost(p.communication.sharding, p.has_device(), "/communication/sharding");
  for (std::size_t i = 0; i < p.messages.size(); ++i) {
    check.size(p.messages[i].size, at("messages", i) + "/size_bytes");
    check.time(p.messages[i].duration, at("messages", i) + "/duration_s");
  }
  check.time(p.input, "/input_s");
  check.time(p.input_period, "/input_period_s");
  check.number(p.batch_samples, 1e12, "samples", "/batch_samples");
  check.number(p.bytes_of_state, 1e6, "bytes", "/bytes_of_state");
  check.number(p.device_error, 10, "of the step", "/device_error");
  check.size(p.activation_memory, "/activation_memory_bytes");
  check.size(p.transient_memory, "/transient_memory_bytes");
  for (std::size_t i = 0; i < p.step_times.size(); ++i) check.time(p.step_times[i], at("step_times_s", i));
  for (std::size_t i = 0; i < p.collectives.size(); ++i) {
    const ObservedCollective& c = p.collectives[i];
    if (c.count < 0) check.fail(at("collectives", i) + "/count", "a count >= 0", std::to_string(c.count));
    if (c.group_size < -1 || c.group_size == 0)
      check.fail(at("collectives", i) + "/group_size", "a size >= 1, or -1 for unknown", std::to_string(c.group_size));
    check.size(c.size, at("collectives", i) + "/size_bytes");
    check.time(c.duration, at("collectives", i) + "/duration_s");
    check.time(c.waiting, at("collectives", i) + "/waiting_s");
    if (c.source == BytesSource::unknown && c.size > Bytes(0))
      check.fail(at("collectives", i) + "/size_source", "where the size comes from", "'unknown'");
  }
  for (std::size_t i = 0; i < p.transfers.size(); ++i) check_transfers(p.transfers[i], check, at("transfers", i));
  check.number(p.half_precision_share, 1, "of all time", "/half_precision_share");
  check.number(p.tf32_share, 1, "of the products' time", "/tf32_share");
  check.number(p.fused_update_share, 1, "of the update's time", "/fused_update_share");
  if (p.unclassified_share != -1) check.number(p.unclassified_share, 1, "of all time", "/unclassified_share");
  for (std::size_t i = 0; i < p.ranks.size(); ++i) {
    const TracedRank& r = p.ranks[i];
    check.time(r.step, at("ranks", i) + "/step_s");
    check.time(r.transfer, at("ranks", i) + "/transfer_s");
    check.time(r.waiting, at("ranks", i) + "/waiting_s");
    check.time(r.late, at("ranks", i) + "/late_s");
    check.time(r.clock_residual, at("ranks", i) + "/clock_residual_s");
  }
  if (p.traced_workers < 1) check.fail("/traced_workers", "at least 1", std::to_string(p.traced_workers));
}

/// The two clocks of the recurrence.
struct Clocks {
  Seconds host, device;
  bool has_device;

  void run(const PassCost& cost) {
    host += cost.host;
    if (has_device) device = std::max(device, host) + cost.device;
  }
  /// When everything issued so far is done.
  [[nodiscard]] Seconds done() const { return std::max(host, device); }
};

Clocks after_forward(const Profile& p) {
  Clocks clocks{{}, {}, p.has_device()};
  for (const Layer& layer : p.layers) clocks.run(layer.forward);
  return clocks;
}
Clocks after_backward(const Profile& p) {
  Clocks clocks = after_forward(p);
  for (const std::uint32_t layer : p.backward_order) clocks.run(p.layers[layer].backward);
  return clocks;
}

}  // namespace

double size_of(DataType type) {
  for (const DataTypeFacts& facts : data_types)
    if (facts.type == type) return facts.bytes;
  return 0;
}

std::string_view name_of(DataType type) {
  for (const DataTypeFacts& facts : data_types)
    if (facts.type == type) return facts.name;
  return "";
}

std::string_view name_of(RatesOf rates) {
  return rates == RatesOf::steps ? "steps" : rates == RatesOf::products ? "products" : "data sheet";
}

std::string_view name_of(BytesSource source) {
  constexpr std::string_view names[bytes_sources] = {"metadata", "execution_trace", "shapes", "gradients", "unknown"};
  return names[static_cast<std::size_t>(source)];
}

Answer<DataType> data_type_of(std::string_view name) {
  std::string word;
  for (const char c : name) word += (c >= 'A' && c <= 'Z') ? char(c - 'A' + 'a') : c;
  for (const std::string_view prefix : {std::string_view("c10::"), std::string_view("torch.")})
    if (word.starts_with(prefix)) word.erase(0, prefix.size());
  for (const DataTypeFacts& facts : data_types)
    if (facts.name == word) return facts.type;
  for (const Alias& alias : aliases)
    if (alias.name == word) return alias.type;
  return Inapplicable{"'" + std::string(name) + "' is no known element type"};
}

double Layer::input_elements() const {
  double elements = input_shape.empty() ? 0 : 1;
  for (const std::int64_t extent : input_shape) elements *= double(extent);
  return elements;
}
Bytes Layer::input_size() const { return Bytes(input_elements() * size_of(input_dtype)); }

Bytes Profile::gradient_size() const {
  Bytes sum;
  for (const Tensor& tensor : tensors) sum += tensor.size;
  return sum;
}

Seconds Profile::measured_step() const {
  if (step_times.empty()) return Seconds(0);
  std::vector<Seconds> sorted = step_times;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) * 0.5;
}

void scale_work(Profile& p, double factor) {
  const auto scale = [factor](PassCost& cost) { cost *= factor; };
  for_each_cost(p, scale);
  for_each_communication_cost(p, scale);
  p.communication.message *= factor;
}

void scale_host_work(Profile& p, double factor) {
  const auto scale = [factor](PassCost& cost) { cost.host *= factor; };
  for_each_cost(p, scale);
  for_each_communication_cost(p, scale);
  p.communication.message *= factor;
}

Profile checked(Profile profile, std::string_view source) {
  const Checker check(source);
  check_layers(profile, check);
  check_tensors(profile, check);
  check_rest(profile, check);
  return profile;
}

std::pmr::vector<Seconds> gradient_ready_times(const Profile& p, std::pmr::memory_resource* memory) {
  Clocks clocks = after_forward(p);
  std::pmr::vector<Seconds> layer_done(p.layers.size(), memory);
  for (const std::uint32_t layer : p.backward_order) {
    clocks.run(p.layers[layer].backward);
    layer_done[layer] = p.has_device() ? clocks.device : clocks.host;
  }
  std::pmr::vector<Seconds> ready(memory);
  ready.reserve(p.tensors.size());
  for (const Tensor& tensor : p.tensors) ready.push_back(layer_done[tensor.layer]);
  return ready;
}
std::int64_t owners_of_update(const Profile& profile) {
  std::int64_t owners = 1;
  for (const ObservedCollective& c : profile.collectives) {
    const bool of_shards =
        c.role == CollectiveRole::gradient_scatter || c.role == CollectiveRole::parameter_gather_forward ||
        c.role == CollectiveRole::parameter_gather_backward || c.role == CollectiveRole::gather_after_update;
    if (of_shards) owners = std::max(owners, c.group_size > 0 ? c.group_size : profile.traced_workers);
  }
  return owners;
}

Profile updating_all(Profile profile) {
  const auto owners = static_cast<double>(owners_of_update(profile));
  if (profile.update_of_shard || owners == 1) return profile;
  profile.update_of_shard = profile.optimizer;
  const Seconds issue = profile.optimizer.host;
  profile.optimizer = profile.optimizer * owners;
  if (profile.has_device()) profile.optimizer.host = issue;
  return profile;
}

std::vector<Seconds> gradient_ready_times(const Profile& p) {
  const auto ready = gradient_ready_times(p, std::pmr::get_default_resource());
  return {ready.begin(), ready.end()};
}

Seconds forward_time(const Profile& p) { return after_forward(p).done(); }
Seconds backward_time(const Profile& p) { return after_backward(p).done() - forward_time(p); }

Seconds compute_time(const Profile& p) {
  Clocks clocks = after_backward(p);
  clocks.run(p.optimizer);
  clocks.run(p.other);
  return clocks.done();
}

Seconds lone_step_time(const Profile& p) {
  const Seconds latency = p.input + compute_time(p);
  if (!p.has_device() || p.host_waits_for_device) return std::max(latency + p.late, p.input_period);
  PassCost sum;
  for_each_cost(p, [&](const PassCost& c) { sum += c; });
  return std::max({sum.host + p.input + p.late, sum.device + p.late, (latency + p.late) / 2, p.input_period});
}

}  // namespace stepcast
