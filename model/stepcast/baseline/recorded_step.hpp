#pragma once
// RecordedStep: the step of one rank as it was recorded, as blocks and as the graph that these stand for (internal to
// the library).
//
// Its free tasks are the parts of its collectives, and, where its gradients can be sent in other messages, the hosts,
// gates and messages of these behind them. Invariant: with their recorded times the graph is that of the replay.
#include <stepcast/baseline/recorded_job.hpp>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace stepcast {

struct RecordedStep {
  RecordedRank rank;
  TaskGraph graph;                  ///< of which the blocks of `rank` are made; empty: it has no collectives
  std::vector<std::uint32_t> free;  ///< its tasks that are the free ones of the blocks, in their order
};
/// Without a profile nothing is known of gradients. `waiting` of several ranks: by event, for whoever came last.
/// `world` is the number of workers.
[[nodiscard]] RecordedStep recorded_step_of(const Trace&, const replaying::Calibration&, const Profile*,
                                            const std::unordered_map<std::uint32_t, Seconds>* waiting,
                                            std::int64_t world);

}  // namespace stepcast
