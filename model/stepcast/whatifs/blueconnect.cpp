// BlueConnect: an all-reduce as a chain of reduce-scatters and all-gathers over groups that factor the workers, each on
// the links of its level. Cho et al. 2019.
//
// It changes the plan, not the profile: the plan's all-reduce runs with the collective `factored`, which is this chain.
#include <stepcast/whatif/common.hpp>

namespace stepcast::whatif::blueconnect {
namespace {

Answer<Profile> unchanged(const WhatIfInput& in) {
  Profile same = in.profile;
  same.assumed.push_back("BlueConnect: the plan's all-reduce runs with the collective 'factored'; compute stays");
  return same;
}

}  // namespace

extern constinit const WhatIf record{.name = "blueconnect",
                                     .title = "BlueConnect",
                                     .summary =
                                         "the plan's all-reduce runs as reduce-scatters and all-gathers over the "
                                         "levels of the network (collective factored)",
                                     .reference = "Cho, Finkler, Kung, Hunter 2019 (BlueConnect, MLSys)",
                                     .options = {},
                                     .apply = unchanged,
                                     .caution = "changes the plan only: without a cluster nothing changes",
                                     .collective = "factored"};

}  // namespace stepcast::whatif::blueconnect
