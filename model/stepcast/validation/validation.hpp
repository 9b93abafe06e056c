#pragma once
// Room validation: predictions against measurements, with verdicts that can fail.
//
// Example: a suite of 40 cases, of which 38 pass; the held-out ones are off by 4.1 % in the median.
//
// It may include base, encodings, profile, roofline, extraction, formats/shared, documents, cluster, plan, whatif,
// prediction, layout, parallelism, calibration, replay, baseline and replay/pipelined.
//
// Validation: predictions against numbers that others measured or published, with verdicts that can fail.
//
// A case is one such number: where it comes from, the inputs of the prediction, the measured value, how far off a
// prediction may be, and how far off it was when last recorded. A case fails beyond its tolerance, when it is worse
// than recorded (the ratchet), and when its plan cannot be predicted. A suite is the cases of one source. Numbers to
// which the inputs were fitted are marked `calibration` and judged like the others, but headline figures use `held_out`
// only. Measured steps of described models (device_fit.hpp) come as tables, in the suite or in files that it names.
//
// The library opens no files: inputs that are neither shipped nor in the suite itself are asked for by path, and a case
// whose file is absent is skipped and says so. Not modelled: errors that are correlated between cases.
#include <stepcast/validation/cases.hpp>
#include <stepcast/validation/statistics.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct SuiteResult {
  ValidationSuite suite;
  std::vector<CaseResult> results;  ///< one a case
  SuiteStatistics statistics;
};
struct ValidationOptions {
  /// The bytes of a file that a suite names, or nothing when there is none.
  std::function<std::optional<std::string>(const std::string& path)> file;
  std::function<void(double)> progress;  ///< the share that is done; called from one thread at a time
  unsigned threads = 0;                  ///< 0: one per core
};
/// Runs all cases of all suites, in parallel. A case whose inputs cannot be used fails with the reason.
[[nodiscard]] std::vector<SuiteResult> validated(std::vector<ValidationSuite> suites, const ValidationOptions&);

}  // namespace stepcast
