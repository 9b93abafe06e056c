#pragma once
// Batches: which global batches are worth a search, and which of them trains most samples a second.
//
// Degrees have to divide the batch, so that a batch decides which layouts there are: 4,480 devices are 128 x 5 x 7, and
// a batch of 1920 has no factor 7. Of a range of batches those by which most of the possible data degrees divide come
// first. Example: of 1800 to 2300 on 4,480 devices 2240 does. Invariant: batches are compared by samples a second,
// never by steps. Not modelled: what another batch costs in convergence.
#include <stepcast/search/layout_search.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// What is left of the devices as data-parallel replicas for every pair of tensor and pipeline degrees.
[[nodiscard]] std::set<std::int64_t> data_degrees(const Workload&, const Cluster&, const LayoutSpace&);

struct BatchRange {
  std::int64_t least = 1, most = 1;
};
/// At most `count` of the range, those first by which most data degrees divide, of equals the nearest to the middle.
[[nodiscard]] std::vector<std::int64_t> promising_batches(const std::set<std::int64_t>& data_degrees, BatchRange,
                                                          std::size_t count);

struct BatchChoice {
  std::int64_t global_batch = 0;
  LayoutPrediction best;
};
/// The one of `batches` whose best layout trains more samples a second than `to_beat`, and most, a later one by the
/// share `resolved` more than the one before it; nothing where none does, or no layout fits.
[[nodiscard]] std::optional<BatchChoice> best_batch(const Workload&, const Cluster&, const LayoutSpace&,
                                                    const LayoutSearchOptions&,
                                                    const std::vector<std::int64_t>& batches, double to_beat,
                                                    double resolved = 0);

}  // namespace stepcast
