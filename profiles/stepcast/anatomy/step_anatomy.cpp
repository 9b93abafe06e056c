// StepAnatomy: owners of gradients -> layers -> backward order -> costs.
#include <stepcast/anatomy/step_anatomy.hpp>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

namespace stepcast {
namespace {

using naming::Role;

class Dissection {
 public:
  Dissection(const TraceIndex& index, const StepWindow& window)
      : index_(index), trace_(index.trace), window_(window), step_(step_operators(index, window)) {}

  StepAnatomy result() {
    if (step_.first_backward == no_index) return out_;
    out_.first_operator = step_.first_operator;
    out_.links = step_.links;
    out_.backward_nodes = step_.backward_nodes;
    out_.linked_nodes = step_.linked_nodes;
    out_.backward_passes = step_.backward_passes;
    assign_owners();
    form_layers();
    assign_backward_layers();
    order_backward();
    list_forward();
    deal_out_time();
    return out_;
  }

 private:
  const Event& event(const StepOperator& o) const { return trace_.events[o.event]; }
  std::string_view text(std::uint32_t i) const { return trace_.text(trace_.events[i].name); }

  /// Finds for every AccumulateGrad event the forward operator whose parameter it fills.
  void assign_owners() {
    std::uint32_t producer = no_index;  // forward operator of the last backward node
    std::uint32_t last_linked = no_index;
    for (std::uint32_t i = step_.begin; i < step_.end; ++i) {
      const std::uint32_t at = step_.position_of(index_, i);
      if (at == no_index) continue;
      const StepOperator& o = step_.list[at];
      if (o.role == Role::backward_node && o.event == i) {
        producer = o.forward;
        if (producer != no_index) last_linked = producer;
      }
      if (index_.facts(i).role != Role::accumulate || !o.is_node()) continue;
      const std::uint32_t from = o.role == Role::backward_node && o.forward != no_index ? o.forward : producer;
      owned_.push_back({i, from != no_index ? from : last_linked, at});
    }
  }

  void form_layers() {
    std::vector<std::uint32_t> count(step_.list.size(), 0);
    for (const Owned& owned : owned_)
      if (owned.forward != no_index) ++count[owned.forward];
    bool open = false;  // a view of a parameter waits for the operator that uses it
    for (std::uint32_t k = 0; k < step_.list.size(); ++k) {
      StepOperator& o = step_.list[k];
      if (o.phase != Phase::forward) continue;
      const bool view = index_.facts(o.event).view;
      if (count[k] > 0 && !open) {
        out_.layers.emplace_back();
        open = true;
      }
      if (out_.layers.empty()) continue;  // leading operators join the first layer below
      o.layer = std::uint32_t(out_.layers.size() - 1);
      if (open && !view && o.linked) {
        out_.layers.back().anchor = o.event;
        open = false;
      }
    }
    if (out_.layers.empty()) out_.layers.emplace_back();
    for (StepOperator& o : step_.list)
      if (o.phase == Phase::forward && o.layer == no_index) o.layer = 0;
    for (AnatomyLayer& layer : out_.layers)
      if (layer.anchor == no_index) layer.anchor = out_.first_operator;
  }

  /// A node without a link runs for the layer of the next linked node; AccumulateGrad for its producer.
  void assign_backward_layers() {
    std::uint32_t next = no_index;
    for (std::uint32_t k = step_.last_backward + 1; k-- > step_.first_backward;) {
      StepOperator& o = step_.list[k];
      if (o.phase != Phase::backward) continue;
      if (o.forward != no_index) next = step_.list[o.forward].layer;
      if (o.role == Role::backward_node) o.layer = next;
    }
    for (const Owned& owned : owned_) {
      const std::uint32_t layer = owned.forward == no_index ? 0 : step_.list[owned.forward].layer;
      if (step_.list[owned.node].role != Role::backward_node) step_.list[owned.node].layer = layer;
      const StepOperator& node = step_.list[owned.node];
      const std::int64_t ready =
          node.role == Role::accumulate_node ? event(node).start_ns : trace_.events[owned.event].end_ns();
      out_.gradients.push_back({owned.event, layer == no_index ? 0 : layer, ready});
    }
    std::uint32_t previous = std::uint32_t(out_.layers.size() - 1);
    for (StepOperator& o : step_.list) {
      if (o.phase != Phase::backward) continue;
      if (o.layer == no_index) o.layer = previous;
      previous = o.layer;
    }
    keep_last_pass();
  }

  /// With gradient accumulation only the gradients of the last backward pass are final.
  void keep_last_pass() {
    if (out_.backward_passes < 2) return;
    std::uint32_t start = step_.last_backward;
    while (start > 0 && !step_.list[start - 1].linked) --start;
    const std::int64_t from = event(step_.list[start]).start_ns;
    std::vector<AnatomyGradient> last;
    for (const AnatomyGradient& g : out_.gradients)
      if (trace_.events[g.event].start_ns >= from) last.push_back(g);
    out_.gradients = std::move(last);
  }

  void order_backward() {
    const std::size_t n = out_.layers.size();
    std::vector<std::int64_t> done(n, -1);
    for (const StepOperator& o : step_.list)
      if (o.phase == Phase::backward) done[o.layer] = std::max(done[o.layer], event(o).end_ns());
    for (const AnatomyGradient& g : out_.gradients) ++out_.layers[g.layer].gradients;
    // What follows the last gradient of a layer (a view of the next one, say) does not delay it.
    std::vector<std::int64_t> ready(n, -1);
    for (const AnatomyGradient& g : out_.gradients) ready[g.layer] = trace_.events[g.event].end_ns();
    for (std::size_t l = 0; l < n; ++l)
      if (ready[l] < 0) ready[l] = done[l] < 0 ? window_.end_ns + std::int64_t(n - l) : done[l];
    out_.backward_order.resize(n);
    for (std::uint32_t l = 0; l < n; ++l) out_.backward_order[l] = std::uint32_t(n - 1 - l);
    std::stable_sort(out_.backward_order.begin(), out_.backward_order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return ready[a] < ready[b]; });
    std::vector<std::size_t> position(n);
    for (std::size_t i = 0; i < n; ++i) position[out_.backward_order[i]] = i;
    std::stable_sort(out_.gradients.begin(), out_.gradients.end(),
                     [&](const auto& a, const auto& b) { return position[a.layer] < position[b.layer]; });
  }

  void list_forward() {
    bool in_backward = false;
    for (const StepOperator& o : step_.list) {
      if (o.phase == Phase::forward) out_.forward.push_back({o.event, o.layer, o.linked});
      if (o.phase == Phase::backward && !in_backward) {
        out_.backward_starts_ns.push_back(event(o).start_ns);
        out_.backward_ends_ns.push_back(event(o).end_ns());
      }
      in_backward = o.phase == Phase::backward;
      if (in_backward) out_.backward_ends_ns.back() = std::max(out_.backward_ends_ns.back(), event(o).end_ns());
      if (o.phase == Phase::tail && o.role == Role::optimizer)
        out_.update_ns = std::min(out_.update_ns, event(o).start_ns);
    }
  }

  // ---- time ----

  /// Packing for communication: collectives, and what DistributedDataParallel does before the module runs and after
  /// the last gradient.
  bool left_out(const StepOperator& o, bool updating) const {
    if (!index_.distributed) return false;
    if (o.role == Role::optimizer || o.role == Role::zero_grad || o.role == Role::loader) return false;
    if (index_.serves_communication[o.event] != 0) return true;
    if (o.phase == Phase::lead_in) return inside_parallel_wrapper(o.event);
    if (o.phase != Phase::tail || !has_optimizer_ || updating) return false;
    // On the host alone everything up to the update unpacks and averages; next to a device only what comes before the
    // last collective does, and then gradients are clipped.
    return !index_.has_device_work || event(o).start_ns < last_communication_ns_;
  }
  bool inside_parallel_wrapper(std::uint32_t i) const {
    for (; i != no_index; i = index_.parent[i])
      if (naming::is_replica_forward(text(i))) return true;
    return false;
  }

  Cost& receiver(const StepOperator& o) {
    if (o.role == Role::optimizer) return out_.optimizer;
    if (o.role == Role::zero_grad && !o.linked) return out_.other;
    if (o.phase == Phase::forward) return out_.layers[o.layer].forward;
    if (o.phase == Phase::backward) return out_.layers[o.layer].backward;
    return o.phase == Phase::tail && !has_optimizer_ && updates(o) ? out_.optimizer : out_.other;
  }
  /// Without annotation the update is what looks like one after the backward pass.
  bool updates(const StepOperator& o) const {
    const std::string key = naming::operator_key(text(o.event));
    for (const std::string_view word :
         {"add", "mul", "addcmul", "addcdiv", "sqrt", "div", "lerp", "copy", "sub", "neg"})
      if (key == word) return true;
    return key.starts_with("foreach") || key.starts_with("fused") || key.find("adam") != std::string::npos;
  }

  /// Packing and unpacking are counted where DistributedDataParallel does them: other ways of dividing the work pack
  /// for collectives that no plan of gradients takes the place of.
  void look_for_buckets() {
    for (std::uint32_t g = 0; g < out_.gradients.size(); ++g)
      gradient_of_operator_.emplace(index_.operator_of[out_.gradients[g].event], g);
    for (const auto& [at, gradient] : gradient_of_operator_) has_buckets_ = has_buckets_ || index_.issued[at] > 0;
  }
  /// An operator that only serves communication: its own time, and the gap before it.
  void keep_apart(const StepOperator& o, std::int64_t gap, std::int64_t own) {
    if (!has_buckets_ || (o.phase != Phase::lead_in && o.phase != Phase::tail)) return;
    Cost& cost = o.phase == Phase::lead_in ? out_.communication.before : out_.communication.after;
    if (o.phase == Phase::lead_in && !inside_parallel_wrapper(o.event)) return;
    // On the host alone the gaps are waits for collectives, and so are the calls that wait for one.
    if (index_.has_device_work) cost.host_ns += gap + own - std::min(own, index_.held_up_ns[o.event]);
    else if (index_.issued[o.event] == 0 || o.phase == Phase::lead_in) cost.host_ns += own;
    cost.device += index_.device_work[o.event];
    cost.device += index_.packing_work[o.event];
  }
  /// Of an AccumulateGrad node all but the accumulation itself is hooks.
  void keep_hook_apart(const StepOperator& o, std::int64_t hook) {
    const auto at = gradient_of_operator_.find(o.event);
    if (!has_buckets_ || at == gradient_of_operator_.end()) return;
    const std::int64_t issuing = std::min(hook, index_.issuing_ns[o.event]);
    Cost& packing = out_.gradients[at->second].packing;
    packing.host_ns += hook - issuing - std::min(hook - issuing, index_.held_up_ns[o.event]);
    packing.device += index_.packing_work[o.event];
    out_.communication.issuing_ns += issuing;
    out_.communication.messages += index_.issued[o.event];
  }

  void deal_out_time() {
    look_for_buckets();
    for (const StepOperator& o : step_.list) {
      has_optimizer_ = has_optimizer_ || o.role == Role::optimizer;
      if (o.phase == Phase::tail && index_.serves_communication[o.event] != 0)
        last_communication_ns_ = event(o).start_ns;
    }
    out_.annotated_optimizer = has_optimizer_;
    std::int64_t cursor = window_.start_ns;
    bool updating = false;
    for (const StepOperator& o : step_.list) {
      updating = updating || (o.phase == Phase::tail && o.role == Role::optimizer);
      const std::int64_t start = std::max(cursor, event(o).start_ns);
      const std::int64_t gap = start - cursor;
      const std::int64_t own = std::max<std::int64_t>(0, std::min(event(o).end_ns(), window_.end_ns) - start);
      cursor = std::max(cursor, start + own);
      out_.communication.sharding.host_ns += index_.sharding_ns[o.event];
      out_.communication.sharding_copies_ns += index_.sharding_copies_ns[o.event];
      if (index_.sharding_ns[o.event] > 0) out_.communication.sharding.device += index_.packing_work[o.event];
      deal_out(o, gap, own, updating);
    }
    out_.other.host_ns += std::max<std::int64_t>(0, window_.end_ns - cursor);
  }

  void deal_out(const StepOperator& o, std::int64_t gap, std::int64_t own, bool updating) {
    if (left_out(o, updating)) {
      // Between collectives the host may also wait for the device (a norm that is read back): under any plan, it would.
      const bool packs = !index_.has_device_work || index_.serves_communication[o.event] != 0;
      const std::int64_t waiting = packs ? 0 : std::min(own, index_.waiting_ns[o.event]);
      out_.waiting_ns += waiting;
      out_.communication_ns += gap + own - waiting;
      keep_apart(o, gap, own - waiting);
      waits_for_collective_ = !index_.has_device_work && o.role == Role::communication;
      return;
    }
    const std::int64_t waiting = std::min(own, index_.waiting_ns[o.event]);
    std::int64_t work = own - waiting;
    work -= std::min(work, index_.stalled_ns[o.event]);
    std::int64_t before = gap;
    if (index_.distributed && o.role == Role::accumulate_node) {
      const std::int64_t accumulating = std::min(work, index_.accumulate_ns[o.event]);
      keep_hook_apart(o, work - accumulating);
      work = accumulating;
    } else {
      work -= std::min(work, index_.communication_ns[o.event]);
    }
    // Between the last gradient and the update a distributed run waits for its collectives.
    if (index_.distributed && !index_.has_device_work && o.role == Role::optimizer && o.phase == Phase::tail &&
        !gap_after_update_)
      before = 0;
    if (o.role == Role::optimizer && o.phase == Phase::tail) gap_after_update_ = true;
    out_.waiting_ns += waiting;
    if (waits_for_collective_) before = 0;
    waits_for_collective_ = false;
    if (index_.distributed) out_.communication_ns += own - waiting - work + gap - before;
    if (o.role == Role::loader) {
      out_.input_ns += work;
      out_.other.host_ns += before;
      out_.other.device += index_.device_work[o.event];
      return;
    }
    Cost& cost = receiver(o);
    if (o.role == Role::optimizer) out_.other.host_ns += before;
    else cost.host_ns += before;
    cost.host_ns += work;
    cost.device += index_.device_work[o.event];
  }

  struct Owned {
    std::uint32_t event;    ///< AccumulateGrad
    std::uint32_t forward;  ///< position of the operator that owns the parameter
    std::uint32_t node;     ///< position of the operator that the event belongs to
  };

  const TraceIndex& index_;
  const Trace& trace_;
  StepWindow window_;
  StepOperators step_;
  StepAnatomy out_;
  std::vector<Owned> owned_;
  std::unordered_map<std::uint32_t, std::uint32_t> gradient_of_operator_;
  std::int64_t last_communication_ns_ = 0;
  bool has_optimizer_ = false, gap_after_update_ = false, waits_for_collective_ = false, has_buckets_ = false;
};

}  // namespace

bool StepAnatomy::same_structure(const StepAnatomy& other_step) const {
  if (layers.size() != other_step.layers.size() || gradients.size() != other_step.gradients.size()) return false;
  for (std::size_t l = 0; l < layers.size(); ++l)
    if (layers[l].gradients != other_step.layers[l].gradients) return false;
  return true;
}

StepAnatomy anatomy_of(const TraceIndex& index, const StepWindow& window) { return Dissection(index, window).result(); }

}  // namespace stepcast
