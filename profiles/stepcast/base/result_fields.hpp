#pragma once
// Result fields: what a result consists of, said once for everything that shows or stores it.
//
// Beside a struct stands the list of its fields: the name of each with its SI unit, where its value is found, and a
// line that explains it. JSON reports, the structure of C, pickles and the properties of Python, with their docstrings,
// walk the list, so that a new field of a result is one line in the struct and one in its list:
//
//   struct Breakdown { Seconds compute, idle; };
//   template <>
//   inline constexpr auto result_fields<Breakdown> = std::tuple{
//       ResultField{"compute_s", &Breakdown::compute, "layers and update"}, ResultField{"idle_s", &Breakdown::idle,
//       "the rest"}};
//
// A value is a member or a function of the whole; members make up the whole, functions only show it. Invariants: every
// member is in the list; the order is that of JSON. Not modelled: prose and pictures, which choose what they tell.
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace stepcast {

/// Where a field is shown; stored it is everywhere.
enum class ShownAs : std::uint8_t {
  itself,
  known,      ///< the same; JSON has null for a zero or an empty text, which mean that the value is not known
  if_any,     ///< the same; JSON leaves an optional without a value out
  merged,     ///< its own fields are shown among those of the owner
  json_only,  ///< an object has the parts of it
  aside,      ///< not in JSON
};

template <class Get>
struct ResultField {
  const char* name;  ///< "iteration_s"; below a name that ends in a unit, JSON leaves the unit out
  Get get;           ///< for std::invoke with the owner
  const char* summary;
  ShownAs shown = ShownAs::itself;

  /// It stores a part of the owner; else it is computed from it.
  static constexpr bool is_member = std::is_member_object_pointer_v<Get>;
};
// clang below 17 deduces no aggregates.
template <class Get>
ResultField(const char*, Get, const char*) -> ResultField<Get>;
template <class Get>
ResultField(const char*, Get, const char*, ShownAs) -> ResultField<Get>;

/// The fields of T; specialised for every result that has a list.
template <class T>
inline constexpr std::nullopt_t result_fields = std::nullopt;
template <class T>
concept HasFields = !std::is_same_v<decltype(result_fields<T>), const std::nullopt_t>;

template <HasFields T, class Visit>
constexpr void for_each_field(const Visit& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, result_fields<T>);
}

/// "_s" of "interval_s", "_bytes" of "memory_bytes", nothing of a name without a unit.
[[nodiscard]] constexpr std::string_view unit_in(std::string_view name) {
  for (const std::string_view unit : {"_bytes_per_s", "_samples_per_s", "_bytes", "_s"})
    if (name.ends_with(unit)) return unit;
  return {};
}
/// "compute_s" without "_s" is "compute".
[[nodiscard]] constexpr std::string_view without_unit(std::string_view name, std::string_view unit) {
  return name.ends_with(unit) ? name.substr(0, name.size() - unit.size()) : name;
}

}  // namespace stepcast
