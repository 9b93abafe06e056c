#pragma once
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
#include <stepcast/whatif/input_pipeline.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// What an axis changes.
enum class SweepQuantity : std::uint8_t {
  bandwidth,  ///< of the network as a transport reaches it (goodput; "10GbE": that of TCP over it); where no point has
              ///< two machines, inside them
  latency,    ///< of the same link, a step
  workers,    ///< in all; whole machines
  batch,      ///< samples per worker (the what-if `batch`)
  compute,    ///< factor by which compute is faster
  option,     ///< of every plan whose strategy or modifier has an option of that name
  layout,     ///< a number of the layout in front of each plan: tp, pp, mb, zero, ...
};

struct SweepAxis {
  SweepQuantity quantity = SweepQuantity::bandwidth;
  std::string name;            ///< "bandwidth", "workers", or that of the option: "bucket", "ddp.bucket"
  std::vector<double> values;  ///< SI, in the order in which they are visited
  /// What the values of an option are; null for all else.
  const OptionSpec* option = nullptr;
};
/// Reads "bandwidth=1Gb/s..400Gb/s", "workers=2..1024", "bucket=1MiB,5MiB,25MiB", "ddp.bucket=1MiB..64MiB",
/// "latency=1us..1ms:7". A range is spaced evenly on a log scale: by factors of two, its end in any case, or in as many
/// points as stand behind the colon; whole where the quantity counts workers, bytes or things. Options are those of
/// `plans`, of the preset plans if there are none. Throws InputError.
[[nodiscard]] SweepAxis sweep_axis_of(std::string_view text, std::span<const Plan> plans);
/// The same from a name and SI values. Throws InputError.
[[nodiscard]] SweepAxis sweep_axis_of(std::string_view name, std::span<const double> values,
                                      std::span<const Plan> plans);
/// "25 Gb/s", "64": a value of an axis for people.
[[nodiscard]] std::string value_text(const SweepAxis&, double value);
/// The name of an axis in tables, with its unit: "bandwidth_bytes_per_s", "workers", "bucket_bytes".
[[nodiscard]] std::string column_of(const SweepAxis&);

/// A question and the grid over which it is asked. With a pipeline the profile is as traced.
struct SweepQuestion : Question {
  std::vector<SweepAxis> axes{};
  std::vector<Plan> plans{};  ///< empty: what `recommend` would rank, all exact; with an axis of the layout: DDP
  bool tune = false;          ///< tune the options of each plan anew at each point, those of an axis excepted

  [[nodiscard]] std::size_t points() const;
};
/// The plans of a question, named or preset.
[[nodiscard]] std::vector<Plan> plans_of(const SweepQuestion&);

struct SweepRow {
  std::size_t point = 0;                 ///< position in the grid
  std::vector<double> values;            ///< one for each axis
  std::string plan;                      ///< as asked, its options as at this point and as tuned
  std::optional<Prediction> prediction;  ///< without its critical path, which would fill the memory
  std::string inapplicable;              ///< why there is no prediction
  bool best = false;                     ///< of the rows of its point; the first of equals
};

struct SweepOptions {
  unsigned threads = 0;                    ///< 0: as many as the machine has cores
  std::size_t first = 0, last = SIZE_MAX;  ///< range of points, without the last; clipped to the grid
  std::function<void(double)> progress{};  ///< told the share that is done, now and then; may be empty
};
/// The rows of the range, in order. Throws InputError for a question without an axis, with one twice, with an option
/// that no plan has, or with a grid of more than `most_sweep_rows` rows.
[[nodiscard]] std::vector<SweepRow> swept(const SweepQuestion&, const SweepOptions& = {});
inline constexpr std::size_t most_sweep_rows = 10'000'000;

/// One header line (`header`) and a line a row; SI numbers with the unit in the column's name
/// ("bandwidth_bytes_per_s"), nothing where a number is not known. compute_s, exposed_s, codec_s, input_stall_s and
/// idle_s add up to iteration_s.
void write_sweep_csv(std::ostream&, const SweepQuestion&, std::span<const SweepRow>, bool header = true);
/// One JSON object a line, with the same names, and its schema in each: any line stands for itself.
void write_sweep_json_lines(std::ostream&, const SweepQuestion&, std::span<const SweepRow>);
/// Step times against the first axis, a curve for each plan, a panel for each value of the other axes: one SVG
/// (chart.hpp). `rows`: all of the grid. Throws InputError for more than `most_sweep_panels` panels.
void write_sweep_svg(std::ostream&, const SweepQuestion&, std::span<const SweepRow>);
inline constexpr std::size_t most_sweep_panels = 12;
/// Throws that InputError: for those who want to know before the rows are there.
void check_panels(const SweepQuestion&);

/// Where, along the first axis, another plan becomes the best.
struct CrossOver {
  double value = 0;
  std::string below, above;      ///< plans, as asked
  std::vector<double> others{};  ///< values of the other axes there
};
/// A plan gives way at the first point at which another one is faster by more than 0.5 %; the value is where the two
/// took the same time last before it, found by bisection with a prediction at each step (to a thousandth, or to one
/// machine), not by interpolation. Where a third plan is best in between, both changes are told. With `tune`, options
/// between two points are as tuned at either of them, whichever is faster.
[[nodiscard]] std::vector<CrossOver> cross_overs_of(const SweepQuestion&, std::span<const SweepRow>);

}  // namespace stepcast
