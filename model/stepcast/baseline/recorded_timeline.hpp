#pragma once
// RecordedTimeline: the recorded step on another cluster, or with other messages of its gradients, drawn beside the one
// that was measured.
//
// Each rank has the rows of its replay (replay/timeline.hpp). What is exchanged stands in the row that carried the
// recorded messages, by what it sends; a message begins when the last rank has come, and what a rank waits for that
// long is a slice of its own:
//
//   thread gloo   rebuilt   | all-reduce 4.0 MB | waits for other ranks | all-reduce 19.2 MB |
//
// Invariant: the step that is drawn takes what RecordedJob::with (or `on`) says of the calibration step. Not drawn: the
// difference between that step and the usual one (RecordedJob::usual).
#include <stepcast/baseline/recorded_job.hpp>
#include <stepcast/replay/timeline.hpp>

#include <span>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// One for each trace, the ones that the job and the profile were made of. Inapplicable as RecordedJob::laid_out.
[[nodiscard]] Answer<std::vector<ReplayTimeline>> recorded_timelines_of(std::span<const Trace>, const RecordedJob&,
                                                                        const Profile&, const PlanSpec&,
                                                                        const Cluster&);

}  // namespace stepcast
