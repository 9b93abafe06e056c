// What a step is made of, as bars on one scale: in the answer, and in each row of the ranking.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/page/sections.hpp>
#include <stepcast/report/text/phrases.hpp>

#include <algorithm>
#include <ostream>

namespace stepcast {
namespace {

struct Part {
  const char* css;
  const char* name;
  Seconds Breakdown::*time;
};
/// In the order in which a bar stacks them; hidden communication is drawn beside the stack.
constexpr Part parts[] = {{"compute", "compute", &Breakdown::compute},
                          {"codec", "encoding and decoding", &Breakdown::codec},
                          {"input", "waiting for input", &Breakdown::input_stall},
                          {"exposed", "exposed communication", &Breakdown::exposed_communication},
                          {"idle", "idle", &Breakdown::idle}};

std::string bar_text(const Prediction& p) {
  std::string text;
  for (const Part& part : parts)
    if (p.breakdown.*part.time > Seconds(0))
      add_to_list(text, std::string(part.name) + " " + text_of(p.breakdown.*part.time));
  return text + "; hidden communication " + text_of(p.breakdown.hidden_communication);
}

void open_bar(std::ostream& out, const std::string& label) {
  out << "<svg class=\"bar\" width=\"100%\" height=\"24\" role=\"img\" aria-label=\"" << html(label) << "\">";
}

/// Stacked parts of the step, and below them, outlined, the communication that runs under compute.
void draw_parts(std::ostream& out, const Prediction& p, Seconds longest) {
  double at = 0, compute_end = 0;
  for (const Part& part : parts) {
    const double share = p.breakdown.*part.time / longest;
    if (!(share > 0)) continue;
    const auto rectangle = [&](const char* css) {
      out << "<rect class=\"" << css << "\" x=\"" << width_share(at) << "\" y=\"1\" width=\"" << width_share(share)
          << "\" height=\"14\"/>";
    };
    rectangle(part.css);
    if (part.time == &Breakdown::exposed_communication) rectangle("hatched");
    at += share;
    if (part.time == &Breakdown::compute) compute_end = at;
  }
  const double hidden = p.breakdown.hidden_communication / longest;
  if (hidden > 0)
    out << "<rect class=\"hidden-part\" x=\"" << width_share(std::max(0.0, compute_end - hidden))
        << "\" y=\"17\" width=\"" << width_share(hidden) << "\" height=\"5\"/>";
}

void draw_interval(std::ostream& out, const Prediction& p, Seconds longest) {
  const std::string low = width_share(p.interval_low / longest), high = width_share(p.interval_high / longest);
  out << "<g class=\"interval\"><line x1=\"" << low << "\" x2=\"" << high << "\" y1=\"8\" y2=\"8\"/>";
  for (const std::string& end : {low, high})
    out << "<line x1=\"" << end << "\" x2=\"" << end << "\" y1=\"4\" y2=\"12\"/>";
  out << "</g>";
}

/// A line of the comparison: what, its bar, and how long it takes.
template <class Bar>
void write_step(std::ostream& out, const std::string& name, const std::string& time, const Bar& bar) {
  out << "<div class=\"step\"><span>" << html(name) << "</span>";
  bar();
  out << "<span>" << html(time) << "</span></div>\n";
}

/// A colour of the legend.
void write_entry(std::ostream& out, const char* css, const char* name) {
  out << "<li><svg width=\"22\" height=\"14\" aria-hidden=\"true\"><rect class=\"" << css
      << "\" x=\"1\" y=\"1\" width=\"20\" height=\"12\"/>";
  if (std::string_view(css) == "exposed") out << "<rect class=\"hatched\" x=\"1\" y=\"1\" width=\"20\" height=\"12\"/>";
  out << "</svg> " << name << "</li>\n";
}

}  // namespace

void write_step_bar(std::ostream& out, const Prediction& p, Seconds longest) {
  open_bar(out, bar_text(p));
  draw_parts(out, p, longest);
  out << "</svg>";
}

void write_legend(std::ostream& out, std::span<const Prediction* const> steps) {
  out << "<ul class=\"legend\">\n";
  for (const Part& part : parts)
    if (std::ranges::any_of(steps, [&](const Prediction* p) { return p->breakdown.*part.time > Seconds(0); }))
      write_entry(out, part.css, part.name);
  if (std::ranges::any_of(steps, [](const Prediction* p) { return p->breakdown.hidden_communication > Seconds(0); }))
    write_entry(out, "hidden-part", "hidden communication, under compute");
  out << "</ul>\n";
}

void write_hatching(std::ostream& out) {
  out << "<svg class=\"unseen\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"6\" "
         "height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect class=\"hatch-line\" "
         "width=\"2\" height=\"6\"/></pattern></defs></svg>\n";
}

void write_steps_compared(std::ostream& out, const ReportPage& page) {
  const Prediction& before = page.ranking.baseline;
  const Prediction& best = page.ranking.exact.front().prediction;
  const bool changes = text_of(before.plan) != text_of(best.plan);
  // What was measured is of no use beside the step of another job.
  const bool known = page.check.as_traced && page.check.as_traced->known() && !page.changed;
  const AsTraced* traced = known ? &*page.check.as_traced : nullptr;
  Seconds longest = std::max(before.interval_high, best.interval_high);
  if (traced) longest = std::max(longest, traced->measured);
  out << "<figure class=\"steps\" role=\"group\" aria-label=\"The step as it was measured, and as it is predicted "
         "here\">\n";
  if (traced)
    write_step(out, "as traced, " + traced->plan, text_of(traced->measured) + " measured", [&] {
      open_bar(out, "measured " + text_of(traced->measured));
      out << "<rect class=\"measured\" x=\"0\" y=\"1\" width=\"" << width_share(traced->measured / longest)
          << "\" height=\"14\"/></svg>";
    });
  const auto predicted = [&](const Prediction& p, const std::string& name, const std::string& time) {
    write_step(out, name, time, [&] {
      open_bar(out, bar_text(p) + "; 80 % interval " + interval_text(p));
      draw_parts(out, p, longest);
      draw_interval(out, p, longest);
      out << "</svg>";
    });
  };
  predicted(before, "here, " + text_of(before.plan), text_of(before.iteration));
  if (changes) {
    const Seconds less = before.iteration - best.iteration;
    predicted(best, "here, " + text_of(best.plan),
              text_of(best.iteration) + ", " + text_of(Seconds(std::abs(less.value()))) +
                  (less >= Seconds(0) ? " less" : " more"));
  }
  write_legend(out, std::vector<const Prediction*>{&before, &best});
  out << "<p class=\"remark\">Thin lines: 80 % intervals of the mean step.</p>\n</figure>\n";
}

}  // namespace stepcast
