#include <stepcast/lower.hpp>

#include <algorithm>
#include <limits>

namespace stepcast {
namespace {

constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

// One pass of one layer, or another piece of compute, in program order.
struct Slot {
  Picoseconds host = 0, device = 0;
  std::uint32_t layer = 0;
  TaskKind kind = TaskKind::other;
  bool cut_before = false, cut_after = false;  // a transfer waits or starts here
  bool has_entry = false;                      // something happens when it is about to start
  std::uint32_t first_task = none, last_task = none, entry_task = none;
};

// The compute of one repetition of a plan as slots, and where each node of the plan is found among them.
class ComputeOrder {
 public:
  ComputeOrder(const Profile& profile, const CommPlan& plan)
      : layers_(profile.layers.size()), last_phase_(plan.period - 1) {
    slots_.reserve(plan.period * (3 * layers_ + 3));
    const bool early = plan.update == UpdatePlace::before_forward;
    const std::vector<PassCost> updates =
        early ? layer_updates(profile, plan.update_per_tensor) : std::vector<PassCost>();
    forward_.resize(plan.period * layers_);
    forward_end_.resize(plan.period * layers_);
    backward_.resize(plan.period * layers_);
    update_.assign(plan.period, none);
    for (std::uint32_t phase = 0; phase < plan.period; ++phase) {
      first_.push_back(slots_.size());
      const bool updates_early = early && (!plan.one_update || phase == 0);
      const bool updates_late =
          plan.update == UpdatePlace::after_backward && (!plan.one_update || phase == last_phase_);
      add_iteration(profile, phase, updates_early ? &updates : nullptr, updates_late);
    }
  }

  std::vector<Slot>& slots() { return slots_; }
  /// The slots with which the iterations of a repetition begin.
  const std::vector<std::size_t>& first_of_iteration() const { return first_; }

  /// The slot that a node starts at; for a source, the one that it ends with. `none` for transfers.
  std::uint32_t slot_of(const Node& node, bool source) const {
    const std::size_t at = node.phase * layers_ + node.index;
    switch (node.kind) {
      case NodeKind::forward_entry:
        return forward_[at];
      case NodeKind::forward:
        return source ? forward_end_[at] : forward_[at];
      case NodeKind::backward:
        return backward_[at];
      case NodeKind::update:
        return update_[node.phase];
      case NodeKind::transfer:
      case NodeKind::codec:
        return none;
    }
    return none;
  }

 private:
  void add_iteration(const Profile& profile, std::uint32_t phase, const std::vector<PassCost>* updates, bool update) {
    const std::size_t here = phase * layers_;
    const auto next = [&] { return static_cast<std::uint32_t>(slots_.size()); };
    if (profile.input > Seconds(0) || profile.input_period > Seconds(0))
      add({profile.input, {}, {}, {}}, 0, TaskKind::input);
    for (std::uint32_t l = 0; l < layers_; ++l) {
      forward_[here + l] = next();
      if (updates && (*updates)[l].host + (*updates)[l].device > Seconds(0)) add((*updates)[l], l, TaskKind::update);
      forward_end_[here + l] = next();
      add(profile.layers[l].forward, l, TaskKind::forward);
    }
    for (const std::uint32_t l : profile.backward_order) {
      backward_[here + l] = next();
      add(profile.layers[l].backward, l, TaskKind::backward);
    }
    if (update) {
      update_[phase] = next();
      add(profile.optimizer, 0, TaskKind::update);
      slots_.back().cut_before = slots_.back().cut_after = true;
    }
    if (profile.other.host + profile.other.device > Seconds(0)) add(profile.other, 0, TaskKind::other);
  }
  static PassCost scaled(const PassCost& c, double k) {
    return {c.host * k, c.device * k, c.device_gemm * k, c.device_memory * k};
  }
  // The update of a layer costs in proportion to its bytes.
  static std::vector<PassCost> layer_updates(const Profile& profile, Seconds per_tensor) {
    std::vector<double> shares(profile.layers.size(), 0), tensors(profile.layers.size(), 0);
    const double total = profile.gradient_size().value();
    if (total <= 0) shares.front() = 1;  // an optimizer that has nothing to update still takes its time
    for (const Tensor& t : profile.tensors) {
      shares[t.layer] += total > 0 ? t.size.value() / total : 0;
      ++tensors[t.layer];
    }
    std::vector<PassCost> updates;
    updates.reserve(shares.size());
    for (std::size_t l = 0; l < shares.size(); ++l) {
      updates.push_back(scaled(profile.optimizer, shares[l]));
      Seconds& busy = profile.has_device() ? updates.back().device : updates.back().host;
      busy = std::max(busy, per_tensor * tensors[l]);
    }
    return updates;
  }
  void add(const PassCost& cost, std::uint32_t layer, TaskKind kind) {
    Slot s;
    s.host = picoseconds_of(cost.host);
    s.device = picoseconds_of(cost.device);
    s.layer = layer;
    s.kind = kind;
    slots_.push_back(s);
  }

  std::size_t layers_;
  std::uint32_t last_phase_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> first_;
  std::vector<std::uint32_t> forward_, forward_end_, backward_;  // [phase][layer]
  std::vector<std::uint32_t> update_;                            // [phase]
};

// Turns slots into chains of tasks on one or two streams.
class ChainWriter {
 public:
  /// `compute` is how the compute stream is served: `parallel` when nothing but the chain runs on it.
  ChainWriter(TaskGraphBuilder& builder, bool two_streams, double slow_down, Discipline compute)
      : builder_(builder), slow_down_(slow_down) {
    if (two_streams) host_ = builder_.add_resource({"host", ResourceClass::host, Discipline::parallel, 0});
    compute_ = builder_.add_resource({"compute", ResourceClass::compute, compute, 0});
  }

  /// Writes slots [from, to) as one block.
  void block(std::vector<Slot>& slots, std::size_t from, std::size_t to) {
    Slot& head = slots[from];
    Slot& tail = slots[to - 1];
    if (head.has_entry) head.entry_task = chained({0, compute_, 0, head.layer, head.kind, 0}, last_compute_);
    Picoseconds host = 0, device = 0, reach = 0;  // reach = max_k (h_1 + ... + h_k - d_1 - ... - d_{k-1})
    for (std::size_t k = from; k < to; ++k) {
      host += slots[k].host;
      reach = std::max(reach, host - device);
      device += slots[k].device;
    }
    if (host_ == none) {
      head.first_task = tail.last_task =
          chained({host + device, compute_, 0, tail.layer, tail.kind, 0, slow_down_}, last_compute_);
      if (tail.kind == TaskKind::input) takes_.push_back(head.first_task);
      return;
    }
    // The host's tasks come right before the device's, which names them in reports.
    const TaskKind kind = tail.kind == TaskKind::input ? TaskKind::input : TaskKind::host;
    const std::uint32_t issue = chained({reach, host_, 0, tail.layer, kind, 0}, last_host_);
    if (kind == TaskKind::input) takes_.push_back(issue);
    if (host > reach) chained({host - reach, host_, 0, tail.layer, kind, 0}, last_host_);
    head.first_task = tail.last_task =
        chained({device, compute_, 0, tail.layer, tail.kind, 0, slow_down_}, last_compute_);
    builder_.add_arc(issue, head.first_task);
  }

  /// The next block begins an iteration.
  void begin_iteration() {
    if (last_compute_ != none) ends_.push_back(last_compute_);
    begins_ = true;
  }

  /// Closes the loop to the next repetition.
  void close(bool host_waits) {
    builder_.add_arc(last_compute_, first_compute_, 1);
    if (host_ == none) return;
    builder_.add_arc(last_host_, first_host_, 1);
    ends_.push_back(last_compute_);
    const auto period = static_cast<std::uint32_t>(ends_.size());
    const std::uint32_t ahead = host_waits ? 1 : 2;
    for (std::uint32_t i = 0; i < period; ++i)
      builder_.add_arc(ends_[i], host_begins_[(i + ahead) % period], (i + ahead) / period);
  }
  /// The task of each iteration that takes its batch, where the profile has an input.
  const std::vector<std::uint32_t>& takes() const { return takes_; }
  std::uint32_t last_compute() const { return last_compute_; }
  std::uint32_t compute() const { return compute_; }

 private:
  std::uint32_t chained(const Task& task, std::uint32_t& last) {
    const std::uint32_t t = builder_.add_task(task);
    if (last == none) (&last == &last_host_ ? first_host_ : first_compute_) = t;
    else builder_.add_arc(last, t);
    if (begins_ && &last == &last_host_) host_begins_.push_back(t), begins_ = false;
    return last = t;
  }

  TaskGraphBuilder& builder_;
  double slow_down_;
  bool begins_ = false;
  std::vector<std::uint32_t> ends_, host_begins_;  // of each iteration: last task of compute, first task of the host
  std::vector<std::uint32_t> takes_;
  std::uint32_t host_ = none, compute_ = none;
  std::uint32_t first_host_ = none, last_host_ = none, first_compute_ = none, last_compute_ = none;
};

// A loader beside the step prepares batch after batch, at most two ahead of the one that was taken last.
void add_loader(Seconds period, const std::vector<std::uint32_t>& takes, TaskGraphBuilder& builder) {
  if (!(period > Seconds(0))) return;
  constexpr std::uint32_t ahead = 2;
  const std::uint32_t loader = builder.add_resource({"loader", ResourceClass::host, Discipline::parallel, 0});
  const auto n = static_cast<std::uint32_t>(takes.size());
  const auto first = static_cast<std::uint32_t>(builder.graph().tasks.size());
  for (std::uint32_t i = 0; i < n; ++i) {
    builder.add_task({picoseconds_of(period), loader, 0, 0, TaskKind::load});
    builder.add_arc(first + i, takes[i]);
    builder.add_arc(first + i, first + (i + 1) % n, (i + 1) / n);
    builder.add_arc(takes[i], first + (i + ahead) % n, (i + ahead) / n);
  }
}

void mark_cuts(const CommPlan& plan, ComputeOrder& order) {
  auto& slots = order.slots();
  for (const Edge& e : plan.edges) {
    if (const std::uint32_t s = order.slot_of(e.from, true); s != none) {
      if (e.from.kind == NodeKind::forward_entry) slots[s].cut_before = slots[s].has_entry = true;
      else slots[s].cut_after = true;
    }
    if (const std::uint32_t s = order.slot_of(e.to, false); s != none) slots[s].cut_before = true;
  }
}

void add_transfers(const CommPlan& plan, const CommunicationCost& cost, TaskGraphBuilder& builder) {
  std::array<std::uint32_t, 256> resource_of{};
  for (std::size_t c = 0; c < plan.channels.size(); ++c) {
    const Channel& channel = plan.channels[c];
    const auto kind = channel.discipline == Discipline::parallel ? ResourceClass::timer : ResourceClass::communication;
    resource_of[c] = builder.add_resource({std::string(channel.name), kind, channel.discipline,
                                           static_cast<std::int64_t>(std::min(channel.credit.value(), 9e18))});
  }
  for (std::uint32_t x = 0; x < plan.transfers.size(); ++x) {
    const Transfer& t = plan.transfers[x];
    const bool timer = plan.channels[t.channel].discipline == Discipline::parallel;
    if (!timer && !cost.defines(t.operation))
      throw InputError("plan", "a collective algorithm that defines " + std::string(name_of(t.operation)),
                       std::string(cost.algorithm()));
    const Seconds time = timer ? t.delay : cost(t.operation, t.size) + t.overhead;
    builder.add_task({picoseconds_of(time), resource_of[t.channel], t.priority, x,
                      timer ? TaskKind::timer : TaskKind::transfer, static_cast<std::int64_t>(t.size.value()),
                      timer ? 1 : cost.slow_down(t.operation, t.size)});
  }
}

// Codecs queue for their engine. They precede a layer's pass that becomes ready at the same time: whoever makes a
// gradient ready issues its codec before the next pass.
void add_codecs(const CommPlan& plan, const Contention& contention, std::uint32_t compute, TaskGraphBuilder& builder) {
  std::uint32_t processor = none;
  for (std::uint32_t c = 0; c < plan.codecs.size(); ++c) {
    const Codec& codec = plan.codecs[c];
    const bool beside = codec.engine == Engine::processor;
    if (beside && processor == none)
      processor = builder.add_resource({"processor", ResourceClass::host, Discipline::fifo, 0});
    builder.add_task({picoseconds_of(codec.time), beside ? processor : compute, -1, c, TaskKind::codec, 0,
                      beside ? 1 : contention.compute_under_communication});
  }
}

bool runs_on_compute(const Codec& codec) { return codec.engine == Engine::compute; }

// True when the marker is the only task that nothing of its own iteration waits for, and all later iterations wait for
// it.
bool is_barrier(const TaskGraph& graph) {
  for (std::uint32_t t = 0; t < graph.tasks.size(); ++t) {
    bool leads_on = false;
    for (const Arc& a : graph.successors(t)) {
      leads_on |= a.lag == 0;
      if (a.lag != 0 && t != graph.marker) return false;
    }
    if (!leads_on && t != graph.marker) return false;
  }
  return true;
}

}  // namespace

TaskGraph lowered(const Profile& profile, const CommPlan& plan, const CommunicationCost& cost,
                  const Contention& contention, const LowerOptions& options) {
  ComputeOrder order(profile, plan);
  mark_cuts(plan, order);
  auto& slots = order.slots();
  TaskGraphBuilder builder;
  builder.reserve(plan.transfers.size() + 3 * slots.size(), plan.edges.size() + 4 * slots.size() + 3);
  // A codec may come in between any two passes: then the passes queue, too, one by one.
  const bool shared = std::any_of(plan.codecs.begin(), plan.codecs.end(), runs_on_compute);
  const bool merge = options.merge && !shared;
  ChainWriter chain(builder, profile.has_device(), contention.compute_under_communication,
                    shared ? Discipline::fifo : Discipline::parallel);
  std::size_t begun = 0;
  const auto& firsts = order.first_of_iteration();
  for (std::size_t from = 0; from < slots.size();) {
    if (begun < firsts.size() && from == firsts[begun]) chain.begin_iteration(), ++begun;
    std::size_t to = from + 1;
    while (merge && to < slots.size() && !(begun < firsts.size() && to == firsts[begun]) && !slots[to - 1].cut_after &&
           !slots[to].cut_before && (slots[to].kind == TaskKind::input) == (slots[from].kind == TaskKind::input))
      ++to;
    chain.block(slots, from, to);
    from = to;
  }
  const std::uint32_t last = chain.last_compute();
  chain.close(profile.host_waits_for_device);
  add_loader(profile.input_period, chain.takes(), builder);

  const auto first_transfer = static_cast<std::uint32_t>(builder.graph().tasks.size());
  add_transfers(plan, cost, builder);
  const auto first_codec = static_cast<std::uint32_t>(builder.graph().tasks.size());
  add_codecs(plan, contention, chain.compute(), builder);
  for (const Edge& e : plan.edges) {
    const auto task_of = [&](const Node& node, bool source) {
      if (node.kind == NodeKind::transfer) return first_transfer + node.index;
      if (node.kind == NodeKind::codec) return first_codec + node.index;
      const Slot& slot = slots[order.slot_of(node, source)];
      if (node.kind == NodeKind::forward_entry) return slot.entry_task;
      return source ? slot.last_task : slot.first_task;
    };
    builder.add_arc(task_of(e.from, true), task_of(e.to, false), e.lag);
  }

  TaskGraph graph = builder.build();
  graph.marker = last;
  graph.barrier = is_barrier(graph);
  return graph;
}

}  // namespace stepcast
