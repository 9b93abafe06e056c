#pragma once
// Room report: every result as a value that text, JSON and timelines are made from.
//
//   Prediction -> PredictionReport -> text for people | JSON for programs | a timeline
//
// It may include base, roofline, documents, question, cluster, launch, run, whatif, prediction, workload, placement,
// calibration, search, sweep, replay, baseline, replay/edits, replay/pipelined and validation.
//
// Reports: the open family of ways to show a result: text for people, JSON for programs, timelines for trace viewers.
//
// A report is a record: name, summary, and one pure function a subject, null where it does not show that subject. All
// reports of a subject are made from the same value, so that text and JSON cannot disagree. Text fits 80 columns; JSON
// has a `schema` key and SI numbers with their unit in the key. Not modelled: colours, locales.
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/calibration/calibration.hpp>
#include <stepcast/prediction/pacing_cycle.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/replay/pipelined/pipeline_replay.hpp>
#include <stepcast/replay/replay.hpp>
#include <stepcast/replay/timeline.hpp>
#include <stepcast/report/inspection_report.hpp>
#include <stepcast/report/layout_report.hpp>
#include <stepcast/report/placement_report.hpp>
#include <stepcast/report/whatif_report.hpp>
#include <stepcast/search/unit_frontier.hpp>

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct EditedReplay;    // replay/edits/task_edits.hpp
struct Explanation;     // baseline/explanation.hpp
struct StepDifference;  // baseline/step_difference.hpp

struct PredictionReport {
  const Profile& profile;
  const Cluster& cluster;
  const SelfCheck& check;
  const Prediction& prediction;
  std::optional<PacingCycle> cycle{};  ///< what sets the pace of a plan without a barrier
};
struct RankingReport {
  const Profile& profile;
  const Cluster& cluster;
  const SelfCheck& check;
  const Ranking& ranking;
  bool advice = true;  ///< what to run and why; false: a plain comparison of all plans
};
/// The self-check as it is of what the report shows: a layer model's doubts are none of the recorded step's.
[[nodiscard]] SelfCheck check_of(const PredictionReport&);
[[nodiscard]] SelfCheck check_of(const RankingReport&);
struct TimelineReport {
  const Profile& profile;
  const DetailedTimeline& detail;
  const PlanSpec& plan;
  const ReplayTimeline* recorded = nullptr;  ///< the step as it was traced, to be shown beside; null: there is none
};

struct Report {
  std::string_view name;  ///< "text"
  std::string_view summary;
  void (*profile)(std::ostream&, const Profile&) = nullptr;
  void (*inspection)(std::ostream&, const Inspection&) = nullptr;
  void (*explanation)(std::ostream&, const Explanation&) = nullptr;
  void (*difference)(std::ostream&, const StepDifference&) = nullptr;
  /// Who is late in a run, and why: of a check without replays.
  void (*lateness)(std::ostream&, const SelfCheck&) = nullptr;
  void (*replay)(std::ostream&, const SelfCheck&) = nullptr;
  /// Steps after edits of their tasks, one a trace.
  void (*replay_edits)(std::ostream&, std::span<const EditedReplay>) = nullptr;
  /// A pipelined job, rebuilt from its passes.
  void (*pipeline_replay)(std::ostream&, const PipelineReplay&) = nullptr;
  void (*prediction)(std::ostream&, const PredictionReport&) = nullptr;
  void (*ranking)(std::ostream&, const RankingReport&) = nullptr;
  void (*whatif)(std::ostream&, const WhatIfReport&) = nullptr;
  /// A plan that cannot run, and why.
  void (*inapplicable)(std::ostream&, std::string_view plan, const Inapplicable&) = nullptr;
  void (*calibration)(std::ostream&, const Calibration&) = nullptr;
  void (*timeline)(std::ostream&, const TimelineReport&) = nullptr;
  void (*layout)(std::ostream&, const LayoutReport&) = nullptr;
  void (*layout_comparison)(std::ostream&, const LayoutComparisonReport&) = nullptr;
  void (*layout_search)(std::ostream&, const LayoutSearchReport&) = nullptr;
  void (*placement)(std::ostream&, const PlacementReport&) = nullptr;
  void (*placement_timeline)(std::ostream&, const PlacementTimelineReport&) = nullptr;
  void (*unit_frontier)(std::ostream&, const UnitFrontierReport&) = nullptr;
  void (*layout_timeline)(std::ostream&, const LayoutTimelineReport&) = nullptr;
  /// One timeline a rank.
  void (*replay_timeline)(std::ostream&, std::span<const ReplayTimeline>) = nullptr;
};

/// All reports (reports/reports.inc).
[[nodiscard]] std::span<const Report> reports();
/// Null for an unknown name.
[[nodiscard]] const Report* report_named(std::string_view name);

}  // namespace stepcast
