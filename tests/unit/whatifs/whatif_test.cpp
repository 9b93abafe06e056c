// What-ifs: their text, their laws for every member of the family, and real traces.
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/report/whatif_report.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <doctest/doctest.h>

#include "helpers/random_input.hpp"
#include "helpers/shared_data.hpp"

#include <algorithm>
#include <set>
#include <sstream>

using namespace stepcast;
using namespace stepcast::test;

namespace {

/// Scenarios that every profile with a device and known batch and activations can answer; one a member of the family.
const char* const examples[] = {"amp",
                                "amp(gemm=2.5, other=1.5)",
                                "fused_optimizer",
                                "cuda_graphs",
                                "batch(to=64)",
                                "faster_device(by=1.5, gemm=3)",
                                "faster_input(keep=0.5)",
                                "remove(layers=layer1)",
                                "scale(layers=layer*, device=0.5)",
                                "insert(after=layer0, forward=1 ms, backward=2 ms)",
                                "reconstructed_batch_norm(layers=layer1*)",
                                "vdnn(rate=8 GB/s)",
                                "gist(ratio=4)",
                                "blueconnect",
                                "keep_buffers"};

Profile complete_profile(Draw& draw) {
  Profile p;
  do p = random_profile(draw, {.device = true});
  while (p.layers.size() < 3);
  for (Layer& layer : p.layers) layer.forward.part[KernelClass::gemm] = layer.forward.device * 0.5;
  p.layers[0].forward.device += milliseconds(1);
  p.optimizer = {milliseconds(1), microseconds(300)};
  p.input = microseconds(draw.whole(0, 500));
  p.communication.before.host = microseconds(draw.whole(1, 500));
  p.collectives.push_back({.operation = "broadcast",
                           .count = 1,
                           .size = Bytes(4096),
                           .duration = microseconds(9),
                           .waiting = {},
                           .source = BytesSource::metadata});
  p.input_period = draw.coin() ? microseconds(draw.whole(0, 20000)) : Seconds(0);
  p.batch_samples = 32;
  p.activation_memory = Bytes(1e9);
  p.step_times = {lone_step_time(p), lone_step_time(p) * 1.1};
  return checked(p, "test");
}

Profile after(const std::string& what, const Profile& p, const Profile* other = nullptr) {
  Answer<Profile> changed = profile_after(scenario_of(what), p, other);
  REQUIRE_MESSAGE(changed, (changed ? "" : changed.reason()));
  return *changed;
}

std::string refusal(const std::string& text) {
  try {
    (void)scenario_of(text);
  } catch (const InputError& error) { return error.what(); }
  return {};
}

/// A profile's numbers, without what is said about them.
std::string numbers_of(Profile p) {
  p.assumed.clear();
  return json_of(p);
}

}  // namespace

TEST_CASE("what-if: every member of the family has words, valid defaults, and a test") {
  // Subnets are of fully-connected layers (tested with the strategy), depth is of blocks that repeat (profile_blocks).
  std::set<std::string_view> named{"subnet", "depth"};
  for (const char* text : examples) named.insert(scenario_of(text)[0].what->name);
  Draw draw(10);
  const Profile p = complete_profile(draw);
  for (const WhatIf& w : whatifs()) {
    CAPTURE(w.name);
    const bool defaults = std::none_of(w.options.begin(), w.options.end(), [](const auto& o) { return o.required; });
    CHECK((defaults || named.count(w.name) == 1));
    if (defaults) {
      const Answer<Profile> changed = profile_after(scenario_of(w.name), p);
      CHECK((changed || !changed.reason().empty()));
    }
    CHECK_FALSE(w.title.empty());
    CHECK_FALSE(w.summary.empty());
    CHECK_FALSE(w.reference.empty());
    CHECK(w.options.size() <= most_options);
    for (const OptionSpec& option : w.options) {
      CHECK_FALSE(option.summary.empty());
      if (option.kind == OptionKind::layers) CHECK(option.required == option.patterns.empty());
      else if (!option.required) CHECK((option.low <= option.standard && option.standard <= option.high));
    }
  }
}

TEST_CASE("what-if: scenarios read back") {
  for (const char* text : examples) {
    CHECK(text_of(scenario_of(text)) == text);
    CHECK(scenario_of(text_of(scenario_of(text))) == scenario_of(text));
  }
  CHECK(text_of(scenario_of("  batch ( to = 128 ) + amp( ) ")) == "batch(to=128)+amp");
  CHECK(text_of(scenario_of("amp(gemm=3)")) == "amp");
  CHECK(text_of(scenario_of("vdnn(size=256 MiB, rate=0.5 GB/s)")) == "vdnn(rate=0.5 GB/s, size=256 MiB)");
  CHECK(text_of(scenario_of("remove(layers=\"a, (b)\")")) == "remove(layers=\"a, (b)\")");
  CHECK(text_of(scenario_of("fused_optimizer(launch=0.1 ms)")) == "fused_optimizer(launch=0.1 ms)");
  CHECK(scenario_of("vdnn(rate=8.123456789 GB/s)") == scenario_of(text_of(scenario_of("vdnn(rate=8.123456789 GB/s)"))));
}

TEST_CASE("what-if: texts that are none are refused with column and suggestion") {
  CHECK(refusal("") == "what-if, column 1: expected the name of a what-if, such as 'amp', found the end of the text");
  CHECK(refusal("amo") == "what-if, column 1: expected a what-if, found 'amo'; did you mean 'amp'?");
  CHECK(refusal("amp+") ==
        "what-if, column 5: expected the name of a what-if, such as 'amp', found the end of the text");
  CHECK(refusal("amp(gem=2)") ==
        "what-if, column 5: expected an option of 'amp' (gemm, tf32, other), found 'gem'; did you mean 'gemm'?");
  CHECK(refusal("amp(gemm=1000)") == "what-if, column 10, option 'gemm': expected 0.1 to 100, found '1000'");
  CHECK(refusal("amp(gemm=2, gemm=2)") == "what-if, column 13: expected each option once, found 'gemm' again");
  CHECK(refusal("batch") ==
        "what-if, column 1: expected option 'to' of 'batch', found nothing; samples per worker and step");
  CHECK(refusal("blueconnect(a=1)") == "what-if, column 13: expected no options: 'blueconnect' has none, found 'a'");
  CHECK(refusal("vdnn(rate=12)").find("bandwidth with its unit") != std::string::npos);
  CHECK(refusal("amp amp").find("column 5") != std::string::npos);
  for (const char* text : {"amp(", "amp(gemm", "amp(gemm=", "amp(gemm=2", "remove(layers=)", "remove(layers=\"a)", "+"})
    CHECK_FALSE(refusal(text).empty());
}

TEST_CASE("what-if: each keeps a profile valid, says what it assumed, and is deterministic") {
  Draw draw(11);
  for (int round = 0; round < 30; ++round) {
    const Profile p = complete_profile(draw);
    for (const char* text : examples) {
      CAPTURE(text);
      const Profile changed = after(text, p);
      CHECK(changed.assumed.size() == p.assumed.size() + 1);
      CHECK(json_of(changed) == json_of(after(text, p)));
      CHECK(changed.step_times.size() == p.step_times.size());
    }
  }
}

TEST_CASE("what-if: neutral values change nothing") {
  Draw draw(12);
  for (int round = 0; round < 20; ++round) {
    const Profile p = complete_profile(draw);
    for (const char* text :
         {"amp(gemm=1, other=1)", "faster_device(by=1)", "batch(to=32)", "faster_input(keep=1)", "scale(layers=*)",
          "fused_optimizer(launch=1 s)", "blueconnect", "reconstructed_batch_norm(layers=*, forward=1, backward=1)"}) {
      CAPTURE(text);
      CHECK(numbers_of(after(text, p)) == numbers_of(p));
    }
  }
}

TEST_CASE("what-if: copies of vDNN cost what does not fit under their pass, kernels of Gist cost all of it") {
  Profile p;
  p.device = "device";
  for (const char* name : {"a", "b", "c"}) p.layers.push_back({name, {{}, milliseconds(4)}, {{}, milliseconds(8)}});
  p.backward_order = {2, 1, 0};
  p.activation_memory = Bytes(3e9);
  p.host_waits_for_device = true;
  const auto longer = [&](const char* text) { return (lone_step_time(after(text, p)) - lone_step_time(p)).value(); };
  // 1 GB a layer, the last one's stays: copies of 10 ms under two forward passes of 4 and two backward passes of 8 ms.
  CHECK(longer("vdnn(rate=100 GB/s)") == doctest::Approx(2 * 0.006 + 2 * 0.002));
  CHECK(longer("vdnn(rate=1000 GB/s)") == doctest::Approx(0));
  CHECK(after("vdnn(rate=100 GB/s, layers=a)", p).activation_memory == Bytes(3e9));
  // 1.5 GB read and written at 750 GB/s is 2 ms, in six passes; the first launch is not hidden.
  CHECK(longer("gist(rate=750 GB/s)") == doctest::Approx(6 * 0.002 + 10e-6));
  CHECK(after("gist(ratio=4)", p).activation_memory.value() == doctest::Approx(0.75e9));
}

TEST_CASE("what-if: buffers that are not sent round cost nothing before the forward pass, and nothing else changes") {
  Draw draw(14);
  const Profile p = complete_profile(draw);
  Profile kept = after("keep_buffers", p);
  CHECK(kept.communication.before.host == Seconds(0));
  kept.communication.before = p.communication.before;
  CHECK(numbers_of(kept) == numbers_of(p));
  Profile without = p;
  without.collectives.clear();
  CHECK(profile_after(scenario_of("keep_buffers"), without).reason() ==
        "keep_buffers: the trace shows no broadcast of buffers before the forward pass");
}

TEST_CASE("what-if: these never make a step longer, those never shorter") {
  Draw draw(13);
  for (int round = 0; round < 50; ++round) {
    const Profile p = complete_profile(draw);
    const double before = lone_step_time(p).value();
    for (const char* text :
         {"amp", "fused_optimizer", "cuda_graphs(launch=0 s)", "batch(to=16)", "faster_device(by=2)", "faster_input",
          "remove(layers=layer1)", "scale(layers=*, device=0.5, host=0.5)", "reconstructed_batch_norm(layers=*)"})
      CHECK_MESSAGE(lone_step_time(after(text, p)).value() <= before * (1 + 1e-12), text);
    for (const char* text : {"batch(to=64)", "insert(after=*, forward=1 ms)", "vdnn", "gist"})
      CHECK_MESSAGE(lone_step_time(after(text, p)).value() >= before * (1 - 1e-12), text);
  }
}

TEST_CASE("what-if: a step of compute-bound kernels only is exactly 3 times as fast under AMP") {
  Profile p;
  p.device = "device";
  for (const char* name : {"a", "b"})
    p.layers.push_back({name, {{}, milliseconds(3), milliseconds(3), {}}, {{}, milliseconds(6), milliseconds(6), {}}});
  p.backward_order = {1, 0};
  const Profile fast = after("amp", p);
  CHECK(lone_step_time(p) / lone_step_time(fast) == doctest::Approx(3).epsilon(1e-12));
  for (Layer& layer : p.layers)
    layer.forward.part[KernelClass::gemm] = layer.backward.part[KernelClass::gemm] = Seconds(0);
  CHECK(lone_step_time(p) / lone_step_time(after("amp", p)) == doctest::Approx(2).epsilon(1e-12));
}

TEST_CASE("what-if: where the host sets the pace, AMP gains nothing and CUDA graphs do") {
  Profile p;
  p.device = "device";
  p.layers = {{"a", {milliseconds(5), milliseconds(1), milliseconds(1)}, {milliseconds(5), milliseconds(2)}}};
  p.backward_order = {0};
  p.other.host = milliseconds(1);
  CHECK(lone_step_time(p) == milliseconds(11));
  CHECK(lone_step_time(after("amp", p)) == milliseconds(11));
  CHECK(lone_step_time(after("cuda_graphs", p)).value() == doctest::Approx(0.003));
  CHECK(lone_step_time(after("cuda_graphs+amp", p)).value() < 0.003);
}

TEST_CASE("what-if: order counts, and batch then device is as device then batch") {
  Draw draw(14);
  const Profile p = complete_profile(draw);
  CHECK(lone_step_time(after("batch(to=64)+faster_device(by=2)", p)).value() ==
        doctest::Approx(lone_step_time(after("faster_device(by=2)+batch(to=64)", p)).value()));
  CHECK(after("remove(layers=layer1)+insert(after=layer0)", p).layers[1].name == "layer0+inserted");
  const Answer<Profile> gone = profile_after(scenario_of("remove(layers=layer1)+scale(layers=layer1)"), p);
  REQUIRE_FALSE(gone);
  CHECK(gone.reason().starts_with("scale: no layer fits 'layer1'"));
}

TEST_CASE("what-if: layers inserted after all layers again and again are refused, before they fill the memory") {
  Draw draw(16);
  std::string doubled = "insert(after=*)";
  for (int i = 0; i < 20; ++i) doubled += "+insert(after=*)";
  const Answer<Profile> refused = profile_after(scenario_of(doubled), complete_profile(draw));
  REQUIRE_FALSE(refused);
  CHECK(refused.reason().find("at most 4096 can be inserted at a time") != std::string::npos);
}

TEST_CASE("what-if: a batch fitted to two profiles meets both and is a line between and beyond") {
  Draw draw(15);
  const auto at = [](double batch) {
    Profile p;
    p.device = "device";
    p.batch_samples = batch;
    p.layers = {{"a", {microseconds(50), microseconds(100 + 10 * batch), microseconds(10 * batch), {}}, {}},
                {"b", {microseconds(50), microseconds(500)}, {microseconds(9), microseconds(7 * batch)}}};
    p.backward_order = {1, 0};
    p.input = microseconds(batch);
    return p;
  };
  const Profile small = at(16), large = at(64);
  for (const double batch : {16., 32., 64., 256., 1.}) {
    const Profile fitted = after("batch(to=" + std::to_string(int(batch)) + ")", small, &large);
    CHECK(lone_step_time(fitted).value() == doctest::Approx(lone_step_time(at(batch)).value()));
    CHECK(fitted.layers[0].forward.part[KernelClass::gemm].value() == doctest::Approx(10e-6 * batch));
    CHECK(fitted.batch_samples == batch);
  }
  // A part that shrinks with the batch is noise: the nearer measurement counts.
  Profile noisy = large;
  noisy.layers[0].forward.host = microseconds(40);
  CHECK(after("batch(to=60)", small, &noisy).layers[0].forward.host == microseconds(40));
  CHECK(after("batch(to=1)", small, &noisy).layers[0].forward.host == microseconds(50));
  // The host issues the same kernels at every batch: that it was slower in one run does not grow beyond it.
  noisy.layers[0].forward.host = microseconds(80);
  CHECK(after("batch(to=40)", small, &noisy).layers[0].forward.host.value() == doctest::Approx(65e-6));
  CHECK(after("batch(to=256)", small, &noisy).layers[0].forward.host == microseconds(80));
  CHECK(after("batch(to=1)", small, &noisy).layers[0].forward.host == microseconds(50));
  Profile computing = small, slower = noisy;
  for (Profile* p : {&computing, &slower}) {
    p->device.clear();
    for (Layer& layer : p->layers) layer.forward = {layer.forward.host, {}}, layer.backward = {layer.backward.host, {}};
  }
  CHECK(after("batch(to=112)", computing, &slower).layers[0].forward.host.value() == doctest::Approx(110e-6));
}

TEST_CASE("what-if: a fused optimizer meets each parameter once") {
  Draw draw(23);
  Profile p = complete_profile(draw);
  p.device = "NVIDIA H100 80GB HBM3";
  p.tensors = {{.name = "weight", .shape = {}, .dtype = DataType::f32, .size = Bytes(4e6), .layer = 0}};
  p.optimizer.device = milliseconds(1);
  // A million parameters, of each of which Adam reads 16 and writes 12 bytes, at 3352 GB/s.
  CHECK(after("fused_optimizer", p).optimizer.device.value() == doctest::Approx(28e6 / 3352e9));
  p.bytes_of_state = 12;
  CHECK(after("fused_optimizer", p).optimizer.device.value() == doctest::Approx(20e6 / 3352e9));
  p.optimizer.device = microseconds(1);  // no slower than what it replaces
  CHECK(after("fused_optimizer", p).optimizer.device == microseconds(1));
  p.optimizer.device = milliseconds(1);
  p.device = "device";
  CHECK(after("fused_optimizer", p).optimizer.device == milliseconds(1));
}

TEST_CASE("what-if: products that ran in TF32 gain half of their time, the others two thirds") {
  Profile p;
  p.device = "device";
  p.layers = {{"a", {Seconds(0), milliseconds(12), {}}, {}}};
  p.layers[0].forward.part[KernelClass::gemm] = milliseconds(8);
  p.backward_order = {0};
  const auto device = [&](double share, const char* text) {
    p.tf32_share = share;
    return after(text, p).layers[0].forward.device.value() * 1e3;
  };
  CHECK(device(0, "amp") == doctest::Approx(8 / 3.0 + 2));
  CHECK(device(1, "amp") == doctest::Approx(4 + 2));
  CHECK(device(0.75, "amp") == doctest::Approx(6 / 2.0 + 2 / 3.0 + 2));
  CHECK(device(0.75, "amp(gemm=4, tf32=1.5)") == doctest::Approx(6 / 1.5 + 2 / 4.0 + 2));
  CHECK(after("amp", p).assumed.back().find("those in TF32 (by their kernels' names 75.0 % of their time) 2 times") !=
        std::string::npos);
}

TEST_CASE("what-if: where a traced host sets the pace, each scenario says that a profiler slowed it") {
  Profile p;
  p.device = "device";
  p.batch_samples = 8;
  p.layers = {{"a", {milliseconds(3), milliseconds(1)}, {}}};
  p.backward_order = {0};
  const auto changes = [](const Profile& profile) {
    return whatif_rows({.profile = profile, .cluster = Cluster{}}, {scenario_of("cuda_graphs")}, {})[1].changes;
  };
  REQUIRE(changes(p).size() == 2);
  CHECK(changes(p)[1].find("3.000 ms to the device's 1.000 ms") != std::string::npos);
  Profile unslowed = p;
  unslowed.without_profiler = true;
  CHECK(changes(unslowed).size() == 1);
  p.layers[0].forward.device = milliseconds(4);
  CHECK(changes(p).size() == 1);
}

TEST_CASE("what-if: of two batches one without its profiler is cautioned, and what the second profile is doubted for") {
  Draw draw(29);
  const Profile first = complete_profile(draw);
  Profile second = first;
  second.batch_samples = 2 * first.batch_samples;
  const auto row = [&](bool first_without, bool second_without) {
    Profile a = first, b = second;
    a.without_profiler = first_without, b.without_profiler = second_without;
    const Question question{.profile = a, .cluster = Cluster{}, .other_batch = b};
    return whatif_rows(question, {scenario_of("batch(to=48)")}, {})[1];
  };
  CHECK(row(false, false).cautions.empty());
  CHECK(row(true, true).cautions.empty());
  REQUIRE(row(true, false).cautions.size() == 1);
  CHECK(
      row(true, false).cautions[0].starts_with("the step at batch 32 is one without a profiler, the step at batch 64"));
  REQUIRE(row(false, true).cautions.size() == 1);
  CHECK(
      row(false, true).cautions[0].starts_with("the step at batch 64 is one without a profiler, the step at batch 32"));
  second.cautions = {"disturbed"};
  CHECK(row(true, true).cautions == std::vector<std::string>{"of the profile at batch 64: disturbed"});
}

TEST_CASE("what-if: questions without an answer say why") {
  Draw draw(16);
  const Profile device = complete_profile(draw);
  Profile host = random_profile(draw);
  host.batch_samples = 8;
  const auto why = [](const std::string& text, const Profile& p, const Profile* other = nullptr) {
    const Answer<Profile> answer = profile_after(scenario_of(text), p, other);
    REQUIRE_FALSE(answer);
    return answer.reason();
  };
  for (const char* text :
       {"amp", "fused_optimizer", "cuda_graphs", "vdnn", "gist", "reconstructed_batch_norm(layers=*)",
        "faster_device(gemm=2, by=1)", "scale(layers=*, device=0.5)"})
    CHECK_MESSAGE(why(text, host).find("computed on the host") != std::string::npos, text);
  CHECK(why("remove(layers=*)", device).find("leaves no layer") != std::string::npos);
  CHECK(why("remove(layers=nothing)", device).find("there are layer0") != std::string::npos);
  Profile unknown = device;
  unknown.batch_samples = 0;
  unknown.activation_memory = Bytes(0);
  CHECK(why("batch(to=2)", unknown).find("--batch") != std::string::npos);
  CHECK(why("vdnn", unknown).find("size=") != std::string::npos);
  Profile half = device;
  if (half.tensors.empty()) half.tensors.push_back({"t", {}, DataType::f32, Bytes(4), half.backward_order[0]});
  half.tensors[0].dtype = DataType::bf16;
  CHECK(why("amp", half).find("half precision already") != std::string::npos);
  Profile autocast = device;
  autocast.layers.back().input_dtype = DataType::bf16;
  CHECK(why("amp", autocast).find("traced in mixed precision") != std::string::npos);
  Profile kernels = device;  // a compiled model's layers tell no type, its kernels do
  kernels.half_precision_share = 0.5;
  CHECK(why("amp", kernels).find("50.0 % of its kernels' time or more is half precision") != std::string::npos);
  kernels.half_precision_share = 0.05;
  CHECK(profile_after(scenario_of("amp"), kernels));
  Profile fused = device;
  fused.fused_update_share = 0.9;
  CHECK(why("fused_optimizer", fused).find("fused already: 90.0 % of its kernels' time") != std::string::npos);
  fused.fused_update_share = 0.3;
  CHECK(profile_after(scenario_of("fused_optimizer"), fused));
  Profile other = device;
  CHECK(why("batch(to=2)", device, &other).find("both profiles have the batch 32") != std::string::npos);
  other.batch_samples = 64;
  CHECK(why("amp+batch(to=2)", device, &other).find("come first") != std::string::npos);
  other.layers[0].name = "else";
  CHECK(why("batch(to=2)", device, &other).find("'else'") != std::string::npos);
}

TEST_CASE("what-if: BlueConnect changes the plan's collective, other what-ifs do not") {
  const PlanSpec plan = plan_spec_of("ddp@ring");
  CHECK(text_of(plan_after(scenario_of("amp+blueconnect"), plan)) == "ddp@factored");
  CHECK(text_of(plan_after(scenario_of("amp"), plan)) == "ddp@ring");
}

TEST_CASE("what-if: rows of a report start from the same step") {
  Draw draw(17);
  Profile p = complete_profile(draw);
  p.without_profiler = true;
  const Cluster cluster = cluster_of_flags(8, 4, "10GbE");
  const std::vector<Scenario> scenarios{scenario_of("amp"), scenario_of("batch(to=64)"),
                                        scenario_of("remove(layers=x)")};
  const auto rows = whatif_rows({.profile = p, .cluster = cluster}, scenarios, plan_of("ddp"));
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].alone == lone_step_time(p));
  REQUIRE(rows[0].distributed);
  CHECK(rows[0].distributed->iteration == predicted(p, cluster, plan_spec_of("ddp"))->iteration);
  CHECK(rows[1].gain_alone == doctest::Approx(rows[0].alone / rows[1].alone));
  CHECK(rows[2].gain_alone == doctest::Approx(2 * (rows[0].alone / rows[2].alone)));
  CHECK(rows[1].changes.size() == 1);
  CHECK_FALSE(rows[3].profile);
  CHECK(rows[3].inapplicable.starts_with("remove: no layer fits"));
}

TEST_CASE("what-if: CUDA graphs on a real trace whose run was traced with them as well") {
  const auto folder = shared_folder("traces");
  if (!folder) return;
  // The same compiled model on the same RTX 3060, launched kernel by kernel (04) and as a CUDA graph (05).
  const Profile launched = profile_of(trace_of(File(*folder / "luatil__torch-profile/trace_04.json.gz").source()));
  const Profile recorded = profile_of(trace_of(File(*folder / "luatil__torch-profile/trace_05.json.gz").source()));
  const Profile predicted_step = after("cuda_graphs", launched);
  CHECK(lone_step_time(predicted_step).value() == doctest::Approx(recorded.measured_step().value()).epsilon(0.01));
  const auto host = [](const Profile& p) {
    Seconds sum;
    for (const PassPlace& place : all_passes(p)) sum += cost_at(p, place).host;
    return sum;
  };
  CHECK(host(predicted_step) < host(launched) * 0.3);
  CHECK(host(recorded) < host(launched) * 0.3);
}

TEST_CASE("what-if: a host-bound V100 step loses its wait for input and keeps its launches") {
  const auto folder = shared_folder("traces");
  if (!folder) return;
  const Profile p = profile_of(trace_of(
      File(*folder / "pytorch__kineto/resnet50_num_workers_0__worker0.1623143089861.pt.trace.json.gz").source()));
  CHECK(lone_step_time(after("amp", p)).value() == doctest::Approx(p.measured_step().value()).epsilon(0.01));
  CHECK((lone_step_time(p) - lone_step_time(after("faster_input", p))).value() ==
        doctest::Approx(p.input.value()).epsilon(1e-6));
  const Profile batched = after("batch(to=256)", p), mixed = after("batch(to=256)+amp+faster_input", p);
  CHECK(lone_step_time(mixed).value() < 0.5 * lone_step_time(batched).value());
}
