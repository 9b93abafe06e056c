// Beyond the tolerance or worse than recorded is a failure, as is an error that is no number.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/validation/verdict.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {

std::string_view name_of(Outcome outcome) {
  constexpr std::string_view names[] = {"passed", "failed", "skipped", "excluded"};
  return names[static_cast<std::size_t>(outcome)];
}

void judge(const ValidationCase& c, CaseResult& result) {
  if (result.predicted_any) result.error = (result.predicted - result.measured) / result.measured;
  if (c.inputs.exceeds_memory()) result.error = std::min(0.0, result.error);
  if (!c.excluded.empty()) {
    result.outcome = Outcome::excluded;
    result.reason = c.excluded;
    return;
  }
  const double size = std::abs(result.error);
  const auto fail = [&](std::string why) {
    result.outcome = Outcome::failed;
    result.reason = std::move(why);
  };
  if (!result.predicted_any) return fail("no prediction: " + result.reason);
  // Written so that an error that is not a number fails.
  if (!(size <= c.tolerance)) return fail("off by " + percent(size) + ", tolerance " + percent(c.tolerance));
  if (c.recorded_error && !(size <= std::abs(*c.recorded_error) + ratchet_slack))
    return fail("off by " + percent(size) + ", recorded " + percent(std::abs(*c.recorded_error)));
  result.outcome = Outcome::passed;
}

}  // namespace stepcast
