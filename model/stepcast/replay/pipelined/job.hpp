#pragma once
// PipelineJob: the operations of a pipelined job, what each waits for, and how long a step of it takes (internal).
//
// Operations are those of the traces, in seconds from the start of their step. What waits for what follows from the
// recording:
//   - operations of a worker run one after the other, unless recorded side by side; a kind of operation that runs
//     beside computation anywhere in the job is taken out of that order and waits for its data alone;
//   - a send and the receive that it feeds end together, and so do sends and receives that were issued by one call;
//   - a collective ends together on all replicas of a stage (embedding: on the first and the last stage of a replica);
//     so does what visibly ends together on all workers, such as the norm of all gradients;
//   - where no sends were recorded, a pass waits for that of the neighbouring stage.
// What ends together has one start, the last one's; from then on it takes its transfer, which is all that is kept of
// its duration: waiting is no work. Between the end of what an operation waited for and its own start the host passes
// some time: the lag of that kind of transition, whose median over *other* steps is used. Invariant: no operation
// starts before all that it waits for has ended. Not modelled: waits that no recorded operation explains (they show as
// outliers of a lag and are counted).
#include <stepcast/base/error.hpp>
#include <stepcast/replay/pipelined/pipeline_replay.hpp>
#include <stepcast/trace/trace.hpp>

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace stepcast::pipelined {

enum class Role : std::uint8_t { forward, backward, computation, send, receive, collective };
[[nodiscard]] constexpr bool is_pass(Role r) { return r == Role::forward || r == Role::backward; }
[[nodiscard]] constexpr bool computes(Role r) { return is_pass(r) || r == Role::computation; }

/// Which workers an operation ends together with.
enum class Together : std::uint8_t { alone, peer, replicas, ends_of_pipeline, job };

struct OperationType {
  std::string name;
  Role role = Role::computation;
  Together together = Together::alone;
  bool backward = false;  ///< direction of a send or receive
  int peer_stage = 0;     ///< the other end of a send or receive: +1 the next stage, -1 the one before
  bool in_order = true;   ///< never runs beside computation of its worker
};
struct JobWorker {
  std::int64_t rank = 0, stage = 0, replica = 0;
  std::size_t trace = 0;
};
struct JobOperation {
  double start = 0, end = 0;  ///< s, from the start of the step
  std::uint32_t type = 0, worker = 0;
  std::uint32_t nth = 0;  ///< the how-manieth of its type on its worker in this step
  std::uint32_t event = no_index;
  std::int32_t micro_batch = -1, chunk = 0;
  [[nodiscard]] double duration() const { return end - start; }
};

/// Arc from an operation to the one that waits for it; `lag` is the kind of transition.
struct Wait {
  std::uint32_t on = 0, lag = 0;
};
struct JobStep {
  std::int64_t number = 0;
  double measured = 0;
  std::vector<JobOperation> operations;   ///< sorted by worker, then by start
  std::vector<std::uint32_t> first_of;    ///< where each worker begins, and the end
  std::vector<std::uint32_t> first_wait;  ///< where the waits of each operation begin, and the end
  std::vector<Wait> waits;                ///< `on` = no_index: the start of the step
  std::vector<std::uint32_t>
      first_member;  ///< where each group begins, and the end; groups are in an order without deadlock
  std::vector<std::uint32_t> members;  ///< operations of the groups: what ends together
  std::vector<double> work;            ///< duration, or transfer where a group waits for its last member
};

/// A kind of transition: operations of a type that start after one of another type (no_index: after the step's start).
struct LagKind {
  std::uint32_t type = 0, after = 0;
  bool remote = false;  ///< the operation before it is that of another worker
  auto operator<=>(const LagKind&) const = default;
};

struct PipelineJob {
  std::vector<OperationType> types;
  std::vector<JobWorker> workers;
  std::vector<JobStep> steps;
  std::vector<LagKind> lags;
  std::int64_t stages = 1, replicas = 1, micro_batches = 1, chunks = 1;
  bool sends_recorded = false;
  std::uint64_t unmatched = 0;  ///< sends and receives without a counterpart
  std::vector<std::string> notes;
};

/// Operations, workers and steps; Inapplicable when there are none. Waits are still to be added. Where the traces
/// number no chunks, the order of the passes tells those of an interleaved pipeline.
[[nodiscard]] Answer<PipelineJob> operations_of(std::span<const Trace>);
[[nodiscard]] Answer<PipelineJob> job_of(std::span<const Trace>);

/// Of one kind of transition: how many lags were seen, and how many of them were waits that nothing recorded explains.
struct UnexplainedWait {
  std::uint64_t seen = 0, unexplained = 0;
  double longest = 0;  ///< s
};
/// Lags by kind (the last one: from the last end to the end of the step), medians over the steps that `use` names.
[[nodiscard]] std::vector<double> lags_of(const PipelineJob&, const std::vector<bool>& use,
                                          std::vector<UnexplainedWait>* = nullptr);
/// Work of a step's operations as medians of the same operations over the steps that `use` names.
[[nodiscard]] std::vector<double> typical_work(const PipelineJob&, const JobStep&, const std::vector<bool>& use);

/// "forward-compute after forward-recv".
[[nodiscard]] std::string words_of(const PipelineJob&, const LagKind&);

/// Start and end of every operation of a rebuilt step; reused from call to call.
struct Rebuilt {
  std::vector<double> start, end;
  double step = 0;
};
void rebuild(const JobStep&, std::span<const double> work, std::span<const double> lags, Rebuilt&);

}  // namespace stepcast::pipelined
