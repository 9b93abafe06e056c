// Keep buffers: DistributedDataParallel does not send the buffers of the first rank round before every forward pass.
//
//   before   | flatten, broadcast, unflatten | F1 F2 ... B2 B1 | U |
//   after    | F1 F2 ... B2 B1 | U |
//
// Buffers are what a module holds beside its parameters, such as the running statistics of batch norms; dozens of small
// ones cost the host more than the network.
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

namespace stepcast::whatif::keep_buffers {
namespace {

Answer<Profile> without_broadcast(const WhatIfInput& in) {
  const Seconds saved = time_of_buffers(in.profile);
  if (!(saved > Seconds(0))) return Inapplicable{"the trace shows no broadcast of buffers before the forward pass"};
  Profile changed = in.profile;
  changed.communication.before = {};
  changed.assumed.push_back("buffers are not sent round before the forward pass: " + text_of(saved) + " less a step");
  return changed;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "keep_buffers",
    .title = "buffers stay where they are",
    .summary = "DDP sends no buffers round before the forward pass: DistributedDataParallel(broadcast_buffers=False)",
    .reference = "Li et al., VLDB 2020; PyTorch distributed.py",
    .options = {},
    .apply = without_broadcast,
    .caution = "each rank keeps statistics of its own batches: save those of one rank, or use SyncBatchNorm"};

}  // namespace stepcast::whatif::keep_buffers
