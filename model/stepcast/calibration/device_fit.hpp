#pragma once
// Device fit: the roofline of a device from a trace or from a few measured steps.
//
// Least squares over the logarithms of predicted / measured times of the rows, over six numbers of the device (the
// share of the peak that products reach, where small results and short sums halve it, memory bandwidth, kernel floor,
// host issue), by Levenberg-Marquardt with bounds, on the very predictions that layouts get (layout_prediction.hpp).
// Large residuals count linearly (Huber), so that a few odd rows do not bend the device. Rows that calibrate are named
// so and never counted as evidence; leave-one-out residuals are the device's relative error. Not modelled: rows of
// different devices.
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/layout/layout.hpp>
#include <stepcast/roofline/device.hpp>
#include <stepcast/trace/trace.hpp>

#include <iosfwd>
#include <span>
#include <string>
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
/// A CSV with a header: `model` (a description) or `hidden`, `heads`, `layers`, `seq` columns; `plan` or `tp`, `dp`,
/// `pp`, `micro batch` columns; `global batch`; `devices`; an iteration time with its unit ("step_s", "iteration time
/// (ms)"). Names are read word by word, whatever separates them. `defaults` is the plan where columns say nothing;
/// without a plan column, stages hold equal numbers of blocks.
/// Throws InputError with line and column.
[[nodiscard]] std::vector<MeasuredStep> measured_steps_of_csv(std::string_view text, std::string_view source,
                                                              const LayoutPlan& defaults);
/// Step time of one row as layouts are predicted. Inapplicable with the row's source.
[[nodiscard]] Answer<Seconds> predicted_step(const Device&, const Cluster&, const MeasuredStep&);

/// `count` rows (indices, ascending) that fill the space of what the rows differ in: layers, hidden size, sequence,
/// degrees, micro-batch and micro-batches, each by its logarithm. Begins with the row nearest to the middle, then takes
/// the row farthest from those taken (Gonzalez 1985), the first of several. Blind to the measured times.
[[nodiscard]] std::vector<std::size_t> spread_rows(std::span<const MeasuredStep>, std::size_t count);

struct DeviceFit {
  Device device;
  std::vector<double> residuals;  ///< predicted / measured - 1, in the order of the rows
  std::vector<double>
      left_out;  ///< the same, each row predicted by a fit without it, to first order; empty: not asked for
  std::vector<std::string> notes;
};
/// `start`: what is known beforehand (peaks from a data sheet). Inapplicable with fewer rows than free numbers.
[[nodiscard]] Answer<DeviceFit> device_of_steps(const Device& start, const Cluster&, std::span<const MeasuredStep>,
                                                bool leave_one_out = false);
/// The rows that calibrated and, predicted by the device, those that did not.
struct DeviceFitReport {
  const DeviceFit& fit;
  std::span<const MeasuredStep> rows, held_out;
  std::vector<double> held_out_errors;  ///< predicted / measured - 1
};
void write_device_fit_text(std::ostream&, const DeviceFitReport&);
/// JSON with schema "stepcast.device_fit/1".
void write_device_fit_json(std::ostream&, const DeviceFitReport&);

/// From the kernels of a trace that name their products' shapes (record_shapes) and times; what the trace does not show
/// stays as in `start`. Inapplicable without such kernels.
[[nodiscard]] Answer<DeviceFit> device_of_trace(const Device& start, const Trace&);

}  // namespace stepcast
