#pragma once
// Chart scale: where a value stands on an axis, and which values are worth a tick (internal to the library).
#include <stepcast/chart/chart.hpp>

#include <string>
#include <vector>

namespace stepcast {

struct ChartScale {
  bool logarithmic = false;
  double low = 0, high = 1;  ///< values
  double from = 0, to = 1;   ///< pixels
  struct Tick {
    double value = 0;
    std::string text;
  };
  std::vector<Tick> ticks{};

  [[nodiscard]] double operator()(double value) const;
};

/// About how wide a text is drawn, in pixels.
[[nodiscard]] double text_width(std::string_view text, double font_size);

/// `low` and `high`: the values to show; `room`: pixels that a tick takes besides its text, which is measured along the
/// axis if `lying` (x), else by its height.
[[nodiscard]] ChartScale scale_of(const ChartAxis&, double low, double high, double from, double to, bool lying);

}  // namespace stepcast
