// The page of `stepcast report`.
#include "bindings.hpp"

#include <stepcast/page/report_page.hpp>

namespace stepcast::python {
namespace {

std::string page(const ProfilePtr& profile, const ClusterPtr& cluster, bool validation,
                 const std::vector<std::string>& plans, double global_batch, const std::string& whatif,
                 double iterations) {
  WithoutGil released;
  ReportPageOptions options;
  options.recommend.iterations = run_iterations(iterations);
  options.recommend.heed = [&] { released.heed_signals(); };
  options.progress = [&](double) { released.heed_signals(); };
  options.validation = validation;
  for (const std::string& plan : plans) options.asked.push_back(plan_of(plan));
  Question asked = question_of(*profile, *cluster, global_batch);
  options.changed = !whatif.empty();
  if (!whatif.empty()) asked.changes = scenario_of(whatif);
  asked.iterations = options.recommend.iterations;
  const PreparedQuestion question(std::move(asked));
  const ReportPage made = report_page_of(question, profile->check, options);
  return written([&](std::ostream& out) { write_report_page(out, made); });
}

}  // namespace

void bind_page(py::module_& module) { module.def("report", &page); }

}  // namespace stepcast::python
