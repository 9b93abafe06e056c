#pragma once
// Chart: curves over an axis as SVG, for sweeps and reports (internal to the library).
//
// An SVG of its own: no script, no font, no network; colours come from CSS variables with a fallback that people with
// any colour vision can tell apart, each curve also has its own dash and is named at its end or in the legend, and text
// is text. Light and dark follow `prefers-color-scheme`. Invariant: same input, same bytes. Not modelled: bars, areas.
#include <cstddef>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

struct ChartAxis {
  std::string title;  ///< "network bandwidth"
  bool logarithmic = false;
  std::string (*text)(double) = nullptr;  ///< of a tick: "10 Gb/s"
  std::vector<double> ticks{};            ///< empty: chosen
};
struct ChartCurve {
  std::string name;
  std::vector<double> x, y;  ///< NaN in y: a gap
};
struct ChartMark {  ///< a vertical line with a word: a cross-over, "here"
  double x = 0;
  std::string text;
};
struct Chart {
  std::string title;
  std::string description;  ///< for those who cannot see it
  ChartAxis x, y;
  std::vector<ChartCurve> curves;
  std::vector<ChartMark> marks{};
  double width = 640, height = 360;  ///< in CSS pixels; scales with its container
};

/// `id` keeps several charts of one page apart.
void write_svg(std::ostream&, const Chart&, std::string_view id = "chart");
/// Several charts in one SVG, one below the other.
void write_svg(std::ostream&, std::span<const Chart>, std::string_view id = "chart");
/// `text` safe between tags and in attributes of XML.
[[nodiscard]] std::string escaped_xml(std::string_view text);

}  // namespace stepcast
