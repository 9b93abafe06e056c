// Another depth: the model with more or fewer of the blocks that repeat in it (transformer layers, residual blocks).
//
// The cost of a model of equal blocks is linear in their number: further blocks are copies of the last one, fewer leave
// the last ones out, the update and the activations follow. What stands before and after the blocks stays.
#include <stepcast/profile/blocks.hpp>
#include <stepcast/whatif/common.hpp>

#include <cmath>

namespace stepcast::whatif::depth {
namespace {

constexpr OptionSpec options[] = {
    {.name = "blocks", .low = 1, .high = 1e6, .summary = "blocks of the changed model: 48", .required = true}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<Profile> at_depth(const WhatIfInput& in) {
  const double blocks = in.options[named("blocks")];
  if (blocks != std::floor(blocks)) return Inapplicable{"blocks are counted in whole numbers"};
  Answer<Profile> changed = with_blocks(in.profile, static_cast<std::uint32_t>(blocks));
  if (changed) changed->step_times = in.profile.step_times;
  return changed;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "depth",
    .title = "another depth",
    .summary =
        "another number of the blocks that repeat in the model, such as transformer layers; further ones are "
        "copies of the last one",
    .reference = "textbook: the cost of equal blocks is linear in their number",
    .options = options,
    .apply = at_depth,
    .caution = "whether the deeper model fits into the memory of a device is not asked here: recommend asks"};

}  // namespace stepcast::whatif::depth
