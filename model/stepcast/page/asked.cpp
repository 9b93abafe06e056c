// The plans of a report page that somebody asked for: step and parts side by side, and settings to paste.
#include <stepcast/base/text.hpp>
#include <stepcast/page/sections.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>

#include <ostream>
#include <string>

namespace stepcast {
namespace {

void write_asked_row(std::ostream& out, const PageAsked& row) {
  out << "<tr><th scope=\"row\"><code>" << html(row.plan) << "</code></th>";
  if (!row.prediction) {
    out << "<td colspan=\"7\" class=\"words\">" << html(row.inapplicable) << "</td></tr>\n";
    return;
  }
  const Prediction& p = *row.prediction;
  const auto cell = [&](const std::string& text) { out << "<td>" << html(text) << "</td>"; };
  cell(text_of(p.iteration));
  cell(text_of(p.interval_low) + " to " + text_of(p.interval_high));
  cell(text_of(p.breakdown.compute));
  cell(text_of(p.breakdown.exposed_communication));
  cell(text_of(p.breakdown.bubble));
  cell(p.memory > Bytes(0) ? text_of(p.memory) : "not known");
  out << "<td class=\"words\">" << html(p.bound) << "</td></tr>\n";
}

}  // namespace

void write_asked_section(std::ostream& out, const ReportPage& page) {
  if (page.asked.empty()) return;
  open_section(out, "asked", "Plans that were asked for");
  out << "<p>The same job under plans by name. A layout in front divides its layers, stages or states over the "
         "devices, "
         "too; exposed communication holds all collectives and sends that compute waits for.</p>\n";
  open_scroller(out, "Plans that were asked for");
  out << "<table>\n<caption>Plans by name</caption>\n<thead><tr><th scope=\"col\">plan</th><th "
         "scope=\"col\">step</th><th scope=\"col\">80 % interval</th><th scope=\"col\">compute</th><th "
         "scope=\"col\">exposed</th><th scope=\"col\">bubble</th><th scope=\"col\">memory</th><th scope=\"col\" "
         "class=\"words\">bound</th></tr></thead>\n<tbody>\n";
  for (const PageAsked& row : page.asked) write_asked_row(out, row);
  out << "</tbody>\n</table>\n";
  close_scroller(out);
  for (std::size_t i = 0; i < page.asked.size(); ++i) {
    const PageAsked& row = page.asked[i];
    for (std::size_t k = 0; k < row.settings.size(); ++k) {
      const LaunchSettings& settings = row.settings[k];
      const std::string name = std::string(settings.framework) + ": " + row.plan;
      if (settings.text.empty()) continue;
      out << "<h3>" << html(name) << "</h3>\n";
      write_to_paste(out, "asked-" + std::to_string(i) + "-" + std::to_string(k), name, settings.text);
      if (!settings.in_code.empty()) out << "<p>In the model's code: " << html(settings.in_code) << "</p>\n";
    }
  }
  close_section(out);
}

}  // namespace stepcast
