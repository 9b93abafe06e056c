#pragma once
// Layout reports: what is said of layouts: one in detail, several side by side, the outcome of a search, a timeline.
//
// Invariant: text and JSON are made from the same value, like all reports (report.hpp). All layouts of a report are of
// one workload and one global batch. Not modelled: what a layout costs in accuracy: all of them compute the same.
//
// layout_report.cpp makes them of a question; text/layout.cpp writes layouts and comparisons, text/layout_search.cpp
// what a search found, text/unit_frontier.cpp what a device can trade; json/layout.cpp writes all of them as JSON.
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/question/question.hpp>
#include <stepcast/run/whole_run.hpp>
#include <stepcast/search/layout_advice.hpp>
#include <stepcast/search/unit_frontier.hpp>

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct SelfCheck;

/// What every report of layouts is about.
struct LayoutSubject {
  const Workload& workload;
  const Cluster& cluster;
  const SelfCheck& check;
  double global_batch = 0;
  Bytes memory_cap;        ///< 0: none
  Bytes planned_memory{};  ///< up to which a search goes where nobody said how much; 0: `memory_cap`
  const DeviceCorrection* correction = nullptr;  ///< by measured steps; null: none were told
  std::string doubt{};                           ///< what layouts leave out of a traced job, in words; empty: little
  std::optional<RunRequest> run{};               ///< a whole run that was asked about
  std::string batch_in_words{};  ///< "512 samples a step on all devices (4.2 M tokens), usual for models of this size"
  std::string said_of_batch{};   ///< the line of `workload.assumed` that this says, too

  /// 0: of a model that takes none.
  [[nodiscard]] double tokens_a_step() const { return global_batch * workload.sequence; }
};

/// The run that was asked about under a layout, of a model that takes tokens; else nothing.
[[nodiscard]] std::optional<WholeRun> run_by(const LayoutSubject&, const LayoutPrediction&);

struct LayoutReport {
  LayoutSubject subject;
  const LayoutPrediction& prediction;
  std::vector<LaunchSettings> settings;
  std::optional<OwnKernels> by_pytorch{};
};

/// What the report of a question's layout is made of. Refers to the question, whose model has to be divisible, to the
/// check and to the prediction. `framework`: whose settings are shown; empty: of all.
[[nodiscard]] LayoutSubject layout_subject_of(const PreparedQuestion&, const SelfCheck&);
[[nodiscard]] LayoutReport layout_report_of(const PreparedQuestion&, const SelfCheck&, const LayoutPrediction&,
                                            std::string_view framework = {});

/// Of a described model that names no kernels, so that its times are those of Megatron-LM's: what each framework takes
/// and holds that runs the layout by other kernels. `framework`: the one that was asked for, whose kernels the question
/// has. Nothing of other models.
[[nodiscard]] std::vector<OwnKernels> by_own_kernels(const PreparedQuestion&, const LayoutPrediction&,
                                                     std::string_view framework);
/// PyTorch's of these, which answers name; not beside a measured step, which corrected other kernels' times.
[[nodiscard]] std::optional<OwnKernels> by_pytorch(const PreparedQuestion&, std::span<const OwnKernels>);

/// One of several layouts; without a prediction where it does not work.
struct LayoutRow {
  std::string plan;
  std::optional<LayoutPrediction> prediction;
  std::string inapplicable;
  std::string not_run{};  ///< why the framework that was asked for does not run it; empty: it does, or none was
};
struct LayoutComparisonReport {
  LayoutSubject subject;
  std::vector<LayoutRow> rows;  ///< in the order in which they were named
  std::string traced{};         ///< the row that gains are over; empty: they are over the first that answers
};

/// The fastest of its rows that the framework runs that was asked for; null: none is.
[[nodiscard]] const LayoutRow* fastest_of(const LayoutComparisonReport&);
/// The share of a step within which others are not to be told from it; 0: there is no fastest.
[[nodiscard]] double resolution_of(const LayoutComparisonReport&);
/// Those that are not, by name.
[[nodiscard]] std::vector<std::string> equals_of(const LayoutComparisonReport&);

/// The first of the best layouts that a framework runs, where none runs the best.
struct RunnableLayout {
  const LayoutPrediction& layout;
  std::vector<LaunchSettings> settings;
};

struct LayoutSearchReport {
  LayoutSubject subject;
  const LayoutAdvice& advice;
  LayoutSearchOptions options;
  std::string reason;                        ///< why layouts were searched though nobody asked; may be empty
  bool frontier = false;                     ///< show it
  std::string framework{};                   ///< that has to run the layouts; empty: any
  std::string batch_choice{};                ///< "the best of ...", where the batch was searched, too
  std::vector<LaunchSettings> settings{};    ///< of the best
  std::optional<RunnableLayout> runnable{};  ///< where none of these can be pasted
  std::optional<OwnKernels> by_pytorch{};    ///< of the best
};
/// The report with what it says of the best layout. Refers to the question and to the advice.
[[nodiscard]] LayoutSearchReport layout_search_report_of(const PreparedQuestion&, const SelfCheck&, const LayoutAdvice&,
                                                         const LayoutSearchOptions&, std::string_view framework = {});

struct LayoutTimelineReport {
  const Workload& workload;
  const LayoutTimeline& detail;
  LayoutPlan plan;
  Seconds iteration;  ///< with gradients and update, which the timeline of the pipeline leaves out
};

/// What a device can trade between memory and time (unit_frontier.hpp), on one or several numbers of devices.
struct UnitFrontierReport {
  LayoutSubject subject;                ///< of the choice's cluster, or of the largest
  std::span<const DeviceCount> counts;  ///< by rising number of devices; at least one
  Objective objective = Objective::shortest_step;
  Seconds target_step;  ///< 0: none
  DeviceChoice choice;
  std::vector<LaunchSettings> settings;  ///< of the choice
};

/// The frontiers of a question's units on each number of workers, and what they lead to.
struct UnitFrontiers {
  std::vector<PreparedQuestion> questions;  ///< one for each number
  std::vector<DeviceCount> counts;          ///< by rising number of devices
  Objective objective = Objective::shortest_step;
  Seconds target_step;
  DeviceChoice choice;                   ///< points into `counts`
  std::vector<LaunchSettings> settings;  ///< of the choice
};
/// Of gradients that DDP sends; `workers` empty: those of the question's cluster. Inapplicable where the model cannot
/// be taken apart, or the only number of workers has no configuration. Throws InputError for a number that the cluster
/// cannot have.
[[nodiscard]] Answer<UnitFrontiers> unit_frontiers(const PreparedQuestion&, std::vector<std::int64_t> workers,
                                                   Objective, Seconds target_step);
/// Refers to both.
[[nodiscard]] UnitFrontierReport unit_frontier_report_of(const UnitFrontiers&, const SelfCheck&);

/// "8-way tensor parallelism, 35 pipeline stages (1f1b), ...": the layout for people.
[[nodiscard]] std::string words_of(const LayoutPrediction&);

void write_layout_text(std::ostream&, const LayoutReport&);
void write_layout_comparison_text(std::ostream&, const LayoutComparisonReport&);
void write_layout_search_text(std::ostream&, const LayoutSearchReport&);
void write_layout_json(std::ostream&, const LayoutReport&);
void write_layout_comparison_json(std::ostream&, const LayoutComparisonReport&);
void write_layout_search_json(std::ostream&, const LayoutSearchReport&);
void write_unit_frontier_text(std::ostream&, const UnitFrontierReport&);
void write_unit_frontier_json(std::ostream&, const UnitFrontierReport&);

}  // namespace stepcast
