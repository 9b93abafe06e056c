// Reports: the table of the family, and the self-check that every advice begins with.
#include <stepcast/number_text.hpp>
#include <stepcast/report.hpp>

#include <algorithm>
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
  const bool lossy = std::ranges::any_of(ranks, &Replay::doubtful);
  return replay && !lossy && std::abs(replay->relative_error) <= largest_trusted_error;
}

std::string SelfCheck::caution() const {
  const Replay* replay = worst();
  if (replay && std::abs(replay->relative_error) > largest_trusted_error)
    return "the model does not reproduce the traced step (limit: " + percent(largest_trusted_error) + ")";
  const auto lossy = std::ranges::find_if(ranks, &Replay::doubtful);
  return lossy == ranks.end() ? "" : "the recording lost events ('stepcast replay' says which)";
}

}  // namespace stepcast
