// Calibration: the two links of a cluster from measured all-reduces.
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/calibration.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

namespace stepcast {
namespace {

/// Tables to fit, with the cluster (without message overhead, which a benchmark does not see) resized to each.
struct Fitting {
  const CollectiveAlgorithm* algorithm;
  std::vector<Cluster> clusters;
  std::vector<const MeasuredCollective*> tables;

  /// Mean over the tables of the mean squared relative error, after `change` was made to each cluster.
  template <class Change>
  [[nodiscard]] double error(const Change& change) const {
    double total = 0;
    for (std::size_t t = 0; t < tables.size(); ++t) {
      Cluster cluster = clusters[t];
      change(cluster);
      double sum = 0;
      for (std::size_t i = 0; i < tables[t]->sizes.size(); ++i) {
        const double r = algorithm->all_reduce_time(cluster, tables[t]->sizes[i]) / tables[t]->times[i] - 1;
        sum += r * r;
      }
      total += sum / static_cast<double>(tables[t]->sizes.size());
    }
    return total / static_cast<double>(tables.size());
  }
};

/// Least error over latency and bandwidth: a grid over all that hardware does, then a compass search on the log scale.
/// The error is convex in (latency, 1/bandwidth) for each bottleneck, so that this finds the optimum; no derivative is
/// needed where the bottleneck changes.
Link fitted_link(const Fitting& fitting, Link Cluster::*which) {
  const auto error = [&](double log_latency, double log_rate) {
    return fitting.error([&](Cluster& c) {
      c.*which = {Seconds(std::exp2(log_latency)), BytesPerSecond(std::exp2(log_rate))};
    });
  };
  double best_latency = -20, best_rate = 30, best = error(best_latency, best_rate);
  const auto try_at = [&](double latency, double rate) {
    // From a nanosecond (or none that matters) to seconds; from 1 kB/s to 100 TB/s.
    if (latency < -30 || latency > 3 || rate < 10 || rate > 47) return false;
    const double e = error(latency, rate);
    if (!(e < best)) return false;
    best = e;
    best_latency = latency;
    best_rate = rate;
    return true;
  };
  for (int latency = -30; latency <= 3; ++latency) {
    for (int rate = 10; rate <= 47; ++rate) try_at(latency, rate);
  }
  for (double step = 0.5; step > 1e-5;) {
    const double l = best_latency, r = best_rate;
    bool better = false;
    for (const double dl : {-step, 0.0, step}) {
      for (const double dr : {-step, 0.0, step}) better = try_at(l + dl, r + dr) || better;
    }
    if (!better) step /= 2;
  }
  return {Seconds(std::exp2(best_latency)), BytesPerSecond(std::exp2(best_rate))};
}

/// Root mean square error of interpolating in a table, estimated by predicting each inner point from its neighbours.
/// Leaving a point out doubles the gap, and the error of linear interpolation grows with its square: a quarter remains.
double interpolation_error(const MeasuredCollective& table) {
  double sum = 0;
  std::size_t n = 0;
  for (std::size_t i = 1; i + 1 < table.sizes.size(); ++i, ++n) {
    std::vector<Bytes> sizes = table.sizes;
    std::vector<Seconds> times = table.times;
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(i));
    times.erase(times.begin() + static_cast<std::ptrdiff_t>(i));
    const double r = CostTable(sizes, times)(table.sizes[i]) / table.times[i] - 1;
    sum += r * r;
  }
  return n == 0 ? 0 : std::sqrt(sum / static_cast<double>(n)) / 4;
}

/// What the provenance says of numbers that are about to be replaced: lines that open with one of their names.
void forget(Cluster& cluster, std::initializer_list<std::string_view> names) {
  std::erase_if(cluster.provenance, [&](const std::string& line) {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return line.starts_with(name); });
  });
}

void fit_links(Calibration& result, const CollectiveAlgorithm& algorithm) {
  Cluster& cluster = result.cluster;
  Fitting inside{&algorithm, {}, {}}, between{&algorithm, {}, {}};
  for (const auto pass : {&inside, &between}) {
    for (const Calibration::Entry& entry : result.entries) {
      const MeasuredCollective& m = entry.measured;
      const bool one_machine = m.workers <= cluster.devices_per_node;
      if (m.operation != "all_reduce" || m.workers < 2 || one_machine != (pass == &inside)) continue;
      const Answer<Cluster> sized = resized(cluster, m.workers);
      if (!sized) throw InputError(m.provenance, "a number of workers that the cluster can have", sized.reason());
      pass->clusters.push_back(*sized);
      pass->clusters.back().tables.clear();
      pass->tables.push_back(&m);
    }
    if (pass->tables.empty()) continue;
    Link Cluster::*which = pass == &inside ? &Cluster::inside : &Cluster::network;
    const Link link = fitted_link(*pass, which);
    cluster.*which = link;
    forget(cluster, {pass == &inside ? "inside:" : "network:"});
    const double error = std::sqrt(pass->error([&](Cluster& c) { c.*which = link; }));
    cluster.provenance.push_back(std::string(pass == &inside ? "inside" : "network") + ": fitted with " +
                                 std::string(algorithm.name) + " to " + std::to_string(pass->tables.size()) +
                                 " measured all-reduce tables, rms relative error " + percent(error));
  }
  if (inside.tables.empty() && between.tables.empty()) {
    throw InputError("calibrate", "a measured all_reduce of at least 2 workers", "none");
  }
  if (inside.tables.empty() && cluster.devices_per_node > 1) {
    result.notes.push_back("no table within one machine: the inside link is the one given");
  }
  if (between.tables.empty()) result.notes.push_back("no table across machines: the network link is the one given");
}

}  // namespace

Calibration calibrated(Cluster base, std::span<const MeasuredCollective> measured) {
  Calibration result;
  const bool from_table = base.all_reduce == "table";
  const CollectiveAlgorithm* algorithm = collective_algorithm(from_table ? "ring" : base.all_reduce);
  if (!algorithm || !algorithm->all_reduce) {
    throw InputError("calibrate", "an algorithm with an all-reduce", in_quotes(base.all_reduce));
  }
  for (MeasuredCollective table : measured) {
    if (table.workers == 0) {
      table.workers = base.workers();
      result.notes.push_back(table.provenance + ": number of workers not stated, taken as " +
                             std::to_string(table.workers));
    }
    if (table.sizes.size() < 2) {
      throw InputError(table.provenance, "at least two sizes, to tell start-up from bandwidth",
                       table.sizes.empty() ? "none" : "one");
    }
    const auto repeats = std::count_if(result.entries.begin(), result.entries.end(), [&](const auto& e) {
      return e.measured.operation == table.operation && e.measured.workers == table.workers;
    });
    if (repeats == 1) {
      result.notes.push_back(table.operation + " on " + std::to_string(table.workers) +
                             " workers was measured more than once: links are fitted to all of its tables, the last "
                             "one is kept; calibrate each network setting on its own");
    }
    Fit fit = piecewise_fit(table.sizes, table.times);
    result.entries.push_back({std::move(table), std::move(fit), {}});
  }
  result.cluster = std::move(base);
  // The fit says which form it used and how wrong it is.
  forget(result.cluster, {"all-reduce:", "relative error:", "relative_error:"});
  fit_links(result, *algorithm);

  double sum = 0;
  std::size_t n = 0;
  for (Calibration::Entry& entry : result.entries) {
    const MeasuredCollective& m = entry.measured;
    std::erase_if(result.cluster.tables,
                  [&](const MeasuredCollective& t) { return t.operation == m.operation && t.workers == m.workers; });
    result.cluster.tables.push_back(m);
    if (m.operation != "all_reduce" || m.workers < 2) continue;
    const Cluster sized = *resized(result.cluster, m.workers);
    // A cluster that uses its tables errs as interpolation does; one that uses closed forms, as those do.
    const double interpolation = from_table ? interpolation_error(m) : 0;
    for (std::size_t i = 0; i < m.sizes.size(); ++i, ++n) {
      entry.by_links.push_back(algorithm->all_reduce_time(sized, m.sizes[i]));
      const double r = from_table ? interpolation : entry.by_links[i] / m.times[i] - 1;
      sum += r * r;
    }
  }
  result.cluster.relative_error = std::sqrt(sum / static_cast<double>(n));
  result.cluster = checked(std::move(result.cluster), "calibrate");
  if (const Answer<CommunicationCost> usable = communication_cost(result.cluster); !usable)
    result.notes.push_back(usable.reason());
  return result;
}

}  // namespace stepcast
