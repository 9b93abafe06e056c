// Layouts whose units choose for themselves: the same as any layout where all choose the same, and by hand where not.
#include "helpers/random_layouts.hpp"

#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/parallelism/priced_split.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

/// Four equal devices in one machine on links without latency, where twice the bytes take twice as long.
Cluster four_devices() {
  Cluster c = cluster_of_flags(4, 4, "25GbE");
  c.inside.latency = c.message_overhead = Seconds(0);
  c.tables.clear();
  return c;
}

}  // namespace

TEST_CASE("units that all choose the same are divided as the layout that says so") {
  Draw draw(71);
  int compared = 0;
  for (int i = 0; i < 150; ++i) {
    const Workload w = random_workload(draw, random_device(draw));
    const Cluster cluster = random_machines(draw);
    LayoutOptions options;
    options.global_batch = static_cast<double>(cluster.workers() * (1 << draw.whole(0, 3)));
    LayoutPlan uniform = layout_plan_of(draw.coin() ? "layout/ddp(bucket=2 MiB)" : "layout/wfbp");
    uniform.layout.tensor = std::int64_t{1} << draw.whole(0, 2);
    uniform.layout.zero = draw.whole(0, 3);
    uniform.layout.recomputation = static_cast<Recomputation>(draw.whole(0, 2));
    uniform.layout.micro_batch = 1 << draw.whole(0, 1);
    uniform.layout.units_in_flight = draw.whole(1, 3);
    uniform.layout.overlap_gradients = draw.coin();
    uniform.layout.overlap_tensor = draw.coin() ? TensorOverlap::sums : TensorOverlap::nothing;
    LayoutPlan chosen = uniform;
    chosen.layout.tensor = 1, chosen.layout.zero = 0, chosen.layout.recomputation = Recomputation::none;
    // Said in two pieces, which the text would join: neither may know of the other.
    const auto units = static_cast<std::uint32_t>(w.units.size());
    const UnitChoice c{units, uniform.layout.tensor, uniform.layout.zero, uniform.layout.recomputation};
    chosen.layout.unit_choices = {c};
    if (units > 1 && draw.coin()) {
      chosen.layout.unit_choices = {c, c};
      chosen.layout.unit_choices[0].units = 1;
      chosen.layout.unit_choices[1].units = units - 1;
    }
    const Answer<LayoutPrediction> one = predicted(w, cluster, uniform, options),
                                   each = predicted(w, cluster, chosen, options);
    INFO(text_of(uniform), " and ", text_of(chosen), " on ", cluster.workers());
    REQUIRE(static_cast<bool>(one) == static_cast<bool>(each));
    if (!one) continue;
    ++compared;
    CHECK(each->iteration.value() == Approx(one->iteration.value()).epsilon(1e-12));
    CHECK(each->memory.total().value() == Approx(one->memory.total().value()).epsilon(1e-12));
    CHECK(each->breakdown.gradients.value() == Approx(one->breakdown.gradients.value()).epsilon(1e-9));
    CHECK(each->breakdown.tensor.value() == Approx(one->breakdown.tensor.value()).epsilon(1e-12));
    CHECK(each->micro_batches == one->micro_batches);
  }
  CHECK(compared > 60);
}

TEST_CASE("units of two choices by hand: passes, a change between them, and what travels after and under the passes") {
  // Two units on four devices at 4 samples a step: the first over 4 replicas without ZeRO, the second over 2 x 2.
  const ModelShape shape = model_shape_of("gpt:hidden=64,heads=4,seq=64,vocab=128,layers=2");
  Draw draw(72);
  const Workload w = workload_of(shape, random_device(draw));
  REQUIRE(w.units.size() == 4);
  const Cluster cluster = four_devices();
  LayoutOptions options;
  options.global_batch = 4;
  const auto of = [&](const std::string& text) { return predicted(w, cluster, layout_plan_of(text), options); };
  const auto mixed = of("layout(mb=1, overlap_dp=off, units=2*tp1+2*tp2)/wfbp");
  REQUIRE(mixed);
  Layout narrow, wide;
  narrow.micro_batch = 1;
  wide.tensor = 2, wide.micro_batch = 2;
  const PricedSplit replicas = priced_split(w, cluster, *resolved(narrow, 4, 4)),
                    halves = priced_split(w, cluster, *resolved(wide, 4, 4));
  Seconds passes;
  for (std::size_t u = 0; u < 4; ++u) {
    const PricedUnit& p = (u < 2 ? replicas : halves).units[w.units[u]];
    passes += p.forward + p.input_gradient + p.weight_gradient + p.forward_exchanges.sum() + p.backward_exchanges.sum();
  }
  // Between them: 4 parts become 2. Forward each pair of devices with one half of the batch, two neighbours that hold
  // a quarter each, gather the half; backward the gradients of a half are on every device of the pair that needs them.
  const double half = replicas.units[w.units[1]].boundary.value() * 2;
  Layout pair = *resolved(narrow, 4, 4);
  const Seconds gather = unit_change(cluster, pair, *resolved(wide, 4, 4), replicas.units[w.units[1]].boundary).forward;
  const PricedGroup two = priced(group_cluster(cluster, {2, 2, 1, 1}));
  CHECK(gather.value() == Approx(two.cost(Operation::all_gather, Bytes(half)).value()));
  Seconds tensor = gather;
  for (std::size_t u = 2; u < 4; ++u)
    tensor += halves.units[w.units[u]].forward_exchanges.tensor + halves.units[w.units[u]].backward_exchanges.tensor;
  CHECK(mixed->breakdown.tensor.value() == Approx(tensor.value()));
  CHECK((mixed->breakdown.compute + mixed->breakdown.tensor).value() == Approx((passes + gather).value()));
  // Without overlap the gradients follow one another: those of the first two units over four, of the others over two.
  Seconds gradients;
  for (std::size_t u = 0; u < 4; ++u) {
    const PricedSplit& own = u < 2 ? replicas : halves;
    CHECK(own.data->members == (u < 2 ? 4 : 2));
    gradients += own.data->cost(Operation::all_reduce, Bytes(own.units[w.units[u]].parameters * w.bytes_of_gradient));
  }
  CHECK(mixed->breakdown.gradients.value() == Approx(gradients.value()));
  CHECK(mixed->memory.total() < of("layout(mb=1)/wfbp")->memory.total());
}

TEST_CASE("groups of one shape are priced once, and as if each were priced alone") {
  const Cluster cluster = cluster_of_flags(16, 4, "25GbE");
  PricedGroups groups(cluster);
  std::vector<std::shared_ptr<const PricedGroup>> seen;
  for (const std::int64_t stride : {1, 2, 4, 8})
    for (const std::int64_t degree : {1, 2, 4, 8, 16}) {
      if (stride * degree > 16) continue;
      const RankAxis axis{stride, degree};
      const GroupShape shape = group_shape(cluster, 16, std::span(&axis, 1));
      const auto group = groups.of(shape);
      CHECK(group == groups.of(shape));
      const PricedGroup alone = priced(group_cluster(cluster, shape));
      CHECK(group->members == alone.members);
      for (const double size : {1e3, 1e6, 1e9})
        CHECK(group->cost(Operation::all_reduce, Bytes(size)) == alone.cost(Operation::all_reduce, Bytes(size)));
      if (std::ranges::find(seen, group) == seen.end()) seen.push_back(group);
    }
  CHECK(seen.size() > 5);
  CHECK(seen.size() < 14);  // groups of one are alike, wherever they lie
}

TEST_CASE("state is divided for those units that divide it, and the parts of the step sum to it") {
  Draw draw(73);
  for (int i = 0; i < 60; ++i) {
    const Workload w = workload_of(
        model_shape_of("gpt:hidden=256,heads=8,seq=128,vocab=2048,layers=" + std::to_string(draw.whole(2, 6))),
        random_device(draw));
    const Cluster cluster = cluster_of_flags(8, 4, "25GbE");
    LayoutOptions options;
    options.global_batch = 32;
    const std::string rest = std::to_string(w.units.size() - 1);
    const auto of = [&](const std::string& units) {
      const auto p = predicted(w, cluster, layout_plan_of("layout(mb=2, units=" + units + ")/ddp"), options);
      REQUIRE_MESSAGE(p, (p ? "" : p.reason()));
      const LayoutBreakdown& b = p->breakdown;
      const Seconds sum = b.compute + b.recomputation + b.tensor + b.context + b.expert + b.pipeline + b.bubble +
                          b.gradients + b.update + b.input + b.other;
      CHECK(sum.value() == Approx(p->iteration.value()).epsilon(1e-9));
      return *p;
    };
    const double undivided = of("tp1+" + rest + "*tp1").memory.total().value();
    double before = undivided;
    for (int zero = 1; zero <= 3; ++zero) {
      const std::string z = "tp1-zero" + std::to_string(zero);
      const double some = of("tp1+" + rest + "*" + z).memory.optimizer.value();
      const LayoutPrediction all = of(z + "+" + rest + "*" + z);
      CHECK(some > all.memory.optimizer.value());  // the first unit keeps all of its state
      CHECK(all.memory.total().value() <= before * 1.5);
      before = all.memory.total().value();
    }
    const UnitKind& first = w.kinds[w.units.front()];
    const double kept = (first.divided_parameters + first.other_parameters) *
                        (w.bytes_of_state - w.bytes_of_weight - w.bytes_of_gradient);
    const double gap = of("tp1+" + rest + "*tp1-zero1").memory.optimizer.value() -
                       of("tp1-zero1+" + rest + "*tp1-zero1").memory.optimizer.value();
    CHECK(gap == Approx(kept * 7 / 8));  // of eight replicas
  }
}
