// Reports: the table of the family, and the self-check that every advice begins with.
#include <stepcast/report.hpp>

#include <cmath>

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

const Replay* SelfCheck::worst() const {
  const Replay* worst = nullptr;
  for (const Replay& replay : ranks)
    if (replay.scored && (!worst || std::abs(replay.relative_error) > std::abs(worst->relative_error))) worst = &replay;
  return worst;
}

bool SelfCheck::trusted() const {
  const Replay* replay = worst();
  return replay && std::abs(replay->relative_error) <= largest_trusted_error;
}

}  // namespace stepcast
