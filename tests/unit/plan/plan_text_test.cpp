// The text form of plans: what reads, what reads back, and what is refused with which message.
#include <stepcast/plan/strategy.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <set>

using namespace stepcast;

namespace {

std::string refusal(const std::string& text) {
  try {
    const PlanSpec spec = plan_spec_of(text);
    return "accepted as " + text_of(spec);
  } catch (const InputError& e) { return e.what(); }
}

}  // namespace

TEST_CASE("the table of strategies is sound") {
  std::set<std::string_view> names;
  for (const Strategy& s : strategies()) {
    CAPTURE(s.name);
    CHECK(names.insert(s.name).second);
    CHECK(!s.title.empty());
    CHECK(!s.summary.empty());
    CHECK(!s.reference.empty());
    CHECK(s.options.size() <= most_options);
    CHECK(s.phases >= 1);
    CHECK(strategy_named(s.name) == &s);
    REQUIRE(bool(s.settings));
    CHECK(!s.settings(standard_options(s)).empty());
    for (const OptionSpec& o : s.options) {
      CAPTURE(o.name);
      CHECK(o.low <= o.standard);
      CHECK(o.standard <= o.high);
      CHECK(!o.summary.empty());
      if (o.tune_high > 0) CHECK((o.low <= o.tune_low && o.tune_low < o.tune_high && o.tune_high <= o.high));
      if (o.kind == OptionKind::choice) CHECK(!o.choices[static_cast<std::size_t>(o.high)].empty());
    }
  }
  CHECK(strategy_named("no_such") == nullptr);
}

TEST_CASE("plans read with their units and read back") {
  const PlanSpec ddp = plan_spec_of("ddp");
  CHECK(ddp.options[0] == 25 * 1048576.0);
  CHECK(text_of(ddp) == "ddp");
  const PlanSpec dear = plan_spec_of(" dear ( bucket = 25 MB , prefetch=2 ) @ ring ");
  CHECK(dear.options[0] == 25e6);
  CHECK(dear.collective == "ring");
  CHECK(text_of(dear) == "dear(bucket=25000000 B, prefetch=2)@ring");
  CHECK(text_of(plan_spec_of("ddp(bucket=64MiB,first=512 KiB)")) == "ddp(bucket=64 MiB, first=512 KiB)");
  CHECK(text_of(plan_spec_of("ddp(bucket=25 MiB)")) == "ddp");
  CHECK(text_of(plan_spec_of("ddp()")) == "ddp");
  CHECK(text_of(plan_spec_of("horovod(cycle=3.5ms, loop=gap)")) == "horovod(cycle=3.5 ms, loop=gap)");
  CHECK(text_of(plan_spec_of("mg_wfbp(a=908 us, b=7.4e-10, rule=asc)")) == "mg_wfbp(rule=asc, a=908 us, b=7.4e-10)");
  const PlanSpec automatic = plan_spec_of("dear(bucket=auto)");
  CHECK(std::isnan(automatic.options[0]));
  CHECK(text_of(automatic) == "dear(bucket=auto)");
}

TEST_CASE("every plan reads back to the same value") {
  std::mt19937 engine(7);
  for (const Strategy& s : strategies())
    for (int round = 0; round < 200; ++round) {
      PlanSpec spec{&s, standard_options(s), round % 3 == 0 ? "ring" : ""};
      for (std::size_t i = 0; i < s.options.size(); ++i) {
        const OptionSpec& o = s.options[i];
        const double share = std::generate_canonical<double, 53>(engine);
        double value = o.low + (o.high - o.low) * share * share * share;
        if (o.kind == OptionKind::choice || o.kind == OptionKind::count) value = std::round(value);
        if (o.kind == OptionKind::size && round % 2 == 0) value = std::round(value);
        spec.options[i] = value;
      }
      const std::string text = text_of(spec);
      CAPTURE(text);
      const PlanSpec again = plan_spec_of(text);
      CHECK(again.strategy == spec.strategy);
      CHECK(again.options == spec.options);
      CHECK(again.collective == spec.collective);
      CHECK(text_of(again) == text);
    }
}

TEST_CASE("what cannot be read is refused with its column and a way out") {
  CHECK(refusal("") == "plan, column 1: expected the name of a strategy, such as 'ddp', found the end of the text");
  CHECK(refusal("dpd") == "plan, column 1: expected a strategy, found 'dpd'; did you mean 'ddp'?");
  CHECK(refusal("zzzzzzzz") ==
        "plan, column 1: expected a strategy, found 'zzzzzzzz'; 'stepcast list strategies' names them all");
  CHECK(refusal("dear(buckt=25 MiB)") ==
        "plan, column 6: expected an option of 'dear' (bucket, layers, prefetch, padding), found 'buckt'; "
        "did you mean 'bucket'?");
  CHECK(refusal("wfbp(bucket=1 MiB)") == "plan, column 6: expected no options: 'wfbp' has none, found 'bucket'");
  CHECK(refusal("dear(bucket=25 MiB") == "plan, column 19: expected ',' or ')', found the end of the text");
  CHECK(refusal("dear(bucket 25 MiB)") == "plan, column 13: expected '=', found '2'");
  CHECK(refusal("dear(bucket=25)").starts_with("plan, column 13, option 'bucket': expected "));
  CHECK(refusal("dear(bucket=)").starts_with("plan, column 13, option 'bucket': expected "));
  CHECK(refusal("dear(bucket=-1 MiB)").starts_with("plan, column 13, option 'bucket': expected "));
  CHECK(refusal("dear(bucket=5 ms)").starts_with("plan, column 13, option 'bucket': expected "));
  CHECK(refusal("dear(prefetch=0)").starts_with("plan, column 15, option 'prefetch': expected "));
  CHECK(refusal("dear(prefetch=1.5)").starts_with("plan, column 15, option 'prefetch': expected "));
  CHECK(refusal("bytescheduler(partition=1 B)") ==
        "plan, column 25, option 'partition': expected 1 KiB to 1024 GiB, found '1 B'");
  CHECK(refusal("horovod(loop=gaps)") ==
        "plan, column 14: expected one of free, blocking, gap for option 'loop', found 'gaps'; did you mean 'gap'?");
  CHECK(refusal("dear(bucket=1 MiB, bucket=2 MiB)") ==
        "plan, column 20: expected each option once, found 'bucket' again");
  CHECK(refusal("dear(layers=auto)") ==
        "plan, column 13: expected a value, found 'auto'; option 'layers' cannot be tuned");
  CHECK(refusal("ddp@rnig") ==
        "plan, column 5: expected a collective algorithm or 'table', found 'rnig'; did you mean 'ring'?");
  CHECK(refusal("ddp@") ==
        "plan, column 5: expected the name of a collective algorithm after '@', found the end of the text");
  CHECK(refusal("ddp ddp") == "plan, column 5: expected the end of the plan, '(', '+' or '@', found 'd'");
  CHECK(refusal("ddp@ring)") == "plan, column 9: expected the end of the plan, '(', '+' or '@', found ')'");
}

TEST_CASE("no text does more than being refused") {
  const std::vector<std::string> words{"ddp", "dear", "horovod", "bucket", "cycle", "loop", "gap",  "auto", "ring",
                                       "(",   ")",    "=",       ",",      "@",     "/",    "+",    "25",   "MiB",
                                       "ms",  " ",    "-1",      "1e999",  "nan",   "\x01", "\xff", "0x10"};
  std::mt19937 engine(3);
  int read = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = round % 2 ? "dear(" : "";
    for (int n = std::uniform_int_distribution<int>(0, 9)(engine); n > 0; --n)
      text += words[std::uniform_int_distribution<std::size_t>(0, words.size() - 1)(engine)];
    CAPTURE(text);
    try {
      const PlanSpec spec = plan_spec_of(text);
      CHECK(text_of(plan_spec_of(text_of(spec))) == text_of(spec));
      ++read;
    } catch (const InputError& e) { CHECK(!e.expected.empty()); }
  }
  CHECK(read > 10);
}

TEST_CASE("a plan alone refuses a layout by name") {
  CHECK(refusal("layout(tp=8)/ddp") ==
        "plan, column 13: expected the name of a strategy first, found a layout before '/'; leave it out: "
        "here plans divide the batch only");
}

TEST_CASE("modifiers follow the strategy, in order") {
  const PlanSpec spec = plan_spec_of("dear ( bucket = 5 MiB ) + fp16 +local( period=2 ) @ ring");
  REQUIRE(spec.modifiers.size() == 2);
  CHECK(spec.modifiers[0].modifier->name == "fp16");
  CHECK(spec.modifiers[1].modifier->name == "local");
  CHECK(spec.modifiers[1].options[0] == 2);
  CHECK(spec.collective == "ring");
  CHECK(text_of(spec) == "dear(bucket=5 MiB)+fp16+local(period=2)@ring");
  CHECK(text_of(plan_spec_of("ddp+local(period=4)")) == "ddp+local");
  CHECK(fidelity_of(plan_spec_of("ddp")) == Fidelity::exact);
  CHECK(fidelity_of(plan_spec_of("ddp+fp16")) == Fidelity::lossy);
  CHECK(fidelity_of(plan_spec_of("ddp+local+fp16")) == Fidelity::periodic);
  CHECK(refusal("ddp+") == "plan, column 5: expected the name of a modifier after '+', found the end of the text");
  CHECK(refusal("ddp+locl") == "plan, column 5: expected a modifier, found 'locl'; did you mean 'local'?");
  CHECK(refusal("ddp+local(perod=3)") ==
        "plan, column 11: expected an option of 'local' (period, warmup), found 'perod'; did you mean 'period'?");
}
