// Reports: the table of the family.
#include <stepcast/report/report.hpp>

namespace stepcast {

#define STEPCAST_MEMBER(name) Report name##_report();
#include <stepcast/reports/reports.inc>
#undef STEPCAST_MEMBER

std::span<const Report> reports() {
  static const Report table[] = {
#define STEPCAST_MEMBER(name) name##_report(),
#include <stepcast/reports/reports.inc>
#undef STEPCAST_MEMBER
  };
  return table;
}

const Report* report_named(std::string_view name) {
  for (const Report& report : reports())
    if (report.name == name) return &report;
  return nullptr;
}

}  // namespace stepcast
