// ZeRO-1 by whole tensors: gradients travel as without ZeRO, and ranks broadcast what they updated behind the update.
#include "helpers/layout_machines.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/parallelism/gradients.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/step_nodes/layout_step.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

using namespace stepcast;
using doctest::Approx;

namespace {

Cluster machines(std::int64_t nodes) {
  Cluster c = test::layout_machines(nodes, 8, 8);
  c.network.bandwidth = BytesPerSecond(2e10);
  return c;
}
Workload llama(const std::string& words = {}) {
  return workload_of(model_shape_of("llama:hidden=2048,layers=8,heads=16,ffn=5632,vocab=32000,seq=1024,attention=flash,"
                                    "causal=yes" +
                                    words),
                     test::layout_device(DataType::bf16));
}
LayoutOptions of_batch(double batch) {
  LayoutOptions options;
  options.global_batch = batch;
  return options;
}
LayoutPrediction answer(const Workload& w, const Cluster& c, const std::string& fields, double batch) {
  const Answer<LayoutPrediction> p = predicted(w, c, layout_plan_of("layout(" + fields + ")/ddp"), of_batch(batch));
  REQUIRE_MESSAGE(p, fields << ": " << (p ? "" : p.reason()));
  return *p;
}
std::string refusal(const Workload& w, const std::string& fields) {
  const Answer<LayoutPrediction> p =
      predicted(w, machines(1), layout_plan_of("layout(" + fields + ")/ddp"), of_batch(64));
  return p ? std::string("accepted") : p.reason();
}
/// One unit with tensors of so many elements, in gradients of two bytes.
Profile tensors_of(const std::vector<double>& elements) {
  Profile p;
  for (const double e : elements)
    p.tensors.push_back({.name = {}, .shape = {}, .dtype = DataType::bf16, .size = Bytes(2 * e)});
  return p;
}
std::vector<double> dealt(const std::vector<double>& elements, std::int64_t ranks) {
  Workload w = llama(",gradients=bf16");
  PricedSplit split;
  split.data = std::make_shared<const PricedGroup>(priced(test::layout_machines(1, ranks, 8)));
  const Answer<DealtTensors> d = dealt_tensors(w, split, tensors_of(elements));
  REQUIRE(d);
  std::vector<double> out;
  for (const DealtTensors::Part& part : d->parts) out.push_back(part.elements);
  return out;
}

}  // namespace

TEST_CASE("the largest tensor goes first, each to the rank that has the least") {
  CHECK(dealt({1, 5, 2, 4, 3}, 2) == std::vector<double>{5 + 2 + 1, 4 + 3});
  CHECK(dealt({7, 1, 1, 1}, 2) == std::vector<double>{7, 3});
  CHECK(dealt({2, 3}, 8) == std::vector<double>{3, 2});  // six ranks have none
  CHECK(dealt({4, 6}, 1) == std::vector<double>{10});
}

TEST_CASE("gradients travel as without ZeRO, and every rank's broadcast is behind the update") {
  const Workload w = llama();
  for (const std::int64_t nodes : {1, 4}) {
    const Cluster c = machines(nodes);
    const double batch = static_cast<double>(c.workers()) * 4;
    const LayoutPrediction whole = answer(w, c, "mb=4", batch),
                           zero = answer(w, c, "mb=4, zero=1, whole_tensors=on", batch);
    const Answer<CommunicationCost> cost = communication_cost(c);
    REQUIRE(cost);
    // Of 8 blocks of 9 tensors, the embedding, the head and its norm: fewer tensors than 4 machines have ranks at
    // times.
    const double start = (*cost)(Operation::broadcast, Bytes(1)).value();
    const double once = (*cost)(Operation::broadcast, Bytes(w.parameters() * 2)).value();
    const double ranks = static_cast<double>(c.workers());
    const double broadcasts = once + (ranks - 1) * start;
    const double saved = (whole.breakdown.update - zero.breakdown.update).value();
    CHECK(saved > 0);
    CHECK((zero.iteration - whole.iteration).value() == Approx(broadcasts - saved).epsilon(0.01));
    CHECK(zero.memory.gradients == whole.memory.gradients);
    CHECK(zero.memory.optimizer < whole.memory.optimizer / 4);
  }
}

TEST_CASE("what is broadcast is what is held: four bytes a parameter under autocast") {
  const Cluster c = machines(1);
  const auto broadcasts = [&](const std::string& words) {
    const Workload w = llama(words);
    return (answer(w, c, "mb=4, zero=1, whole_tensors=on", 32).breakdown.gradients -
            answer(w, c, "mb=4", 32).breakdown.gradients)
        .value();
  };
  const Answer<CommunicationCost> cost = communication_cost(c);
  REQUIRE(cost);
  const double bytes = llama().parameters() * 2;
  const double more =
      ((*cost)(Operation::broadcast, Bytes(2 * bytes)) - (*cost)(Operation::broadcast, Bytes(bytes))).value();
  CHECK(broadcasts(",kernels=eager") - broadcasts("") == Approx(more).epsilon(0.01));
}

TEST_CASE("a copy of tied weights on another stage is updated there as well") {
  const Workload w = llama(",tied=yes");
  const Cluster c = machines(1);
  const LayoutPrediction p = answer(w, c, "pp=4, mb=1, zero=1, whole_tensors=on", 32);
  const LayoutPrediction even = answer(w, c, "pp=4, mb=1, zero=1", 32);
  REQUIRE(p.stages.size() == 4);
  CHECK(p.stages.back().memory.optimizer >= even.stages.back().memory.optimizer);
  CHECK(p.stages.back().memory.optimizer.value() >= 32000. * 2048 * 12);
}

TEST_CASE("groups hold more than all ranks do") {
  for (const std::string words : {"", ",kernels=eager", ",kernels=compiled"}) {
    const Workload w = llama(words);
    const Cluster c = machines(1);
    Bytes before;
    for (const std::string shard : {"", ", shard=4", ", shard=2"}) {
      const Bytes held = answer(w, c, "mb=2, zero=1, whole_tensors=on" + shard, 32).memory.total();
      CHECK(held > before);
      before = held;
    }
  }
}

TEST_CASE("no rank updates less than the largest tensor, however many there are") {
  const Workload w = llama();
  const double embedding = 32000. * 2048;
  for (const std::int64_t nodes : {4, 8}) {
    const Cluster c = machines(nodes);
    const LayoutPrediction p = answer(w, c, "mb=1, zero=1, whole_tensors=on", static_cast<double>(c.workers()));
    CHECK(p.memory.optimizer.value() == Approx(embedding * 12));
  }
}

TEST_CASE("groups of a machine broadcast inside it, while gradients are summed over all") {
  const Workload w = llama();
  const Cluster c = machines(4);
  const LayoutPrediction all = answer(w, c, "mb=4, zero=1, whole_tensors=on", 128),
                         within = answer(w, c, "mb=4, zero=1, shard=8, whole_tensors=on", 128);
  CHECK(within.iteration < all.iteration);
  CHECK(within.memory.optimizer > all.memory.optimizer);
  CHECK(within.iteration > answer(w, c, "mb=4", 128).iteration - answer(w, c, "mb=4", 128).breakdown.update);
}

TEST_CASE("what whole tensors do not go with is said") {
  const Workload w = llama();
  CHECK(refusal(w, "mb=1, zero=2, whole_tensors=on") == "whole_tensors= says how zero=1 divides, and zero is 2");
  CHECK(refusal(w, "mb=1, whole_tensors=on") == "whole_tensors= says how zero=1 divides, and zero is 0");
  CHECK(refusal(w, "mb=1, zero=1, whole_tensors=on, offload=optimizer").starts_with("offload=optimizer leaves equal"));
  const auto by = [&](const std::string& strategy) {
    const Answer<LayoutPrediction> p =
        predicted(w, machines(1), layout_plan_of("layout(mb=1, zero=1, whole_tensors=on)/" + strategy), of_batch(64));
    return p ? std::string("accepted") : p.reason();
  };
  CHECK(by("mg_wfbp") == "accepted");
  CHECK(by("ddp+fp16") == "accepted");
  CHECK(by("ddp+local(period=8)").find("every step") != std::string::npos);
  CHECK(by("dear").find("layer by layer") != std::string::npos);
  CHECK(by("easgd").find("zero=0 allows it") != std::string::npos);
  const Workload experts = llama(",experts=8");
  CHECK(refusal(experts, "mb=1, ep=8, zero=1, whole_tensors=on").find("ep=1") != std::string::npos);
  CHECK(refusal(experts, "mb=1, zero=1, whole_tensors=on") == "accepted");
}

TEST_CASE("a written step has a broadcast for every rank that updates some tensor") {
  const Cluster c = machines(1);
  for (const std::string fields : {"mb=2, zero=1, whole_tensors=on", "pp=2, mb=2, zero=1, whole_tensors=on",
                                   "tp=2, mb=2, zero=1, shard=2, whole_tensors=on, overlap_dp=off"}) {
    for (const std::string words : {"", ",kernels=compiled"}) {
      CAPTURE(fields);
      CAPTURE(words);
      const Workload w = llama(words);
      const LayoutPlan plan = layout_plan_of("layout(" + fields + ")/ddp");
      const Answer<LayoutStep> step = layout_step(w, c, plan, of_batch(32));
      REQUIRE(step);
      const Answer<LayoutPrediction> p = predicted(w, c, plan, of_batch(32));
      REQUIRE(p);
      CHECK(step->end.value() == Approx(p->iteration.value()).epsilon(0.01));
      const Layout& l = p->plan.layout;
      for (const std::vector<StepNode>& device : step->devices) {
        const auto broadcasts = std::ranges::count_if(device, [](const StepNode& n) {
          return n.kind == StepNode::Kind::collective && n.operation == Operation::broadcast;
        });
        CHECK(broadcasts == l.sharding());
      }
    }
  }
}
