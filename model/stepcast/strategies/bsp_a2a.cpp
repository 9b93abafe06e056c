// BSP-A2A: bulk-synchronous data parallelism, Valiant 1990; one fused all-reduce after the backward pass.
//
//   compute |  F1 F2 F3  B3 B2 B1 |                   | U | F1 ...
//   net     |                     | all-reduce (M)    |
//
//   T = t_C + T(M)                         with buckets of B bytes: T = t_C + sum over buckets of T(m)
//
// Nothing overlaps and nothing crosses the barrier, which makes it the upper bound of every overlapping schedule that
// sends the same messages, and its measured rows the right ones to fit a network on. The default fusion buffer is the
// 536,870,912 elements (4 bytes each) of Shi et al. 2020 (HKBU-HPML/ddl-benchmarks launch scripts); a smaller
// `bucket` sends the same bytes in pieces, one after another: flatten, all-reduce, unflatten.
// The copies into and out of the buffer are those of the profile (Tensor::packing), if it has any.
#include <stepcast/base/text.hpp>
#include <stepcast/strategies/shared/plan_writing.hpp>

namespace stepcast::strategy::bsp_a2a {
namespace {

constexpr OptionSpec options[] = {{.name = "bucket",
                                   .kind = OptionKind::size,
                                   .standard = 0x1p31,
                                   .low = 0,
                                   .high = 0x1p40,
                                   .summary = "size at which a buffer is sent; the tensor that crosses it stays in"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> plan(const StrategyInput& in) {
  CommPlan out = all_reduced(in, closed_at(in.profile, Bytes(in.options[named("bucket")]), in.memory));
  const Node end{NodeKind::backward, in.profile.backward_order.back()};
  for (Edge& e : out.edges)
    if (e.from.kind == NodeKind::backward) e.from = end;
  return out;
}

std::string settings(const OptionValues& v) {
  return "one flat all_reduce of the gradients after loss.backward() (buffer " + text_of(Bytes(v[named("bucket")])) +
         ")";
}

}  // namespace

extern constinit const Strategy record{
    .name = "bsp",
    .title = "BSP-A2A",
    .summary = "one all-reduce of all gradients after the backward pass; nothing overlaps",
    .reference = "Valiant, CACM 1990; Shi et al., arXiv 2005.13247 (BSP-A2A)",
    .fidelity = Fidelity::exact,
    .needs = {},
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .same_on_all_links = true,
};

}  // namespace stepcast::strategy::bsp_a2a
