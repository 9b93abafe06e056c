#pragma once
// Room page: the report page, and pictures of sweeps, fits and validation.
//
//   answer | ranking | timelines | sensitivity | memory | trace | cluster | accuracy | record
//
// It may include base, cluster, calibration, launch, question, parallelism, schedule, prediction, replay, baseline,
// sweep, validation, report, report/text and chart.
//
// Report page: everything that `recommend` found, on one self-contained HTML page: for those who would rather look.
//
// The page holds the answer in one sentence, the ranking with bars (compute, exposed, hidden), timelines of the
// baseline and of the best plan side by side that can be zoomed, step time against bandwidth, workers and batch with
// the cross-overs marked, memory, what the trace contained and what was assumed, and how the model does against
// measurements. It needs no network, opens from disk, and says all that matters without its script. Invariants: made
// from the same values as `--json`, which it also carries (`<script type="application/json" id="record">`); same input,
// same bytes. Not modelled: comparison of several traces.
//
// report_page.cpp computes what the page shows, html.cpp writes it.
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/question/question.hpp>
#include <stepcast/replay/timeline.hpp>
#include <stepcast/sweep/cross_overs.hpp>
#include <stepcast/sweep/sweep.hpp>
#include <stepcast/validation/validation.hpp>

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct PageTimeline {
  PlanSpec plan;
  DetailedTimeline detail;
};
/// A sweep over one axis and where its best plan changes.
struct PageSweep {
  SweepQuestion question;
  std::vector<SweepRow> rows;
  std::vector<CrossOver> cross_overs;
  double here = 0;  ///< the value of the cluster or the batch that was asked for
};

/// A plan that somebody asked for, beside those of the ranking.
struct PageAsked {
  std::string plan;                      ///< as asked
  std::optional<Prediction> prediction;  ///< with the layout spelled out
  std::string inapplicable;              ///< why there is no prediction
  std::vector<LaunchSettings> settings;
};

struct ReportPage {
  Profile profile;
  Cluster cluster;
  SelfCheck check;
  Ranking ranking;
  std::vector<PageAsked> asked;            ///< in the order in which they were named
  std::optional<ReplayTimeline> recorded;  ///< the traced step, which is drawn above them
  std::vector<PageTimeline> timelines;     ///< baseline, then the best plan, where they differ
  std::vector<PageSweep> sweeps;
  std::vector<SuiteResult> validation;  ///< held-out figures of the shipped suites; empty: not run
  bool changed = false;                 ///< the step is not that which was traced: what-ifs, or another device
  std::string command;                  ///< how to make the page again; may be empty
};

struct ReportPageOptions {
  RecommendOptions recommend{};
  std::vector<Plan> asked{};      ///< plans to show beside the ranking: with a layout, or by name
  std::vector<SweepAxis> axes{};  ///< to sweep; empty: bandwidth, workers and batch around what was asked for
  std::optional<ReplayTimeline> recorded{};  ///< the traced step (replay_timeline_of), to be drawn
  bool validation = true;
  bool changed = false;  ///< ReportPage::changed
  unsigned threads = 0;
  std::function<void(double)> progress{};
};
/// Computes what is shown of the step after the question's changes. Throws InputError, also for changes that cannot be
/// made; a ranking without plans gives a page that says so.
[[nodiscard]] ReportPage report_page_of(const PreparedQuestion&, SelfCheck, const ReportPageOptions& = {});

void write_report_page(std::ostream&, const ReportPage&);

}  // namespace stepcast
