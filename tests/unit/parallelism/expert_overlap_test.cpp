// Tokens beside the compute of another micro-batch: against a list schedule of what two streams do, written out.
#include "helpers/layout_machines.hpp"

#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/parallelism/priced_split.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

using namespace stepcast;
using doctest::Approx;

namespace {

Device device() { return test::device_of_work_alone(DataType::bf16); }
Workload mixture(const std::string& words = "") {
  return workload_of(
      model_shape_of("llama:hidden=1024,layers=6,heads=16,seq=1024,vocab=8192,experts=16,topk=4,ffn=1024,"
                     "attention=flash,causal=yes,dtype=bf16" +
                     words),
      device());
}
/// One machine of eight; `rate` bytes a second inside it.
Cluster machine(double rate) {
  Cluster c = test::layout_machines(1, 8, 8);
  c.inside = {Seconds(0), BytesPerSecond(rate)};
  return c;
}
Answer<LayoutPrediction> asked(const Workload& w, const Cluster& c, const std::string& plan, double batch) {
  LayoutOptions options;
  options.global_batch = batch;
  return predicted(w, c, layout_plan_of(plan), options);
}
LayoutPrediction prediction(const Workload& w, const Cluster& c, const std::string& plan, double batch) {
  const Answer<LayoutPrediction> p = asked(w, c, plan, batch);
  REQUIRE_MESSAGE(p, plan << ": " << (p ? "" : p.reason()));
  return *p;
}

/// Two streams that take what they are given in this order, each thing behind those that it waits for.
class Streams {
 public:
  double run(int stream, double time, const std::vector<double>& after) {
    for (const double end : after) free_[stream] = std::max(free_[stream], end);
    return free_[stream] += time;
  }

 private:
  std::map<int, double> free_;
};
/// A block's forward pass beside one's backward pass as Megatron-LM issues them (combined 1F1B).
double list_scheduled(const UnitCost& u, double exchange) {
  enum : int { compute, tokens };
  const double experts = u.experts_forward.value(), input = u.experts_input_gradient.value(),
               weights = u.experts_weight_gradient.value();
  const double attention = u.forward.value() - experts,
               attention_back = (u.input_gradient + u.weight_gradient).value() - input - weights;
  Streams s;
  const double combined_back = s.run(tokens, exchange, {});
  const double attended = s.run(compute, attention, {});
  const double experts_back = s.run(compute, input, {combined_back});
  const double dispatched = s.run(tokens, exchange, {attended});
  s.run(compute, weights, {});
  const double dispatched_back = s.run(tokens, exchange, {experts_back});
  const double experts_end = s.run(compute, experts, {dispatched});
  const double combined = s.run(tokens, exchange, {experts_end});
  return std::max(combined, s.run(compute, attention_back, {dispatched_back}));
}

}  // namespace

TEST_CASE("A pair of passes takes as long as two streams that do one thing after the other") {
  const Workload w = mixture();
  for (const double rate : {1e8, 1e10, 3e10, 6e10, 1e11, 2e11, 1e13}) {
    CAPTURE(rate);
    const Cluster c = machine(rate);
    const LayoutPrediction apart = prediction(w, c, "layout(dp=8, ep=8, mb=2)/ddp", 64);
    const LayoutPrediction beside = prediction(w, c, "layout(dp=8, ep=8, mb=2, overlap_ep=on)/ddp", 64);
    constexpr double micro_batches = 4, blocks = 6, exchanges = 4;
    const double exchange = apart.breakdown.expert.value() / (micro_batches * blocks * exchanges);
    const UnitCost block = *unit_cost(w, c, apart.plan.layout, 1);
    const double alone = (block.forward + block.input_gradient + block.weight_gradient).value() + exchanges * exchange;
    const double saved = (micro_batches - 1) * blocks * (alone - list_scheduled(block, exchange));
    CHECK((apart.iteration - beside.iteration).value() == Approx(saved).epsilon(1e-6));
    CHECK((apart.breakdown.expert - beside.breakdown.expert).value() == Approx(saved).epsilon(1e-6));
    CHECK(beside.breakdown.compute == apart.breakdown.compute);
    CHECK(beside.memory.total() == apart.memory.total());
  }
}

TEST_CASE("What is hidden is never more than is sent, and slows what it is beside") {
  const Workload w = mixture();
  Cluster slowing = machine(6e10);
  slowing.contention.compute_under_communication = 1.3;
  for (const std::string fields : {"dp=8, ep=8", "pp=2, dp=4, ep=4", "pp=2, dp=4, ep=4, chunks=2", "pp=4, dp=2, ep=2",
                                   "tp=2, dp=4, ep=8, etp=1, sp=on", "dp=8, ep=4, zero=3", "dp=8, ep=8, ep_comm=deepep",
                                   "pp=2, dp=4, ep=4, schedule=bidirectional"})
    for (const int batches : {1, 2, 8}) {
      const double batch = 8 * batches * 2;
      CAPTURE(fields);
      CAPTURE(batches);
      const std::string mb = "layout(" + fields + ", mb=1";
      const LayoutPrediction apart = prediction(w, machine(6e10), mb + ")/ddp", batch);
      const LayoutPrediction beside = prediction(w, machine(6e10), mb + ", overlap_ep=on)/ddp", batch);
      const LayoutPrediction slowed = prediction(w, slowing, mb + ", overlap_ep=on)/ddp", batch);
      CHECK(beside.iteration < apart.iteration);
      CHECK(beside.breakdown.expert >= Seconds(0));
      CHECK(beside.breakdown.expert < apart.breakdown.expert);
      CHECK(slowed.iteration > beside.iteration);
      CHECK(slowed.breakdown.expert < apart.breakdown.expert);
    }
  // One micro-batch has no other one beside it.
  CHECK(prediction(w, machine(6e10), "layout(dp=8, ep=8, mb=2, overlap_ep=on)/ddp", 16).iteration ==
        prediction(w, machine(6e10), "layout(dp=8, ep=8, mb=2)/ddp", 16).iteration);
}

TEST_CASE("What sets the length of a pass is not shortened by tokens that are hidden beside it") {
  const auto steps = [](const std::string& words, const std::string& fields, double inside, double network,
                        Seconds issue) {
    Device d = device();
    d.issue = issue;
    const Workload w =
        workload_of(model_shape_of("llama:hidden=1024,layers=6,heads=16,seq=1024,vocab=8192,experts=16,topk=4,ffn=1024,"
                                   "attention=flash,causal=yes,dtype=bf16" +
                                   words),
                    d);
    Cluster c = test::layout_machines(2, 8, 8);
    c.inside = {Seconds(0), BytesPerSecond(inside)};
    c.network = {Seconds(0), BytesPerSecond(network)};
    c.host.copies = BytesPerSecond(2e9);
    const std::string plan = "layout(dp=16, ep=8, mb=2, " + fields;
    return std::pair(prediction(w, c, plan + ")/ddp", 128).iteration.value(),
                     prediction(w, c, plan + ", overlap_ep=on)/ddp", 128).iteration.value());
  };
  // Weights that are gathered over a slow network, a host that is late, and activations on their way to the host.
  for (const double inside : {1e10, 1e11, 1e12}) {
    CAPTURE(inside);
    const auto [gathers, gathers_beside] = steps("", "zero=3", inside, 1e8, Seconds(0));
    CHECK(gathers_beside == Approx(gathers).epsilon(1e-3));
    const auto [late, late_beside] = steps(",kernels=eager", "zero=3", inside, 1e14, Seconds(5e-3));
    CHECK(late_beside == Approx(late).epsilon(1e-3));
    const auto [copied, copied_beside] = steps("", "offload=activations", inside, 1e12, Seconds(0));
    CHECK(copied_beside == Approx(copied).epsilon(1e-3));
  }
  const auto [free, free_beside] = steps("", "zero=3", 1e10, 1e13, Seconds(0));
  CHECK(free_beside < 0.95 * free);
}
