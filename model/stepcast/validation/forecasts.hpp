#pragma once
// Forecasts of collectives: a cluster calibrated to some counts or sizes of what was measured, and a case for each of
// the others.
//
// Example: nccl-tests of 2, 4, 8 and 16 devices, and 22 sizes of an all-reduce on 64. Not modelled: machines that
// differ between the logs.
#include <stepcast/validation/cases.hpp>

#include <functional>
#include <optional>
#include <string>

namespace stepcast {

/// Adds to the suite the calibrated cluster and the cases of a forecast; `file` gives the bytes of a file or nothing.
/// Where one is absent its path is returned and nothing added.
[[nodiscard]] std::optional<std::string> add_forecast(
    ValidationSuite&, const CollectiveForecast&,
    const std::function<std::optional<std::string>(const std::string&)>& file);

}  // namespace stepcast
