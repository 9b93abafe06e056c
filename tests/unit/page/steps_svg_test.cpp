// The picture of steps: both steps on one scale, nothing of a name escapes, what has no timeline is refused.
#include "helpers/plan_cases.hpp"

#include <stepcast/page/steps_svg.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <string>

using namespace stepcast;
using namespace stepcast::test;

namespace {

Profile small_profile() {
  Profile p = profile_of_gradients({{milliseconds(8), Bytes(4e6)}, {milliseconds(8), Bytes(4e6)}}, milliseconds(10),
                                   milliseconds(1));
  p.model = "small</title><script>";
  return p;
}

std::string picture_of(const Profile& profile, const Cluster& cluster, const std::vector<std::string>& plans) {
  RecommendOptions options;
  options.tune = options.sensitivity = false;
  for (const std::string& plan : plans) options.plans.push_back(plan_spec_of(plan));
  const Ranking ranking = recommended(profile, cluster, options);
  std::ostringstream out;
  write_steps_svg(out, {profile, cluster, {{}, "there is no trace"}, ranking});
  return out.str();
}

/// Where the dashed lines stand that end the steps.
std::vector<double> ends_of(const std::string& svg) {
  std::vector<double> ends;
  const std::string line = "<line class=\"end\" x1=\"";
  for (std::size_t at = 0; (at = svg.find(line, at)) != std::string::npos; at += line.size())
    ends.push_back(std::stod(svg.substr(at + line.size())));
  return ends;
}

double left_of(const std::string& svg) {  // of the axis, where steps begin
  return std::stod(svg.substr(svg.rfind("<line class=\"rule\" x1=\"", svg.find("text-anchor=\"middle\">0<")) + 23));
}

}  // namespace

TEST_CASE("picture of steps: two steps on one scale, and by how much one is shorter") {
  const Profile profile = small_profile();
  const Cluster cluster = plain_cluster(8, BytesPerSecond(5e8), microseconds(20));
  const Prediction ddp = *predicted(profile, cluster, plan_spec_of("ddp"));
  const Prediction dear = *predicted(profile, cluster, plan_spec_of("dear(bucket=1 MiB)"));
  REQUIRE(dear.iteration < 0.95 * ddp.iteration);
  const std::string svg = picture_of(profile, cluster, {"dear(bucket=1 MiB)"});
  const std::vector<double> ends = ends_of(svg);
  REQUIRE(ends.size() == 2);
  const double left = left_of(svg);
  CHECK((ends[1] - left) / (ends[0] - left) == doctest::Approx(dear.iteration / ddp.iteration).epsilon(0.01));
  CHECK(svg.find("Baseline, ddp: ") != std::string::npos);
  CHECK(svg.find("Best plan, dear(bucket=1 MiB): ") != std::string::npos);
  CHECK(svg.find(" less a step") != std::string::npos);
}

TEST_CASE("picture of steps: the plan in use stands alone where it is the best") {
  const std::string svg = picture_of(small_profile(), plain_cluster(8, BytesPerSecond(1.25e8)), {"ddp"});
  CHECK(ends_of(svg).size() == 1);
  CHECK(svg.find("Best plan") == std::string::npos);
}

TEST_CASE("picture of steps: names are text, and light and dark have their colours") {
  const std::string svg = picture_of(small_profile(), plain_cluster(8, BytesPerSecond(1.25e8)), {"wfbp"});
  CHECK(svg.find("<script") == std::string::npos);
  CHECK(svg.find("small&lt;/title&gt;") != std::string::npos);
  CHECK(svg.find("prefers-color-scheme:dark") != std::string::npos);
}

TEST_CASE("picture of steps: nothing is drawn where no plan can run") {
  const Profile profile = small_profile();
  const Cluster cluster = plain_cluster(8, BytesPerSecond(1.25e8));
  Ranking ranking;
  ranking.baseline = *predicted(profile, cluster, plan_spec_of("ddp"));
  std::ostringstream out;
  CHECK_THROWS_AS(write_steps_svg(out, {profile, cluster, {{}, "there is no trace"}, ranking}), InputError);
}
