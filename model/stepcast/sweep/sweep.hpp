#pragma once
// Room sweep: step times of plans over a grid of clusters, batches and options.
//
//   bandwidth   ddp      dear
//   1 Gb/s      1.92 s   1.71 s   *
//   10 Gb/s     0.31 s   0.33 s         * best;  the cross-over lies between the two
//
// It may include base, profile, cluster, plan, whatif, prediction, layout and question.
//
// Sweep: the step times of some plans over a grid of clusters, batches and options.
//
// An axis is a quantity with the values that it takes; the grid is the product of all axes, the first one outermost,
// and a point of it is answered by one row for each plan, in the order in which plans were named. Points are
// independent, so that a range of them can be computed anywhere: the rows of [0, n) are those of [0, k) followed by
// those of [k, n), byte for byte, on any number of threads. A row whose plan cannot run there says why. Whatever the
// order of the axes, a point is made in this one: batch and compute of the profile, machines, bandwidth and latency of
// the cluster, then the input pipeline that feeds them, then the what-ifs of the question, then the layout. Not
// modelled: what a batch does to convergence; step times between the points.
#include <stepcast/question/question.hpp>
#include <stepcast/sweep/axis.hpp>
#include <stepcast/whatif/input_pipeline.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// A question and the grid over which it is asked. With a pipeline the profile is as traced.
struct SweepQuestion : Question {
  std::vector<SweepAxis> axes{};
  /// Empty: what `recommend` would rank, all exact; with an axis of the layout DDP.
  std::vector<Plan> plans{};
  bool all_plans = false;  ///< where none is named those as well that need other software than PyTorch, or servers
  /// Extra server machines at every point; nothing: so many for each machine as the cluster has.
  std::optional<std::int64_t> servers{};
  bool tune = false;  ///< tune the options of each plan anew at each point, those of an axis excepted
  /// What a plan takes at a point, in place of the model of layers (`predicted`), unless layouts or what-ifs are asked
  /// for. Threads ask it together. May be empty.
  std::function<Answer<Prediction>(const Profile&, const Cluster&, const PlanSpec&)> model{};
  /// What else is known of a step that the model of layers answered, and of its interval. Threads ask it together. May
  /// be empty.
  std::function<void(Prediction&, const Profile&, const Cluster&)> second_opinion{};

  [[nodiscard]] std::size_t points() const;
};
/// The plans of a question, named or preset.
[[nodiscard]] std::vector<Plan> plans_of(const SweepQuestion&);
/// Bandwidth and latency are those between machines, since some point has several; else those inside one.
[[nodiscard]] bool over_network(const SweepQuestion&);
/// Some plan is answered as a layout, at some point.
[[nodiscard]] bool asks_for_layouts(const SweepQuestion&);

struct SweepRow {
  std::size_t point = 0;                 ///< position in the grid
  std::vector<double> values;            ///< one for each axis
  std::string plan;                      ///< as asked, its options as at this point and as tuned
  std::optional<Prediction> prediction;  ///< without its critical path, which would fill the memory
  std::string inapplicable;              ///< why there is no prediction
  bool best = false;                     ///< the fastest row of its point; the first one of equals
};

struct SweepOptions {
  unsigned threads = 0;                    ///< 0: as many as the machine has cores
  std::size_t first = 0, last = SIZE_MAX;  ///< range of points, without the last; clipped to the grid
  std::function<void(double)> progress{};  ///< told the share that is done, now and then; may be empty
};
/// The rows of the range, in order. Throws InputError for a question without an axis, with one twice, with an option
/// that no plan has, or with a grid of more than `most_sweep_rows` rows.
[[nodiscard]] std::vector<SweepRow> swept(const SweepQuestion&, const SweepOptions& = {});

}  // namespace stepcast
