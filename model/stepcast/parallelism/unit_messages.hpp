#pragma once
// Unit messages: what one unit sends in its passes, over which ranks of a layout, and what that takes.
//
// The one list of a unit's messages, which prices them (priced_split.cpp) and which writes them down one by one
// (step_nodes/layout_step.cpp). Every rank of the named group sends them. Internal to the layout prediction. Not
// modelled: what sharded parameters and gradients send, which depends on the plan (stages.hpp).
#include <stepcast/parallelism/priced_split.hpp>
#include <stepcast/parallelism/sharded_pass.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace stepcast {

enum class MessageRole : std::uint8_t {
  context,  ///< before and behind attention, which waits
  ring,     ///< each beside the attention to one block
  tensor,
  expert,
};
/// Calls `take(role, transfers, axis)` for what the unit sends in a pass; members and strides of the transfers count
/// within the group along the axis.
template <class Take>
void for_each_message(const UnitCost& u, const Layout& l, bool backward, const Take& take) {
  const RankAxis context = rank_axis(l, Dimension::context);
  take(MessageRole::context, backward ? u.context_first_backward : u.context_first_forward, context);
  take(MessageRole::ring, backward ? u.context_backward : u.context_forward, context);
  take(MessageRole::tensor, backward ? u.backward_tensor : u.forward_tensor, rank_axis(l, Dimension::tensor));
  take(MessageRole::expert, u.expert_transfers, expert_axis(l));
}
/// Whether recomputation of a unit sends that message of its forward pass again in the backward pass. Attention that is
/// done again needs the keys and values of the other devices again; operator by operator, what reduce-scatters gave is
/// kept (torchtitan's list of what is saved), and inputs are gathered again.
[[nodiscard]] inline bool is_sent_again(Recomputation r, const PricedUnit& u, MessageRole role, Operation operation) {
  switch (r) {
    case Recomputation::full:
      return u.checkpointed;
    case Recomputation::selective:
      return role == MessageRole::context || role == MessageRole::ring;
    case Recomputation::operators:
      return role == MessageRole::tensor && operation == Operation::all_gather && u.operators > Seconds(0);
    case Recomputation::none:
    case Recomputation::modules:
      break;
  }
  return false;
}
/// The ranks of such a transfer.
[[nodiscard]] inline RankAxis ranks_of(const TensorTransfer& t, RankAxis axis) {
  return {axis.stride * t.stride, t.members};
}

/// The same on a device that takes so many times as long for its products.
[[nodiscard]] inline InputSum slowed(InputSum sum, double by) {
  sum.weight_gradient *= by;
  return sum;
}
[[nodiscard]] inline PipelinedProduct slowed(PipelinedProduct product, double by) {
  product.whole *= by;
  product.in_parts *= by;
  return product;
}

/// Prices collectives of parts of a job's groups, each kind of part once.
class GroupPrices {
 public:
  GroupPrices(PricedGroups& groups, const Layout& layout) : groups_(groups), layout_(layout) {}

  [[nodiscard]] PricedSplit::Group group(std::span<const RankAxis> axes) const {
    return groups_.of(group_shape(groups_.cluster(), layout_.devices(), axes));
  }
  /// Of one such transfer, `count` aside.
  [[nodiscard]] Seconds once(const TensorTransfer& t, RankAxis axis) {
    return t.members > 1 ? cost(t, axis)(t.operation, t.size) : Seconds(0);
  }
  /// `stride` and `members` within the group along `axis`.
  Seconds sum(const std::vector<TensorTransfer>& transfers, RankAxis axis) {
    Seconds total;
    for (const TensorTransfer& t : transfers)
      if (t.members > 1) total += cost(t, axis)(t.operation, t.size) * t.count;
    return total;
  }
  /// A transfer beside the `compute`, which it slows, at the pace that the links have under compute; and how long that
  /// compute takes then.
  struct Beside {
    Seconds transfer, compute;
  };
  [[nodiscard]] Beside beside(const TensorTransfer& t, RankAxis axis, Seconds compute) {
    const CommunicationCost& price = cost(t, axis);
    const Seconds transfer = price(t.operation, t.size) * price.slow_down(t.operation, t.size);
    return {transfer, compute_beside(compute, transfer, slowed())};
  }
  /// What each transfer takes beyond the `compute` beside it.
  Seconds exposed(const std::vector<TensorTransfer>& transfers, RankAxis axis, Seconds compute) {
    Seconds total;
    for (const TensorTransfer& t : transfers) {
      if (t.members <= 1) continue;
      const Beside both = beside(t, axis, compute);
      total += (std::max(both.compute, both.transfer) - compute) * t.count;
    }
    return total;
  }
  /// A sum of input gradients beside the weight gradient: both alone, and what they take together.
  struct HiddenSum {
    Seconds alone, computed, elapsed;
    [[nodiscard]] Seconds saved(Seconds weight_gradient) const {
      return std::max(Seconds(0), alone + weight_gradient - elapsed);
    }
  };
  [[nodiscard]] HiddenSum hidden(const InputSum& s, RankAxis axis) {
    const TensorTransfer& t = s.transfer;
    const CommunicationCost& price = cost(t, axis);
    const double slow_down = price.slow_down(t.operation, t.size);
    const Seconds alone = price(t.operation, t.size) * t.count, beside = alone * slow_down;
    const Seconds computed = compute_beside(s.weight_gradient, beside, slowed());
    return {alone, computed, computed + std::max(Seconds(0), beside - computed) / slow_down};
  }
  /// A product in parts beside its transfer: the message alone; then the product, and until both end. The first part
  /// of a gather is there, and the last one of a sum goes alone.
  struct Pipelined {
    Seconds alone, computed, elapsed;
    [[nodiscard]] Seconds saved(Seconds whole) const { return std::max(Seconds(0), alone + whole - elapsed); }
  };
  [[nodiscard]] Pipelined pipelined(const PipelinedProduct& p, RankAxis axis) {
    const TensorTransfer& t = p.transfer;
    if (t.members <= 1) return {{}, p.whole, p.whole};
    const CommunicationCost& price = cost(t, axis);
    const double parts = static_cast<double>(t.members), others = parts - 1;
    const Seconds alone = price(t.operation, t.size) * t.count;
    const Seconds part = p.in_parts / parts, sent = alone * price.slow_down(t.operation, t.size) / others;
    const Seconds beside = compute_beside(part, sent, slowed());
    return {alone, part + beside * others, part + std::max(beside, sent) * others};
  }

 private:
  [[nodiscard]] double slowed() const { return groups_.cluster().contention.compute_under_communication; }
  const CommunicationCost& cost(const TensorTransfer& t, RankAxis axis) {
    const RankAxis ranks = ranks_of(t, axis);
    const auto key = std::pair(ranks.stride, ranks.degree);
    auto found = parts_.find(key);
    if (found == parts_.end()) found = parts_.emplace(key, group({&ranks, 1})).first;
    return found->second->cost;
  }

  PricedGroups& groups_;
  const Layout& layout_;
  std::map<std::pair<std::int64_t, std::int64_t>, PricedSplit::Group> parts_;
};

/// The boundary of a unit on its way to the next stage: a device sends `part`, and gathers the `gathered` whole over
/// its tensor group where that is more.
struct StageSend {
  Bytes part, gathered;
  Seconds link, gather;
  [[nodiscard]] Seconds sum() const { return link + gather; }
};
[[nodiscard]] StageSend stage_send(const Cluster&, const Layout& resolved, Bytes boundary, GroupPrices&);

}  // namespace stepcast
