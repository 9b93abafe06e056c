// ZeRO's collectives under modifiers of the plan, and low-rank factors under layouts: hand numbers.
#include <stepcast/parallelism/gradients.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace stepcast;

namespace {

/// Compute takes no time, so that all that is sent is exposed.
Device immediate() {
  Device d;
  d.name = "V100";
  d.memory = Bytes(1e15);
  d.memory_bandwidth = BytesPerSecond(1e30);
  d.matrix_rate.fill(1e30);
  d.matrix_efficiency = 1;
  return d;
}
Cluster four_machines() {
  Cluster c;
  c.name = "four";
  c.nodes = 4;
  c.inside = c.network = {Seconds(0), BytesPerSecond(1e9)};
  return c;
}
Workload gpt(const std::string& dtype) {
  return workload_of(model_shape_of("gpt:hidden=256,layers=4,heads=4,seq=64,vocab=1024,dtype=" + dtype), immediate());
}
Answer<LayoutPrediction> predict(const Workload& w, const std::string& plan) {
  LayoutOptions options;
  options.global_batch = 4;
  return predicted(w, four_machines(), layout_plan_of(plan), options);
}
double gradients(const Workload& w, const std::string& plan) {
  const Answer<LayoutPrediction> p = predict(w, plan);
  REQUIRE_MESSAGE(p, plan << ": " << (p ? "" : p.reason()));
  return p->breakdown.gradients.value();
}

}  // namespace

TEST_CASE("ZeRO with modifiers: halves, and losses that are tolerated, shorten what they are of") {
  const Workload w = gpt("f32");
  // A reduce-scatter or an all-gather on a ring of four sends three quarters of the bytes.
  const double all = w.parameters() * 4 / 1e9 * 0.75;
  for (const int zero : {1, 2, 3}) {
    CAPTURE(zero);
    const std::string layout = "layout(mb=1, overlap_dp=off, zero=" + std::to_string(zero) + ")/ddp";
    const double gathers = zero == 3 ? 2 * all : all;
    CHECK(gradients(w, layout) == doctest::Approx(gathers + all).epsilon(1e-6));
    CHECK(gradients(w, layout + "+mlt(loss=0.1)") == doctest::Approx(0.9 * (gathers + all)).epsilon(1e-6));
    // DLCP is of gradients: parameters travel whole.
    CHECK(gradients(w, layout + "+dlcp(loss=0.1, bound=uniform)") ==
          doctest::Approx(gathers + 0.9 * all).epsilon(1e-6));
    // Casts are bound by memory: 6 bytes an element at 900 GB/s.
    const double casts = w.parameters() * 6 / 900e9;
    CHECK(gradients(w, layout + "+fp16") == doctest::Approx(gathers + all / 2 + casts).epsilon(1e-3));
    CHECK(gradients(w, layout + "+fp16(memory=1e15)") == doctest::Approx(gathers + all / 2).epsilon(1e-4));
  }
  const Answer<LayoutPrediction> p = predict(w, "layout(mb=1, zero=1)/ddp+fp16");
  REQUIRE(p);
  CHECK(std::any_of(p->assumed.begin(), p->assumed.end(),
                    [](const std::string& a) { return a.find("gathered parameters travel as they are") == 7; }));
  // Gradients of four bytes beside weights of two are halved, those of two are not.
  const std::string one = "layout(mb=1, overlap_dp=off, zero=1)/ddp";
  CHECK(gradients(gpt("bf16"), one) == doctest::Approx(all / 2 + all).epsilon(1e-6));
  CHECK(gradients(gpt("bf16"), one + "+fp16(memory=1e15)") == doctest::Approx(all / 2 + all / 2).epsilon(1e-4));
  CHECK(gradients(gpt("bf16,gradients=bf16"), one + "+fp16") ==
        doctest::Approx(gradients(gpt("bf16,gradients=bf16"), one)));
}

TEST_CASE("ZeRO refuses what no shard can be summed of, with the reason") {
  const Workload w = gpt("f32");
  const auto reason = [&](const std::string& plan) {
    const Answer<LayoutPrediction> p = predict(w, plan);
    return p ? "works" : p.reason();
  };
  for (const std::string zero : {"1", "2", "3"}) {
    CAPTURE(zero);
    const std::string layout = "layout(mb=1, zero=" + zero + ")/";
    CHECK(reason(layout + "ddp+topk").find("cannot be added up on the way") != std::string::npos);
    CHECK(reason(layout + "ddp+powersgd").find("factors of whole matrices") != std::string::npos);
    CHECK(reason(layout + "ddp+local(period=4)").find("update their shards together") != std::string::npos);
    CHECK(reason(layout + "ist").find("ZeRO sums up the gradients of every step") != std::string::npos);
    CHECK(reason(layout + "ddp") == "works");
  }
}

TEST_CASE("low-rank factors know the shapes of what a device holds") {
  const Workload w = gpt("f32");
  // r (rows + columns) values of 4 bytes, all-reduced on a ring of four in 1.5 times their bytes; the rest is dense.
  const auto sent = [](double rank, double t) {
    const double h = 256;
    const double block = rank * ((3 * h / t + h) + (h + h / t) + (4 * h / t + h) + (h + 4 * h / t)) +
                         (3 * h / t + h + 4 * h / t + h) + 4 * h;
    const double ends = rank * ((1024 / t + h) + (64 + h)) + 2 * h;
    return (4 * block + ends) * 4 / 1e9;
  };
  const auto exposed = [&](const std::string& plan) {
    const double fast = gradients(w, plan + "(rank=2, speed=1e12, least_saving=1)");
    return fast;
  };
  CHECK(exposed("layout(mb=1, overlap_dp=off)/ddp+powersgd") == doctest::Approx(1.5 * sent(2, 1)).epsilon(0.01));
  // Two replicas of two devices: half of each divided extent, and a ring of two sends the bytes once.
  CHECK(exposed("layout(tp=2, mb=2, overlap_dp=off)/ddp+powersgd") == doctest::Approx(sent(2, 2)).epsilon(0.01));
  // What stage_profile says: extents by name, outputs or inputs divided.
  LayoutOptions options;
  options.global_batch = 4;
  Layout l = layout_plan_of("layout(tp=2, mb=2)/ddp").layout;
  const Answer<Layout> full = resolved(l, 4, 4);
  REQUIRE(full);
  const PricedSplit split = priced_split(w, four_machines(), *full);
  const Profile stage = stage_profile(w, split, *full, w.units);
  double elements = 0, whole = 0;
  for (const Tensor& t : stage.tensors) {
    double product = 1;
    for (const std::int64_t extent : t.shape) product *= static_cast<double>(extent);
    CHECK(product * 4 == doctest::Approx(t.size.value()));
    elements += product;
  }
  for (const std::uint32_t kind : w.units) whole += split.units[kind].parameters;
  CHECK(elements == doctest::Approx(whole));
}
