// WFBP-PS: wait-free backpropagation over parameter servers; each gradient is pushed when ready, pulled when summed.
//
//   compute |  F1 F2 F3  B3 B2 B1              | U | F1 ...
//   up      |              [ 3 ][ 2 ]  [ 1 ]   |
//   dn      |                   [ 3 ][ 2 ] [ 1 ]
//
//   T >= max(t_C + t_U, link time of M);  never slower than bsp_ps with the same messages on the same servers
//
// Queues are first-in first-out, the barrier stays, and with full duplex the pull of one partition overlaps the push of
// the next. With identical workers the servers' wait for all of them adds nothing. With partitions at least as large as
// the tensors each tensor is pushed whole before it is pulled. BytePS spreads partitions over separate servers by a
// hash of their keys (keys=hashed): of ResNet-50's bytes the fullest of 8 servers holds 1.6 times its share, which then
// sets the pace on slow cards; keys=even spreads them ideally. The survey's "ByteScheduler-PS" label is this plan:
// server-side scheduling, no worker priority, no cross-barrier wrapper.
#include <stepcast/strategies/shared/server_plan.hpp>

namespace stepcast::strategy::wfbp_ps {
namespace {

constexpr OptionSpec options[] = {partition_option("largest message; larger tensors are cut"), keys_option};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> plan(const StrategyInput& in) {
  const Bytes partition(in.options[named("partition")]);
  if (std::string why = too_many(number_of_parts(in.profile, partition)); !why.empty()) return Inapplicable{why};
  ServerPlan servers(in, UpdatePlace::after_backward, static_cast<Keys>(static_cast<int>(in.options[named("keys")])));
  const auto numbers = declared_numbers(in.profile, in.memory);
  for (std::uint32_t t = 0; t < in.profile.tensors.size(); ++t) {
    std::uint64_t part = 0;
    for_each_part(in.profile.tensors[t].size, partition, [&](Bytes size) {
      const Payload payload{t, 1, size, static_cast<std::int32_t>(t), byteps_key(numbers[t], part++)};
      servers.wait(servers.exchanged(gradient(in.profile, t), payload), common_update);
    });
  }
  return servers.take();
}

std::string settings(const OptionValues& v) {
  return "byteps.torch.DistributedOptimizer with BYTEPS_PARTITION_BYTES=" +
         std::to_string(static_cast<long long>(v[named("partition")]));
}

}  // namespace

extern constinit const Strategy record{
    .name = "wfbp_ps",
    .title = "WFBP-PS",
    .summary = "each tensor is pushed to the servers when its gradient is ready and pulled when summed",
    .reference = "Shi et al., arXiv 2005.13247 (WFBP-PS); bytedance/byteps",
    .fidelity = Fidelity::exact,
    .needs = "servers",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
};

}  // namespace stepcast::strategy::wfbp_ps
