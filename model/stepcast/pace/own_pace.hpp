#pragma once
// Room pace: how late steps become, and at what pace a job goes whose workers do not wait for one another.
//
//   step  |====|====|== time-out ==|====|      worker 0 |===|===|===|    worker 1 |=====|=====|
//
// It may include base, profile, cluster, plan and schedule.
//
// Own pace: what slow and irregular workers cost a job whose workers do not wait for one another, or not at once
// (internal to the library).
//
//   lead = infinity (asgd)   every worker takes its own step time T_w: the job takes P / sum_w (1 / T_w) for P worker
//                            steps, the harmonic mean of theirs
//   lead = s (ssp)           a worker is held once it is s steps ahead of the slowest: end_w(i+1) = max(end_w(i),
//                            max_v end_v(i-s)) + T_w(i). Workers that are slow in every step set the pace of all,
//                            whatever s; of jitter, larger s leaves less
//
// So the step of such a job is a statement on its samples per second: P batches over it. Jitter under a finite lead is
// simulated with the recursion above over 1000 steps of at most 1000 workers, always with the same draws, relative to
// the same simulation with s = 0, whose value is known by quadrature (stragglers.hpp). Invariants: s = 0 is the step of
// synchronous workers, no larger s takes longer, and lead = infinity is no slower than any s. Not modelled: what a slow
// worker leaves of cards that all share; jitter that the messages under way would even out within a worker.
#include <stepcast/base/error.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/cluster/stragglers.hpp>

#include <functional>
#include <vector>

namespace stepcast {

/// Workers that are alike: how many, and what is wrong with them (nothing, for the healthy ones).
struct WorkerKind {
  double workers = 0;
  SlowWorkers fault{};
  /// Its step in the mean over its own jitter, and the compute factor (its own one included) whose step takes that.
  Seconds step{};
  double typical_factor = 1;
};
struct JobPace {
  Seconds step;  ///< P batches over the job's rate of samples
  std::vector<WorkerKind> kinds;
};
/// The step of a worker with a fault of its kind (compute_factor aside) whose compute takes `factor` times as long.
using StepOfWorker = std::function<Seconds(const SlowWorkers& fault, double factor)>;

/// The cluster as a worker of one kind finds it: links are as slow as its own.
[[nodiscard]] Cluster cluster_of_kind(Cluster, const SlowWorkers& fault);
/// `lead` > 0; `step_of` is asked about twenty times for each kind of workers. `together`: the step if all waited for
/// the slowest one (asked for where the lead is finite).
[[nodiscard]] JobPace job_pace(const Cluster&, double lead, const StepOfWorker& step_of,
                               const std::function<Seconds()>& together);

}  // namespace stepcast
