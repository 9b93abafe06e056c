#pragma once
// RecordedJob: the step of a trace as it was recorded, all but the time of its collectives, which another cluster may
// give.
//
// Where no plan stands for the traced job (its all-to-alls or its sharded optimizer belong to its model, its gradients
// are not known), it can be run elsewhere all the same: what waits for what is in the recording. Each of its
// collectives takes the time of its operation and bytes on the other cluster in place of the least time that it took in
// the trace; what it waited for other workers stays, as does everything else:
//
//   recorded   62.3 ms on 8 GPUs of one machine; on 16 machines over 100 Gb/s 119 ms, of which 57 ms is exposed
//
// Where its gradients are all-reduced beside all that, their messages can be exchanged for those of another plan, and
// the rest stays as it was recorded (gradient_exchange.hpp):
//
//   recorded 310 ms; with ddp(bucket=100 MiB) 302 ms, with a message for each gradient 345 ms
//
// Of several ranks the slowest decides. Invariant: with the recorded times the step is that of the replay, to a
// nanosecond. Not modelled: compute that another number of workers would give to each of them (a sharded update,
// experts); that collectives slow compute down in another way than they did in the trace; stragglers and lost packets.
#include <stepcast/baseline/gradient_exchange.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/replay/replay.hpp>
#include <stepcast/schedule/step_blocks.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// A collective of the recorded step.
struct RecordedCollective {
  std::string operation;         ///< as TracedCollective::operation
  Bytes size;                    ///< of the whole buffer on each worker; 0: not known
  std::int64_t group_size = -1;  ///< workers; -1: not known, taken for all
  Seconds duration;              ///< as recorded
  Seconds least;                 ///< without waiting for other workers, as far as steps that are alike tell it
  Seconds late{};                ///< by which the last worker came later; of one rank alone all beyond `least`

  [[nodiscard]] Seconds waiting() const { return duration - least; }
};
/// The step of one rank.
struct RecordedRank {
  /// A task of the step that is a collective, or a part of one: the free tasks of `blocks`.
  struct Part {
    std::uint32_t collective = 0;
    Picoseconds recorded = 0;
  };
  StepBlocks blocks;
  std::vector<Part> parts;
  std::vector<RecordedCollective> collectives;
  std::optional<GradientExchange> exchange{};  ///< its gradients: the free tasks of `blocks` behind the parts
  std::string fixed{};                         ///< why their messages cannot be exchanged, where they cannot

  /// The step if each collective takes `factors[i]` times what it was recorded to take.
  [[nodiscard]] Seconds step(std::span<const double> factors) const;
  /// The same with these messages of gradients in place of the recorded ones. Requires `exchange`.
  /// `slowed`: GradientExchange::append_times.
  [[nodiscard]] Seconds step(std::span<const double> factors, std::span<const GradientMessage>,
                             std::span<const Picoseconds> slowed = {}) const;
};

struct RecordedJob {
  std::vector<RecordedRank> ranks;
  std::int64_t workers = 1;  ///< of the traced job
  double batch_samples = 0;  ///< of a worker; 0: not known
  double noise = 0;          ///< Replay::noise
  double replay_error = 0;   ///< of the rank that is furthest off
  /// The median step as the replay rebuilds it, which may do other work than the calibration step of the ranks (an
  /// optimizer that runs every second step): what does not depend on the cluster is added; 0: that of the ranks.
  Seconds usual;
  double work = 0;  ///< `fingerprint_of` its profile

  /// The name under which it stands among plans.
  static constexpr const char* name = "recorded";
  /// The usual step as it was recorded, rebuilt.
  [[nodiscard]] Seconds step() const;
  /// False for a profile of a job that was changed.
  [[nodiscard]] bool is_of(const Profile& profile) const;
  /// The job on another cluster. Inapplicable where that knows no collective.
  [[nodiscard]] Answer<Prediction> on(const Cluster&) const;
  /// Why the messages of its gradients cannot be exchanged; empty: they can.
  [[nodiscard]] std::string fixed() const;
  /// The job on another cluster, its gradients sent by another plan. `profile` is the one that it was made with.
  /// Inapplicable with the reason for plans that do more than that (messages_of), and as `on`.
  [[nodiscard]] Answer<Prediction> with(const PlanSpec&, const Profile& profile, const Cluster&) const;
};

/// The calibration step of every trace. Inapplicable when one of them cannot be replayed, or has no collectives.
/// Without a profile of the traces nothing is known of gradients.
[[nodiscard]] Answer<RecordedJob> recorded_job_of(std::span<const Trace>, const Profile* = nullptr);
/// A number that tells profiles apart which differ in any cost, size or batch.
[[nodiscard]] double fingerprint_of(const Profile&);
/// False for one that was put together by hand and would be read out of bounds.
[[nodiscard]] bool is_whole(const RecordedJob&);

}  // namespace stepcast
