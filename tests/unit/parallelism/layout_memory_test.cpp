// Memory of layouts: the textbook's bytes per parameter, sums, and what allocators were measured to hold.
#include <stepcast/parallelism/layout_memory.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <string>

using namespace stepcast;
using doctest::Approx;

namespace {

constexpr double parameters = 7.5e9;
constexpr MemoryOptions bare{0, Bytes(0)};

Workload mixed_precision_adam() {
  Workload w;
  w.bytes_of_state = 16;  // fp16 weights and gradients, fp32 weights, momentum and variance
  w.bytes_of_weight = w.bytes_of_gradient = 2;
  return w;
}
Layout data_parallel(std::int64_t replicas, int zero) {
  Layout l;
  l.data = replicas;
  l.zero = zero;
  return l;
}
StageMemoryInput stage(double elements) {
  StageMemoryInput in;
  in.parameters = elements;
  return in;
}
/// Parameters, gradients and optimizer state alone.
double state_of(std::int64_t replicas, int zero, const StageMemoryInput& in) {
  const MemoryUse use = memory_of(mixed_precision_adam(), data_parallel(replicas, zero), in, bare);
  return (use.parameters + use.gradients + use.optimizer).value();
}

}  // namespace

TEST_CASE("ZeRO holds what its paper's table says") {
  // Rajbhandari et al. 2020, figure 1: 7.5 billion parameters on 64 devices hold 120, 31.4, 16.6 and 1.9 GB.
  CHECK(state_of(64, 0, stage(parameters)) == Approx(16 * parameters));
  CHECK(state_of(64, 1, stage(parameters)) == Approx(4 * parameters + 12 * parameters / 64));
  CHECK(state_of(64, 2, stage(parameters)) == Approx(2 * parameters + 14 * parameters / 64));
  CHECK(state_of(64, 3, stage(parameters)) == Approx(16 * parameters / 64));
  CHECK(state_of(64, 1, stage(parameters)) == Approx(31.4e9).epsilon(0.002));
  CHECK(state_of(64, 2, stage(parameters)) == Approx(16.6e9).epsilon(0.003));
  CHECK(state_of(64, 3, stage(parameters)) == Approx(1.9e9).epsilon(0.02));
}

TEST_CASE("One replica divides nothing, whatever the stage") {
  for (int zero = 0; zero <= 3; ++zero) CHECK(state_of(1, zero, stage(parameters)) == Approx(16 * parameters));
}

TEST_CASE("Experts have fewer replicas to be divided over") {
  StageMemoryInput in = stage(parameters);
  in.expert_parameters = parameters;
  Layout l = data_parallel(64, 3);
  l.expert = 8;
  const MemoryUse use = memory_of(mixed_precision_adam(), l, in, bare);
  CHECK((use.parameters + use.gradients + use.optimizer).value() == Approx(16 * parameters / 8));
}

TEST_CASE("Memory is the sum of its parts and falls with the ZeRO stage") {
  StageMemoryInput in = stage(parameters);
  in.kept_per_micro_batch = Bytes(2e9);
  in.micro_batches_kept = 4;
  in.working = Bytes(1e9);
  in.largest_unit = parameters / 40;
  in.boundary = Bytes(5e7);
  Bytes before(1e300);
  for (int zero = 0; zero <= 3; ++zero) {
    Layout l = data_parallel(8, zero);
    l.pipeline = 4;
    const MemoryUse use = memory_of(mixed_precision_adam(), l, in);
    CHECK(use.activations.value() == Approx(9e9));
    CHECK(
        use.total().value() ==
        Approx((use.parameters + use.gradients + use.optimizer + use.activations + use.buffers + use.margin).value()));
    const Bytes rest = use.total() - use.margin;
    CHECK(use.margin.value() == Approx(1e9 + 0.05 * rest.value()));
    CHECK(use.total() < before);
    before = use.total();
  }
}

TEST_CASE("FSDP holds the units that it has gathered") {
  StageMemoryInput in = stage(parameters);
  in.largest_unit = 1e8;
  Layout l = data_parallel(64, 3);
  const double two = memory_of(mixed_precision_adam(), l, in, bare).buffers.value();
  l.units_in_flight = 3;
  CHECK(memory_of(mixed_precision_adam(), l, in, bare).buffers.value() == Approx(two + 2e8));
}

TEST_CASE("What is offloaded is in the host's memory and not on the device") {
  StageMemoryInput in = stage(parameters);
  in.kept_per_micro_batch = Bytes(8e9);
  in.micro_batches_kept = 4;
  in.sharded.block_kept = Bytes(2e8);
  in.sharded.end_kept = Bytes(1e8);
  Layout l = data_parallel(8, 3);
  const auto use_of = [&](std::string_view what) {
    Layout offloading = l;
    if (!what.empty()) offloading.offloaded = with_field({}, "offload", what).offloaded;
    return memory_of(mixed_precision_adam(), offloading, in, bare);
  };
  const MemoryUse without = use_of("");
  CHECK(without.host == Bytes(0));
  // Rajbhandari et al.: 2 bytes of weights, 2 of gradients, 12 of the optimizer; the host has a copy of gradients in 4.
  const MemoryUse optimizer = use_of("optimizer");
  CHECK(optimizer.optimizer == Bytes(0));
  CHECK(optimizer.parameters == without.parameters);
  CHECK(optimizer.gradients == without.gradients);
  CHECK(optimizer.host.value() == Approx(16 * parameters / 8));
  const MemoryUse all = use_of("parameters");
  CHECK((all.parameters + all.gradients + all.optimizer) == Bytes(0));
  CHECK(all.buffers == without.buffers);
  CHECK(all.host.value() == Approx(18 * parameters / 8));
  // The ends stay; of blocks two are there, one at work and one on its way.
  const MemoryUse activations = use_of("activations");
  CHECK(activations.activations.value() == Approx(4 * 1e8 + 2 * 2e8));
  CHECK(activations.host.value() == Approx(4 * 8e9 - 4 * 1e8 - 2 * 2e8));
  CHECK(use_of("optimizer+activations").host.value() == Approx((optimizer.host + activations.host).value()));
  // Without ZeRO every rank leaves all of it, and where little is kept none of it waits.
  l.zero = 0;
  CHECK(use_of("optimizer").host.value() == Approx(16 * parameters));
  in.kept_per_micro_batch = Bytes(1e8);
  CHECK(use_of("activations").host == Bytes(0));
}

TEST_CASE("bf16 under Megatron-Core holds what its allocator was measured to hold") {
  // torch.cuda.max_memory_allocated on 8 B200 with Megatron-Core, Adam and ZeRO-1 (MooreThreads/SimuMax
  // docs/b200/b200_release_v1.2_summary.json, Apache-2.0), slices of Llama-3 70B and 405B; nothing was fitted to them.
  struct Row {
    const char *model, *layout;
    double gib;
  };
  const std::string small = "llama:hidden=8192,heads=64,kv_heads=8,ffn=28672,vocab=128256,layers=12",
                    large = "llama:hidden=16384,heads=128,kv_heads=8,ffn=53248,vocab=128256,layers=4";
  const Row rows[] = {{small.c_str(), "tp=1, pp=2, dp=4, stages=7+7", 66.55},
                      {small.c_str(), "tp=2, dp=4, sp=on", 60.68},
                      {small.c_str(), "tp=4, dp=2, sp=on", 39.07},
                      {small.c_str(), "tp=8, dp=1, sp=on", 28.29},
                      {large.c_str(), "tp=1, pp=2, dp=4, stages=3+3", 87.08},
                      {large.c_str(), "tp=2, dp=4, sp=on", 81.59},
                      {large.c_str(), "tp=4, dp=2, sp=on", 52.89},
                      {large.c_str(), "tp=8, dp=1, sp=on", 38.57}};
  const Device* b200 = shipped_device("NVIDIA B200");
  REQUIRE(b200 != nullptr);
  const Cluster cluster = cluster_of_flags(8, 8, "400 Gb/s");
  double sum = 0;
  for (const Row& row : rows) {
    CAPTURE(row.layout);
    const Workload w =
        workload_of(model_shape_of(std::string(row.model) + ",seq=4096,attention=flash,causal=yes"), *b200);
    const LayoutPlan plan = layout_plan_of("layout(" + std::string(row.layout) + ", mb=1, zero=1)/ddp");
    LayoutOptions options;
    options.global_batch = 4.0 * double(plan.layout.data);
    const Answer<LayoutPrediction> answer = predicted(w, cluster, plan, options);
    REQUIRE(answer);
    const double gib = (answer->memory.total() - answer->memory.margin).value() / 0x1p30;
    CHECK(gib == Approx(row.gib).epsilon(0.045));
    sum += std::abs(gib / row.gib - 1);
  }
  CHECK(sum / std::size(rows) < 0.022);
}

namespace {

/// A model of 12 blocks on 4 devices in two stages.
const std::string small_gpt = "gpt:hidden=1024,layers=12,heads=16,seq=1024,vocab=8192";

Answer<LayoutEvaluator::Quick> answer_of(const std::string& layout, double batch, const std::string& model) {
  Device device;
  device.name = "accelerator";
  device.memory_bandwidth = BytesPerSecond(1e12);
  device.matrix_rate.fill(1e14);
  device.matrix_efficiency = 0.6;
  const Workload w = workload_of(model_shape_of(model), device);
  Cluster cluster;
  cluster.nodes = 1, cluster.devices_per_node = 4;
  cluster.inside = {Seconds(5e-6), BytesPerSecond(2e11)};
  LayoutOptions options;
  options.global_batch = batch;
  options.memory = bare;
  LayoutEvaluator evaluator(w, cluster, options);
  return evaluator.quick(layout_plan_of("layout(" + layout + ")/ddp"));
}

LayoutEvaluator::Quick of_blocks(const std::string& layout, double batch = 16, const std::string& model = small_gpt) {
  const auto quick = answer_of(layout, batch, model);
  if (!quick) FAIL(quick.reason());
  return *quick;
}

}  // namespace

TEST_CASE("Each block that is done again takes time and leaves memory free, and all of them are full recomputation") {
  for (const std::string base : {"mb=2", "pp=2, mb=1", "pp=2, chunks=2, mb=1", "mb=1, zero=3"}) {
    CAPTURE(base);
    const LayoutEvaluator::Quick none = of_blocks(base), full = of_blocks(base + ", recompute=full");
    const int stages = base.find("pp=2") == std::string::npos ? 1 : base.find("chunks=2") == std::string::npos ? 2 : 4;
    const int most = 12 / stages;
    Seconds time = none.iteration;
    Bytes memory(1e30);
    for (int blocks = 1; blocks < most; ++blocks) {
      const LayoutEvaluator::Quick some =
          of_blocks(base + ", recompute=full, recompute_blocks=" + std::to_string(blocks));
      CHECK(some.iteration > time);
      CHECK(some.memory < memory);
      CHECK(some.memory > full.memory);
      CHECK(some.iteration < full.iteration);
      time = some.iteration, memory = some.memory;
    }
  }
  // Of one stage all blocks are the same as full recomputation, to the last digit.
  const LayoutEvaluator::Quick all = of_blocks("mb=2, recompute=full, recompute_blocks=12");
  const LayoutEvaluator::Quick full = of_blocks("mb=2, recompute=full");
  CHECK(all.memory == full.memory);
  CHECK(all.iteration.value() == Approx(full.iteration.value()).epsilon(1e-12));
}

TEST_CASE("Modules that are done again keep their results no more, each by itself") {
  // Two experts a token of inner size 4096; latent vectors of 512 and 256, heads of 64 with 32 of positions beside.
  const std::string mixture =
      "llama:hidden=1024,layers=12,heads=16,seq=1024,vocab=8192,attention=flash,ffn=4096,"
      "experts=8,topk=2";
  const std::string latent = mixture + ",head=64,kv_rank=256,q_rank=512,rope=32,v_head=64";
  const double tokens = 4 * 1024, layers = 12, element = 2;
  const auto saved = [&](const std::string& model, const std::string& modules) {
    const LayoutEvaluator::Quick none = of_blocks("mb=4", 16, model);
    const LayoutEvaluator::Quick again = of_blocks("mb=4, recompute=" + modules, 16, model);
    const LayoutEvaluator::Quick full = of_blocks("mb=4, recompute=full", 16, model);
    CHECK(again.iteration > none.iteration);
    CHECK(again.iteration < full.iteration);
    CHECK(again.memory > full.memory);
    return (none.memory - again.memory).value() / (tokens * element);
  };
  // The block at work has them all again.
  CHECK(saved(mixture, "moe_act") == Approx((layers - 1) * 2 * 4096));
  CHECK(saved(mixture, "layernorm") == Approx((layers - 1) * 1024));
  CHECK(saved(mixture, "layernorm+moe_act") == Approx((layers - 1) * (1024 + 2 * 4096)));
  CHECK(saved(latent, "layernorm") == Approx((layers - 1) * 2 * 1024));
  const double heads = 16 * (2 * (64 + 32) + 64);
  CHECK(saved(latent, "mla_up_proj") == Approx((layers - 1) * (heads + 256 + 512)));
  // A tensor group divides heads and experts, sequence parallelism the norms, too.
  const auto divided = [&](const std::string& modules) {
    const std::string base = "tp=4, sp=on, mb=4";
    return (of_blocks(base, 16, latent).memory - of_blocks(base + ", recompute=" + modules, 16, latent).memory).value();
  };
  CHECK(divided("layernorm") == Approx((layers - 1) * 2 * 1024 * tokens * element / 4));
  CHECK(divided("mla_up_proj") == Approx((layers - 1) * (heads + 256 + 512) * tokens * element / 4));

  for (const auto& [model, module] :
       {std::pair{small_gpt, "layernorm"}, {small_gpt, "moe_act"}, {mixture, "mla_up_proj"}}) {
    const auto refused = answer_of(std::string("mb=4, recompute=") + module, 16, model);
    REQUIRE_FALSE(refused);
    CHECK(refused.reason().find(std::string("recompute=") + module +
                                ": the blocks of this model have no such module") == 0);
  }
}

TEST_CASE("Blocks that are done again together keep one input, and their activations are there at once") {
  // Per block and micro-batch of a sample: an input of 2 bytes x 1024 x 1024, and what recompute=none keeps.
  const LayoutEvaluator::Quick one = of_blocks("mb=4, recompute=full"), none = of_blocks("mb=4");
  const LayoutEvaluator::Quick two = of_blocks("mb=4, recompute=full, recompute_group=2");
  const LayoutEvaluator::Quick three = of_blocks("mb=4, recompute=full, recompute_group=3");
  CHECK(two.iteration == one.iteration);
  const double input = 4 * 2.0 * 1024 * 1024;
  const double block = (none.memory - one.memory).value() / 12;  // about: the working block is in both
  // Six inputs fewer, one block's activations more; then two inputs fewer and one more again.
  const double more = (two.memory - one.memory).value(), again = (three.memory - two.memory).value();
  CHECK(again - more == Approx(4 * input).epsilon(1e-9));
  CHECK(more + 6 * input == Approx(block).epsilon(0.15));
  CHECK(of_blocks("mb=4, recompute=full, recompute_group=12").memory > none.memory * 0.99);
}

TEST_CASE("DistributedDataParallel under autocast holds whole weights, their casts and all gradients in buckets") {
  const BytesPerParameter bf16{2, 4, 18};
  const MemoryUse lean = memory_use({1e9, 1e9, 1e9}, bf16, Bytes(5e9), gradient_buckets(1e9, 4), bare);
  const MemoryUse ddp = under_autocast(lean, bf16, true, bare);
  CHECK(ddp.parameters == Bytes(4e9));
  CHECK(ddp.gradients == Bytes(4e9));
  CHECK(ddp.optimizer == Bytes(8e9));  // two moments: the copy that is updated is the weight itself
  CHECK(ddp.buffers == Bytes(4e9 + 2e9));
  CHECK(ddp.activations == lean.activations);
  // ZeroRedundancyOptimizer divides the moments alone.
  const MemoryUse divided = memory_use({1e9, 1e9, 1e9 / 8}, bf16, Bytes(0), gradient_buckets(1e9, 4), bare);
  CHECK(under_autocast(divided, bf16, true, bare).total() == Bytes(4e9 + 4e9 + 1e9 + 4e9 + 2e9));
  CHECK(under_autocast(lean, bf16, false, bare).buffers == lean.buffers + Bytes(2e9));
  // What trains in four bytes has nothing to cast.
  const BytesPerParameter f32{4, 4, 16};
  const MemoryUse whole = memory_use({1e9, 1e9, 1e9}, f32, Bytes(0), gradient_buckets(1e9, 4), bare);
  CHECK(under_autocast(whole, f32, true, bare).total() == whole.total());
}
