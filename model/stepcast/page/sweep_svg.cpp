// One SVG of all charts of a sweep.
#include <stepcast/page/sweep_chart.hpp>
#include <stepcast/page/sweep_svg.hpp>

namespace stepcast {

void check_panels(const SweepQuestion& question) {
  if (question.points() == 0) return;
  const std::size_t panels = question.points() / question.axes.front().values.size();
  if (panels > most_sweep_panels)
    throw InputError("plot", "at most " + std::to_string(most_sweep_panels) + " panels", std::to_string(panels),
                     "one is drawn for each value of the axes after the first");
}

void write_sweep_svg(std::ostream& out, const SweepQuestion& question, std::span<const SweepRow> rows) {
  write_svg(out, charts_of(question, rows, cross_overs_of(question, rows)), "sweep");
}

}  // namespace stepcast
