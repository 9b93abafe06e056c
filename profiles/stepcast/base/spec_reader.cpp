#include <stepcast/base/error.hpp>
#include <stepcast/base/printable.hpp>
#include <stepcast/base/spec_reader.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>

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

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

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

std::vector<std::string> choices_of(const OptionSpec& spec) {
  std::vector<std::string> names;
  for (const std::string_view name : spec.choices)
    if (!name.empty()) names.emplace_back(name);
  return names;
}

double quantity_of(OptionKind kind, std::string_view text, std::string_view where) {
  return kind == OptionKind::size       ? bytes_of(text, where).value()
         : kind == OptionKind::duration ? seconds_of(text, where).value()
         : kind == OptionKind::rate     ? bandwidth_of(text, where).value()
                                        : number_of(text, where);
}

double value_of(const OptionSpec& spec, std::string_view text, const SpecPlace& place) {
  if (text == "auto") {
    if (spec.tuned) return std::numeric_limits<double>::quiet_NaN();
    throw InputError(place.column(), "a value", "'auto'", "option " + quoted(spec.name) + " cannot be tuned");
  }
  if (spec.kind == OptionKind::choice) return static_cast<double>(choice_of(text, place, choices_of(spec)));
  const std::string where = place.where();
  if (spec.kind == OptionKind::count)
    return static_cast<double>(
        integer_of(text, where, static_cast<std::int64_t>(spec.low), static_cast<std::int64_t>(spec.high)));
  const double value = quantity_of(spec.kind, text, where);
  if (!(value >= spec.low && value <= spec.high))
    throw InputError(where, option_value_text(spec, spec.low) + " to " + option_value_text(spec, spec.high),
                     quoted(text));
  return value;
}

}  // namespace

std::string SpecPlace::column() const { return std::string(text) + ", column " + std::to_string(at + 1); }
std::string SpecPlace::where() const { return column() + ", option " + quoted(option); }

std::size_t SpecReader::skip() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  return at_;
}

char SpecReader::peek() { return skip() < text_.size() ? text_[at_] : '\0'; }

bool SpecReader::take(char c) {
  if (skip() == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

std::string_view SpecReader::word() {
  const std::size_t start = skip();
  while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
  return text_.substr(start, at_ - start);
}

std::size_t SpecReader::name(const SpecNames& names, std::span<const std::string> known) {
  name_at_ = skip();
  const std::string_view name = word();
  if (name.empty()) refuse(name_at_, std::string(names.name));
  const auto place = std::find(known.begin(), known.end(), name);
  if (place == known.end())
    refuse(name_at_, std::string(names.member), quoted(name), did_you_mean(name, known, names.list));
  return static_cast<std::size_t>(place - known.begin());
}

GivenOptions SpecReader::options(std::string_view owner, std::span<const OptionSpec> specs) {
  GivenOptions out{standard_options(specs), std::string(standard_layers(specs))};
  const auto read = [&](std::size_t i, std::string_view text, const SpecPlace& place) {
    if (specs[i].kind != OptionKind::layers) out.values[i] = value_of(specs[i], text, place);
    else if (text.empty()) refuse(place.at, "the names of layers, such as bn*|fc", "nothing");
    else out.layers = text;
  };
  const std::vector<bool> given = options(owner, names_of(specs), read);
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (specs[i].required && !given[i])
      refuse(name_at_, "option " + quoted(specs[i].name) + " of " + quoted(owner), "nothing",
             std::string(specs[i].summary));
  return out;
}

std::vector<bool> SpecReader::options(std::string_view owner, std::span<const std::string> names, const Read& read,
                                      std::string_view stops) {
  std::vector<bool> given(names.size());
  if (!take('(') || take(')')) return given;
  while (true) {
    const std::size_t start = skip();
    const std::string_view name = word();
    const std::size_t i = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (i == names.size()) refuse_option(owner, names, start, name);
    if (given[i]) refuse(start, "each option once", quoted(name) + " again");
    given[i] = true;
    if (!take('=')) refuse(at_, "'='");
    const SpecPlace place{kind_, names[i], skip()};
    read(i, value(stops), place);
    if (take(')')) return given;
    if (!take(',')) refuse(at_, "',' or ')'");
  }
}

std::string_view SpecReader::value(std::string_view stops) {
  const std::size_t start = at_;
  if (peek() == '"') {
    const std::size_t end = text_.find('"', start + 1);
    if (end == std::string_view::npos) refuse(start, "a closing '\"'", "the end of the text");
    at_ = end + 1;
    return text_.substr(start + 1, end - start - 1);
  }
  at_ = std::min(text_.find_first_of(stops, start), text_.size());
  return trimmed(text_.substr(start, at_ - start));
}

void SpecReader::require_end(std::string expected) {
  if (skip() != text_.size()) refuse(at_, std::move(expected));
}

void SpecReader::refuse(std::size_t at, std::string expected, std::string found, std::string hint) const {
  throw InputError(SpecPlace{kind_, {}, at}.column(), std::move(expected), std::move(found), std::move(hint));
}

void SpecReader::refuse(std::size_t at, std::string expected) const { refuse(at, std::move(expected), found(at)); }

std::string SpecReader::found(std::size_t at) const {
  if (at >= text_.size()) return "the end of the text";
  return quoted(text_.substr(at, std::max<std::size_t>(1, utf8_length(text_.substr(at)))));  // a whole character
}

void SpecReader::refuse_option(std::string_view owner, std::span<const std::string> names, std::size_t at,
                               std::string_view name) const {
  const std::string what = name.empty() ? found(at) : quoted(name);
  if (names.empty()) refuse(at, "no options: " + quoted(owner) + " has none", what);
  // PyTorch's name for it has the unit in it.
  const bool of_torch = name == "bucket_cap_mb" && std::ranges::find(names, "bucket") != names.end();
  refuse(at, "an option of " + quoted(owner) + " (" + listed(names) + ")", what,
         of_torch ? "bucket_cap_mb=25 is 'bucket=25 MiB'" : did_you_mean(name, names));
}

bool is_value_of(const OptionSpec& option, double value) {
  const bool whole = option.kind == OptionKind::count || option.kind == OptionKind::choice;
  return value >= option.low && value <= option.high && (!whole || value == std::floor(value));
}

std::size_t choice_of(std::string_view value, const SpecPlace& place, std::span<const std::string> names) {
  const auto found = std::find(names.begin(), names.end(), value);
  if (found == names.end())
    throw InputError(place.column(), "one of " + listed(names) + " for option " + quoted(place.option), quoted(value),
                     did_you_mean(value, names));
  return static_cast<std::size_t>(found - names.begin());
}

std::string option_value_text(const OptionSpec& spec, double value, std::string_view layers) {
  if (std::isnan(value)) return "auto";
  switch (spec.kind) {
    case OptionKind::size:
      return exact_text_in_best_unit(Bytes(value));
    case OptionKind::duration:
      return exact_text_in_best_unit(Seconds(value));
    case OptionKind::rate:
      return exact_text_in_best_unit(BytesPerSecond(value));
    case OptionKind::choice:
      return std::string(spec.choices[static_cast<std::size_t>(value)]);
    case OptionKind::layers:
      return layers.find_first_of(",)\" \t") == std::string_view::npos ? std::string(layers)
                                                                       : "\"" + std::string(layers) + "\"";
    case OptionKind::count:
      return std::to_string(static_cast<long long>(value));
    case OptionKind::number:
      break;
  }
  return number_text(value);
}

std::string options_text(std::span<const OptionSpec> specs, const OptionValues& values, std::string_view layers) {
  std::string inner;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const OptionSpec& spec = specs[i];
    const bool same = spec.kind == OptionKind::layers ? layers == spec.patterns : values[i] == spec.standard;
    if (same && !spec.required) continue;
    inner += (inner.empty() ? "" : ", ") + std::string(spec.name) + "=" + option_value_text(spec, values[i], layers);
  }
  return inner.empty() ? inner : "(" + inner + ")";
}

}  // namespace stepcast
