#pragma once
// PhaseProfile: the coarse profile of a trace that shows kernels and the phases that a user marked ("forward",
// "backward", "optimizer"), but no operators: Nsight Systems reports, as a rule.
//
// The device work of a phase is what its host calls launched on the stream of the forward pass. The backward pass is
// cut where it launches a reduction: DDP launches one as soon as the gradients of a bucket are there, so each piece is
// what computes one bucket; it stands for a layer. How long the forward pass of such a piece takes is not recorded and
// is taken in proportion. Sizes of gradients are never in such a trace: they come from the caller's model description,
// dealt to the pieces as DDP fills its buckets. All of that is said in the profile. Not modelled: pipelined or sharded
// runs, work on other streams (loaders, copies), which is left out and said.
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/trace/trace_index.hpp>

namespace stepcast {

/// True when the trace marks forward passes and holds no operators.
[[nodiscard]] bool has_phases_only(const TraceIndex&);
/// Requires has_phases_only. Throws InputError when the phases make no training step, or when `parameters` is empty.
[[nodiscard]] Profile phase_profile_of(const TraceIndex&, const ProfileOptions&);

}  // namespace stepcast
