// Roles of collectives: what is around the issue of each, then one rule for each kind of operation.
#include <stepcast/anatomy/collective_roles.hpp>

#include <algorithm>
#include <string>
#include <unordered_set>

namespace stepcast {
namespace {

using naming::GroupKind;
using naming::Role;

/// Metrics are a few numbers; gradients and activations are more.
constexpr Bytes few_numbers(4096);

enum class When : std::uint8_t { before, forward, backward, behind, from_update, unknown };

/// What is around the issue of a collective.
struct Surroundings {
  std::string called;  ///< the operation of the outermost call that communicates; else that of the collective
  bool barrier = false, metrics = false, sharding = false, replica_forward = false, accumulating = false;
  bool backward_node = false, updating = false;
  /// Within an operator of the forward pass that a backward node belongs to, or of activations in that pass.
  bool in_layer = false;
  When when = When::unknown;
  GroupKind group = GroupKind::unknown;
};

class RolesOfStep {
 public:
  RolesOfStep(std::span<const TracedCollective> collectives, const TraceIndex& index, const StepAnatomy& step,
              std::span<const Tensor> gradients)
      : collectives_(collectives), index_(index), step_(step) {
    for (const AnatomyOperator& o : step.forward)
      if (o.saves) saving_.insert(o.event);
    std::size_t in_nodes = 0;
    for (const TracedCollective& c : collectives) {
      around_.push_back(surroundings_of(c));
      const Surroundings& s = around_.back();
      layers_communicate_ = layers_communicate_ || s.in_layer;
      if (naming::is_reduction(s.called) && s.backward_node) ++in_nodes;
    }
    one_for_each_gradient_ = in_nodes > 1 && in_nodes == step.gradients.size();
    find_exchange(gradients);
  }

  [[nodiscard]] std::vector<CollectiveRole> roles() const {
    std::vector<CollectiveRole> out;
    for (std::size_t c = 0; c < collectives_.size(); ++c) out.push_back(role_of(c));
    return out;
  }

 private:
  [[nodiscard]] std::string_view text(std::uint32_t i) const { return index_.trace.text(index_.trace.events[i].name); }

  [[nodiscard]] Surroundings surroundings_of(const TracedCollective& c) const {
    Surroundings s;
    s.called = c.operation;
    s.barrier = c.operation == "barrier";
    if (c.arguments != nullptr) s.group = naming::group_kind(index_.trace.text(c.arguments->group_description));
    for (std::uint32_t i = c.issuer; i != no_index; i = index_.parent[i]) {
      const Role role = index_.facts(i).role;
      if (role == Role::communication) {
        const std::string called = naming::collective_operation(text(i));
        if (!called.empty()) s.called = called;
        s.barrier = s.barrier || called == "barrier";
      }
      s.sharding = s.sharding || naming::is_sharding(text(i));
      s.replica_forward = s.replica_forward || naming::is_replica_forward(text(i));
      s.metrics = s.metrics || (naming::is_metrics(text(i)) && !is_around_step(i));
      s.accumulating = s.accumulating || role == Role::accumulate_node || role == Role::accumulate;
      s.backward_node = s.backward_node || role == Role::backward_node;
      s.updating = s.updating || role == Role::optimizer;
      s.in_layer = s.in_layer || (role == Role::plain && saving_.contains(i));
    }
    if (c.issuer != no_index) s.when = when(index_.trace.events[c.issuer].start_ns);
    // What a forward pass reduces is activations; gradients are reduced behind or beside the backward pass.
    if (s.when == When::forward && naming::is_reduction(s.called) && !is_few(c) && !s.sharding && !s.replica_forward)
      s.in_layer = s.in_layer || !s.updating;
    return s;
  }

  /// Of an annotation around the whole step, which says nothing of one collective.
  [[nodiscard]] bool is_around_step(std::uint32_t i) const {
    if (step_.first_operator == no_index || step_.backward_ends_ns.empty()) return false;
    const Event& e = index_.trace.events[i];
    return e.start_ns <= index_.trace.events[step_.first_operator].start_ns &&
           e.start_ns + e.duration_ns >= step_.backward_ends_ns.back();
  }

  [[nodiscard]] When when(std::int64_t time) const {
    const std::vector<std::int64_t>&starts = step_.backward_starts_ns, &ends = step_.backward_ends_ns;
    if (starts.empty() || step_.first_operator == no_index) return When::unknown;
    if (time < index_.trace.events[step_.first_operator].start_ns) return When::before;
    if (time >= ends.back()) return time >= step_.update_ns ? When::from_update : When::behind;
    const auto pass = std::size_t(std::ranges::upper_bound(starts, time) - starts.begin());
    return pass > 0 && time < ends[pass - 1] ? When::backward : When::forward;
  }

  /// The reductions that take all gradients with them.
  void find_exchange(std::span<const Tensor> gradients) {
    if (gradients.size() != step_.gradients.size()) return;
    const std::vector<TracedCollective> one(collectives_.begin(), collectives_.end());
    if (gradient_messages(std::span(&one, 1), std::span(&step_, 1), gradients).empty()) return;
    for (const GradientReduction& r : gradient_reductions(collectives_, step_, gradients))
      exchange_.insert(r.collective);
  }

  [[nodiscard]] CollectiveRole role_of(std::size_t c) const {
    const Surroundings& s = around_[c];
    const std::string& called = s.called;
    if (s.barrier) return CollectiveRole::barrier;
    if (s.metrics && !s.sharding && !s.accumulating && !exchange_.contains(c)) return CollectiveRole::metrics;
    if (called == "alltoall")
      return s.group == GroupKind::tensor ? CollectiveRole::within_layer : CollectiveRole::all_to_all;
    if (collectives_[c].issuer == no_index) return CollectiveRole::unknown;
    if (called == "send" || called == "recv" || called == "sendrecv")
      return s.group == GroupKind::tensor || s.in_layer || s.backward_node ? CollectiveRole::within_layer
                                                                           : CollectiveRole::pipeline;
    if (called == "broadcast") return role_of_broadcast(s);
    if (called == "allgather" || called == "gather") return role_of_gather(collectives_[c], s);
    if (naming::is_reduction(called)) return role_of_reduction(c);
    return CollectiveRole::unknown;
  }

  [[nodiscard]] static CollectiveRole role_of_broadcast(const Surroundings& s) {
    if (s.updating || s.when == When::from_update) return CollectiveRole::gather_after_update;
    if (s.replica_forward && s.when == When::before) return CollectiveRole::buffers;
    return CollectiveRole::unknown;
  }

  [[nodiscard]] CollectiveRole role_of_gather(const TracedCollective& c, const Surroundings& s) const {
    const CollectiveRole parameters =
        s.when == When::backward ? CollectiveRole::parameter_gather_backward : CollectiveRole::parameter_gather_forward;
    if (s.sharding) return parameters;
    if (s.updating) return CollectiveRole::gather_after_update;
    if (s.when == When::unknown) return CollectiveRole::unknown;
    const bool in_passes = s.when == When::forward || s.when == When::backward;
    if (!in_passes && is_few(c)) return CollectiveRole::metrics;
    if (s.when == When::from_update) return CollectiveRole::gather_after_update;
    if (s.when == When::behind) return CollectiveRole::unknown;
    if (s.group == GroupKind::data) return parameters;
    return in_passes && is_of_layer(s) ? CollectiveRole::within_layer : CollectiveRole::unknown;
  }

  [[nodiscard]] CollectiveRole role_of_reduction(std::size_t at) const {
    const TracedCollective& c = collectives_[at];
    const Surroundings& s = around_[at];
    const CollectiveRole gradients =
        s.called == "reducescatter" ? CollectiveRole::gradient_scatter : CollectiveRole::gradient_bucket;
    if (s.sharding || s.accumulating) return gradients;
    const bool each = s.backward_node && one_for_each_gradient_;
    if (!each && s.when != When::behind && !s.updating && is_of_layer(s)) return CollectiveRole::within_layer;
    if (each || exchange_.contains(at)) return gradients;
    if (is_few(c) && !s.updating && !s.backward_node) return CollectiveRole::metrics;
    // Behind the backward pass there is nothing else left to reduce that is large.
    if (s.when == When::behind || (s.updating && s.called == "reducescatter")) return gradients;
    return CollectiveRole::unknown;
  }

  [[nodiscard]] static bool is_few(const TracedCollective& c) {
    return c.source != BytesSource::unknown && c.size <= few_numbers;
  }
  [[nodiscard]] bool is_of_layer(const Surroundings& s) const {
    return s.group == GroupKind::tensor || s.in_layer || (s.backward_node && layers_communicate_);
  }

  std::span<const TracedCollective> collectives_;
  const TraceIndex& index_;
  const StepAnatomy& step_;
  std::unordered_set<std::uint32_t> saving_;  ///< forward operators that a backward node belongs to
  std::vector<Surroundings> around_;
  std::unordered_set<std::size_t> exchange_;
  bool layers_communicate_ = false, one_for_each_gradient_ = false;
};

}  // namespace

std::vector<CollectiveRole> roles_of(std::span<const TracedCollective> collectives, const TraceIndex& index,
                                     const StepAnatomy& step, std::span<const Tensor> gradients) {
  return RolesOfStep(collectives, index, step, gradients).roles();
}

}  // namespace stepcast
