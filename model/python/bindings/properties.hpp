#pragma once
// Properties: the fields of a result (result_fields.hpp) as read-only properties of its Python class, with their
// docstrings.
//
// Quantities are SI floats, plans their texts, lists tuples. The fields of a part that is always there are properties
// of the whole: `Prediction.compute_s` is of its breakdown. Results within results are bound by hand, because they know
// their profile and cluster.
#include "bindings.hpp"

#include <stepcast/base/result_fields.hpp>

#include <functional>
#include <type_traits>

namespace stepcast::python {

/// As Python sees it.
template <class T>
auto shown(const T& value) {
  if constexpr (std::is_enum_v<T>) return name_of(value);
  else if constexpr (std::is_same_v<T, PlanSpec>) return text_of(value);
  else if constexpr (std::is_convertible_v<T, std::string_view> || requires { value.has_value(); }) return value;
  else if constexpr (requires { value.value(); }) return value.value();
  else if constexpr (requires { value.size(); }) {
    py::tuple out(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) out[i] = py::cast(shown(value[i]));
    return out;
  } else return value;
}

/// `whole` gives the T of an object of the class.
template <HasFields T, class Class, class Whole>
void def_fields(Class& to, const Whole& whole) {
  using Owner = typename Class::type;
  for_each_field<T>([&](const auto& field) {
    using Value = std::remove_cvref_t<std::invoke_result_t<decltype(field.get), const T&>>;
    if (field.shown == ShownAs::json_only) return;
    if constexpr (HasFields<Value>) {
      if (field.shown == ShownAs::itself)
        def_fields<Value>(to, [whole, part = field.get](const Owner& o) -> const Value& { return whole(o).*part; });
    } else {
      to.def_property_readonly(
          field.name, [whole, get = field.get](const Owner& o) { return shown(std::invoke(get, whole(o))); },
          field.summary);
    }
  });
}

/// The names of these properties, for tables.
template <HasFields T>
py::tuple names_of() {
  std::vector<std::string> names;
  for_each_field<T>([&](const auto& field) { names.emplace_back(field.name); });
  return tuple_of(names);
}

}  // namespace stepcast::python
