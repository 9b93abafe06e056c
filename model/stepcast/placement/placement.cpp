// Clusters of devices are put in every order that matters, cut by the closed form, and timed by the task graph.
#include <stepcast/base/text.hpp>
#include <stepcast/placement/cuts.hpp>
#include <stepcast/placement/placement.hpp>
#include <stepcast/workload/workload.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

namespace stepcast {
namespace {

constexpr std::size_t most_permuted_clusters = 4;
constexpr std::size_t most_limits = 24;      // values tried for the slowest link's send
constexpr std::size_t most_partitions = 16;  // of an order whose task graphs are made

/// Wire bytes of a sparsified tensor with ratio 1, over those of the plain one: each value goes with its index.
double inflation(const PlacementOptions& o) { return (o.bytes_per_value + o.bytes_per_index) / o.bytes_per_value; }

// AdaTopK: the full ratio where the plain send is longest, elsewhere in proportion, so that all that are sparsified
// take the same time; none where values and indices would be more than the plain tensor.
double ratio_of(Seconds plain, Seconds longest, const PlacementOptions& o) {
  if (longest.value() <= 0) return 1;
  const double ratio = o.ratio * (plain / longest);
  return ratio > inflation(o) ? ratio : 1;
}

Bytes memory_of(std::span<const PlacedUnit> units) {
  Bytes sum;
  for (const PlacedUnit& u : units) sum += u.memory;
  return sum;
}

// Devices with equal numbers are interchangeable: the same speed, memory and links to all others.
std::vector<std::uint32_t> like_devices(const UnequalCluster& c) {
  std::vector<std::uint32_t> like(c.devices.size()), kinds;
  const auto alike = [&](std::size_t a, std::size_t b) {
    if (c.devices[a].speed != c.devices[b].speed || c.devices[a].memory != c.devices[b].memory) return false;
    for (std::size_t o = 0; o < c.devices.size(); ++o)
      if (o != a && o != b &&
          (c.latency[c.pair(a, o)] != c.latency[c.pair(b, o)] ||
           c.bandwidth[c.pair(a, o)] != c.bandwidth[c.pair(b, o)]))
        return false;
    return true;
  };
  for (std::uint32_t d = 0; d < like.size(); ++d) {
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](std::uint32_t k) { return alike(k, d); });
    like[d] = kind != kinds.end() ? *kind : d;
    if (kind == kinds.end()) kinds.push_back(d);
  }
  return like;
}

// Each cluster's devices, the fastest first; of equal ones those alike together.
std::vector<std::vector<std::uint32_t>> members(const UnequalCluster& c, const std::vector<std::uint32_t>& like) {
  const std::vector<std::uint32_t> of = link_clusters(c);
  std::vector<std::vector<std::uint32_t>> out(*std::max_element(of.begin(), of.end()) + 1);
  for (std::uint32_t d = 0; d < of.size(); ++d) out[of[d]].push_back(d);
  for (auto& cluster : out)
    std::stable_sort(cluster.begin(), cluster.end(), [&](std::uint32_t a, std::uint32_t b) {
      return c.devices[a].speed != c.devices[b].speed ? c.devices[a].speed > c.devices[b].speed : like[a] < like[b];
    });
  return out;
}

// Orders of clusters that are tried.
std::vector<std::vector<std::size_t>> cluster_orders(const UnequalCluster& c,
                                                     const std::vector<std::vector<std::uint32_t>>& members) {
  std::vector<std::size_t> order(members.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<std::vector<std::size_t>> out;
  if (members.size() <= most_permuted_clusters) {
    do out.push_back(order);
    while (std::next_permutation(order.begin(), order.end()));
    return out;
  }
  const auto rate = [&](std::size_t a, std::size_t b) {
    BytesPerSecond best;
    for (const std::uint32_t i : members[a])
      for (const std::uint32_t j : members[b]) best = std::max(best, c.bandwidth[c.pair(i, j)]);
    return best;
  };
  for (std::size_t first = 0; first < members.size(); ++first) {
    std::swap(order[0], *std::find(order.begin(), order.end(), first));
    for (std::size_t i = 1; i < order.size(); ++i)
      std::swap(order[i], *std::max_element(order.begin() + static_cast<std::ptrdiff_t>(i), order.end(),
                                            [&](std::size_t a, std::size_t b) {
                                              const auto x = rate(order[i - 1], a), y = rate(order[i - 1], b);
                                              return x != y ? x < y : a > b;
                                            }));
    out.push_back(order);
    out.emplace_back(order.rbegin(), order.rend());
  }
  return out;
}

// What the longest plain send of a placement may be: one value without compression (no limit), else all that occur,
// since the ratios of all links depend on it.
std::vector<Seconds> limits(std::span<const PlacedUnit> units, const UnequalCluster& c, const PlacementOptions& o,
                            bool& all) {
  if (o.ratio <= inflation(o)) return {Seconds(std::numeric_limits<double>::infinity())};
  std::vector<BytesPerSecond> rates;
  std::vector<Bytes> sizes;
  for (std::size_t a = 0; a < c.devices.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) rates.push_back(c.bandwidth[c.pair(a, b)]);
  for (const PlacedUnit& u : units) sizes.push_back(u.boundary);
  const auto distinct = [](auto& values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
  };
  distinct(rates);
  distinct(sizes);
  std::vector<Seconds> sends{Seconds(0)};
  for (const BytesPerSecond rate : rates)
    for (const Bytes size : sizes) sends.push_back(size / rate);
  distinct(sends);
  if (sends.size() <= most_limits) return sends;
  all = false;
  std::vector<Seconds> some;
  for (std::size_t i = 0; i < most_limits; ++i) some.push_back(sends[i * (sends.size() - 1) / (most_limits - 1)]);
  return some;
}

void check(std::span<const PlacedUnit> units, const PlacementOptions& o) {
  const auto time = [](Seconds s) { return std::isfinite(s.value()) && s.value() >= 0; };
  const auto size = [](Bytes b) { return std::isfinite(b.value()) && b.value() >= 0; };
  if (units.empty()) throw InputError("placement", "at least one unit", "none");
  for (std::size_t i = 0; i < units.size(); ++i)
    if (const PlacedUnit& u = units[i]; !time(u.forward) || !time(u.backward) || !size(u.boundary) || !size(u.memory))
      throw InputError("placement: unit " + std::to_string(i), "times and sizes >= 0", "others");
  if (!(o.ratio >= 1) || !std::isfinite(o.ratio))
    throw InputError("placement: ratio", "a number >= 1", std::to_string(o.ratio));
  if (!(o.bytes_per_value > 0) || !(o.bytes_per_index >= 0))
    throw InputError("placement: bytes per value and index", "a positive number and one >= 0", "others");
}

const PipelineSchedule& schedule_of(const PlacementOptions& o) {
  return o.schedule ? *o.schedule : *pipeline_schedule("gpipe");
}

}  // namespace

UnequalCluster checked(UnequalCluster c, std::string_view source) {
  const std::string where(source);
  const std::size_t n = c.devices.size();
  if (n == 0 || n > 1024) throw InputError(where, "1 to 1024 devices", std::to_string(n));
  if (c.latency.size() != n * n || c.bandwidth.size() != n * n)
    throw InputError(where, "a link for each pair of devices", "others");
  for (const UnequalDevice& d : c.devices)
    if (!(d.speed > 0) || !std::isfinite(d.speed) || !(d.memory.value() >= 0))
      throw InputError(where + ": device " + d.name, "a positive speed and a memory >= 0", "others");
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < a; ++b) {
      const std::size_t there = c.pair(a, b), back = c.pair(b, a);
      if (!(c.latency[there].value() >= 0) || !std::isfinite(c.latency[there].value()) ||
          !(c.bandwidth[there].value() > 0) || c.latency[there] != c.latency[back] ||
          c.bandwidth[there] != c.bandwidth[back])
        throw InputError(where + ": link of " + c.devices[a].name + " and " + c.devices[b].name,
                         "latency >= 0 and bandwidth > 0, the same in both directions", "others");
    }
  return c;
}

std::vector<std::uint32_t> link_clusters(const UnequalCluster& c) {
  const std::size_t n = c.devices.size();
  std::vector<BytesPerSecond> rates;
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < a; ++b) rates.push_back(c.bandwidth[c.pair(a, b)]);
  std::sort(rates.begin(), rates.end());
  double widest = 2;
  BytesPerSecond least;  // that joins
  for (std::size_t i = 1; i < rates.size(); ++i)
    if (const double gap = rates[i] / rates[i - 1]; gap >= widest) widest = gap, least = rates[i];
  std::vector<std::uint32_t> cluster(n);
  std::iota(cluster.begin(), cluster.end(), 0u);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (c.bandwidth[c.pair(a, b)] >= least && cluster[a] != cluster[b]) {
        const auto [low, high] = std::minmax(cluster[a], cluster[b]);
        std::replace(cluster.begin(), cluster.end(), high, low);
      }
  std::vector<std::uint32_t> firsts(cluster);
  std::sort(firsts.begin(), firsts.end());
  firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
  for (std::uint32_t& k : cluster)
    k = static_cast<std::uint32_t>(std::lower_bound(firsts.begin(), firsts.end(), k) - firsts.begin());
  return cluster;
}

Answer<Placement> placement_of(std::span<const PlacedUnit> units, const UnequalCluster& cluster,
                               std::vector<std::uint32_t> device, std::vector<std::uint32_t> counts,
                               const PlacementOptions& options) {
  check(units, options);
  assert(device.size() == counts.size() && std::accumulate(counts.begin(), counts.end(), 0u) == units.size());
  const std::size_t stages = device.size();
  std::vector<ChunkTimes> chunk(stages);
  std::vector<std::size_t> link(stages);
  std::vector<Seconds> plain(stages);
  std::size_t next = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    const UnequalDevice& d = cluster.devices[device[s]];
    const auto mine = units.subspan(next, counts[s]);
    next += counts[s];
    for (const PlacedUnit& u : mine) {
      chunk[s].forward += u.forward / d.speed;
      chunk[s].input_gradient += u.backward / d.speed;
    }
    if (const Bytes need = memory_of(mine); d.memory.value() > 0 && need > d.memory)
      return Inapplicable{"stage " + std::to_string(s) + " needs " + text_of(need) + "; " + d.name + " has " +
                          text_of(d.memory)};
    if (s + 1 == stages) break;
    link[s] = cluster.pair(device[s], device[s + 1]);
    plain[s] = mine.back().boundary / cluster.bandwidth[link[s]];
  }

  Placement out;
  out.ratio.assign(stages, 1);
  const Seconds longest = *std::max_element(plain.begin(), plain.end());
  Seconds sum, largest;
  for (std::size_t s = 0; s < stages; ++s) {
    if (s + 1 < stages) {
      out.ratio[s] = ratio_of(plain[s], longest, options);
      const double wire = out.ratio[s] > 1 ? inflation(options) / out.ratio[s] : 1;
      chunk[s].send_forward = chunk[s + 1].send_backward = cluster.latency[link[s]] + plain[s] * wire;
    }
    out.compute.push_back(chunk[s].forward + chunk[s].input_gradient);
    out.send.push_back(2 * chunk[s].send_forward);
    sum += out.compute[s] + out.send[s];
    largest = std::max({largest, out.compute[s], out.send[s]});
  }
  out.device = std::move(device);
  out.units = std::move(counts);
  out.closed_form = sum + (options.micro_batches - 1.0) * largest;
  const PipelineShape shape{static_cast<std::uint32_t>(stages), 1, options.micro_batches};
  Answer<PipelineEvaluator> pipeline = PipelineEvaluator::of(schedule_of(options), shape);
  if (!pipeline) return Inapplicable{pipeline.reason()};
  out.iteration = (*pipeline)(chunk, true).iteration;
  out.chunks = std::move(chunk);
  return out;
}

Answer<PlacementTimeline> placement_timeline(const Placement& placement, const PlacementOptions& options) {
  const PipelineShape shape{static_cast<std::uint32_t>(placement.chunks.size()), 1, options.micro_batches};
  Answer<TaskGraph> graph = lowered(schedule_of(options), shape, placement.chunks, true);
  if (!graph) return Inapplicable{graph.reason()};
  PlacementTimeline out{std::move(*graph), {}, shape};
  out.timeline = schedule(out.graph);
  return out;
}

Answer<Placement> placed(std::span<const PlacedUnit> units, const UnequalCluster& given,
                         const PlacementOptions& options) {
  check(units, options);
  const UnequalCluster cluster = checked(given, "placement");
  PartitionInput in;
  in.units = units;
  in.cluster = &cluster;
  in.like = like_devices(cluster);
  in.rounds = options.micro_batches;
  bool all_limits = true;
  const std::vector<Seconds> sends = limits(units, cluster, options, all_limits);
  const auto clusters = members(cluster, in.like);
  const auto orders = cluster_orders(cluster, clusters);

  std::optional<Placement> best;
  std::string why = "the units do not fit into the devices' memories: they need " + text_of(memory_of(units));
  for (const auto& order : orders) {
    in.order.clear();
    for (const std::size_t k : order) in.order.insert(in.order.end(), clusters[k].begin(), clusters[k].end());
    for (const Seconds send : sends) {
      in.largest_send = send;
      in.compressed_send = send * std::min(1.0, inflation(options) / options.ratio);
      // The closed form is never above GPipe's step: what is not below the best step cannot be better.
      in.worth_less_than =
          best && !options.schedule ? best->iteration : Seconds(std::numeric_limits<double>::infinity());
      const std::vector<Partition> partitions = best_partitions(in);
      for (std::size_t i = 0; i < std::min(partitions.size(), most_partitions); ++i) {
        auto placement = placement_of(units, cluster, partitions[i].device, partitions[i].units, options);
        if (!placement) why = placement.reason();
        if (placement && (!best || placement->iteration < best->iteration)) best = std::move(*placement);
      }
    }
  }
  if (!best) return Inapplicable{why};
  if (clusters.size() > most_permuted_clusters)
    best->notes.push_back("of the orders of " + std::to_string(clusters.size()) + " clusters " +
                          std::to_string(orders.size()) + " were tried");
  if (!all_limits) best->notes.push_back("not all values of the slowest link's send were tried");
  return std::move(*best);
}

Answer<std::vector<PlacedUnit>> placed_units(const Workload& workload, double micro_batch,
                                             std::uint32_t micro_batches) {
  std::vector<PlacedUnit> kinds, units;
  for (std::uint32_t kind = 0; kind < workload.kinds.size(); ++kind) {
    Split split;
    split.micro_batch = micro_batch;
    const Answer<UnitCost> cost = unit_cost(workload, kind, split);
    if (!cost) return Inapplicable{cost.reason()};
    const Bytes kept = cost->kept[static_cast<std::size_t>(Recomputation::none)];
    kinds.push_back({cost->forward, cost->input_gradient + cost->weight_gradient, cost->boundary,
                     Bytes(cost->parameters * workload.bytes_of_state) + micro_batches * kept});
  }
  for (const std::uint32_t kind : workload.units) units.push_back(kinds[kind]);
  return units;
}

}  // namespace stepcast
