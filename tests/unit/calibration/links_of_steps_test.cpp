// Links fitted to steps: what made the steps is found again, what the steps do not show stays, and wrong tables are
// told.
#include "helpers/plan_cases.hpp"

#include <stepcast/calibration/links_of_steps.hpp>
#include <stepcast/prediction/prediction.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

using namespace stepcast;

namespace {

/// Eight layers with 32 MB of gradients each, whose compute is `factor` times 2 ms forward and 4 ms backward.
Profile job(double factor) {
  Profile p;
  p.model = "job";
  p.device = "device";
  for (std::uint32_t l = 0; l < 8; ++l) {
    p.layers.push_back({"layer" + std::to_string(l), {}, {}});
    p.layers[l].forward.device = milliseconds(2 * factor);
    p.layers[l].backward.device = milliseconds(4 * factor);
  }
  for (std::uint32_t l = 8; l-- > 0;) {
    p.backward_order.push_back(l);
    p.tensors.push_back({"w" + std::to_string(l), {8000000}, DataType::f32, Bytes(32e6), l});
  }
  p.optimizer.device = milliseconds(2);
  return checked(p, "test");
}

const std::map<std::string, Profile> jobs = {{"small.json", job(0.5)}, {"large.json", job(4)}};

/// What the links are in truth: a bandwidth inside a machine of eight, one between machines, and c.
Cluster truth(double inside, double network, double beside) {
  Cluster c = test::plain_cluster(4, BytesPerSecond(network));
  c.devices_per_node = 8;
  c.inside.bandwidth = BytesPerSecond(inside);
  c.contention.compute_under_communication = 1 + beside;
  return c;
}

JobStep step(const char* profile, std::int64_t workers, Seconds time) {
  return {profile, plan_spec_of("ddp"), workers, time, "made:" + std::to_string(workers)};
}

std::vector<JobStep> steps_on(const Cluster& cluster, std::initializer_list<std::int64_t> counts) {
  std::vector<JobStep> steps;
  for (const auto& [name, profile] : jobs)
    for (const std::int64_t workers : counts) {
      const Cluster sized = *resized(cluster, workers);
      steps.push_back(step(name.c_str(), workers, predicted(profile, sized, plan_spec_of("ddp"))->iteration));
    }
  return steps;
}

std::string refusal_of(const std::string& csv) {
  try {
    (void)job_steps_of_csv(csv, "steps.csv", plan_spec_of("ddp"));
  } catch (const InputError& error) { return error.what(); }
  return "";
}

}  // namespace

TEST_CASE("links of steps: bandwidths and what transfers take from compute are found again") {
  const Cluster made = truth(20e9, 5e9, 0.8);
  const std::vector<JobStep> steps = steps_on(made, {1, 4, 16, 32});
  // Ten times as fast, and nothing taken from compute: the fit begins far away.
  Cluster start = truth(200e9, 50e9, 0);
  start.relative_error = 0.15;
  const Answer<LinksFit> fit = links_of_steps(start, jobs, steps);
  REQUIRE(fit);
  CHECK(fit->beside == doctest::Approx(0.8).epsilon(0.03));
  REQUIRE(fit->links.size() == 3);
  CHECK(fit->links[0].workers == 4);
  CHECK(fit->links[0].bandwidth.value() == doctest::Approx(20e9).epsilon(0.02));
  for (std::size_t i = 0; i < steps.size(); ++i) CHECK(std::abs(fit->residuals[i]) < 0.002);
  CHECK(fit->notes.empty());
  CHECK(fit->cluster.relative_error < 0.002);  // that of the fit, in place of what was assumed
  // Steps of a count that was measured come out alike under another plan, too.
  for (const std::int64_t workers : {4, 32}) {
    const Cluster sized = *resized(fit->cluster, workers);
    const PlanSpec plan = plan_spec_of("ddp(bucket=100 MiB)");
    const Seconds there = predicted(jobs.at("large.json"), sized, plan)->iteration;
    const Seconds true_time = predicted(jobs.at("large.json"), *resized(made, workers), plan)->iteration;
    CHECK(there / true_time == doctest::Approx(1).epsilon(0.01));
  }
}

TEST_CASE("links of steps: a step of one worker sets how long its profile computes") {
  std::vector<JobStep> steps = steps_on(truth(20e9, 5e9, 0.5), {1, 4, 16, 32});
  for (JobStep& s : steps) s.time *= 2;  // as if all of the profile took half of what it takes
  const Answer<LinksFit> fit = links_of_steps(truth(10e9, 2.5e9, 0), jobs, steps);
  REQUIRE(fit);
  CHECK(fit->links[0].bandwidth.value() == doctest::Approx(10e9).epsilon(0.02));
  CHECK(fit->beside == doctest::Approx(0.5).epsilon(0.05));
}

TEST_CASE("links of steps: what no step shows stays as it was, and says so") {
  // All communication is hidden, and slows nothing down.
  const Cluster made = truth(500e9, 500e9, 0);
  std::vector<JobStep> steps = steps_on(made, {4});
  std::erase_if(steps, [](const JobStep& s) { return s.profile != "large.json"; });
  const Answer<LinksFit> fit = links_of_steps(made, jobs, steps);
  REQUIRE(fit);
  CHECK(fit->links[0].bandwidth.value() == doctest::Approx(500e9).epsilon(0.1));
  CHECK(fit->beside < 0.05);
  CHECK(fit->notes.size() == 3);
  CHECK(fit->notes[1].find("hardly tell") != std::string::npos);
  steps.front().workers = 1;
  const Answer<LinksFit> alone = links_of_steps(made, jobs, steps);
  REQUIRE_FALSE(alone);
  CHECK(alone.reason() == "no step of several workers was measured");
  steps.front().workers = 12;  // no whole number of machines
  CHECK_FALSE(links_of_steps(made, jobs, steps));
}

TEST_CASE("links of steps: tables are read by the words of their columns") {
  const std::string csv =
      "Profile,GPUs,step time (ms),plan\n"
      "a.json,1,100,\"ddp(bucket=5 MiB)\"\n"
      "a.json,8,120.5,wfbp\n";
  CHECK(names_profiles(csv));
  CHECK_FALSE(names_profiles("model,devices,global batch,step_s\n"));
  CHECK_FALSE(names_profiles(""));
  const std::vector<JobStep> steps = job_steps_of_csv(csv, "steps.csv", plan_spec_of("ddp"));
  REQUIRE(steps.size() == 2);
  CHECK(steps[1].profile == "a.json");
  CHECK(steps[1].workers == 8);
  CHECK(steps[1].time.value() == doctest::Approx(0.1205));
  CHECK(text_of(steps[1].plan) == "wfbp");
  CHECK(steps[1].source == "steps.csv:3");
  CHECK(text_of(job_steps_of_csv("profile,workers,step_s\na.json,2,1\n", "t", plan_spec_of("dear")).front().plan) ==
        "dear");
  CHECK(refusal_of("profile,workers\na,2\n").find("a column of step times") != std::string::npos);
  CHECK(refusal_of("profile,step_s\na,2\n").find("a column 'workers'") != std::string::npos);
  CHECK(refusal_of("profile,workers,step_s\na,2\n").find("steps.csv:2") != std::string::npos);
  CHECK(refusal_of("profile,workers,step_s\na,2,0\n").find("above zero") != std::string::npos);
  CHECK(refusal_of("profile,workers,step_s\n,2,1\n").find("profile") != std::string::npos);
  CHECK(refusal_of("profile,workers,step_s\na,0,1\n").find("column workers") != std::string::npos);
  CHECK(refusal_of("profile,workers,step_s\n").find("a header only") != std::string::npos);
}
