#pragma once
// Recommendation: every plan that the cluster can run, tuned, ranked by predicted step time.
//
// Exact plans come first and are ranked; lossy, stale and periodic ones, and modifiers on the strategy that they
// usually go with, only on request and in their own list, because the plan that drops the work always wins. Of the
// plans within 0.5 % of the fastest, the one that takes the fewest machines and, then, no special software comes first.
// Numeric options marked `tuned` are searched; the result is never worse than the default. How far an answer holds is
// found by scaling the network's bandwidth and comparing the same plans again, their options as tuned for the bandwidth
// asked for. Plans are ranked over the all-reduce that the cluster names; whether another algorithm, tuned with the
// plan, would be faster is said beside the ranking, because not every library lets a user choose it.
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/prediction/tuning.hpp>

#include <optional>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct RankedPlan {
  Prediction prediction;      ///< the plan with tuned options
  Prediction standard;        ///< the plan with the strategy's default options
  double speed_up = 1;        ///< baseline iteration / this iteration
  std::string settings;       ///< to paste
  std::int64_t machines = 0;  ///< including servers
};
struct RejectedPlan {
  std::string plan, reason;
};
struct Range {
  BytesPerSecond low,
      high;  ///< network bandwidth (goodput) between which the best plan stays best, or within 0.5 % of it
  std::string below, above;  ///< the plan that is best beyond; empty: none within the range searched
};
/// The same all-reduce plans over another algorithm than the cluster's.
struct OtherCollective {
  RankedPlan plan;     ///< the fastest that was found
  RankedPlan instead;  ///< the fastest over the cluster's own
};
struct Ranking {
  Prediction baseline;             ///< DDP buckets of 25 MiB
  std::vector<RankedPlan> exact;   ///< best first
  std::vector<RankedPlan> others;  ///< lossy, stale, periodic, if allowed
  std::vector<RejectedPlan> inapplicable;
  std::optional<Range> holds;
  std::optional<OtherCollective> other_collective;  ///< if over 0.5 % faster than all exact plans without servers
};
struct RecommendOptions {
  bool allow_lossy = false, allow_stale = false, allow_periodic = false;
  /// Exactly these plans instead of all.
  std::vector<PlanSpec> plans{};
  bool tune = true;
  Search search = Search::grid;
  bool sensitivity = true;  ///< find `holds` and `other_collective`
};

/// What is ranked when nobody names plans: every strategy and every modifier on its usual base, at default options,
/// that `options` allows.
[[nodiscard]] std::vector<PlanSpec> preset_plans(const RecommendOptions& options = {});
/// Those that this cluster has the hardware for; where a switch adds up gradients, those without servers over it, too.
[[nodiscard]] std::vector<PlanSpec> preset_plans_on(const Cluster&, const RecommendOptions& options = {});
/// The settings of the strategy and of its modifiers, to paste.
[[nodiscard]] std::string settings_of(const PlanSpec&);
/// The cluster with its network (with one machine: its inside links) `factor` times as fast; latencies stay.
[[nodiscard]] Cluster with_bandwidth_scaled(Cluster, double factor);
[[nodiscard]] Ranking recommended(const Profile&, const Cluster&, const RecommendOptions& = {});

}  // namespace stepcast
