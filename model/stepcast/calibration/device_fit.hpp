#pragma once
// Device fit: the roofline of a device from a few measured steps.
//
// Least squares over the logarithms of predicted / measured times of the rows, over seven numbers of the device
// (the share of the peak that products reach, where small results and short sums halve it, memory bandwidth, kernel
// floor, host issue; where rows have fused attention, the share that this reaches, backward in the start's proportion),
// by Levenberg-Marquardt with bounds, on the very predictions that layouts get (layout_prediction.hpp). Large residuals
// count linearly (Huber), so that a few odd rows do not bend the device. Rows that calibrate are named so and never
// counted as evidence; leave-one-out residuals are the device's relative error. Not modelled: rows of different
// devices.
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
}  // namespace stepcast
