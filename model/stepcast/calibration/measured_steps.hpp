#pragma once
// Measured steps: training steps of described models that somebody timed, one row of a table each.
//
// Example: the columns "model,plan,devices,global batch,step_s" and the row
// "gpt:hidden=1024,layers=24,tp=8,8,64,0.412". Invariant: a row keeps file and line, so that every number of a fit can
// be traced back. Not modelled: spread of a measurement.
#include <stepcast/base/units.hpp>
#include <stepcast/layout/layout.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// A measured training step of a described model.
struct MeasuredStep {
  std::string model;  ///< a description (model_shape.hpp)
  LayoutPlan plan;
  std::int64_t devices = 1;
  double global_batch = 1;
  Seconds time;
  std::string source;  ///< file and line
};

/// What is known of measured steps that do not say it themselves; 0 and empty: a table has to have the column.
struct StepDefaults {
  LayoutPlan plan{};  ///< where a table has no column of plans
  std::string model{};
  std::int64_t devices = 0;
  double global_batch = 0;     ///< samples on all devices
  double batch_of_device = 0;  ///< in place of `global_batch`: samples on each
};
/// A CSV with a header: `model` (a description) or `hidden`, `heads`, `layers`, `seq` columns; `plan` or `tp`, `dp`,
/// `pp`, `micro batch` columns; `global batch`; `devices`; an iteration time with its unit ("step_s", "iteration time
/// (ms)"). Names are read word by word, whatever separates them. `defaults` is what columns do not say;
/// without a plan column, stages hold what programs with the model's kernels deal out to them.
/// A time in a column without a unit has its own: "12.3 s". Devices that no column tells are those of a layout that
/// says all its degrees, else those of `defaults`. Throws InputError with line and column.
[[nodiscard]] std::vector<MeasuredStep> measured_steps_of_csv(std::string_view text, std::string_view source,
                                                              const StepDefaults& defaults);

/// True for "layout(tp=8)/ddp=12.3 s", a plan and its step; false for the name of a table.
[[nodiscard]] bool is_measured_step(std::string_view text);
/// Reads such a text. `source` is how errors and the step name it. Throws InputError.
[[nodiscard]] MeasuredStep measured_step_of(std::string_view text, std::string_view source,
                                            const StepDefaults& defaults);

/// `count` rows (indices, ascending) that fill the space of what the rows differ in: layers, hidden size, sequence,
/// degrees, micro-batch and micro-batches, each by its logarithm. Begins with the row nearest to the middle, then takes
/// the row farthest from those taken (Gonzalez 1985), the first of several. Blind to the measured times.
[[nodiscard]] std::vector<std::size_t> spread_rows(std::span<const MeasuredStep>, std::size_t count);

}  // namespace stepcast
