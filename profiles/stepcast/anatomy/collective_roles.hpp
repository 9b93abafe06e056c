#pragma once
// Roles of the collectives of a step: what each is for (collective_role.hpp), from what the trace shows of it.
//
// Evidence, the strongest first:
//
//   around its issue   FSDP's and DDP's annotations, the AccumulateGrad node whose hook issued it, the update, metrics
//   operation          barriers, all-to-alls, sends and receives have one use; the call says more than the kernel
//   operator           issued within an operator of the model that has a backward node, or within such a node: the
//                      layer waits for it. In the backward pass only where the forward pass has such collectives, too:
//                      what is reduced there, more than a few numbers, is activations (DTensor has no such operator)
//   gradients          reductions that take all gradients of the step with them, byte for byte (gradient_messages), or
//                      as many of them in backward nodes as there are gradients
//   when, how much     before, in or between the passes, behind them, from the update on; a few numbers or more
//   process group      its description ("mesh_tp", "DATA_PARALLEL_GROUP") where the rest leaves it open
//
//   reduce-scatter, issued within FSDP::post_backward_reduce      gradients to their owners
//   all-gather of 77 MB, within Optimizer.step#DistAdam.step      updated parameters
//   all-reduce of 4 bytes between the backward pass and update    metrics
//
// Invariant: nothing is guessed from the order of collectives among themselves; where the evidence does not suffice, or
// nobody recorded who issued it, the role is unknown. Not modelled: who waits for a collective, sizes of single layers.
#include <stepcast/anatomy/traced_collectives.hpp>

#include <span>
#include <vector>

namespace stepcast {

/// The role of each collective of a step. `gradients` are the tensors of `step.gradients`, or something else where
/// nobody knows these.
[[nodiscard]] std::vector<CollectiveRole> roles_of(std::span<const TracedCollective> collectives, const TraceIndex&,
                                                   const StepAnatomy& step, std::span<const Tensor> gradients);

}  // namespace stepcast
