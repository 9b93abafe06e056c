// How a report page says how far its predictions can be trusted: the shipped suites' cases that nothing was fitted to.
#include <stepcast/base/words.hpp>
#include <stepcast/page/sections.hpp>

#include <ostream>

namespace stepcast {
namespace {

void write_suite_accuracy(std::ostream& out, const SuiteResult& suite) {
  const SuiteStatistics& s = suite.statistics;
  const auto known = [&](const std::string& text) { return s.held_out > 0 ? text : std::string("-"); };
  out << "<tr><th scope=\"row\"><code>" << html(suite.suite.name) << "</code><br><small>" << html(suite.suite.summary)
      << "</small></th><td>" << s.held_out << "</td><td>" << known(percent(s.median)) << "</td><td>"
      << known(percent(s.p90)) << "</td><td>" << known(percent(s.worst)) << "</td><td>"
      << (s.with_interval > 0 ? percent(static_cast<double>(s.inside) / static_cast<double>(s.with_interval))
                              : std::string("-"))
      << "</td><td>" << (s.failed > 0 ? "<strong>" + std::to_string(s.failed) + " failed</strong>" : "none")
      << "</td><td>" << s.skipped << "</td></tr>\n";
}

}  // namespace

void write_accuracy_section(std::ostream& out, const ReportPage& page) {
  open_section(out, "accuracy", "Accuracy");
  if (page.validation.empty()) {
    out << "<p>The predictions were not compared with measurements when this page was made; <code>stepcast "
           "validate</code> does so.</p>\n";
    close_section(out);
    return;
  }
  std::size_t cases = 0, failed = 0;
  for (const SuiteResult& suite : page.validation)
    cases += suite.statistics.held_out, failed += suite.statistics.failed;
  out << "<p>The same program predicted " << cases << " step times and other figures to which nothing was fitted: "
      << "measured or published elsewhere or, where a suite says so, worked out by hand from a paper's formulas; "
      << (failed == 0   ? "none of them is"
          : failed == 1 ? "one of them is"
                        : std::to_string(failed) + " of them are")
      << " further off than it may be. Errors are relative to the measured value. Skipped are cases whose files are "
         "not "
         "part of the program.</p>\n";
  open_scroller(out, "Errors on cases that nothing was fitted to");
  out << "<table>\n<caption>Errors on cases that nothing was fitted to</caption>\n<thead><tr><th scope=\"col\">suite"
         "</th><th scope=\"col\">cases</th><th scope=\"col\">median error</th><th scope=\"col\">P90</th><th "
         "scope=\"col\">worst</th><th scope=\"col\">within the 80 % interval</th><th scope=\"col\">failed</th><th "
         "scope=\"col\">skipped</th></tr></thead>\n<tbody>\n";
  for (const SuiteResult& suite : page.validation) write_suite_accuracy(out, suite);
  out << "</tbody>\n</table>\n";
  close_scroller(out);
  close_section(out);
}

}  // namespace stepcast
