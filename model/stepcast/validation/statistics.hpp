#pragma once
// Statistics of a suite: errors and coverage of the held-out cases, the order of plans, and the price of the choice.
//
// Example: of 40 held-out cases the median error is 4 %, 33 lie within P10 to P90, and who takes the predicted best
// plan loses 1 % on the mean. Not modelled: confidence of these figures; suites are small.
#include <stepcast/cluster/size_bands.hpp>
#include <stepcast/validation/verdict.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// Choosing one plan in every group of cases that share model, cluster and number of workers: how much slower the
/// chosen plan is, in the measurements, than the measured best.
struct Regret {
  std::string among;       ///< "all-reduce" or "servers": the latter take more machines and are ranked apart
  std::size_t groups = 0;  ///< groups with at least two plans
  double mean = 0, p90 = 0, worst = 0;
  std::string constant;  ///< the plan that is the best constant answer
  double constant_mean = 0, constant_p90 = 0;
};

/// The held-out cases of layouts that share a number of them, of their model or their scale: "tp 4", "devices 512",
/// "tokens 8192", "dtype bf16", "all".
struct ErrorGroup {
  std::string by;
  double value = 0;   ///< of a data type: the bits of a number; of all: 0
  std::string label;  ///< "tp 4"
  std::size_t cases = 0;
  double mean = 0, bias = 0;                  ///< the means of |error| and of the signed error
  std::size_t with_interval = 0, inside = 0;  ///< measured within P10 to P90
};

/// Errors of collectives in each band of sizes, over what was left out, or over one machine and operation of it.
struct SizeErrors {
  std::string kind;                ///< "counts beyond"
  std::string machine, operation;  ///< both empty: all
  struct Band {
    std::size_t cases = 0, inside = 0;
    double median = 0, p90 = 0, bias = 0;  ///< of |error|, and the median of the signed error
    bool worse = false;                    ///< than recorded, by more than the ratchet's slack
  };
  std::array<Band, size_band_count> bands;
};

/// How wide intervals of collectives are in each band of sizes, and how often they hold, by what was measured.
struct IntervalWidths {
  std::string measured_there;  ///< "one count"
  CaseSplit split{};
  struct Band {
    std::size_t cases = 0, inside = 0;
    double width = 0;  ///< the median of P90 over P10
  };
  std::array<Band, size_band_count> bands;
};

/// Whether described layouts fit into the memory of their devices, by what became of them. The memory counts whole, as
/// of a job that somebody has tried.
struct MemoryVerdicts {
  std::size_t ran = 0, accepted = 0;  ///< steps, and those of them that are predicted to fit
  /// Jobs that ran out of it, those of them that are refused, and what fills more than `tight_memory_share`.
  std::size_t exceeded = 0, refused = 0, tight = 0;
};

struct SuiteStatistics {
  std::size_t cases = 0, passed = 0, failed = 0, skipped = 0, excluded = 0;
  std::size_t held_out = 0;                         ///< predicted cases behind the errors below
  double median = 0, p90 = 0, worst = 0, mean = 0;  ///< figures of |error| over the held-out cases
  std::size_t with_interval = 0, inside = 0;        ///< held out
  std::size_t pairs = 0;  ///< pairs of different plans in one group, not both of them calibration
  double kendall = 0;     ///< (concordant - discordant) / pairs
  std::size_t clear_pairs = 0, clear_pairs_right = 0;  ///< measured more than 5 % apart
  std::vector<Regret> regrets;
  std::vector<ErrorGroup> groups;      ///< errors of layouts by degree and by model
  std::vector<SizeErrors> sizes;       ///< of forecasts of collectives; those over all machines first
  std::vector<IntervalWidths> widths;  ///< of forecasts, too
  MemoryVerdicts memory;
  bool fewer_accepted = false;        ///< than recorded: counted in `failed`
  bool worse_than_published = false;  ///< counted in `failed`
  bool worse_than_recorded = false;   ///< the mean error, likewise; not judged where a case was skipped
};
[[nodiscard]] SuiteStatistics statistics_of(const ValidationSuite&, std::span<const CaseResult>);

}  // namespace stepcast
