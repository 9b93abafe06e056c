// Every allowed micro-batch is placed; the shortest step wins.
#include <stepcast/report/placement_report.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace stepcast {
namespace {

std::vector<std::int64_t> powers_of_two_in(std::int64_t batch) {
  std::vector<std::int64_t> samples;
  for (std::int64_t b = 1; b <= batch && batch % b == 0; b *= 2) samples.push_back(b);
  return samples;
}

/// So many samples of a micro-batch of `batch`.
PlacementOptions with_micro_batches(PlacementOptions options, const Workload& workload, std::int64_t batch,
                                    std::int64_t samples) {
  options.micro_batches = static_cast<std::uint32_t>(batch / samples);
  options.bytes_per_value = size_of(workload.dtype);
  return options;
}

/// All devices in their order, equally many units each, nothing compressed.
Answer<Placement> dealt_evenly(std::span<const PlacedUnit> units, const UnequalCluster& cluster,
                               PlacementOptions options) {
  const std::size_t stages = std::min(cluster.devices.size(), units.size());
  std::vector<std::uint32_t> device(stages), count(stages);
  std::iota(device.begin(), device.end(), 0U);
  for (std::size_t s = 0; s < stages; ++s)
    count[s] = static_cast<std::uint32_t>(units.size() * (s + 1) / stages - units.size() * s / stages);
  options.ratio = 1;
  return placement_of(units, cluster, std::move(device), std::move(count), options);
}

}  // namespace

Answer<PlacementChoice> best_placement(const Workload& workload, const UnequalCluster& cluster,
                                       std::int64_t global_batch, std::vector<std::int64_t> micro_batches,
                                       const PlacementOptions& options) {
  if (micro_batches.empty()) micro_batches = powers_of_two_in(global_batch);
  std::optional<PlacementChoice> best;
  std::string reason = "no micro-batch that was named divides the batch of " + std::to_string(global_batch);
  for (const std::int64_t samples : micro_batches) {
    if (global_batch % samples != 0 || global_batch / samples > 100'000) continue;
    const PlacementOptions with = with_micro_batches(options, workload, global_batch, samples);
    const Answer<std::vector<PlacedUnit>> units =
        placed_units(workload, static_cast<double>(samples), with.micro_batches);
    if (!units) return Inapplicable{units.reason()};
    Answer<Placement> placement = placed(*units, cluster, with);
    if (!placement) {
      reason = placement.reason();
      continue;
    }
    if (best && best->placement.iteration <= placement->iteration) continue;
    best = PlacementChoice{*std::move(placement), with, samples, {}, {}};
    const Answer<Placement> naive = dealt_evenly(*units, cluster, with);
    if (naive) best->naive = *naive;
    else best->no_naive = naive.reason();
  }
  if (!best) return Inapplicable{reason};
  return *std::move(best);
}

Answer<PlacementChoice> given_placement(const Workload& workload, const UnequalCluster& cluster,
                                        std::int64_t global_batch, const PlacementPlan& plan) {
  for (const std::uint32_t d : plan.device)
    if (d >= cluster.devices.size())
      return Inapplicable{"device " + std::to_string(d) + " is not there: the devices are 0 to " +
                          std::to_string(cluster.devices.size() - 1)};
  const std::uint64_t units = std::accumulate(plan.units.begin(), plan.units.end(), std::uint64_t{0});
  if (units != workload.units.size())
    return Inapplicable{"units= deals out " + std::to_string(units) + " units, the model has " +
                        std::to_string(workload.units.size())};
  PlacementOptions options;
  options.ratio = plan.ratio;
  options.schedule = plan.schedule;
  std::vector<std::int64_t> choices{plan.micro_batch};
  if (plan.micro_batch == 0) choices = powers_of_two_in(global_batch);
  std::optional<PlacementChoice> best;
  std::string reason = "micro-batches of " + std::to_string(plan.micro_batch) + " do not divide the batch of " +
                       std::to_string(global_batch);
  for (const std::int64_t samples : choices) {
    if (global_batch % samples != 0 || global_batch / samples > 100'000) continue;
    const PlacementOptions with = with_micro_batches(options, workload, global_batch, samples);
    const Answer<std::vector<PlacedUnit>> placed =
        placed_units(workload, static_cast<double>(samples), with.micro_batches);
    if (!placed) return Inapplicable{placed.reason()};
    Answer<Placement> placement = placement_of(*placed, cluster, plan.device, plan.units, with);
    if (!placement) {
      reason = placement.reason();
      continue;
    }
    if (best && best->placement.iteration <= placement->iteration) continue;
    best = PlacementChoice{*std::move(placement), with, samples, {}, {}};
    const Answer<Placement> naive = dealt_evenly(*placed, cluster, with);
    if (naive) best->naive = *naive;
    else best->no_naive = naive.reason();
  }
  if (!best) return Inapplicable{reason};
  return *std::move(best);
}

PlacementPlan plan_of(const PlacementChoice& choice) {
  return {choice.placement.device, choice.placement.units, choice.micro_batch, choice.options.ratio,
          choice.options.schedule};
}

}  // namespace stepcast
