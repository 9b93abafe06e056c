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
