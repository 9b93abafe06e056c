// Tori and meshes: collectives against messages on explicit links, groups of layouts on them, words and JSON.
#include "oracles/torus_traffic.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/cluster/closed_forms.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/layout/process_group.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace stepcast;
using doctest::Approx;
using stepcast::test::Torus;

namespace {

constexpr double rate = 50e9;

Cluster machines_in(const Torus& torus, std::int64_t per_node = 1) {
  Cluster c;
  c.name = "torus";
  c.devices_per_node = per_node;
  c.nodes = test::units_of(torus);
  c.inside = {microseconds(1), BytesPerSecond(200e9)};
  c.network = {microseconds(2), BytesPerSecond(rate)};
  c.all_reduce = "torus";
  Level level{"pod", c.nodes, {}, {}, 1, 0};
  for (const test::TorusDimension& d : torus) level.torus.push_back({d.units, d.closed});
  c.levels = {level};
  c.provenance = {"test"};
  return checked(c, "test");
}

CostLine line_of(const Cluster& c, const char* algorithm, Operation op) {
  const Answer<CommunicationCost> cost = communication_cost(c, algorithm);
  REQUIRE(cost);
  return cost->line(op);
}

/// Equal dimensions, of which all phases load their links alike.
const std::vector<Torus> cubes{{{4, true}, {4, true}, {4, true}},
                               {{3, true}, {3, true}},
                               {{8, true}},
                               {{5, false}, {5, false}},
                               {{2, true}, {2, true}, {2, true}}};
const std::vector<Torus> others{{{2, true}, {4, true}, {8, true}}, {{4, true}, {6, false}}, {{16, true}, {3, true}}};

std::vector<Torus> all_tori() {
  std::vector<Torus> all = cubes;
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

constexpr double m = 1e9;

}  // namespace

TEST_CASE("Rings along all dimensions put on every link of a torus what their messages do") {
  for (const Torus& torus : all_tori()) {
    CAPTURE(torus.size());
    CAPTURE(torus[0].units);
    double counted = 0;
    for (const test::TorusPhase& phase : test::bucket_half(torus, m)) counted += test::load_of(torus, phase).fullest;
    const Cluster c = machines_in(torus);
    CHECK(line_of(c, "torus", Operation::reduce_scatter).seconds_per_byte * m == Approx(counted / rate).epsilon(1e-9));
    CHECK(line_of(c, "torus", Operation::all_reduce).seconds_per_byte * m == Approx(2 * counted / rate).epsilon(1e-9));
  }
  // Of closed and equal dimensions no link carries more than another, and none idles: the least that there is.
  const Torus cube = cubes[0];
  double fullest = 0, total = 0;
  for (const test::TorusPhase& phase : test::bucket_half(cube, m)) {
    const test::LinkLoad load = test::load_of(cube, phase);
    fullest += load.fullest, total += load.total;
  }
  CHECK(total == Approx(64 * 63.0 / 64 * m));
  CHECK(fullest == Approx(total / (64 * 6)));
  CHECK(line_of(machines_in(cube), "torus", Operation::all_reduce).start_up.value() == Approx(2 * 3 * 3 * 2e-6));
}

TEST_CASE("A ring in the order of ranks loads each link of a torus once") {
  for (const Torus& torus : all_tori()) {
    CAPTURE(torus[0].units);
    CAPTURE(torus.size());
    const test::TorusPhase ring = test::ring_half(torus, m);
    const double steps = static_cast<double>(test::units_of(torus) - 1);
    const CostLine line = line_of(machines_in(torus), "ring", Operation::reduce_scatter);
    CHECK(line.seconds_per_byte * m == Approx(test::load_of(torus, ring).fullest / rate).epsilon(1e-9));
    CHECK(line.start_up.value() ==
          Approx(steps * static_cast<double>(test::longest_way(torus, ring)) * 2e-6).epsilon(1e-9));
  }
}

TEST_CASE("An all-to-all takes as long as the fullest link of a torus") {
  for (const Torus& torus : all_tori()) {
    CAPTURE(torus[0].units);
    CAPTURE(torus.size());
    const double counted = test::load_of(torus, test::all_to_all(torus, m)).fullest;
    CHECK(line_of(machines_in(torus), "torus", Operation::all_to_all).seconds_per_byte * m ==
          Approx(counted / rate).epsilon(1e-9));
  }
}

TEST_CASE("Dimension after dimension takes one link of each, devices of a machine share them") {
  const Torus torus{{4, true}, {8, true}};
  double expected = 0, left = m;
  for (const auto& d : torus) {
    expected += 2 * left * static_cast<double>(d.units - 1) / static_cast<double>(d.units) / rate;
    left /= static_cast<double>(d.units);
  }
  CHECK(line_of(machines_in(torus), "factored", Operation::all_reduce).seconds_per_byte * m == Approx(expected));
  // Four devices scatter inside first; each sends a quarter over a quarter of the link.
  const double inside = 2 * 0.75 * m / 200e9;
  CHECK(line_of(machines_in(torus, 4), "factored", Operation::all_reduce).seconds_per_byte * m ==
        Approx(inside + expected));
  CHECK_FALSE(communication_cost(machines_in(torus), "double_tree"));
  CHECK_FALSE(communication_cost(machines_in(torus), "nccl"));
}

TEST_CASE("Groups have the dimensions of a torus that their ranks run along") {
  const Cluster c = machines_in({{4, true}, {4, true}, {8, true}});
  const auto shape = [&](std::int64_t stride, std::int64_t degree) {
    const RankAxis axis{stride, degree};
    return group_shape(c, c.workers(), std::span(&axis, 1));
  };
  CHECK(shape(1, 4).torus == std::vector<TorusSide>{{4, true}});
  CHECK(shape(1, 16).torus == std::vector<TorusSide>{{4, true}, {4, true}});
  CHECK(shape(4, 32).torus == std::vector<TorusSide>{{4, true}, {8, true}});
  CHECK(shape(16, 8).torus == std::vector<TorusSide>{{8, true}});
  CHECK(shape(1, 8).torus == std::vector<TorusSide>{{4, true}, {2, false}});
  CHECK(shape(1, 4).sharing_torus == 1);
  // Every other machine of a line: two such groups interleave, and share its links.
  CHECK(shape(2, 2).torus == std::vector<TorusSide>{{2, true}});
  CHECK(shape(2, 2).sharing_torus == 2);
  // A group along one dimension is as fast as a torus of that dimension alone.
  const Cluster group = group_cluster(c, shape(16, 8));
  CHECK(line_of(group, "torus", Operation::all_reduce) ==
        line_of(machines_in({{8, true}}), "torus", Operation::all_reduce));
}

TEST_CASE("Part of a torus is a line where it does not close") {
  const Cluster c = machines_in({{4, true}, {4, true}, {4, true}});
  const auto sides = [&](std::int64_t machines) {
    const TorusSides found = torus_sides(c, machines);
    return std::vector<TorusSide>(found.begin(), found.end());
  };
  CHECK(sides(64) == std::vector<TorusSide>{{4, true}, {4, true}, {4, true}});
  CHECK(sides(32) == std::vector<TorusSide>{{4, true}, {4, true}, {2, false}});
  CHECK(sides(4) == std::vector<TorusSide>{{4, true}});
  CHECK(sides(6) == std::vector<TorusSide>{{3, false}, {2, false}});
  CHECK(sides(1).empty());
  for (const std::int64_t machines : {1, 2, 5, 6, 7, 32, 60, 64}) {
    const Answer<Cluster> part = resized(c, machines);
    REQUIRE(part);
    CHECK(communication_cost(*part));
  }
  CHECK_FALSE(resized(c, 65));
}

TEST_CASE("Tori in words and JSON") {
  const ClusterDescription said{
      .workers = "512", .per_node = "1", .level = {"pod:torus 4x4x4 x 100GB/s", "dcn:8 x 25Gb/s"}};
  const Cluster c = cluster_of(said);
  CHECK(c.levels[0].torus == std::vector<TorusSide>{{4, true}, {4, true}, {4, true}});
  CHECK(c.levels[0].units == 64);
  CHECK(c.all_reduce == "torus");
  CHECK(c.network.bandwidth.value() == Approx(0.94 * 100e9));
  CHECK(communication_cost(c));
  CHECK(cluster_of_json(json_of(c), "again").levels == c.levels);
  const Cluster mesh =
      cluster_of({.workers = "16", .per_node = "1", .level = {"pod: mesh 4 x 4 x 50GB/s, latency=1us"}});
  CHECK(mesh.levels[0].torus == std::vector<TorusSide>{{4, false}, {4, false}});
  CHECK(mesh.network.latency == microseconds(1));
  CHECK(cluster_of_json(json_of(mesh), "again").levels == mesh.levels);
  const auto refused = [](std::vector<std::string> level) {
    ClusterDescription bad{.workers = "16", .per_node = "1", .level = std::move(level)};
    try {
      static_cast<void>(cluster_of(bad, std::nullopt, ""));
    } catch (const InputError& error) { return error.where == "level"; }
    return false;
  };
  CHECK(refused({"pod:torus"}));
  CHECK(refused({"pod:mesh, latency=1us"}));
  CHECK(refused({"pod:torus x 4"}));
  CHECK(refused({"pod:torus 4x0"}));
  CHECK(refused({"pod:torus 2x4 x 100GB/s"}));  // 8 of 16
  CHECK(refused({"pod:torus 4x4 x 100GB/s x 2"}));
  CHECK(refused({"pod:4x4 x 100GB/s"}));
  CHECK(refused({"pod:torus 4x4, oversubscribed=2"}));
  CHECK(refused({"rail:4", "pod:torus 2x2"}));
  CHECK(refused({"pod:torus 1000000x1000000x1000000"}));
  CHECK(refused({"pod:torus 2x2x1x1x1x1x1x1x4"}));
}
