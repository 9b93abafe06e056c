// Layout predictions: parts that sum, bounds that hold, and agreement with what is known of simple layouts.
#include "helpers/layout_machines.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/base/embedded.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/parallelism/unit_messages.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace stepcast;
using doctest::Approx;

namespace {

Device device() {
  Device d = test::layout_device(DataType::f16);
  d.half_m = d.half_n = d.half_k = 40;
  return d;
}
Cluster machines(std::int64_t nodes, std::int64_t per_node) { return test::layout_machines(nodes, per_node, 4); }
Workload gpt(const std::string& fields = "hidden=1024,layers=14,heads=16,seq=1024,vocab=51200") {
  return workload_of(model_shape_of("gpt:" + fields), device());
}
Answer<LayoutPrediction> predict(const Workload& w, const Cluster& c, const std::string& plan, double batch) {
  LayoutOptions options;
  options.global_batch = batch;
  return predicted(w, c, layout_plan_of(plan), options);
}
Seconds step(const Workload& w, const Cluster& c, const std::string& plan, double batch) {
  const Answer<LayoutPrediction> p = predict(w, c, plan, batch);
  REQUIRE_MESSAGE(p, plan << ": " << (p ? "" : p.reason()));
  return p->iteration;
}
Seconds sum(const LayoutBreakdown& b) {
  return b.compute + b.recomputation + b.tensor + b.context + b.expert + b.pipeline + b.bubble + b.gradients +
         b.copies + b.update + b.input + b.other;
}

/// A layout of 32 devices that mostly works.
std::string random_plan(test::Draw& draw) {
  const auto one_of = [&](std::initializer_list<const char*> words) {
    return std::string(words.begin()[draw.whole(0, static_cast<int>(words.size()) - 1)]);
  };
  std::string text = "layout(tp=" + one_of({"1", "2", "4", "8"}) + ",pp=" + one_of({"1", "2", "4"});
  text += ",mb=" + one_of({"1", "2", "4"}) + ",zero=" + one_of({"0", "1", "2", "3"});
  text += ",recompute=" + one_of({"none", "selective", "full"}) + ",sp=" + one_of({"on", "off"});
  text += ",overlap_dp=" + one_of({"on", "off"}) + ",overlap_pp=" + one_of({"on", "off"});
  text += one_of({"", ",overlap_tp=on", ",overlap_tp=products"});
  text += ",order=" + one_of({"tp-dp-pp", "tp-pp-dp", "dp-tp-pp", "pp-tp-dp"});
  text += one_of({"", "", ",cp=2", ",chunks=2", ",chunks=2,schedule=zb_v", ",schedule=gpipe", ",schedule=zb_h1",
                  ",schedule=bidirectional", ",scheme=2d", ",scheme=3d", ",in_flight=1"});
  text += one_of({"", "", "", ",offload=optimizer", ",offload=activations", ",offload=activations,offload_blocks=1",
                  ",offload=parameters+activations"});
  text += one_of({"", "", ",stages=by_time"});
  text += one_of({"", "", "", ",hpz=2", ",hpz=machine,qwz=on", ",qgz=on"});
  return text + ")/" + one_of({"ddp", "ddp(bucket=5 MiB)", "wfbp", "bsp", "dear", "ddp+fp16"});
}

}  // namespace

TEST_CASE("The parts of the step sum to it, and no bound is above it") {
  const Workload w = gpt();
  const Cluster c = machines(4, 8);
  LayoutOptions many, few;
  many.global_batch = 128;
  few.global_batch = 32;  // down to one micro-batch
  LayoutEvaluator evaluators[] = {{w, c, many}, {w, c, few}};
  test::Draw draw(17);
  int worked = 0;
  for (int i = 0; i < 900; ++i) {
    LayoutEvaluator& evaluator = evaluators[i % 2];
    const std::string text = random_plan(draw);
    CAPTURE(text);
    CAPTURE(i);
    const LayoutPlan plan = layout_plan_of(text);
    const Answer<LayoutPrediction> p = evaluator.predicted(plan);
    const auto quick = evaluator.quick(plan);
    REQUIRE(static_cast<bool>(p) == static_cast<bool>(quick));
    if (!p) {
      CHECK(!p.reason().empty());
      continue;
    }
    ++worked;
    CHECK(quick->iteration == p->iteration);
    CHECK(quick->memory == p->memory.total());
    CHECK(sum(p->breakdown).value() == Approx(p->iteration.value()).epsilon(1e-12));
    const LayoutBreakdown& b = p->breakdown;
    for (const Seconds part : {b.compute, b.recomputation, b.tensor, b.context, b.expert, b.pipeline, b.bubble,
                               b.gradients, b.copies, b.update, b.other})
      CHECK(part >= Seconds(0));
    CHECK(p->interval_low <= p->iteration);
    CHECK(p->interval_high >= p->iteration);
    std::uint32_t units = 0;
    for (const StageSummary& s : p->stages) {
      units += s.units;
      CHECK(s.end.value() <= p->iteration.value() * (1 + 1e-12));
      CHECK(s.memory.total() <= p->memory.total());
    }
    CHECK(units == w.units.size() * p->plan.layout.schedule->copies);
    // What a prediction says it did predicts the same.
    const Answer<LayoutPrediction> again = evaluator.predicted(layout_plan_of(text_of(p->plan)));
    REQUIRE(again);
    CHECK(again->iteration == p->iteration);
  }
  CHECK(worked > 200);
}

TEST_CASE("where the host is what takes time, no part of the step is below zero") {
  const Workload w = workload_of(model_shape_of("gpt:hidden=512,layers=3,heads=8,seq=1000,dtype=bf16,kernels=eager"),
                                 *shipped_device("h100-sxm5-80gb"));
  for (const char* fields : {"zero=3, mb=1", "zero=3, mb=1, recompute=full", "zero=2, mb=1, recompute=full",
                             "zero=3, mb=1, recompute=full, recompute_blocks=3"}) {
    CAPTURE(fields);
    const auto p = predict(w, machines(8, 1), "layout(dp=8, " + std::string(fields) + ")/ddp", 96);
    REQUIRE(p);
    CHECK(sum(p->breakdown).value() == Approx(p->iteration.value()).epsilon(1e-12));
    CHECK(p->breakdown.compute >= Seconds(0));
    CHECK(p->breakdown.recomputation >= Seconds(0));
  }
}

TEST_CASE("One device takes its units' passes and the update") {
  const Workload w = gpt();
  Split split;
  split.micro_batch = 4;
  Seconds sum_of_units;
  for (const std::uint32_t kind : w.units) {
    const Answer<UnitCost> unit = unit_cost(w, kind, split);
    REQUIRE(unit);
    sum_of_units += unit->forward + unit->input_gradient + unit->weight_gradient;
  }
  const Cluster one = machines(1, 1);
  const Answer<LayoutPrediction> p = predict(w, one, "layout(mb=4)/ddp", 16);
  REQUIRE(p);
  CHECK(p->micro_batches == 4);
  CHECK(p->iteration.value() == Approx((sum_of_units * 4 + w.update + w.gradient_passes).value()));
  CHECK(p->breakdown.bubble.value() == Approx(0));
}

TEST_CASE("A host updates what its devices leave to it, copies what passes need, and says how much it holds") {
  const Workload w = gpt();
  Cluster one = machines(1, 1), eight = machines(1, 8);
  one.host = eight.host = {Bytes(0), BytesPerSecond(2e10), 1e9};
  const auto at = [&](const Cluster& c, const std::string& plan) {
    const Answer<LayoutPrediction> p = predict(w, c, "layout(mb=4" + plan + ")/ddp", 32);
    REQUIRE_MESSAGE(p, plan);
    return *p;
  };
  const double n = w.parameters();
  // Beside it whole gradients are looked at and cleared, and divided where others sum them as well.
  const double alone = w.gradient_passes.value(), summed = alone + w.gradient_scaling.value();
  CHECK(alone == Approx(2 * w.bytes_of_gradient * n / device().memory_bandwidth.value()));
  CHECK(summed == Approx(2 * alone));
  const LayoutPrediction without = at(one, ""), optimizer = at(one, ", offload=optimizer");
  CHECK(optimizer.breakdown.update.value() == Approx(n / 1e9 + alone));
  CHECK((optimizer.iteration - optimizer.breakdown.update).value() ==
        Approx((without.iteration - without.breakdown.update).value()));
  // The processors of a machine do as much for eight devices that divide it, eight times as much for eight that do not.
  CHECK(at(eight, ", zero=1, offload=optimizer").breakdown.update.value() == Approx(n / 1e9 + summed));
  CHECK(at(eight, ", offload=optimizer").breakdown.update.value() == Approx(8 * n / 1e9 + summed));
  // Of two hosts each does for four.
  eight.host.devices = 4;
  CHECK(at(eight, ", zero=1, offload=optimizer").breakdown.update.value() == Approx(n / 2e9 + summed));
  CHECK(at(eight, ", zero=1, offload=optimizer").host_memory.value() == Approx(16 * n / 2));
  eight.host.devices = 0;
  // Slower copies than processors set the pace: gradients come in four bytes, or two.
  one.host.copies = BytesPerSecond(1e9);
  CHECK(at(one, ", offload=optimizer").breakdown.update.value() == Approx(w.bytes_of_gradient * n / 1e9 + alone));
  // Parameters that are with the host have no copies behind the step: their own come beside the passes.
  CHECK(at(one, ", zero=3, offload=parameters").breakdown.update.value() == Approx(n / 1e9));
  // Weights come twice a micro-batch and gradients go once, one after the other where nothing is gathered ahead.
  const std::string waiting = ", zero=3, in_flight=1, overlap_dp=off";
  const double copies = 8 * n * (2 * w.bytes_of_weight + w.bytes_of_gradient) / 1e9;
  const LayoutPrediction parameters = at(one, waiting + ", offload=parameters");
  CHECK((parameters.iteration - parameters.breakdown.update).value() ==
        Approx((without.iteration - without.breakdown.update).value() + copies));
  CHECK(at(one, ", zero=3, offload=parameters").iteration < parameters.iteration);  // beside compute
  CHECK(at(one, ", zero=3, offload=parameters").iteration > optimizer.iteration);
  // What blocks keep goes and comes as long as the passes take at least.
  one.host.copies = BytesPerSecond(1e7);
  const LayoutPrediction activations = at(one, ", offload=activations");
  CHECK((activations.iteration - without.breakdown.update).value() >
        8 * 2 * activations.memory.host.value() / 1e7 * 0.99);
  CHECK(activations.memory.activations < without.memory.activations);
  // Of 14 blocks those of seven leave half as much with the host and take half as long, beyond two that are on their
  // way; of all but none it is nothing.
  const LayoutPrediction seven = at(one, ", offload=activations, offload_blocks=7");
  const LayoutPrediction fourteen = at(one, ", offload=activations, offload_blocks=14");
  const Bytes of_block = (fourteen.memory.host - seven.memory.host) / 7;
  CHECK(fourteen.memory.host == activations.memory.host);
  CHECK(seven.memory.host.value() == Approx((5 * of_block).value()));
  CHECK(fourteen.iteration == activations.iteration);
  CHECK((seven.iteration - without.breakdown.update).value() ==
        Approx(8 * 2 * (7 * of_block).value() / 1e7).epsilon(0.01));
  CHECK(predict(w, one, "layout(mb=4, offload=activations, offload_blocks=15)/ddp", 32)
            .reason()
            .find("at most 14 blocks") != std::string::npos);
  one.host.copies = BytesPerSecond(1e14);
  CHECK(at(one, ", offload=activations").iteration.value() == Approx(without.iteration.value()));
  // A machine that is known to hold less refuses; rates that are known make no interval wide.
  eight.host.memory = Bytes(n * 16 * 0.99);
  CHECK(predict(w, eight, "layout(mb=4, zero=1, offload=optimizer)/ddp", 32).reason().find("whose own memory is") !=
        std::string::npos);
  // Stages differ in what they leave: the machine that has most of it counts, here the one with the first stages.
  Cluster two = machines(2, 4);
  const Answer<LayoutPrediction> stages = predict(w, two, "layout(pp=8, mb=1, offload=optimizer+activations)/ddp", 32);
  REQUIRE(stages);
  Bytes first, second;
  for (std::size_t d = 0; d < 8; ++d) (d < 4 ? first : second) += stages->stages[d].memory.host;
  CHECK(first > second);
  CHECK(stages->host_memory.value() == Approx(first.value()));
  two.host.memory = first * 0.99;
  CHECK_FALSE(predict(w, two, "layout(pp=8, mb=1, offload=optimizer+activations)/ddp", 32));
  CHECK(predict(gpt("hidden=1024,layers=14,heads=16,seq=1024,vocab=51200,optimizer=muon"), one,
                "layout(mb=4, offload=optimizer)/ddp", 32)
            .reason()
            .find("those of Adam") != std::string::npos);
  eight.host = {Bytes(n * 16 * 1.01), BytesPerSecond(2e10), 0};
  const LayoutPrediction usual = at(eight, ", zero=1, offload=optimizer");
  eight.host.updates = usual_host.updates;
  const LayoutPrediction said = at(eight, ", zero=1, offload=optimizer");
  CHECK(usual.iteration == said.iteration);
  CHECK(usual.interval_high > said.interval_high);
  CHECK(said.interval_high > said.iteration);
}

TEST_CASE("The usual host is the mean of the rates that were published, and its interval holds four of five") {
  // Parameters a second of a machine: the table "Hosts" of validation/README.md.
  const double rates[] = {13.4e9, 5.3e9, 2.8e9, 1.8e9, 1.4e9, 1.3e9, 1.1e9, 1.0e9, 0.8e9, 0.65e9};
  double mean = 0, squares = 0;
  for (const double rate : rates) mean += std::log(rate) / std::size(rates);
  for (const double rate : rates) squares += (std::log(rate) - mean) * (std::log(rate) - mean);
  CHECK(usual_host.updates == Approx(std::exp(mean)).epsilon(0.02));
  CHECK(host_rate_spread == Approx(std::exp(1.2816 * std::sqrt(squares / (std::size(rates) - 1)))).epsilon(0.02));
}

TEST_CASE("Data parallelism alone is what the model of gradients predicts") {
  // The same compute, once as a profile of layers with all its tensors, once as units: their gradients become ready at
  // almost the same times.
  for (const char* more : {"", ",kernels=compiled", ",kernels=eager", ",kernels=deepspeed"}) {
    const std::string description = std::string("hidden=1024,layers=14,heads=16,seq=1024,vocab=51200") + more;
    const ModelShape shape = model_shape_of("gpt:" + description);
    const Workload w = gpt(description);
    CAPTURE(description);
    for (const char* strategy : {"ddp", "bsp", "wfbp", "dear"})
      for (const Cluster& c : {machines(1, 8), machines(4, 8)}) {
        CAPTURE(std::string(strategy));
        const double devices = static_cast<double>(c.workers());
        const Profile profile = described_profile(shape, device(), 4);
        const Answer<Prediction> flat = predicted(profile, c, plan_spec_of(strategy));
        REQUIRE(flat);
        const Seconds layout = step(w, c, std::string("layout(mb=4)/") + strategy, 4 * devices);
        CHECK(layout.value() == Approx(flat->iteration.value()).epsilon(0.03));
      }
    // Alone, to the digit.
    const Answer<Prediction> alone =
        predicted(described_profile(shape, device(), 4), machines(1, 1), plan_spec_of("ddp"));
    REQUIRE(alone);
    CHECK(step(w, machines(1, 1), "layout(mb=4)/ddp", 4).value() == Approx(alone->iteration.value()).epsilon(1e-9));
  }
}

TEST_CASE("A traced profile under a layout of data parallelism takes what it takes without one") {
  // What remains: layouts update after the last gradient, strategies such as dear layer by layer under transfers.
  int compared = 0;
  for (const EmbeddedFile& file : shipped_profile_texts()) {
    CAPTURE(std::string(file.name));
    const Profile profile = profile_of_json(file.text, file.name);
    const Answer<Workload> w = workload_of(profile);
    if (!w) continue;
    for (const Cluster& c : {machines(1, 1), machines(1, 4), machines(4, 8)})
      for (const Strategy& strategy : strategies()) {
        if (strategy.fidelity != Fidelity::exact) continue;
        const PlanSpec spec{&strategy, standard_options(strategy)};
        CAPTURE(std::string(strategy.name));
        const Answer<Prediction> flat = predicted(profile, c, spec);
        if (!flat) continue;
        const double batch = w->traced_batch * static_cast<double>(c.workers());
        LayoutOptions options;
        options.global_batch = batch;
        options.memory_cap = Bytes(1e15);
        const Answer<LayoutPrediction> layout = predicted(*w, c, LayoutPlan{{}, spec}, options);
        REQUIRE(layout);
        // A strategy with a timer waits for it on a lone worker, too; a layout has nothing to send there.
        const double tolerance = c.workers() > 1 ? 0.02 : strategy.phases > 1 ? 0.003 : 1e-4;
        CHECK(layout->iteration.value() == Approx(flat->iteration.value()).epsilon(tolerance));
        // Copies into buckets and out of them are computed, in both.
        if (strategy.name == "ddp" || strategy.name == "bsp" || strategy.name == "wfbp")
          CHECK(std::abs(layout->breakdown.exposed().value() - flat->breakdown.exposed_communication.value()) <=
                tolerance * flat->iteration.value());
        ++compared;
      }
  }
  CHECK(compared >= 80);
}

TEST_CASE("copies into buckets and out of them are computed in layouts, too, of ZeRO as of DDP") {
  Workload w = gpt("hidden=1024,layers=4,heads=16,seq=1024,vocab=8192,attention=flash,causal=yes");
  const auto exposed = [&](double seconds_per_byte, const char* plan) {
    w.copy_in = w.copy_out = seconds_per_byte;
    LayoutOptions options;
    options.global_batch = 8;
    const Answer<LayoutPrediction> p = predicted(w, machines(1, 8), layout_plan_of(plan), options);
    REQUIRE(p);
    return std::pair{p->breakdown.exposed().value(), p->breakdown.copies.value()};
  };
  const double slow = 1e-11;
  for (const char* plan : {"layout()/ddp", "layout(zero=1)/ddp"}) {
    CAPTURE(plan);
    const auto [without, none] = exposed(0, plan);
    const auto [with, copies] = exposed(slow, plan);
    CHECK(none == 0);
    CHECK(copies == Approx(2 * slow * w.parameters() * w.bytes_of_gradient).epsilon(0.01));
    CHECK(with <= without + copies);
  }
}

TEST_CASE("ring attention pays for each exchange what attention to one block does not hide") {
  const Workload w = gpt("hidden=1024,layers=2,heads=16,seq=8192,vocab=51200,attention=flash,causal=yes");
  Split split;
  split.context = 4;
  const std::uint32_t block = 1;
  const Answer<UnitCost> unit = unit_cost(w, block, split);
  REQUIRE(unit);
  const Bytes keys(2.0 * (8192 / 4) * 1024 * 2);
  const auto context = [&](BytesPerSecond inside, const std::string& more) {
    Cluster c = machines(1, 4);
    c.inside.bandwidth = inside;
    const Answer<LayoutPrediction> p = predict(w, c, "layout(cp=4,mb=1" + more + ")/ddp", 3);
    REQUIRE(p);
    return p->breakdown.context.value();
  };
  // The answer says what the ring takes, hidden or not.
  const auto said = [&](BytesPerSecond inside) {
    Cluster c = machines(1, 4);
    c.inside.bandwidth = inside;
    std::string all;
    const Answer<LayoutPrediction> p = predict(w, c, "layout(cp=4,mb=1)/ddp", 3);
    REQUIRE(p);
    for (const std::string& text : p->assumed) all += text + "; ";
    return all;
  };
  const double sends =
      2 * 3 *
      (3 * (3e-6 + keys.value() / 1e13) + 2 * (3e-6 + keys.value() / 1e13) + 2 * (3e-6 + 2 * keys.value() / 1e13));
  CHECK(said(BytesPerSecond(1e13))
            .find("go around a ring of 4 devices in " + text_of(Seconds(sends)) + " a step, nothing of it beyond") !=
        std::string::npos);
  CHECK(said(BytesPerSecond(1e9)).find("nothing of it") == std::string::npos);
  const auto exposed = [&](double bandwidth, Bytes size, Seconds attention) {
    const double sent = 3e-6 + size.value() / bandwidth;
    return std::max(0.0, sent - attention.value() / 4);
  };
  // Two blocks, three micro-batches.
  for (const double bandwidth : {1e9, 1e10, 3e10, 1e13}) {
    CAPTURE(bandwidth);
    const double forward = 3 * exposed(bandwidth, keys, unit->attention);
    const double backward = 2 * exposed(bandwidth, keys, unit->attention_backward) +
                            2 * exposed(bandwidth, keys * 2, unit->attention_backward);
    const double once = context(BytesPerSecond(bandwidth), "");
    CHECK(once == Approx(2 * 3 * (forward + backward)));
    CHECK((once > 0) == (bandwidth < 1e13));
    // Attention that is done again needs its keys and values again.
    CHECK(context(BytesPerSecond(bandwidth), ",recompute=selective") == Approx(2 * 3 * (2 * forward + backward)));
  }
}

TEST_CASE("attention that is not fused says of many tokens what attention=flash would take") {
  const Cluster c = machines(1, 8);
  const auto at = [&](const std::string& more, double memory) {
    LayoutOptions options;
    options.global_batch = 8;
    options.memory_cap = Bytes(memory);
    return predicted(gpt("hidden=1024,layers=4,heads=16,vocab=51200,seq=" + more), c,
                     layout_plan_of("layout(mb=1)/ddp"), options);
  };
  const auto told = [](const LayoutPrediction& p) {
    std::string all;
    for (const std::string& warning : p.warnings)
      if (warning.find("attention=flash") != std::string::npos) all += warning;
    return all;
  };
  const auto unfused = at("32768", 1e15), fused = at("32768,attention=flash", 1e15);
  REQUIRE(unfused);
  REQUIRE(fused);
  CHECK(
      told(*unfused) ==
      "attention is not fused, and its scores grow with the square of 32768 tokens: with attention=flash in the model "
      "this layout takes " +
          text_of(fused->iteration) + " and " + text_of(fused->memory.total()) + " a device");
  CHECK(told(*fused).empty());
  CHECK(told(*at("1024", 1e15)).empty());
  // What does not fit says so, too.
  const auto refused = at("32768", (unfused->memory.total() * 0.5).value());
  REQUIRE_FALSE(refused);
  CHECK(refused.reason().find("; with attention=flash in the model it takes " + text_of(fused->iteration)) !=
        std::string::npos);
}

TEST_CASE("overlap_tp hides what weight gradients cover of the sums of input gradients, and nothing else") {
  const Workload w = gpt();
  Cluster c = machines(1, 8);
  const auto parts = [&](const std::string& more) {
    const Answer<LayoutPrediction> p = predict(w, c, "layout(tp=8,mb=4" + more + ")/ddp", 16);
    REQUIRE(p);
    return p->breakdown;
  };
  // Two of a block's four sums, and one of the logits', over links so fast that weight gradients cover them all.
  c.inside.bandwidth = BytesPerSecond(1e14);
  c.inside.latency = Seconds(0);
  const LayoutBreakdown apart = parts(""), beside = parts(",overlap_tp=on");
  CHECK(beside.compute == apart.compute);
  const double blocks = 14, losses = apart.tensor.value() -
                                     (4 * blocks + 2) * (apart.tensor - beside.tensor).value() / (2 * blocks + 1);
  CHECK(losses >= 0);
  CHECK(losses < 0.01 * apart.tensor.value());
  // Over slow ones the weight gradients are all that is saved.
  c.inside.bandwidth = BytesPerSecond(1e8);
  const Seconds saved = parts("").tensor - parts(",overlap_tp=on").tensor;
  CHECK(saved > Seconds(0));
  CHECK(saved < apart.compute / 3);
  c.inside.bandwidth = BytesPerSecond(1e9);
  CHECK((parts("").tensor - parts(",overlap_tp=on").tensor).value() == Approx(saved.value()).epsilon(1e-9));
  // With sequence parallelism half of the bytes of a sum wait for the next product.
  c.inside.bandwidth = BytesPerSecond(1e14);
  CHECK(parts(",sp=on,overlap_tp=on").tensor > parts(",overlap_tp=on").tensor * 0.99);
  for (const std::string no : {"tp=4,scheme=2d", "tp=2,pp=2,schedule=zb_h1"})
    CHECK(!predict(w, machines(1, 4), "layout(" + no + ",overlap_tp=on)/ddp", 16));
}

TEST_CASE("overlap_tp=products leaves a part of what is gathered and scattered, or of the products beside it") {
  const Workload w = gpt();
  Cluster c = machines(1, 8);
  const auto parts = [&](const std::string& more) {
    const Answer<LayoutPrediction> p = predict(w, c, "layout(tp=8,mb=4,sp=on" + more + ")/ddp", 16);
    REQUIRE_MESSAGE(p, p.reason());
    return p->breakdown;
  };
  c.inside.latency = Seconds(0);
  c.inside.bandwidth = BytesPerSecond(1e12);
  const LayoutBreakdown none = parts(""), sums = parts(",overlap_tp=on"), all = parts(",overlap_tp=products");
  CHECK(all.compute == none.compute);
  CHECK(all.tensor < sums.tensor);
  CHECK(sums.tensor < none.tensor);
  // Over slow links the products are hidden but for the one of eight parts that nothing goes beside.
  c.inside.bandwidth = BytesPerSecond(1e8);
  const Seconds saved = parts(",overlap_tp=on").tensor - parts(",overlap_tp=products").tensor;
  CHECK(saved > Seconds(0));
  CHECK(saved < none.compute * (7. / 8));
  c.inside.bandwidth = BytesPerSecond(5e8);
  CHECK((parts(",overlap_tp=on").tensor - parts(",overlap_tp=products").tensor).value() ==
        Approx(saved.value()).epsilon(1e-9));
  // What full recomputation sends again hides as much, but for the sums that nothing reads.
  CHECK(parts(",overlap_tp=products,recompute=full").tensor < parts(",overlap_tp=on,recompute=full").tensor);
  const auto refused = [&](const Cluster& cluster, const std::string& plan) {
    const Answer<LayoutPrediction> p = predict(w, cluster, "layout(" + plan + ",overlap_tp=products)/ddp", 16);
    return p ? std::string() : p.reason();
  };
  CHECK(refused(c, "tp=8").find("sp=on") != std::string::npos);
  CHECK(refused(machines(2, 4), "tp=8,sp=on").find("share a machine") != std::string::npos);
  CHECK(refused(machines(2, 4), "tp=4,sp=on").empty());
}

TEST_CASE(
    "overlap_tp=products registers ten whole activations, at the head of a model too, and hides what a kernel set "
    "can") {
  const Cluster c = machines(2, 4);
  const auto buffers = [&](const Workload& w, const std::string& more) {
    const Answer<LayoutPrediction> p = predict(w, c, "layout(tp=4,mb=2,sp=on" + more + ")/ddp", 16);
    REQUIRE_MESSAGE(p, p.reason());
    return p->memory.buffers;
  };
  const double activation = 2.0 * 1024 * 1024 * 2;  // samples, tokens, hidden elements, bytes
  for (const std::string pipeline : {"", ",pp=2"})
    CHECK((buffers(gpt(), pipeline + ",overlap_tp=products") - buffers(gpt(), pipeline + ",overlap_tp=on")).value() ==
          Approx(10 * activation));
  const std::string llama = "hidden=1024,layers=14,heads=16,seq=1024,vocab=51200,attention=flash";
  const auto tensor = [&](const std::string& kernels, const std::string& more) {
    return predict(gpt(llama + kernels), c, "layout(tp=4,mb=2,sp=on" + more + ")/ddp", 16)->breakdown.tensor;
  };
  CHECK(tensor(",kernels=compiled", ",overlap_tp=on") == tensor(",kernels=compiled", ""));
  CHECK(tensor(",kernels=compiled", ",overlap_tp=products") < tensor(",kernels=compiled", ""));
  CHECK(tensor(",kernels=eager", ",overlap_tp=products") == tensor(",kernels=eager", ""));
}

TEST_CASE("A product beside its gather: the first part alone, then the slower of the next part and its message") {
  const Cluster c = machines(1, 4);
  Layout l;
  l.tensor = 4;
  const Answer<Layout> resolved_layout = resolved(l, 4, 4);
  REQUIRE(resolved_layout);
  PricedGroups groups(c);
  GroupPrices prices(groups, *resolved_layout);
  const RankAxis axis = rank_axis(*resolved_layout, Dimension::tensor);
  const TensorTransfer gather{Operation::all_gather, 4, Bytes(1e8), 1};
  const Seconds alone = prices.once(gather, axis), message = alone / 3;
  for (const double ratio : {0.1, 1.0, 10.0}) {
    CAPTURE(ratio);
    const Seconds part = message * ratio;
    const GroupPrices::Pipelined p = prices.pipelined({gather, part * 4, part * 4}, axis);
    CHECK(p.alone == alone);
    CHECK(p.elapsed.value() == Approx((part + std::max(part, message) * 3).value()).epsilon(1e-9));
    CHECK(p.saved(part * 4).value() == Approx((std::min(part, message) * 3).value()).epsilon(1e-9));
    // Parts that are slower than the whole by all that is hidden are not worth it.
    CHECK(prices.pipelined({gather, part * 4, part * 4 + alone * 2}, axis).saved(part * 4) == Seconds(0));
  }
}

TEST_CASE("Switches that hide work never cost time, those that repeat it never save it") {
  const Workload w = gpt();
  const Cluster c = machines(4, 8);
  for (const std::string base : {"tp=2,pp=4,mb=2", "tp=8,mb=4", "pp=2,mb=1", "mb=1"}) {
    CAPTURE(base);
    const auto time = [&](const std::string& more) { return step(w, c, "layout(" + base + more + ")/ddp", 128); };
    CHECK(time("") <= time(",overlap_dp=off"));
    CHECK(time("") <= time(",overlap_pp=off"));
    CHECK(time(",overlap_tp=on") <= time(""));
    CHECK(time(",sp=on,overlap_tp=products") <= time(",sp=on,overlap_tp=on"));
    CHECK(time("") <= time(",recompute=selective"));
    CHECK(time(",recompute=selective") <= time(",recompute=full"));
    CHECK(time(",zero=3") <= time(",zero=3,in_flight=1"));
    CHECK(time(",zero=3,in_flight=3") <= time(",zero=3"));
  }
}

TEST_CASE("Memory falls with recomputation, ZeRO and stages") {
  const Workload w = gpt();
  const Cluster c = machines(4, 8);
  const auto memory = [&](const std::string& fields) {
    const Answer<LayoutPrediction> p = predict(w, c, "layout(mb=1," + fields + ")/ddp", 128);
    REQUIRE_MESSAGE(p, fields);
    return p->memory.total();
  };
  CHECK(memory("tp=2,recompute=full") < memory("tp=2,recompute=selective"));
  CHECK(memory("tp=2,recompute=selective") < memory("tp=2"));
  CHECK(memory("zero=3") < memory("zero=2"));
  CHECK(memory("zero=2") < memory("zero=1"));
  CHECK(memory("zero=1") < memory("zero=0"));
  CHECK(memory("tp=4,sp=on") < memory("tp=4"));
  CHECK(memory("pp=4") < memory("pp=4,schedule=gpipe"));
}

TEST_CASE("What does not fit says by how much, and what would help") {
  const Workload w = gpt("hidden=8192,layers=48,heads=64,seq=2048");
  Cluster c = machines(1, 8);
  c.device_memory = Bytes(80e9);
  const auto reason = [&](const std::string& plan) {
    const Answer<LayoutPrediction> p = predict(w, c, plan, 64);
    return p ? std::string("fits") : p.reason();
  };
  const std::string activations = reason("layout(tp=8,mb=8)/ddp");
  CHECK_MESSAGE(activations.find("needs ") == 0, activations);
  CHECK_MESSAGE(activations.find(" of 74.5 GiB on stage 0: activations ") != std::string::npos, activations);
  CHECK_MESSAGE(activations.find("recompute=full") != std::string::npos, activations);
  const std::string state = reason("layout(tp=2,mb=1,recompute=full)/ddp");
  CHECK_MESSAGE(state.find("optimizer state") != std::string::npos, state);
  CHECK_MESSAGE(state.find("zero=1") != std::string::npos, state);
  // The cap of the options comes before the cluster's.
  LayoutOptions options;
  options.global_batch = 64;
  options.memory_cap = Bytes(1e13);
  CHECK(predicted(w, c, layout_plan_of("layout(tp=2,mb=1)/ddp"), options));
}

TEST_CASE("A token that goes once to each machine sends as many copies as machines have some of its experts") {
  Device d = device();
  d.issue = Seconds(0);
  const Workload w = workload_of(
      model_shape_of(
          "llama:hidden=1024,layers=2,heads=16,seq=1024,vocab=512,experts=64,topk=6,attention=flash,dtype=f16"),
      d);
  Cluster c = machines(8, 2);
  c.network.latency = c.inside.latency = Seconds(0);
  const auto exchange = [&](const Cluster& on, const std::string& fields) {
    const auto p = predict(w, on, "layout(mb=1, ep=16" + fields + ")/ddp", 16);
    REQUIRE_MESSAGE(p, (p ? std::string() : p.reason()));
    return p->breakdown.expert.value();
  };
  // The oracle draws six of 64 experts, eight of which are on each machine, four on each device.
  std::mt19937 random(5);
  std::vector<int> experts(64);
  std::iota(experts.begin(), experts.end(), 0);
  double machines_met = 0, devices_met = 0;
  constexpr int draws = 20000;
  for (int i = 0; i < draws; ++i) {
    std::shuffle(experts.begin(), experts.end(), random);
    std::set<int> of_machines, of_devices;
    for (int k = 0; k < 6; ++k)
      of_machines.insert(experts[std::size_t(k)] / 8), of_devices.insert(experts[std::size_t(k)] / 4);
    machines_met += double(of_machines.size()), devices_met += double(of_devices.size());
  }
  CHECK(exchange(c, ", ep_comm=deepep") / exchange(c, "") == Approx(machines_met / draws / 6).epsilon(0.01));
  Cluster one = machines(1, 16);
  one.inside.latency = Seconds(0);
  CHECK(exchange(one, ", ep_comm=deepep") / exchange(one, "") == Approx(devices_met / draws / 6).epsilon(0.01));
}

TEST_CASE("Layouts that the model or the plan does not allow are inapplicable") {
  const Workload w = gpt();
  const Cluster c = machines(4, 8);
  const auto reason = [&](const std::string& plan) {
    const Answer<LayoutPrediction> p = predict(w, c, plan, 128);
    return p ? std::string("works") : p.reason();
  };
  CHECK(reason("layout(tp=32)/ddp").find("heads") != std::string::npos);
  CHECK(reason("layout(pp=32,mb=1)/ddp").find("16 units do not fill 32 stages") == 0);
  CHECK(reason("layout(pp=2,stages=3+4)/ddp").find("the model has 16") != std::string::npos);
  CHECK(reason("layout(pp=2,stages=7+9)/ddp") == "works");
  CHECK(reason("layout(zero=1)/ddp+topk").find("topk: its messages cannot be added up") == 0);
  CHECK(reason("layout(zero=1)/ddp+fp16") == "works");
  CHECK(reason("layout(ep=2)/ddp").find("no experts") != std::string::npos);
}

TEST_CASE("Utilization counts the operations of the model, not what is recomputed") {
  const Workload w = gpt();
  const Cluster c = machines(1, 8);
  const Answer<LayoutPrediction> p = predict(w, c, "layout(mb=4)/ddp", 32);
  const Answer<LayoutPrediction> full = predict(w, c, "layout(mb=4,recompute=full)/ddp", 32);
  REQUIRE(p);
  REQUIRE(full);
  CHECK(p->model_flops_utilization > 0.05);
  CHECK(p->model_flops_utilization < 0.7);
  CHECK(p->model_flops_utilization * p->iteration.value() ==
        Approx(full->model_flops_utilization * full->iteration.value()));
}

TEST_CASE("Without a measured step of the device the interval is wide and late, and the answer says so") {
  const Cluster c = machines(1, 8);
  const auto at = [&](double relative_error) {
    Device d = device();
    d.relative_error = relative_error;
    const Answer<LayoutPrediction> p =
        predict(workload_of(model_shape_of("gpt:hidden=1024,layers=14,heads=16,seq=1024"), d), c,
                "layout(zero=1,mb=4)/ddp", 256);
    REQUIRE(p);
    return *p;
  };
  const auto doubted = [](const LayoutPrediction& p) {
    return std::ranges::count_if(p.warnings, [](const std::string& w) {
      return w.starts_with("no measured step or product of this type stands behind the rates of test device") &&
             w.find("--measured") != std::string::npos;
    });
  };
  const LayoutPrediction unmeasured = at(0), measured = at(0.09);
  CHECK(unmeasured.iteration == measured.iteration);
  CHECK(doubted(unmeasured) == 1);
  CHECK(doubted(measured) == 0);
  const auto below = [](const LayoutPrediction& p) { return 1 - p.interval_low / p.iteration; };
  const auto above = [](const LayoutPrediction& p) { return p.interval_high / p.iteration - 1; };
  CHECK(above(measured) == Approx(below(measured)));
  CHECK(above(unmeasured) > 0.3);
  CHECK(above(unmeasured) > 1.5 * below(unmeasured));
}

TEST_CASE("The timeline is the pipeline of the prediction") {
  const Workload w = gpt();
  const Cluster c = machines(4, 8);
  LayoutOptions options;
  options.global_batch = 128;
  for (const char* plan : {"layout(tp=4,pp=4,mb=1)/ddp", "layout(tp=8,pp=2,chunks=2,mb=2)/ddp"}) {
    const Answer<LayoutTimeline> t = layout_timeline(w, c, layout_plan_of(plan), options);
    const Answer<LayoutPrediction> p = predicted(w, c, layout_plan_of(plan), options);
    REQUIRE(t);
    REQUIRE(p);
    Seconds last;
    for (const StageSummary& s : p->stages) last = std::max(last, s.last_backward);
    CHECK(t->timeline.iteration_time().value() == Approx(last.value()).epsilon(1e-6));
  }
}

TEST_CASE("Tied embeddings are summed between the ends of a pipeline") {
  const Cluster c = machines(4, 8);
  const Workload w = gpt();
  if (w.kinds.back().tied_parameters == 0) {
    CHECK_MESSAGE(false, "a gpt's head shares the weights of its embedding");
    return;
  }
  Workload untied = w;
  untied.shape->units.back().tied_parameters = 0;
  for (UnitKind& kind : untied.kinds) {
    kind.tied_parameters = 0;
    kind.shape->tied_parameters = 0;
  }
  CHECK(step(w, c, "layout(tp=4,pp=4,mb=1)/ddp", 128) > step(untied, c, "layout(tp=4,pp=4,mb=1)/ddp", 128));
  CHECK(step(w, c, "layout(tp=4,mb=1)/ddp", 128) == step(untied, c, "layout(tp=4,mb=1)/ddp", 128));
}
