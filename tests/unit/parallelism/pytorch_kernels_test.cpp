// PyTorch's kernels under layouts: what casting and copying weights and gradients takes, and what memory holds of them.
#include "helpers/layout_machines.hpp"

#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/parallelism/priced_split.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace stepcast;
using doctest::Approx;

namespace {

Device device() { return test::device_of_work_alone(DataType::bf16); }
Workload llama(const std::string& kernels) {
  return workload_of(
      model_shape_of("llama:hidden=1024,layers=8,heads=16,seq=1024,vocab=8192,attention=flash,causal=yes,"
                     "kernels=" +
                     kernels),
      device());
}
LayoutPrediction prediction(const Workload& w, std::int64_t devices, const std::string& plan, double batch) {
  LayoutOptions options;
  options.global_batch = batch;
  const Answer<LayoutPrediction> p = predicted(w, test::layout_machines(1, devices, 4), layout_plan_of(plan), options);
  REQUIRE_MESSAGE(p, plan << ": " << (p ? "" : p.reason()));
  return *p;
}
double copied(const std::string& kernels, std::int64_t devices, const std::string& plan, double batch) {
  const Workload w = llama(kernels);
  return prediction(w, devices, plan, batch).breakdown.copies.value() * device().memory_bandwidth.value() /
         w.parameters();
}

}  // namespace

TEST_CASE("Casts and copies of weights and gradients, in bytes a parameter") {
  // Autocast: four bytes to two, and the gradient back.
  CHECK(copied("compiled", 1, "layout(mb=4)/ddp", 4) == Approx(12));
  // The second gradient is added to the first: two reads and a write of four bytes each.
  CHECK(copied("eager", 1, "layout(mb=2)/ddp", 4) == Approx(2 * 12 + 12));
  CHECK(copied("eager", 8, "layout(dp=8, mb=1)/ddp", 32) == Approx(4 * 12 + 3 * 12));
  // fully_shard on one device: casts and sends to itself in either pass, gradients into four bytes and on.
  CHECK(copied("compiled", 1, "layout(mb=4, zero=3)/ddp", 4) == Approx(2 * (6 + 4) + 6 + 8));
  // On eight the shard's cast is an eighth, and what was gathered is copied out.
  CHECK(copied("compiled", 8, "layout(dp=8, mb=4, zero=3)/ddp", 32) == Approx(2 * (6. / 8 + 4) + 6));
  CHECK(copied("compiled", 8, "layout(dp=8, mb=4, zero=2)/ddp", 32) == Approx(6. / 8 + 4 + 6));
  // Groups of two: each holds a half.
  CHECK(copied("compiled", 8, "layout(dp=8, mb=4, zero=3, shard=2)/ddp", 32) == Approx(2 * (6. / 2 + 4) + 6));
  // A second copy is written from what was gathered, in the type that is sent.
  CHECK(copied("compiled", 8, "layout(dp=8, mb=4, zero=3, hpz=2)/ddp", 32) ==
        Approx((6. / 8 + 2 * 2. / 2 + 4) + 4 + 6));
  // DeepSpeed casts a gradient to four bytes and adds that up, or copies it into its buckets; two bytes it adds alone.
  CHECK(copied("deepspeed,gradients=f32", 8, "layout(dp=8, mb=4)/ddp", 32) == Approx(6 + 12));
  CHECK(copied("deepspeed,gradients=f32", 8, "layout(dp=8, mb=2, zero=1)/ddp", 32) == Approx(2 * (6 + 12)));
  CHECK(copied("deepspeed,gradients=f32", 8, "layout(dp=8, mb=4, zero=3)/ddp", 32) == Approx(6));
  CHECK(copied("deepspeed", 8, "layout(dp=8, mb=4)/ddp", 32) == Approx(6));
  CHECK(copied("deepspeed,gradients=bf16", 8, "layout(dp=8, mb=4, zero=2)/ddp", 32) == Approx(4));
  // Megatron-LM's products add to what is there, or a kernel of its own does.
  CHECK(copied("megatron", 8, "layout(dp=8, mb=1)/ddp", 32) == 0);
  CHECK(copied("megatron,accumulation=apart", 8, "layout(dp=8, mb=1)/ddp", 32) == Approx(4 * 10));
  CHECK(copied("megatron,accumulation=apart", 8, "layout(dp=8, mb=1, zero=1, shard=2)/ddp", 32) == Approx(4 * 10));
  CHECK(copied("megatron", 8, "layout(dp=8, mb=4, zero=3)/ddp", 32) == 0);
}

TEST_CASE("Gradients are cast to four bytes at the bandwidth that such kernels reach") {
  Device slow = device();
  slow.cast_bandwidth = slow.memory_bandwidth / 3;
  const auto copies = [&](const Device& on, const std::string& plan) {
    const Workload w =
        workload_of(model_shape_of("llama:hidden=1024,layers=8,heads=16,seq=1024,vocab=8192,attention=flash,causal=yes,"
                                   "kernels=compiled"),
                    on);
    return prediction(w, 1, plan, 4).breakdown.copies.value() * on.memory_bandwidth.value() / w.parameters();
  };
  // Autocast casts weights down as fast as any kernel, and gradients up; so does what fully_shard concatenates.
  CHECK(copies(slow, "layout(mb=4)/ddp") == Approx(6 + 3 * 6));
  CHECK(copies(slow, "layout(mb=4, zero=3)/ddp") == Approx(2 * (6 + 4) + 3 * 6 + 8));
}

TEST_CASE("Experts are copied as often as their own devices share them") {
  const Workload w = workload_of(
      model_shape_of(
          "llama:hidden=1024,layers=4,heads=16,seq=1024,vocab=8192,experts=8,topk=2,ffn=1024,attention=flash,"
          "causal=yes,kernels=compiled"),
      device());
  double experts = 0;
  for (const std::uint32_t kind : w.units) experts += w.kinds[kind].expert_parameters;
  const double bytes = prediction(w, 8, "layout(dp=8, ep=8, mb=1, zero=3)/ddp", 8).breakdown.copies.value() *
                       device().memory_bandwidth.value();
  CHECK(bytes == Approx((w.parameters() - experts) * (2 * (6. / 8 + 4) + 6) + experts / 8 * (2 * (6 + 4) + 6 + 8)));
}

TEST_CASE("One replica under several ZeRO stages: an evaluator keeps them apart") {
  const Workload w = llama("compiled");
  LayoutOptions options;
  options.global_batch = 4;
  const Cluster one = test::layout_machines(1, 1, 4);
  LayoutEvaluator evaluator(w, one, options);
  const auto step = [&](const std::string& plan) { return evaluator.predicted(layout_plan_of(plan))->iteration; };
  const Seconds without = step("layout(mb=4)/ddp"), sharded = step("layout(mb=4, zero=3)/ddp");
  CHECK(sharded > without);
  CHECK(sharded == prediction(w, 1, "layout(mb=4, zero=3)/ddp", 4).iteration);
}

TEST_CASE("Copies are part of the step") {
  const Workload w = llama("compiled");
  const LayoutPrediction p = prediction(w, 1, "layout(mb=4, zero=3)/ddp", 4);
  CHECK((p.breakdown.compute + p.breakdown.copies + p.breakdown.update) / p.iteration == Approx(1));
  // What is done again is computed again, and not copied.
  const LayoutPrediction again = prediction(w, 1, "layout(mb=4, zero=3, recompute=full)/ddp", 4);
  CHECK(again.breakdown.copies == p.breakdown.copies);
  CHECK(again.breakdown.recomputation > Seconds(0));
}

namespace {

UnitCost block_cost(const Workload& w, const std::string& plan) {
  const Cluster machine = test::layout_machines(1, 4, 4);
  const Answer<Layout> layout = resolved(layout_plan_of(plan).layout, 4, 4);
  REQUIRE(layout);
  const Answer<UnitCost> cost = unit_cost(w, machine, *layout, 1);
  REQUIRE(cost);
  return *cost;
}
std::string unread_of(const std::string& description) {
  std::string names;
  const ModelShape shape = model_shape_of(description);
  for (const OperatorShape& o : shape.units[1].operators)
    if (o.unread) names += (names.empty() ? "" : ", ") + o.name;
  return names;
}

}  // namespace

TEST_CASE("Recomputation by PyTorch stops where all that the backward pass reads is there") {
  CHECK(unread_of("llama:hidden=1024,layers=8,heads=16,seq=1024,kernels=eager") == "mlp down, mlp residual");
  CHECK(unread_of("llama:hidden=1024,layers=8,heads=16,seq=1024,experts=8,topk=2,kernels=compiled") ==
        "combine, mlp residual");
  CHECK(unread_of("gpt:hidden=1024,layers=8,heads=16,seq=1024,dropout=0,kernels=eager") == "mlp down, mlp residual");
  // Dropout keeps its mask, a norm behind the residual its input; Megatron-LM does the whole block again.
  CHECK(unread_of("gpt:hidden=1024,layers=8,heads=16,seq=1024,dropout=0.1,kernels=eager").empty());
  CHECK(unread_of("bert:hidden=1024,layers=8,heads=16,seq=1024,dropout=0,kernels=eager").empty());
  CHECK(unread_of("llama:hidden=1024,layers=8,heads=16,seq=1024").empty());

  const Workload w = llama("compiled");
  const UnitCost c = block_cost(w, "layout(dp=4, mb=1, zero=3)/ddp");
  Seconds last;
  for (const OperatorShape& o : w.kinds[1].shape->operators) {
    if (o.name == "mlp down") last += matrix_time(device(), DataType::bf16, o.product);
    if (o.name == "mlp residual") last += memory_time(device(), o.traffic, o.kernels);
  }
  CHECK(c.unread.value() == Approx(last.value()));
  const LayoutPrediction again = prediction(w, 1, "layout(mb=1, zero=3, recompute=full)/ddp", 4);
  CHECK(again.breakdown.recomputation.value() == Approx(4 * 8 * (c.forward - c.unread).value()));
}

TEST_CASE("Recomputation by PyTorch does not scatter its last results again") {
  const auto sent_again = [](const std::string& kernels) {
    const Workload w = llama(kernels);
    return prediction(w, 2, "layout(tp=2, mb=1, sp=on, recompute=full)/ddp", 4).breakdown.tensor -
           prediction(w, 2, "layout(tp=2, mb=1, sp=on)/ddp", 4).breakdown.tensor;
  };
  // Two gathers and two scatters of the same size a block, of which the last is left out.
  CHECK(sent_again("compiled") / sent_again("megatron") == Approx(0.75));
  // The same where messages are events of a timeline.
  LayoutOptions options;
  options.global_batch = 4;
  const LayoutPlan plan = layout_plan_of("layout(tp=2, mb=1, sp=on, recompute=full)/ddp");
  const Workload w = llama("compiled");
  const Answer<LayoutTimeline> t = layout_timeline(w, test::layout_machines(1, 2, 4), plan, options);
  const Answer<LayoutPrediction> p = predicted(w, test::layout_machines(1, 2, 4), plan, options);
  REQUIRE(t);
  REQUIRE(p);
  CHECK(t->timeline.iteration_time().value() == Approx(p->stages.front().last_backward.value()).epsilon(1e-6));
}

TEST_CASE("PyTorch keeps inputs as sequence parallelism gathered them") {
  const double input = 1024. * 1024 * 2;  // tokens, width, bytes: in front of attention and of the MLP
  const auto kept = [](const std::string& kernels, const std::string& plan) {
    return block_cost(llama(kernels), plan).kept[std::size_t(Recomputation::none)].value();
  };
  const std::string divided = "layout(tp=4, mb=1, sp=on)/ddp", whole = "layout(tp=4, mb=1)/ddp";
  CHECK(kept("compiled", divided) - kept("megatron", divided) == Approx(2 * input * 3 / 4));
  CHECK(kept("compiled", whole) == kept("megatron", whole));
  const UnitCost c = block_cost(llama("compiled"), divided);
  CHECK(c.kept[std::size_t(Recomputation::full)].value() == Approx(input / 4));
}

TEST_CASE("fully_shard: the fullest moment of a backward pass") {
  // In elements and bytes that are told apart: blocks of 1,000 elements, a root of 500 of which the head has 300.
  Workload w = llama("compiled");
  const Layout alone = *resolved(layout_plan_of("layout(dp=64, mb=1, zero=3)/ddp").layout, 64, 64);
  StageMemoryInput in;
  in.parameters = 10500;
  in.micro_batches_kept = 1;
  in.kept_per_micro_batch = Bytes(10 * 100 + 40);
  in.sharded = {10, 1000, 500, 300, Bytes(100), Bytes(30), Bytes(40), Bytes(7)};
  const auto beside_state = [&](const Layout& l) {
    const MemoryUse use = memory_of(w, l, in);
    return (use.total() - use.margin - use.parameters - use.optimizer).value();
  };
  // The last block but one: weights of two blocks and the root, gradients of the head and the block in two bytes, those
  // of the block before in four, and its shard of them; two blocks' activations are gone.
  const double shard = 4 * 1000. / 64;
  CHECK(beside_state(alone) == Approx(800 + 2 * (2 * 1000 + 500 + 300) + (2 + 4) * 1000 + shard));
  // Gathered without looking ahead.
  Layout late = alone;
  late.units_in_flight = 1;
  CHECK(beside_state(late) == Approx(800 + 2 * (1000 + 500 + 300) + (2 + 4) * 1000 + shard));
  // Gradients of the micro-batch before are there, too: a sixty-fourth of them, in four bytes.
  in.one_pass = false;
  CHECK(beside_state(alone) == Approx(800 + 2 * (2 * 1000 + 500 + 300) + (2 + 4) * 1000 + 4 * 10500. / 64));
  in.one_pass = true;
  // Activations that fill most of the memory: at the head, where the last block's weights are gathered ahead.
  in.kept_per_micro_batch = Bytes(10 * 100000 + 40);
  in.sharded.block_kept = Bytes(100000);
  in.sharded.end_working = Bytes(5000);
  CHECK(beside_state(alone) == Approx(1000040 + 5000 + 2 * (1000 + 500 + 300)));
  // A transient that is larger than the head's: in a block.
  in.sharded.block_working = Bytes(50000);
  CHECK(beside_state(alone) == Approx(1000000 + 50000 + 2 * (2 * 1000 + 500 + 300)));
  // One device of one, and nothing kept: at the end, all gradients and the root's in both types.
  in.sharded = {1, 1000, 9500, 9000, Bytes(0), Bytes(0), Bytes(0), Bytes(0)};
  in.kept_per_micro_batch = Bytes(0);
  CHECK(beside_state(*resolved(layout_plan_of("layout(dp=1, mb=1, zero=3)/ddp").layout, 1, 1)) ==
        Approx(4 * 10500 + (2 + 4) * 9500));
}

TEST_CASE("fully_shard: units that choose the same hold what a layout holds") {
  const Workload w = llama("compiled");
  const auto held = [&](const std::string& plan) { return prediction(w, 8, plan, 16).memory.total().value(); };
  CHECK(held("layout(mb=1, units=tp1-zero3+8*tp1-zero3-full+tp1-zero3)/ddp") ==
        Approx(held("layout(dp=8, mb=1, zero=3, recompute=full)/ddp")));
  // Four-byte weights have no second copy: Adam's moments are all that the optimizer keeps.
  const LayoutPrediction words = prediction(
      workload_of(model_shape_of("llama:hidden=1024,layers=8,heads=16,seq=1024,vocab=8192,dtype=f32,kernels=eager"),
                  test::layout_device(DataType::f32)),
      8, "layout(dp=8, mb=1, zero=3)/ddp", 8);
  CHECK(words.memory.optimizer.value() == Approx(2 * words.memory.parameters.value()));
  // Blocks that are not there are not gathered ahead.
  CHECK(held("layout(dp=8, mb=1, zero=3, in_flight=64)/ddp") == held("layout(dp=8, mb=1, zero=3, in_flight=9)/ddp"));
  CHECK(held("layout(dp=8, mb=1, zero=3, in_flight=3)/ddp") > held("layout(dp=8, mb=1, zero=3)/ddp"));
}

TEST_CASE("fully_shard holds whole weights, Adam's moments, and gradients in place of activations") {
  const Workload w = llama("compiled");
  const double parameters = w.parameters();
  const LayoutPrediction small = prediction(w, 1, "layout(mb=1, zero=3)/ddp", 1);
  const LayoutPrediction large = prediction(w, 1, "layout(mb=32, zero=3)/ddp", 32);
  const LayoutPrediction two = prediction(w, 1, "layout(mb=32, zero=3)/ddp", 64);
  for (const LayoutPrediction* p : {&small, &large})
    CHECK((p->memory.parameters + p->memory.optimizer).value() == Approx(12 * parameters));
  // What is there is named by its moment.
  CHECK(small.memory.gradients.value() == Approx(4 * parameters));
  CHECK(small.memory.activations == Bytes(0));
  CHECK(small.memory.moment == "as the gradients of the root are reduced");
  CHECK(large.memory.gradients == Bytes(0));
  CHECK(large.memory.moment == "in the backward pass of the head");
  CHECK(two.memory.gradients.value() == Approx(4 * parameters));
  CHECK((two.memory.activations - large.memory.activations).value() == Approx(0));
  // Of few activations the end is the fullest: the root's gradients in both types beside those of all.
  const double root = 2 * 8192 * 1024 + 1024;
  CHECK((small.memory.total() - small.memory.margin).value() == Approx(16 * parameters + (2 + 4) * root));
  // Of many it is the beginning, when gradients have room among them; with a second micro-batch they have not.
  CHECK((two.memory.total() - large.memory.total()).value() == Approx(1.05 * 4 * parameters));
  const LayoutPrediction megatron = prediction(llama("megatron"), 1, "layout(mb=32)/ddp", 32);
  CHECK(megatron.memory.total() > large.memory.total());
}
