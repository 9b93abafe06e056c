// Memory of layouts: the textbook's bytes per parameter, and sums.
#include <stepcast/parallelism/layout_memory.hpp>

#include <doctest/doctest.h>

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
