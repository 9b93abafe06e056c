#pragma once
// Room extraction: from a trace to a profile.
//
//   trace -> steps -> anatomy of each step -> median by layer -> gradients and activations -> profile
//
// It may include base, profile, trace, roofline, anatomy and ranks.
//
// profile_of: from the trace of one rank (or of several ranks of the same run) to the profile of its training step.
//
// How: the steps are found (ProfilerStep annotations, else periodic markers), distorted first and last steps are left
// out; forward operators are linked with backward nodes by sequence number, forward-backward arrows or nesting;
// gradients by AccumulateGrad; device work by correlation and external id; every operator is assigned to the layer
// whose parameters it uses; collectives and waiting are taken out. What could not be found is said in the profile
// (`missing`, `assumed`), and a share of the step that belongs to no layer is `other`, never dropped.
// Not modelled: pipelined or sharded runs (their layers are only those of this rank).
#include <stepcast/profile/profile.hpp>
#include <stepcast/trace/trace.hpp>

#include <span>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct ProfileOptions {
  std::string model;  ///< name to give; empty: from the trace
  /// Parameter tensors to use when the trace has no shapes: a shipped model description, in forward order.
  std::vector<Tensor> parameters;
  /// How many parameters are trained, where neither shapes nor messages say: shared out over the gradients. 0: unknown.
  double parameter_count = 0;
  double batch_samples = 0;  ///< 0: from the input shapes if possible
};

/// Throws InputError when the trace holds no training step (no backward pass, no operators).
[[nodiscard]] Profile profile_of(const Trace&, const ProfileOptions& = {});
/// Several ranks of one run: the profile of the median rank; says how far the ranks are apart.
[[nodiscard]] Profile profile_of(std::span<const Trace> ranks, const ProfileOptions& = {});

}  // namespace stepcast
