// The text form of a plan:
//
//   plan     = strategy [ options ] { "+" modifier [ options ] } [ "@" collective ]
//   options  = "(" option { "," option } ")"
//   option   = name "=" value                  value: "25 MiB", "5 ms", "4", "0.5", a choice, or "auto"
//
// A layout before it ("layout(...)/") is layout_plan_of's to read (layout_plan_text.cpp) and refused here by name.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/plan/text.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace stepcast {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

template <class Range, class Name>
std::string suggestion(std::string_view word, const Range& known, Name name) {
  std::vector<std::string> names;
  for (const auto& k : known) names.emplace_back(name(k));
  return suggestion_for(word, names);
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "" : ", ") + n;
  return out;
}

/// The shortest decimal that reads back, with an exponent from 1e9 and below 1e-4: "0.25", "2e+09".
std::string number_text(double number) {
  std::array<char, 64> digits{};
  for (int precision = 9;; ++precision) {
    const auto end =
        std::to_chars(digits.data(), digits.data() + digits.size(), number, std::chars_format::general, precision).ptr;
    double again = 0;
    std::from_chars(digits.data(), end, again);
    if (again == number || precision == std::numeric_limits<double>::max_digits10) return {digits.data(), end};
  }
}

// The options that differ from their defaults, in parentheses.
std::string options_text(std::span<const OptionSpec> options, const OptionValues& values) {
  std::string inner;
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (values[i] == options[i].standard) continue;
    inner +=
        (inner.empty() ? "" : ", ") + std::string(options[i].name) + "=" + option_value_text(options[i], values[i]);
  }
  return inner.empty() ? inner : "(" + inner + ")";
}

/// Recursive descent over one line of text; every refusal names the column.
class PlanReader {
 public:
  PlanReader(std::string_view text, std::size_t from) : text_(text), at_(from) {}

  PlanSpec read() {
    PlanSpec spec;
    refuse_layout();
    const std::size_t start = skip();
    const std::string_view name = word();
    if (name.empty()) refuse(start, "the name of a strategy, such as 'ddp'", found(start));
    spec.strategy = strategy_named(name);
    if (spec.strategy == nullptr) {
      const std::string near = suggestion(name, strategies(), [](const Strategy& s) { return s.name; });
      refuse(start, "a strategy", quoted(name),
             near.empty() ? "'stepcast list strategies' names them all" : "did you mean '" + near + "'?");
    }
    spec.options = options_of(spec.strategy->name, spec.strategy->options);
    for (skip(); peek() == '+'; skip()) spec.modifiers.push_back(read_modifier());
    if (peek() == '@') read_collective(spec);
    skip();
    if (at_ != text_.size()) refuse(at_, "the end of the plan, '(', '+' or '@'", found(at_));
    return spec;
  }

 private:
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  std::size_t skip() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    return at_;
  }
  std::string_view word() {
    const std::size_t start = skip();
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }
  static std::string quoted(std::string_view s) { return "'" + std::string(s) + "'"; }
  [[nodiscard]] std::string found(std::size_t at) const {
    return at < text_.size() ? quoted(text_.substr(at, 1)) : "the end of the text";
  }
  [[nodiscard]] std::string where(std::size_t at) const { return "plan, column " + std::to_string(at + 1); }
  [[noreturn]] void refuse(std::size_t at, std::string expected, std::string what, std::string hint = {}) const {
    throw InputError(where(at), std::move(expected), std::move(what), std::move(hint));
  }

  // A layout is a word with optional options before a slash: "layout(tp=8)/ddp".
  void refuse_layout() const {
    const std::size_t slash = text_.find('/', at_);
    if (slash != std::string_view::npos)
      refuse(slash, "the name of a strategy first", "a layout before '/'",
             "plans with layouts are for 'stepcast predict', 'compare' and 'recommend'");
  }

  ModifierSpec read_modifier() {
    ++at_;  // "+"
    const std::size_t start = skip();
    const std::string_view name = word();
    if (name.empty()) refuse(start, "the name of a modifier after '+'", found(start));
    const Modifier* modifier = modifier_named(name);
    if (modifier == nullptr) {
      const std::string near = suggestion(name, modifiers(), [](const Modifier& m) { return m.name; });
      refuse(start, "a modifier", quoted(name),
             near.empty() ? "'stepcast list modifiers' names them all" : "did you mean '" + near + "'?");
    }
    return {modifier, options_of(modifier->name, modifier->options)};
  }

  /// What stands in parentheses, if anything does; defaults for the rest. `owner` has the options.
  OptionValues options_of(std::string_view owner, std::span<const OptionSpec> options) {
    OptionValues values = standard_options(options);
    if (skip(); peek() != '(') return values;
    ++at_;
    std::array<bool, most_options> given{};
    if (skip(); peek() == ')') {
      ++at_;
      return values;
    }
    while (true) {
      read_option(owner, options, values, given);
      skip();
      const char c = peek();
      if (c != ',' && c != ')') refuse(at_, "',' or ')'", found(at_));
      ++at_;
      if (c == ')') return values;
    }
  }

  void read_option(std::string_view owner, std::span<const OptionSpec> options, OptionValues& values,
                   std::array<bool, most_options>& given) {
    const std::size_t start = skip();
    const std::string_view name = word();
    std::size_t i = 0;
    while (i < options.size() && options[i].name != name) ++i;
    if (i == options.size()) refuse_option(owner, options, start, name);
    if (given[i]) refuse(start, "each option once", quoted(name) + " again");
    given[i] = true;
    if (skip(); peek() != '=') refuse(at_, "'='", found(at_));
    ++at_;
    const std::size_t value_at = skip();
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')') ++at_;
    std::size_t end = at_;
    while (end > value_at && is_space(text_[end - 1])) --end;
    values[i] = value_of(options[i], text_.substr(value_at, end - value_at), value_at);
  }

  [[noreturn]] void refuse_option(std::string_view owner, std::span<const OptionSpec> options, std::size_t at,
                                  std::string_view name) const {
    if (options.empty())
      refuse(at, "no options: '" + std::string(owner) + "' has none", name.empty() ? found(at) : quoted(name));
    std::vector<std::string> names;
    for (const OptionSpec& o : options) names.emplace_back(o.name);
    const std::string near = suggestion_for(name, names);
    refuse(at, "an option of '" + std::string(owner) + "' (" + listed(names) + ")",
           name.empty() ? found(at) : quoted(name), near.empty() ? "" : "did you mean '" + near + "'?");
  }

  [[nodiscard]] double value_of(const OptionSpec& spec, std::string_view text, std::size_t at) const {
    if (text == "auto") {
      if (spec.tuned) return std::numeric_limits<double>::quiet_NaN();
      refuse(at, "a value", "'auto'", "option '" + std::string(spec.name) + "' cannot be tuned");
    }
    if (spec.kind == OptionKind::choice) return choice_of(spec, text, at);
    const std::string context = where(at) + ", option '" + std::string(spec.name) + "'";
    double value = 0;
    switch (spec.kind) {
      case OptionKind::size:
        value = bytes_of(text, context).value();
        break;
      case OptionKind::duration:
        value = seconds_of(text, context).value();
        break;
      case OptionKind::count:
        return static_cast<double>(
            integer_of(text, context, static_cast<std::int64_t>(spec.low), static_cast<std::int64_t>(spec.high)));
      default:
        value = number_of(text, context);
        break;
    }
    if (!(value >= spec.low && value <= spec.high))
      throw InputError(context, option_value_text(spec, spec.low) + " to " + option_value_text(spec, spec.high),
                       quoted(text));
    return value;
  }

  [[nodiscard]] double choice_of(const OptionSpec& spec, std::string_view text, std::size_t at) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < spec.choices.size() && !spec.choices[i].empty(); ++i) {
      if (spec.choices[i] == text) return static_cast<double>(i);
      names.emplace_back(spec.choices[i]);
    }
    const std::string near = suggestion_for(text, names);
    refuse(at, "one of " + listed(names) + " for option '" + std::string(spec.name) + "'", quoted(text),
           near.empty() ? "" : "did you mean '" + near + "'?");
  }

  void read_collective(PlanSpec& spec) {
    ++at_;  // "@"
    const std::size_t start = skip();
    const std::string_view name = word();
    if (name.empty()) refuse(start, "the name of a collective algorithm after '@'", found(start));
    if (name != "table" && collective_algorithm(name) == nullptr) {
      const std::string near =
          suggestion(name, collective_algorithms(), [](const CollectiveAlgorithm& a) { return a.name; });
      refuse(start, "a collective algorithm or 'table'", quoted(name),
             near.empty() ? "'stepcast list collectives' names them all" : "did you mean '" + near + "'?");
    }
    spec.collective = name;
  }

  std::string_view text_;
  std::size_t at_;
};

}  // namespace

std::string option_value_text(const OptionSpec& spec, double value) {
  if (std::isnan(value)) return "auto";
  switch (spec.kind) {
    case OptionKind::size:
      return exact_text_in_best_unit(Bytes(value));
    case OptionKind::duration:
      return exact_text_in_best_unit(Seconds(value));
    case OptionKind::count:
      return std::to_string(static_cast<long long>(value));
    case OptionKind::number:
      return number_text(value);
    case OptionKind::choice:
      return std::string(spec.choices[static_cast<std::size_t>(value)]);
  }
  return {};
}

PlanSpec plan_spec_of(std::string_view text) { return plan_spec_from(text, 0); }
PlanSpec plan_spec_from(std::string_view text, std::size_t from) { return PlanReader(text, from).read(); }

std::string text_of(const PlanSpec& spec) {
  std::string out = std::string(spec.strategy->name) + options_text(spec.strategy->options, spec.options);
  for (const ModifierSpec& m : spec.modifiers)
    out += "+" + std::string(m.modifier->name) + options_text(m.modifier->options, m.options);
  if (!spec.collective.empty()) out += "@" + spec.collective;
  return out;
}

}  // namespace stepcast
