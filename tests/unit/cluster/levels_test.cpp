// Levels of a network: collectives against messages on explicit graphs, groups on their uplinks, JSON and words.
#include "oracles/level_traffic.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/cluster/closed_forms.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/layout/process_group.hpp>

#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

constexpr double megabyte = 1e6;

/// Machines of `per_node` devices under units of so many; every level slower, later and narrower than the one below.
Cluster tree_of(std::int64_t per_node, const std::vector<std::int64_t>& units, double oversubscription) {
  Cluster c;
  c.name = "tree";
  c.devices_per_node = per_node;
  c.nodes = 1;
  c.inside = {microseconds(1), BytesPerSecond(200e9)};
  c.network = {microseconds(3), BytesPerSecond(25e9)};
  c.all_reduce = "ring";
  for (std::size_t k = 0; k < units.size(); ++k) {
    Level level{"level " + std::to_string(k + 1), units[k], {}, {}, 1, 0};
    if (k > 0) {
      level.latency = microseconds(3 + 2 * static_cast<double>(k));
      level.bandwidth = BytesPerSecond(25e9);
      level.oversubscription = oversubscription;
    }
    c.levels.push_back(level);
    c.nodes *= units[k];
  }
  c.provenance = {"test"};
  return checked(c, "test");
}

/// Topologies of 8 and 64 ranks, of two and three levels between machines.
std::vector<Cluster> trees() {
  std::vector<Cluster> all;
  for (const double oversubscription : {1.0, 2.0, 16.0, 200.0}) {
    all.push_back(tree_of(2, {2, 2}, oversubscription));
    all.push_back(tree_of(1, {2, 2, 2}, oversubscription));
    all.push_back(tree_of(4, {4, 4}, oversubscription));
    all.push_back(tree_of(8, {2, 4}, oversubscription));
    all.push_back(tree_of(4, {4, 2, 2}, oversubscription));
  }
  return all;
}

double model_time(const Cluster& c, const char* algorithm, Operation op, double bytes) {
  const Answer<CommunicationCost> cost = communication_cost(c, algorithm);
  REQUIRE(cost);
  return (*cost)(op, Bytes(bytes)).value();
}

std::vector<std::int64_t> all_ranks(const Cluster& c) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(c.workers()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

TEST_CASE("levels of a shipped cluster count, though it was measured without them") {
  const auto seconds = [](const char* spine) {
    const ClusterDescription said{.cluster = "8xdgx-h100", .level = {"rail:2", spine}};
    return (*communication_cost(cluster_of(said)))(Operation::all_reduce, mebibytes(64)).value();
  };
  CHECK(seconds("spine:8 x 1Gb/s") > 100 * seconds("spine:8"));
  CHECK(seconds("spine:8, oversubscribed=8") > 2 * seconds("spine:8"));
}

TEST_CASE("Collectives on levels take as long as their messages, link by link") {
  for (const Cluster& c : trees()) {
    CAPTURE(c.workers());
    CAPTURE(c.levels.back().oversubscription);
    std::vector<std::int64_t> factors{c.devices_per_node};
    for (const Level& level : c.levels)
      for (std::int64_t rest = level.units; rest > 1; rest /= 2) factors.push_back(2);
    for (const double m : {1e3, 1e6, 1e9}) {
      CHECK(model_time(c, "ring", Operation::all_reduce, m) ==
            Approx(time_of(c, ring_all_reduce(all_ranks(c), m))).epsilon(1e-9));
      CHECK(model_time(c, "factored", Operation::all_reduce, m) ==
            Approx(time_of(c, factored_all_reduce(factors, m))).epsilon(1e-9));
      CHECK(model_time(c, "recursive_doubling", Operation::all_reduce, m) ==
            Approx(time_of(c, doubling_all_reduce(c.workers(), m))).epsilon(1e-9));
      CHECK(model_time(c, "pairwise", Operation::all_to_all, m) ==
            Approx(time_of(c, pairwise_all_to_all(c.workers(), m))).epsilon(1e-9));
    }
  }
}

TEST_CASE("Trees put on every level's uplinks what their edges carry") {
  for (const double oversubscription : {1.0, 8.0, 64.0})
    for (const auto& units : std::vector<std::vector<std::int64_t>>{{4, 4}, {8, 2}, {4, 8, 2}, {3, 5}, {6, 4}}) {
      Cluster c = tree_of(1, units, oversubscription);
      CAPTURE(c.nodes);
      const Answer<CommunicationCost> cost = communication_cost(c, "double_tree");
      REQUIRE(cost);
      const double counted = time_of_bytes(c, bytes_on_links(c, tree_all_reduce(c.nodes, 1, megabyte)));
      CHECK(cost->line(Operation::all_reduce).seconds_per_byte * megabyte == Approx(counted).epsilon(1e-9));
    }
}

TEST_CASE("Only what crosses a level feels its oversubscription") {
  const Cluster wide = tree_of(8, {8, 8}, 1), narrow = tree_of(8, {8, 8}, 200);
  const auto time = [](const Cluster& c, std::int64_t members, std::int64_t stride) {
    const RankAxis axis{stride, members};
    const Cluster group = group_cluster(c, group_shape(c, c.workers(), std::span(&axis, 1)));
    return model_time(group, "ring", Operation::all_reduce, 1e8);
  };
  CHECK(time(wide, 8, 1) == time(narrow, 8, 1));    // within a machine
  CHECK(time(wide, 64, 1) == time(narrow, 64, 1));  // within a leaf
  CHECK(time(wide, 8, 8) == time(narrow, 8, 8));
  CHECK(time(wide, 512, 1) < time(narrow, 512, 1));
  CHECK(time(wide, 8, 64) < time(narrow, 8, 64));
}

TEST_CASE("A group of any stride takes the links that all groups like it load") {
  for (const double oversubscription : {1.0, 4.0, 32.0})
    for (const std::int64_t cards : {1, 4}) {
      Cluster c = tree_of(4, {4, 2, 2}, oversubscription);
      c.nics_per_node = cards;
      for (const std::int64_t stride : {1, 2, 4, 8, 16, 32})
        for (std::int64_t members = 2; members * stride <= c.workers(); members *= 2) {
          CAPTURE(stride);
          CAPTURE(members);
          std::vector<Rounds> rings;
          for (std::int64_t first = 0; first < c.workers(); ++first) {
            if (first / stride % members != 0) continue;
            std::vector<std::int64_t> ranks;
            for (std::int64_t i = 0; i < members; ++i) ranks.push_back(first + i * stride);
            rings.push_back(ring_all_reduce(ranks, 1e8));
          }
          const RankAxis axis{stride, members};
          const Cluster group = group_cluster(c, group_shape(c, c.workers(), std::span(&axis, 1)));
          const double predicted = model_time(group, "ring", Operation::all_reduce, 1e8);
          CHECK(predicted == Approx(time_of(c, together(rings))).epsilon(0.01));
        }
    }
}

TEST_CASE("A job that does not fill whole units stays within the bounds of those that do") {
  Cluster c = tree_of(8, {16, 4}, 4);
  const auto time = [&](std::int64_t machines) {
    const Answer<Cluster> part = resized(c, 8 * machines);
    REQUIRE(part);
    return model_time(*part, "pairwise", Operation::all_to_all, 1e8);
  };
  for (const std::int64_t machines : {17, 20, 24, 33}) CHECK(time(machines) > time(16));
  for (const std::int64_t machines : {17, 20, 24, 33}) CHECK(time(machines) <= time(64) * 1.35);
  CHECK_FALSE(resized(c, 8 * 65));
}

TEST_CASE("Levels are read back as they were written, and none is what it was") {
  const Cluster c = tree_of(8, {32, 16}, 2);
  const Cluster again = cluster_of_json(json_of(c), "again");
  CHECK(again.levels == c.levels);
  const std::string plain = R"({"schema": "stepcast.cluster/1", "name": "x", "nodes": 4, "devices_per_node": 2,
    "inside": {"latency": "1 us", "bandwidth": "100 GB/s"}, "network": {"latency": "5 us", "bandwidth": "10 GB/s"},
    "provenance": ["x"])";
  CHECK(cluster_of_json(plain + "}", "x").levels.empty());
  const Cluster inherits = cluster_of_json(
      plain + R"(, "levels": [{"name": "leaf", "units": 2}, {"name": "spine", "units": 2, "oversubscription": 3}]})",
      "x");
  CHECK(inherits.levels[1].bandwidth == inherits.network.bandwidth);
  CHECK(inherits.levels[1].latency == inherits.network.latency);
  for (const char* bad : {R"([{"name": "leaf", "units": 2}])", R"([{"name": "leaf", "units": 0}])",
                          R"([{"name": "leaf", "units": 4, "oversubscription": 2}])",
                          R"([{"name": "leaf", "units": 2}, {"name": "leaf", "units": 2}])",
                          R"([{"name": "leaf", "units": 2}, {"name": "spine", "units": 2, "background": 1}])",
                          R"([{"name": "leaf", "units": 2}, {"name": "spine", "units": 2, "oversubscribed": 2}])"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(static_cast<void>(cluster_of_json(plain + R"(, "levels": )" + bad + "}", "x")), InputError);
  }
}

TEST_CASE("Levels in words") {
  const ClusterDescription said{
      .workers = "4096", .per_node = "8", .level = {"rail:32 x 400Gb/s", "spine:16, oversubscribed=2, background=30%"}};
  const Cluster c = cluster_of(said);
  CHECK(c.network.bandwidth.value() == Approx(0.94 * 50e9));
  REQUIRE(c.levels.size() == 2);
  CHECK(c.levels[0].name == "rail");
  CHECK(c.levels[0].units == 32);
  CHECK(c.levels[1].bandwidth == c.network.bandwidth);
  CHECK(c.levels[1].latency > c.network.latency);
  CHECK(c.levels[1].oversubscription == 2);
  CHECK(c.levels[1].background == Approx(0.3));
  // The same in one text, beside a network, and on a cluster that has a name.
  ClusterDescription other{.workers = "4096", .per_node = "8", .network = "400Gb/s"};
  other.level = {"rail:32; spine:16, oversubscribed=2, background=0.3"};
  CHECK(cluster_of(other).levels == c.levels);
  const auto refused = [](std::vector<std::string> level, std::string network = "") {
    ClusterDescription bad{.workers = "128", .per_node = "8", .network = std::move(network), .level = std::move(level)};
    try {
      static_cast<void>(cluster_of(bad, std::nullopt, ""));
    } catch (const InputError& error) { return error.where == "level"; }
    return false;
  };
  CHECK(refused({"rail"}));
  CHECK(refused({"rail:0"}));
  CHECK(refused({"rail:8"}));  // joins 8 of 16 machines
  CHECK(refused({"rail:8", "spine:2, overscribed=2"}));
  CHECK(refused({"rail:8", "spine:2, oversubscribed=0.5"}));
  CHECK(refused({"rail:8", "spine:2, background=100%"}));
  CHECK(refused({"rail:16, oversubscribed=2"}));
  CHECK(refused({"rail:16 x 100Gb/s"}, "100Gb/s"));
  CHECK_FALSE(refused({"rail:16 x 100Gb/s"}));
}
