// Layouts: their text, and what they resolve to for a number of devices and a batch.
#include "helpers/random_input.hpp"

#include <stepcast/layout/layout.hpp>
#include <stepcast/layout/tensor_scheme.hpp>
#include <stepcast/pipeline/pipeline.hpp>

#include <doctest/doctest.h>

#include <random>
#include <string>

using namespace stepcast;

namespace {

std::string refusal(std::string_view text) {
  try {
    (void)layout_plan_of(text);
  } catch (const InputError& e) { return e.what(); }
  return "accepted";
}
std::string round_trip(std::string_view text) { return text_of(layout_plan_of(text)); }

Layout random_layout(test::Draw& draw) {
  const auto count = [&](int most) { return static_cast<std::int64_t>(draw.whole(1, most)); };
  Layout l;
  l.tensor = count(8);
  l.context = count(3);
  if (l.context > 1) l.context_exchange = static_cast<ContextExchange>(draw.whole(0, 2));
  l.data = draw.whole(0, 4);
  l.pipeline = count(6);
  l.expert = count(2);
  l.expert_tensor = draw.whole(0, 2);
  l.chunks = count(3);
  l.micro_batch = draw.whole(0, 4);
  l.zero = draw.whole(0, 3);
  l.units_in_flight = count(3);
  l.recomputation = static_cast<Recomputation>(draw.whole(0, 3));
  l.offloaded = static_cast<std::uint8_t>(draw.whole(0, 7));
  if (l.offloads(Offloaded::parameters)) l.offloaded |= 1;  // not without the optimizer
  l.sequence_parallel = draw.whole(0, 1) == 1;
  l.overlap_tensor = static_cast<TensorOverlap>(draw.whole(0, 2));
  l.overlap_pipeline = draw.whole(0, 1) == 1;
  l.overlap_gradients = draw.whole(0, 1) == 1;
  for (int i = draw.whole(0, 3); i > 0; --i)
    std::swap(l.order[static_cast<std::size_t>(draw.whole(0, 3))], l.order[static_cast<std::size_t>(draw.whole(0, 3))]);
  if (draw.whole(0, 2) == 0) l.schedule = &pipeline_schedules()[static_cast<std::size_t>(draw.whole(0, 4))];
  if (draw.whole(0, 2) == 0) l.scheme = &tensor_schemes()[static_cast<std::size_t>(draw.whole(0, 3))];
  for (int i = draw.whole(0, 3); i > 0; --i) l.stage_units.push_back(static_cast<std::uint32_t>(count(9)));
  for (int i = draw.whole(0, 3); i > 0; --i) {  // neighbours choose differently
    const UnitChoice c{static_cast<std::uint32_t>(count(9)), 1 << i, draw.whole(0, 3),
                       static_cast<Recomputation>(draw.whole(0, 2))};
    l.unit_choices.push_back(c);
  }
  return l;
}

}  // namespace

TEST_CASE("What is offloaded is said in words, parameters with the optimizer, and parameters are ZeRO-3's") {
  const Layout all = layout_plan_of("layout(zero=3, offload=activations+parameters)/ddp").layout;
  for (const Offloaded part : {Offloaded::optimizer, Offloaded::parameters, Offloaded::activations})
    CHECK(all.offloads(part));
  CHECK(text_of(all) == "layout(zero=3, offload=parameters+activations)");
  CHECK(round_trip("layout(offload=optimizer+activations)/ddp") == "layout(offload=optimizer+activations)/ddp");
  CHECK(round_trip("layout(offload=activations, offload_blocks=3)/ddp") ==
        "layout(offload=activations, offload_blocks=3)/ddp");
  CHECK(resolved(layout_plan_of("layout(offload=optimizer, offload_blocks=3)/ddp").layout, 8, 8)
            .reason()
            .find("offload is optimizer") != std::string::npos);
  CHECK(round_trip("layout(pp=2, stages=by_time)/ddp") == "layout(pp=2, stages=by_time)/ddp");
  CHECK(refusal("layout(offload=optimiser)/ddp").find("did you mean 'optimizer'?") != std::string::npos);
  CHECK(refusal("layout(offload=optimizer+optimizer)/ddp").find("each word once") != std::string::npos);
  CHECK(resolved(layout_plan_of("layout(zero=2, offload=parameters)/ddp").layout, 8, 8).reason().find("zero is 2") !=
        std::string::npos);
  CHECK(resolved(layout_plan_of("layout(offload=optimizer, units=tp2+tp1)/ddp").layout, 8, 8)
            .reason()
            .find("units that choose") != std::string::npos);
}

TEST_CASE("A layout stands in front of a plan and shows what differs from the defaults") {
  const LayoutPlan plan = layout_plan_of(" layout( tp=8, pp = 4 ,mb=2, zero=1, order=tp-dp-pp) / ddp(bucket=5 MiB)");
  CHECK(plan.layout.tensor == 8);
  CHECK(plan.layout.pipeline == 4);
  CHECK(plan.layout.micro_batch == 2);
  CHECK(plan.layout.zero == 1);
  CHECK(plan.layout.order == Layout{}.order);  // cp stays beside tp
  CHECK(text_of(plan) == "layout(tp=8, pp=4, mb=2, zero=1)/ddp(bucket=5 MiB)");
  CHECK(round_trip("ddp") == "layout/ddp");
  CHECK(round_trip("layout/ddp") == "layout/ddp");
  CHECK(round_trip("layout()/ddp") == "layout/ddp");
  CHECK(round_trip("layout(tp=1, scheme=1d, schedule=1f1b, sp=off)/ddp") == "layout/ddp");
  CHECK(round_trip("layout(pp=4,chunks=2,schedule=interleaved)/ddp") == "layout(pp=4, chunks=2)/ddp");
  CHECK(round_trip("layout(order=pp-tp-dp, stages=3+4)/ddp") == "layout(order=pp-tp-dp, stages=3+4)/ddp");
  CHECK(round_trip("layout(overlap_dp=off,overlap_pp=off,sp=on,recompute=full)/ddp@ring") ==
        "layout(recompute=full, sp=on, overlap_pp=off, overlap_dp=off)/ddp@ring");
  CHECK(round_trip("layout(overlap_tp=on, tp=2)/ddp") == "layout(tp=2, overlap_tp=on)/ddp");
}

TEST_CASE("What frameworks call sharded data parallelism is a layout of that stage") {
  CHECK(round_trip("fsdp") == "layout(zero=3)/ddp");
  CHECK(round_trip("fsdp2") == "layout(zero=3)/ddp");
  CHECK(round_trip(" zero1 ") == "layout(zero=1)/ddp");
  CHECK(round_trip("zero2(mb=4)") == "layout(mb=4, zero=2)/ddp");
  CHECK(round_trip("zero3/ddp(bucket=5 MiB)@ring") == "layout(zero=3)/ddp(bucket=5 MiB)@ring");
  CHECK(has_layout("fsdp"));
  CHECK(!has_layout("fsdpx"));
  CHECK(refusal("fsdp/").find("the name of a strategy") != std::string::npos);
  CHECK(refusal("layout(tp=2)/").find("the name of a strategy") != std::string::npos);
  CHECK(refusal("fsdp ddp").find("column 6") != std::string::npos);
  CHECK(round_trip("hsdp") == "layout(zero=3, shard=machine)/ddp");
  CHECK_THROWS_WITH_AS((void)plan_spec_of("hsdp"), doctest::Contains("'layout(zero=3, shard=machine)/ddp' is its"),
                       InputError);
  CHECK_THROWS_WITH_AS((void)plan_spec_of("zero2"), doctest::Contains("'layout(zero=2)/ddp' is its layout"),
                       InputError);
}

TEST_CASE("What each unit chooses is written in forward order, and neighbours that choose the same are one") {
  const Layout l = layout_plan_of("layout(units=tp4 + 16*zero3-full + 2*tp2-selective)/ddp").layout;
  CHECK(l.unit_choices == std::vector<UnitChoice>{{1, 4, 0, Recomputation::none},
                                                  {16, 1, 3, Recomputation::full},
                                                  {2, 2, 0, Recomputation::selective}});
  CHECK(round_trip("layout(units=tp4+16*full-zero3+2*tp2-selective)/ddp") ==
        "layout(units=tp4+16*tp1-zero3-full+2*tp2-selective)/ddp");
  CHECK(round_trip("layout(mb=2,units=tp1+tp1-zero0+3*tp1+tp2)/ddp") == "layout(mb=2, units=5*tp1+tp2)/ddp");
  for (const auto& [text, column] :
       std::vector<std::pair<std::string, std::string>>{{"layout(units=tp4+)/ddp", "column 18"},
                                                        {"layout(units=0*tp4)/ddp", "column 14"},
                                                        {"layout(units=2*tp4-tp2)/ddp", "column 20"},
                                                        {"layout(units=2*zero4)/ddp", "column 16"},
                                                        {"layout(units=blocks)/ddp", "column 14"}}) {
    INFO(text);
    try {
      (void)layout_plan_of(text);
      FAIL("accepted");
    } catch (const InputError& e) { CHECK(std::string(e.what()).find(column) != std::string::npos); }
  }
}

TEST_CASE("Units that choose for themselves leave no room for another way of dividing") {
  const auto resolved_text = [](const std::string& text, std::int64_t devices, double batch) -> std::string {
    const Answer<Layout> l = resolved(layout_plan_of(text).layout, devices, batch);
    return l ? text_of(*l) : l.reason();
  };
  // Data parallelism of the widest units: 8 devices by a tensor degree of 2.
  CHECK(resolved_text("layout(units=tp2-zero1+3*tp4)/ddp", 8, 16) == "layout(tp=2, dp=4, mb=4, units=tp2-zero1+3*tp4)");
  CHECK(resolved_text("layout(units=tp3+tp1)/ddp", 8, 16).find("3 does not divide 8") != std::string::npos);
  CHECK(resolved_text("layout(tp=4, units=tp2+tp1)/ddp", 8, 16).find("leave them out") != std::string::npos);
  CHECK(resolved_text("layout(zero=1, units=tp2+tp1)/ddp", 8, 16).find("leave them out") != std::string::npos);
  CHECK(resolved_text("layout(pp=2, units=tp2+tp1)/ddp", 8, 16).find("leave pp") != std::string::npos);
  // 6 devices as 3 x 2 and 2 x 3: three samples a micro-batch do not divide among two replicas.
  CHECK(resolved_text("layout(mb=1, units=tp2+tp3)/ddp", 6, 6).find("do not divide into the 2 replicas") !=
        std::string::npos);
  Layout open = layout_plan_of("layout(units=tp2+tp3)/ddp").layout;
  CHECK(micro_batch_choices(open, 6, 12) == std::vector<std::int64_t>{4, 2});
}

TEST_CASE("Only texts with a layout have one") {
  CHECK(has_layout("layout(tp=8)/ddp"));
  CHECK(has_layout(" layout /ddp"));
  CHECK(has_layout("layout"));
  CHECK_FALSE(has_layout("ddp"));
  CHECK_FALSE(has_layout("layouts(tp=8)/ddp"));
}

TEST_CASE("Every layout reads back to itself") {
  test::Draw draw(11);
  for (int i = 0; i < 500; ++i) {
    Layout l = random_layout(draw);
    // What names the default is the default.
    if (l.scheme && l.scheme->name == "1d") l.scheme = nullptr;
    if (l.schedule && l.schedule->name == (l.chunks > 1 ? "interleaved" : "1f1b")) l.schedule = nullptr;
    const std::string text = text_of(LayoutPlan{l, plan_spec_of("ddp")});
    CAPTURE(text);
    CHECK(layout_plan_of(text).layout == l);
    CHECK(round_trip(text) == text);
  }
}

TEST_CASE("Full recomputation is of all blocks, of the first of each stage, or of groups") {
  const LayoutPlan some = layout_plan_of("layout(pp=4, recompute=full, recompute_blocks=3)/ddp");
  CHECK(some.layout.recomputed_blocks == 3);
  CHECK(text_of(some) == "layout(pp=4, recompute=full, recompute_blocks=3)/ddp");
  const Layout groups = layout_plan_of("layout(recompute=full, recompute_group=2)/ddp").layout;
  CHECK(groups.recomputed_together == 2);
  CHECK(text_of(groups) == "layout(recompute=full, recompute_group=2)");
  CHECK(text_of(layout_plan_of("layout(recompute=full, recompute_group=1)/ddp").layout) == "layout(recompute=full)");
  const auto why = [](const std::string& text) {
    const Answer<Layout> out = resolved(layout_plan_of(text).layout, 8, 8);
    return out ? std::string() : out.reason();
  };
  CHECK(why("layout(recompute=full, recompute_blocks=3)/ddp").empty());
  CHECK(why("layout(recompute_blocks=3)/ddp") ==
        "recompute_blocks= says how recompute=full does blocks again, and recompute is none");
  CHECK(why("layout(recompute=selective, recompute_group=3)/ddp") ==
        "recompute_group= says how recompute=full does blocks again, and recompute is selective");
  CHECK(why("layout(recompute=full, recompute_blocks=3, recompute_group=2)/ddp").find("say one of both") !=
        std::string::npos);
}

TEST_CASE("How tokens get to their experts is said beside expert parallelism") {
  const Layout l = layout_plan_of("layout(ep=8, ep_comm=deepep)/ddp").layout;
  CHECK(l.expert_exchange == ExpertExchange::deduplicated);
  CHECK(text_of(l) == "layout(ep=8, ep_comm=deepep)");
  CHECK(text_of(layout_plan_of("layout(ep=8, ep_comm=alltoall)/ddp").layout) == "layout(ep=8)");
  CHECK(resolved(layout_plan_of("layout(ep_comm=deepep)/ddp").layout, 8, 8).reason() ==
        "ep_comm=deepep says how tokens get to the devices of ep=, and ep is 1");
  CHECK(refusal("layout(ep=8, ep_comm=deep)/ddp").find("deepep") != std::string::npos);
}

TEST_CASE("Tokens beside another micro-batch are said of spread experts, and of passes that follow one another") {
  const Layout l = layout_plan_of("layout(ep=8, overlap_ep=on)/ddp").layout;
  CHECK(l.overlap_expert);
  CHECK(text_of(l) == "layout(ep=8, overlap_ep=on)");
  CHECK(text_of(layout_plan_of("layout(ep=8, overlap_ep=off)/ddp").layout) == "layout(ep=8)");
  CHECK(resolved(layout_plan_of("layout(overlap_ep=on)/ddp").layout, 8, 8).reason() ==
        "overlap_ep=on runs what the devices of ep= exchange beside another micro-batch, and ep is 1");
  for (const std::string name : {"gpipe", "zb_h1"})
    CHECK(resolved(layout_plan_of("layout(ep=4, pp=2, mb=1, schedule=" + name + ", overlap_ep=on)/ddp").layout, 8, 16)
              .reason() ==
          name + " runs no forward pass behind a whole backward pass, beside which overlap_ep=on sends");
  CHECK(resolved(layout_plan_of("layout(ep=4, pp=2, mb=1, overlap_ep=on)/ddp").layout, 8, 16));
}

TEST_CASE("Recomputation of modules names each once, in any order") {
  const Layout l = layout_plan_of("layout(recompute=mla_up_proj+layernorm)/ddp").layout;
  CHECK(l.recomputation == Recomputation::modules);
  CHECK(l.recomputed_modules == 0b101);
  CHECK(text_of(l) == "layout(recompute=layernorm+mla_up_proj)");
  CHECK(layout_plan_of(text_of(l) + "/ddp").layout == l);
  CHECK(refusal("layout(recompute=moe_act+moe_act)/ddp").find("each module once") != std::string::npos);
  for (const std::string text : {"full+moe_act", "moe_act+full", "none+moe_act", "full+full"})
    CHECK(refusal("layout(recompute=" + text + ")/ddp").find("modules alone between '+'") != std::string::npos);
  CHECK(refusal("layout(recompute=moe_art)/ddp").find("moe_act") != std::string::npos);
  Layout none = l;
  none.recomputed_modules = 0;
  CHECK(resolved(none, 8, 8).reason().find("names none") != std::string::npos);
}

TEST_CASE("Refusals of layouts name the column") {
  CHECK(refusal("layout(tb=8)/ddp").find("plan, column 8: expected an option of 'layout' (tp, cp, cp_comm, dp, ") == 0);
  CHECK(refusal("layout(tb=8)/ddp").find("did you mean 'tp'?") != std::string::npos);
  CHECK(refusal("layout(tp=8,tp=8)/ddp") == "plan, column 13: expected each option once, found 'tp' again");
  CHECK(refusal("layout(tp=0)/ddp").find("plan, column 11, option 'tp'") == 0);
  CHECK(refusal("layout(zero=4)/ddp").find("option 'zero'") != std::string::npos);
  CHECK(refusal("layout(sp=yes)/ddp") == "plan, column 11: expected one of off, on for option 'sp', found 'yes'");
  CHECK(refusal("layout(scheme=2dd)/ddp").find("did you mean '2d'?") != std::string::npos);
  CHECK(refusal("layout(order=tp-tp)/ddp") == "plan, column 17: expected each dimension once, found 'tp' again");
  CHECK(refusal("layout(tp=8)ddp") ==
        "plan, column 13: expected '/' and a plan after the layout, such as '/ddp', found 'd'");
  CHECK(refusal("layout(tp=8").find("expected ',' or ')'") != std::string::npos);
  CHECK(refusal("layout(tp=8)/dpp") == "plan, column 14: expected a strategy, found 'dpp'; did you mean 'ddp'?");
  CHECK(refusal("layout(tp=8)/layout(pp=2)/ddp").find("column 26") != std::string::npos);
}

TEST_CASE("Damaged texts are refused, never worse") {
  std::mt19937_64 random(3);
  const std::string words[] = {"layout", "(", ")", "/", "tp", "=", "8", ",", "ddp", "order", "-", "stages", "3+4", " "};
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = i % 2 ? "layout(" : "";
    for (int n = std::uniform_int_distribution<int>(0, 8)(random); n > 0; --n)
      text += words[std::uniform_int_distribution<std::size_t>(0, std::size(words) - 1)(random)];
    if (i % 3 == 0) text += ")/ddp";
    CAPTURE(text);
    try {
      const std::string once = round_trip(text);
      CHECK(round_trip(once) == once);
      ++read;
    } catch (const InputError& e) { CHECK(!e.expected.empty()); }
  }
  CHECK(read > 10);
}

TEST_CASE("The data degree is what is left, an open micro-batch all samples of a replica") {
  Layout l;
  l.tensor = 8;
  l.pipeline = 4;
  const Answer<Layout> r = resolved(l, 64, 512);
  REQUIRE(r);
  CHECK(r->data == 2);
  CHECK(r->micro_batch == 256);
  CHECK(r->scheme->name == "1d");
  CHECK(r->schedule->name == "1f1b");
  CHECK(micro_batches(*r, 512) == 1);
  CHECK(micro_batch_choices(l, 64, 48) == std::vector<std::int64_t>{24, 12, 8, 6, 4, 3, 2, 1});
  CHECK(micro_batch_choices(l, 64, 18) == std::vector<std::int64_t>{9, 3, 1});
  CHECK(micro_batch_choices(l, 64, 49).empty());  // does not divide into two replicas
  CHECK(micro_batch_choices(l, 63, 48).empty());
  l.micro_batch = 4;
  l.chunks = 2;
  const Answer<Layout> i = resolved(l, 64, 512);
  REQUIRE(i);
  CHECK(i->schedule->name == "interleaved");
  CHECK(i->micro_batch == 4);
  CHECK(resolved(*i, 64, 512)->micro_batch == 4);  // what is resolved stays
  CHECK(micro_batch_choices(*i, 64, 512).empty());
}

TEST_CASE("Layouts that do not work out say why") {
  const auto why = [](const char* text, std::int64_t devices, double batch) {
    const Answer<Layout> r = resolved(layout_plan_of(text).layout, devices, batch);
    return r ? std::string("works") : r.reason();
  };
  CHECK(why("layout(tp=8,pp=4)/ddp", 64, 512) == "works");
  CHECK(why("layout(tp=8,pp=3)/ddp", 64, 512) == "tp 8 x pp 3 does not make 64 devices");
  CHECK(why("layout(tp=8,dp=4)/ddp", 64, 512) == "tp 8 x dp 4 x pp 1 does not make 64 devices");
  CHECK(why("layout(ep=3)/ddp", 64, 512).find("ep 3 does not divide dp 64") == 0);
  CHECK(why("layout(chunks=4,mb=1)/ddp", 64, 512) == "chunks are parts of the stages of a pipeline (pp=2 or more)");
  // Experts over the ranks of a stage: with etp=1 those of the tensor group, too.
  CHECK(why("layout(tp=2,pp=8,ep=32,etp=1,sp=on)/ddp", 256, 512) == "works");
  CHECK(why("layout(cp=2,ep=64)/ddp", 64, 512) == "works");
  CHECK(why("layout(tp=2,pp=8,ep=32,sp=on)/ddp", 256, 512) ==
        "ep 32 does not divide dp 16, the ranks over which experts are spread; etp=1 keeps experts whole and spreads "
        "them over tp, too");
  CHECK(why("layout(tp=2,pp=8,ep=64,etp=1,sp=on)/ddp", 256, 512).find("ep 64 does not divide tp 2 x dp 16,") == 0);
  CHECK(why("layout(tp=4,ep=2,etp=2)/ddp", 64, 512).find("etp=2: an expert is whole (1)") == 0);
  CHECK(why("layout(tp=4,ep=2,etp=4)/ddp", 64, 512) == "works");
  CHECK(why("layout(tp=4,ep=2,etp=1,sp=on)/ddp", 4, 512).find("ep=4 spreads the experts") != std::string::npos);
  CHECK(why("layout(tp=4,ep=4,etp=1,sp=on)/ddp", 4, 512) == "works");
  CHECK(why("layout(tp=4,ep=2,etp=1)/ddp", 64, 512).find("(sp=on)") != std::string::npos);
  CHECK(why("layout(tp=4,pp=2,ep=2,etp=1,sp=on,order=tp-pp-dp-cp)/ddp", 64, 512).find("order=tp-cp-dp-pp") !=
        std::string::npos);
  CHECK(why("layout(tp=8)/ddp", 64, 12).find("12 does not divide into 8") != std::string::npos);
  CHECK(why("layout(tp=8,mb=3)/ddp", 64, 512).find("do not divide into micro-batches of 3") != std::string::npos);
  CHECK(why("layout(tp=8)/ddp", 64, 0.5).find("whole number") != std::string::npos);
  CHECK(why("layout(tp=8,scheme=2d)/ddp", 64, 512) == "2d: 8 devices are no square grid");
  CHECK(why("layout(tp=4,scheme=2d,sp=on)/ddp", 64, 512).find("sequence parallelism") == 0);
  CHECK(why("layout(tp=8,depth=2)/ddp", 64, 512).find("no depth") != std::string::npos);
  CHECK(why("layout(pp=4,chunks=2,schedule=1f1b)/ddp", 64, 512).find("1f1b: ") == 0);
  CHECK(why("layout(pp=4,stages=3+4)/ddp", 64, 512).find("stages= names 2 stages") == 0);
  CHECK(why("layout(tp=1000000000,pp=1000000000,cp=1000000000)/ddp", 64, 512).find("does not make") !=
        std::string::npos);
}
