// The operator graph of a workload: what its configurations cost, what lies between them, and the search over it
// against brute force and against layouts.
#include "helpers/random_layouts.hpp"
#include "oracles/assignments.hpp"

#include <stepcast/search/unit_configurations.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace stepcast;
using namespace stepcast::test;

namespace {

struct Case {
  Workload workload;
  Cluster cluster;
  LayoutOptions options;
};

Case random_case(Draw& draw, int most_layers) {
  Case c;
  c.workload = workload_of(
      model_shape_of("gpt:hidden=256,heads=8,seq=128,vocab=2048,layers=" + std::to_string(draw.whole(1, most_layers))),
      random_device(draw));
  c.cluster = random_machines(draw);
  c.options.global_batch = static_cast<double>(c.cluster.workers() * (1 << draw.whole(0, 3)));
  return c;
}

}  // namespace

TEST_CASE("each unit has every pair of degrees, and of one pair only what nothing beats") {
  Draw draw(31);
  for (int i = 0; i < 40; ++i) {
    const Case c = random_case(draw, 4);
    const auto made = unit_graph(c.workload, c.cluster, c.options, {1, draw.coin()});
    REQUIRE(made);
    REQUIRE(made->graph.operators.size() == c.workload.units.size());
    REQUIRE(made->graph.edges.size() + 1 == c.workload.units.size());
    for (std::size_t u = 0; u < made->of.size(); ++u) {
      const auto& costs = made->graph.operators[u].configurations;
      REQUIRE(costs.size() == made->of[u].size());
      std::set<std::int64_t> degrees;
      for (std::size_t k = 0; k < costs.size(); ++k) {
        const UnitChoice& own = made->of[u][k];
        CHECK(c.cluster.workers() % own.tensor == 0);
        CHECK((costs[k].memory > 0 && costs[k].time > 0));
        degrees.insert(own.tensor);
        for (std::size_t o = 0; o < costs.size(); ++o)
          if (o != k && made->of[u][o].tensor == own.tensor)
            CHECK_FALSE((costs[o].memory <= costs[k].memory && costs[o].time <= costs[k].time));
      }
      for (std::int64_t t = 1; t <= c.cluster.devices_per_node; t *= 2) CHECK(degrees.contains(t));
    }
  }
}

TEST_CASE("between equal degrees nothing changes, between others something has to be gathered") {
  Draw draw(32);
  for (int i = 0; i < 40; ++i) {
    const Case c = random_case(draw, 3);
    const auto made = unit_graph(c.workload, c.cluster, c.options);
    REQUIRE(made);
    for (const OperatorGraph::Edge& e : made->graph.edges)
      for (std::size_t a = 0; a < made->of[e.from].size(); ++a)
        for (std::size_t b = 0; b < made->of[e.to].size(); ++b) {
          const CostPoint& change = e.change[a * made->of[e.to].size() + b];
          CHECK(change.memory == 0);
          CHECK((change.time > 0) == (made->of[e.from][a].tensor != made->of[e.to][b].tensor));
        }
  }
}

TEST_CASE("the frontier of a workload equals brute force, and its fastest point the single-objective programme") {
  Draw draw(33);
  for (int i = 0; i < 25; ++i) {
    Case c = random_case(draw, 2);
    c.cluster = *resized(c.cluster, std::min<std::int64_t>(c.cluster.workers(), c.cluster.devices_per_node));
    const auto made = unit_graph(c.workload, c.cluster, c.options, {1, draw.coin()});
    REQUIRE(made);
    const AssignmentFrontier tracked = frontier_of(made->graph), all = frontier_by_enumeration(made->graph);
    CHECK(tracked.exact);
    // Sums in another order differ by rounding, which may tell points apart that are equal.
    const auto covers = [](const AssignmentFrontier& good, const AssignmentFrontier& bad) {
      return std::all_of(bad.points.begin(), bad.points.end(), [&](const Assignment& b) {
        return std::any_of(good.points.begin(), good.points.end(), [&](const Assignment& g) {
          return g.memory <= b.memory * (1 + 1e-12) && g.time <= b.time * (1 + 1e-12);
        });
      });
    };
    CHECK(covers(tracked, all));
    CHECK(covers(all, tracked));
    CHECK(tracked.points.back().time == doctest::Approx(least_time(made->graph)).epsilon(1e-12));
  }
}

TEST_CASE("a model of a hundred layers is solved with thinned frontiers, both ends exact") {
  Draw draw(34);
  Case c = random_case(draw, 1);
  c.workload =
      workload_of(model_shape_of("gpt:hidden=1024,heads=16,seq=512,vocab=2048,layers=96"), random_device(draw));
  c.cluster = cluster_of_flags(64, 8, "100GbE");
  c.options.global_batch = 512;
  const auto made = unit_graph(c.workload, c.cluster, c.options);
  REQUIRE(made);
  const AssignmentFrontier frontier = frontier_of(made->graph, {64});
  CHECK(frontier.points.size() <= 64);
  CHECK(frontier.points.size() > 2);
  CHECK(frontier.points.back().time == doctest::Approx(least_time(made->graph)).epsilon(1e-9));
}

TEST_CASE("a batch that no part of the cluster divides has no configuration, which is said") {
  Draw draw(35);
  Case c = random_case(draw, 1);
  c.cluster = cluster_of_flags(8, 2, "25GbE");
  c.options.global_batch = 3;
  const auto made = unit_graph(c.workload, c.cluster, c.options);
  REQUIRE_FALSE(made);
  CHECK(made.reason().find("nothing divides 8 devices and a global batch of 3") != std::string::npos);
}
