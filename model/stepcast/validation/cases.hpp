#pragma once
// Cases: numbers that others measured or published, each with the inputs of its prediction; suites of them, and their
// JSON (schema "stepcast.cases/1").
//
// Example: "VGG-16 on 8 workers of 10GbE by ddp took 0.302 s (survey, table 4)" with a tolerance of 10 %. Invariant:
// ids are unique within a suite, and a misspelt key is refused. Not modelled: errors that are correlated between cases.
#include <stepcast/base/error.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/size_bands.hpp>
#include <stepcast/layout/layout.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/roofline/device.hpp>
#include <stepcast/whatif/input_pipeline.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

enum class CaseSplit : std::uint8_t { calibration, held_out };
[[nodiscard]] std::string_view name_of(CaseSplit);

/// What a case compares.
enum class Subject : std::uint8_t {
  step,        ///< the step time of a plan
  ratio,       ///< the step time of a plan over that of another plan
  collective,  ///< the time of an all-reduce, on links that are fitted to the logs of other world sizes
  operation,   ///< the time of one operation by one collective algorithm
  replay,      ///< a trace's step, rebuilt from one of its steps, against its other steps
  memory,      ///< what the fullest device holds under a layout
};

/// What its values are in: "s", "ratio", "bytes".
[[nodiscard]] std::string_view unit_of(Subject);

/// From what a case is predicted. Profiles and clusters are named: in the suite, in the program, or a file.
struct CaseInputs {
  std::string profile;  ///< a profile or (Subject::replay: only) a trace
  std::string cluster;
  std::int64_t workers = 0;  ///< 0: as many as the cluster has
  PlanSpec plan;
  std::string model;             ///< Subject::step: a described model (model_shape.hpp) in place of a profile
  std::string device;            ///< the device of a described model: in the suite, in the program, or a file
  std::optional<Layout> layout;  ///< of a described model or of a profile's, in front of the plan
  double global_batch = 0;       ///< the batch of a layout
  PlanSpec over;                 ///< Subject::ratio: the plan to compare with
  std::string pipeline;          ///< what feeds the step: named in the suite, or a file; empty: the profile's own input
  std::optional<double> cached_share;          ///< replaces the pipeline's
  std::optional<std::int64_t> loader_workers;  ///< replaces the pipeline's
  /// Subject::memory: "allocated" (by the framework's tensors), "used" (of the card), or "exceeded": the job ran out of
  /// the device's memory, which is what is compared with.
  std::string memory;
  [[nodiscard]] bool exceeds_memory() const { return memory == "exceeded"; }
  double steps = 1;                    ///< Subject::step: the measured time covers this many steps
  Seconds Breakdown::*part = nullptr;  ///< Subject::step: only this part of the step is compared
  Seconds single_worker;               ///< measured step of one worker, to which the profile is scaled; 0: as it is
  Seconds traced_step;            ///< "exchanged": of the traced job without its profiler; 0: as it is in the traces
  Seconds extra_optimizer;        ///< cost of the update that the single-worker step does not contain
  std::vector<std::string> logs;  ///< Subject::collective: files to fit
  /// Files of one job, and what is compared: its step by the model that gives advice, "as_traced" (as_traced.hpp); its
  /// recorded step with the messages of a plan, "exchanged" (recorded_job.hpp; Subject::step, measured apart); of a
  /// pipelined job (pipeline_replay.hpp) "rebuilt", "forecast", "schedule" (all Subject::replay), "unevenness",
  /// "slow_worker", "slow_stage" (Subject::ratio).
  std::vector<std::string> traces;
  std::string figure;
  Operation operation{};      ///< Subject::operation
  std::string algorithm;      ///< Subject::operation: that of the cluster where it is empty
  Bytes size;                 ///< Subject::collective, operation
  std::string kind, machine;  ///< Subject::operation of a forecast: what was left out, and of which machines
};

struct ValidationCase {
  std::string id;      ///< unique within the suite
  std::string source;  ///< publication and table
  std::string grade;   ///< how the number is known: "source", "derived", "measured"; "exact": computed, not measured
  std::string method;  ///< the source's name for the plan, under which rankings compare it
  Subject subject = Subject::step;
  CaseInputs inputs;
  double measured = 0;   ///< seconds; a ratio for Subject::ratio, bytes for memory; from the trace for replay
  double spread = 0;     ///< standard deviation as published, same unit
  double tolerance = 0;  ///< largest relative error that passes
  CaseSplit split = CaseSplit::held_out;
  std::optional<double> recorded_error;  ///< signed, relative
  std::string excluded;                  ///< why the number must not be used; empty: it is used
};

/// Steps of described models as a CSV (measured_steps_of_csv) that is a file: one case a row. Rows that the suite has
/// already, such as those to which the device was fitted, are left out.
struct MeasuredStepTable {
  std::string file;
  ValidationCase common;  ///< what all rows share; its inputs hold the plan where the columns say nothing
};

/// Measured collectives in a file: an nccl-tests log, or those rows of a CSV whose columns say what `where` says.
struct MeasuredRows {
  std::string file;
  std::vector<std::pair<std::string, std::vector<std::string>>> where;  ///< column, and the values that count
};

/// Collectives on some counts or sizes, predicted from others of the same machines: one case a size.
struct CollectiveForecast {
  std::string kind;     ///< what is left out: "sizes", "counts beyond", ...
  std::string machine;  ///< which machines, with their setting
  std::string cluster;  ///< their shape, by name: nodes and links are fitted
  std::vector<MeasuredRows> fit, predict;
  bool sizes_out = false;  ///< every second size of `fit` is predicted from the others
  ValidationCase common;   ///< what all cases share
};

/// What others reached on the same numbers: the suite fails as a whole with a larger mean error.
struct PublishedError {
  double mean = 0;  ///< the mean of |error|; 0: none
  std::string source;
};

struct ValidationSuite {
  std::string name, summary;
  std::map<std::string, Profile> profiles;  ///< its own, besides the shipped ones
  std::map<std::string, Cluster> clusters;
  std::map<std::string, Device> devices;
  std::map<std::string, InputPipeline> pipelines;
  std::vector<ValidationCase> cases;
  std::vector<MeasuredStepTable> tables;
  std::vector<CollectiveForecast> forecasts;
  PublishedError published;
  /// How many of the steps that ran, the device's memory known, were predicted to fit when last recorded.
  std::optional<std::int64_t> recorded_accepted;
  /// Mean of |error| over the held-out cases when last recorded: the ratchet of rows in tables.
  std::optional<double> recorded_mean_error;
  /// The same for what forecasts leave out: median and P90 of |error| in each band of sizes.
  struct MedianAndP90 {
    double median = 0, p90 = 0;
  };
  std::map<std::string, std::array<std::optional<MedianAndP90>, size_band_count>> recorded_by_size{};
};

/// Reads schema "stepcast.cases/1": one object per case, `defaults` for what the cases share. Throws InputError (JSON
/// pointer, suggestion for unknown keys).
[[nodiscard]] ValidationSuite suite_of_json(std::string_view text, std::string_view source);
/// Adds a case for every row of a table (measured_steps_of_csv), except those whose id the suite has.
void add_rows(ValidationSuite&, const MeasuredStepTable&, std::string_view csv, std::string_view source);
/// The suites that the program carries (validation/cases/*.json), by name.
[[nodiscard]] std::vector<std::string> shipped_suite_names();
/// Throws InputError for an unknown name.
[[nodiscard]] ValidationSuite shipped_suite(std::string_view name);

}  // namespace stepcast
