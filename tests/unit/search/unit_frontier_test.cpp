// The frontier of units that choose for themselves: its points are plans, none is beaten, text and JSON say the same.
#include "helpers/random_layouts.hpp"

#include <stepcast/report/report.hpp>
#include <stepcast/search/unit_frontier.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <sstream>

using namespace stepcast;
using namespace stepcast::test;

namespace {

struct Case {
  Workload workload;
  Cluster cluster;
  LayoutOptions options;
  SelfCheck check;

  Case(Draw& draw, const std::string& model) : workload(workload_of(model_shape_of(model), random_device(draw))) {
    cluster = cluster_of_flags(8, 4, "25GbE");
    options.global_batch = 32;
  }
  [[nodiscard]] Answer<UnitFrontier> found() const {
    return unit_frontier(workload, cluster, options, plan_spec_of("ddp"));
  }
  std::string written(void (*write)(std::ostream&, const UnitFrontierReport&), const UnitFrontier& found,
                      Bytes cap) const {
    DeviceCount count{cluster, options, found};
    count.options.memory_cap = cap;
    const std::vector<DeviceCount> counts{count};
    const DeviceChoice choice = chosen(counts, Objective::shortest_step, Seconds(0));
    std::ostringstream out;
    write(out,
          {{workload, cluster, check, options.global_batch, cap}, counts, Objective::shortest_step, {}, choice, {}});
    return out.str();
  }
};

/// Whether nothing that is predicted for `plan` lies below the frontier.
bool covers(const UnitFrontier& frontier, const LayoutPrediction& p) {
  return std::any_of(frontier.points.begin(), frontier.points.end(), [&](const UnitPoint& point) {
    return point.memory <= p.memory.total() * (1 + 1e-9) && point.iteration <= p.iteration * (1 + 1e-9);
  });
}

}  // namespace

TEST_CASE("unit frontier: the prediction of a point's plan, written and read again, is the point") {
  Draw draw(60);
  int mixed = 0;
  for (int i = 0; i < 25; ++i) {
    Case c(draw, "gpt:hidden=256,heads=8,seq=128,vocab=2048,layers=" + std::to_string(draw.whole(1, 8)));
    c.workload = random_workload(draw, random_device(draw));
    c.cluster = random_machines(draw);
    c.options.global_batch = static_cast<double>(c.cluster.workers() * (1 << draw.whole(0, 2)));
    const Answer<UnitFrontier> found = c.found();
    REQUIRE(found);
    for (std::size_t p = 0; p < found->points.size(); ++p) {
      const UnitPoint& point = found->points[p];
      if (p > 0) {
        CHECK(point.memory > found->points[p - 1].memory);
        CHECK(point.iteration < found->points[p - 1].iteration);
      }
      const std::string text = text_of(point.plan);
      const Answer<LayoutPrediction> again = predicted(c.workload, c.cluster, layout_plan_of(text), c.options);
      INFO(text);
      REQUIRE(again);
      CHECK(again->memory.total().value() == doctest::Approx(point.memory.value()).epsilon(1e-3));
      CHECK(again->iteration.value() == doctest::Approx(point.iteration.value()).epsilon(1e-3));
      mixed += point.plan.layout.unit_choices.empty() ? 0 : 1;
    }
  }
  CHECK(mixed > 20);
}

TEST_CASE("unit frontier: no layout without a pipeline whose units all choose the same lies below it") {
  Draw draw(65);
  int looked_at = 0;
  for (int i = 0; i < 8; ++i) {
    const Case c(draw, "gpt:hidden=256,heads=8,seq=128,vocab=2048,layers=" + std::to_string(draw.whole(1, 6)));
    const Answer<UnitFrontier> found = c.found();
    REQUIRE(found);
    for (const std::int64_t tensor : {1, 2, 4})
      for (int zero = 0; zero < 4; ++zero)
        for (const std::int64_t samples : {1, 2, 4, 8, 16}) {
          LayoutPlan plan = layout_plan_of("layout/ddp");
          plan.layout.tensor = tensor, plan.layout.zero = zero, plan.layout.micro_batch = samples;
          plan.layout.recomputation = static_cast<Recomputation>(draw.whole(0, 2));
          const Answer<LayoutPrediction> p = predicted(c.workload, c.cluster, plan, c.options);
          if (!p) continue;
          ++looked_at;
          INFO(text_of(plan));
          CHECK(covers(*found, *p));
        }
  }
  CHECK(looked_at > 200);
}

TEST_CASE("unit frontier: of few combinations all are predicted, and random choices lie hardly below a searched one") {
  Draw draw(66);
  Case small(draw, "gpt:hidden=256,heads=8,seq=128,vocab=2048,layers=1");
  small.cluster = cluster_of_flags(2, 1, "25GbE");
  small.options.global_batch = 2;
  const Answer<UnitFrontier> all = small.found();
  REQUIRE(all);
  CHECK(all->exact);
  const auto random_choices = [&](std::int64_t most_tensor, std::uint32_t units) {
    std::string text;
    for (std::uint32_t u = 0; u < units; ++u)
      text += (u ? "+" : "") + text_of(UnitChoice{1, std::min<std::int64_t>(most_tensor, 1 << draw.whole(0, 2)),
                                                  draw.whole(0, 3), static_cast<Recomputation>(draw.whole(0, 2))});
    return layout_plan_of("layout(units=" + text + ")/ddp");
  };
  for (int i = 0; i < 100; ++i) {
    const LayoutPlan plan = random_choices(1, 3);
    const Answer<LayoutPrediction> p = predicted(small.workload, small.cluster, plan, small.options);
    REQUIRE(p);
    INFO(text_of(plan));
    CHECK(covers(*all, *p));
  }
  const Case large(draw, "gpt:hidden=256,heads=8,seq=128,vocab=2048,layers=4");
  const Answer<UnitFrontier> searched = large.found();
  REQUIRE(searched);
  CHECK_FALSE(searched->exact);
  for (int i = 0; i < 300; ++i) {
    const LayoutPlan plan = random_choices(4, 6);
    const Answer<LayoutPrediction> p = predicted(large.workload, large.cluster, plan, large.options);
    if (!p) continue;
    INFO(text_of(plan));
    CHECK(covers(*searched, *p));
  }
}

TEST_CASE("unit frontier: the fastest that fits") {
  Draw draw(62);
  const Case c(draw, "gpt:hidden=512,heads=8,seq=256,vocab=2048,layers=3");
  const Answer<UnitFrontier> found = c.found();
  REQUIRE(found);
  const auto& points = found->points;
  REQUIRE(points.size() > 2);
  CHECK(fastest_within(*found, Bytes(0)) == &points.back());
  CHECK(fastest_within(*found, points[1].memory) == &points[1]);
  CHECK(fastest_within(*found, (points[1].memory + points[2].memory) / 2) == &points[1]);
  CHECK(fastest_within(*found, points[0].memory / 2) == nullptr);
}

TEST_CASE("unit frontier: a step takes what belongs to no unit once, whatever the choice") {
  Draw draw(63);
  Case c(draw, "gpt:hidden=256,heads=8,seq=128,vocab=2048,layers=2");
  const Answer<UnitFrontier> bare = c.found();
  c.workload.step_overhead += Seconds(1);
  const Answer<UnitFrontier> late = c.found();
  REQUIRE(bare);
  REQUIRE(late);
  CHECK(late->points.front().iteration.value() == doctest::Approx(bare->points.front().iteration.value() + 1));
  CHECK(late->points.back().iteration.value() == doctest::Approx(bare->points.back().iteration.value() + 1));
}

TEST_CASE("unit frontier: over numbers of devices, the fastest, the fewest and the smallest") {
  Draw draw(67);
  const Case c(draw, "gpt:hidden=512,heads=8,seq=256,vocab=2048,layers=4");
  std::vector<DeviceCount> counts;
  for (const std::int64_t workers : {2, 4, 8}) {
    counts.push_back({*resized(c.cluster, workers), c.options});
    counts.back().found = unit_frontier(c.workload, counts.back().cluster, c.options, plan_spec_of("ddp"));
    REQUIRE(counts.back().found);
  }
  const auto at = [&](std::size_t i) -> const std::vector<UnitPoint>& { return counts[i].found->points; };
  const DeviceChoice fast = chosen(counts, Objective::shortest_step, Seconds(0));
  for (std::size_t i = 0; i < 3; ++i) CHECK(fast.point->iteration <= at(i).back().iteration);
  const DeviceChoice few = chosen(counts, Objective::fewest_devices, Seconds(0));
  CHECK(few.devices == &counts[0]);
  CHECK(few.point == &at(0).back());
  const DeviceChoice small = chosen(counts, Objective::least_memory, Seconds(0));
  for (std::size_t i = 0; i < 3; ++i) CHECK(small.point->memory <= at(i).front().memory);
  // What two devices have no room for.
  for (DeviceCount& count : counts) count.options.memory_cap = at(0).front().memory * 0.99;
  const DeviceChoice more = chosen(counts, Objective::fewest_devices, Seconds(0));
  REQUIRE(more.point);
  CHECK(more.devices != &counts[0]);
  CHECK(more.point->memory <= more.devices->options.memory_cap);
  // A step that nothing reaches.
  CHECK(chosen(counts, Objective::fewest_devices, fast.point->iteration / 2).point == nullptr);
}

TEST_CASE("unit frontier: text and JSON say the same, and what does not fit is said") {
  Draw draw(64);
  const Case c(draw, "gpt:hidden=512,heads=8,seq=256,vocab=2048,layers=6");
  const Answer<UnitFrontier> found = c.found();
  REQUIRE(found);
  const auto& points = found->points;
  const Bytes cap = points[points.size() / 2].memory;
  const auto json = nlohmann::json::parse(c.written(write_unit_frontier_json, *found, cap));
  CHECK(json["schema"] == "stepcast.unit_frontier/1");
  const auto& only = json["counts"][0];
  REQUIRE(only["frontier"].size() == points.size());
  CHECK(only["best"] == points.size() / 2);
  CHECK(only["exact"] == found->exact);
  CHECK(only["frontier"].back()["iteration_s"] == points.back().iteration.value());
  CHECK(json["choice"]["plan"] == text_of(points[points.size() / 2].plan));
  for (const auto& point : only["frontier"]) {
    std::uint32_t units = 0;
    for (const auto& run : point["runs"]) {
      CHECK(run["first_unit"] == units);
      units += run["units"].get<std::uint32_t>();
      CHECK(run["tensor"].get<int>() * run["data"].get<int>() == 8);
    }
    CHECK(units == c.workload.units.size());
  }
  const std::string text = c.written(write_unit_frontier_text, *found, cap);
  CHECK(text.find("8 units") != std::string::npos);
  const Bytes small = points.front().memory / 2;
  CHECK(nlohmann::json::parse(c.written(write_unit_frontier_json, *found, small))["choice"].is_null());
  CHECK(c.written(write_unit_frontier_text, *found, small).find("none fits") != std::string::npos);
}
