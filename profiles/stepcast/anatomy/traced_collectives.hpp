#pragma once
// Traced collectives: the communication that a trace shows, each operation counted once.
//
// One all-reduce leaves up to five events (c10d op, record_param_comms, annotation, kernel, device annotation). The one
// that says most is counted: the kernels if there are any, else the backend's host annotations, else the c10d calls,
// else whatever carries a collective's arguments. Its bytes come from the best source there is (BytesSource): the
// arguments of the event, of the host events around its launch, or, when one launch serves several calls, of all the
// calls of its thread that are still waiting for one; then the shapes of the operators around it; then, for
// reductions, the gradients since the last one. Not modelled: collectives made of copies.
#include <stepcast/anatomy/step_anatomy.hpp>
#include <stepcast/profile/profile.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

struct TracedCollective {
  std::uint32_t event = no_index;
  const CollectiveArguments* arguments = nullptr;  ///< those of the event or of what launched it; null: none
  std::string operation;                           ///< naming::collective_operation, else "unknown"
  Bytes size;                                      ///< the larger of what goes in and comes out; 0 when unknown
  BytesSource source = BytesSource::unknown;
  bool whole = true;  ///< false: of a gather whose shapes tell the size, what goes in may be all that is known
  std::int64_t start_ns = 0;
  Seconds duration;
  Seconds waiting;  ///< not part of `duration`; known only when several ranks are read together (ranks.hpp)
  std::int64_t group_size = -1;
  std::int64_t issued_ns = 0;       ///< start of the host event that launched or queued it; without one its own start
  std::uint32_t issuer = no_index;  ///< that host event, or the call that asked a library for it
  CollectiveRole role = CollectiveRole::unknown;  ///< what it is for (collective_roles.hpp)
};

/// The library that ran it, as PyTorch names its backends: "gloo", "nccl"; empty: nobody says.
[[nodiscard]] std::string_view library_of(const TraceIndex&, const TracedCollective&);

/// All collectives of the trace, in order.
[[nodiscard]] std::vector<TracedCollective> collectives_of(const TraceIndex&);
/// The collectives that were issued within each window, in order.
[[nodiscard]] std::vector<std::vector<TracedCollective>> collectives_in(const TraceIndex&, std::span<const StepWindow>);
/// Gives the reductions of a step that have no size that of the gradients that became ready since the one before.
/// `gradients` are the tensors of `step.gradients`.
void size_by_gradients(std::vector<TracedCollective>&, const StepAnatomy& step, std::span<const Tensor> gradients);
/// A reduction that carries gradients: those that became ready since the one before.
struct GradientReduction {
  std::size_t collective = 0;   ///< its place among the collectives of the step
  std::uint32_t gradients = 0;  ///< > 0
  Bytes size;                   ///< of these gradients
};
/// The reductions of a step that carry gradients, in the order of issue. `gradients` are the tensors of
/// `step.gradients`.
[[nodiscard]] std::vector<GradientReduction> gradient_reductions(std::span<const TracedCollective> collectives,
                                                                 const StepAnatomy& step,
                                                                 std::span<const Tensor> gradients);
/// The all-reduces of gradients of the first step, each with the gradients that became ready since the one before and
/// with its median duration over the steps, waiting included, less what it shares with those before it. `gradients` are
/// the tensors of the steps' gradients. Empty where they do not take all gradients with them in every step, byte for
/// byte or in half as many bytes: then something else than the gradients is reduced.
[[nodiscard]] std::vector<TracedMessage> gradient_messages(std::span<const std::vector<TracedCollective>> collectives,
                                                           std::span<const StepAnatomy> steps,
                                                           std::span<const Tensor> gradients);
/// Averages over the steps; time that several of a kind share, as a library carries them out at once, counts once.
/// They are told apart by operation, role, group size and source of the bytes; time is shared among all roles.
[[nodiscard]] std::vector<ObservedCollective> observed_collectives(
    std::span<const std::vector<TracedCollective>> steps);

}  // namespace stepcast
