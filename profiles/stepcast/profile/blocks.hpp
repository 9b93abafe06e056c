#pragma once
// Profile blocks: the repeated part of a model (transformer layers, residual blocks), recognised in a profile.
//
// A block is the longest run of layers that repeats without a gap, with the same parameter shapes (names may differ in
// their numbers only). Depth can then be divided between stages at block boundaries and scaled. Invariant: `before`,
// `repetitions` blocks of `layers` layers and `after` add up to all layers; repetitions 1: nothing repeats. Not
// modelled: models with several different repeated parts (the one with the most time is taken; the rest is `before` and
// `after`).
#include <stepcast/profile/profile.hpp>

#include <cstdint>

namespace [[gnu::visibility("default")]] stepcast {

struct ProfileBlocks {
  std::uint32_t before = 0;  ///< layers before the first block
  std::uint32_t layers = 0;  ///< how many layers one block has
  std::uint32_t repetitions = 1;
  std::uint32_t after = 0;
};
[[nodiscard]] ProfileBlocks blocks_of(const Profile&);
/// The profile with another number of blocks (depth), by copying or removing the last ones.
[[nodiscard]] Answer<Profile> with_blocks(const Profile&, std::uint32_t repetitions);

}  // namespace stepcast
