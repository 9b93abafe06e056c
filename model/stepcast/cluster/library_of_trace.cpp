// Library of a trace: the forms of the cluster's algorithm on the traced links, beside the traced times.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/carried.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/cluster/library_of_trace.hpp>
#include <stepcast/cluster/links_of_trace.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace stepcast {
namespace {

/// Factors nearer to 1 are within what times of one trace vary by, and what a fit of its links misses.
constexpr double told_apart = 1.1;

/// PyTorch's ProcessGroupGloo all-reduces the whole buffer and keeps its part: twice the bytes of a reduce-scatter.
constexpr std::string_view without_scatter = "gloo";
constexpr double all_reduce_over_scatter = 2;

/// What groups of the traced job that lie as all workers of the cluster do went over.
std::optional<Link> traced_link(const Profile& profile, bool between) {
  std::optional<ShownLink> shown = between ? shown_network(profile) : shown_inside(profile);
  if (!shown && between) shown = shown_anywhere(profile);
  return shown ? std::optional(shown->link) : std::nullopt;
}

/// Traced and predicted seconds of the messages whose bytes govern.
struct Compared {
  double traced = 0, by_form = 0;
};

/// By operation, for the groups that lie between machines, or inside one, on links like `link`.
std::map<std::string, Compared> compared(const Cluster& cluster, const Profile& profile, const Link& link,
                                         bool between) {
  std::map<std::string, Compared> all;
  for (const TransferTimes& t : profile.transfers) {
    if ((between && t.within_machine()) || (!between && !t.within_machine())) continue;
    const std::optional<Operation> operation = operation_of(t.operation);
    const std::int64_t machines = between ? t.workers / std::max<std::int64_t>(1, t.per_machine) : 1;
    Cluster traced = bare_machines(cluster, t.workers, machines);
    traced.all_reduce = cluster.all_reduce;
    (between ? traced.network : traced.inside) = link;
    const Answer<CommunicationCost> cost = communication_cost(traced);
    if (!operation || !cost || !cost->defines(*operation)) continue;
    for (std::size_t i = 0; i < t.sizes.size(); ++i) {
      const Seconds by_form = (*cost)(*operation, t.sizes[i]);
      if (2 * cost->line(*operation).start_up > by_form) continue;
      Compared& sum = all[t.operation];
      sum.traced += t.times[i].value(), sum.by_form += by_form.value();
    }
  }
  return all;
}

bool is_measured(const Cluster& cluster, std::string_view operation) {
  return std::ranges::any_of(cluster.tables, [&](const MeasuredCollective& t) { return t.operation == operation; });
}

bool runs(const Profile& profile, std::string_view library) {
  return std::ranges::any_of(profile.transfers, [&](const TransferTimes& t) { return t.library == library; });
}

}  // namespace

Cluster with_library_of(Cluster cluster, const Profile& profile) {
  const bool same = cluster.device.empty() ? true : profile.has_device() && same_device(cluster.device, profile.device);
  const CollectiveAlgorithm* algorithm = collective_algorithm(cluster.all_reduce);
  if (!same || !cluster.library.empty() || !algorithm || algorithm->carries) return cluster;
  const bool between = cluster.nodes > 1;
  const std::optional<Link> link = profile.ranks.empty() ? std::nullopt : traced_link(profile, between);
  std::map<std::string, Compared> all;
  if (link) all = compared(cluster, profile, *link, between);
  const auto factor_of = [&](const std::string& operation) {
    const auto found = all.find(operation);
    return found == all.end() ? 1 : found->second.traced / found->second.by_form;
  };
  std::map<std::string, double> factors;
  for (const auto& [operation, times] : all) factors[operation] = factor_of(operation);
  const bool scatters = !runs(profile, without_scatter) || factors.contains("reduce_scatter");
  if (!scatters) factors["reduce_scatter"] = all_reduce_over_scatter * factor_of("all_reduce");
  std::string name;
  for (const TransferTimes& t : profile.transfers)
    if (name.empty()) name = t.library;
  for (const auto& [operation, factor] : factors) {
    if (is_measured(cluster, operation) || (factor < told_apart && factor * told_apart > 1)) continue;
    cluster.library.push_back({operation, factor, (name.empty() ? "" : name + ", ") + "as traced"});
  }
  return cluster;
}

std::string library_in_words(const Cluster& cluster) {
  if (cluster.library.empty()) return {};
  const auto text = [](const LibraryOperation& l) { return l.operation + " " + fixed(l.times_as_long, 2); };
  return cluster.library.front().provenance + ": " + listed(cluster.library, text) + " times as long as by " +
         cluster.all_reduce;
}

}  // namespace stepcast
