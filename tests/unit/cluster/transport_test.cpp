// Transport: what losses leave of a link, and the rounds in which they are repaired.
#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/transport.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

using namespace stepcast;
using doctest::Approx;

TEST_CASE("transport: the fullest of the paths, against small cases by hand and draws") {
  CHECK(fullest_path(1, 1) == 1);
  CHECK(fullest_path(100, 1) == 1);
  CHECK(fullest_path(1, 4) == Approx(4));
  // Two flows on two paths: together or apart with 1/2 each.
  CHECK(fullest_path(2, 2) == Approx(1.5));
  // Three flows on two paths: 3 + 0 with 1/4, else 2 + 1.
  CHECK(fullest_path(3, 2) == Approx((0.25 * 3 + 0.75 * 2) / 1.5));
  std::mt19937_64 random(3);
  for (const auto& [flows, paths] : {std::pair{8, 4}, {16, 16}, {200, 8}, {500, 2}}) {
    double sum = 0;
    const int draws = 20000;
    for (int i = 0; i < draws; ++i) {
      std::vector<int> load(static_cast<std::size_t>(paths), 0);
      for (int f = 0; f < flows; ++f) ++load[random() % static_cast<std::uint64_t>(paths)];
      sum += *std::max_element(load.begin(), load.end());
    }
    CHECK(fullest_path(flows, paths) == Approx(sum / draws * paths / flows).epsilon(0.01));
  }
  // More flows spread more evenly.
  double before = 1e9;
  for (const std::int64_t flows : {1, 4, 16, 64, 256, 1000}) {
    const double now = fullest_path(flows, 8);
    CHECK(now >= 1);
    CHECK(now < before);
    before = now;
  }
}

TEST_CASE("transport: spraying shares all uplinks, hashing at most that") {
  Transport t;
  t.flows = 8, t.paths = 4;
  CHECK(path_factor(t) == Approx(fullest_path(8, 4)));
  t.spraying = true;
  CHECK(path_factor(t) == 1);
  t.oversubscription = 4;
  CHECK(path_factor(t) == 4);  // B / o
  t.spraying = false;
  CHECK(path_factor(t) == Approx(4 * fullest_path(8, 4)));
  t.oversubscription = 0.1;  // more uplinks than anybody needs
  CHECK(path_factor(t) == 1);
}

TEST_CASE("transport: rounds of repair, against draws") {
  std::mt19937_64 random(7);
  for (const auto& [packets, loss] : {std::pair{1, 0.3}, {10, 0.02}, {1000, 0.001}, {5000, 0.03}}) {
    double sum = 0;
    constexpr int draws = 3000;
    for (int i = 0; i < draws; ++i) {
      int rounds = 0;
      for (int missing = packets; missing > 0;) {
        missing = std::binomial_distribution<int>(missing, loss)(random);
        rounds += missing > 0;
      }
      sum += rounds;
    }
    CHECK(repair_rounds(packets, loss, 0) == Approx(sum / draws).epsilon(0.06));
  }
  // Loss of 3 %, 1 % tolerated, 6,667 packets: 2 % are repaired in rounds of 133, 4 and 0.1, the last of which is none.
  CHECK(repair_rounds(6667, 0.03, 0.01) == 2);
  CHECK(repair_rounds(6667, 0.01, 0.01) == 0);
  CHECK(repair_rounds(0, 0.5, 0) == 0);
  for (const double loss : {0.0, 0.001, 0.2, 0.6}) {
    double before = 1e9;
    for (const double tolerated : {0.0, 0.0005, 0.01, 0.3, 1.0}) {
      CHECK(repair_rounds(500, loss, tolerated) <= before);
      before = repair_rounds(500, loss, tolerated);
    }
  }
}

TEST_CASE("transport: every collective pays for losses, on the links between machines only") {
  for (const CollectiveAlgorithm& a : collective_algorithms()) {
    CAPTURE(a.name);
    Cluster c;
    c.nodes = 4, c.devices_per_node = 2, c.servers = 2;
    c.network = c.inside = {Seconds(0), BytesPerSecond(1e9)};
    c.inside.bandwidth = BytesPerSecond(1e15);
    c.server_local_rate = c.inside.bandwidth;
    c.aggregation.emplace();
    Cluster lossy = c;
    lossy.transport.loss = 0.2;
    const auto free = communication_cost(c, a.name), paid = communication_cost(lossy, a.name);
    if (!free) continue;
    REQUIRE(paid);
    for (std::size_t i = 0; i < operation_count; ++i) {
      const auto op = static_cast<Operation>(i);
      if (!free->defines(op) || op == Operation::server_sum) continue;
      CAPTURE(name_of(op));
      const double ratio = (*paid)(op, Bytes(1e8)) / (*free)(op, Bytes(1e8));
      const bool inside = op == Operation::local_reduce_scatter || op == Operation::local_all_gather;
      CHECK(ratio == Approx(inside ? 1 : 1.25).epsilon(1e-3));
      CHECK(paid->between_machines(op) == !(inside || op == Operation::server_card));
    }
  }
}

TEST_CASE("transport: packets of an operation are its bytes on all links") {
  Cluster c;
  c.nodes = 4, c.servers = 2;
  c.network = c.inside = {Seconds(0), BytesPerSecond(1e9)};
  const auto cost = communication_cost(c, "ring");
  REQUIRE(cost);
  // A ring of four sends three quarters of the buffer twice from each of them.
  CHECK(cost->packets(Operation::all_reduce, Bytes(1.5e6)) == Approx(2 * 0.75 * 4 * 1000));
  CHECK(cost->packets(Operation::reduce_scatter, Bytes(1.5e6)) == Approx(0.75 * 4 * 1000));
  CHECK(cost->packets(Operation::push, Bytes(1.5e6)) == Approx(4000));
  CHECK(cost->packets(Operation::server_card, Bytes(1.5e6)) == 0);
}
