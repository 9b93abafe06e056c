#pragma once
// Room chart: curves over an axis as pictures, without scripts, fonts or network.
//
//   step time | *
//             |  *
//             |    *  *  *  ddp      a curve for each plan, named at its end
//             +----------------      bandwidth, on a log scale
//
// It may include base.
//
// Chart: curves over an axis as SVG, for sweeps and reports (internal to the library).
//
// An SVG of its own: no script, no font, no network; colours come from CSS variables (--chart-text, --chart-muted,
// --chart-grid, --chart-ground, --chart-1 to --chart-8) with a fallback that people with any colour vision can tell
// apart, each curve also has its own dash and is named at its end, and text is text. Light and dark follow
// `prefers-color-scheme`. Points are shown as dots where there are few of them, for between them nothing is known; a
// curve that was fitted shows the points that it was fitted to, and a band in which they are expected. Invariant: same
// input, same bytes; well-formed XML whatever the texts hold. Not modelled: bars.
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

struct ChartAxis {
  std::string title;  ///< "network bandwidth"
  bool logarithmic = false;
  std::function<std::string(double)> text{};  ///< the text of a tick: "10 Gb/s"; empty: the plain number
  std::vector<double> ticks{};                ///< empty: chosen, as many as have room
  double unit = 1;      ///< ticks are round multiples of it: 0.125 for a rate in bytes that is read in bits
  bool binary = false;  ///< a logarithmic axis has ticks at powers of two, not 1, 2, 5, 10
  /// Bounds; NaN: those of the curves.
  double low = std::numeric_limits<double>::quiet_NaN(), high = std::numeric_limits<double>::quiet_NaN();
};
struct ChartPoints {
  std::vector<double> x{}, y{};
  std::vector<std::string> texts{};  ///< for who points at them
  std::vector<bool> rings{};         ///< which are rings, not dots; empty: none
};
struct ChartCurve {
  std::string name;
  std::vector<double> x{}, y{};       ///< NaN in y: a gap
  bool muted = false;                 ///< one of many: thin, grey, without a name
  bool named = false;                 ///< spoken of: the last to be muted
  bool scattered = false;             ///< points with neither a line between them nor a name beside them
  std::vector<std::string> texts{};   ///< of scattered points, for who points at them
  std::vector<bool> rings{};          ///< which scattered points are rings, not dots; empty: none
  std::vector<double> low{}, high{};  ///< a band around the curve, a bound each for every y; empty: none
  ChartPoints fitted_to{};            ///< in the curve's colour, instead of dots at its own points
};
struct ChartMark {  ///< a vertical line with a word: a cross-over, "here"
  double x = 0;
  std::string text;
};
struct Chart {
  std::string title;
  std::string description{};  ///< for those who cannot see it
  ChartAxis x, y;
  std::vector<ChartCurve> curves{};
  std::vector<ChartMark> marks{};
  double width = 640, height = 360;  ///< in CSS pixels; scales with its container
  std::string note{};                ///< below: what is not in it
  bool names_above = false;          ///< names of curves stand in rows above, not at their ends: where it is narrow
};

/// No more curves than this have a colour and a dash of their own; those behind are drawn as muted ones.
inline constexpr std::size_t most_named_curves = 8;
/// Mutes all curves but the `most` that are lowest somewhere, or nearest to the lowest on the whole; moves them to the
/// back and names them in the note.
void mute_but_lowest(Chart&, std::size_t most = most_named_curves);

/// `id` keeps several charts of one page apart.
void write_svg(std::ostream&, const Chart&, std::string_view id = "chart");
/// Several charts in one SVG, one below the other.
void write_svg(std::ostream&, std::span<const Chart>, std::string_view id = "chart");
/// The same for a picture that stands alone on screens of any width: it holds a second drawing, `telephone_width` wide,
/// which is shown instead where the screen has no more than `widest_telephone` pixels.
void write_svg_for_any_screen(std::ostream&, std::span<const Chart>, std::string_view id = "chart");
inline constexpr double telephone_width = 390, widest_telephone = 560;
/// Charts that are compared with one another get one vertical axis, logarithmic where values are far apart.
void share_scale(std::span<Chart>);
/// The colours of curves on light ground, for what is written beside a chart.
[[nodiscard]] std::span<const char* const> chart_colours();
}  // namespace stepcast
