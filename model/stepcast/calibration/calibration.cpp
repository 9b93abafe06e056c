// Calibration: the two links of a cluster from measured all-reduces.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/benchmark_logs.hpp>
#include <stepcast/calibration/calibration.hpp>
#include <stepcast/calibration/nccl_fit.hpp>
#include <stepcast/cluster/carried.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/cluster/size_bands.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace stepcast {
namespace {

/// Tables of one operation to fit, with the cluster (without message overhead, which a benchmark does not see) resized
/// to each.
struct Fitting {
  const CollectiveAlgorithm* algorithm;
  Operation operation;
  std::vector<Cluster> clusters;
  std::vector<const MeasuredCollective*> tables;

  /// Mean over the tables of the mean squared relative error, after `change` was made to each cluster.
  template <class Change>
  [[nodiscard]] double error(const Change& change) const {
    double total = 0;
    for (std::size_t t = 0; t < tables.size(); ++t) {
      Cluster cluster = clusters[t];
      change(cluster);
      const CostLines lines = algorithm->lines(cluster, operation);
      double sum = 0;
      for (std::size_t i = 0; i < tables[t]->sizes.size(); ++i) {
        const double r = lines(tables[t]->sizes[i]) / tables[t]->times[i] - 1;
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

std::string without_network_text(const Cluster& cluster) {
  if (is_unsaid(cluster, unsaid_network))
    return "no table across machines, and nobody said the link between them: give --network, a log of several "
           "machines, or both";
  return "no table across machines: the network link is the one given";
}

/// What the provenance says of numbers that are about to be replaced: lines that open with one of their names.
void forget(Cluster& cluster, std::initializer_list<std::string_view> names) {
  std::erase_if(cluster.provenance, [&](const std::string& line) {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return line.starts_with(name); });
  });
}

/// The operation to whose tables links are fitted: all-reduces, else the first that the algorithm has a form of.
Operation fitted_operation(const Calibration& result, const CollectiveAlgorithm& algorithm) {
  std::string found;
  std::optional<Operation> other;
  for (const Calibration::Entry& entry : result.entries) {
    const MeasuredCollective& m = entry.measured;
    if (m.workers < 2) continue;
    const std::optional<Operation> operation = operation_of(m.operation);
    if (operation == Operation::all_reduce) return *operation;
    if (found.find(m.operation) == std::string::npos) add_to_list(found, m.operation);
    Cluster pair = result.cluster;
    pair.nodes = 1, pair.devices_per_node = 2;
    if (!other && operation && algorithm.lines(pair, *operation).count > 0) other = operation;
  }
  if (other) return *other;
  throw InputError("calibrate", "a measured all_reduce of at least 2 workers",
                   found.empty() ? "none" : found + " alone, of which " + std::string(algorithm.name) + " says nothing",
                   found.empty() ? "" : "--collective nccl is fitted to any operation");
}

/// Returns the operation that they were fitted to.
Operation fit_links(Calibration& result, const CollectiveAlgorithm& algorithm) {
  Cluster& cluster = result.cluster;
  const Operation operation = fitted_operation(result, algorithm);
  const std::string in_words = operation == Operation::all_reduce ? "all-reduce" : std::string(name_of(operation));
  Fitting inside{&algorithm, operation, {}, {}}, between{&algorithm, operation, {}, {}};
  for (const auto pass : {&inside, &between}) {
    for (const Calibration::Entry& entry : result.entries) {
      const MeasuredCollective& m = entry.measured;
      const bool one_machine = m.workers <= cluster.devices_per_node;
      if (m.operation != name_of(operation) || m.workers < 2 || one_machine != (pass == &inside)) continue;
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
                                 " measured " + in_words + " tables, rms relative error " + percent(error));
  }
  if (inside.tables.empty() && cluster.devices_per_node > 1) {
    result.notes.push_back("no table within one machine: the inside link is the one given");
  }
  if (between.tables.empty()) result.notes.push_back(without_network_text(cluster));
  return operation;
}

struct MergedTables {
  std::vector<MeasuredCollective> tables;
  double spread = 0;  ///< root mean square of how far, in logarithms, times of one size are from their median
};
/// Tables of the same operation and machines as one: the median of each size.
MergedTables merged(std::span<const MeasuredCollective> tables, const Cluster& machines) {
  double sum = 0, count = 0;
  struct Points {
    MeasuredCollective first;
    std::map<Bytes, std::vector<double>> times;
    std::size_t sources = 0;
  };
  std::vector<Points> groups;
  for (const MeasuredCollective& t : tables) {
    const auto same = [&](const Points& p) {
      return p.first.operation == t.operation && p.first.workers == t.workers &&
             nodes_of(p.first, machines) == nodes_of(t, machines) &&
             p.first.devices_per_process == t.devices_per_process && measures_the_link(p.first) == measures_the_link(t);
    };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(groups.end(), Points{t, {}, 0});
    for (std::size_t i = 0; i < t.sizes.size(); ++i) group->times[t.sizes[i]].push_back(t.times[i].value());
    ++group->sources;
  }
  std::vector<MeasuredCollective> all;
  for (Points& group : groups) {
    MeasuredCollective& table = all.emplace_back(std::move(group.first));
    table.sizes.clear();
    table.times.clear();
    for (const auto& [size, times] : group.times) {
      table.sizes.push_back(size);
      const double median = quantile(times, 0.5);
      table.times.emplace_back(median);
      if (times.size() > 1)
        for (const double time : times) sum += std::pow(std::log(time / median), 2), ++count;
    }
    if (group.sources > 1) table.provenance += ", median of " + std::to_string(group.sources) + " tables";
  }
  return {std::move(all), count > 0 ? std::sqrt(sum / count) : 0};
}

/// Root mean square of the forms' errors in each band, "12 % to 8 KiB, ...".
std::string residual_text(const std::vector<Calibration::Entry>& entries) {
  std::array<double, size_band_count> sums{}, counts{};
  for (const Calibration::Entry& e : entries)
    for (std::size_t i = 0; i < e.by_links.size(); ++i) {
      const double r = e.by_links[i] / e.measured.times[i] - 1;
      sums[size_band_of(e.measured.sizes[i])] += r * r;
      ++counts[size_band_of(e.measured.sizes[i])];
    }
  std::string text;
  for (std::size_t b = 0; b < size_band_count; ++b)
    if (counts[b] > 0)
      add_to_list(text, percent(std::sqrt(sums[b] / counts[b])) + " " + std::string(size_band_names[b]));
  return text;
}

/// What an algorithm says of a table's operation on the machines that it was measured on; none where it says nothing.
CostLines forms_of(const MeasuredCollective& m, const Cluster& cluster, const CollectiveAlgorithm& algorithm) {
  const std::optional<Operation> operation = operation_of(m.operation);
  if (!operation) return CostLines::none();
  return algorithm.lines(bare_machines(cluster, m.workers, nodes_of(m, cluster)), *operation);
}

/// Every operation, at any counts, by the forms of `nccl`; what they miss stays in the tables, which are carried on.
void fit_library(Calibration& result, const CollectiveAlgorithm& algorithm) {
  Cluster& cluster = result.cluster;
  std::vector<MeasuredCollective> tables;
  bool inside = false, between = false, carried = false;
  for (const Calibration::Entry& entry : result.entries) {
    const MeasuredCollective& m = entry.measured;
    if (m.workers < 2 || forms_of(m, cluster, algorithm).count == 0) continue;
    (nodes_of(m, cluster) > 1 ? between : inside) = true;
    carried = carried || !measures_the_link(m);
    tables.push_back(m);
  }
  if (tables.empty()) throw InputError("calibrate", "a measured collective of at least 2 workers", "none");
  cluster = fitted_nccl(std::move(cluster), tables);
  for (Calibration::Entry& entry : result.entries) {
    const MeasuredCollective& m = entry.measured;
    if (m.workers < 2) continue;
    CostLines lines = forms_of(m, cluster, algorithm);
    if (measures_the_link(m)) lines = CostLines::none(), lines.add({Seconds(0), 1 / cluster.network.bandwidth.value()});
    for (std::size_t i = 0; i < m.sizes.size() && lines.count > 0; ++i) entry.by_links.push_back(lines(m.sizes[i]));
  }
  forget(cluster, {"inside:", "nccl:"});
  if (between) forget(cluster, {"network:"});
  const std::string by = "fitted with nccl to " + counted(static_cast<std::int64_t>(tables.size()), "measured table");
  if (inside) cluster.provenance.push_back("inside: " + by);
  else if (cluster.devices_per_node > 1)
    result.notes.push_back("no table within one machine: what is said of the link inside is typical of others");
  if (between) cluster.provenance.push_back("network: " + by);
  else result.notes.push_back(without_network_text(cluster));
  if (!carried) {
    result.notes.push_back(
        "the bandwidth of the link was measured, no collective: latency and shares of nccl are "
        "typical of others");
    return;
  }
  cluster.provenance.push_back("nccl: " + by + "; rms residual of the forms " + residual_text(result.entries) +
                               "; the tables carry it on to other counts");
}

/// What forms miss; not of clusters that answer by their tables alone, whose links are a start.
void judge_links(Calibration& result, bool from_table) {
  double sum = 0, count = 0, furthest = 0;
  std::string where, row;
  for (const Calibration::Entry& e : result.entries)
    for (std::size_t i = 0; i < e.by_links.size(); ++i) {
      const double r = e.by_links[i] / e.measured.times[i] - 1;
      sum += r * r, ++count;
      const double off = std::fabs(std::log(e.by_links[i] / e.measured.times[i]));
      if (!(off > furthest)) continue;
      furthest = off, where = e.measured.provenance;
      row = e.measured.operation + " of " + text_of(e.measured.sizes[i]) + " on " +
            counted(e.measured.workers, "worker") + " took " + text_of(e.measured.times[i]) + " where the links say " +
            text_of(e.by_links[i]);
    }
  if (count == 0) return;
  result.residual_of_links = std::sqrt(sum / count);
  if (from_table) return;
  constexpr double most = 1;
  if (result.residual_of_links > most)
    throw InputError(where, "measurements of one cluster, which links can explain within 100 %",
                     "links that miss them by " + percent(result.residual_of_links) + " (rms), furthest here: " + row,
                     "calibrate each machine and network setting on its own; look for times of another unit");
  const Cluster& c = result.cluster;
  constexpr Seconds least(1e-8);
  const Bytes small(8192);
  for (const bool between : {false, true}) {
    if ((between ? c.network : c.inside).latency >= least) continue;
    const bool told = std::any_of(result.entries.begin(), result.entries.end(), [&](const Calibration::Entry& e) {
      return !e.by_links.empty() && (nodes_of(e.measured, c) > 1) == between && e.measured.sizes.front() <= small;
    });
    if (!told) continue;
    if (c.all_reduce != "nccl" && c.all_reduce != "ring_or_tree") {  // a form that need not be the library's
      result.cluster.provenance.push_back(
          std::string(between ? "network" : "inside") + " latency: none that a link has, " +
          text_of((between ? c.network : c.inside).latency) + ": these are not times of " + c.all_reduce +
          "; ring_or_tree or nccl may fit");
      continue;
    }
    throw InputError(where, "measurements of one cluster, whose links have a latency of 10 ns or more",
                     text_of((between ? c.network : c.inside).latency) + " for the link " +
                         (between ? "between machines" : "inside a machine") + "; furthest from it: " + row,
                     "calibrate each machine and network setting on its own");
  }
}

/// How a table's time grows with the size at its end: 1 where bandwidth bounds it, 0 where latency does.
double growth_of(const MeasuredCollective& table) {
  constexpr double apart = 4;
  const double last = table.sizes.back().value();
  std::size_t i = table.sizes.size() - 1;
  while (i > 0 && table.sizes[i].value() > last / apart) --i;
  const double factor = last / table.sizes[i].value();
  return factor > 1 ? std::log(table.times.back() / table.times[i]) / std::log(factor) : 0;
}

}  // namespace

void refuse_small_messages(std::span<const MeasuredCollective> measured, const Cluster& base) {
  if (base.all_reduce == "table") return;
  constexpr double half_latency = 0.5;
  const MeasuredCollective* largest = nullptr;
  for (const MeasuredCollective& table : measured) {
    if (table.sizes.empty() || growth_of(table) >= half_latency) return;
    if (!largest || table.sizes.back() > largest->sizes.back()) largest = &table;
  }
  if (largest && largest->sizes.size() > 1)
    throw InputError(largest->provenance,
                     "messages so large that their time grows with them, which shows the bandwidth",
                     "at most " + text_of(largest->sizes.back()) + ", which take " + text_of(largest->times.back()),
                     "measure up to 64 MiB or more: all_reduce_perf -b 8 -e 1G -f 2");
}

Calibration calibrated(Cluster base, std::span<const MeasuredCollective> measured) {
  Calibration result;
  const bool from_table = base.all_reduce == "table";
  const CollectiveAlgorithm* algorithm = collective_algorithm(from_table ? "ring" : base.all_reduce);
  if (!algorithm || !algorithm->all_reduce) {
    throw InputError("calibrate", "an algorithm with an all-reduce", in_quotes(base.all_reduce));
  }
  std::vector<MeasuredCollective> all(measured.begin(), measured.end());
  double spread = 0;
  if (algorithm->carries) {
    MergedTables together = merged(all, base);
    all = std::move(together.tables), spread = together.spread;
  }
  constexpr double alike = 0.1;
  if (spread > alike)
    result.notes.push_back("what was measured more than once differs by " + percent(spread) +
                           " (rms), which the error of the links includes: calibrate each setting on its own");
  for (MeasuredCollective& table : all) {
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
  Operation fitted = Operation::all_reduce;
  if (algorithm->carries) fit_library(result, *algorithm);
  else fitted = fit_links(result, *algorithm);

  double sum = 0;
  std::size_t n = 0;
  for (Calibration::Entry& entry : result.entries) {
    const MeasuredCollective& m = entry.measured;
    std::erase_if(result.cluster.tables, [&](const MeasuredCollective& t) {
      return t.operation == m.operation && t.workers == m.workers &&
             nodes_of(t, result.cluster) == nodes_of(m, result.cluster);
    });
    if (!algorithm->carries || !measures_the_link(m)) result.cluster.tables.push_back(m);
    if (algorithm->carries) {
      const double error = interpolation_error(m);
      sum += error * error, ++n;
      continue;
    }
    if (m.operation != name_of(fitted) || m.workers < 2) continue;
    const Cluster sized = *resized(result.cluster, m.workers);
    const CostLines lines = algorithm->lines(sized, fitted);
    // A cluster that uses its tables errs as interpolation does; one that uses closed forms, as those do.
    const double interpolation = from_table ? interpolation_error(m) : 0;
    for (std::size_t i = 0; i < m.sizes.size(); ++i, ++n) {
      entry.by_links.push_back(lines(m.sizes[i]));
      const double r = from_table ? interpolation : entry.by_links[i] / m.times[i] - 1;
      sum += r * r;
    }
  }
  judge_links(result, from_table);
  result.cluster.relative_error = std::hypot(std::sqrt(sum / static_cast<double>(n)), spread);
  result.cluster = checked(std::move(result.cluster), "calibrate");
  if (const Answer<CommunicationCost> usable = communication_cost(result.cluster); !usable)
    result.notes.push_back(usable.reason());
  return result;
}

}  // namespace stepcast
