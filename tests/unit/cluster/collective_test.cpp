#include <stepcast/base/text.hpp>
#include <stepcast/cluster/closed_forms.hpp>
#include <stepcast/cluster/collective.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

using namespace stepcast;
using doctest::Approx;

namespace {

Cluster cluster_of(std::int64_t nodes, std::int64_t per_node) {
  Cluster c;
  c.name = "test";
  c.nodes = nodes;
  c.devices_per_node = per_node;
  c.inside = {microseconds(3), BytesPerSecond(1e10)};
  c.network = {microseconds(20), BytesPerSecond(1.25e9)};
  return c;
}

Seconds all_reduce(const char* algorithm, const Cluster& c, Bytes m) {
  const Answer<CommunicationCost> cost = communication_cost(c, algorithm);
  REQUIRE(cost);
  return (*cost)(Operation::all_reduce, m);
}

/// A random cluster; every third is one machine, every third has one device a machine.
Cluster random_cluster(std::mt19937_64& random, int i) {
  const auto count = [&](int most) { return std::uniform_int_distribution<std::int64_t>(1, most)(random); };
  const auto power = [&](double low, double high) {
    return std::pow(10.0, std::uniform_real_distribution<double>(low, high)(random));
  };
  Cluster c = cluster_of(i % 3 == 0 ? 1 : count(40), i % 3 == 1 ? 1 : count(8));
  c.inside = {Seconds(power(-7, -4)), BytesPerSecond(power(9, 11.5))};
  c.network = {Seconds(power(-6, -3)), BytesPerSecond(power(7, 10.5))};
  c.nics_per_node = count(4);
  c.servers = i % 2 ? 0 : count(40);
  c.message_overhead = Seconds(power(-6, -4));
  if (i % 4 != 0) {
    Aggregation a;
    a.packets_outstanding = count(512);
    a.hit_fraction = std::uniform_real_distribution<double>(0, 1)(random);
    a.absorbed_share = std::uniform_real_distribution<double>(0, 1)(random);
    a.racks = count(4);
    c.aggregation = a;
  }
  if (i % 5 == 0) c.stragglers.slow = {{.link_share = std::uniform_real_distribution<double>(0.1, 1)(random)}};
  return c;
}

/// Without a switch that adds up, no algorithm moves less than the ring.
bool in_network(const CollectiveAlgorithm& a) { return a.unsuitable && !a.unsuitable(cluster_of(2, 1)).empty(); }

/// What one device can send at most per second, whatever the pattern.
double fastest_rate(const Cluster& c) {
  double rate = c.devices_per_node > 1 || c.nodes == 1 ? c.inside.bandwidth.value() : 0;
  if (c.nodes > 1) rate += machine_link(c).bandwidth.value();
  return rate;
}

template <class Check>
void for_each_cost(const Check& check) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    const Cluster c = random_cluster(random, i);
    for (const CollectiveAlgorithm& algorithm : collective_algorithms()) {
      const Answer<CommunicationCost> cost = communication_cost(c, algorithm.name);
      if (cost) check(c, algorithm, *cost);
    }
  }
}

constexpr Operation every_operation(std::size_t i) { return static_cast<Operation>(i); }

}  // namespace

TEST_CASE("collectives: every algorithm says what it is and defines something") {
  for (const CollectiveAlgorithm& a : collective_algorithms()) {
    CAPTURE(a.name);
    CHECK(collective_algorithm(a.name) == &a);
    CHECK(!a.summary.empty());
    CHECK(!a.reference.empty());
    CHECK((a.all_reduce || a.broadcast || a.all_to_all));
    CHECK((a.reduce_scatter == nullptr) == (a.all_gather == nullptr));
  }
  CHECK(collective_algorithm("rings") == nullptr);
}

TEST_CASE("collectives: one worker communicates in no time") {
  Cluster alone = cluster_of(1, 1);
  alone.message_overhead = milliseconds(1);
  alone.tables = {{"all_reduce", 1, {Bytes(1)}, {Seconds(1)}, ""}};
  for (const CollectiveAlgorithm& a : collective_algorithms()) {
    const auto cost = communication_cost(alone, a.name);
    REQUIRE(cost);
    for (std::size_t i = 0; i < operation_count; ++i) CHECK((*cost)(every_operation(i), mebibytes(100)).value() == 0);
  }
}

TEST_CASE("collectives: finite, not negative, monotone in the size, message overhead once") {
  for_each_cost([](const Cluster& c, const CollectiveAlgorithm& a, const CommunicationCost& cost) {
    Cluster free = c;
    free.message_overhead = Seconds(0);
    const auto without = communication_cost(free, a.name);
    for (std::size_t i = 0; i < operation_count; ++i) {
      const Operation op = every_operation(i);
      if (!cost.defines(op)) continue;
      Seconds before(0);
      for (const double m : {0.0, 1.0, 1e3, 1e6, 1e9, 1e12}) {
        const Seconds t = cost(op, Bytes(m));
        CHECK(std::isfinite(t.value()));
        CHECK(t >= before);
        before = t;
        const Seconds bare = (*without)(op, Bytes(m));
        if (c.workers() > 1 && bare.value() > 0) {
          CHECK((t - bare).value() == Approx(c.message_overhead.value()).epsilon(1e-6));
        }
      }
    }
  });
}

TEST_CASE("collectives: faster with more bandwidth, slower with more latency") {
  for_each_cost([](const Cluster& c, const CollectiveAlgorithm& a, const CommunicationCost& cost) {
    Cluster faster = c;
    faster.network.bandwidth *= 2;
    Cluster later = c;
    later.network.latency *= 2;
    const auto fast = communication_cost(faster, a.name), late = communication_cost(later, a.name);
    for (std::size_t i = 0; i < operation_count; ++i) {
      const Operation op = every_operation(i);
      if (!cost.defines(op)) continue;
      for (const double m : {1e3, 1e8}) {
        CHECK((*fast)(op, Bytes(m)) <= cost(op, Bytes(m)));
        CHECK((*late)(op, Bytes(m)) >= cost(op, Bytes(m)));
      }
    }
  });
}

TEST_CASE("collectives: no all-reduce moves less than 2(P-1)/P of the buffer") {
  for_each_cost([](const Cluster& c, const CollectiveAlgorithm& a, const CommunicationCost& cost) {
    if (!cost.defines(Operation::all_reduce) || c.workers() == 1 || in_network(a)) return;
    const double p = static_cast<double>(c.workers());
    for (const double m : {1e3, 1e6, 1e9}) {
      const double least = 2 * (p - 1) / p * m / fastest_rate(c);
      CHECK(cost(Operation::all_reduce, Bytes(m)).value() >= least * (1 - 1e-12));
      // Between machines at least 2(n-1)/n of the buffer has to leave each one.
      const double n = static_cast<double>(c.nodes);
      const double between = 2 * (n - 1) / n * m / machine_link(c).bandwidth.value();
      CHECK(cost(Operation::all_reduce, Bytes(m)).value() >= between * (1 - 1e-12));
    }
  });
}

TEST_CASE("collectives: reduce-scatter and all-gather make an all-reduce where both halves are defined") {
  for_each_cost([](const Cluster& c, const CollectiveAlgorithm& a, const CommunicationCost&) {
    if (!a.reduce_scatter || !a.all_reduce || a.choices) return;
    const CostLine halves = a.reduce_scatter(c) + a.all_gather(c), whole = a.all_reduce(c);
    CHECK(halves.start_up.value() == Approx(whole.start_up.value()));
    CHECK(halves.seconds_per_byte == Approx(whole.seconds_per_byte));
  });
}

TEST_CASE("collectives: more ranks never make the ring or a tree faster") {
  for (const char* name : {"ring", "binary_tree", "double_tree"}) {
    const bool tree = std::string_view(name) != "ring";
    Seconds before(0);
    for (std::int64_t p = 1; p <= 256; p = tree ? 2 * p : p + 1) {
      const Seconds t = all_reduce(name, cluster_of(1, p), mebibytes(1));
      CHECK(t >= before);
      before = t;
    }
  }
}

TEST_CASE("collectives: ring against the formula") {
  const Cluster c = cluster_of(1, 4);
  CHECK(all_reduce("ring", c, Bytes(4e6)).value() == Approx(6 * 3e-6 + 1.5 * 4e6 / 1e10));
  // Over machines the slowest link sets the pace.
  const Cluster flat = cluster_of(8, 4);
  CHECK(all_reduce("ring", flat, Bytes(3.2e7)).value() == Approx(62 * 20e-6 + 62.0 / 32 * 3.2e7 / 1.25e9));
}

TEST_CASE("collectives: hierarchical is the ring where there is one level, and the formula where there are two") {
  for (std::int64_t k = 1; k <= 64; ++k) {
    for (const double m : {0.0, 1e4, 1e8}) {
      CHECK(all_reduce("hierarchical", cluster_of(k, 1), Bytes(m)) == all_reduce("ring", cluster_of(k, 1), Bytes(m)));
      CHECK(all_reduce("hierarchical", cluster_of(1, k), Bytes(m)) == all_reduce("ring", cluster_of(1, k), Bytes(m)));
    }
  }
  const double m = 1e8, g = 4, n = 8;
  const double expected =
      2 * (g - 1) * 3e-6 + 2 * (g - 1) / g * m / 1e10 + 2 * (n - 1) * 20e-6 + 2 * (n - 1) / n * (m / g) / (1.25e9 / g);
  CHECK(all_reduce("hierarchical", cluster_of(8, 4), Bytes(m)).value() == Approx(expected));
}

TEST_CASE("collectives: factored with one factor is the ring; with more it only saves steps") {
  for (std::int64_t p = 1; p <= 100; ++p) {
    const Link link{microseconds(7), BytesPerSecond(3e9)};
    const FactorLevel one[] = {{p, link}};
    CHECK(factored_half(one) == ring_half(p, link));
  }
  for (const std::int64_t nodes : {1, 2, 7, 13}) {
    CHECK(all_reduce("factored", cluster_of(nodes, 4), Bytes(1e6)).value() ==
          Approx(all_reduce("hierarchical", cluster_of(nodes, 4), Bytes(1e6)).value()));
  }
  for (std::int64_t nodes = 1; nodes <= 130; ++nodes) {
    const Cluster c = cluster_of(nodes, 4);
    const CostLine factored = collective_algorithm("factored")->all_reduce(c);
    const CostLine hierarchical = collective_algorithm("hierarchical")->all_reduce(c);
    CHECK(factored.start_up <= hierarchical.start_up);
    CHECK(factored.seconds_per_byte == Approx(hierarchical.seconds_per_byte));
  }
}

TEST_CASE("collectives: powers of two: halving-doubling is never worse than the ring; recursive doubling when") {
  for (std::int64_t p = 2; p <= 1024; p *= 2) {
    for (const Cluster& c : {cluster_of(1, p), cluster_of(p, 1)}) {
      for (const double m : {0.0, 1.0, 1e3, 1e6, 1e9}) {
        CHECK(all_reduce("halving_doubling", c, Bytes(m)).value() <=
              all_reduce("ring", c, Bytes(m)).value() * (1 + 1e-12));
      }
      CHECK(all_reduce("recursive_doubling", c, Bytes(0)) < all_reduce("ring", c, Bytes(0)));
      if (p > 2) CHECK(all_reduce("recursive_doubling", c, Bytes(1e12)) > all_reduce("ring", c, Bytes(1e12)));
    }
  }
  for (const char* name : {"halving_doubling", "recursive_doubling"}) {
    const auto cost = communication_cost(cluster_of(3, 4), name);
    REQUIRE(!cost);
    CHECK(cost.reason().find("powers of two") != std::string::npos);
  }
}

namespace {

/// A rank's parent in a tree of n ranks whose root is 0: its lowest bit moves up by one, or goes where that leaves the
/// tree. Odd ranks are leaves.
int parent_in_tree(int rank, int n) {
  const int low = rank & -rank, above = (rank - low) | (2 * low);
  return above < n ? above : rank - low;
}

/// Buffers that the ranks of a double tree send and receive, counted edge by edge.
struct TreeTraffic {
  std::vector<double> sent, received;
  int depth = 0;
};
TreeTraffic double_tree_traffic(int n) {
  TreeTraffic t{std::vector<double>(static_cast<std::size_t>(n)), std::vector<double>(static_cast<std::size_t>(n))};
  const auto carry = [&](int from, int to) {
    t.sent[static_cast<std::size_t>(from)] += 0.5, t.received[static_cast<std::size_t>(to)] += 0.5;
  };
  for (const bool second : {false, true}) {
    // The second tree is the first one mirrored, or moved on by one rank where a mirror would keep odd ranks leaves.
    const auto place = [&](int rank) { return !second ? rank : n % 2 == 0 ? n - 1 - rank : (rank + 1) % n; };
    for (int rank = 1; rank < n; ++rank) {
      const int parent = parent_in_tree(rank, n);
      carry(place(rank), place(parent));  // reduced
      carry(place(parent), place(rank));  // broadcast
      int depth = 0;
      for (int at = rank; at != 0; at = parent_in_tree(at, n)) ++depth;
      t.depth = std::max(t.depth, depth);
    }
  }
  return t;
}

}  // namespace

TEST_CASE("collectives: the double tree takes as long as the busiest link of its two trees, counted edge by edge") {
  const auto busiest = [](std::int64_t n) {
    const TreeTraffic traffic = double_tree_traffic(static_cast<int>(n));
    CHECK(traffic.sent == traffic.received);
    return *std::max_element(traffic.sent.begin(), traffic.sent.end());
  };
  for (int n = 2; n <= 33; ++n) {
    CAPTURE(n);
    for (const Cluster& c : {cluster_of(n, 1), cluster_of(1, n), cluster_of(n, 8), cluster_of(8, n)}) {
      CAPTURE(c.devices_per_node);
      const CostLine line = collective_algorithm("double_tree")->all_reduce(c);
      const double inside = busiest(c.devices_per_node) / 1e10, between = busiest(c.nodes) / 1.25e9;
      CHECK(line.seconds_per_byte == Approx(std::max(inside, between)).epsilon(1e-12));
      if (c.workers() != n) continue;
      // Up and down the levels, a chunk of 16 KiB on each.
      const Link link = c.nodes == 1 ? c.inside : c.network;
      const double hop = (link.latency + Bytes(16384) / link.bandwidth).value();
      CHECK(line.start_up.value() == Approx(2 * double_tree_traffic(n).depth * hop).epsilon(1e-12));
    }
  }
}

TEST_CASE("collectives: on two machines a tree carries the buffer once over each card, the ring nearly twice") {
  Cluster c = cluster_of_flags(16, 8, "25GbE");
  c.message_overhead = Seconds(0);
  const Bytes m = mebibytes(1024);
  const double once = m.value() / (0.94 * 25e9 / 8);
  CHECK(all_reduce("ring_or_tree", c, m).value() == Approx(once).epsilon(2e-3));
  CHECK(all_reduce("ring", c, m).value() == Approx(2 * 15.0 / 16 * once).epsilon(2e-3));
  // One device a machine: the ring does as well.
  c = cluster_of_flags(2, 1, "25GbE");
  CHECK(all_reduce("double_tree", c, m).value() == Approx(all_reduce("ring", c, m).value()).epsilon(1e-3));
  // A card for each device: faster than what the tuning expects of a tree.
  c = cluster_of(2, 8);
  c.inside.bandwidth = BytesPerSecond(200e9);
  c.network.bandwidth = BytesPerSecond(15e9);
  c.nics_per_node = 8;
  CHECK(all_reduce("ring_or_tree", c, Bytes(1e12)).value() == Approx(1e12 / 65e9).epsilon(2e-3));
}

TEST_CASE("collectives: ring or tree is the faster of the two at each size") {
  const Cluster c = cluster_of(16, 4);
  bool tree = false, ring = false;
  for (double m = 1; m < 1e11; m *= 3) {
    const Seconds r = all_reduce("ring", c, Bytes(m)), t = all_reduce("double_tree", c, Bytes(m));
    CHECK(all_reduce("ring_or_tree", c, Bytes(m)) == std::min(r, t));
    tree = tree || t < r;
    ring = ring || r < t;
  }
  CHECK(tree);
  CHECK(ring);
}

TEST_CASE("collectives: all-to-all and broadcast against the formulas") {
  const Cluster c = cluster_of(1, 8);
  const auto time = [&](const char* name, Operation op, double m) {
    return (*communication_cost(c, name))(op, Bytes(m)).value();
  };
  CHECK(time("pairwise", Operation::all_to_all, 1e6) == Approx(7 * 3e-6 + 7.0 / 8 * 1e6 / 1e10));
  CHECK(time("bruck", Operation::all_to_all, 1e6) == Approx(3 * (3e-6 + 0.5e6 / 1e10)));
  CHECK(time("bruck", Operation::all_to_all, 1) < time("pairwise", Operation::all_to_all, 1));
  CHECK(time("bruck", Operation::all_to_all, 1e9) > time("pairwise", Operation::all_to_all, 1e9));
  CHECK(time("binary_tree", Operation::broadcast, 1e6) == Approx(3 * (3e-6 + 1e6 / 1e10)));
  CHECK(time("ring", Operation::broadcast, 1e6) == Approx((3 + 7) * 3e-6 + 2 * 7.0 / 8 * 1e6 / 1e10));
  // K whole chunks of 512 KiB.
  const double k = 64, m = k * 524288;
  CHECK(time("chain", Operation::broadcast, m) == Approx((8 - 2 + k) * (3e-6 + m / k / 1e10)));
}

TEST_CASE("servers: push and pull alone, separate and co-located, local stages, summation") {
  Cluster c = cluster_of(8, 4);
  const auto time = [&](Operation op, double m) { return (*communication_cost(c))(op, Bytes(m)).value(); };
  const double m = 1e8, link = 1.25e9, latency = 20e-6;
  SUBCASE("co-located: (n-1)/n leaves the machine") {
    CHECK(server_directions_shared(c));
    CHECK(time(Operation::push, m) == Approx(latency + 7.0 / 8 * m / link));
    // Push and pull one after the other carry the ring's volume over n machines.
    const Cluster flat = cluster_of(8, 1);
    const double ring = collective_algorithm("ring")->all_reduce(flat).seconds_per_byte * m;
    CHECK(time(Operation::push, m) + time(Operation::pull, m) - 2 * latency == Approx(ring));
  }
  SUBCASE("separate: the slower of worker and server card") {
    for (const std::int64_t servers : {1, 4, 8, 16}) {
      c.servers = servers;
      CHECK(!server_directions_shared(c));
      const double factor = std::max(1.0, 8.0 / static_cast<double>(servers));
      CHECK(time(Operation::push, m) == Approx(latency + factor * m / link));
      CHECK(time(Operation::pull, m) == time(Operation::push, m));
    }
  }
  SUBCASE("a link of their own") {
    c.servers = 8;
    c.server_link = {microseconds(50), BytesPerSecond(0.7e9)};
    CHECK(time(Operation::push, m) == Approx(50e-6 + m / 0.7e9));
  }
  SUBCASE("a server's card takes the payloads of all machines, at the rate of the network or of a faster connection") {
    CHECK(time(Operation::server_card, m) == 0);  // servers on the worker machines
    c.servers = 3;
    const double card = c.network.bandwidth.value() * static_cast<double>(c.nics_per_node);
    CHECK(time(Operation::server_card, m) == Approx(static_cast<double>(c.nodes) * m / card));
    c.server_link = {microseconds(50), BytesPerSecond(2 * card)};
    CHECK(time(Operation::server_card, m) == Approx(static_cast<double>(c.nodes) * m / (2 * card)));
    c.server_link.bandwidth = BytesPerSecond(card / 2);
    CHECK(time(Operation::server_card, m) == Approx(static_cast<double>(c.nodes) * m / card));
  }
  SUBCASE("summation takes time only where its rate is known") {
    CHECK(time(Operation::server_sum, m) == 0);
    c.servers = 4;
    c.server_sum_rate = BytesPerSecond(1e10);
    CHECK(time(Operation::server_sum, m) == Approx(8 * m / 4 / 1e10));
  }
  SUBCASE("local stages") {
    CHECK(time(Operation::local_reduce_scatter, m) == Approx(3 * 3e-6 + 0.75 * m / 1e10));
    CHECK(time(Operation::local_all_gather, m) == time(Operation::local_reduce_scatter, m));
    c.devices_per_node = 1;
    CHECK(time(Operation::local_reduce_scatter, m) == 0);
  }
  SUBCASE("one machine needs no server") {
    c.nodes = 1;
    c.servers = 8;
    c.message_overhead = microseconds(50);
    CHECK(time(Operation::push, m) == 0);
    CHECK(time(Operation::local_all_gather, m) > 0);
  }
}

TEST_CASE("BytePS: identities for every split") {
  for (std::int64_t n = 1; n <= 64; ++n) {
    for (std::int64_t s = 0; s <= n; ++s) {
      const ServerSplit split = byteps_split(n, s);
      const double workers = static_cast<double>(n), servers = static_cast<double>(s);
      CHECK(servers * split.per_server + workers * split.per_worker == Approx(1));
      if (n == 1) CHECK(split.time_factor == 0);
      if (n > 1 && s == n) CHECK(split.time_factor == Approx(1));
      if (s == 0) CHECK(split.time_factor == Approx(2 * (workers - 1) / workers));
      if (s > 0) CHECK(split.time_factor <= byteps_split(n, s - 1).time_factor * (1 + 1e-12));
    }
  }
}

TEST_CASE("BytePS: the published fractions") {
  const auto path =
      std::filesystem::path(STEPCAST_SOURCE_DIR) / ".." / "shared" / "reference" / "byteps_identities.csv";
  std::ifstream file(path);
  if (!file) {
    MESSAGE("skipped: " << path.string() << " is not there");
    return;
  }
  const auto fraction = [](const std::string& text) {
    const auto slash = text.find('/');
    const double above = number_of(text.substr(0, slash), "csv");
    return slash == std::string::npos ? above : above / number_of(text.substr(slash + 1), "csv");
  };
  std::string line;
  int rows = 0;
  while (std::getline(file, line)) {
    if (line.empty() || !std::isdigit(static_cast<unsigned char>(line[0]))) continue;
    std::vector<std::string> f;
    std::stringstream fields(line);
    for (std::string field; std::getline(fields, field, ',');) f.push_back(field);
    REQUIRE(f.size() >= 7);
    const std::int64_t n = integer_of(f[0], "n", 1, 1000), s = integer_of(f[1], "S", 0, 1000);
    const ServerSplit split = byteps_split(n, s);
    CHECK(split.time_factor == fraction(f[2]));
    if (!f[4].empty()) CHECK(split.per_server == fraction(f[4]));
    CHECK(split.per_worker == fraction(f[5]));
    const double ring = byteps_split(n, 0).time_factor;
    CHECK(ring / split.time_factor == Approx(fraction(f[6])).epsilon(1e-15));
    if (f.size() > 7 && !f[7].empty()) {
      const double separate = static_cast<double>(n) / static_cast<double>(s);
      CHECK(separate / split.time_factor == Approx(fraction(f[7])).epsilon(1e-15));
    }
    ++rows;
  }
  CHECK(rows == 11);
}

TEST_CASE("tables: exact at the points, monotone between, a line beyond") {
  const std::vector<Bytes> sizes{Bytes(1000), Bytes(10000), Bytes(1e6)};
  const std::vector<Seconds> times{Seconds(1e-4), Seconds(2e-4), Seconds(1e-2)};
  const CostTable table(sizes, times);
  for (std::size_t i = 0; i < sizes.size(); ++i) CHECK(table(sizes[i]).value() == Approx(times[i].value()));
  Seconds before(0);
  for (double m = 0; m < 1e8; m = m * 1.3 + 1) {
    CHECK(table(Bytes(m)) >= before);
    before = table(Bytes(m));
  }
  CHECK(table(Bytes(0)).value() == Approx(1e-4 - 1000 * 1e-4 / 9000));  // the latency floor: the line to m = 0
  CHECK(table(Bytes(2e6)).value() == Approx(1e-2 + 1e6 * 9.8e-3 / 9.9e5));
}

TEST_CASE("tables: a latency-bandwidth line is reproduced everywhere, however far apart the points are") {
  const CostLine line{microseconds(50), 1e-9};
  std::vector<Bytes> sizes{Bytes(1024), Bytes(131072), Bytes(5e7)};
  std::vector<Seconds> times;
  for (const Bytes m : sizes) times.push_back(line(m));
  const CostTable table(sizes, times);
  for (double m = 0; m < 1e10; m = m * 2 + 1) CHECK(table(Bytes(m)).value() == Approx(line(Bytes(m)).value()));
}

TEST_CASE("tables: odd ones stay sane") {
  const auto table = [](std::vector<Bytes> sizes, std::vector<Seconds> times) { return CostTable(sizes, times); };
  const CostTable one = table({Bytes(100)}, {Seconds(1)});
  CHECK(one(Bytes(0)).value() == 1);
  CHECK(one(Bytes(200)).value() == 2);
  const CostTable falling = table({Bytes(100), Bytes(200)}, {Seconds(2), Seconds(1)});
  CHECK(falling(Bytes(1)).value() == 2);
  CHECK(falling(Bytes(400)).value() == 2);  // the rate of the last point goes on
  const CostTable steep = table({Bytes(100), Bytes(200)}, {Seconds(1), Seconds(10)});
  CHECK(steep(Bytes(0)).value() == 0);
  CHECK(steep(Bytes(50)).value() == 0.5);
}

TEST_CASE("tables: used for their number of workers, halves derived, the rest from the links") {
  Cluster c = cluster_of(2, 4);
  c.all_reduce = "table";
  c.message_overhead = microseconds(10);
  c.tables = {{"all_reduce", 4, {Bytes(1e6)}, {Seconds(1)}, ""},
              {"all_reduce", 8, {Bytes(1e6), Bytes(2e6)}, {Seconds(2), Seconds(3)}, ""}};
  const auto cost = communication_cost(c);
  REQUIRE(cost);
  CHECK(cost->algorithm() == "table");
  CHECK((*cost)(Operation::all_reduce, Bytes(1.5e6)).value() == Approx(2.5 + 1e-5));
  CHECK((*cost)(Operation::reduce_scatter, Bytes(1e6)).value() == Approx(1 + 1e-5));
  CHECK((*cost)(Operation::all_gather, Bytes(1e6)).value() == Approx(1 + 1e-5));
  CHECK(cost->line(Operation::all_reduce).start_up.value() == Approx(1 + 1e-5));
  CHECK(cost->line(Operation::all_reduce).seconds_per_byte == Approx(1e-6));
  CHECK(cost->defines(Operation::push));
  c.tables.push_back({"all_gather", 8, {Bytes(1e6)}, {Seconds(7)}, ""});
  CHECK((*communication_cost(c))(Operation::all_gather, Bytes(1e6)).value() == Approx(7 + 1e-5));

  c.nodes = 4;
  const auto none = communication_cost(c);
  REQUIRE(!none);
  CHECK(none.reason().find("16 workers") != std::string::npos);
  CHECK(none.reason().find("4, 8") != std::string::npos);
  CHECK(!communication_cost(c, "rign"));
}

TEST_CASE("tables: take precedence over the default algorithm, not over one that is named") {
  Cluster c = cluster_of(1, 3);
  c.all_reduce = "recursive_doubling";  // cannot run on 3 workers
  CHECK(!communication_cost(c));
  c.tables = {{"all_reduce", 3, {Bytes(1e6)}, {Seconds(1)}, ""}};
  const auto cost = communication_cost(c);
  REQUIRE(cost);
  CHECK((*cost)(Operation::all_reduce, Bytes(1e6)).value() == 1);
  CHECK(cost->defines(Operation::send));
  CHECK((*communication_cost(c, "ring"))(Operation::all_reduce, Bytes(1e6)).value() < 1e-3);
}

TEST_CASE("of two forms of an all-reduce the one that runs is the one that is slowed under compute") {
  // Fast cards: the ring runs at the 250 GB/s inside a machine, and the tree, at 65 GB/s at most, is slower.
  Cluster c = cluster_of(8, 8);
  c.inside = {Seconds(0), BytesPerSecond(250e9)};
  c.network = {Seconds(0), BytesPerSecond(400e9)};
  c.contention.network_under_compute = 4;
  const CommunicationCost cost = *communication_cost(c, "ring_or_tree");
  CHECK(cost(Operation::all_reduce, Bytes(1e9)) == all_reduce("ring", c, Bytes(1e9)));
  // While the devices compute the cards carry 100 GB/s of it.
  CHECK(cost.slow_down(Operation::all_reduce, Bytes(1e9)) == Approx(2.5));
}
