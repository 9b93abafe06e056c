#pragma once
// Bands of sizes in which collectives err alike: latency governs the first, bandwidth the last, and the protocols and
// algorithms of a library change in the two between them.
//
// Example: 8 KiB is of the first band, 1 MiB of the second, 65 MiB of the last.
#include <stepcast/base/units.hpp>

#include <array>
#include <cstddef>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

inline constexpr std::size_t size_band_count = 4;
inline constexpr std::array<std::string_view, size_band_count> size_band_names{"to 8 KiB", "to 1 MiB", "to 64 MiB",
                                                                               "above"};
[[nodiscard]] constexpr std::size_t size_band_of(Bytes size) {
  return size <= Bytes(8192) ? 0 : size <= mebibytes(1) ? 1 : size <= mebibytes(64) ? 2 : 3;
}

}  // namespace stepcast
