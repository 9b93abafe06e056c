#pragma once
// RecordedJob: the step of a trace as it was recorded, all but the time of its collectives, which another cluster may
// give.
//
// Where no plan stands for the traced job (its all-to-alls or its sharded optimizer belong to its model, its gradients
// are not known), it can be run elsewhere all the same: what waits for what is in the recording. Each collective takes
// as many times as long as the closed form of its operation, bytes and group does over that on the links that the trace
// shows (cluster/links_of_trace.hpp). Where it shows none, or the cluster's were measured, their time is in place of
// the least that it took. What it waited for workers that nobody traced stays, as does everything else; of one rank
// alone nobody knows what was waiting, and what goes beyond the links that the trace shows stays.
//
//   recorded   62.3 ms on 8 GPUs of one machine; on 16 machines over 100 Gb/s 119 ms, of which 57 ms is exposed
//
// By its role (collective_role.hpp) a collective's group grows with the number of workers, where it is data-parallel
// (gradients, sharded parameters), or keeps its size (within a layer, pipelines, experts); it lies as close together as
// it did. Scattered gradients that the backend made of all-reduces take what the cluster measured for a scatter.
//
// Where its gradients are all-reduced beside all that, their messages can be exchanged for those of another plan, and
// the rest stays as it was recorded (gradient_exchange.hpp):
//
//   recorded 310 ms; with ddp(bucket=100 MiB) 302 ms, with a message for each gradient 345 ms
//
// Several ranks run in lockstep, so that who waits for whom follows from what they do; where they do not meet in the
// step that is rebuilt, the slowest decides. Invariants: with the recorded times the step of one rank is that of the
// replay, to a nanosecond; so is it on the links that the trace shows, with as many workers, but for gradients that are
// exchanged. Not modelled: compute that another number of workers would give to each of them (a sharded update,
// experts); that collectives slow compute down in another way than they did in the trace; stragglers and lost packets.
#include <stepcast/baseline/gradient_exchange.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/profile/collective_role.hpp>
#include <stepcast/replay/replay.hpp>
#include <stepcast/schedule/lockstep.hpp>
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
  CollectiveRole role = CollectiveRole::unknown;
  std::int64_t per_machine = -1;       ///< workers of its group on each machine; -1: not known
  std::uint32_t event = no_index;      ///< of its trace
  std::uint32_t meeting = no_meeting;  ///< the same on all ranks that show it; no_meeting: on no other
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
  [[nodiscard]] Seconds step(std::span<const double> factors, const std::vector<GradientMessage>&) const;
};

struct RecordedJob {
  std::vector<RecordedRank> ranks;
  /// The ranks meet in their collectives (schedule/lockstep.hpp); else each is taken by itself, with what it waited.
  bool in_lockstep = false;
  std::int64_t workers = 1;  ///< of the traced job
  double batch_samples = 0;  ///< of a worker; 0: not known
  double noise = 0;          ///< Replay::noise
  double replay_error = 0;   ///< of the rank that is furthest off
  /// The median step as the replay rebuilds it, which may do other work than the calibration step of the ranks (an
  /// optimizer that runs every second step): what does not depend on the cluster is added; 0: that of the ranks.
  Seconds usual;
  double work = 0;  ///< `fingerprint_of` its profile
  /// The links that its collectives show inside a machine, between machines, and where nobody knows which these are.
  std::optional<Link> inside{}, network{}, anywhere{};
  Profile timed{};  ///< what tells them, and what its library takes beyond them: times of transfers alone

  /// The name under which it stands among plans.
  static constexpr const char* name = "recorded";
  /// The usual step as it was recorded, rebuilt.
  [[nodiscard]] Seconds step() const;
  /// The calibration step of all ranks if each collective takes so many times what it was recorded to take.
  [[nodiscard]] Seconds step(std::span<const std::vector<double>> factors) const;
  /// How much of a collective's time is waiting that other ranks tell, as they meet there.
  [[nodiscard]] Seconds told_by(const RecordedCollective&) const;
  /// False for a profile of a job that was changed.
  [[nodiscard]] bool is_of(const Profile& profile) const;
  /// The job on another cluster. Inapplicable where that knows no collective, unless it is `where_it_ran`: there they
  /// stay as they were.
  [[nodiscard]] Answer<Prediction> on(const Cluster&, bool where_it_ran = false) const;
  /// Whether the bytes of any of its collectives are known, without which nothing is known of them elsewhere.
  [[nodiscard]] bool knows_a_size() const;
  /// Why the messages of its gradients cannot be exchanged; empty: they can.
  [[nodiscard]] std::string fixed() const;
  /// The job on another cluster, its gradients sent by another plan. `profile` is the one that it was made with.
  /// Inapplicable with the reason for plans that do more than that (messages_of), and as `on`.
  [[nodiscard]] Answer<Prediction> with(const PlanSpec&, const Profile& profile, const Cluster&) const;
  /// What of one rank's step is not as it was recorded.
  struct Laid {
    std::vector<Picoseconds> times;  ///< of the free tasks of its blocks
    std::vector<Picoseconds> waits;  ///< how long each of them waits for the other ranks; empty: they do not meet
    std::vector<GradientMessage> messages;
  };
  /// The same of each rank, to be drawn (recorded_timeline.hpp); of a job whose messages cannot be exchanged that of
  /// `on`, whatever the plan. Inapplicable as these.
  [[nodiscard]] Answer<std::vector<Laid>> laid_out(const PlanSpec&, const Profile& profile, const Cluster&) const;
};

/// The calibration step of every trace. Inapplicable when one of them cannot be replayed, or has no collectives.
/// Without a profile of the traces nothing is known of gradients.
[[nodiscard]] Answer<RecordedJob> recorded_job_of(std::span<const Trace>, const Profile* = nullptr);
/// A number that tells profiles apart which differ in any cost, size or batch.
[[nodiscard]] double fingerprint_of(const Profile&);
/// False for one that was put together by hand and would be read out of bounds.
[[nodiscard]] bool is_whole(const RecordedJob&);

}  // namespace stepcast
