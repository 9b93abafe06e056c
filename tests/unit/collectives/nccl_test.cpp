// NCCL's choices: what its published tables say by hand, what the environment forces, bytes on every link.
#include <stepcast/cluster/closed_forms.hpp>
#include <stepcast/cluster/collective.hpp>

#include <doctest/doctest.h>

#include <cmath>

using namespace stepcast;
using doctest::Approx;

namespace {

/// Machines as NCCL's tables describe them: every factor and share 1.
Cluster published(std::int64_t nodes, std::int64_t per_node) {
  Cluster c;
  c.name = "published";
  c.nodes = nodes;
  c.devices_per_node = per_node;
  c.inside = {microseconds(1.9), BytesPerSecond(200e9)};
  c.network = {microseconds(4), BytesPerSecond(25e9)};
  c.nics_per_node = per_node;
  c.nccl.simple_hop = c.nccl.launch = 1;
  c.all_reduce = "nccl";
  return c;
}

Seconds time_of(const Cluster& c, Operation op, Bytes m) {
  const Answer<CommunicationCost> cost = communication_cost(c, "nccl");
  REQUIRE(cost);
  REQUIRE(cost->defines(op));
  return (*cost)(op, m);
}

Cluster forced(Cluster c, const char* algo, const char* proto) {
  c.nccl.algo = algo;
  c.nccl.proto = proto;
  return c;
}

}  // namespace

TEST_CASE("nccl: latencies of ring and tree are those of its tables") {
  const Bytes none(0);
  // Base 6.6, 14 and 8.4 us, 2 * 7 hops of 0.6, 1.9 and 3.4 us.
  const Cluster one = published(1, 8);
  CHECK(time_of(forced(one, "Ring", "LL"), Operation::all_reduce, none).value() == Approx(15.0e-6));
  CHECK(time_of(forced(one, "Ring", "LL128"), Operation::all_reduce, none).value() == Approx(40.6e-6));
  CHECK(time_of(forced(one, "Ring", "Simple"), Operation::all_reduce, none).value() == Approx(56.0e-6));
  // Base 6.8, 14 and 0 us, 2 * 7 hops of 0.6, 1.25 and 4 us.
  CHECK(time_of(forced(one, "Tree", "LL"), Operation::all_reduce, none).value() == Approx(15.2e-6));
  CHECK(time_of(forced(one, "Tree", "LL128"), Operation::all_reduce, none).value() == Approx(31.5e-6));
  CHECK(time_of(forced(one, "Tree", "Simple"), Operation::all_reduce, none).value() == Approx(56.0e-6));
  // Four machines: 6 hops of 14 us and 56 of 3.4 us; a tree has two levels of 5 us.
  const Cluster four = published(4, 8);
  CHECK(time_of(forced(four, "Ring", "Simple"), Operation::all_reduce, none).value() == Approx(282.8e-6));
  CHECK(time_of(forced(four, "Tree", "LL"), Operation::all_reduce, none).value() == Approx(35.2e-6));
  CHECK(time_of(forced(four, "", "Simple"), Operation::all_gather, none).value() == Approx(145.6e-6));
}

TEST_CASE("nccl: the least of all that may run, and bytes as its algorithms move them") {
  for (const std::int64_t nodes : {1, 2, 4, 16}) {
    const Cluster c = published(nodes, 8);
    const double p = static_cast<double>(c.workers());
    for (const double m : {1e2, 1e4, 1e6, 1e8, 1e10}) {
      Seconds least(HUGE_VAL);
      for (const char* algo : {"Ring", "Tree"})
        for (const char* proto : {"LL", "LL128", "Simple"})
          least = std::min(least, time_of(forced(c, algo, proto), Operation::all_reduce, Bytes(m)));
      CHECK(time_of(c, Operation::all_reduce, Bytes(m)) == least);
    }
    // A long message runs at the pace of the slowest link: the ring's volume over all cards, or inside.
    const double rate = 200e9;
    const double m = 1e13;
    CHECK(time_of(c, Operation::all_reduce, Bytes(m)).value() == Approx(2 * (p - 1) / p * m / rate).epsilon(0.001));
    CHECK(time_of(c, Operation::reduce_scatter, Bytes(m)).value() == Approx((p - 1) / p * m / rate).epsilon(0.001));
    // Everything that leaves a machine in an all-to-all: 8 devices, each to P - 8 others.
    if (nodes > 1)
      CHECK(time_of(c, Operation::all_to_all, Bytes(m)).value() ==
            Approx((p - 8) / p * m * 8 / 200e9 / c.nccl.all_to_all).epsilon(0.001));
    // A pair of devices has one card.
    CHECK(time_of(c, Operation::send, Bytes(m)).value() ==
          Approx(m / (nodes > 1 ? 25e9 : 200e9) / c.nccl.send).epsilon(0.001));
  }
}

TEST_CASE("nccl: sums in the switch are there where the cluster has them") {
  Cluster c = published(1, 8);
  const Seconds ring = time_of(c, Operation::all_reduce, mebibytes(1024));
  c.nccl.nvls = 1.3;
  CHECK(time_of(c, Operation::all_reduce, mebibytes(1024)).value() == Approx(ring.value() / 1.3).epsilon(0.02));
  CHECK(time_of(forced(c, "^NVLS", ""), Operation::all_reduce, mebibytes(1024)) == ring);
  // Two machines exchange m each in place of a ring's 2 (P-1)/P m, at the tree's share.
  Cluster two = published(2, 8);
  two.inside.bandwidth = BytesPerSecond(1e15);
  two.nccl.nvls = 1.3;
  two.nccl.tree = 1;
  CHECK(time_of(two, Operation::all_reduce, Bytes(1e12)).value() == Approx(1e12 / 200e9).epsilon(0.001));
  // In the network each machine sends m once, however many there are.
  Cluster many = published(64, 8);
  many.inside.bandwidth = BytesPerSecond(1e15);
  many.nccl.collnet = 1;
  CHECK(time_of(many, Operation::all_reduce, Bytes(1e12)).value() == Approx(1e12 / 200e9).epsilon(0.001));
}

TEST_CASE("nccl: lists as in NCCL_ALGO and NCCL_PROTO") {
  CHECK(nccl_protocols_of("", "x") == 7);
  CHECK(nccl_protocols_of("^LL128", "x") == 5);
  CHECK(nccl_protocols_of("ll,SIMPLE", "x") == 5);
  CHECK(nccl_algorithms_of("CollNet", "x") == 0b110000);
  CHECK_THROWS_AS(static_cast<void>(nccl_algorithms_of("Rings", "x")), InputError);
  CHECK_THROWS_AS(static_cast<void>(nccl_protocols_of("^LL,LL128,Simple", "x")), InputError);
  // What is forced holds for all-reduces alone; what leaves nothing to run is refused with the reason.
  const Cluster c = published(1, 8);
  CHECK(time_of(forced(c, "Tree", ""), Operation::all_gather, mebibytes(1)) ==
        time_of(c, Operation::all_gather, mebibytes(1)));
  const Answer<CommunicationCost> none = communication_cost(forced(c, "NVLS", ""), "nccl");
  REQUIRE_FALSE(none);
  CHECK(none.reason().find("NCCL_ALGO=NVLS") != std::string::npos);
}

TEST_CASE("nccl: links under compute slow down what runs, not what would run on them") {
  Cluster c = published(4, 8);
  c.contention.network_under_compute = 2;
  c.contention.inside_under_compute = 2;
  const Answer<CommunicationCost> cost = communication_cost(c, "nccl");
  REQUIRE(cost);
  CHECK(cost->slow_down(Operation::all_reduce, Bytes(1e12)) == Approx(2).epsilon(0.01));
  CHECK(cost->slow_down(Operation::all_reduce, Bytes(8)) == Approx(1).epsilon(0.01));
  for (const double m : {1e3, 1e5, 1e6, 1e7, 1e9}) {
    CHECK(cost->slow_down(Operation::all_reduce, Bytes(m)) >= 1);
    CHECK(cost->slow_down(Operation::all_reduce, Bytes(m)) <= 2);
  }
}
