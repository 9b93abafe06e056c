// BSP, WFBP and fixed fusion: identities and bounds from the papers, one test a claim. Claims that hold only under
// conditions are tested under them, with the condition in the test's name.
#include "helpers/random_gradients.hpp"
#include "oracles/closed_times.hpp"

#include <algorithm>
#include <cmath>

using namespace stepcast;
using namespace stepcast::test;

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
    // A size that is named is that of the first bucket, too, unless this has one of its own.
    CHECK(time_of("ddp(bucket=0 B)", profile, cluster) == time_of("wfbp", profile, cluster));
    CHECK(time_of("ddp(bucket=1 GiB)", profile, cluster) == time_of("bsp", profile, cluster));
    const CommPlan split = plan_of("ddp(bucket=1 GiB, first=1 MiB)", profile, cluster);
    CHECK(split.transfers.size() == (plan.transfers.front().size < profile.gradient_size() ? 2 : 1));
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
  CHECK(sizes("ddp(bucket=7 MiB, first=1 MiB)", milliseconds(1)) == std::vector<double>{3, 9, 9, 9, 6});
  CHECK(sizes("ddp(bucket=6 MiB, first=1 MiB)", milliseconds(1)) ==
        std::vector<double>{3, 6, 6, 6, 6, 6, 3});  // closes at the limit
  CHECK(sizes("ddp(bucket=7 MiB, first=1 MiB)", milliseconds(9)) == std::vector<double>{3, 9, 9, 9, 6});
  CHECK(sizes("ddp(bucket=7 MiB)", milliseconds(9)) == std::vector<double>{9, 9, 9, 9});
  CHECK(sizes("horovod(threshold=7 MiB, cycle=4 ms)", milliseconds(1)).size() < 12);
  CHECK(sizes("horovod(threshold=7 MiB, cycle=4 ms)", milliseconds(9)).size() == 12);
}

TEST_CASE("DDP: a bucket list per data type, each with a first bucket of its own, sent as they close") {
  std::vector<Produced> gradients(6, {milliseconds(1), mebibytes(2)});
  Profile profile = profile_of_gradients(gradients, milliseconds(1));
  for (const std::size_t half : {1u, 2u, 4u}) profile.tensors[half].dtype = DataType::f16;
  const CommPlan plan = plan_of("ddp(bucket=4 MiB, first=1 MiB)", profile, plain_cluster(2, BytesPerSecond(1e9)));
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
