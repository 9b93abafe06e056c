#pragma once
// Spec reader: reads `name(key=value, ...)`, the grammar that plans, layouts and what-ifs share, and writes options
// back.
//
//   spec   = name [ "(" [ option { "," option } ] ")" ]
//   option = key "=" value          value: "25 MiB", "5 ms", "4", a choice, "auto", bn*|fc, or any in double quotes
//
// Invariant: reading goes on from left to right and never back; a refusal names the column, counted in the whole text,
// what was expected and what was found; options that are written read back to the same values. Example:
//
//   SpecReader in("plan", "ddp(bucket=25 MiB)");
//   const Strategy& ddp = strategies()[in.name(strategy_names, names_of(strategies()))];
//   const OptionValues values = in.options(ddp.name, ddp.options).values;
//
// Not modelled: what stands between specs ("+", "@", "/"); whoever reads takes it. Internal to the library.
#include <stepcast/base/options.hpp>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

/// Where in a text a value stands, for refusals.
struct SpecPlace {
  std::string_view text;    ///< what the text is: "plan"
  std::string_view option;  ///< the option whose value it is
  std::size_t at = 0;
  [[nodiscard]] std::string column() const;  ///< "plan, column 5"
  [[nodiscard]] std::string where() const;   ///< "plan, column 5, option 'bucket'"
};

/// What refusals say of the names that are read at a place.
struct SpecNames {
  std::string_view name;    ///< "the name of a strategy, such as 'ddp'"
  std::string_view member;  ///< "a strategy"
  std::string_view list;    ///< "'stepcast list strategies' names them all"
};

/// Options as a spec gives them: defaults for what it leaves out.
struct GivenOptions {
  OptionValues values{};
  std::string layers;  ///< of the option that names layers
};

class SpecReader {
 public:
  /// Reads from `from` on; `kind` says what the text is.
  SpecReader(std::string_view kind, std::string_view text, std::size_t from = 0)
      : kind_(kind), text_(text), at_(from) {}

  /// Goes on behind white space; where that is.
  std::size_t skip();
  /// The next character that is no white space; 0 at the end.
  [[nodiscard]] char peek();
  /// Goes on behind `c` if it is the next.
  bool take(char c);
  /// The next word of letters, digits, '_' and '-'; may be empty.
  std::string_view word();
  /// The position of the next word in `known`.
  std::size_t name(const SpecNames&, std::span<const std::string> known);
  /// What stands in parentheses, if anything does. A value ends where one of `stops` stands, or is in double quotes.
  GivenOptions options(std::string_view owner, std::span<const OptionSpec>);
  /// The same with a reader of values; says which options are given.
  using Read = std::function<void(std::size_t option, std::string_view value, const SpecPlace&)>;
  std::vector<bool> options(std::string_view owner, std::span<const std::string> names, const Read& read,
                            std::string_view stops = ",)");

  void require_end(std::string expected);
  [[noreturn]] void refuse(std::size_t at, std::string expected, std::string found, std::string hint = {}) const;
  /// Says that the character there, or the end of the text, was found.
  [[noreturn]] void refuse(std::size_t at, std::string expected) const;

 private:
  std::string_view value(std::string_view stops);
  [[nodiscard]] std::string found(std::size_t at) const;
  [[noreturn]] void refuse_option(std::string_view owner, std::span<const std::string> names, std::size_t at,
                                  std::string_view name) const;

  std::string_view kind_, text_;
  std::size_t at_, name_at_ = 0;
};

/// Within the range, and whole where the option counts or chooses.
[[nodiscard]] bool is_value_of(const OptionSpec&, double value);
/// The position in `names`.
[[nodiscard]] std::size_t choice_of(std::string_view value, const SpecPlace&, std::span<const std::string> names);

/// "25 MiB", "3.5 ms", "4", the name of a choice, "auto", patterns of layers: reads back to the same value.
[[nodiscard]] std::string option_value_text(const OptionSpec&, double value, std::string_view layers = {});
/// "(bucket=1 MiB, prefetch=2)": what differs from the defaults or has none; reads back to the same values.
[[nodiscard]] std::string options_text(std::span<const OptionSpec>, const OptionValues&, std::string_view layers = {});

/// The names of a family's members.
template <class Family>
[[nodiscard]] std::vector<std::string> names_of(const Family& family) {
  std::vector<std::string> names;
  for (const auto& member : family) names.emplace_back(member.name);
  return names;
}

}  // namespace stepcast
