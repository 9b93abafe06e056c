// The text form of a plan:
//
//   plan = strategy { "+" modifier } [ "@" collective ]           strategy, modifier: specs (spec_reader.hpp)
//
// A layout before it ("layout(...)/") is layout_plan_of's to read (layout/text.cpp) and refused here by name.
#include <stepcast/base/spec_reader.hpp>
#include <stepcast/plan/text.hpp>

namespace stepcast {
namespace {

constexpr SpecNames strategy_names{.name = "the name of a strategy, such as 'ddp'",
                                   .member = "a strategy",
                                   .list = "'stepcast list strategies' names them all"};
constexpr SpecNames modifier_names{.name = "the name of a modifier after '+'",
                                   .member = "a modifier",
                                   .list = "'stepcast list modifiers' names them all"};
constexpr SpecNames collective_names{.name = "the name of a collective algorithm after '@'",
                                     .member = "a collective algorithm or 'table'",
                                     .list = "'stepcast list collectives' names them all"};

/// Sharded data parallelism is no strategy: it divides the model's state, which layouts do.
void refuse_sharded(const SpecReader& in) {
  SpecReader ahead = in;
  const std::size_t at = ahead.skip();
  const std::string word(ahead.word());
  std::string zero;
  if (word == "fsdp" || word == "fsdp2") zero = "3";
  else if (word == "hsdp") zero = "3, shard=machine";
  else if (word == "zero1" || word == "zero2" || word == "zero3") zero = word.back();
  if (!zero.empty())
    in.refuse(
        at, std::string(strategy_names.name), "'" + word + "', which divides the model's state",
        "'layout(zero=" + zero + ")/ddp' is its layout, for whatever takes one; here plans divide the batch only");
}

}  // namespace

PlanSpec plan_spec_of(std::string_view text) { return plan_spec_from(text, 0); }

PlanSpec plan_spec_from(std::string_view text, std::size_t from) {
  SpecReader in("plan", text, from);
  // A layout is a word with optional options before a slash: "layout(tp=8)/ddp".
  if (const std::size_t slash = text.find('/', from); slash != std::string_view::npos)
    in.refuse(slash, "the name of a strategy first", "a layout before '/'",
              "leave it out: here plans divide the batch only");
  refuse_sharded(in);
  const Strategy& strategy = strategies()[in.name(strategy_names, names_of(strategies()))];
  PlanSpec spec{&strategy, in.options(strategy.name, strategy.options).values};
  while (in.take('+')) {
    const Modifier& modifier = modifiers()[in.name(modifier_names, names_of(modifiers()))];
    spec.modifiers.push_back({&modifier, in.options(modifier.name, modifier.options).values});
  }
  if (in.take('@')) {
    std::vector<std::string> known = names_of(collective_algorithms());
    known.emplace_back("table");
    spec.collective = known[in.name(collective_names, known)];
  }
  in.require_end("the end of the plan, '(', '+' or '@'");
  return spec;
}

std::string text_of(const PlanSpec& spec) {
  std::string out = std::string(spec.strategy->name) + options_text(spec.strategy->options, spec.options);
  for (const ModifierSpec& m : spec.modifiers)
    out += "+" + std::string(m.modifier->name) + options_text(m.modifier->options, m.options);
  if (!spec.collective.empty()) out += "@" + spec.collective;
  return out;
}

}  // namespace stepcast
