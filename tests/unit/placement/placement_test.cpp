#include "helpers/random_input.hpp"
#include "helpers/timelines.hpp"

#include <stepcast/placement/cuts.hpp>
#include <stepcast/placement/placement.hpp>
#include <stepcast/report/placement_report.hpp>
#include <stepcast/workload/workload.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

using namespace stepcast;
using test::Draw;

namespace {

// Groups of devices: {devices, speed}; links inside and between groups.
UnequalCluster grouped(std::vector<std::pair<int, double>> groups, Link inside, Link between) {
  UnequalCluster c;
  std::vector<std::size_t> group;
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (int i = 0; i < groups[g].first; ++i) {
      c.devices.push_back({"g" + std::to_string(g) + " " + std::to_string(i), groups[g].second, {}});
      group.push_back(g);
    }
  for (const std::size_t a : group)
    for (const std::size_t b : group) {
      c.latency.push_back(a == b ? inside.latency : between.latency);
      c.bandwidth.push_back(a == b ? inside.bandwidth : between.bandwidth);
    }
  return c;
}

const Link fast{Seconds(0), BytesPerSecond(1e9)}, slow{Seconds(0), BytesPerSecond(1e7)};

std::vector<PlacedUnit> random_units(Draw& draw, int n) {
  std::vector<PlacedUnit> units;
  for (int i = 0; i < n; ++i)
    units.push_back({microseconds(draw.whole(0, 900)), microseconds(draw.whole(0, 900)), Bytes(draw.whole(0, 9000)),
                     Bytes(draw.whole(0, 100))});
  return units;
}

UnequalCluster random_unequal(Draw& draw) {
  std::vector<std::pair<int, double>> groups;
  for (int g = draw.whole(1, 3); g > 0; --g) groups.emplace_back(draw.whole(1, 2), 0.5 * draw.whole(1, 4));
  UnequalCluster c = grouped(groups, {microseconds(draw.whole(0, 9)), BytesPerSecond(draw.log_uniform(1e6, 1e9))},
                             {microseconds(draw.whole(0, 90)), BytesPerSecond(draw.log_uniform(1e6, 1e8))});
  if (draw.coin())
    for (UnequalDevice& d : c.devices) d.memory = Bytes(draw.whole(100, 600));
  return c;
}

// Every way to give units in order to devices in order, some of which may stay out.
void for_all_partitions(std::size_t units, const std::vector<std::uint32_t>& order,
                        const std::function<void(std::vector<std::uint32_t>, std::vector<std::uint32_t>)>& use) {
  std::vector<std::uint32_t> device, counts;
  const std::function<void(std::size_t, std::size_t)> go = [&](std::size_t k, std::size_t left) {
    if (left == 0) use(device, counts);
    if (left == 0 || k == order.size()) return;
    go(k + 1, left);
    for (std::uint32_t n = 1; n <= left; ++n) {
      device.push_back(order[k]);
      counts.push_back(n);
      go(k + 1, left - n);
      device.pop_back();
      counts.pop_back();
    }
  };
  go(0, units);
}

}  // namespace

TEST_CASE("the cuts are the best of all in their order") {
  Draw draw(1);
  for (int round = 0; round < 120; ++round) {
    CAPTURE(round);
    const auto units = random_units(draw, draw.whole(1, 6));
    const UnequalCluster cluster = random_unequal(draw);
    PlacementOptions options;
    options.micro_batches = static_cast<std::uint32_t>(draw.whole(1, 9));
    PartitionInput in;
    in.units = units;
    in.cluster = &cluster;
    in.rounds = options.micro_batches;
    in.largest_send = in.compressed_send = in.worth_less_than = Seconds(INFINITY);
    for (std::uint32_t d = 0; d < cluster.devices.size(); ++d) in.order.push_back(d), in.like.push_back(d);
    std::shuffle(in.order.begin(), in.order.end(), draw.engine());
    Seconds best(INFINITY);
    for_all_partitions(units.size(), in.order, [&](auto device, auto counts) {
      const auto placement = placement_of(units, cluster, device, counts, options);
      if (placement) best = std::min(best, placement->closed_form);
    });
    const auto found = best_partitions(in);
    CHECK(found.empty() == std::isinf(best.value()));
    if (found.empty()) continue;
    CHECK(found.front().closed_form.value() == doctest::Approx(best.value()).epsilon(1e-12));
    const auto placement = placement_of(units, cluster, found.front().device, found.front().units, options);
    REQUIRE(bool(placement));
    CHECK(placement->closed_form.value() == doctest::Approx(best.value()).epsilon(1e-12));
  }
}

TEST_CASE("the placement found is no worse than any whose clusters are in a row, by the closed form of the best") {
  // With brute force over all orders that keep clusters together and all cuts: the least closed form is a bound that
  // GPipe's task graph cannot be below; the placement found is within what the graph adds to the best closed form.
  Draw draw(2);
  int equal = 0, rounds = 60;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const auto units = random_units(draw, draw.whole(1, 5));
    const UnequalCluster cluster = random_unequal(draw);
    PlacementOptions options;
    options.micro_batches = static_cast<std::uint32_t>(draw.whole(1, 9));
    if (draw.coin()) options.ratio = draw.whole(2, 100);
    std::vector<std::uint32_t> order(cluster.devices.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto of = link_clusters(cluster);
    Seconds best_form(INFINITY), best_step(INFINITY);
    do {
      bool together = true;
      for (std::size_t i = 2; i < order.size(); ++i)
        for (std::size_t j = 0; j + 1 < i; ++j)
          together &= of[order[j]] != of[order[i]] || of[order[i - 1]] == of[order[i]];
      if (!together) continue;
      for_all_partitions(units.size(), order, [&](auto device, auto counts) {
        const auto placement = placement_of(units, cluster, device, counts, options);
        if (!placement) return;
        best_form = std::min(best_form, placement->closed_form);
        best_step = std::min(best_step, placement->iteration);
      });
    } while (std::next_permutation(order.begin(), order.end()));
    const auto found = placed(units, cluster, options);
    if (!found) {
      // Devices of unequal memory inside a cluster are only tried in one order.
      CHECK(found.reason().find("memor") != std::string::npos);
      continue;
    }
    CHECK(std::accumulate(found->units.begin(), found->units.end(), 0u) == units.size());
    CHECK(found->iteration >= best_step * (1 - 1e-12));
    CHECK(found->closed_form >= best_form * (1 - 1e-12));
    equal += found->iteration <= best_step * (1 + 1e-12);
  }
  CHECK(equal >= rounds * 3 / 4);
}

TEST_CASE("GPipe's graph is never below the closed form, and equal where forward and backward are alike") {
  Draw draw(3);
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    auto units = random_units(draw, 6);
    for (PlacedUnit& u : units) u.memory = {};
    UnequalCluster cluster = random_unequal(draw);
    for (UnequalDevice& d : cluster.devices) d.memory = {};
    const bool alike = draw.coin();
    if (alike)
      for (PlacedUnit& u : units) u.backward = u.forward;
    PlacementOptions options;
    options.micro_batches = static_cast<std::uint32_t>(draw.whole(1, 12));
    const auto found = placed(units, cluster, options);
    REQUIRE(bool(found));
    CHECK(found->iteration >= found->closed_form * (1 - 1e-12));
    if (alike) CHECK(found->iteration.value() == doctest::Approx(found->closed_form.value()).epsilon(1e-12));
    // No step is shorter than all micro-batches through the busiest device or link.
    for (std::size_t s = 0; s < found->device.size(); ++s)
      CHECK(found->iteration >= options.micro_batches * std::max(found->compute[s], found->send[s]) * (1 - 1e-12));
  }
}

TEST_CASE("AdaTopK: ratio 1 is plain pipelining, and small ratios would send more than they save") {
  const UnequalCluster cluster = grouped({{2, 1}, {2, 1}}, fast, slow);
  const std::vector<PlacedUnit> units(4, {milliseconds(1), milliseconds(2), Bytes(1e5), {}});
  PlacementOptions options;
  const auto plain = placement_of(units, cluster, {0, 1, 2, 3}, {1, 1, 1, 1}, options);
  CHECK(plain->ratio == std::vector<double>{1, 1, 1, 1});
  CHECK(plain->send[1].value() == doctest::Approx(2 * 1e5 / 1e7));
  options.ratio = 3;  // a value and an index of 8 bytes are three values
  CHECK(placement_of(units, cluster, {0, 1, 2, 3}, {1, 1, 1, 1}, options)->iteration == plain->iteration);
  options.ratio = 30;
  const auto sparse = placement_of(units, cluster, {0, 1, 2, 3}, {1, 1, 1, 1}, options);
  CHECK(sparse->ratio == std::vector<double>{1, 30, 1, 1});  // a hundredth of the time: not worth it
  CHECK(sparse->send[1].value() == doctest::Approx(2 * 1e5 / 1e7 * 3 / 30));
  CHECK(sparse->send[0] == plain->send[0]);
  CHECK(sparse->iteration < plain->iteration);
}

TEST_CASE("AdaTopK: links that are sparsified take equally long, none longer than the slowest") {
  Draw draw(4);
  for (int round = 0; round < 50; ++round) {
    UnequalCluster cluster = grouped({{5, 1}}, fast, slow);
    for (std::size_t a = 0; a < 5; ++a)
      for (std::size_t b = 0; b < a; ++b)
        cluster.bandwidth[cluster.pair(a, b)] = cluster.bandwidth[cluster.pair(b, a)] =
            BytesPerSecond(draw.log_uniform(1e6, 1e9));
    const std::vector<PlacedUnit> units(5, {milliseconds(1), milliseconds(1), Bytes(1e5), {}});
    PlacementOptions options;
    options.ratio = draw.log_uniform(3.01, 1000);
    const auto placement = placement_of(units, cluster, {0, 1, 2, 3, 4}, {1, 1, 1, 1, 1}, options);
    const Seconds most = *std::max_element(placement->send.begin(), placement->send.end());
    for (std::size_t s = 0; s + 1 < 5; ++s)
      if (placement->ratio[s] > 1) CHECK(placement->send[s].value() == doctest::Approx(most.value()));
    CHECK(*std::max_element(placement->ratio.begin(), placement->ratio.end()) == doctest::Approx(options.ratio));
  }
}

TEST_CASE("sparsifying a link that is no bottleneck leaves the steady state as it is") {
  const UnequalCluster cluster = grouped({{2, 1}, {2, 1}}, fast, slow);
  const std::vector<PlacedUnit> units(4, {milliseconds(30), milliseconds(60), Bytes(1e5), {}});
  const auto growth = [&](double ratio) {  // of the step by one more micro-batch
    PlacementOptions options;
    options.ratio = ratio;
    options.micro_batches = 20;
    const auto twenty = placement_of(units, cluster, {0, 1, 2, 3}, {1, 1, 1, 1}, options);
    options.micro_batches = 21;
    const auto more = placement_of(units, cluster, {0, 1, 2, 3}, {1, 1, 1, 1}, options);
    return (more->iteration - twenty->iteration).value();
  };
  CHECK(growth(1) == doctest::Approx(0.090));
  CHECK(growth(10) == doctest::Approx(growth(1)));
  CHECK(growth(1000) == doctest::Approx(growth(1)));
}

TEST_CASE("OP-Fence: the cut with the least volume lies on the slow link, and fast devices work more") {
  UnequalCluster cluster = grouped({{2, 1}, {2, 2}}, fast, slow);
  CHECK(link_clusters(cluster) == std::vector<std::uint32_t>{0, 0, 1, 1});
  std::vector<PlacedUnit> units(12, {milliseconds(1), milliseconds(2), Bytes(1e6), {}});
  units[3].boundary = Bytes(1e3);
  const auto found = placed(units, cluster);
  REQUIRE(bool(found));
  CHECK(found->device.size() == 4);
  std::uint32_t done = 0;
  for (std::size_t s = 0; s + 1 < 4; ++s) {
    done += found->units[s];
    const bool crosses = (found->device[s] < 2) != (found->device[s + 1] < 2);
    CHECK(crosses == (done == 4));
  }
  for (std::size_t s = 0; s < 4; ++s) CHECK(found->units[s] == (found->device[s] < 2 ? 2 : 4));
}

TEST_CASE("a device that would hold up the others stays out") {
  const UnequalCluster cluster = grouped({{2, 1}, {1, 0.01}}, fast, fast);
  const std::vector<PlacedUnit> units(4, {milliseconds(1), milliseconds(2), Bytes(10), {}});
  const auto found = placed(units, cluster);
  CHECK(found->device == std::vector<std::uint32_t>{0, 1});
  CHECK(found->units == std::vector<std::uint32_t>{2, 2});
  // Over a link on which a send takes longer than all the work, one device does it alone.
  const auto alone = placed(units, grouped({{1, 1}, {1, 1}}, fast, {Seconds(10), BytesPerSecond(1)}));
  CHECK(alone->device.size() == 1);
  CHECK(alone->iteration.value() == doctest::Approx(8 * 4 * 3e-3));
}

TEST_CASE("units have to fit") {
  UnequalCluster cluster = grouped({{2, 1}}, fast, fast);
  for (UnequalDevice& d : cluster.devices) d.memory = Bytes(100);
  std::vector<PlacedUnit> units(4, {milliseconds(1), milliseconds(2), Bytes(10), Bytes(50)});
  CHECK(placed(units, cluster)->units == std::vector<std::uint32_t>{2, 2});
  units.push_back(units[0]);
  const auto too_large = placed(units, cluster);
  REQUIRE(!too_large);
  CHECK(too_large.reason() == "the units do not fit into the devices' memories: they need 250 B");
  const auto stage = placement_of(units, cluster, {0, 1}, {3, 2});
  REQUIRE(!stage);
  CHECK(stage.reason() == "stage 0 needs 150 B; g0 0 has 100 B");
}

TEST_CASE("large clusters are placed, too") {
  const UnequalCluster cluster =
      grouped({{12, 1}, {12, 2}, {8, 1.5}, {8, 1}, {8, 0.5}}, {milliseconds(1), gigabits_per_second(10)},
              {milliseconds(30), gigabits_per_second(0.1)});
  std::vector<PlacedUnit> units(50, {milliseconds(30), milliseconds(60), mebibytes(4), {}});
  PlacementOptions options;
  options.micro_batches = 16;
  options.ratio = 100;
  const auto found = placed(units, cluster, options);
  REQUIRE(bool(found));
  CHECK(found->notes == std::vector<std::string>{"of the orders of 5 clusters 10 were tried"});
  const auto even = placement_of(units, cluster, {0, 1, 2, 3, 4}, {10, 10, 10, 10, 10}, options);
  CHECK(found->iteration < even->iteration);
}

TEST_CASE("1F1B keeps less than GPipe, and waits for slow links more") {
  const UnequalCluster cluster = grouped({{4, 1}}, fast, fast);
  const std::vector<PlacedUnit> units(4, {milliseconds(1), milliseconds(2), Bytes(1e6), {}});
  PlacementOptions options;
  const auto gpipe = placed(units, cluster, options);
  options.schedule = pipeline_schedule("1f1b");
  const auto usual = placed(units, cluster, options);
  CHECK(usual->iteration >= gpipe->iteration);
  options.schedule = pipeline_schedule("bidirectional");
  CHECK(!placed(units, cluster, options));
}

TEST_CASE("unequal devices are read from JSON, strictly") {
  const std::string text = R"({"schema": "stepcast.devices/1", "name": "two sites",
    "groups": [{"name": "a", "devices": 2, "speed": 1.5, "memory": "24 GB",
                "link": {"latency": "10 us", "bandwidth": "100 Gb/s"}},
               {"name": "b", "devices": 1}],
    "links": [{"between": ["a", "b"], "link": {"latency": "20 ms", "bandwidth": "8 Mb/s"}}]})";
  const UnequalCluster c = unequal_cluster_of_json(text, "sites.json");
  CHECK(c.name == "two sites");
  REQUIRE(c.devices.size() == 3);
  CHECK(c.devices[1].name == "a 1");
  CHECK(c.devices[1].speed == 1.5);
  CHECK(c.devices[1].memory == Bytes(24e9));
  CHECK(c.devices[2].name == "b");
  CHECK(c.devices[2].memory == Bytes(0));
  CHECK(c.bandwidth[c.pair(0, 1)] == gigabits_per_second(100));
  CHECK(c.latency[c.pair(2, 0)] == milliseconds(20));
  CHECK(c.bandwidth[c.pair(1, 2)] == BytesPerSecond(1e6));

  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    changed.replace(at, from.size(), to);
    return test::error_of([&] { (void)unequal_cluster_of_json(changed, "sites.json"); });
  };
  const auto mentions = [](const std::string& message, const std::string& part) {
    CAPTURE(message);
    CHECK(message.find(part) != std::string::npos);
  };
  mentions(refusal("devices/1", "devices/2"), "stepcast.devices/1");
  mentions(refusal("\"speed\"", "\"sped\""), "speed");
  mentions(refusal("\"speed\": 1.5", "\"speed\": 0"), "sites.json#/groups/0/speed");
  mentions(refusal("\"devices\": 2", "\"devices\": 0"), "1 to 1024 devices");
  mentions(refusal("\"devices\": 2", "\"devices\": 2000"), "1 to 1024 devices");
  mentions(refusal("\"name\": \"b\"", "\"name\": \"a\""), "one group only");
  mentions(refusal("[\"a\", \"b\"]", "[\"a\", \"c\"]"), "name of another group");
  mentions(refusal("[\"a\", \"b\"]", "[\"a\", \"a\"]"), "name of another group");
  mentions(refusal("[\"a\", \"b\"]", "[\"a\"]"), "two groups");
  mentions(refusal("\"8 Mb/s\"", "8"), "string with number and unit");
  mentions(refusal("\"between\": [\"a\", \"b\"], \"link\"", "\"link\""), "between");
  mentions(refusal(R"({"between": ["a", "b"], "link": {"latency": "20 ms", "bandwidth": "8 Mb/s"}})", ""),
           "a link between 'a' and 'b'");
  mentions(refusal("\"link\": {\"latency\": \"10 us\", \"bandwidth\": \"100 Gb/s\"}", "\"speed\": 1"), "twice");
}

TEST_CASE("impossible placements are refused") {
  const UnequalCluster cluster = grouped({{2, 1}}, fast, fast);
  const std::vector<PlacedUnit> units(2, {milliseconds(1), milliseconds(2), Bytes(10), {}});
  CHECK_THROWS_AS((void)placed({}, cluster), InputError);
  PlacementOptions options;
  options.ratio = 0.5;
  CHECK_THROWS_AS((void)placed(units, cluster, options), InputError);
  UnequalCluster broken = cluster;
  broken.bandwidth[broken.pair(0, 1)] = BytesPerSecond(0);
  CHECK_THROWS_AS((void)placed(units, broken), InputError);
  broken = cluster;
  broken.latency.pop_back();
  CHECK_THROWS_AS((void)placed(units, broken), InputError);
  options.ratio = 1;
  options.micro_batches = 0;
  CHECK(!placed(units, cluster, options));
}

TEST_CASE("a described model is placed: its units are what they cost on one device") {
  Device device;
  device.name = "made up";
  device.memory_bandwidth = BytesPerSecond(1e12);
  device.matrix_rate.fill(1e14);
  const Workload workload = workload_of(model_shape_of("gpt:hidden=1024,layers=6,heads=16,seq=1024"), device);
  const auto units = placed_units(workload, 2, 4);
  REQUIRE(bool(units));
  REQUIRE(units->size() == workload.units.size());
  const auto once = placed_units(workload, 2, 1);
  for (std::size_t i = 0; i < units->size(); ++i) {
    Split split;
    split.micro_batch = 2;
    const auto cost = unit_cost(workload, workload.units[i], split);
    CHECK((*units)[i].forward == cost->forward);
    CHECK((*units)[i].backward == cost->input_gradient + cost->weight_gradient);
    CHECK((*units)[i].boundary == cost->boundary);
    CHECK(((*units)[i].memory - (*once)[i].memory).value() == doctest::Approx(3 * cost->kept[0].value()));
  }
  const auto found = placed(*units, grouped({{2, 1}, {2, 0.5}}, fast, slow));
  REQUIRE(bool(found));
  CHECK(std::accumulate(found->units.begin(), found->units.end(), 0u) == units->size());
}

TEST_CASE("AdaTopK sends an index of 8 bytes beside each value of the model's type") {
  Device device;
  device.name = "made up";
  device.memory_bandwidth = BytesPerSecond(1e12);
  device.matrix_rate.fill(1e14);
  // Two devices and 100 MB/s between them: 512 x 4096 values of 2 bytes, there and back, cost 2 x 41.943 ms plain.
  PlacementOptions options;
  options.ratio = 100;
  UnequalCluster cluster =
      grouped({{1, 1}, {1, 1}}, {Seconds(0), BytesPerSecond(1e8)}, {Seconds(0), BytesPerSecond(1e8)});
  for (const auto& [dtype, bytes] : {std::pair("f16", 2.0), std::pair("bf16", 2.0), std::pair("f32", 4.0)}) {
    CAPTURE(std::string(dtype));
    const Workload workload = workload_of(
        model_shape_of("gpt:hidden=4096,layers=8,heads=32,seq=512,vocab=8192,dtype=" + std::string(dtype)), device);
    const Answer<PlacementChoice> choice = best_placement(workload, cluster, 8, {1}, options);
    REQUIRE(choice);
    REQUIRE(choice->placement.send.size() == 2);
    const double plain = 512.0 * 4096 * bytes / 1e8;
    CHECK(choice->placement.send[0].value() == doctest::Approx(2 * plain * (bytes + 8) / bytes / 100));
  }
}

TEST_CASE("a placement as text reads back to the same value, and what it cannot mean is refused") {
  for (const std::string text :
       {"placement(devices=2+0+1, units=4+3+5)", "placement(devices=0, units=7, mb=2, adatopk=50)",
        "placement(devices=0+1, units=1+1, schedule=1f1b)"}) {
    CHECK(text_of(placement_plan_of(text)) == text);
    CHECK(placement_plan_of(text_of(placement_plan_of(text))) == placement_plan_of(text));
  }
  CHECK(text_of(placement_plan_of(" placement( units=1 + 2,devices=1+0, schedule=gpipe )")) ==
        "placement(devices=1+0, units=1+2)");
  CHECK(has_placement("placement(devices=0, units=1)"));
  CHECK_FALSE(has_placement("placement_of"));
  for (const std::string text : {"placement", "placement()", "placement(devices=0+1)",
                                 "placement(devices=0+1, units=3)", "placement(devices=0+0, units=1+1)",
                                 "placement(devices=0, units=0)", "placement(devices=0, units=1, adatopk=0.5)",
                                 "placement(devices=0, units=1)/ddp", "placement(devices=a, units=1)"}) {
    INFO(text);
    CHECK_THROWS_AS((void)placement_plan_of(text), InputError);
  }
}
