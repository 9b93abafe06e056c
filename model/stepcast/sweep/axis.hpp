#pragma once
// Axis of a sweep: a quantity, and the values that it takes.
//
// Example: "bandwidth=1Gb/s..400Gb/s" is the goodput of the network at 1, 2, 4, ..., 256, 400 Gb/s, and
// "ddp.bucket=1MiB,25MiB" an option of every plan of that strategy. Invariant: values are in SI units and within the
// range of what they set. Not modelled: quantities that change together.
#include <stepcast/question/question.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// What an axis changes.
enum class SweepQuantity : std::uint8_t {
  bandwidth,   ///< of the network as a transport reaches it (goodput; "10GbE": that of TCP over it); where no point has
               ///< two machines, inside them
  latency,     ///< of the same link, a step
  workers,     ///< in all; whole machines
  batch,       ///< samples per worker (the what-if `batch`)
  compute,     ///< factor by which compute is faster
  loss,        ///< share of the packets that the network loses
  stalls,      ///< time-outs per packet sent
  jitter,      ///< random slowness of all workers, relative to compute
  background,  ///< share that other jobs take of the network's outermost level
  option,      ///< of every plan whose strategy or modifier has an option of that name
  layout,      ///< a number of the layout in front of each plan: tp, pp, mb, zero, ...
  change,      ///< an option of a what-if, "input.cache": of the one that the question names, else of one behind them
};

struct SweepAxis {
  SweepQuantity quantity = SweepQuantity::bandwidth;
  std::string name;            ///< "bandwidth", "workers", or that of the option: "bucket", "ddp.bucket"
  std::vector<double> values;  ///< SI, in the order in which they are visited
  /// What the values of an option are; null for all else.
  const OptionSpec* option = nullptr;
};
/// No axis has more values, and no grid more rows (points times plans).
inline constexpr std::size_t most_sweep_rows = 10'000'000;
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

}  // namespace stepcast
