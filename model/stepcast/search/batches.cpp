// One search a batch, each bounded by what the ones before have reached.
#include <stepcast/search/batches.hpp>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace stepcast {

std::set<std::int64_t> data_degrees(const Workload& workload, const Cluster& cluster, const LayoutSpace& space) {
  std::set<std::int64_t> degrees;
  const std::int64_t devices = cluster.workers(), units = std::int64_t(workload.units.size());
  const std::int64_t most_tensor = space.most_tensor > 0 ? space.most_tensor : cluster.devices_per_node;
  const auto asked = [](const std::vector<std::int64_t>& some, std::int64_t d) {
    return some.empty() || std::find(some.begin(), some.end(), d) != some.end();
  };
  for (std::int64_t t = 1; t <= std::min(most_tensor, devices); ++t) {
    if (devices % t != 0 || !asked(space.tensor, t)) continue;
    for (std::int64_t p = 1; p <= std::min(units, devices / t); ++p)
      if (devices / t % p == 0 && asked(space.pipeline, p)) degrees.insert(devices / t / p);
  }
  return degrees;
}

std::vector<std::int64_t> promising_batches(const std::set<std::int64_t>& degrees, BatchRange range,
                                            std::size_t count) {
  struct Batch {
    std::int64_t undivided, distance, samples;
    auto operator<=>(const Batch&) const = default;
  };
  std::vector<Batch> batches;
  for (std::int64_t b = range.least; b <= range.most; ++b)
    batches.push_back({std::count_if(degrees.begin(), degrees.end(), [&](std::int64_t d) { return b % d != 0; }),
                       std::abs(2 * b - range.least - range.most), b});
  std::sort(batches.begin(), batches.end());
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < std::min(count, batches.size()); ++i) out.push_back(batches[i].samples);
  return out;
}

std::optional<BatchChoice> best_batch(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                                      const LayoutSearchOptions& options, const std::vector<std::int64_t>& batches,
                                      double to_beat, double resolved) {
  std::optional<BatchChoice> best;
  LayoutSearchOptions search = options;
  search.objective = Objective::shortest_step;
  search.best = 1;
  search.frontier = search.explain = false;
  search.progress = nullptr;
  for (const std::int64_t batch : batches) {
    search.layout.global_batch = static_cast<double>(batch);
    search.target_step = to_beat > 0 ? Seconds(static_cast<double>(batch) / to_beat) : Seconds(0);
    const Answer<LayoutSearchResult> found = best_layouts(workload, cluster, space, search);
    if (!found || found->best.empty() || found->best.front().throughput_samples_per_s <= to_beat) continue;
    best = BatchChoice{batch, found->best.front()};
    to_beat = best->best.throughput_samples_per_s * (1 + resolved);
  }
  return best;
}

}  // namespace stepcast
