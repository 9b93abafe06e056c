#pragma once
// Layouts: what predict, compare and recommend do when the model is divided, too.
#include "asked.hpp"
#include "command.hpp"
#include "input.hpp"
#include "layout_options.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/question/question.hpp>
#include <stepcast/report/report.hpp>
#include <stepcast/search/layout_advice.hpp>
#include <stepcast/workload/workload.hpp>

#include <optional>
#include <string>
#include <vector>

namespace stepcast::cli {

/// One layout in detail, with the settings of frameworks, or of the one that is named, and the whole `run` that was
/// asked about. Throws InputError where such a run has no tokens.
[[nodiscard]] ExitCode show_layout(const PreparedQuestion&, const SelfCheck&, const LayoutPrediction&,
                                   const std::string& framework, const std::optional<RunRequest>& run,
                                   const OutputFlags&, const std::string& timeline);
[[nodiscard]] ExitCode compare_layouts(const PreparedQuestion&, const SelfCheck&, const std::vector<std::string>& plans,
                                       const std::string& framework, const OutputFlags&);
/// `reason`: why layouts are searched though nobody asked; `batch_choice`: why of this batch; both may be empty.
[[nodiscard]] ExitCode recommend_layout(const PreparedQuestion&, const SelfCheck&, const LayoutFlags&, Search tuning,
                                        const OutputFlags&, const std::string& reason,
                                        const std::string& batch_choice = {});
/// The same for the batch of a range that trains most samples a second.
[[nodiscard]] ExitCode recommend_batch(Asked&, const LayoutFlags&, BatchRange, Search tuning, const OutputFlags&);
/// The frontier of memory and time where each unit chooses for itself.
[[nodiscard]] ExitCode recommend_units(const PreparedQuestion&, const SelfCheck&, const LayoutFlags&,
                                       const OutputFlags&);
/// A pipeline over the unequal devices of --devices as `plan` says, "placement(devices=0+1, units=4+3)".
[[nodiscard]] ExitCode predict_placement(const InputFlags&, const ClusterFlags&, const LayoutFlags&,
                                         const std::string& plan, const OutputFlags&, const std::string& timeline);
/// The best one.
[[nodiscard]] ExitCode recommend_placement(const InputFlags&, const ClusterFlags&, const LayoutFlags&,
                                           const OutputFlags&);
/// The answer for a model that cannot be divided.
[[nodiscard]] ExitCode refuse_layout(const std::string& plan, const std::string& reason, const OutputFlags&);

}  // namespace stepcast::cli
