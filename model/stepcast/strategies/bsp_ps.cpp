// BSP-PS: bulk-synchronous training over parameter servers; one fused buffer, pushed and pulled in partitions.
//
//   compute |  F1 F2 F3  B3 B2 B1 |                              | U | F1 ...
//   pcie    |                     |[1][2][3]         [1][2][3]   |        local reduce-scatter, local all-gather
//   up      |                     |   [ 1 ][ 2 ][ 3 ]            |
//   dn      |                     |        [ 1 ][ 2 ][ 3 ]       |
//
//   T = t_C + t_PS(M) + t_U;  K partitions: t_PS = sum of the stage times of one + (K - 1) * the largest of them
//
// Nothing overlaps with compute, but the stages of different partitions overlap with one another. The update runs on
// the worker (BytePS pulls gradients). Partition 4,096,000 bytes (BytePS). With one worker machine there is no server
// traffic; without extra server machines (`servers`) every worker machine is a server, too. keys=hashed spreads the
// partitions over separate servers as BytePS does, keys=even ideally.
#include <stepcast/strategies/shared/server_plan.hpp>

namespace stepcast::strategy::bsp_ps {
namespace {

constexpr OptionSpec options[] = {partition_option("largest message"), keys_option};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> plan(const StrategyInput& in) {
  const Bytes partition(in.options[named("partition")]), all = in.profile.gradient_size();
  if (std::string why = too_many(number_of_parts(in.profile, partition, true)); !why.empty()) return Inapplicable{why};
  ServerPlan servers(in, UpdatePlace::after_backward, static_cast<Keys>(static_cast<int>(in.options[named("keys")])));
  if (in.profile.tensors.empty()) return servers.take();
  const Node end{NodeKind::backward, in.profile.backward_order.back()};
  const auto tensors = static_cast<std::uint32_t>(in.profile.tensors.size());
  // The buffer is declared after the gradient and the parameter of every tensor.
  const std::uint64_t fused_buffer = 2 * in.profile.tensors.size();
  std::int32_t number = 0;
  for_each_part(all, partition, [&](Bytes size) {
    const Payload payload{0, tensors, size, number, byteps_key(fused_buffer, static_cast<std::uint64_t>(number))};
    ++number;
    servers.wait(servers.exchanged(end, payload), common_update);
  });
  return servers.take();
}

std::string settings(const OptionValues& v) {
  return "BytePS: one fused push_pull after backward, BYTEPS_PARTITION_BYTES=" +
         std::to_string(static_cast<long long>(v[named("partition")]));
}

}  // namespace

extern constinit const Strategy record{
    .name = "bsp_ps",
    .title = "BSP-PS",
    .summary = "one fused push and pull over parameter servers after the backward pass",
    .reference = "Shi et al., arXiv 2005.13247 (BSP-PS); bytedance/byteps",
    .fidelity = Fidelity::exact,
    .needs = "servers",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
};

}  // namespace stepcast::strategy::bsp_ps
