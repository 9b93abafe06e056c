// Identities and bounds of single strategies, from the papers: one test a claim. Claims that hold only under conditions
// are tested under them, with the condition in the test's name.
#include "csv_table.hpp"
#include "plan_cases.hpp"
#include "random_input.hpp"

#include <stepcast/grouping.hpp>
#include <stepcast/iteration_forms.hpp>
#include <stepcast/plan_parts.hpp>
#include <stepcast/schedule.hpp>

#include <algorithm>
#include <cmath>

using namespace stepcast;
using namespace stepcast::test;

namespace {

constexpr double tolerance = 1e-9;

Seconds scheduled(const Profile& profile, const Grouping& groups, const CommunicationCost& cost) {
  return schedule(lowered(profile, all_reduced(profile, groups), cost, {})).iteration_time();
}
CostLine all_reduce_line(const Cluster& c) { return communication_cost(c)->line(Operation::all_reduce); }
double ratio(Seconds a, Seconds b) { return a / b; }

// All 2^(n-1) ways to cut n tensors into runs.
template <class Use>
void for_each_grouping(const Profile& profile, const Use& use) {
  const auto n = static_cast<std::uint32_t>(profile.tensors.size());
  for (std::uint32_t cuts = 0; cuts < (1u << (n - 1)); ++cuts) {
    Grouping groups;
    for (std::uint32_t t = 0; t < n; ++t) {
      if (t == 0 || (cuts >> (t - 1) & 1u)) groups.push_back({t, 0, Bytes(0)});
      ++groups.back().count;
      groups.back().size += profile.tensors[t].size;
    }
    use(groups);
  }
}

Profile random_gradients(Draw& draw, int most) {
  std::vector<Produced> gradients(static_cast<std::size_t>(draw.whole(1, most)));
  for (Produced& g : gradients) g = {microseconds(draw.whole(0, 3000)), Bytes(std::round(draw.log_uniform(100, 1e7)))};
  return profile_of_gradients(gradients, microseconds(draw.whole(0, 20000)), microseconds(draw.whole(0, 2000)));
}
Cluster random_ring(Draw& draw) {
  return plain_cluster(draw.whole(2, 64), BytesPerSecond(draw.log_uniform(1e8, 1e11)), microseconds(draw.whole(0, 50)));
}

// Gradients of a real ResNet-50, ResNet-101 or VGG16 (V100, batch 32); forward is half of backward.
Profile real_profile(const std::string& model) {
  std::vector<Produced> gradients;
  Seconds backward;
  for (const Row& row : table_of("training_bottleneck_backward.csv")) {
    if (row.at("model") != model) continue;
    gradients.push_back({microseconds(number(row, "gap_us")), Bytes(number(row, "bytes"))});
    backward += gradients.back().backward;
  }
  return profile_of_gradients(gradients, backward * 0.5);
}

}  // namespace

// --- WFBP and fusion ------------------------------------------------------------------------------------------------

TEST_CASE("WFBP: the scheduler gives the recurrence, on every small profile") {
  const double times[] = {0, 1, 3}, sizes[] = {1, 2, 5};
  int compared = 0;
  for (const double latency : {0.0, 1.0})
    for (int n = 1; n <= 3; ++n)
      for (int code = 0; code < std::pow(9, n); ++code) {
        std::vector<Produced> gradients;
        for (int k = 0, rest = code; k < n; ++k, rest /= 9)
          gradients.push_back({milliseconds(times[rest % 3]), Bytes(1e6 * sizes[rest / 3 % 3])});
        const Profile profile = profile_of_gradients(gradients, milliseconds(2), milliseconds(1));
        const Cluster cluster = plain_cluster(2, BytesPerSecond(1e9), milliseconds(latency));
        const CommunicationCost cost = *communication_cost(cluster);
        for_each_grouping(profile, [&](const Grouping& groups) {
          const Seconds expected = wfbp_time(profile, groups, cost.line(Operation::all_reduce));
          CHECK(picoseconds_of(scheduled(profile, groups, cost)) == picoseconds_of(expected));
          ++compared;
        });
      }
  MESSAGE(compared << " groupings");
  CHECK(compared > 6000);
}

TEST_CASE("WFBP: the scheduler gives the recurrence, on random profiles and groupings") {
  Draw draw(31);
  for (int round = 0; round < 400; ++round) {
    const Profile profile = random_gradients(draw, 60);
    const CommunicationCost cost = *communication_cost(random_ring(draw));
    const CostLine line = cost.line(Operation::all_reduce);
    for (const Grouping& groups :
         {per_tensor(profile), all_in_one(profile), closed_at(profile, Bytes(draw.log_uniform(1e3, 1e8)))}) {
      const Seconds time = scheduled(profile, groups, cost);
      CHECK(time.value() == doctest::Approx(wfbp_time(profile, groups, line).value()).epsilon(1e-8));
      CHECK(time <= no_overlap_time(profile, groups, line) * (1 + tolerance));
      // t_C + T(last) <= T - t_U
      CHECK(time >= (compute_time(profile) + line(groups.back().size)) * (1 - tolerance));
    }
  }
}

TEST_CASE("WFBP: without start-up no slower than one all-reduce at the end") {
  Draw draw(32);
  for (int round = 0; round < 200; ++round) {
    const Profile profile = random_gradients(draw, 40);
    Cluster cluster = random_ring(draw);
    cluster.network.latency = Seconds(0);
    CHECK(time_of("wfbp", profile, cluster) <= time_of("bsp", profile, cluster) * (1 + tolerance));
  }
}

TEST_CASE("BSP: compute plus the all-reduce; with buckets, plus all of them, and no faster than DDP with the same") {
  Draw draw(33);
  for (int round = 0; round < 200; ++round) {
    const Profile profile = random_gradients(draw, 40);
    const Cluster cluster = random_ring(draw);
    const CostLine line = all_reduce_line(cluster);
    const Seconds whole = compute_time(profile) + line(profile.gradient_size());
    CHECK(ratio(time_of("bsp", profile, cluster), whole) == doctest::Approx(1).epsilon(1e-8));
    const Seconds pieces = no_overlap_time(profile, closed_at(profile, mebibytes(1)), line);
    const Seconds bucketed = time_of("bsp(bucket=1 MiB)", profile, cluster);
    CHECK(ratio(bucketed, pieces) == doctest::Approx(1).epsilon(1e-8));
    CHECK(time_of("ddp(bucket=1 MiB)", profile, cluster) <= bucketed * (1 + tolerance));
  }
}

TEST_CASE("DDP: limits, number of buckets, and its ends WFBP and BSP") {
  Draw draw(34);
  for (int round = 0; round < 200; ++round) {
    const Profile profile = random_gradients(draw, 60);
    const Cluster cluster = random_ring(draw);
    const CommPlan plan = plan_of("ddp", profile, cluster);
    const double m = profile.gradient_size().value();
    CHECK(static_cast<double>(plan.transfers.size()) <= 2 + std::max(0.0, m - 0x1p20) / (25 * 0x1p20));
    for (std::size_t b = 0; b + 1 < plan.transfers.size(); ++b)
      CHECK(plan.transfers[b].size >= mebibytes(b == 0 ? 1 : 25));
    CHECK(time_of("ddp(bucket=0 B, first=0 B)", profile, cluster) == time_of("wfbp", profile, cluster));
    CHECK(time_of("ddp(bucket=1 GiB, first=1 GiB)", profile, cluster) == time_of("bsp", profile, cluster));
  }
}

TEST_CASE("WFBP: cutting a tensor never helps where the queue is first-in first-out") {
  Draw draw(49);
  for (int round = 0; round < 200; ++round) {
    const Profile whole = random_gradients(draw, 20);
    const Cluster cluster = random_ring(draw);
    Profile cut = whole;
    const auto t = static_cast<std::ptrdiff_t>(draw.whole(0, static_cast<int>(whole.tensors.size()) - 1));
    Tensor half = cut.tensors[static_cast<std::size_t>(t)];
    half.size = half.size * 0.5;
    half.name += " (half)";
    cut.tensors[static_cast<std::size_t>(t)].size = half.size;
    cut.tensors.insert(cut.tensors.begin() + t, half);
    CHECK(time_of("wfbp", cut, cluster) >= time_of("wfbp", whole, cluster) * (1 - tolerance));
  }
}

TEST_CASE("DDP: what a bucket holds does not depend on timing, what a Horovod buffer holds does") {
  const auto sizes = [](const char* plan, Seconds gap) {
    const Profile p = profile_of_gradients(std::vector<Produced>(12, {gap, mebibytes(3)}), milliseconds(1));
    std::vector<double> out;
    for (const Transfer& t : plan_of(plan, p, plain_cluster(4, BytesPerSecond(1e9))).transfers)
      if (t.carries_gradient) out.push_back(t.size / mebibytes(1));
    return out;
  };
  CHECK(sizes("ddp(bucket=7 MiB)", milliseconds(1)) == std::vector<double>{3, 9, 9, 9, 6});
  CHECK(sizes("ddp(bucket=7 MiB)", milliseconds(9)) == std::vector<double>{3, 9, 9, 9, 6});
  CHECK(sizes("horovod(threshold=7 MiB, cycle=4 ms)", milliseconds(1)).size() < 12);
  CHECK(sizes("horovod(threshold=7 MiB, cycle=4 ms)", milliseconds(9)).size() == 12);
}

TEST_CASE("DDP: a bucket list per data type, each with a first bucket of its own, sent as they close") {
  std::vector<Produced> gradients(6, {milliseconds(1), mebibytes(2)});
  Profile profile = profile_of_gradients(gradients, milliseconds(1));
  for (const std::size_t half : {1u, 2u, 4u}) profile.tensors[half].dtype = DataType::f16;
  const CommPlan plan = plan_of("ddp(bucket=4 MiB)", profile, plain_cluster(2, BytesPerSecond(1e9)));
  // f32: {0} {3, 5}; f16: {1} {2, 4}. In the order in which they close: 0, 1, 4, 5.
  CHECK(plan.order == std::vector<std::uint32_t>{0, 1, 2, 4, 3, 5});
  REQUIRE(plan.transfers.size() == 4);
  const double sizes[] = {2, 2, 4, 4};
  for (std::size_t b = 0; b < 4; ++b) CHECK(plan.transfers[b].size == mebibytes(sizes[b]));
  CHECK(plan.edges[4].from == gradient(profile, 4));
}

TEST_CASE("Horovod: without fusion and cycle it is WFBP, a tick adds at most one cycle") {
  Draw draw(35);
  for (int round = 0; round < 200; ++round) {
    const Profile profile = random_gradients(draw, 40);
    const Cluster cluster = random_ring(draw);
    const Seconds wfbp = time_of("wfbp", profile, cluster);
    CHECK(ratio(time_of("horovod(threshold=0 B, cycle=0 s)", profile, cluster), wfbp) ==
          doctest::Approx(1).epsilon(1e-9));
    const Seconds ticked = time_of("horovod(threshold=0 B, cycle=2 ms)", profile, cluster);
    CHECK(ticked >= wfbp * (1 - tolerance));
    CHECK(ticked <= (wfbp + milliseconds(2)) * (1 + tolerance));
    // A loop that blocks is off its grid after a long transfer, so it may tick earlier or later than a free one.
    const Seconds blocking = time_of("horovod(threshold=0 B, cycle=2 ms, loop=blocking)", profile, cluster);
    CHECK(blocking >= wfbp * (1 - tolerance));
  }
}

TEST_CASE("Horovod: a cycle longer than the step sends one or two buffers, whole when the tick falls after it") {
  Draw draw(36);
  for (int round = 0; round < 100; ++round) {
    const Profile profile = random_gradients(draw, 40);
    const Cluster cluster = random_ring(draw);
    const CommunicationCost cost = *communication_cost(cluster);
    const PlanSpec spec = plan_spec_of("horovod(threshold=1 TiB, cycle=9 s)");
    for (const double phase : {0.0, 0.5, 1.0}) {
      const Answer<CommPlan> plan = spec.strategy->plan({profile, cluster, cost, spec.options, phase});
      REQUIRE(bool(plan));
      const auto buffers = std::count_if(plan->transfers.begin(), plan->transfers.end(),
                                         [](const Transfer& t) { return t.carries_gradient; });
      CHECK(buffers <= 2);
      if (phase > 0) CHECK(buffers == 1);
    }
  }
}

TEST_CASE("Horovod: no buffer exceeds the threshold unless one tensor does, and types do not mix") {
  Draw draw(37);
  for (int round = 0; round < 100; ++round) {
    Profile profile = random_gradients(draw, 60);
    for (Tensor& t : profile.tensors)
      if (draw.coin()) t.dtype = DataType::f16;
    const CommPlan plan =
        plan_of("horovod(threshold=4 MiB, cycle=10 ms)", profile, plain_cluster(4, BytesPerSecond(1e9)));
    for (const Transfer& t : plan.transfers) {
      if (!t.carries_gradient) continue;
      CHECK((t.size <= mebibytes(4) || t.tensors == 1));
      for (std::uint32_t k = 1; k < t.tensors; ++k)
        CHECK(profile.tensors[plan.tensor(t.first_tensor + k)].dtype ==
              profile.tensors[plan.tensor(t.first_tensor)].dtype);
    }
  }
}

// --- Merging --------------------------------------------------------------------------------------------------------

TEST_CASE("the optimal merge is the best of all contiguous groupings") {
  Draw draw(38);
  for (int round = 0; round < 300; ++round) {
    const Profile profile = random_gradients(draw, 10);
    const Cluster cluster = random_ring(draw);
    const CostLine line = all_reduce_line(cluster);
    Seconds best(HUGE_VAL);
    for_each_grouping(profile, [&](const Grouping& g) { best = std::min(best, wfbp_time(profile, g, line)); });
    CHECK(time_of("optimal_merge", profile, cluster).value() == doctest::Approx(best.value()).epsilon(1e-8));
  }
}

TEST_CASE("MG-WFBP: no rule without `small` is slower than WFBP; the gap to the optimum is measured") {
  Draw draw(39);
  const char* const rules[] = {"mg_wfbp", "mg_wfbp(rule=asc)", "mg_wfbp(rule=caffe)"};
  double mean[3] = {}, worst[3] = {}, small_slower = 0, bsp_faster = 0;
  constexpr int rounds = 500;
  for (int round = 0; round < rounds; ++round) {
    const Profile profile = random_gradients(draw, 60);
    const Cluster cluster = random_ring(draw);
    const Seconds wfbp = time_of("wfbp", profile, cluster), best = time_of("optimal_merge", profile, cluster);
    for (int r = 0; r < 3; ++r) {
      const Seconds time = time_of(rules[r], profile, cluster);
      CHECK(time <= wfbp * (1 + tolerance));
      CHECK(time >= best * (1 - tolerance));
      mean[r] += (time / best - 1) / rounds;
      worst[r] = std::max(worst[r], time / best - 1);
    }
    bsp_faster += time_of("bsp", profile, cluster) < time_of("mg_wfbp", profile, cluster) * (1 - tolerance);
    small_slower += time_of("mg_wfbp(small=32 KiB)", profile, cluster) > wfbp * (1 + tolerance);
  }
  for (int r = 0; r < 3; ++r)
    MESSAGE(std::string(rules[r]) << ": above the optimal merge by " << 100 * mean[r] << " % on average, "
                                  << 100 * worst[r] << " % at worst");
  MESSAGE("one all-reduce at the end is faster than mg_wfbp in " << 100 * bsp_faster / rounds << " % of the cases");
  MESSAGE("small=32 KiB is slower than WFBP in " << 100 * small_slower / rounds << " % of the cases");
}

TEST_CASE("MG-WFBP: without start-up it is as fast as WFBP") {
  Draw draw(40);
  for (int round = 0; round < 200; ++round) {
    const Profile profile = random_gradients(draw, 40);
    Cluster cluster = random_ring(draw);
    cluster.network.latency = Seconds(0);
    for (const char* plan : {"mg_wfbp", "mg_wfbp(rule=caffe)"})
      CHECK(ratio(time_of(plan, profile, cluster), time_of("wfbp", profile, cluster)) ==
            doctest::Approx(1).epsilon(1e-8));
  }
}

TEST_CASE("MG-WFBP: a given line changes the decisions, not the times; small messages always merge") {
  const Profile profile =
      profile_of_gradients(std::vector<Produced>(8, {milliseconds(5), Bytes(1e4)}), milliseconds(1));
  const Cluster cluster = plain_cluster(4, BytesPerSecond(1e9), microseconds(10));
  CHECK(plan_of("mg_wfbp", profile, cluster).transfers.size() == 8);
  CHECK(plan_of("mg_wfbp(a=1 s)", profile, cluster).transfers.size() == 1);
  CHECK(plan_of("mg_wfbp(small=25 kB)", profile, cluster).transfers.size() == 3);
  CHECK(time_of("mg_wfbp(a=1 s)", profile, cluster) == time_of("bsp", profile, cluster));
}

TEST_CASE("merging on real gradients: what the greedy rule leaves on the table") {
  for (const char* model : {"resnet50", "resnet101", "vgg16"}) {
    const Profile profile = real_profile(model);
    REQUIRE(profile.tensors.size() > 50);
    for (const double gbit : {10.0, 25.0, 100.0}) {
      const Cluster cluster = plain_cluster(16, gigabits_per_second(gbit), microseconds(25));
      const Seconds best = time_of("optimal_merge", profile, cluster);
      std::string line;
      for (const char* plan : {"mg_wfbp", "mg_wfbp(rule=caffe)", "ddp", "horovod", "wfbp", "bsp"}) {
        const double gap = ratio(time_of(plan, profile, cluster), best) - 1;
        CHECK(gap >= -tolerance);
        line += std::string("  ") + plan + " " + std::to_string(100 * gap).substr(0, 5) + " %";
      }
      MESSAGE(std::string(model) << ", 16 workers, " << gbit << " Gb/s, above the optimal merge:" << line);
    }
  }
}

// --- Stale, split and scheduled -------------------------------------------------------------------------------------

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
    const Seconds fifo = time_of("bytescheduler(partition=1 TiB, credit=1 TiB)", profile, cluster);
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
    CHECK(time_of("bytescheduler(partition=100 kB, credit=100 kB)", profile, cluster) <=
          time_of("wfbp", profile, cluster) + part * (1 + static_cast<double>(profile.tensors.size())));
  }
}

// --- Parameter servers ----------------------------------------------------------------------------------------------

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
  CHECK(exposed("bsp_ps(partition=1 MB)") == doctest::Approx(1.5));
  CHECK(exposed("wfbp_ps(partition=1 MB)") == doctest::Approx(1.5));
  cluster.servers = 4;
  CHECK(exposed("bsp_ps(partition=1 MB)") == doctest::Approx(1.001));
  CHECK(exposed("bsp_ps(partition=1 TiB)") == doctest::Approx(2));
  cluster.servers = 2;  // half the servers, half the rate
  CHECK(exposed("wfbp_ps(partition=1 MB)") == doctest::Approx(2.002));
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
    CHECK(ratio(time_of("bsp_ps(partition=1 MB)", profile, cluster), expected) == doctest::Approx(1).epsilon(1e-8));
  }
}

TEST_CASE("servers: pushing when ready is never slower than pushing at the end, with the same partitions") {
  Draw draw(46);
  for (int round = 0; round < 200; ++round) {
    Profile profile = random_gradients(draw, 30);
    for (Tensor& t : profile.tensors) t.size = Bytes(1e6 * draw.whole(1, 8));  // so that the fused cut is the same
    Cluster cluster = random_ring(draw);
    cluster.servers = draw.whole(1, 8);
    CHECK(time_of("wfbp_ps(partition=1 MB)", profile, cluster) <=
          time_of("bsp_ps(partition=1 MB)", profile, cluster) * (1 + tolerance));
  }
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

TEST_CASE("ByteScheduler: neither the smallest nor the largest part is best where messages have a start-up") {
  std::vector<Produced> gradients(12, {milliseconds(4), Bytes(8e6)});
  gradients.front().size = Bytes(1.5e8);  // a large layer next to the loss blocks what is urgent
  Profile profile = profile_of_gradients(gradients, milliseconds(0));
  for (Layer& layer : profile.layers) layer.forward.host = milliseconds(8);
  const Cluster cluster = plain_cluster(8, BytesPerSecond(4e9), microseconds(20));
  const Seconds small = time_of("bytescheduler(partition=64 KiB, credit=64 KiB)", profile, cluster);
  const Seconds middle = time_of("bytescheduler(partition=8 MiB, credit=8 MiB)", profile, cluster);
  const Seconds large = time_of("bytescheduler(partition=1 GiB, credit=1 GiB)", profile, cluster);
  CHECK(middle < small);
  CHECK(middle < large);
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
