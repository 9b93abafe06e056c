#pragma once
// Asked: the question that the flags of a verb ask, and how far its trace can be trusted.
//
// All verbs that predict make their question here, so that the same flags ask the same question whatever the verb:
//
//   const Asked asked = asked_of(flags.input, flags.cluster, flags.layout, {.layouts = plan.layout.has_value()});
//   const PreparedQuestion question(asked.question);
#include "input.hpp"
#include "layout_options.hpp"

#include <stepcast/question/question.hpp>
#include <stepcast/sharing/second_job.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace stepcast::cli {

/// The second job of --beside.
struct SecondAsked {
  Question question;
  SelfCheck check;
  Plan plan;
  std::size_t level = 0;  ///< that both share
  Cluster alone{};        ///< of the first job, without the second one

  [[nodiscard]] OtherJob job() const {
    return {question, [this](const PreparedQuestion& q) { return checked_answer(check, q, plan); }};
  }
};

struct Asked {
  Question question;
  SelfCheck check;  ///< a replay of every trace; for a profile or a description the reason why there is none
  std::optional<ReplayTimeline> recorded{};  ///< the traced step, where it was asked for and can be rebuilt
  std::string refusal{};  ///< why nothing but the recorded job is known, so that there is no question; or empty
  std::shared_ptr<const SecondAsked> second{};  ///< whose share the cluster of the question has; null: there is none
};
struct AskedOptions {
  bool layouts = false;              ///< some plan is asked as a layout, which needs the samples of a step
  InputOptions input{};              ///< what of a trace is needed
  bool across_devices = false;       ///< the compute times are varied anyway, whatever device they are of
  std::optional<Cluster> cluster{};  ///< in place of that of the flags
  bool batch_is_searched = false;    ///< --global-batch stands for one of a range: no step was measured with it
  /// What is asked is the step of a worker, and of a described model without a batch that of one sample. Else all plans
  /// share out the batch that is usual, layouts or not.
  bool step_of_worker = false;
  /// Of a trace without a word on machines: where it shows no links, the question is about a worker alone.
  bool alone_without_links = false;
};
/// Reads trace or description, cluster and pipeline. Throws InputError: also for flags that change a trace where a
/// description is asked for layouts, and for layouts of a batch that nothing tells.
[[nodiscard]] Asked asked_of(const InputFlags&, const ClusterFlags&, const LayoutFlags&, const AskedOptions& = {});

/// Of traces that say nothing but the recorded job (`refusal`): that job on the cluster of the question. Throws
/// InputError where this knows none of its collectives.
[[nodiscard]] Prediction recorded_answer(const Asked&);

/// All files that a command with these flags reads.
[[nodiscard]] std::vector<std::string> files_of(const InputFlags&, const ClusterFlags&, const LayoutFlags&);

/// Throws InputError for flags of the cluster that none of the named plans would notice: servers, a switch, or an
/// all-reduce that no plan uses. Where no plan is named all are asked, and some notice.
void refuse_unused_flags(const ClusterFlags&, std::span<const Plan> plans);

/// The profile of the question after its changes. Throws InputError when they cannot be made, and for changes of a
/// collective, which belongs to plans that are named.
[[nodiscard]] Profile changed_profile(const PreparedQuestion&, const Scenario& changes);

}  // namespace stepcast::cli
