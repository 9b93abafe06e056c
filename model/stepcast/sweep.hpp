#pragma once
// Sweep: the step times of some plans over a grid of clusters, batches and options.
//
// An axis is a quantity with the values that it takes; the grid is the product of all axes, the first one outermost,
// and a point of it is answered by one row for each plan, in the order in which plans were named. Points are
// independent, so that a range of them can be computed anywhere: the rows of [0, n) are those of [0, k) followed by
// those of [k, n), byte for byte, on any number of threads. A row whose plan cannot run there says why. Not modelled:
// layouts (a plan here divides the batch only); what a batch does to convergence; step times between the points.
#include <stepcast/prediction.hpp>

#include <cstddef>
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
  bandwidth,  ///< of the network as a transport reaches it (goodput); with one machine of its inside links
  latency,    ///< of the same link, a step
  workers,    ///< in all; whole machines
  batch,      ///< samples per worker (the what-if `batch`)
  compute,    ///< factor by which compute is faster
  option,     ///< of every named plan whose strategy has an option of that name
};

struct SweepAxis {
  SweepQuantity quantity = SweepQuantity::bandwidth;
  std::string name;            ///< "bandwidth", "workers", or that of the option: "bucket"
  std::vector<double> values;  ///< SI, in the order in which they are visited
};
/// Reads "bandwidth=1Gb/s..400Gb/s", "workers=2..1024", "bucket=1MiB,5MiB,25MiB", "latency=1us..1ms:7". A range is
/// spaced evenly on a log scale: by factors of two, or in as many points as stand behind the colon. Values of workers
/// are whole and doubled. Throws InputError.
[[nodiscard]] SweepAxis sweep_axis_of(std::string_view text, std::span<const PlanSpec> plans);
/// "25 Gb/s", "64": a value of an axis for people.
[[nodiscard]] std::string value_text(const SweepAxis&, double value);

struct SweepQuestion {
  Profile profile;
  Cluster cluster;
  std::vector<SweepAxis> axes;
  std::vector<PlanSpec> plans;  ///< empty: what `recommend` would rank, all exact
  bool tune = false;            ///< tune the options of each plan anew at each point, those of an axis excepted

  [[nodiscard]] std::size_t points() const;
};

struct SweepRow {
  std::size_t point = 0;       ///< position in the grid
  std::vector<double> values;  ///< one for each axis
  std::string plan;            ///< as asked, its options as tuned
  std::optional<Prediction> prediction;
  std::string inapplicable;  ///< why there is no prediction
  bool best = false;         ///< of the rows of its point; the first of equals
};

struct SweepOptions {
  unsigned threads = 0;                    ///< 0: as many as the machine has cores
  std::size_t first = 0, last = SIZE_MAX;  ///< range of points, clipped to the grid
  std::function<void(double)> progress{};  ///< told the share that is done, now and then; may be empty
};
/// The rows of the range, in order. Throws InputError for a grid of more than `most_sweep_rows` rows and for axes that
/// no plan has.
[[nodiscard]] std::vector<SweepRow> swept(const SweepQuestion&, const SweepOptions& = {});
inline constexpr std::size_t most_sweep_rows = 10'000'000;

/// One header line (`header`) and a line a row; SI numbers with the unit in the column's name
/// ("bandwidth_bytes_per_s").
void write_sweep_csv(std::ostream&, const SweepQuestion&, std::span<const SweepRow>, bool header = true);
/// One JSON object a line, with the same names.
void write_sweep_json_lines(std::ostream&, const SweepQuestion&, std::span<const SweepRow>);
/// Step times against the first axis, a curve for each plan, a panel for each value of a second axis: one SVG
/// (chart.hpp).
void write_sweep_svg(std::ostream&, const SweepQuestion&, std::span<const SweepRow>);

/// Where, along the first axis, another plan becomes the best, between neighbouring points of the grid: the value at
/// which both take the same time by interpolation on log scales.
struct CrossOver {
  double value = 0;
  std::string below, above;  ///< plans
};
[[nodiscard]] std::vector<CrossOver> cross_overs_of(const SweepQuestion&, std::span<const SweepRow>);

}  // namespace stepcast
