// Numbers with units are read strictly: all of the text has to be one quantity.
#include <stepcast/base/error.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <vector>

namespace stepcast {
namespace {

struct Unit {
  std::string_view name;
  double si;
};

constexpr std::array<Unit, 11> time_units{{{"ps", 1e-12},
                                           {"ns", 1e-9},
                                           {"us", 1e-6},
                                           {"\xc2\xb5s", 1e-6},  // micro sign
                                           {"\xce\xbcs", 1e-6},  // Greek mu
                                           {"ms", 1e-3},
                                           {"s", 1},
                                           {"min", 60},
                                           {"h", 3600},
                                           {"day", 86400},
                                           {"days", 86400}}};

constexpr std::array<Unit, 12> prefixes{{{"", 1},
                                         {"k", 1e3},
                                         {"K", 1e3},
                                         {"M", 1e6},
                                         {"G", 1e9},
                                         {"T", 1e12},
                                         {"P", 1e15},
                                         {"Ki", 0x1p10},
                                         {"Mi", 0x1p20},
                                         {"Gi", 0x1p30},
                                         {"Ti", 0x1p40},
                                         {"Pi", 0x1p50}}};

struct NumberAndUnit {
  double number;
  std::string_view unit;
};

/// What a quantity should look like and where it was found: the constant part of an error message.
struct Context {
  std::string_view where, expected, text;

  [[noreturn]] void refuse(std::string hint = {}) const {
    throw InputError(std::string(where), std::string(expected), in_quotes_or_nothing(text), std::move(hint));
  }
};

/// Reads the leading decimal number; from_chars alone would also take "inf" and "nan".
NumberAndUnit split(const Context& context) {
  std::string_view rest = trimmed(context.text);
  bool negative = false;
  if (!rest.empty() && (rest.front() == '+' || rest.front() == '-')) {
    negative = rest.front() == '-';
    rest.remove_prefix(1);
  }
  if (rest.empty() || !(std::isdigit(static_cast<unsigned char>(rest.front())) || rest.front() == '.')) {
    context.refuse("it has to start with a number");
  }
  double number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error == std::errc::result_out_of_range) context.refuse("the number is out of range");
  if (error != std::errc{}) context.refuse("it has to start with a number");
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return {negative ? -number : number, trimmed(rest)};
}

std::optional<double> prefix_factor(std::string_view prefix) {
  for (const Unit& p : prefixes) {
    if (p.name == prefix) return p.si;
  }
  return std::nullopt;
}

/// The factor of `unit` if it is a prefix followed by `stem`.
std::optional<double> scaled_unit(std::string_view unit, std::string_view stem) {
  if (!unit.ends_with(stem)) return std::nullopt;
  return prefix_factor(unit.substr(0, unit.size() - stem.size()));
}

std::optional<double> time_unit(std::string_view unit) {
  for (const Unit& u : time_units) {
    if (u.name == unit) return u.si;
  }
  return std::nullopt;
}

/// Bytes per second of one `unit`: "GB/s", "GBps", "Gb/s", "Gbit/s", "Gbps", "GbE".
std::optional<double> bandwidth_unit(std::string_view unit) {
  for (const std::string_view stem : {"bit/s", "bits/s", "bps", "b/s", "bE"}) {
    if (const auto factor = scaled_unit(unit, stem)) return *factor / 8;
  }
  for (const std::string_view stem : {"B/s", "Bps"}) {
    if (const auto factor = scaled_unit(unit, stem)) return factor;
  }
  if (unit == "G") return 1e9 / 8;  // "100G": Ethernet by its usual name
  return std::nullopt;
}

/// InfiniBand's generations, each a port of four lanes, with or without "InfiniBand" or "IB" beside them; 0 for other
/// words.
double infiniband(std::string_view text) {
  std::string_view name = text;
  for (const std::string_view kind : {"infiniband", "ib"}) {
    const std::string lower = lower_case(name);
    if (lower.starts_with(std::string(kind) + " ")) name = trimmed(name.substr(kind.size()));
    else if (lower.ends_with(" " + std::string(kind))) name = trimmed(name.substr(0, name.size() - kind.size()));
  }
  static constexpr std::pair<std::string_view, double> generations[] = {{"qdr", 40e9},  {"fdr", 56e9},  {"edr", 100e9},
                                                                        {"hdr", 200e9}, {"ndr", 400e9}, {"xdr", 800e9}};
  for (const auto& [generation, bits] : generations)
    if (lower_case(name) == generation) return bits / 8;
  return 0;
}

double quantity(const Context& context, std::optional<double> (*unit_factor)(std::string_view)) {
  const NumberAndUnit parts = split(context);
  if (parts.unit.empty()) context.refuse("a bare number has no meaning here: add the unit");
  const auto factor = unit_factor(parts.unit);
  if (!factor) context.refuse("unknown unit " + in_quotes(parts.unit));
  if (std::signbit(parts.number) && parts.number != 0) context.refuse("it must not be negative");
  const double si = parts.number * *factor;
  if (!std::isfinite(si)) context.refuse("the number is out of range");
  return std::fabs(si);  // no negative zero
}

/// `value` with four significant digits in the largest of `units` (ascending) in which it is at least 1.
std::string in_best_unit(double value, std::span<const Unit> units, const char* format) {
  std::size_t best = 0;
  while (best + 1 < units.size() && std::fabs(value) >= units[best + 1].si) ++best;
  std::array<char, 64> digits{};
  const auto print = [&] { std::snprintf(digits.data(), digits.size(), format, value / units[best].si); };
  print();
  // 999.96 rounds to 1000: that is 1 of the next unit.
  if (best + 1 < units.size()) {
    const double step = units[best + 1].si / units[best].si;
    if (std::fabs(std::strtod(digits.data(), nullptr)) >= step) {
      ++best;
      print();
    }
  }
  return std::string(digits.data()) + " " + std::string(units[best].name);
}

/// Four significant digits without an exponent for 1 <= |value| < 1000: "1.234", "12.34", "123.4".
std::string four_digits(double value, std::span<const Unit> units) {
  std::string text = in_best_unit(value, units, "%#.4g");
  const auto point = text.find(". ");  // "%#.4g" keeps a naked point behind four whole digits
  if (point != std::string::npos) text.erase(point, 1);
  return text;
}

/// The shortest of `text` and what the other units say, if that reads back to `value`.
template <class Read>
std::string shortest_in(std::span<const Unit> units, double value, std::string text, const Read& read) {
  std::array<char, 64> digits{};
  for (const Unit& unit : units)
    for (int precision = 1; precision <= std::numeric_limits<double>::max_digits10; ++precision) {
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value / unit.si,
                                     std::chars_format::general, precision);
      const std::string_view number(digits.data(), static_cast<std::size_t>(end.ptr - digits.data()));
      std::string other = std::string(number) + " " + std::string(unit.name);
      if (number.find('e') == std::string_view::npos && other.size() < text.size() && read(other, "").value() == value)
        text = std::move(other);
    }
  return text;
}

/// Optimal string alignment distance, letter case ignored: insert, delete, replace, swap neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower_case(a[i - 1]) == lower_case(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower_case(a[i - 1]) == lower_case(b[j - 2]) &&
                           lower_case(a[i - 2]) == lower_case(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

}  // namespace

Seconds seconds_of(std::string_view text, std::string_view where) {
  return Seconds(quantity({where, "a time with its unit, such as '5 us' or '0.3 ms'", text}, time_unit));
}

Bytes bytes_of(std::string_view text, std::string_view where) {
  const Context context{where, "a size with its unit, such as '25 MiB' or '4096 B'", text};
  return Bytes(quantity(context, [](std::string_view unit) { return scaled_unit(unit, "B"); }));
}

BytesPerSecond bandwidth_of(std::string_view text, std::string_view where) {
  const Context context{where, "a bandwidth with its unit, such as '25 Gb/s', '1.2 GB/s' or '10GbE'", text};
  if (const double port = infiniband(trimmed(text)); port > 0) return BytesPerSecond(port);
  const double si = quantity(context, bandwidth_unit);
  if (!(si > 0)) context.refuse("nothing ever arrives at zero bandwidth");
  return BytesPerSecond(si);
}

bool names_bandwidth(std::string_view text) { return infiniband(trimmed(text)) > 0; }

double number_of(std::string_view text, std::string_view where) {
  const Context context{where, "a number", text};
  const NumberAndUnit parts = split(context);
  if (!parts.unit.empty()) context.refuse("it takes no unit");
  return parts.number;
}

std::int64_t integer_of(std::string_view text, std::string_view where, std::int64_t low, std::int64_t high) {
  const std::string expected = "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  const Context context{where, expected, text};
  std::string_view digits = trimmed(text);
  if (digits.size() > 1 && digits.front() == '+' && digits[1] != '-') digits.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  if (error == std::errc{} && !whole && trimmed({end, digits.data() + digits.size()}) == "k" && value < high / 1024)
    context.refuse("128k of tokens are 131072: this may be " + std::to_string(value * 1024));
  if (!whole || value < low || value > high) context.refuse();
  return value;
}

double share_of(std::string_view text, std::string_view where) {
  const Context context{where, "a share such as '30%' or '0.3'", text};
  const auto [number, unit] = split(context);
  if (!unit.empty() && unit != "%") context.refuse("its unit is %, or none");
  return unit.empty() ? number : number / 100;
}

double large_number_of(std::string_view text, std::string_view where) {
  static constexpr std::array<Unit, 7> units{
      {{"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}}};
  const Context context{where, "a number such as '350M', '1.5B' or '25557032'", text};
  const auto [number, name] = split(context);
  const auto unit = std::ranges::find(units, name, &Unit::name);
  if (unit == units.end()) context.refuse("its unit is K, M, B or T");
  return number * unit->si;
}

std::string text_of(Seconds time) {
  static constexpr std::array<Unit, 5> units{{{"ps", 1e-12}, {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}};
  return time.value() == 0 ? "0 s" : four_digits(time.value(), units);
}

std::string text_of(Bytes size) {
  static constexpr std::array<Unit, 6> units{
      {{"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"PiB", 0x1p50}}};
  const bool few_bytes = std::fabs(size.value()) < 1024 && size.value() == std::floor(size.value());
  return in_best_unit(size.value(), units, few_bytes ? "%.0f" : "%.1f");
}

std::string text_of(BytesPerSecond rate) {
  static constexpr std::array<Unit, 5> units{{{"b/s", 1}, {"kb/s", 1e3}, {"Mb/s", 1e6}, {"Gb/s", 1e9}, {"Tb/s", 1e12}}};
  return in_best_unit(rate.value() * 8, units, "%.4g");
}

std::string exact_text_of(double value) {
  std::array<char, 64> digits{};
  const double magnitude = std::fabs(value);
  const bool plain = magnitude == 0 || (magnitude >= 1e-7 && magnitude < 1e16);
  const auto result = plain
                          ? std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed)
                          : std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), result.ptr};
}
std::string exact_text_of(Seconds time) { return exact_text_of(time.value()) + " s"; }
std::string exact_text_of(Bytes size) { return exact_text_of(size.value()) + " B"; }
std::string exact_text_of(BytesPerSecond rate) { return exact_text_of(rate.value()) + " B/s"; }

std::string exact_text_in_best_unit(Seconds time) {
  static constexpr std::array<Unit, 4> units{{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};
  return shortest_in(units, time.value(), exact_text_of(time), seconds_of);
}

std::string exact_text_in_best_unit(BytesPerSecond rate) {
  static constexpr std::array<Unit, 2> units{{{"GB/s", 1e9}, {"MB/s", 1e6}}};
  return shortest_in(units, rate.value(), exact_text_of(rate), bandwidth_of);
}

std::string exact_text_in_best_unit(Bytes size) {
  static constexpr std::array<Unit, 3> units{{{"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}}};
  for (const Unit& unit : units)
    if (const double n = size.value() / unit.si; n == std::floor(n) && n >= 1 && n < 1e15)
      return exact_text_of(n) + " " + std::string(unit.name);
  return exact_text_of(size);
}

std::string suggestion_for(std::string_view word, std::span<const std::string> known) {
  const std::string* nearest = nullptr;
  // A third of the letters may be wrong; beyond that a guess confuses more than it helps.
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t longer = std::max(word.size(), candidate.size());
    const std::size_t shorter = std::min(word.size(), candidate.size());
    if (longer - shorter >= least || word.size() > 64) continue;
    if (const std::size_t distance = edit_distance(word, candidate); distance < least) {
      least = distance;
      nearest = &candidate;
    }
  }
  return nearest ? *nearest : std::string();
}

}  // namespace stepcast
