#include "cluster_options.hpp"

#include <stepcast/text.hpp>

namespace stepcast::cli {
namespace {

double number_within(const std::string& text, const char* flag, double low, double high, const char* expected) {
  const double value = number_of(text, flag);
  if (!(value >= low && value <= high)) throw InputError(flag, expected, "'" + text + "'");
  return value;
}

/// "0.05" or "exponential:0.05".
Jitter jitter_of(std::string text) {
  Jitter jitter{Jitter::Distribution::normal, 0};
  if (const auto colon = text.find(':'); colon != std::string::npos) {
    const std::string name = text.substr(0, colon);
    if (name == "exponential") jitter.distribution = Jitter::Distribution::exponential;
    else if (name != "normal") throw InputError("--jitter", "normal or exponential", "'" + name + "'");
    text.erase(0, colon + 1);
  }
  jitter.relative = number_within(text, "--jitter", 1e-9, 0.5, "a spread relative to compute above 0, at most 0.5");
  return jitter;
}

}  // namespace

void add_cluster_option_flags(CLI::App& app, ClusterOptionFlags& flags) {
  app.add_option("--slow-worker", flags.slow_worker, "One worker computes this many times as long: 1.3");
  app.add_option("--late-worker", flags.late_worker, "One worker starts each step later: \"5 ms\"");
  app.add_option("--degraded-link", flags.degraded_link, "One worker has this share of its link: 0.5");
  app.add_option("--jitter", flags.jitter, "Random slowness of all, relative to compute: 0.05 or exponential:0.05");
  app.add_option("--switch", flags.aggregation, "A switch that adds up: switchml, atp or sa_atp");
}

Cluster with_options(Cluster cluster, const ClusterOptionFlags& flags) {
  SlowWorkers slow;  // the same one has all faults
  if (!flags.slow_worker.empty())
    slow.compute_factor = number_within(flags.slow_worker, "--slow-worker", 1, 1000, "a factor from 1 to 1000");
  if (!flags.late_worker.empty()) slow.delay = seconds_of(flags.late_worker, "--late-worker");
  if (!flags.degraded_link.empty())
    slow.link_share = number_within(flags.degraded_link, "--degraded-link", 1e-6, 1, "a share above 0, at most 1");
  if (slow.compute_factor != 1 || slow.delay != Seconds(0) || slow.link_share != 1)
    cluster.stragglers.slow.push_back(slow);
  if (!flags.jitter.empty()) cluster.stragglers.jitter = jitter_of(flags.jitter);
  if (!flags.aggregation.empty()) {
    if (!cluster.aggregation) cluster.aggregation = Aggregation{};
    cluster.aggregation->program = flags.aggregation;
  }
  return checked(std::move(cluster), "flags");
}

}  // namespace stepcast::cli
