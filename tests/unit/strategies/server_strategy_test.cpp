// Strategies over parameter servers: identities and bounds from the papers, one test a claim. Claims that hold only
// under conditions are tested under them, with the condition in the test's name.
#include "helpers/random_gradients.hpp"

#include <stepcast/strategies/shared/server_plan.hpp>

#include <algorithm>
#include <cmath>

using namespace stepcast;
using namespace stepcast::test;

TEST_CASE("servers: one worker machine sends nothing to them") {
  const Profile profile = profile_of_gradients({{milliseconds(2), mebibytes(64)}}, milliseconds(1));
  Cluster cluster = plain_cluster(1, BytesPerSecond(1e6));
  cluster.devices_per_node = 4;
  cluster.inside = {Seconds(0), BytesPerSecond(1e9)};
  for (const std::int64_t servers : {0, 4})
    for (const char* plan : {"bsp_ps(partition=1 TiB)", "wfbp_ps(partition=1 TiB)", "byteps(partition=1 TiB)"}) {
      cluster.servers = servers;
      CAPTURE(std::string(plan));
      const double local = 2 * 0.75 * 64 * 0x1p20 / 1e9;
      CHECK(time_of(plan, profile, cluster).value() == doctest::Approx(0.003 + local).epsilon(1e-9));
    }
}

TEST_CASE("servers: one per worker tends to M/B, co-located ones to the ring's volume") {
  const Profile profile = profile_of_gradients({{milliseconds(2), Bytes(1e9)}}, milliseconds(1));
  Cluster cluster = plain_cluster(4, BytesPerSecond(1e9));
  const auto exposed = [&](const char* plan) { return (time_of(plan, profile, cluster) - milliseconds(3)).value(); };
  CHECK(exposed("bsp@ring") == doctest::Approx(1.5));
  CHECK(exposed("bsp_ps(partition=1 MB, keys=even)") == doctest::Approx(1.5));
  CHECK(exposed("wfbp_ps(partition=1 MB, keys=even)") == doctest::Approx(1.5));
  cluster.servers = 4;
  CHECK(exposed("bsp_ps(partition=1 MB, keys=even)") == doctest::Approx(1.001));
  CHECK(exposed("bsp_ps(partition=1 TiB, keys=even)") == doctest::Approx(2));
  cluster.servers = 2;  // half the servers, half the rate
  CHECK(exposed("wfbp_ps(partition=1 MB, keys=even)") == doctest::Approx(2.002));
}

TEST_CASE("servers: a fused buffer pipelines as its closed form says") {
  // sum of the stage times of one partition + (K - 1) * the largest of them
  Draw draw(45);
  for (int round = 0; round < 100; ++round) {
    const int parts = draw.whole(1, 30);
    const Bytes part(1e6);
    const Profile profile = profile_of_gradients({{milliseconds(1), part * parts}}, milliseconds(1));
    Cluster cluster =
        plain_cluster(draw.whole(2, 8), BytesPerSecond(draw.log_uniform(1e8, 1e10)), microseconds(draw.whole(0, 100)));
    cluster.servers = draw.whole(1, 8);
    cluster.server_sum_rate = BytesPerSecond(draw.log_uniform(1e8, 1e10));
    const CommunicationCost cost = *communication_cost(cluster);
    Seconds sum, largest;
    for (const Operation op : {Operation::push, Operation::server_sum, Operation::pull}) {
      sum += cost(op, part);
      largest = std::max(largest, cost(op, part));
    }
    const Seconds expected = compute_time(profile) + sum + largest * (parts - 1);
    CHECK(ratio(time_of("bsp_ps(partition=1 MB, keys=even)", profile, cluster), expected) ==
          doctest::Approx(1).epsilon(1e-8));
  }
}

TEST_CASE("servers: pushing when ready is never slower than pushing at the end, with the same partitions") {
  Draw draw(46);
  for (int round = 0; round < 200; ++round) {
    Profile profile = random_gradients(draw, 30);
    for (Tensor& t : profile.tensors) t.size = Bytes(1e6 * draw.whole(1, 8));  // so that the fused cut is the same
    Cluster cluster = random_ring(draw);
    cluster.servers = draw.whole(1, 8);
    CHECK(time_of("wfbp_ps(partition=1 MB, keys=even)", profile, cluster) <=
          time_of("bsp_ps(partition=1 MB, keys=even)", profile, cluster) * (1 + tolerance));
  }
}

TEST_CASE("BytePS: the hash of a key picks the server") {
  // DJB2: ((5381 * 33 + '1') * 33 + '7'), computed by hand.
  CHECK(byteps_server(17, 1'000'000) == (5381 * 33 * 33 + 49 * 33 + 55) % 1'000'000);
  // 33 = 1 modulo a power of two up to 32: what counts is the sum of the characters.
  for (std::uint64_t key : {byteps_key(0, 0), byteps_key(3, 2), byteps_key(160, 1), byteps_key(411, 107)})
    for (std::uint64_t servers : {2, 4, 8, 16, 32}) {
      std::uint64_t sum = 5381;
      for (const char c : std::to_string(key)) sum += static_cast<std::uint64_t>(c);
      CHECK(byteps_server(key, servers) == sum % servers);
    }
  CHECK(byteps_key(2, 3) == 131075);
  Profile profile = profile_of_gradients(std::vector<Produced>(3, {milliseconds(1), Bytes(1e6)}), milliseconds(1));
  profile.tensors[0].name = "fc.weight", profile.tensors[1].name = "conv.weight", profile.tensors[2].name = "fc.bias";
  CHECK(declared_numbers(profile) == std::pmr::vector<std::uint64_t>{2, 0, 1});
}

TEST_CASE("servers: with hashed keys the fullest server sets the pace where cards are slow") {
  Draw draw(51);
  int slower = 0;
  for (int round = 0; round < 100; ++round) {
    Profile profile = random_gradients(draw, 30);
    for (std::size_t t = 0; t < profile.tensors.size(); ++t) profile.tensors[t].name = "t" + std::to_string(100 + t);
    Cluster cluster = plain_cluster(draw.whole(2, 8), BytesPerSecond(draw.log_uniform(1e8, 1e10)));
    cluster.servers = draw.whole(2, 8);
    std::vector<double> held(static_cast<std::size_t>(cluster.servers), 0);
    for (std::size_t t = 0; t < profile.tensors.size(); ++t) {
      std::uint64_t part = 0;
      for_each_part(profile.tensors[t].size, Bytes(1e6),
                    [&](Bytes size) { held[byteps_server(byteps_key(t, part++), held.size())] += size.value(); });
    }
    const double fullest = *std::max_element(held.begin(), held.end());
    const Seconds card = Seconds(fullest * static_cast<double>(cluster.nodes) / cluster.network.bandwidth.value());
    const Seconds hashed = time_of("wfbp_ps(partition=1 MB)", profile, cluster);
    const Seconds even = time_of("wfbp_ps(partition=1 MB, keys=even)", profile, cluster);
    CHECK(hashed >= card * (1 - tolerance));
    slower += hashed > even * 1.01;
    // Where the workers' connections are much slower than the servers' cards, it does not matter who holds what.
    cluster.server_link = {Seconds(0), cluster.network.bandwidth / 1e4};
    cluster.servers = cluster.nodes;
    CHECK(ratio(time_of("wfbp_ps(partition=1 MB)", profile, cluster),
                time_of("wfbp_ps(partition=1 MB, keys=even)", profile, cluster)) == doctest::Approx(1).epsilon(0.01));
  }
  CHECK(slower > 10);
}

TEST_CASE("servers: 25 partitions on 8 servers are 4 on the fullest one, and one machine alone has no choice") {
  const Profile profile = profile_of_gradients({{milliseconds(1), Bytes(25e6)}}, milliseconds(1));
  Cluster cluster = plain_cluster(8, BytesPerSecond(1e9));
  cluster.servers = 8;
  std::vector<int> held(8, 0);
  for (std::uint64_t part = 0; part < 25; ++part) ++held[byteps_server(byteps_key(2, part), 8)];
  const int fullest = *std::max_element(held.begin(), held.end());
  CHECK(fullest >= 4);
  // 8 machines send every partition of 1 MB: 8 ms in and 8 ms out of the card that holds it.
  CHECK(time_of("bsp_ps(partition=1 MB)", profile, cluster).value() >= 0.002 + 0.008 * (fullest + 1) - 1e-9);
  cluster.servers = 1;
  CHECK(time_of("bsp_ps(partition=1 MB)", profile, cluster) ==
        time_of("bsp_ps(partition=1 MB, keys=even)", profile, cluster));
}

TEST_CASE("P3 is ByteScheduler over servers with a credit of one slice") {
  Draw draw(47);
  for (int round = 0; round < 100; ++round) {
    const Profile profile = random_gradients(draw, 20);
    Cluster cluster = random_ring(draw);
    cluster.servers = draw.coin() ? 0 : draw.whole(1, 8);
    CHECK(time_of("p3(slice=300 kB)", profile, cluster) ==
          time_of("bytescheduler_ps(partition=300 kB, credit=300 kB)", profile, cluster));
    double slices = 0;
    for (const Tensor& t : profile.tensors) slices += std::ceil(t.size / Bytes(3e5));
    const CommPlan plan = plan_of("p3(slice=300 kB)", profile, cluster);
    CHECK(static_cast<double>(std::count_if(plan.transfers.begin(), plan.transfers.end(), [](const Transfer& t) {
            return t.operation == Operation::push;
          })) == slices);
  }
}

namespace {

// TAC as published, on a chain of layers with one receive each: P is the compute that a receive alone would unlock, M+
// the least outstanding time of an operation that needs it and at least one other receive.
std::vector<std::size_t> tac_order(const std::vector<double>& transfer, const std::vector<double>& compute) {
  const std::size_t n = transfer.size();
  std::vector<bool> received(n, false);
  std::vector<std::size_t> order;
  while (order.size() < n) {
    const auto property = [&](std::size_t r) {
      double unlocked = 0, least = HUGE_VAL, outstanding = 0;
      std::size_t missing = 0;
      for (std::size_t op = 0; op < n; ++op) {  // operation op needs receives 0 .. op
        if (!received[op]) outstanding += transfer[op], ++missing;
        if (op < r) continue;
        if (missing == 1) unlocked += compute[op];
        else least = std::min(least, outstanding);
      }
      return std::pair(unlocked, least);
    };
    std::size_t best = n;
    for (std::size_t b = 0; b < n; ++b) {
      if (received[b]) continue;
      if (best == n) {
        best = b;
        continue;
      }
      const auto [pa, ma] = property(best);
      const auto [pb, mb] = property(b);
      const double a_first = std::min(pb, transfer[best]), b_first = std::min(pa, transfer[b]);
      if (b_first < a_first || (b_first == a_first && mb < ma)) best = b;
    }
    received[best] = true;
    order.push_back(best);
  }
  return order;
}

}  // namespace

TEST_CASE("TicTac: its algorithm gives the forward order on a chain, which is the order of the plan") {
  Draw draw(48);
  for (int round = 0; round < 200; ++round) {
    const Profile profile = random_gradients(draw, 12);
    std::vector<double> transfer, compute;
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
      transfer.push_back(draw.whole(1, 1000));
      compute.push_back(draw.whole(1, 1000));
    }
    const std::vector<std::size_t> order = tac_order(transfer, compute);
    CHECK(std::is_sorted(order.begin(), order.end()));
    // Transfers of one unit and no compute (TIC): the pairwise test never fires, and M+ decides.
    const std::vector<std::size_t> tic =
        tac_order(std::vector<double>(transfer.size(), 1), std::vector<double>(transfer.size(), 0));
    CHECK(std::is_sorted(tic.begin(), tic.end()));
    Cluster cluster = random_ring(draw);
    cluster.servers = 2;
    const CommPlan plan = plan_of("tictac", profile, cluster);
    std::vector<std::pair<std::int32_t, std::uint32_t>> pulls;
    for (const Transfer& t : plan.transfers)
      if (t.operation == Operation::pull) pulls.push_back({t.priority, profile.tensors[t.first_tensor].layer});
    std::sort(pulls.begin(), pulls.end());
    REQUIRE(pulls.size() == profile.tensors.size());
    for (std::size_t k = 0; k < pulls.size(); ++k) CHECK(pulls[k].second == order[k]);
  }
}

TEST_CASE("a partition that makes too many messages is inapplicable, not slow") {
  const Profile profile = profile_of_gradients({{milliseconds(1), Bytes(1e12)}}, milliseconds(1));
  Cluster cluster = plain_cluster(4, BytesPerSecond(1e9));
  cluster.servers = 4;
  const CommunicationCost cost = *communication_cost(cluster);
  for (const char* text : {"bytescheduler(partition=1 KiB)", "p3(slice=1 KiB)", "bsp_ps(partition=1 KiB)",
                           "wfbp_ps(partition=1 KiB)", "byteps(partition=1 KiB)"}) {
    const PlanSpec spec = plan_spec_of(text);
    const Answer<CommPlan> plan = spec.strategy->plan({profile, cluster, cost, spec.options, 0.5});
    REQUIRE(!plan);
    CHECK(plan.reason().find("976562500 messages") != std::string::npos);
  }
}
