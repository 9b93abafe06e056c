// Device: the roofline itself, what a device has to satisfy, and its JSON form with schema "stepcast.device/1": unit
// strings for quantities, operations per second as plain numbers by data type.
#include <stepcast/base/embedded.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/json_node.hpp>
#include <stepcast/roofline/device.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

using Json = JsonNode::Json;
constexpr std::string_view schema = "stepcast.device/1";

/// Share of the peak for a device whose file has none of its own: nobody's steps run at the peak.
constexpr double sustained_by_a100 = 0.75;

std::string shown(double number) { return Json(number).dump(); }

/// Names the offending part by its JSON pointer.
void require(bool holds, std::string_view source, std::string_view key, std::string expected, double found) {
  if (holds) return;
  throw InputError(std::string(source) + "#/" + std::string(key), std::move(expected), shown(found));
}

const std::vector<std::string>& data_type_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < std::tuple_size_v<decltype(Device::matrix_rate)>; ++i)
      all.emplace_back(name_of(static_cast<DataType>(i)));
    return all;
  }();
  return names;
}

/// Of a product that reaches `efficiency` of the peak. Throws InputError where the rate for `dtype` is unknown.
Seconds time_at(const Device& device, DataType dtype, const MatrixProduct& p, double efficiency) {
  const double rate = device.matrix_rate[static_cast<std::size_t>(dtype)];
  if (!(rate > 0)) {
    std::string known;
    for (std::size_t i = 0; i < device.matrix_rate.size(); ++i)
      if (device.matrix_rate[i] > 0) add_to_list(known, data_type_names()[i]);
    throw InputError("device '" + device.name + "'", "a type in which it multiplies matrices",
                     std::string(name_of(dtype)), "known are " + known);
  }
  const Bytes operands(p.operand_elements() * size_of(dtype));
  const Seconds computing(p.operations() / (rate * efficiency));
  return std::max({computing, operands / device.memory_bandwidth, device.kernel_floor});
}

}  // namespace

Device checked(Device device, std::string_view source) {
  // Far beyond every device, and so that no time of a kernel becomes infinite or none.
  constexpr double most_bytes = 1e18, most_rate = 1e24, most_extent = 1e12, most_seconds = 1e3;
  const auto up_to = [&](std::string_view key, double number, double most) {
    require(number >= 0 && number <= most, source, key, "a number from 0 to " + shown(most), number);
  };
  const auto rate = [&](std::string_view key, double number, double most) {
    require(number >= 1 && number <= most, source, key, "a rate from 1 to " + shown(most), number);
  };
  up_to("memory", device.memory.value(), most_bytes);
  rate("memory_bandwidth", device.memory_bandwidth.value(), most_bytes);
  if (device.cast_bandwidth.value() != 0) rate("cast_bandwidth", device.cast_bandwidth.value(), most_bytes);
  for (std::size_t i = 0; i < device.matrix_rate.size(); ++i)
    if (device.matrix_rate[i] != 0) rate("matrix_rate/" + data_type_names()[i], device.matrix_rate[i], most_rate);
  if (std::all_of(device.matrix_rate.begin(), device.matrix_rate.end(), [](double r) { return r == 0; }))
    throw InputError(std::string(source) + "#/matrix_rate", "the rate of at least one data type", "none");
  require(device.matrix_efficiency >= 1e-9 && device.matrix_efficiency <= 1, source, "matrix_efficiency",
          "a share from 1e-9 to 1", device.matrix_efficiency);
  for (std::size_t i = 0; i < device.relative_efficiency.size(); ++i)
    if (const double relative = device.relative_efficiency[i]; relative != 0)
      require(relative >= 0.1 && relative <= 10, source, "relative_efficiency/" + data_type_names()[i],
              "a factor from 0.1 to 10", relative);
  up_to("half_m", device.half_m, most_extent);
  up_to("half_n", device.half_n, most_extent);
  up_to("half_k", device.half_k, most_extent);
  up_to("half_output", device.half_output, 1e18);
  for (const auto& [key, share] : {std::pair{"attention_forward", device.attention_forward},
                                   std::pair{"attention_backward", device.attention_backward}})
    require(share == 0 || (share >= 1e-3 && share <= 1), source, key, "a share from 0.001 to 1", share);
  require((device.attention_forward > 0) == (device.attention_backward > 0), source,
          device.attention_forward > 0 ? "attention_backward" : "attention_forward",
          "a share above 0, as of the other direction", 0);
  for (std::size_t k = 0; k < attention_kernel_count; ++k) {
    const auto& [forward, backward] = device.attention_kernels[k];
    const std::string key = "attention_kernels/" + std::string(name_of(static_cast<AttentionKernel>(k)));
    if (forward == 0 && backward == 0) continue;
    require(forward >= 1e-3 && forward <= 1, source, key + "/forward", "a share from 0.001 to 1", forward);
    require(backward >= 1e-3 && backward <= 1, source, key + "/backward", "a share from 0.001 to 1", backward);
  }
  up_to("kernel_floor", device.kernel_floor.value(), most_seconds);
  up_to("issue", device.issue.value(), most_seconds);
  up_to("relative_error", device.relative_error, 100);
  return device;
}

double matrix_efficiency(const Device& device, const MatrixProduct& p) {
  return device.matrix_efficiency * (p.m / (p.m + device.half_m)) * (p.n / (p.n + device.half_n)) *
         (p.k / (p.k + device.half_k)) * (p.batch * p.m * p.n / (p.batch * p.m * p.n + device.half_output));
}

Seconds matrix_time(const Device& device, DataType dtype, const MatrixProduct& p) {
  const double relative = device.relative_efficiency[static_cast<std::size_t>(dtype)];
  return time_at(device, dtype, p, std::min(1.0, matrix_efficiency(device, p) * (relative > 0 ? relative : 1)));
}

std::string_view name_of(AttentionKernel kernel) {
  static constexpr std::array<std::string_view, attention_kernel_count> names{"flash1", "flash2", "flash3", "cudnn"};
  return names[static_cast<std::size_t>(kernel)];
}

AttentionRate attention_rate(const Device& device, std::optional<AttentionKernel> kernel) {
  if (kernel)
    if (const AttentionRate& rate = device.attention_kernels[static_cast<std::size_t>(*kernel)]; rate.forward > 0)
      return rate;
  return {device.attention_forward, device.attention_backward};
}

Seconds attention_time(const Device& device, DataType dtype, const MatrixProduct& p, double share) {
  return share > 0 ? time_at(device, dtype, p, share) : matrix_time(device, dtype, p);
}

Seconds memory_time(const Device& device, Bytes traffic, double kernels) {
  return std::max(traffic / device.memory_bandwidth, device.kernel_floor * kernels);
}

Seconds widening_time(const Device& device, Bytes traffic) {
  const bool known = device.cast_bandwidth.value() > 0;
  return std::max(traffic / (known ? device.cast_bandwidth : device.memory_bandwidth), device.kernel_floor);
}

std::string source_of_times(const Device& d) {
  const std::string roofline = "times are those of the roofline of " + (d.name.empty() ? "the device" : d.name);
  if (d.corrected_by == 0) return "nothing of this model was measured: all " + roofline;
  return roofline + ", corrected by " + counted(static_cast<std::int64_t>(d.corrected_by), "measured step");
}

std::string json_of(const Device& d) {
  Json json{{"schema", schema}, {"name", d.name}};
  if (d.memory.value() > 0) json["memory"] = exact_text_of(d.memory);
  json["memory_bandwidth"] = exact_text_of(d.memory_bandwidth);
  if (d.cast_bandwidth.value() > 0) json["cast_bandwidth"] = exact_text_of(d.cast_bandwidth);
  json["matrix_rate"] = Json::object();
  for (std::size_t i = 0; i < d.matrix_rate.size(); ++i)
    if (d.matrix_rate[i] > 0) json["matrix_rate"][data_type_names()[i]] = d.matrix_rate[i];
  json["matrix_efficiency"] = d.matrix_efficiency;
  for (std::size_t i = 0; i < d.relative_efficiency.size(); ++i)
    if (d.relative_efficiency[i] > 0) json["relative_efficiency"][data_type_names()[i]] = d.relative_efficiency[i];
  json["half_m"] = d.half_m;
  json["half_n"] = d.half_n;
  json["half_k"] = d.half_k;
  if (d.half_output > 0) json["half_output"] = d.half_output;
  if (d.attention_forward > 0) json["attention_forward"] = d.attention_forward;
  if (d.attention_backward > 0) json["attention_backward"] = d.attention_backward;
  for (std::size_t k = 0; k < attention_kernel_count; ++k)
    if (const auto& [forward, backward] = d.attention_kernels[k]; forward > 0)
      json["attention_kernels"][std::string(name_of(static_cast<AttentionKernel>(k)))] =
          Json{{"forward", forward}, {"backward", backward}};
  json["kernel_floor"] = exact_text_of(d.kernel_floor);
  json["issue"] = exact_text_of(d.issue);
  if (d.on_host) json["on_host"] = true;
  if (d.products_measured) json["products_measured"] = true;
  if (d.relative_error > 0) json["relative_error"] = d.relative_error;
  json["provenance"] = d.provenance.empty() ? Json::array({"not stated"}) : Json(d.provenance);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Device device_of_json(std::string_view text, std::string_view source) {
  static const std::vector<std::string> known{"schema",
                                              "name",
                                              "memory",
                                              "memory_bandwidth",
                                              "matrix_rate",
                                              "matrix_efficiency",
                                              "half_m",
                                              "half_n",
                                              "half_k",
                                              "half_output",
                                              "attention_forward",
                                              "attention_backward",
                                              "kernel_floor",
                                              "issue",
                                              "on_host",
                                              "relative_error",
                                              "products_measured",
                                              "attention_kernels",
                                              "cast_bandwidth",
                                              "provenance",
                                              "relative_efficiency"};
  const Json json = parsed_json(text, source);
  const JsonNode top(json, std::string(source) + "#");
  top.require_schema(schema);
  top.require_keys(known, {"schema", "name", "memory_bandwidth", "matrix_rate", "provenance"});
  Device d;
  d.name = top.at("name").text();
  if (top.has("memory")) d.memory = top.at("memory").bytes();
  d.memory_bandwidth = top.at("memory_bandwidth").bandwidth();
  if (top.has("cast_bandwidth")) d.cast_bandwidth = top.at("cast_bandwidth").bandwidth();
  const JsonNode rates = top.at("matrix_rate");
  rates.require_keys(data_type_names());
  for (std::size_t i = 0; i < d.matrix_rate.size(); ++i)
    if (const std::string& type = data_type_names()[i]; rates.has(type.c_str()))
      d.matrix_rate[i] = rates.at(type.c_str()).number();
  d.on_host = top.boolean("on_host");
  const bool level_known = top.has("matrix_efficiency");
  if (level_known) d.matrix_efficiency = top.at("matrix_efficiency").number();
  else if (!d.on_host) d.matrix_efficiency = sustained_by_a100;
  if (top.has("relative_efficiency")) {
    const JsonNode relative = top.at("relative_efficiency");
    relative.require_keys(data_type_names());
    for (std::size_t i = 0; i < d.relative_efficiency.size(); ++i)
      if (const std::string& type = data_type_names()[i]; relative.has(type.c_str())) {
        d.relative_efficiency[i] = relative.at(type.c_str()).number();
        if (d.relative_efficiency[i] == 0) relative.at(type.c_str()).refuse("a factor from 0.1 to 10");
      }
  }
  if (top.has("half_m")) d.half_m = top.at("half_m").number();
  if (top.has("half_n")) d.half_n = top.at("half_n").number();
  if (top.has("half_k")) d.half_k = top.at("half_k").number();
  if (top.has("half_output")) d.half_output = top.at("half_output").number();
  if (top.has("attention_forward")) d.attention_forward = top.at("attention_forward").number();
  if (top.has("attention_backward")) d.attention_backward = top.at("attention_backward").number();
  if (top.has("attention_kernels")) {
    const JsonNode kernels = top.at("attention_kernels");
    std::vector<std::string> names;
    for (std::size_t k = 0; k < attention_kernel_count; ++k)
      names.emplace_back(name_of(static_cast<AttentionKernel>(k)));
    kernels.require_keys(names);
    for (std::size_t k = 0; k < attention_kernel_count; ++k) {
      if (!kernels.has(names[k].c_str())) continue;
      const JsonNode rate = kernels.at(names[k].c_str());
      rate.require_keys({"forward", "backward"});
      d.attention_kernels[k] = {rate.at("forward").number(), rate.at("backward").number()};
      if (d.attention_kernels[k].forward == 0) rate.at("forward").refuse("a share from 0.001 to 1");
    }
  }
  if (top.has("kernel_floor")) d.kernel_floor = top.at("kernel_floor").seconds();
  if (top.has("issue")) d.issue = top.at("issue").seconds();
  d.products_measured = top.boolean("products_measured");
  if (top.has("relative_error")) d.relative_error = top.at("relative_error").number();
  for (const JsonNode& node : top.at("provenance").elements("an array of strings")) d.provenance.push_back(node.text());
  if (d.provenance.empty()) top.at("provenance").refuse("at least one line on where the numbers come from");
  if (!level_known && !d.on_host)
    d.provenance.push_back("matrix efficiency: not given; " + shown(sustained_by_a100) +
                           ", what large products of steps sustain on NVIDIA A100-SXM4-80GB");
  return checked(std::move(d), source);
}

const std::vector<Device>& shipped_devices() {
  static const std::vector<Device> devices = [] {
    std::vector<Device> all;
    for (const EmbeddedFile& file : shipped_device_texts())
      all.push_back(device_of_json(file.text, std::string(file.name) + ".json"));
    return all;
  }();
  return devices;
}

std::vector<std::string> shipped_device_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : shipped_device_texts()) names.emplace_back(file.name);
  return names;
}

const Device* shipped_device(std::string_view name) {
  const auto& all = shipped_devices();
  const auto files = shipped_device_texts();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].name == name || files[i].name == name) return &all[i];
  return nullptr;
}

RatesOf rates_of(const Device& device) {
  if (device.relative_error > 0) return RatesOf::steps;
  return device.products_measured ? RatesOf::products : RatesOf::data_sheet;
}

}  // namespace stepcast
