#pragma once
// JSON of results by their lists of fields (result_fields.hpp): SI numbers, null for what is not known.
//
// A quantity is its number, a plan its text, an enumeration its name, a list an array, a struct with fields an object;
// below a key that ends in a unit the keys leave the unit out: {"breakdown_s": {"compute": 0.1}}. Internal to reports.
#include <stepcast/base/result_fields.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/search/layout_advice.hpp>

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <utility>

namespace stepcast {

/// A second job on the same network, as far as it is known.
inline nlohmann::ordered_json json_of_second_job(const SecondJob& job) {
  nlohmann::ordered_json json{{"model", job.model},           {"plan", job.plan},
                              {"level", job.level},           {"iteration_s", job.step.value()},
                              {"sends_s", job.sends.value()}, {"share", job.share}};
  for (const auto& [name, time] : {std::pair{"iteration_beside_s", job.slowed}, std::pair{"without_it_s", job.alone},
                                   std::pair{"at_most_s", job.at_most}})
    if (time > Seconds(0)) json[name] = time.value();
  return json;
}

/// A cluster by its name and size, with what other jobs take of its network, level by level, with the second job that
/// is known of them, and what its library takes beyond the forms of its algorithm, where they do.
inline nlohmann::ordered_json json_of_cluster(const Cluster& c) {
  nlohmann::ordered_json json{
      {"name", c.name}, {"workers", c.workers()}, {"nodes", c.nodes}, {"devices_per_node", c.devices_per_node}};
  if (c.transport.background > 0)
    json["background"][c.levels.empty() ? "network" : c.levels.front().name] = c.transport.background;
  for (const Level& level : c.levels)
    if (level.background > 0) json["background"][level.name] = level.background;
  if (c.beside) json["beside"] = json_of_second_job(*c.beside);
  if (const std::string library = library_in_words(c); !library.empty()) json["library"] = library;
  return json;
}

/// `unit` stands in the key already.
template <class T>
void add_fields(nlohmann::ordered_json& json, const T& owner, std::string_view unit = {});

inline nlohmann::ordered_json json_value(const PlanSpec& plan, std::string_view = {}) { return text_of(plan); }
inline nlohmann::ordered_json json_value(const LayoutPlan& plan, std::string_view = {}) { return text_of(plan); }
template <class T>
nlohmann::ordered_json json_value(const T& value, std::string_view unit = {}) {
  using Json = nlohmann::ordered_json;
  if constexpr (HasFields<T>) {
    Json json = Json::object();
    add_fields(json, value, unit);
    return json;
  } else if constexpr (requires { value.has_value(); }) {
    return value ? json_value(*value, unit) : Json(nullptr);
  } else if constexpr (std::is_enum_v<T>) {
    return Json(name_of(value));
  } else if constexpr (requires { value.value(); }) {
    return Json(value.value());
  } else if constexpr (std::is_arithmetic_v<T> || std::is_convertible_v<T, std::string_view>) {
    return Json(value);
  } else {
    Json list = Json::array();
    for (const auto& item : value) list.push_back(json_value(item, unit));
    return list;
  }
}

/// Zero and an empty text mean that a value is not known.
template <class T>
bool is_known(const T& value) {
  if constexpr (requires { value.empty(); }) return !value.empty();
  else if constexpr (requires { value > T{}; }) return value > T{};
  else return true;
}

template <class T>
void add_fields(nlohmann::ordered_json& json, const T& owner, std::string_view unit) {
  for_each_field<T>([&](const auto& field) {
    if (field.shown == ShownAs::aside) return;
    const auto& value = std::invoke(field.get, owner);
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (HasFields<Value>)
      if (field.shown == ShownAs::merged) return add_fields(json, value, unit);
    if constexpr (requires { value.has_value(); })
      if (field.shown == ShownAs::if_any && !value) return;
    const bool known = field.shown != ShownAs::known || is_known(value);
    json[std::string(without_unit(field.name, unit))] = known ? json_value(value, unit_in(field.name)) : nullptr;
  });
}

}  // namespace stepcast
