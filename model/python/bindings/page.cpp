// The page of `stepcast report`.
#include "bindings.hpp"

#include <stepcast/page/report_page.hpp>

namespace stepcast::python {
namespace {

std::string page(const ProfilePtr& profile, const ClusterPtr& cluster, bool validation) {
  refuse_other_device(*profile, *cluster);
  ReportPageOptions options;
  options.validation = validation;
  const ReportPage made = report_page_of(profile->profile, *cluster, profile->check, options);
  return written([&](std::ostream& out) { write_report_page(out, made); });
}

}  // namespace

void bind_page(py::module_& module) { module.def("report", &page, py::call_guard<py::gil_scoped_release>()); }

}  // namespace stepcast::python
