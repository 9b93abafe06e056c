#pragma once
// Layouts: what predict, compare and recommend do when the model is divided, too.
#include "command.hpp"
#include "input.hpp"
#include "layout_options.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/question/question.hpp>
#include <stepcast/report/report.hpp>
#include <stepcast/search/layout_advice.hpp>
#include <stepcast/workload/workload.hpp>

#include <string>
#include <vector>

namespace stepcast::cli {

/// A workload on a cluster, ready to be divided, and the question that it was made for.
struct LayoutInput {
  Question question;
  Workload workload;
  Cluster cluster;
  SelfCheck check;
  LayoutOptions options;

  [[nodiscard]] LayoutSubject subject() const;
};
/// Of what was traced or described. Inapplicable for a model that cannot be divided. Throws InputError.
[[nodiscard]] Answer<LayoutInput> layout_input_of(const InputFlags&, const ClusterFlags&, const LayoutFlags&,
                                                  const Scenario& changes = {});
/// The same where the profile is at hand.
[[nodiscard]] Answer<LayoutInput> layout_input_of(const InputFlags&, const Cluster&, const Input&, const LayoutFlags&,
                                                  const Scenario& changes = {});

/// One layout in detail, with the settings of frameworks.
[[nodiscard]] ExitCode show_layout(const PreparedQuestion&, const SelfCheck&, const LayoutPrediction&,
                                   const OutputFlags&, const std::string& timeline);
[[nodiscard]] ExitCode compare_layouts(const LayoutInput&, const std::vector<std::string>& plans, const OutputFlags&);
/// `reason`: why layouts are searched though nobody asked; may be empty.
[[nodiscard]] ExitCode recommend_layout(const LayoutInput&, const LayoutFlags&, Search tuning, const OutputFlags&,
                                        const std::string& reason);
/// The frontier of memory and time where each unit chooses for itself.
[[nodiscard]] ExitCode recommend_units(const LayoutInput&, const OutputFlags&);
/// A pipeline over the unequal devices of --devices.
[[nodiscard]] ExitCode recommend_placement(const InputFlags&, const ClusterFlags&, const LayoutFlags&,
                                           const OutputFlags&);
/// The answer for a model that cannot be divided.
[[nodiscard]] ExitCode refuse_layout(const std::string& plan, const std::string& reason, const OutputFlags&);

}  // namespace stepcast::cli
