#include "helpers/random_input.hpp"
#include "helpers/traffic.hpp"

#include <stepcast/plan/comm_plan.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/schedule/lower.hpp>
#include <stepcast/schedule/plan_flaw.hpp>

#include <doctest/doctest.h>

using namespace stepcast;

namespace {

Profile two_layers() {
  Profile p;
  p.model = "two";
  p.provenance = "test";
  p.layers = {{"first", {Seconds(1)}, {Seconds(2)}}, {"second", {Seconds(1)}, {Seconds(2)}}};
  p.backward_order = {1, 0};
  p.tensors = {{"w2", {10}, DataType::f32, Bytes(40), 1}, {"w1", {5}, DataType::f32, Bytes(20), 0}};
  return checked(p, "test");
}

CommPlan per_tensor() {
  CommPlan plan;
  plan.channels = {{"net", Discipline::fifo, Bytes(0)}};
  for (std::uint32_t t = 0; t < 2; ++t) {
    Transfer x;
    x.size = t == 0 ? Bytes(40) : Bytes(20);
    x.first_tensor = t;
    x.tensors = 1;
    plan.transfers.push_back(x);
    plan.edges.push_back({{NodeKind::backward, 1 - t}, {NodeKind::transfer, t}});
    plan.edges.push_back({{NodeKind::transfer, t}, {NodeKind::update, 0}});
  }
  return plan;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a sound plan has no flaw") { CHECK(flaw_of(per_tensor(), two_layers()) == ""); }

TEST_CASE("each flaw of a plan is named") {
  const Profile profile = two_layers();
  CommPlan plan = per_tensor();
  plan.transfers.pop_back();
  plan.edges.resize(2);
  CHECK(has(flaw_of(plan, profile), "gradient 'w1' is sent 0"));

  plan = per_tensor();
  plan.transfers[1].first_tensor = 0;
  plan.transfers[1].size = Bytes(40);
  CHECK(has(flaw_of(plan, profile), "gradient 'w2' is sent 2"));

  plan = per_tensor();
  plan.edges.push_back({{NodeKind::transfer, 0}, {NodeKind::transfer, 1}});
  plan.edges.push_back({{NodeKind::transfer, 1}, {NodeKind::transfer, 0}});
  CHECK(has(flaw_of(plan, profile), "cycle"));

  plan = per_tensor();  // the forward pass of an iteration cannot wait for its own backward pass
  plan.edges.push_back({{NodeKind::transfer, 0}, {NodeKind::forward, 0}, 0});
  CHECK(has(flaw_of(plan, profile), "cycle"));
  plan.edges.back().lag = 1;
  CHECK(flaw_of(plan, profile) == "");

  plan = per_tensor();
  plan.edges.push_back({{NodeKind::transfer, 7}, {NodeKind::update, 0}});
  CHECK(has(flaw_of(plan, profile), "transfer 7 of 2"));

  plan = per_tensor();
  plan.edges.push_back({{NodeKind::backward, 2}, {NodeKind::transfer, 0}});
  CHECK(has(flaw_of(plan, profile), "layer 2 of 2"));

  plan = per_tensor();
  plan.update = UpdatePlace::before_forward;
  CHECK(has(flaw_of(plan, profile), "common update"));

  plan = per_tensor();
  plan.transfers[0].channel = 3;
  CHECK(has(flaw_of(plan, profile), "no channel"));

  plan = per_tensor();
  plan.transfers[0].size = Bytes(-1);
  CHECK(has(flaw_of(plan, profile), "finite size"));

  plan = per_tensor();
  plan.order = {0, 0};
  CHECK(has(flaw_of(plan, profile), "permutation"));
}

TEST_CASE("padding counts as sent once") {
  CommPlan plan = per_tensor();
  plan.transfers[1].size = Bytes(84);
  CHECK(flaw_of(plan, two_layers()) == "");
}

TEST_CASE("gradient traffic counts each gradient once, whatever the number of stages") {
  CommPlan plan = per_tensor();
  Transfer gather = plan.transfers[0];
  gather.carries_gradient = false;
  plan.transfers.push_back(gather);
  CHECK(test::gradient_traffic(plan).value() == 60);
}
