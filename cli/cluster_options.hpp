#pragma once
// Cluster options: the flags that say what is out of the ordinary about a cluster: slow or irregular workers, and a
// switch that adds up gradients.
#include <stepcast/cluster.hpp>

#include <CLI/CLI.hpp>

#include <string>

namespace stepcast::cli {

struct ClusterOptionFlags {
  std::string slow_worker, late_worker, degraded_link, jitter, aggregation;
};
/// --slow-worker, --late-worker, --degraded-link, --jitter, --switch.
void add_cluster_option_flags(CLI::App&, ClusterOptionFlags&);
/// The cluster with what the flags say, on top of what it says itself. Throws InputError.
[[nodiscard]] Cluster with_options(Cluster, const ClusterOptionFlags&);

}  // namespace stepcast::cli
