// What a fit of links shows: bandwidths by number of workers, what transfers take from compute, and every step's
// residual.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/report/links_fit_report.hpp>
#include <stepcast/report/text/table.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <ostream>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

/// Of steps of several workers: those of one worker set how long their profiles compute.
double mean_absolute(const LinksFitReport& report) {
  double sum = 0;
  int count = 0;
  for (std::size_t i = 0; i < report.steps.size(); ++i)
    if (report.steps[i].workers > 1) sum += std::abs(report.fit.residuals[i]), ++count;
  return count > 0 ? sum / count : 0;
}

}  // namespace

void write_links_fit_text(std::ostream& out, const LinksFitReport& report) {
  const LinksFit& fit = report.fit;
  write_labelled(out, "cluster", fit.cluster.name);
  for (const FittedLinks& links : fit.links)
    write_labelled(out, counted(links.workers, "worker"),
                   "all-reduce at " + text_of(links.bandwidth) + " on every link");
  write_labelled(
      out, "compute",
      "takes " + fixed(1 + fit.beside, 2) + " times as long beside a transfer (c = " + fixed(fit.beside, 2) + ")");
  for (const std::string& note : fit.notes) write_labelled(out, "note", note);
  out << '\n';
  using enum TextTable::Align;
  TextTable table(
      {{"step", flexible}, {"profile", flexible}, {"workers", right}, {"measured", right}, {"residual", right}});
  for (std::size_t i = 0; i < report.steps.size(); ++i) {
    const JobStep& step = report.steps[i];
    table.add_row({step.source.substr(step.source.rfind('/') + 1), step.profile, std::to_string(step.workers),
                   text_of(step.time), step.workers == 1 ? "sets compute" : percent(fit.residuals[i], true)});
  }
  table.add_row({"mean of absolute values", "", "", "", percent(mean_absolute(report))});
  table.write(out);
}

void write_links_fit_json(std::ostream& out, const LinksFitReport& report) {
  const LinksFit& fit = report.fit;
  Json steps = Json::array(), links = Json::array();
  for (std::size_t i = 0; i < report.steps.size(); ++i) {
    const JobStep& step = report.steps[i];
    steps.push_back({{"source", step.source},
                     {"profile", step.profile},
                     {"plan", text_of(step.plan)},
                     {"workers", step.workers},
                     {"measured_s", step.time.value()},
                     {"residual", step.workers == 1 ? Json(nullptr) : Json(fit.residuals[i])}});
  }
  for (const FittedLinks& l : fit.links)
    links.push_back({{"workers", l.workers}, {"bus_bytes_per_s", l.bandwidth.value()}});
  const Json json{{"schema", "stepcast.links_fit/1"},
                  {"cluster", Json::parse(json_of(fit.cluster))},
                  {"links", std::move(links)},
                  {"compute_under_communication", 1 + fit.beside},
                  {"mean_absolute_residual", mean_absolute(report)},
                  {"notes", fit.notes},
                  {"steps", std::move(steps)}};
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace stepcast
