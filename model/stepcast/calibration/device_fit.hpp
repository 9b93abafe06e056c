#pragma once
// Device fit: the roofline of a device from a few measured steps.
//
// Least squares over the logarithms of predicted / measured times of the rows, over seven numbers of the device
// (the share of the peak that products reach, where small results and short sums halve it, memory bandwidth, kernel
// floor, host issue; where rows have fused attention, the share that this reaches, backward in the start's proportion),
// by Levenberg-Marquardt with bounds, on the very predictions that layouts get (layout_prediction.hpp). Large residuals
// count linearly (Huber), so that a few odd rows do not bend the device. Rows that calibrate are named so and never
// counted as evidence; leave-one-out residuals are the device's relative error.
//
// Fewer steps than numbers correct a device that is known beforehand (corrected_device): each number stays near its
// start, as firmly as it is known without them, and the error is what so few steps leave. Not modelled: rows of
// different devices, and links that differ from those of the cluster.
#include <stepcast/calibration/measured_steps.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/roofline/device.hpp>

#include <span>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// Of the residuals of a fit that leaves so many degrees of freedom (at least one).
[[nodiscard]] double root_mean_square(const std::vector<double>& values, std::size_t freedom);
/// Step time of one row as layouts are predicted. Inapplicable with the row's source.
[[nodiscard]] Answer<Seconds> predicted_step(const Device&, const Cluster&, const MeasuredStep&);

struct DeviceFit {
  Device device;
  std::vector<double> residuals;  ///< predicted / measured - 1, in the order of the rows
  /// The same, each row predicted by a fit without it, to first order; empty: not asked for.
  std::vector<double> left_out;
  std::vector<std::string> notes;
};
/// `start`: what is known beforehand (peaks from a data sheet; half_m and half_n from measured products, beside which
/// half_k and half_output stay as they are). Inapplicable with fewer rows than free numbers.
[[nodiscard]] Answer<DeviceFit> device_of_steps(const Device& start, const Cluster&, std::span<const MeasuredStep>,
                                                bool leave_one_out = false);

/// A number of a device that measured steps moved.
struct ChangedNumber {
  std::string name;   ///< "matrix efficiency"
  std::string words;  ///< "matrix efficiency 0.644 -> 0.552"
  double before = 0, after = 0;
};
/// A device as measured steps correct it, and what they say of it before and after.
struct DeviceCorrection {
  Device device;
  double error_before = 0;  ///< relative_error of the device before, or what is known of those without one
  RatesOf rates_before = RatesOf::steps;  ///< of a device of which no step had been measured
  std::vector<MeasuredStep> steps;
  std::vector<bool> micro_batch_assumed;  ///< of each step: its plan did not say it, and does now
  std::vector<double> before, after;      ///< predicted / measured - 1 of each step
  std::vector<ChangedNumber> changed;     ///< by more than a hundredth
  std::vector<std::string> doubts{};      ///< steps of which the model says that they do not fit into the memory
  [[nodiscard]] double residual() const;  ///< root mean square of `after`
  /// How far steps are from one another by their own, which no device explains: root of the unbiased variance of
  /// `after`; 0 of one step.
  [[nodiscard]] double disagreement() const;
};
/// By one step or more; repeats of one question count as one step together, and are predicted once. The error that is
/// left is never less than the steps differ by: where they contradict one another it is more than before. Throws
/// InputError, which names the step's source, where a step cannot be predicted, is shorter than its operations take at
/// the peak of all devices, or is nowhere near what such a device can take.
[[nodiscard]] DeviceCorrection corrected_device(const Device& start, const Cluster&, std::vector<MeasuredStep>);
/// In words: each step before and after, what changed, and the interval of the compute before and after.
[[nodiscard]] std::vector<std::string> words_of(const DeviceCorrection&);

}  // namespace stepcast
