#pragma once
// Links of steps: the links of a cluster as a job meets them, from steps of the job that somebody timed on several
// numbers of workers.
//
// A benchmark measures collectives alone. Beside kernels they take multiprocessors and memory bandwidth away: while a
// transfer runs, compute runs at 1/(1 + c) of its speed. Bandwidth and c both make a step longer, and are told apart by
// steps that hide different shares of their communication: two batches of one model, say, on as many workers. Each
// number of workers has a bandwidth of its own, all together one c; least squares over the logarithms of predicted /
// measured times, where large residuals count linearly (Huber 1964), on the very predictions that plans get. A step of
// one worker says how long its profile computes without a profiler. Example: VGG-19 with batches of 16 and 128 on 1, 2
// and 16 devices gives a bandwidth inside a machine, one between two machines, and c. Not modelled: start-up of
// messages, which stays as the cluster has it; a c that differs from link to link; transfers that compute slows down.
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/profile/profile.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// A training step of a traced job that somebody timed.
struct JobStep {
  std::string profile;  ///< what the table calls it: a file
  PlanSpec plan;
  std::int64_t workers = 1;
  Seconds time;
  std::string source;  ///< file and line
};
/// Whether the rows of a table name profiles: its header has such a column.
[[nodiscard]] bool names_profiles(std::string_view csv);
/// A CSV with a header: `profile`, `workers` (or devices, or gpus), an iteration time with its unit ("step_s",
/// "iteration time (ms)"), and possibly `plan`, which is `otherwise` where the table does not say it. Throws InputError
/// with line and column.
[[nodiscard]] std::vector<JobStep> job_steps_of_csv(std::string_view text, std::string_view source,
                                                    const PlanSpec& otherwise);

/// What the links of so many workers carry.
struct FittedLinks {
  std::int64_t workers = 2;
  BytesPerSecond bandwidth;  ///< of the bus: what every worker sends and receives at once
};
struct LinksFit {
  Cluster cluster;  ///< the base with a table of all-reduces for each number of workers, and its contention
  std::vector<FittedLinks> links;
  double beside = 0;              ///< c: compute takes 1 + c times as long while a transfer runs
  std::vector<double> residuals;  ///< predicted / measured - 1 in the order of the steps; of one worker 0
  std::vector<std::string> notes;
};
/// Fits to `steps`, whose profiles are `profiles` by name. Inapplicable where there is no step of several workers, or
/// where one of them cannot be predicted.
[[nodiscard]] Answer<LinksFit> links_of_steps(const Cluster& base, const std::map<std::string, Profile>& profiles,
                                              std::span<const JobStep> steps);

}  // namespace stepcast
