// The text form of a scenario:
//
//   scenario = what-if { "+" what-if }
//   what-if  = name [ "(" option { "," option } ")" ]
//   option   = name "=" value        value: "2", "20 us", "12 GB/s", "64 GiB", layers such as bn*|fc, or any in quotes
//
// The grammar of plans (plan_text.cpp), with names of layers as values.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <utility>

namespace stepcast {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}
std::string quoted(std::string_view s) { return "'" + std::string(s) + "'"; }

template <class Records>
std::string nearest(std::string_view word, const Records& records) {
  std::vector<std::string> names;
  for (const auto& record : records) names.emplace_back(record.name);
  return suggestion_for(word, names);
}

/// Recursive descent over one line of text; every refusal names the column.
class ScenarioReader {
 public:
  explicit ScenarioReader(std::string_view text) : text_(text) {}

  Scenario read() {
    Scenario scenario;
    while (true) {
      scenario.push_back(read_what());
      if (skip() == text_.size()) return scenario;
      if (text_[at_] != '+') refuse(at_, "the end of the what-if, '(' or '+'", found(at_));
      ++at_;
    }
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
  [[nodiscard]] std::string found(std::size_t at) const {
    return at < text_.size() ? quoted(text_.substr(at, 1)) : "the end of the text";
  }
  [[nodiscard]] static std::string where(std::size_t at) { return "what-if, column " + std::to_string(at + 1); }
  [[noreturn]] static void refuse(std::size_t at, std::string expected, std::string what, std::string hint = {}) {
    throw InputError(where(at), std::move(expected), std::move(what), std::move(hint));
  }

  WhatIfSpec read_what() {
    const std::size_t start = skip();
    const std::string_view name = word();
    if (name.empty()) refuse(start, "the name of a what-if, such as 'amp'", found(start));
    WhatIfSpec spec;
    spec.what = whatif_named(name);
    if (spec.what == nullptr) {
      const std::string near = nearest(name, whatifs());
      refuse(start, "a what-if", quoted(name),
             near.empty() ? "'stepcast list whatifs' names them all" : "did you mean '" + near + "'?");
    }
    spec.values = standard_values(*spec.what);
    std::array<bool, most_whatif_options> given{};
    skip();
    if (peek() == '(') read_options(spec, given);
    for (std::size_t i = 0; i < spec.what->options.size(); ++i)
      if (spec.what->options[i].required && !given[i])
        refuse(start, "option '" + std::string(spec.what->options[i].name) + "' of " + quoted(name), "nothing",
               std::string(spec.what->options[i].summary));
    return spec;
  }

  void read_options(WhatIfSpec& spec, std::array<bool, most_whatif_options>& given) {
    ++at_;  // "("
    if (skip(); peek() == ')') {
      ++at_;
      return;
    }
    while (true) {
      read_option(spec, given);
      skip();
      const char c = peek();
      if (c != ',' && c != ')') refuse(at_, "',' or ')'", found(at_));
      ++at_;
      if (c == ')') return;
    }
  }

  void read_option(WhatIfSpec& spec, std::array<bool, most_whatif_options>& given) {
    const auto options = spec.what->options;
    const std::size_t start = skip();
    const std::string_view name = word();
    std::size_t i = 0;
    while (i < options.size() && options[i].name != name) ++i;
    if (i == options.size()) refuse_option(*spec.what, start, name);
    if (given[i]) refuse(start, "each option once", quoted(name) + " again");
    given[i] = true;
    if (skip(); peek() != '=') refuse(at_, "'='", found(at_));
    ++at_;
    const std::size_t value_at = skip();
    const std::string_view value = read_value();
    if (options[i].kind == WhatIfValue::layers) {
      if (value.empty()) refuse(value_at, "the names of layers, such as bn*|fc", "nothing");
      spec.values.text[i] = value;
    } else {
      spec.values.number[i] = number(options[i], value, value_at);
    }
  }

  /// Up to the next ',' or ')', or what stands between quotes.
  std::string_view read_value() {
    const std::size_t start = at_;
    if (peek() == '"') {
      const std::size_t end = text_.find('"', start + 1);
      if (end == std::string_view::npos) refuse(start, "a closing '\"'", "the end of the text");
      at_ = end + 1;
      return text_.substr(start + 1, end - start - 1);
    }
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')') ++at_;
    std::size_t end = at_;
    while (end > start && is_space(text_[end - 1])) --end;
    return text_.substr(start, end - start);
  }

  [[noreturn]] static void refuse_option(const WhatIf& what, std::size_t at, std::string_view name) {
    const std::string shown = name.empty() ? "nothing" : quoted(name);
    if (what.options.empty()) refuse(at, "no options: '" + std::string(what.name) + "' has none", shown);
    std::string names;
    for (const WhatIfOption& o : what.options) names += (names.empty() ? "" : ", ") + std::string(o.name);
    const std::string near = nearest(name, what.options);
    refuse(at, "an option of '" + std::string(what.name) + "' (" + names + ")", shown,
           near.empty() ? "" : "did you mean '" + near + "'?");
  }

  static double number(const WhatIfOption& option, std::string_view text, std::size_t at) {
    const std::string context = where(at) + ", option '" + std::string(option.name) + "'";
    const double value = option.kind == WhatIfValue::number     ? number_of(text, context)
                         : option.kind == WhatIfValue::duration ? seconds_of(text, context).value()
                         : option.kind == WhatIfValue::size     ? bytes_of(text, context).value()
                                                                : bandwidth_of(text, context).value();
    if (!(value >= option.low && value <= option.high))
      throw InputError(context, value_text(option, option.low, {}) + " to " + value_text(option, option.high, {}),
                       quoted(text));
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Scenario scenario_of(std::string_view text) { return ScenarioReader(text).read(); }

std::string value_text(const WhatIfOption& option, double number, std::string_view patterns) {
  switch (option.kind) {
    case WhatIfValue::layers:
      return patterns.find_first_of(",)\" \t") == std::string_view::npos ? std::string(patterns)
                                                                         : "\"" + std::string(patterns) + "\"";
    case WhatIfValue::duration:
      return exact_text_in_best_unit(Seconds(number));
    case WhatIfValue::size:
      return exact_text_in_best_unit(Bytes(number));
    case WhatIfValue::rate:
      return exact_text_in_best_unit(BytesPerSecond(number));
    case WhatIfValue::number:
      break;
  }
  return exact_text_of(number);
}

std::string text_of(const Scenario& scenario) {
  std::string out;
  for (const WhatIfSpec& spec : scenario) {
    const WhatIfValues standard = standard_values(*spec.what);
    std::string inner;
    for (std::size_t i = 0; i < spec.what->options.size(); ++i) {
      const WhatIfOption& option = spec.what->options[i];
      const bool same = option.kind == WhatIfValue::layers ? spec.values.text[i] == standard.text[i]
                                                           : spec.values.number[i] == standard.number[i];
      if (same && !option.required) continue;
      inner += (inner.empty() ? "" : ", ") + std::string(option.name) + "=" +
               value_text(option, spec.values.number[i], spec.values.text[i]);
    }
    out += (out.empty() ? "" : "+") + std::string(spec.what->name) + (inner.empty() ? "" : "(" + inner + ")");
  }
  return out;
}

}  // namespace stepcast
