#pragma once
// profile_of: from the trace of one rank (or of several ranks of the same run) to the profile of its training step.
//
// How: the steps are found (ProfilerStep annotations, else periodic markers), distorted first and last steps are left
// out; forward operators are linked with backward nodes by sequence number, forward-backward arrows or nesting;
// gradients by AccumulateGrad; device work by correlation and external id; every operator is assigned to the layer
// whose parameters it uses; collectives and waiting are taken out. What could not be found is said in the profile
// (`missing`, `assumed`), and a share of the step that belongs to no layer is `other`, never dropped.
// Not modelled: pipelined or sharded runs (their layers are only those of this rank).
#include <stepcast/profile.hpp>
#include <stepcast/trace.hpp>

#include <optional>
#include <span>

namespace [[gnu::visibility("default")]] stepcast {

/// A training step in a trace.
struct Step {
  std::int64_t number = -1;
  std::int64_t start_ns = 0, end_ns = 0;  ///< host annotation; a user's own numbered range: until the next begins
  bool distorted = false;                 ///< first or last of the recording, or visibly disturbed by the profiler
};

/// The annotated steps in order; empty when there is no annotation.
[[nodiscard]] std::vector<Step> steps_of(const Trace&);
/// How these steps are annotated: "ProfilerStep#N", "step N", ...; empty when there are none.
[[nodiscard]] std::string step_annotation_of(const Trace&);
/// `StepTimes::durations` alone.
[[nodiscard]] std::vector<Seconds> step_durations(const Trace&, std::span<const Step>);

/// The durations of annotated steps, by host and by device.
struct StepTimes {
  /// Of each step: the host annotation or, where the host runs ahead of the device, the start-to-start time of kernels
  /// that occur once a step; 0 where it cannot be told.
  std::vector<Seconds> durations;
  /// Those of `durations` whose median is the step time: all annotations when there are `enough_for_all` (the median
  /// does not see the two distorted ones) or fewer than two undistorted ones (a single step is an accident), else the
  /// undistorted ones. Where the host runs ahead the first period is that of a queue which still fills, and left out if
  /// possible.
  std::vector<Seconds> measured;
  Seconds host;                  ///< median annotation; 0: none
  Seconds device_period;         ///< median start-to-start time of kernels that occur exactly once a step; 0: none
  bool host_runs_ahead = false;  ///< most device work starts after the annotation of its step has ended
  static constexpr std::size_t enough_for_all = 5;

  /// The step time: median of `measured`; 0 when it cannot be told.
  [[nodiscard]] Seconds step() const;
};
[[nodiscard]] StepTimes step_times_of(const Trace&, std::span<const Step>);

struct ProfileOptions {
  std::string model;  ///< name to give; empty: from the trace
  /// Parameter tensors to use when the trace has no shapes: a shipped model description, in forward order.
  std::vector<Tensor> parameters;
  double batch_samples = 0;  ///< 0: from the input shapes if possible
};

/// Throws InputError when the trace holds no training step (no backward pass, no operators).
[[nodiscard]] Profile profile_of(const Trace&, const ProfileOptions& = {});
/// Several ranks of one run: the profile of the median rank; says how far the ranks are apart.
[[nodiscard]] Profile profile_of(std::span<const Trace> ranks, const ProfileOptions& = {});

/// Model descriptions that the program carries (profiles/models/*.json): name -> parameters in forward order.
struct ModelDescription {
  std::string name;
  std::string provenance;
  std::vector<Tensor> parameters;  ///< in forward order; `layer` counts modules from the input
};
[[nodiscard]] const std::vector<ModelDescription>& shipped_models();
[[nodiscard]] const ModelDescription* shipped_model(std::string_view name);

}  // namespace stepcast
