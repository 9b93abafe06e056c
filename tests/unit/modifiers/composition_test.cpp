// Modifiers of plans: periods, codecs and compositions of anything with anything.
#include "helpers/plan_cases.hpp"
#include "helpers/random_plan.hpp"

#include <stepcast/modifiers/shared/periodic.hpp>
#include <stepcast/schedule/critical_cycle.hpp>
#include <stepcast/schedule/plan_flaw.hpp>

using namespace stepcast;
using namespace stepcast::test;

namespace {

// Three layers, every pass 1 ms, gradients of 3 MB each, update 0.6 ms.
Profile three_layers() {
  Profile p =
      profile_of_gradients({{Seconds(1e-3), Bytes(3e6)}, {Seconds(1e-3), Bytes(3e6)}, {Seconds(1e-3), Bytes(3e6)}},
                           Seconds(3e-3), Seconds(0.6e-3));
  return p;
}
const Cluster two_workers = plain_cluster(2, BytesPerSecond(1e9));  // all-reduce of m bytes: m / 1e9 s

double ms(const std::string& plan, const Profile& profile = three_layers()) {
  return 1e3 * time_of(plan, profile, two_workers).value();
}

}  // namespace

TEST_CASE("a period of k iterations pays for its exchange once") {
  CHECK(ms("bsp") == doctest::Approx(6.6 + 9));
  CHECK(ms("bsp+local(period=1)") == doctest::Approx(ms("bsp")));
  for (const int k : {2, 3, 4, 8}) {
    const std::string in = std::to_string(k);
    CHECK(ms("bsp+local(period=" + in + ")") == doctest::Approx(6.6 + 9.0 / k));
    // Accumulation updates once, too.
    CHECK(ms("bsp+accumulate(steps=" + in + ")") == doctest::Approx(6 + 9.6 / k));
    // The first transfer of three starts after the first of three backward passes.
    CHECK(ms("wfbp+local(period=" + in + ")") == doctest::Approx(6.6 + 7.0 / k));
  }
}

TEST_CASE("an exchange that crosses into the next forward pass does so into the next repetition") {
  const Profile p = three_layers();
  const CommPlan once = plan_of("dear(bucket=0 B)", p, two_workers);
  const Answer<CommPlan> thrice = communicating_every(3, once, false);
  REQUIRE(bool(thrice));
  CHECK(thrice->period == 3);
  CHECK(thrice->transfers.size() == once.transfers.size());
  CHECK(flaw_of(*thrice, p) == "");
  // Reduce-scatters end 2.5 ms after the backward pass, the first all-gather takes 1.5 ms, the second hides under the
  // forward pass of the first layer, and of the third, issued on entering the second layer, only the update hides 0.2.
  CHECK(ms("dear(bucket=0 B)") == doctest::Approx(6.6 + 2.5 + 1.5 + 1.3));
  CHECK(ms("dear(bucket=0 B)+local(period=3)") == doctest::Approx(6.6 + (2.5 + 1.5 + 1.3) / 3));
  CHECK(!communicating_every(2, *thrice, false));
}

TEST_CASE("a longer period is never slower") {
  Draw draw(31);
  for (int round = 0; round < 60; ++round) {
    const Profile profile = random_profile(draw, {.device = draw.coin()});
    const Cluster cluster = random_cluster(draw);
    for (const char* base : {"bsp", "ddp", "dear", "wfbp_ps", "lb_sgd"}) {
      CAPTURE(base);
      double before = HUGE_VAL;
      for (const char* k : {"1", "2", "4", "8"}) {
        const double now = time_of(std::string(base) + "+local(period=" + k + ")", profile, cluster).value();
        CHECK(now <= before * (1 + 1e-9));
        before = now;
      }
    }
  }
}

TEST_CASE("codecs run in between the passes, ahead of the next one") {
  // Casts of 3 MB read and 1.5 MB written at 4.5 GB/s: 1 ms each; transfers 1.5 ms.
  //   compute |F to 3|B3|e3|B2|e2|B1|d3|e1|d2| |d1|U
  //   net               [3 to 6.5][2 to 8.5]  [1 to 11.5]
  // First come, first served: the last pass was ready before the first message came back, which in turn came back
  // before the last gradient was ready.
  CHECK(ms("wfbp+fp16(memory=4.5e9)") == doctest::Approx(11.5 + 1 + 0.6));
  // Free casts leave the volume: half of the bytes.
  const Profile p = three_layers();
  const Cluster half = plain_cluster(2, BytesPerSecond(2e9));
  CHECK(ms("wfbp+fp16(memory=1e15)") == doctest::Approx(1e3 * time_of("wfbp", p, half).value()).epsilon(1e-5));
  CHECK(ms("dear+fp16(memory=1e15)") == doctest::Approx(1e3 * time_of("dear", p, half).value()).epsilon(1e-5));
}

TEST_CASE("a compressor shortens every copy of a gradient, and leaves their number") {
  const Profile p = three_layers();
  Cluster pairs = plain_cluster(2, BytesPerSecond(1e9));
  pairs.devices_per_node = 2;
  // A machine sends the networks of both of its devices: 2 x 3 MB a layer, halves of them as fp16.
  for (const Transfer& t : plan_of("ist", p, pairs).transfers) CHECK(t.size == Bytes(6e6));
  for (const Transfer& t : plan_of("ist+fp16", p, pairs).transfers) CHECK(t.size == Bytes(3e6));
  // A third of the bytes need not arrive: 6 MB of 9 MB, 3 MB of halves.
  const CommPlan lossy = plan_of("bsp+mlt(loss=0.33333333)+fp16", p, two_workers);
  CHECK(lossy.transfers.at(0).size.value() == doctest::Approx(3e6).epsilon(1e-6));
}

TEST_CASE("copies to the host take their time on machines of one device, too") {
  const Profile p = three_layers();
  Cluster staged = two_workers;
  staged.servers = 2;
  const double free = 1e3 * time_of("bsp_ps(partition=9 MB, keys=even)", p, staged).value();
  staged.server_staging_rate = BytesPerSecond(3e9);  // 9 MB: 3 ms out and 3 ms back
  CHECK(1e3 * time_of("bsp_ps(partition=9 MB, keys=even)", p, staged).value() == doctest::Approx(free + 6));
}

TEST_CASE("what changes the arithmetic says what that does to accuracy, and all say where they come from") {
  const auto documented = [](const auto& record) {
    CAPTURE(record.name);
    CHECK(!record.title.empty());
    CHECK(!record.summary.empty());
    CHECK(!record.reference.empty());
    CHECK((record.fidelity == Fidelity::exact || !record.caution.empty()));
    for (const OptionSpec& option : record.options) CHECK_MESSAGE(!option.summary.empty(), option.name);
  };
  for (const Strategy& s : strategies()) documented(s);
  for (const Modifier& m : modifiers()) documented(m);
}

TEST_CASE("what is quantised already takes no compressor; a lone worker encodes nothing") {
  const Profile p = three_layers();
  const CommunicationCost cost = *communication_cost(two_workers);
  for (const char* plan : {"bit_sgd+fp16", "cd_sgd+twobit", "cd_sgd+fp16"}) {
    CAPTURE(plan);
    const Answer<CommPlan> answer = comm_plan_of(plan_spec_of(plan), p, two_workers, cost);
    REQUIRE(!answer);
    CHECK(answer.reason().find("encoded already") != std::string::npos);
  }
  const Cluster one = plain_cluster(1, BytesPerSecond(1e9));
  for (const char* base : {"bsp", "ddp", "wfbp_ps"})
    CHECK(time_of(std::string(base) + "+fp16", p, one) == time_of(base, p, one));
}

TEST_CASE("what a plan requires comes from its strategy and its collective") {
  using Needs = std::vector<std::string_view>;
  CHECK(requirements_of(plan_spec_of("ddp+fp16")) == Needs{});
  CHECK(requirements_of(plan_spec_of("wfbp_ps")) == Needs{"servers"});
  CHECK(requirements_of(plan_spec_of("switchml")) == Needs{"programmable switch"});
  CHECK(requirements_of(plan_spec_of("switchml@ring")) == Needs{});
  CHECK(requirements_of(plan_spec_of("ddp@switchml")) == Needs{"programmable switch"});
  CHECK(requirements_of(plan_spec_of("ddp@atp")) == Needs{"programmable switch", "servers"});
  CHECK(needs_servers(plan_spec_of("ddp@sa_atp")));
  CHECK(!needs_servers(plan_spec_of("ddp@switchml")));
}

TEST_CASE("laws of random compositions") {
  Draw draw(77);
  int applicable = 0, refused = 0, compared = 0;
  for (int round = 0; round < 600; ++round) {
    const Profile profile = random_profile(draw, {.device = draw.coin()});
    const Cluster cluster = random_cluster(draw);
    const PlanSpec spec = random_composition(draw, 3);
    CAPTURE(text_of(spec));
    CAPTURE(round);
    CHECK(text_of(plan_spec_of(text_of(spec))) == text_of(spec));
    const Answer<CommunicationCost> cost = communication_cost(cluster, spec.collective);
    REQUIRE(bool(cost));
    const Answer<CommPlan> plan = comm_plan_of(spec, profile, cluster, *cost);
    if (!plan) {
      CHECK(!plan.reason().empty());
      ++refused;
      continue;
    }
    ++applicable;
    REQUIRE(flaw_of(*plan, profile) == "");
    const Answer<Prediction> prediction = predicted(profile, cluster, spec);
    if (!prediction) {
      CHECK(!prediction.reason().empty());
      continue;
    }
    const Breakdown& b = prediction->breakdown;
    const Seconds sum = b.compute + b.exposed_communication + b.codec + b.input_stall + b.bubble + b.idle;
    CHECK(sum.value() == doctest::Approx(prediction->iteration.value()).epsilon(1e-6));
    // No step is shorter than the busier stream without its updates.
    Seconds host, device;
    for (const Layer& l : profile.layers) {
      host += l.forward.host + l.backward.host;
      device += l.forward.device + l.backward.device;
    }
    CHECK(prediction->iteration.value() >= std::max(host, device).value() * (1 - 1e-9));
    const TaskGraph graph = lowered(profile, *plan, *cost, {});
    const Timeline timeline = schedule(graph, {.least_iterations = 6});
    if (timeline.steady && timeline.period_iterations == 1 && has_critical_cycle(graph)) {
      ++compared;
      CHECK(critical_cycle_of(graph, timeline).period.value() ==
            doctest::Approx(timeline.iteration_time().value()).epsilon(1e-6));
    }
  }
  CHECK(applicable > 200);
  CHECK(compared * 10 >= applicable * 8);
  MESSAGE(applicable << " compositions applicable, " << refused << " refused with a reason, " << compared
                     << " compared with the maximum cycle ratio");
}
