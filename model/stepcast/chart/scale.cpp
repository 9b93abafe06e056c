// Ticks are tried from the densest to the sparsest round values until all of their texts have room.
#include <stepcast/chart/scale.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace stepcast {
namespace {

constexpr double font_size = 12, gap = 12;

std::string tick_text(const ChartAxis& axis, double value) {
  if (axis.text) return axis.text(value);
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// base^k times each of `digits`, within the bounds.
std::vector<double> powers(const ChartScale& scale, double unit, double base, int stride,
                           std::initializer_list<double> digits) {
  std::vector<double> ticks;
  const double slack = 1e-9;
  const int first = static_cast<int>(std::floor(std::log(scale.low / unit) / std::log(base) / stride)) * stride;
  for (int k = first;; k += stride) {
    const double power = std::pow(base, k) * unit;
    if (power > scale.high * (1 + slack)) return ticks;
    for (const double digit : digits)
      if (const double v = digit * power; v >= scale.low * (1 - slack) && v <= scale.high * (1 + slack))
        ticks.push_back(v);
  }
}

/// Multiples of a round step, at most `most` of them.
std::vector<double> multiples(const ChartScale& scale, double unit, double step_in_units) {
  std::vector<double> ticks;
  const double step = step_in_units * unit;
  for (double k = std::ceil(scale.low / step - 1e-9); k * step <= scale.high + 1e-9 * step; ++k)
    if (k * step >= scale.low - 1e-9 * std::fabs(scale.low)) ticks.push_back(k * step);
  return ticks;
}

/// Whether the texts stand clear of one another.
bool has_room(const ChartScale& scale, const std::vector<ChartScale::Tick>& ticks, bool lying) {
  for (std::size_t i = 1; i < ticks.size(); ++i) {
    const double distance = std::fabs(scale(ticks[i].value) - scale(ticks[i - 1].value));
    const double need =
        lying ? (text_width(ticks[i].text, font_size) + text_width(ticks[i - 1].text, font_size)) / 2 : font_size * 1.4;
    if (distance < need + gap) return false;
  }
  return true;
}

/// All sets of ticks that an axis may have, densest first.
std::vector<std::vector<double>> candidates(const ChartAxis& axis, const ChartScale& scale) {
  std::vector<std::vector<double>> sets;
  if (scale.logarithmic) {
    if (axis.binary) {
      for (int stride = 1; stride <= 64; ++stride) sets.push_back(powers(scale, axis.unit, 2, stride, {1}));
    } else {
      sets.push_back(powers(scale, axis.unit, 10, 1, {1, 2, 5}));
      sets.push_back(powers(scale, axis.unit, 10, 1, {1, 3}));
      for (int stride = 1; stride <= 64; ++stride) sets.push_back(powers(scale, axis.unit, 10, stride, {1}));
    }
    const auto too_few = [](const auto& set) { return set.size() < 3; };
    std::erase_if(sets, too_few);
    if (sets.empty()) {  // less than a decade
      sets.push_back(powers(scale, axis.unit, 10, 1, {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8}));
      sets.push_back(powers(scale, axis.unit, 10, 1, {1, 1.5, 2, 3, 4, 6, 8}));
      sets.push_back(powers(scale, axis.unit, 10, 1, {1, 2, 3, 5}));
      std::erase_if(sets, too_few);
    }
  }
  const double span = (scale.high - scale.low) / axis.unit;
  if (!(span > 0)) return sets;
  const double magnitude = std::pow(10, std::floor(std::log10(span)) - 1);
  for (const double step : {0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0})
    sets.push_back(multiples(scale, axis.unit, step * magnitude));
  return sets;
}

}  // namespace

double text_width(std::string_view text, double size) {
  double width = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) == 0x80) continue;  // the rest of a character that has begun
    const bool narrow = c == 'i' || c == 'l' || c == 'j' || c == '.' || c == ',' || c == '(' || c == ')' || c == ' ' ||
                        c == 't' || c == 'f' || c == 'r' || c == '\'' || c == ':';
    const bool wide = c == 'm' || c == 'w' || c == 'M' || c == 'W' || c == 'G' || byte >= 0x80;
    width += narrow ? 0.38 : wide ? 0.9 : 0.62;
  }
  return width * size;
}

double ChartScale::operator()(double value) const {
  const double share = logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return from + share * (to - from);
}

ChartScale scale_of(const ChartAxis& axis, double low, double high, double from, double to, bool lying) {
  ChartScale scale{axis.logarithmic && low > 0, low, high, from, to, {}};
  // One value stands in the middle, as do several that differ in their last digits only: ticks between them would all
  // read the same, and multiples of a step that small cannot be counted.
  if (!(high - low > 1e-9 * std::max(std::fabs(low), std::fabs(high)))) {
    const double half = low == 0 ? 1 : std::fabs(low) / 2;
    scale.low = low - half, scale.high = low + half;
  }
  const auto with_texts = [&](const std::vector<double>& values) {
    std::vector<ChartScale::Tick> ticks;
    for (const double v : values) ticks.push_back({v, tick_text(axis, v)});
    return ticks;
  };
  if (!axis.ticks.empty()) {
    scale.ticks = with_texts(axis.ticks);
    return scale;
  }
  for (const std::vector<double>& set : candidates(axis, scale)) {
    scale.ticks = with_texts(set);
    if (has_room(scale, scale.ticks, lying)) return scale;
  }
  return scale;
}

}  // namespace stepcast
