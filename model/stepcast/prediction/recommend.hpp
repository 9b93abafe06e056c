#pragma once
// Recommendation: every plan that the cluster can run, tuned, ranked by predicted step time.
//
// Exact plans come first and are ranked; lossy, stale and periodic ones, and modifiers on the strategy that they
// usually go with, only on request and in their own list, because the plan that drops the work always wins. What
// PyTorch runs as it is on the machines of the cluster comes before what needs other software or servers, however fast
// that is: whoever traced a job can run the former today. Where the iterations of a run are given, "step time" is all
// along its duration by them. No plan is best by less than the answer resolves: those
// that differ from the fastest by less than the error of the difference (plans of one job on the same links share most
// of their errors) are equals, and the one that is in use (DDP), then the simplest, stands first of
// them. Numeric options marked `tuned` are searched; the result is never worse than the default. How far an answer
// holds is found by scaling the network's bandwidth and comparing the same plans again, their options as tuned for the
// bandwidth asked for: up to 128 times as slow and as fast, in steps of two per cent wherever another plan may come
// ahead. Plans are ranked over the all-reduce that the cluster names; whether another algorithm, tuned
// with the plan, would be faster is said beside the ranking, because not every library lets a user choose it.
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/prediction/tuning.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct RankedPlan {
  Prediction prediction, standard;
  double speed_up = 1;
  std::string settings;
  std::int64_t machines = 0;
  std::string elsewhere{};     ///< "MXNet, servers": what it needs that PyTorch on this cluster does not have
  bool as_good_as_any = true;  ///< not to be told from the fastest one that needs nothing else
  bool in_use = false;         ///< what runs today, where it has a name only (RecommendOptions::baseline)

  [[nodiscard]] bool is_at_hand() const { return elsewhere.empty(); }
};
struct RejectedPlan {
  std::string plan, reason;
};
/// Network bandwidths (goodput) between which the best plan stays as good as the best of its list, within `tolerance`.
struct Range {
  BytesPerSecond low, high;
  std::string below, above;
  double tolerance = 0;  ///< what the answer resolves, as a share of the step
  bool inside = false;   ///< of the links inside the one machine that there is
  /// "network", or "link".
  [[nodiscard]] std::string_view what() const { return inside ? "link" : "network"; }
};
/// Between which values of its tuned option the best plan is as good, within `tolerance`.
struct OptionRange {
  PlanSpec low, high;
  double tolerance = 0;  ///< what the answer resolves, as a share of the step
};
/// The same all-reduce plans over another algorithm than the cluster's.
struct OtherCollective {
  RankedPlan plan, instead;
};
struct Ranking {
  Prediction baseline;  ///< RecommendOptions::baseline
  std::vector<RankedPlan> exact, others;
  std::vector<RejectedPlan> inapplicable;
  std::optional<Range> holds;
  std::optional<OptionRange> as_good;
  std::optional<OtherCollective> other_collective;
  /// DDP's gradients in two bytes (its hook fp16), where nobody allowed lossy plans and this would win a tenth of the
  /// step or more, and more than the answer resolves.
  std::optional<RankedPlan> halves;
  bool by_step = false;  ///< as asked: plans that need more are among the rest
  bool named = false;    ///< somebody named its plans
};
/// A plan that divides more than the batch, predicted by whoever knows how: it has a name only.
struct AnsweredPlan {
  Prediction prediction;
  std::string settings;  ///< to paste; may be empty
};
struct RecommendOptions {
  bool allow_lossy = false, allow_stale = false, allow_periodic = false;
  /// Exactly these plans instead of all.
  std::vector<PlanSpec> plans{};
  /// Over which gains are: what runs today, predicted on this cluster; nothing: DDP's buckets of 25 MiB. One that only
  /// has a name (it divides more than the batch, say) takes its place among the plans as it is.
  std::optional<Prediction> baseline{};
  /// Why no plan describes the job of the baseline, which is ranked alone then; empty: some do.
  std::string only_baseline{};
  /// Plans that take their places among those of the batch as they are.
  std::vector<AnsweredPlan> beside{};
  bool tune = true;
  Search search = Search::grid;
  bool sensitivity = true;  ///< find `holds` and `other_collective`
  bool by_step = false;     ///< one list by step time, whatever a plan needs; so are plans by name
  double iterations = 0;    ///< rank by the duration of a run of so many, warm-up included; 0: by the step
  /// What a plan takes, in place of the model of layers (`predicted`): of a job that this does not describe. How far
  /// the answer holds and other algorithms are not looked for then. May be empty.
  std::function<Answer<Prediction>(const PlanSpec&)> model{};
  /// What else is known of a plan, heard once it has its place: it may widen its interval and warn. May be empty.
  std::function<void(Prediction&)> second_opinion{};
  /// Called before each plan that is predicted or tuned; what it throws ends the search. May be empty.
  std::function<void()> heed{};
};

/// What is ranked when nobody names plans: every strategy and every modifier on its usual base, at default options,
/// that `options` allows, except strategies of networks of their own. A ranking moves each modifier to the one of the
/// best exact plans that it makes fastest, if that beats its usual base.
[[nodiscard]] std::vector<PlanSpec> preset_plans(const RecommendOptions& options = {});
/// Those that this cluster has the hardware for; where a switch adds up gradients, those without servers over its
/// program, too.
[[nodiscard]] std::vector<PlanSpec> preset_plans_on(const Cluster&, const RecommendOptions& options = {});
/// What a plan needs that PyTorch on this cluster does not have, "MXNet, servers"; empty: nothing. A switch that adds
/// up gradients is part of a cluster.
[[nodiscard]] std::string elsewhere_of(const PlanSpec&, const Cluster&);
/// The settings of the strategy and of its modifiers, to paste.
[[nodiscard]] std::string settings_of(const PlanSpec&);
/// The cluster with its network (with one machine: its inside links) `factor` times as fast; latencies stay.
[[nodiscard]] Cluster with_bandwidth_scaled(Cluster, double factor);
[[nodiscard]] Ranking recommended(const Profile&, const Cluster&, const RecommendOptions& = {});
/// A job of which nothing but the prediction of what runs is known, ranked alone; `reason`: why.
[[nodiscard]] Ranking ranked_alone(const Prediction& job, std::string reason, const Cluster&, double iterations = 0);

/// The share of its step by which the fastest plan has to beat another one to be told from it (80 %). Compute is that
/// of one trace, and the links are wrong for both alike: what is left is how much more one of them leans on the links,
/// and the model's own residual. Of pairs of plans of one job and network in the laboratory's suites that were
/// predicted within 10 % of each other, four of five are measured as far apart as predicted, to 4.3 %.
[[nodiscard]] double resolution_between(const Prediction& fastest, const Prediction& other);

}  // namespace stepcast

namespace stepcast {

template <>
inline constexpr auto result_fields<RankedPlan> =
    std::tuple{ResultField{"prediction", &RankedPlan::prediction, "with tuned options", ShownAs::merged},
               ResultField{"standard", &RankedPlan::standard, "with the strategy's default options", ShownAs::aside},
               ResultField{"speed_up", &RankedPlan::speed_up, "the baseline's step over this one"},
               ResultField{"default_plan", [](const RankedPlan& r) { return r.standard.plan; }, "of `standard`",
                           ShownAs::json_only},
               ResultField{"default_iteration_s", [](const RankedPlan& r) { return r.standard.iteration; },
                           "of `standard`", ShownAs::json_only},
               ResultField{"machines", &RankedPlan::machines, "including servers"},
               ResultField{"elsewhere", &RankedPlan::elsewhere,
                           "what it needs that PyTorch on this cluster does not have; empty: nothing"},
               ResultField{"as_good_as_any", &RankedPlan::as_good_as_any,
                           "not to be told from the fastest plan that needs nothing else"},
               ResultField{"settings", &RankedPlan::settings, "to paste"}};

template <>
inline constexpr auto result_fields<RejectedPlan> = std::tuple{
    ResultField{"plan", &RejectedPlan::plan, "that cannot run"}, ResultField{"reason", &RejectedPlan::reason, "why"}};

template <>
inline constexpr auto result_fields<Range> = std::tuple{
    ResultField{"low_bytes_per_s", &Range::low, "from this bandwidth"},
    ResultField{"high_bytes_per_s", &Range::high, "to this one; infinite: however fast the network"},
    ResultField{"below", &Range::below, "the plan that is best below; empty: none within the range searched"},
    ResultField{"above", &Range::above, "the plan that is best above; empty: as before"},
    ResultField{"tolerance", &Range::tolerance, "share of the step within which plans are as good as the best"}};

template <>
inline constexpr auto result_fields<OptionRange> =
    std::tuple{ResultField{"low", &OptionRange::low, "the plan with the least value"},
               ResultField{"high", &OptionRange::high, "with the largest one"},
               ResultField{"tolerance", &OptionRange::tolerance, "share of the step within which they are as good"}};

template <>
inline constexpr auto result_fields<OtherCollective> = std::tuple{
    ResultField{"plan", &OtherCollective::plan, "the fastest that was found", ShownAs::merged},
    ResultField{"instead", &OtherCollective::instead, "the fastest over the cluster's own", ShownAs::aside},
    ResultField{"collective", [](const OtherCollective& o) { return collective_of(o.plan.prediction.plan); },
                "of the plan"},
    ResultField{"instead_of", [](const OtherCollective& o) { return o.instead.prediction.plan; },
                "the plan of `instead`"},
    ResultField{"instead_of_s", [](const OtherCollective& o) { return o.instead.prediction.iteration; }, "its step"}};

template <>
inline constexpr auto result_fields<Ranking> = std::tuple{
    ResultField{"baseline", &Ranking::baseline, "the plan that was traced, else DDP's buckets of 25 MiB"},
    ResultField{"predictions", &Ranking::exact, "plans, best first"},
    ResultField{"others", &Ranking::others, "lossy, stale and periodic plans, if allowed"},
    ResultField{"inapplicable", &Ranking::inapplicable, "plans that cannot run"},
    ResultField{"other_collective", &Ranking::other_collective,
                "if faster than all exact plans without servers by more than the answer resolves"},
    ResultField{"halves", &Ranking::halves,
                "gradients in two bytes, if lossy plans were not allowed and this would win a tenth of the step or "
                "more, and more than the answer resolves"},
    ResultField{"as_good", &Ranking::as_good, "values of its tuned option with which the best plan is as good"},
    ResultField{"holds", &Ranking::holds, "how far the answer holds"}};

}  // namespace stepcast
