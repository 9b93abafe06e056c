#pragma once
// Device fit report: the numbers of a calibrated device and how far off every row is (text/device_fit.cpp).
//
// Text and JSON (schema "stepcast.device_fit/1") are made from the same value.
#include <stepcast/calibration/device_fit.hpp>

#include <iosfwd>
#include <span>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// The rows that calibrated and, predicted by the device, those that did not.
struct DeviceFitReport {
  const DeviceFit& fit;
  std::span<const MeasuredStep> rows, held_out;
  std::vector<double> held_out_errors;  ///< predicted / measured - 1
};
void write_device_fit_text(std::ostream&, const DeviceFitReport&);
void write_device_fit_json(std::ostream&, const DeviceFitReport&);

}  // namespace stepcast
