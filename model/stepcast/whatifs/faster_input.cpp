// Faster input: the wait for the input batch shrinks or goes. Loading that runs in the training process is a wait of
// its own length; loaders in worker processes deliver with a period, of which the step waits for what it does not hide.
#include <stepcast/whatif/common.hpp>

namespace stepcast::whatif::faster_input {
namespace {

constexpr OptionSpec options[] = {
    {.name = "keep", .standard = 0, .low = 0, .high = 1, .summary = "share of wait and period that is left"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<Profile> with_faster_input(const WhatIfInput& in) {
  Profile changed = in.profile;
  const double keep = in.options[named("keep")];
  changed.input *= keep;
  changed.input_period *= keep;
  changed.assumed.push_back("the step waits " + text_of(changed.input) + " for its input instead of " +
                            text_of(in.profile.input) + ", and loaders need " + number_text(keep) + " of their time");
  return changed;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "faster_input",
    .title = "faster input",
    .summary = "the wait for the input batch and the period of loaders are scaled; by default both go",
    .reference = "Mohan et al. 2021 (data stalls): compare with synthetic data",
    .options = options,
    .apply = with_faster_input,
    .caution =
        "a trace shows the wait, not what loaders in worker processes hide: when another what-if makes the step "
        "shorter, less of it is hidden, unless the profile says their period"};

}  // namespace stepcast::whatif::faster_input
