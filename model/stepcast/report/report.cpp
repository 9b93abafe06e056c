// Reports: the table of the family.
#include <stepcast/report/report.hpp>

#include <algorithm>

namespace stepcast {

SelfCheck check_of(const PredictionReport& report) {
  return report.prediction.of_recorded_step ? report.check.for_recorded_step() : report.check;
}

SelfCheck check_of(const RankingReport& report) {
  const bool of_recorded_step =
      std::ranges::any_of(report.ranking.exact, [](const RankedPlan& p) { return p.prediction.of_recorded_step; });
  return of_recorded_step ? report.check.for_recorded_step() : report.check;
}

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
