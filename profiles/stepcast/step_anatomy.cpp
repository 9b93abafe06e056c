// StepAnatomy: operators in time order -> links -> layers -> costs.
#include <stepcast/step_anatomy.hpp>

#include <algorithm>
#include <map>
#include <unordered_map>

namespace stepcast {
namespace {

using naming::Role;

enum class Phase : std::uint8_t { lead_in, forward, backward, tail };

struct Operator {
  std::uint32_t event;
  Role role;
  Phase phase = Phase::tail;
  std::uint32_t forward = no_index;  ///< backward nodes: position of the forward operator in `operators`
  std::uint32_t layer = no_index;
  bool linked = false;  ///< forward operators: some backward node belongs to it
};

class Dissection {
 public:
  Dissection(const TraceIndex& index, const StepWindow& window) : index_(index), trace_(index.trace), window_(window) {}

  StepAnatomy result() {
    gather();
    if (first_backward_ == no_index) return out_;
    link_nodes();
    assign_phases();
    assign_owners();
    form_layers();
    assign_backward_layers();
    order_backward();
    deal_out_time();
    return out_;
  }

 private:
  const Event& event(const Operator& o) const { return trace_.events[o.event]; }
  bool is_node(const Operator& o) const {
    return o.role == Role::backward_node || o.role == Role::accumulate_node || o.role == Role::accumulate;
  }

  // ---- which operators ----

  void gather() {
    const auto first = std::lower_bound(trace_.events.begin(), trace_.events.end(), window_.start_ns,
                                        [](const Event& e, std::int64_t t) { return e.start_ns < t; });
    begin_ = std::uint32_t(first - trace_.events.begin());
    end_ = begin_;
    while (end_ < trace_.events.size() && trace_.events[end_].start_ns < window_.end_ns) ++end_;
    const std::vector<std::uint8_t> wanted = wanted_tracks();
    for (std::uint32_t i = begin_; i < end_; ++i)
      if (index_.is_operator(i) && wanted[trace_.events[i].track] != 0) operators_.push_back({i, index_.facts(i).role});
    for (std::uint32_t k = 0; k < operators_.size(); ++k) {
      position_.emplace(operators_[k].event, k);
      if (!is_node(operators_[k])) continue;
      if (first_backward_ == no_index) first_backward_ = k;
      last_backward_ = k;
    }
  }

  /// The thread that runs the step, and the threads of the backward pass.
  std::vector<std::uint8_t> wanted_tracks() const {
    std::vector<std::int64_t> busy(trace_.tracks.size(), 0);
    std::vector<std::uint8_t> wanted(trace_.tracks.size(), 0);
    for (std::uint32_t i = begin_; i < end_; ++i) {
      if (!index_.is_operator(i)) continue;
      const Role role = index_.facts(i).role;
      const std::uint32_t track = trace_.events[i].track;
      if (role == Role::backward_node || role == Role::accumulate_node) wanted[track] = 1;
      // Optimizer steps and loaders mark the main thread; other threads only compute.
      const bool mark = role == Role::optimizer || role == Role::loader;
      if (mark || (role == Role::plain && trace_.events[i].kind == EventKind::host_op))
        busy[track] += trace_.events[i].duration_ns + (mark ? window_.end_ns - window_.start_ns : 0);
    }
    const auto main = std::max_element(busy.begin(), busy.end());
    if (main != busy.end() && *main > 0) wanted[std::size_t(main - busy.begin())] = 1;
    return wanted;
  }

  // ---- backward nodes and their forward operators ----

  void link_nodes() {
    link_by_sequence();
    out_.links = count_linked() > 0 ? LinkSource::sequence : LinkSource::none;
    if (2 * count_linked() < out_.backward_nodes) link_by_arrows();
    if (2 * count_linked() < out_.backward_nodes) link_by_order();
    out_.linked_nodes = count_linked();
    for (const Operator& o : operators_)
      if (o.forward != no_index) operators_[o.forward].linked = true;
  }

  std::size_t count_linked() {
    std::size_t linked = 0;
    out_.backward_nodes = 0;
    for (const Operator& o : operators_) {
      if (o.role != Role::backward_node) continue;
      ++out_.backward_nodes;
      if (o.forward != no_index) ++linked;
    }
    return linked;
  }

  /// The counter is recorded before an operator creates its node: of the events that show the same number, the last
  /// one before the node created it.
  void link_by_sequence() {
    std::unordered_map<std::int64_t, std::uint32_t> creator;
    for (std::uint32_t i = begin_; i < end_; ++i) {
      const Event& e = trace_.events[i];
      if (e.sequence < 0 || index_.operator_of[i] == no_index) continue;
      const auto at = position_.find(index_.operator_of[i]);
      if (at == position_.end()) continue;
      Operator& o = operators_[at->second];
      if (!is_node(o)) creator[e.sequence] = at->second;
      else if (o.role == Role::backward_node && o.event == i)
        if (const auto it = creator.find(e.sequence); it != creator.end()) o.forward = it->second;
    }
  }

  void link_by_arrows() {
    for (const ForwardBackwardLink& link : trace_.forward_backward) {
      if (link.forward < begin_ || link.backward >= end_) continue;
      const auto from = position_.find(index_.operator_of[link.forward]);
      const auto to = position_.find(index_.operator_of[link.backward]);
      if (from == position_.end() || to == position_.end() || !is_node(operators_[to->second])) continue;
      if (is_node(operators_[from->second])) continue;
      operators_[to->second].forward = from->second;
      out_.links = LinkSource::arrows;
    }
  }

  /// The engine runs nodes in reverse order of their creation: the k-th node of a kind from the start belongs to the
  /// k-th forward operator of that kind from the end.
  void link_by_order() {
    std::map<std::string, std::vector<std::uint32_t>> nodes, creators;
    for (std::uint32_t k = 0; k < operators_.size(); ++k)
      if (operators_[k].role == Role::backward_node)
        nodes[naming::operator_key(text(operators_[k].event))].push_back(k);
    for (std::uint32_t i = begin_; i < end_; ++i) {
      const auto at = position_.find(index_.operator_of[i]);
      if (index_.operator_of[i] == no_index || at == position_.end() || is_node(operators_[at->second])) continue;
      if (at->second > first_backward_) break;
      const std::string key = naming::operator_key(text(i));
      if (nodes.count(key) == 0) continue;
      const bool repeats = index_.parent[i] != no_index && naming::operator_key(text(index_.parent[i])) == key;
      if (!repeats) creators[key].push_back(at->second);
    }
    for (const auto& [key, list] : nodes) {
      const std::vector<std::uint32_t>& from = creators[key];
      if (from.size() != list.size()) continue;
      for (std::size_t k = 0; k < list.size(); ++k) operators_[list[k]].forward = from[list.size() - 1 - k];
      out_.links = LinkSource::order;
    }
  }

  std::string_view text(std::uint32_t i) const { return trace_.text(trace_.events[i].name); }

  // ---- phases and layers ----

  void assign_phases() {
    bool computing = false, in_backward = false;
    const std::uint32_t backward_track = event(operators_[first_backward_]).track;
    for (std::uint32_t k = 0; k < operators_.size(); ++k) {
      Operator& o = operators_[k];
      computing = computing || o.linked;
      if (is_node(o)) {
        if (!in_backward) ++out_.backward_passes;
        in_backward = true;
        o.phase = Phase::backward;
      } else if (k > last_backward_) {
        o.phase = Phase::tail;
      } else if (!computing) {
        o.phase = Phase::lead_in;
      } else if (k < first_backward_ || o.linked || event(o).track != backward_track) {
        if (o.linked && (in_backward || out_.pass_starts_ns.empty())) out_.pass_starts_ns.push_back(event(o).start_ns);
        if (o.linked) in_backward = false;
        o.phase = Phase::forward;
        if (out_.first_operator == no_index) out_.first_operator = o.event;
      } else {
        o.phase = Phase::backward;
      }
    }
  }

  /// Finds for every AccumulateGrad event the forward operator whose parameter it fills.
  void assign_owners() {
    std::uint32_t producer = no_index;  // forward operator of the last backward node
    std::uint32_t last_linked = no_index;
    for (std::uint32_t i = begin_; i < end_; ++i) {
      const std::uint32_t owner = index_.operator_of[i];
      const auto at = owner == no_index ? position_.end() : position_.find(owner);
      if (at == position_.end()) continue;
      const Operator& o = operators_[at->second];
      if (o.role == Role::backward_node && o.event == i) {
        producer = o.forward;
        if (producer != no_index) last_linked = producer;
      }
      if (index_.facts(i).role != Role::accumulate || !is_node(o)) continue;
      const std::uint32_t from = o.role == Role::backward_node && o.forward != no_index ? o.forward : producer;
      owned_.push_back({i, from != no_index ? from : last_linked, at->second});
    }
  }

  void form_layers() {
    std::vector<std::uint32_t> count(operators_.size(), 0);
    for (const Owned& owned : owned_)
      if (owned.forward != no_index) ++count[owned.forward];
    bool open = false;  // a view of a parameter waits for the operator that uses it
    for (std::uint32_t k = 0; k < operators_.size(); ++k) {
      Operator& o = operators_[k];
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
    for (Operator& o : operators_)
      if (o.phase == Phase::forward && o.layer == no_index) o.layer = 0;
    for (AnatomyLayer& layer : out_.layers)
      if (layer.anchor == no_index) layer.anchor = out_.first_operator;
  }

  /// A node without a link runs for the layer of the next linked node; AccumulateGrad for its producer.
  void assign_backward_layers() {
    std::uint32_t next = no_index;
    for (std::uint32_t k = last_backward_ + 1; k-- > first_backward_;) {
      Operator& o = operators_[k];
      if (o.phase != Phase::backward) continue;
      if (o.forward != no_index) next = operators_[o.forward].layer;
      if (o.role == Role::backward_node) o.layer = next;
    }
    for (const Owned& owned : owned_) {
      const std::uint32_t layer = owned.forward == no_index ? 0 : operators_[owned.forward].layer;
      if (operators_[owned.node].role != Role::backward_node) operators_[owned.node].layer = layer;
      out_.gradients.push_back({owned.event, layer == no_index ? 0 : layer});
    }
    std::uint32_t previous = std::uint32_t(out_.layers.size() - 1);
    for (Operator& o : operators_) {
      if (o.phase != Phase::backward) continue;
      if (o.layer == no_index) o.layer = previous;
      previous = o.layer;
    }
    keep_last_pass();
  }

  /// With gradient accumulation only the gradients of the last backward pass are final.
  void keep_last_pass() {
    if (out_.backward_passes < 2) return;
    std::uint32_t start = last_backward_;
    while (start > 0 && !operators_[start - 1].linked) --start;
    const std::int64_t from = event(operators_[start]).start_ns;
    std::vector<AnatomyGradient> last;
    for (const AnatomyGradient& g : out_.gradients)
      if (trace_.events[g.event].start_ns >= from) last.push_back(g);
    out_.gradients = std::move(last);
  }

  void order_backward() {
    const std::size_t n = out_.layers.size();
    std::vector<std::int64_t> done(n, -1);
    for (const Operator& o : operators_)
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

  // ---- time ----

  /// Packing for communication: collectives, and what DistributedDataParallel does before the module runs and after
  /// the last gradient.
  bool left_out(const Operator& o, bool updating) const {
    if (!index_.distributed) return false;
    if (o.role == Role::optimizer || o.role == Role::zero_grad || o.role == Role::loader) return false;
    if (index_.serves_communication[o.event] != 0) return true;
    if (o.phase == Phase::lead_in) return inside_parallel_wrapper(o.event);
    return o.phase == Phase::tail && has_optimizer_ && !updating;
  }
  bool inside_parallel_wrapper(std::uint32_t i) const {
    for (; i != no_index; i = index_.parent[i])
      if (text(i).starts_with("DistributedDataParallel.forward")) return true;
    return false;
  }

  Cost& receiver(const Operator& o) {
    if (o.role == Role::optimizer) return out_.optimizer;
    if (o.role == Role::zero_grad && !o.linked) return out_.other;
    if (o.phase == Phase::forward) return out_.layers[o.layer].forward;
    if (o.phase == Phase::backward) return out_.layers[o.layer].backward;
    return o.phase == Phase::tail && !has_optimizer_ && updates(o) ? out_.optimizer : out_.other;
  }
  /// Without annotation the update is what looks like one after the backward pass.
  bool updates(const Operator& o) const {
    const std::string key = naming::operator_key(text(o.event));
    for (const std::string_view word :
         {"add", "mul", "addcmul", "addcdiv", "sqrt", "div", "lerp", "copy", "sub", "neg"})
      if (key == word) return true;
    return key.starts_with("foreach") || key.starts_with("fused") || key.find("adam") != std::string::npos;
  }

  void deal_out_time() {
    for (const Operator& o : operators_) has_optimizer_ = has_optimizer_ || o.role == Role::optimizer;
    out_.annotated_optimizer = has_optimizer_;
    std::int64_t cursor = window_.start_ns;
    bool updating = false;
    for (const Operator& o : operators_) {
      updating = updating || (o.phase == Phase::tail && o.role == Role::optimizer);
      const std::int64_t start = std::max(cursor, event(o).start_ns);
      const std::int64_t gap = start - cursor;
      const std::int64_t own = std::max<std::int64_t>(0, std::min(event(o).end_ns(), window_.end_ns) - start);
      cursor = std::max(cursor, start + own);
      deal_out(o, gap, own, updating);
    }
    out_.other.host_ns += std::max<std::int64_t>(0, window_.end_ns - cursor);
  }

  void deal_out(const Operator& o, std::int64_t gap, std::int64_t own, bool updating) {
    if (left_out(o, updating)) {
      out_.communication_ns += gap + own;
      waits_for_collective_ = !index_.has_device_work && o.role == Role::communication;
      return;
    }
    const std::int64_t waiting = std::min(own, index_.waiting_ns[o.event]);
    std::int64_t work = own - waiting;
    work -= std::min(work, index_.stalled_ns[o.event]);
    std::int64_t before = gap;
    if (index_.distributed && o.role == Role::accumulate_node) {
      work = std::min(work, index_.accumulate_ns[o.event]);  // the rest is gradient hooks
    } else {
      work -= std::min(work, index_.communication_ns[o.event]);
    }
    // Between the last gradient and the update a distributed run waits for its collectives.
    if (index_.distributed && o.role == Role::optimizer && o.phase == Phase::tail && !gap_after_update_) before = 0;
    if (o.role == Role::optimizer && o.phase == Phase::tail) gap_after_update_ = true;
    out_.waiting_ns += waiting;
    if (waits_for_collective_) before = 0;
    waits_for_collective_ = false;
    if (index_.distributed) out_.communication_ns += own - waiting - work + gap - before;
    if (o.role == Role::loader) {
      out_.input_ns += work;
      out_.other.host_ns += before;
      out_.other.add_device(index_.device_work[o.event]);
      return;
    }
    Cost& cost = receiver(o);
    if (o.role == Role::optimizer) out_.other.host_ns += before;
    else cost.host_ns += before;
    cost.host_ns += work;
    cost.add_device(index_.device_work[o.event]);
  }

  struct Owned {
    std::uint32_t event;    ///< AccumulateGrad
    std::uint32_t forward;  ///< position of the operator that owns the parameter
    std::uint32_t node;     ///< position of the operator that the event belongs to
  };

  const TraceIndex& index_;
  const Trace& trace_;
  StepWindow window_;
  StepAnatomy out_;
  std::uint32_t begin_ = 0, end_ = 0;
  std::uint32_t first_backward_ = no_index, last_backward_ = 0;
  std::vector<Operator> operators_;                            ///< in time order
  std::unordered_map<std::uint32_t, std::uint32_t> position_;  ///< event -> position in `operators_`
  std::vector<Owned> owned_;
  bool has_optimizer_ = false, gap_after_update_ = false, waits_for_collective_ = false;
};

}  // namespace

void Cost::add_device(const DeviceWork& work) {
  device.total += work.total;
  device.gemm += work.gemm;
  device.memory += work.memory;
}

bool StepAnatomy::same_structure(const StepAnatomy& other_step) const {
  if (layers.size() != other_step.layers.size() || gradients.size() != other_step.gradients.size()) return false;
  for (std::size_t l = 0; l < layers.size(); ++l)
    if (layers[l].gradients != other_step.layers[l].gradients) return false;
  return true;
}

StepAnatomy anatomy_of(const TraceIndex& index, const StepWindow& window) { return Dissection(index, window).result(); }

}  // namespace stepcast
