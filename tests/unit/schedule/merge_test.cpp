// Merging of gradients (MG-WFBP, the optimal merge): identities and bounds from the papers, one test a claim. Claims
// that hold only under conditions are tested under them, with the condition in the test's name.
#include "helpers/csv_table.hpp"
#include "helpers/random_gradients.hpp"
#include "oracles/closed_times.hpp"

#include <algorithm>
#include <cmath>

using namespace stepcast;
using namespace stepcast::test;

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

TEST_CASE("fusing two messages saves exactly one start-up") {
  Draw draw(44);
  for (int round = 0; round < 100; ++round) {
    const Cluster cluster = random_ring(draw);
    const CostLine line = all_reduce_line(cluster);
    const Bytes sizes[] = {Bytes(draw.whole(1, 9) * 1e6), Bytes(draw.whole(1, 9) * 1e6)};
    // Both are ready at the end of the backward pass, so that nothing hides.
    const Profile profile =
        profile_of_gradients({{milliseconds(1), sizes[0]}, {Seconds(0), sizes[1]}}, milliseconds(1));
    CHECK((line(sizes[0]) + line(sizes[1]) - line(sizes[0] + sizes[1])).value() ==
          doctest::Approx(line.start_up.value()).epsilon(1e-9));
    CHECK(std::abs((time_of("wfbp", profile, cluster) - time_of("bsp", profile, cluster) - line.start_up).value()) <
          1e-11);
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

namespace {

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
