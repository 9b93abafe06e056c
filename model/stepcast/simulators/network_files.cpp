// The cluster becomes dimensions, ranks next to one another first.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/closed_forms.hpp>
#include <stepcast/formats/chakra/chakra.hpp>
#include <stepcast/simulators/network_files.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

namespace stepcast {
namespace {

/// One dimension of the network: ranks next to one another first.
std::vector<FactorLevel> dimensions_of(const Cluster& c) {
  std::vector<FactorLevel> dimensions;
  if (c.devices_per_node > 1) dimensions.push_back({c.devices_per_node, inside_link(c)});
  bool first = true;
  if (c.nodes > 1)
    for (const NetworkLevel& level : network_levels(c)) {
      if (std::exchange(first, false) && on_torus(c)) {
        for (const TorusSide& side : torus_sides(c, level.units)) dimensions.push_back({side.units, torus_link(c)});
      } else if (level.units > 1) {
        dimensions.push_back({level.units, device_link(c, level)});
      }
    }
  return dimensions;
}

std::string yaml_list(const std::vector<FactorLevel>& dimensions, const std::function<std::string(FactorLevel)>& text) {
  std::string list;
  for (const FactorLevel& d : dimensions) add_to_list(list, text(d));
  return "[ " + list + " ]";
}

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string network_of(const std::vector<FactorLevel>& dimensions) {
  constexpr double gigabyte = 1 << 30;
  return "# Written by stepcast. Bandwidth in GB/s of 2^30 bytes, latency in ns.\ntopology: " +
         yaml_list(dimensions, [](const FactorLevel&) { return std::string("Ring"); }) +
         "\nnpus_count: " + yaml_list(dimensions, [](const FactorLevel& d) { return std::to_string(d.factor); }) +
         "\nbandwidth: " +
         yaml_list(dimensions, [](const FactorLevel& d) { return number_text(d.link.bandwidth.value() / gigabyte); }) +
         "\nlatency: " +
         yaml_list(dimensions, [](const FactorLevel& d) { return number_text(d.link.latency.value() * 1e9); }) + "\n";
}

/// ASTRA-sim's name of an algorithm, and whether it runs it as the plan is predicted.
std::pair<std::string, bool> implementation_of(std::string_view algorithm, std::size_t dimensions) {
  if (algorithm == "ring") return {"ring", dimensions == 1};
  if (algorithm == "hierarchical" || algorithm == "factored") return {"ring", true};
  if (algorithm == "halving_doubling") return {"halvingDoubling", true};
  if (algorithm == "double_tree") return {"doubleBinaryTree", dimensions == 1};
  return {"ring", false};
}

std::string system_of(const std::string& all_reduce, std::size_t dimensions) {
  const std::vector<std::string> rings(dimensions, "ring"), sums(dimensions, all_reduce);
  const nlohmann::ordered_json json{{"scheduling-policy", "FIFO"},
                                    {"endpoint-delay", 0},
                                    {"active-chunks-per-dimension", 1},
                                    {"preferred-dataset-splits", 1},
                                    {"all-reduce-implementation", sums},
                                    {"all-gather-implementation", rings},
                                    {"reduce-scatter-implementation", rings},
                                    {"all-to-all-implementation", rings},
                                    {"collective-optimization", "localBWAware"},
                                    {"local-mem-bw", 1000},
                                    {"boost-mode", 0}};
  return json.dump(2) + "\n";
}

}  // namespace

Answer<NetworkFiles> network_files(const Cluster& cluster, std::string_view algorithm) {
  if (on_torus(cluster))
    for (const TorusSide& side : torus_sides(cluster, network_levels(cluster).level[0].units))
      if (side.units > 2 && !side.closed)
        return Inapplicable{"its machines form a mesh, whose lines ASTRA-sim would close to rings"};
  const std::vector<FactorLevel> dimensions = dimensions_of(cluster);
  NetworkFiles out;
  out.dimensions = std::ssize(dimensions);
  std::tie(out.all_reduce, out.as_predicted) = implementation_of(algorithm, dimensions.size());
  if (cluster.message_overhead > Seconds(0))
    out.remarks.push_back("the network's files do not say the " + text_of(cluster.message_overhead) +
                          " that each message takes on the host");
  std::int64_t ranks = 1;
  for (const FactorLevel& d : dimensions) ranks *= d.factor;
  if (ranks != cluster.workers())
    return Inapplicable{"its " + std::to_string(cluster.nodes) + " machines fill no whole units of its levels"};
  out.network = network_of(dimensions);
  out.system = system_of(out.all_reduce, dimensions.size());
  out.memory = "{\n  \"memory-type\": \"NO_MEMORY_EXPANSION\"\n}\n";
  return out;
}

std::optional<std::int64_t> chakra_number_of(Operation op) {
  const std::pair<Operation, std::string_view> names[] = {{Operation::all_reduce, "allreduce"},
                                                          {Operation::all_gather, "allgather"},
                                                          {Operation::reduce_scatter, "reducescatter"},
                                                          {Operation::all_to_all, "alltoall"},
                                                          {Operation::broadcast, "broadcast"}};
  for (const auto& [operation, name] : names)
    if (operation == op)
      return std::find(std::begin(chakra_et::collective_names), std::end(chakra_et::collective_names), name) -
             std::begin(chakra_et::collective_names);
  return std::nullopt;
}

}  // namespace stepcast
