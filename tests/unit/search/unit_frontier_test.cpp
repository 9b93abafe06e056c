// The frontier of units that choose for themselves, as it is reported: runs of equal choices, the fastest that fits,
// text and JSON of one value.
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
  std::string written(void (*write)(std::ostream&, const UnitFrontierReport&), const UnitFrontier& found,
                      Bytes cap) const {
    std::ostringstream out;
    write(out, {{workload, cluster, check, options.global_batch, cap}, found});
    return out.str();
  }
};

}  // namespace

TEST_CASE("unit frontier: runs cover all units, and neighbouring runs differ") {
  Draw draw(61);
  for (int i = 0; i < 10; ++i) {
    const Case c(draw, "gpt:hidden=256,heads=8,seq=128,vocab=2048,layers=" + std::to_string(draw.whole(1, 4)));
    const Answer<UnitFrontier> found = unit_frontier(c.workload, c.cluster, c.options);
    REQUIRE(found);
    REQUIRE_FALSE(found->frontier.points.empty());
    for (const Assignment& point : found->frontier.points) {
      std::uint32_t next = 0;
      const std::vector<UnitRun> runs = runs_of(found->units, point);
      for (std::size_t r = 0; r < runs.size(); ++r) {
        CHECK(runs[r].first == next);
        for (std::uint32_t u = next; u < next + runs[r].units; ++u)
          CHECK(found->units.of[u][point.configuration[u]] == runs[r].configuration);
        if (r > 0) CHECK_FALSE(runs[r].configuration == runs[r - 1].configuration);
        next += runs[r].units;
      }
      CHECK(next == c.workload.units.size());
    }
  }
}

TEST_CASE("unit frontier: the fastest that fits") {
  Draw draw(62);
  const Case c(draw, "gpt:hidden=512,heads=8,seq=256,vocab=2048,layers=3");
  const Answer<UnitFrontier> found = unit_frontier(c.workload, c.cluster, c.options);
  REQUIRE(found);
  const auto& points = found->frontier.points;
  REQUIRE(points.size() > 2);
  CHECK(fastest_within(found->frontier, Bytes(0)) == &points.back());
  CHECK(fastest_within(found->frontier, Bytes(points[1].memory)) == &points[1]);
  CHECK(fastest_within(found->frontier, Bytes((points[1].memory + points[2].memory) / 2)) == &points[1]);
  CHECK(fastest_within(found->frontier, Bytes(points[0].memory / 2)) == nullptr);
}

TEST_CASE("unit frontier: a step takes what belongs to no unit once, whatever the choice") {
  Draw draw(63);
  Case c(draw, "gpt:hidden=256,heads=8,seq=128,vocab=2048,layers=2");
  const Answer<UnitFrontier> bare = unit_frontier(c.workload, c.cluster, c.options);
  c.workload.step_overhead += Seconds(1);
  const Answer<UnitFrontier> late = unit_frontier(c.workload, c.cluster, c.options);
  REQUIRE(bare);
  REQUIRE(late);
  CHECK(late->frontier.points.front().time == doctest::Approx(bare->frontier.points.front().time + 1));
  CHECK(late->frontier.points.back().time == doctest::Approx(bare->frontier.points.back().time + 1));
}

TEST_CASE("unit frontier: text and JSON say the same, and what does not fit is said") {
  Draw draw(64);
  const Case c(draw, "gpt:hidden=512,heads=8,seq=256,vocab=2048,layers=6");
  const Answer<UnitFrontier> found = unit_frontier(c.workload, c.cluster, c.options);
  REQUIRE(found);
  const auto& points = found->frontier.points;
  const Bytes cap(points[points.size() / 2].memory);
  const auto json = nlohmann::json::parse(c.written(write_unit_frontier_json, *found, cap));
  CHECK(json["schema"] == "stepcast.unit_frontier/1");
  REQUIRE(json["frontier"].size() == points.size());
  CHECK(json["best"] == points.size() / 2);
  CHECK(json["exact"] == found->frontier.exact);
  CHECK(json["frontier"].back()["iteration_s"] == points.back().time);
  const std::string text = c.written(write_unit_frontier_text, *found, cap);
  CHECK(text.find("8 units") != std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 80, line);
  const Bytes small(points.front().memory / 2);
  CHECK(nlohmann::json::parse(c.written(write_unit_frontier_json, *found, small))["best"].is_null());
  CHECK(c.written(write_unit_frontier_text, *found, small).find("none fits") != std::string::npos);
}
