// LB-SGD, DeAR, ByteScheduler: identities and bounds from the papers, one test a claim. Claims that hold only under
// conditions are tested under them, with the condition in the test's name.
#include "helpers/random_gradients.hpp"
#include "oracles/closed_times.hpp"

#include <algorithm>
#include <cmath>

using namespace stepcast;
using namespace stepcast::test;

TEST_CASE("LB-SGD: the longer of an iteration's compute and the all-reduce, wherever the forward pass ends") {
  Draw draw(41);
  for (int round = 0; round < 200; ++round) {
    Profile profile = random_gradients(draw, 40);
    const Cluster cluster = random_ring(draw);
    const Seconds time = time_of("lb_sgd", profile, cluster);
    CHECK(ratio(time, stale_time(profile, all_reduce_line(cluster))) == doctest::Approx(1).epsilon(1e-8));
    profile.layers.back().backward.host += profile.layers.front().forward.host;
    profile.layers.front().forward.host = Seconds(0);
    CHECK(time_of("lb_sgd", profile, cluster) == time);
  }
}

TEST_CASE("DeAR: never below its bound, for every grouping and prefetch depth") {
  Draw draw(42);
  for (int round = 0; round < 200; ++round) {
    const Profile profile = random_gradients(draw, 40);
    const Cluster cluster = random_ring(draw);
    const CommunicationCost cost = *communication_cost(cluster);
    const Seconds bound = dear_bound(profile, cost.line(Operation::reduce_scatter), cost.line(Operation::all_gather));
    Seconds previous(HUGE_VAL);
    for (const char* plan :
         {"dear(bucket=1 MiB)", "dear(bucket=1 MiB, prefetch=2)", "dear(bucket=1 MiB, prefetch=99)"}) {
      const Seconds time = time_of(plan, profile, cluster);
      CHECK(time >= bound * (1 - tolerance));
      CHECK(time <= previous * (1 + tolerance));  // deeper prefetch issues earlier, in the same order
      previous = time;
    }
    CHECK(time_of("dear", profile, cluster) >= bound * (1 - tolerance));
    CHECK(time_of("dear(bucket=0 B)", profile, cluster) >= bound * (1 - tolerance));
  }
}

TEST_CASE(
    "DeAR: with many even layers and no start-up it reaches its bound, and gains or loses t_F as the paper says") {
  constexpr int layers = 400;
  const auto profile_with = [&](Seconds forward, Seconds backward) {
    Profile p =
        profile_of_gradients(std::vector<Produced>(layers, {backward / layers, Bytes(1e8 / layers)}), Seconds(0));
    for (Layer& l : p.layers) l.forward.host = forward / layers;
    return p;
  };
  const Cluster cluster = plain_cluster(1000, BytesPerSecond(1.998e9));  // T(M) = 100 ms
  const struct {
    double forward_ms, backward_ms, dear_ms, wfbp_ms;
  } cases[] = {
      {40, 50, 100, 140},    // T/2 >= max(t_F, t_G): gains t_F
      {100, 200, 300, 300},  // T <= min(t_G, 2 t_F): nothing to gain
      {20, 120, 170, 140},   // T <= t_G but T/2 > t_F: loses T/2 - t_F
  };
  for (const auto& c : cases) {
    const Profile p = profile_with(milliseconds(c.forward_ms), milliseconds(c.backward_ms));
    CAPTURE(c.forward_ms);
    CHECK(time_of("dear(bucket=0 B)", p, cluster).value() * 1e3 == doctest::Approx(c.dear_ms).epsilon(0.02));
    CHECK(time_of("wfbp", p, cluster).value() * 1e3 == doctest::Approx(c.wfbp_ms).epsilon(0.01));
  }
}

TEST_CASE("DeAR: groups of whole layers in forward order, strictly below the threshold") {
  // Production order 6 .. 0, sizes in MiB by layer: 3 4 9 1 1 1 30.
  const double by_layer[] = {3, 4, 9, 1, 1, 1, 30};
  std::vector<Produced> gradients;
  for (int l = 6; l >= 0; --l) gradients.push_back({milliseconds(1), mebibytes(by_layer[l])});
  const Profile profile = profile_of_gradients(gradients, milliseconds(1));
  const Cluster cluster = plain_cluster(4, BytesPerSecond(1e9));
  const auto sizes = [&](const char* text) {
    const CommPlan plan = plan_of(text, profile, cluster);
    std::vector<double> out;
    for (const Transfer& t : plan.transfers)
      if (t.carries_gradient) out.push_back(t.size / mebibytes(1));
    return out;
  };
  CHECK(sizes("dear(bucket=10 MiB)") == std::vector<double>{7, 9, 3, 30});
  CHECK(sizes("dear(bucket=16 MiB)") == std::vector<double>{7, 12, 30});
  CHECK(sizes("dear(bucket=0 B)") == std::vector<double>{3, 4, 9, 1, 1, 1, 30});
  CHECK(sizes("dear(layers=3)") == std::vector<double>{16, 3, 30});
  // The first all-gather of an iteration waits for every reduce-scatter of the one before and for its backward pass;
  // every later one for its predecessor and for entering the group before its own.
  const CommPlan plan = plan_of("dear(bucket=10 MiB)", profile, cluster);
  const auto waits = [&](std::size_t number) {
    std::vector<Edge> out;
    for (const Edge& e : plan.edges)
      if (e.to == transfer(number)) out.push_back(e);
    return out;
  };
  REQUIRE(waits(4).size() == 5);
  for (const Edge& e : waits(4)) CHECK(e.lag == 1);
  CHECK(std::count_if(plan.edges.begin(), plan.edges.end(),
                      [](const Edge& e) { return e.to == transfer(4) && e.from.kind == NodeKind::transfer; }) == 4);
  REQUIRE(waits(6).size() == 2);
  CHECK(waits(6)[0].from == transfer(5));
  CHECK(waits(6)[1].from == Node{NodeKind::forward_entry, 2});
  // Padding: to the next multiple of the workers, a full extra set where nothing is missing.
  CHECK(sizes("dear(layers=99, padding=on)").front() == doctest::Approx(49 + 4 * 4 / 1048576.0).epsilon(1e-12));
}

TEST_CASE("DeAR: a collective without a reduce-scatter cannot be split, and says so") {
  const Profile profile = profile_of_gradients({{milliseconds(1), mebibytes(1)}}, milliseconds(1));
  const Cluster cluster = plain_cluster(4, BytesPerSecond(1e9));
  const Answer<CommunicationCost> cost = communication_cost(cluster, "binary_tree");
  REQUIRE(bool(cost));
  const Strategy& dear = *strategy_named("dear");
  const Answer<CommPlan> plan = dear.plan({profile, cluster, *cost, standard_options(dear), 0.5});
  REQUIRE(!plan);
  CHECK(plan.reason().find("binary_tree") != std::string::npos);
}

TEST_CASE("ByteScheduler: whole tensors and endless credit are WFBP without its barrier") {
  Draw draw(43);
  int gains = 0;
  for (int round = 0; round < 200; ++round) {
    const Profile profile = random_gradients(draw, 40);
    const Cluster cluster = random_ring(draw);
    const Seconds fifo = time_of("bytescheduler(partition=1 TiB, credit=1 TiB, host=0 s, cycle=0 s)", profile, cluster);
    CHECK(fifo <= time_of("wfbp", profile, cluster) * (1 + tolerance));
    gains += fifo < time_of("wfbp", profile, cluster) * (1 - tolerance);
  }
  MESSAGE("faster in " << gains << " of 200");
}

TEST_CASE("ByteScheduler: without start-up and with small parts never slower than WFBP by more than a part or two") {
  Draw draw(44);
  for (int round = 0; round < 100; ++round) {
    const Profile profile = random_gradients(draw, 20);
    Cluster cluster = random_ring(draw);
    cluster.network.latency = Seconds(0);
    const Seconds part = all_reduce_line(cluster)(Bytes(1e5));
    CHECK(time_of("bytescheduler(partition=100 kB, credit=100 kB, host=0 s, cycle=0 s)", profile, cluster) <=
          time_of("wfbp", profile, cluster) + part * (1 + static_cast<double>(profile.tensors.size())));
  }
}

TEST_CASE("ByteScheduler: Horovod's loop below fuses what is ready at a tick, except for what is cut") {
  // Ready at 11, 12, 13, 17 and 23 ms; with a cycle of 10 ms and half a cycle of phase, ticks are at 15 and 25 ms.
  const std::vector<Produced> gradients{{milliseconds(1), Bytes(1e6)},
                                        {milliseconds(1), Bytes(5e6)},
                                        {milliseconds(1), Bytes(2e6)},
                                        {milliseconds(4), Bytes(1e6)},
                                        {milliseconds(6), Bytes(1e6)}};
  const Profile profile = profile_of_gradients(gradients, milliseconds(10));
  const Cluster cluster = plain_cluster(2, BytesPerSecond(1e9));
  const auto sent = [&](const char* loop) {
    std::vector<double> megabytes;
    for (const Transfer& t :
         plan_of(std::string("bytescheduler(partition=4 MB, ") + loop + ")", profile, cluster).transfers)
      if (t.carries_gradient) megabytes.push_back(t.size.value() / 1e6);
    return megabytes;
  };
  const auto waited = [&](const char* loop) {
    std::vector<double> ms;
    for (const Transfer& t :
         plan_of(std::string("bytescheduler(partition=4 MB, ") + loop + ")", profile, cluster).transfers)
      if (!t.carries_gradient) ms.push_back(t.delay.value() * 1e3);
    return ms;
  };
  using List = std::vector<double>;
  CHECK(sent("cycle=0 s") == List{1, 4, 1, 2, 1, 1});
  CHECK(waited("cycle=0 s").empty());
  CHECK(sent("cycle=10 ms, fusion=64 MB") == List{1, 4, 1, 2, 2});
  const List waits = waited("cycle=10 ms, fusion=64 MB");
  REQUIRE(waits.size() == 4);
  for (const auto& [k, ms] : {std::pair{0, 4.0}, {1, 3.0}, {2, 2.0}, {3, 2.0}})
    CHECK(waits[static_cast<std::size_t>(k)] == doctest::Approx(ms));
  CHECK(sent("cycle=10 ms, fusion=1.5 MB") == List{1, 4, 1, 2, 1, 1});
  // The last gradient leaves at 25 ms, travels for 1 ms, and only its own layer, the first, waits for it.
  const Seconds lone = time_of("bytescheduler(partition=4 MB, host=0 s, cycle=0 s)", profile, cluster);
  CHECK(lone.value() == doctest::Approx(0.024));
  const Seconds ticked = time_of("bytescheduler(partition=4 MB, host=0 s, cycle=10 ms)", profile, cluster);
  CHECK(ticked.value() == doctest::Approx(0.027));
  CHECK(time_of("bytescheduler", profile, plain_cluster(1, BytesPerSecond(1e9))) == compute_time(profile));
}

TEST_CASE("ByteScheduler: neither the smallest nor the largest part is best where messages have a start-up") {
  std::vector<Produced> gradients(12, {milliseconds(4), Bytes(8e6)});
  gradients.front().size = Bytes(1.5e8);  // a large layer next to the loss blocks what is urgent
  Profile profile = profile_of_gradients(gradients, milliseconds(0));
  for (Layer& layer : profile.layers) layer.forward.host = milliseconds(8);
  const Cluster cluster = plain_cluster(8, BytesPerSecond(4e9), microseconds(20));
  const Seconds small =
      time_of("bytescheduler(partition=64 KiB, credit=64 KiB, host=0 s, cycle=0 s)", profile, cluster);
  const Seconds middle = time_of("bytescheduler(partition=8 MiB, credit=8 MiB, host=0 s, cycle=0 s)", profile, cluster);
  const Seconds large = time_of("bytescheduler(partition=1 GiB, credit=1 GiB, host=0 s, cycle=0 s)", profile, cluster);
  CHECK(middle < small);
  CHECK(middle < large);
}
