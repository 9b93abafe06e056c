// The text form of a scenario:
//
//   scenario = what-if { "+" what-if }                          what-if: a spec (spec_reader.hpp)
#include <stepcast/base/spec_reader.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <utility>

namespace stepcast {
namespace {

constexpr SpecNames whatif_names{.name = "the name of a what-if, such as 'amp'",
                                 .member = "a what-if",
                                 .list = "'stepcast list whatifs' names them all"};

}  // namespace

Scenario scenario_of(std::string_view text) {
  SpecReader in("what-if", text);
  Scenario scenario;
  do {
    const WhatIf& what = whatifs()[in.name(whatif_names, names_of(whatifs()))];
    GivenOptions given = in.options(what.name, what.options);
    scenario.push_back({&what, given.values, std::move(given.layers)});
  } while (in.take('+'));
  in.require_end("the end of the what-if, '(' or '+'");
  return scenario;
}

std::string text_of(const Scenario& scenario) {
  std::string out;
  for (const WhatIfSpec& spec : scenario)
    out += (out.empty() ? "" : "+") + std::string(spec.what->name) +
           options_text(spec.what->options, spec.options, spec.layers);
  return out;
}

}  // namespace stepcast
