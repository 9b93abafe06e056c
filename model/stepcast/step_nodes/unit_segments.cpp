// A pass is taken apart: what is done again, compute without what has messages beside it, and the messages.
#include <stepcast/step_nodes/unit_segments.hpp>

#include <cmath>

namespace stepcast {
namespace {

class SegmentWriter {
 public:
  SegmentWriter(const UnitCost& cost, const PricedUnit& unit, const Layout& l, double slowness, GroupPrices& prices)
      : cost_(cost), unit_(unit), layout_(l), slowness_(slowness), prices_(prices) {}

  /// Of what attention takes of `compute` a ring accompanies a block with each message. `takes` says which messages.
  template <class Takes>
  void add_pass(std::vector<Segment>& out, bool backward, Seconds compute, std::string_view name, const Takes& takes,
                const std::vector<InputSum>& beside, const std::vector<PipelinedProduct>& products) {
    const Seconds attention = backward ? cost_.attention_backward * slowness_ : unit_.attention;
    std::vector<Segment> around, behind;
    Seconds left = compute;
    for_each_message(cost_, layout_, backward, [&](MessageRole role, std::vector<TensorTransfer> sent, RankAxis axis) {
      std::erase_if(sent, [&](const TensorTransfer& t) { return t.members <= 1 || !takes(role, t.operation); });
      if (role == MessageRole::ring) add_ring_blocks(around, sent, axis, attention, left);
      else if (role == MessageRole::context) add_messages(out, sent, axis);
      else if (role == MessageRole::tensor) add_tensor(around, behind, sent, axis, beside, products, left);
      else add_messages(behind, sent, axis);
    });
    if (left > Seconds(0)) out.push_back({name, left, {}, {}, {}, {}});
    for (Segment& s : around) {
      if (s.compute > Seconds(0)) s.name = name;
      out.push_back(s);
    }
    out.insert(out.end(), behind.begin(), behind.end());
  }

 private:
  /// A count may have a part, which sends a part of the bytes in a part of the time.
  void add_messages(std::vector<Segment>& out, const std::vector<TensorTransfer>& sent, RankAxis axis) {
    for (const TensorTransfer& t : sent) add_counted(out, t, axis, prices_.once(t, axis));
  }
  static void add_counted(std::vector<Segment>& out, const TensorTransfer& t, RankAxis axis, Seconds once) {
    constexpr double nothing = 1e-9;
    for (double left = t.count; left > nothing; left -= 1) {
      const double part = std::min(1.0, left);
      out.push_back({{}, {}, once * part, t.operation, ranks_of(t, axis), t.size * part});
    }
  }
  void add_ring_blocks(std::vector<Segment>& out, const std::vector<TensorTransfer>& sent, RankAxis axis,
                       Seconds attention, Seconds& left) {
    const Seconds block = attention / static_cast<double>(layout_.context);
    for (const TensorTransfer& t : sent) {
      const GroupPrices::Beside both = prices_.beside(t, axis, block);
      for (double k = t.count; k > 0.5; k -= 1) {
        out.push_back({{}, both.compute, both.transfer, t.operation, ranks_of(t, axis), t.size});
        left = std::max(Seconds(0), left - block);
      }
    }
  }
  /// What runs beside compute leaves the messages that wait, and takes that compute out of what is left.
  void add_tensor(std::vector<Segment>& around, std::vector<Segment>& behind, std::vector<TensorTransfer> sent,
                  RankAxis axis, const std::vector<InputSum>& beside, const std::vector<PipelinedProduct>& products,
                  Seconds& left) {
    const auto hide = [&](const TensorTransfer& t, const auto& both, Seconds compute) {
      if (t.members <= 1) return;
      const auto same = std::find_if(sent.begin(), sent.end(), [&](const TensorTransfer& o) {
        return o.operation == t.operation && o.members == t.members && o.size == t.size && o.stride == t.stride &&
               o.count >= t.count;
      });
      if (same == sent.end() || !(both.saved(compute) > Seconds(0))) return;
      same->count -= t.count;
      const double parts = std::max(1.0, std::round(t.count));
      for (double k = 0; k < parts; ++k)
        around.push_back({{},
                          both.computed / parts,
                          both.elapsed / parts,
                          t.operation,
                          ranks_of(t, axis),
                          t.size * (t.count / parts)});
      left = std::max(Seconds(0), left - compute);
    };
    for (const InputSum& s : beside)
      hide(s.transfer, prices_.hidden(slowed(s, slowness_), axis), s.weight_gradient * slowness_);
    for (const PipelinedProduct& p : products)
      hide(p.transfer, prices_.pipelined(slowed(p, slowness_), axis), p.whole * slowness_);
    add_messages(behind, sent, axis);
  }

  const UnitCost& cost_;
  const PricedUnit& unit_;
  const Layout& layout_;
  double slowness_;
  GroupPrices& prices_;
};

/// What full recomputation does again sends less over the tensor group.
UnitCost without_unread(UnitCost c) {
  for (const TensorTransfer& unread : c.unread_tensor)
    for (TensorTransfer& t : c.forward_tensor)
      if (t.operation == unread.operation && t.size == unread.size) t.count -= unread.count;
  std::erase_if(c.forward_tensor, [](const TensorTransfer& t) { return !(t.count > 0); });
  std::erase_if(c.forward_products, [](const PipelinedProduct& p) { return p.unread; });
  return c;
}

}  // namespace

UnitSegments unit_segments(const UnitCost& cost, const PricedUnit& u, const Layout& l, double slowness, Recomputation r,
                           bool delays_weight_gradients, GroupPrices& prices) {
  UnitSegments out;
  SegmentWriter writer(cost, u, l, slowness, prices);
  const auto all = [](MessageRole, Operation) { return true; };
  const auto zero = static_cast<std::size_t>(l.zero_in_passes());
  writer.add_pass(out.forward, false, u.forward + u.copies_forward[zero], {}, all, {}, cost.forward_products);
  const Seconds compute_again = r == Recomputation::full        ? (u.checkpointed ? u.forward - u.unread : Seconds(0))
                                : r == Recomputation::operators ? u.operators
                                : r == Recomputation::modules   ? u.modules
                                : r == Recomputation::selective ? u.attention
                                                                : Seconds(0);
  const bool less = r == Recomputation::full && !cost.unread_tensor.empty();
  const UnitCost repeated = less ? without_unread(cost) : cost;
  SegmentWriter(repeated, u, l, slowness, prices)
      .add_pass(
          out.backward, false, compute_again, "again",
          [&](MessageRole role, Operation operation) { return is_sent_again(r, u, role, operation); }, {},
          r == Recomputation::full ? repeated.forward_products : std::vector<PipelinedProduct>{});
  const Seconds gradients =
      u.copies_backward[zero] + u.input_gradient + (delays_weight_gradients ? Seconds(0) : u.weight_gradient);
  writer.add_pass(out.backward, true, gradients, {}, all,
                  l.overlap_tensor != TensorOverlap::nothing && !delays_weight_gradients ? cost.input_sums
                                                                                         : std::vector<InputSum>{},
                  cost.backward_products);
  if (delays_weight_gradients && u.weight_gradient > Seconds(0))
    out.weight.push_back({{}, u.weight_gradient, {}, {}, {}, {}});
  return out;
}

}  // namespace stepcast
