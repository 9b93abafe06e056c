// What is wrong with a plan: it is checked edge by edge, then lowered, since a cycle shows in the task graph.
#include <stepcast/schedule/lower.hpp>
#include <stepcast/schedule/plan_flaw.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

std::string flaw_of_node(const Node& node, const CommPlan& plan, const Profile& profile) {
  const bool transfer = node.kind == NodeKind::transfer, codec = node.kind == NodeKind::codec;
  const std::size_t bound = transfer ? plan.transfers.size() : codec ? plan.codecs.size() : profile.layers.size();
  if (node.phase >= plan.period || ((transfer || codec) && node.phase > 0))
    return "an edge names phase " + std::to_string(node.phase) + " of a plan that repeats after " +
           std::to_string(plan.period);
  if (node.kind == NodeKind::update) {
    const bool updates =
        plan.update == UpdatePlace::after_backward && (!plan.one_update || node.phase + 1 == plan.period);
    return updates ? "" : "an edge names the common update, but the plan has none";
  }
  if (node.index < bound) return {};
  return std::string("an edge names ") +
         (transfer ? "transfer "
          : codec  ? "codec "
                   : "layer ") +
         std::to_string(node.index) + " of " + std::to_string(bound);
}

std::string flaw_of_transfer(const Transfer& t, std::size_t number, const CommPlan& plan, const Profile& profile) {
  const std::string name = "transfer " + std::to_string(number);
  if (t.channel >= plan.channels.size()) return name + " names no channel";
  if (std::size_t{t.first_tensor} + t.tensors > profile.tensors.size())
    return name + " carries tensors that do not exist";
  if (!(t.size >= Bytes(0)) || !std::isfinite(t.size.value())) return name + " has no finite size";
  if (!(t.dense >= Bytes(0)) || !std::isfinite(t.dense.value())) return name + " stands for no finite size";
  if (!(t.delay >= Seconds(0)) || !(t.overhead >= Seconds(0)) || !(t.after >= Seconds(0)))
    return name + " has a negative time";
  return {};
}

bool is_permutation(const std::vector<std::uint32_t>& order, std::size_t n) {
  std::vector<bool> seen(n, false);
  for (const std::uint32_t i : order) {
    if (i >= n || seen[i]) return false;
    seen[i] = true;
  }
  return order.size() == n;
}

// Every gradient is sent as often as the others, at most once an iteration: the bytes of the transfers that carry a
// tensor's run add up to the run (padding allowed).
std::string flaw_of_coverage(const CommPlan& plan, const Profile& profile) {
  std::vector<double> prefix(profile.tensors.size() + 1, 0);
  const auto size_at = [&](std::size_t i) {
    return profile.tensors[plan.tensor(static_cast<std::uint32_t>(i))].size.value();
  };
  for (std::size_t i = 0; i < profile.tensors.size(); ++i) prefix[i + 1] = prefix[i] + size_at(i);
  std::vector<double> covered(profile.tensors.size(), 0);
  for (const Transfer& t : plan.transfers) {
    if (!t.carries_gradient) continue;
    const double run = prefix[t.first_tensor + t.tensors] - prefix[t.first_tensor];
    const Bytes dense = t.dense > Bytes(0) ? t.dense : t.size;
    const double share = run > 0 ? std::min(1.0, dense.value() / run) : 1;
    for (std::uint32_t i = 0; i < t.tensors; ++i) covered[t.first_tensor + i] += share;
  }
  constexpr double tolerance = 1e-6;
  std::size_t sized = 0;
  while (sized < covered.size() && size_at(sized) <= 0) ++sized;
  if (sized == covered.size()) return {};
  const double times = std::clamp(std::round(covered[sized]), 1.0, static_cast<double>(plan.period));
  for (std::size_t i = 0; i < covered.size(); ++i)
    if (size_at(i) > 0 && std::abs(covered[i] - times) > tolerance)
      return "gradient '" + profile.tensors[plan.tensor(static_cast<std::uint32_t>(i))].name + "' is sent " +
             std::to_string(covered[i]) + " times";
  return {};
}

}  // namespace

std::string flaw_of(const CommPlan& plan, const Profile& profile) {
  constexpr std::size_t most_channels = 256, most_passes = std::size_t{1} << 23;
  if (plan.channels.size() > most_channels) return "more channels than transfers can name";
  if (!plan.order.empty() && !is_permutation(plan.order, profile.tensors.size()))
    return "the order of the tensors is no permutation of them";
  for (std::size_t x = 0; x < plan.transfers.size(); ++x)
    if (std::string flaw = flaw_of_transfer(plan.transfers[x], x, plan, profile); !flaw.empty()) return flaw;
  if (plan.period < 1) return "the plan repeats after no iteration";
  if (plan.period > most_passes / std::max<std::size_t>(1, profile.layers.size()))
    return "the plan repeats after more iterations than can be written down";
  if (!(plan.update_per_tensor >= Seconds(0)) || !(plan.update_per_tensor < Seconds(1e5)))
    return "the update of a tensor takes no time that is finite";
  for (std::size_t c = 0; c < plan.codecs.size(); ++c)
    if (!(plan.codecs[c].time >= Seconds(0))) return "codec " + std::to_string(c) + " has a negative time";
  std::vector<bool> waits(plan.transfers.size(), false), codec_waits(plan.codecs.size(), false);
  for (const Edge& e : plan.edges) {
    for (const Node& node : {e.from, e.to})
      if (std::string flaw = flaw_of_node(node, plan, profile); !flaw.empty()) return flaw;
    if (e.to.kind == NodeKind::forward_entry) return "an edge leads to a forward entry, which waits for nothing else";
    if (e.to.kind == NodeKind::transfer) waits[e.to.index] = true;
    if (e.to.kind == NodeKind::codec) codec_waits[e.to.index] = true;
  }
  // It could start in all iterations at once.
  if (const auto free = std::find(waits.begin(), waits.end(), false); free != waits.end())
    return "transfer " + std::to_string(free - waits.begin()) + " waits for nothing";
  if (const auto free = std::find(codec_waits.begin(), codec_waits.end(), false); free != codec_waits.end())
    return "codec " + std::to_string(free - codec_waits.begin()) + " waits for nothing";
  if (plan.uncovered.empty())
    if (std::string flaw = flaw_of_coverage(plan, profile); !flaw.empty()) return flaw;
  return flaw_of(lowered(profile, plan, CommunicationCost::free_of_charge(), {}, {.merge = false}));
}

}  // namespace stepcast
