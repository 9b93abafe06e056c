// BytePS: push and pull over spare server machines *and* the worker machines' own summation service. Jiang et al. 2020.
//
//   compute |  F1 F2 F3  B3 B2 B1                | U | F1 ...
//   up      |              [ 3 ][s2][ 2 ]..      |        s: pulls that this machine serves to the others
//   dn      |              [s3]      [ 3 ][s2]   |           and their pushes that it sums
//
//   link time of M bytes with n worker and S server machines: 2n(n-1) / (n^2 + S n - 2S) * M / B
//   summation shares 2(n-1) / (n^2 + S n - 2S) per server, (n - S) / (n^2 + S n - 2S) per worker machine
//
// S = 0 is the traffic of a ring between machines, S = n that of one server per worker (M/B); more servers than workers
// bring nothing. Partitions of 4,096,000 bytes (the code rounds up to whole pages per local rank; not done here).
// `credit` = 0: first-in first-out (the default of BytePS); else bytes in flight, most urgent layer first, which
// without crossing the barrier only reorders the pushes.
#include <stepcast/strategies/shared/server_plan.hpp>

namespace stepcast::strategy::byteps {
namespace {

constexpr OptionSpec options[] = {partition_option("largest message; larger tensors are cut (BYTEPS_PARTITION_BYTES)"),
                                  {.name = "credit",
                                   .kind = OptionKind::size,
                                   .standard = 0,
                                   .low = 0,
                                   .high = 0x1p40,
                                   .summary = "bytes in flight under priority; 0: first-in first-out"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> plan(const StrategyInput& in) {
  const Bytes partition(in.options[named("partition")]), credit(in.options[named("credit")]);
  if (std::string why = too_many(number_of_parts(in.profile, partition)); !why.empty()) return Inapplicable{why};
  const Discipline up = credit > Bytes(0) ? Discipline::priority : Discipline::fifo;
  ServerPlan servers(in, UpdatePlace::after_backward, {up, credit, Discipline::fifo}, true);
  for (std::uint32_t t = 0; t < in.profile.tensors.size(); ++t) {
    const auto priority = static_cast<std::int32_t>(in.profile.tensors[t].layer);
    for_each_part(in.profile.tensors[t].size, partition, [&](Bytes size) {
      servers.wait(servers.exchanged(gradient(in.profile, t), {t, 1, size, priority}), common_update);
    });
  }
  return servers.take();
}

std::string settings(const OptionValues& v) {
  std::string text = "BytePS: BYTEPS_PARTITION_BYTES=" + std::to_string(static_cast<long long>(v[named("partition")]));
  if (v[named("credit")] > 0)
    text += " BYTEPS_SCHEDULING_CREDIT=" + std::to_string(static_cast<long long>(v[named("credit")]));
  return text;
}

}  // namespace

extern constinit const Strategy record{
    .name = "byteps",
    .title = "BytePS",
    .summary = "push and pull with the summation spread over extra servers and the worker machines",
    .reference = "Jiang et al., OSDI 2020; bytedance/byteps docs/architecture.md",
    .fidelity = Fidelity::exact,
    .needs = "servers",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
};

}  // namespace stepcast::strategy::byteps
