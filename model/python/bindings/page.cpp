// The page of `stepcast report`.
#include "bindings.hpp"

#include <stepcast/cluster/device_match.hpp>
#include <stepcast/page/report_page.hpp>

namespace stepcast::python {
namespace {

std::string page(const ProfilePtr& profile, const ClusterPtr& cluster, bool validation,
                 const std::vector<std::string>& plans, double global_batch) {
  refuse_other_device(*profile, *cluster);
  ReportPageOptions options;
  options.validation = validation;
  for (const std::string& plan : plans) options.divided.push_back(plan_of(plan));
  options.question.global_batch = global_batch;
  options.question.device = shipped_device_like(profile->profile.device);
  const ReportPage made = report_page_of(profile->profile, *cluster, profile->check, options);
  return written([&](std::ostream& out) { write_report_page(out, made); });
}

}  // namespace

void bind_page(py::module_& module) { module.def("report", &page, py::call_guard<py::gil_scoped_release>()); }

}  // namespace stepcast::python
