// The k iterations of a repetition are written out, with the messages in the last one.
#include <stepcast/modifiers/shared/periodic.hpp>

#include <algorithm>
#include <limits>
#include <vector>

namespace stepcast {
namespace {

bool is_compute(const Node& node) { return node.kind != NodeKind::transfer && node.kind != NodeKind::codec; }

// Iterations between the gradients that a message is made of and the message itself: the fewest along its edges.
class Delays {
 public:
  explicit Delays(const CommPlan& plan)
      : transfers_(plan.transfers.size()), delay_(transfers_ + plan.codecs.size(), far) {
    for (const Edge& e : plan.edges)
      if (!is_compute(e.to) && e.from.kind == NodeKind::backward) (*this)[e.to] = std::min((*this)[e.to], e.lag);
    for (bool changed = true; changed;) {
      changed = false;
      for (const Edge& e : plan.edges) {
        if (is_compute(e.from) || is_compute(e.to) || (*this)[e.from] == far) continue;
        const std::uint32_t through = (*this)[e.from] + e.lag;
        if (through < (*this)[e.to]) (*this)[e.to] = through, changed = true;
      }
    }
  }
  std::uint32_t& operator[](const Node& node) {
    return delay_[node.kind == NodeKind::transfer ? node.index : transfers_ + node.index];
  }
  [[nodiscard]] bool complete() const { return std::count(delay_.begin(), delay_.end(), far) == 0; }

 private:
  static constexpr std::uint32_t far = std::numeric_limits<std::uint32_t>::max();
  std::size_t transfers_;
  std::vector<std::uint32_t> delay_;
};

}  // namespace

Answer<CommPlan> communicating_every(std::uint32_t k, CommPlan plan, bool one_update) {
  if (plan.period != 1) return Inapplicable{"the plan is periodic already"};
  if (k == 1) return plan;
  Delays delays(plan);
  if (!delays.complete()) return Inapplicable{"a message of the plan depends on no gradient"};
  const auto phase_of = [&](const Node& node) { return (k - 1 + delays[node]) % k; };
  // Counted from the first iteration of a repetition: where a node of compute is, or the update that stands for it.
  const auto next_update = [&](const Node& node, std::uint32_t at) {
    return one_update && node.kind == NodeKind::update ? at / k * k + k - 1 : at;
  };
  const auto exists = [&](const Node& node, std::uint32_t at) { return next_update(node, at) == at; };
  std::vector<Edge> edges;
  for (const Edge& e : plan.edges) {
    if (is_compute(e.from) && is_compute(e.to)) {
      for (std::uint32_t p = 0; p < k; ++p) {
        if (!exists(e.from, p)) continue;
        const std::uint32_t at = next_update(e.to, p + e.lag);
        edges.push_back({{e.from.kind, e.from.index, p}, {e.to.kind, e.to.index, at % k}, at / k});
      }
    } else if (is_compute(e.to)) {
      const std::uint32_t at = next_update(e.to, phase_of(e.from) + e.lag);
      edges.push_back({e.from, {e.to.kind, e.to.index, at % k}, at / k});
    } else if (is_compute(e.from)) {
      const std::uint32_t before = (e.lag + k - 1) / k + 1;  // repetitions to go back at most
      std::uint32_t at = phase_of(e.to) + before * k - e.lag;
      while (!exists(e.from, at)) --at;
      edges.push_back({{e.from.kind, e.from.index, at % k}, e.to, before - at / k});
    } else {
      // Messages that only queue behind earlier ones do so behind those of the last repetition that had any.
      const std::uint32_t at = phase_of(e.from) + e.lag, to = phase_of(e.to);
      edges.push_back({e.from, e.to, at > to ? (at - to + k - 1) / k : 0});
    }
  }
  plan.edges = std::move(edges);
  plan.period = k;
  plan.one_update = one_update;
  return plan;
}

}  // namespace stepcast
