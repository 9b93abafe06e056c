// Compute in program order is cut where transfers start or wait, merged into blocks, and tied to transfers and codecs.
#include <stepcast/schedule/lowering.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace stepcast {

// --- Compute --------------------------------------------------------------------------------------------------------

namespace {

PassTimes times_of(const PassCost& c) { return {picoseconds_of(c.host), picoseconds_of(c.device)}; }
PassTimes& operator+=(PassTimes& sum, const PassTimes& more) {
  sum.host += more.host, sum.device += more.device;
  return sum;
}
/// The share of a time that `part` of `whole` tensors have.
PassTimes shared(const PassTimes& times, std::size_t part, std::size_t whole) {
  const auto share = [&](Picoseconds t) {
    return std::llround(static_cast<double>(t) * static_cast<double>(part) / static_cast<double>(whole));
  };
  return {share(times.host), share(times.device)};
}
Seconds in_a_row(const PassCost& c) { return c.host + c.device; }
bool takes_time(const PassCost& c) { return in_a_row(c) > Seconds(0); }

}  // namespace

Seconds compute_in_a_row(const Profile& profile) {
  Seconds sum =
      profile.late + profile.input + profile.input_period + in_a_row(profile.optimizer) + in_a_row(profile.other);
  for (const Layer& layer : profile.layers) sum += in_a_row(layer.forward) + in_a_row(layer.backward);
  for_each_communication_cost(profile, [&](const PassCost& cost) { sum += in_a_row(cost); });
  return sum;
}

ComputeTimes::ComputeTimes(const Profile& profile)
    : backward_order(profile.backward_order),
      optimizer(times_of(profile.optimizer)),
      other(times_of(profile.other)),
      input{picoseconds_of(profile.input), 0},
      input_period(picoseconds_of(profile.input_period)),
      late(picoseconds_of(profile.late)),
      has_device(profile.has_device()),
      has_input(profile.input > Seconds(0) || profile.input_period > Seconds(0)),
      has_loader(profile.input_period > Seconds(0)),
      has_other(takes_time(profile.other)),
      host_waits_for_device(profile.host_waits_for_device),
      in_a_row(compute_in_a_row(profile)) {
  forward.reserve(profile.layers.size());
  for (const Layer& layer : profile.layers) {
    forward.push_back(times_of(layer.forward));
    backward.push_back(times_of(layer.backward));
  }
  before = times_of(profile.communication.before), after = times_of(profile.communication.after);
  message = picoseconds_of(profile.communication.message);
  Seconds work = profile.communication.message;
  for_each_communication_cost(profile, [&](const PassCost& cost) { work += stepcast::in_a_row(cost); });
  if (work > Seconds(0))
    for (const Tensor& t : profile.tensors) packing.push_back(times_of(t.packing)), layer_of.push_back(t.layer);
  const double total = profile.gradient_size().value();
  std::vector<double> shares(profile.layers.size(), 0);
  if (total <= 0) shares.front() = 1;  // an optimizer that has nothing to update still takes its time
  updates_.resize(profile.layers.size());
  for (const Tensor& t : profile.tensors) {
    shares[t.layer] += total > 0 ? t.size.value() / total : 0;
    ++updates_[t.layer].tensors;
  }
  for (std::size_t l = 0; l < shares.size(); ++l) {
    updates_[l].host = profile.optimizer.host * shares[l];
    updates_[l].device = profile.optimizer.device * shares[l];
    PassCost alone;
    alone.host = updates_[l].host, alone.device = updates_[l].device;
    updates_[l].alone = {times_of(alone), takes_time(alone)};
  }
}

ComputeTimes::LayerUpdate ComputeTimes::layer_update(std::uint32_t layer, Seconds per_tensor) const {
  if (per_tensor == Seconds(0)) return updates_[layer].alone;
  PassCost cost;
  cost.host = updates_[layer].host, cost.device = updates_[layer].device;
  Seconds& busy = has_device ? cost.device : cost.host;
  busy = std::max(busy, per_tensor * updates_[layer].tensors);
  return {times_of(cost), takes_time(cost)};
}

void Lowering::order_compute(const ComputeTimes& compute, const CommPlan& plan) {
  layers_ = compute.forward.size();
  slots_.clear();
  slots_.reserve(plan.period * (3 * layers_ + 3));
  first_.clear();
  forward_.resize(plan.period * layers_);
  forward_end_.resize(plan.period * layers_);
  backward_.resize(plan.period * layers_);
  update_.assign(plan.period, Slot::none);
  unpack_.assign(plan.period, Slot::none);
  for (std::uint32_t phase = 0; phase < plan.period; ++phase) add_iteration(compute, plan, phase);
}

void Lowering::add_iteration(const ComputeTimes& compute, const CommPlan& plan, std::uint32_t phase) {
  const bool early = plan.update == UpdatePlace::before_forward && (!plan.one_update || phase == 0);
  const bool late = plan.update == UpdatePlace::after_backward && (!plan.one_update || phase == plan.period - 1);
  const std::size_t here = phase * layers_;
  const auto add = [&](const PassTimes& times, std::uint32_t layer, TaskKind kind) {
    const auto number = static_cast<std::uint32_t>(slots_.size());
    slots_.push_back({times, layer, kind});
    return number;
  };
  first_.push_back(static_cast<std::uint32_t>(slots_.size()));
  if (compute.has_input) add(compute.input, 0, TaskKind::input);
  const bool packs = !compute.packing.empty() && plan.packing != Packing::none;
  if (packs) add(compute.before, 0, TaskKind::other);
  for (std::uint32_t l = 0; l < layers_; ++l) {
    forward_[here + l] = static_cast<std::uint32_t>(slots_.size());
    if (early)
      if (const auto update = compute.layer_update(l, plan.update_per_tensor); update.any)
        add(update.times, l, TaskKind::update);
    forward_end_[here + l] = add(compute.forward[l], l, TaskKind::forward);
  }
  for (const std::uint32_t l : compute.backward_order)
    backward_[here + l] = add(compute.backward[l], l, TaskKind::backward);
  if (packs) {
    unpack_[phase] = add({}, 0, TaskKind::other);
    slots_.back().cut_before = true;
  }
  if (late) {
    update_[phase] = add(compute.optimizer, 0, TaskKind::update);
    slots_.back().cut_before = slots_.back().cut_after = true;
  }
  if (compute.has_other) add(compute.other, 0, TaskKind::other);
}

/// For each transfer and codec the iteration whose gradients set it off, through whatever lies between.
void Lowering::follow_gradients(const CommPlan& plan) {
  const std::size_t transfers = plan.transfers.size();
  phase_of_.assign(transfers + plan.codecs.size(), Slot::none);
  const auto place = [&](const Node& node) -> std::uint32_t* {
    if (node.kind == NodeKind::transfer) return &phase_of_[node.index];
    return node.kind == NodeKind::codec ? &phase_of_[transfers + node.index] : nullptr;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const Edge& e : plan.edges) {
      std::uint32_t* phase = place(e.to);
      if (phase == nullptr || *phase != Slot::none) continue;
      const std::uint32_t* from = place(e.from);
      if (e.from.kind == NodeKind::backward) *phase = e.from.phase;
      else if (from != nullptr && e.lag == 0) *phase = *from;
      changed = changed || *phase != Slot::none;
    }
  }
}

/// Adds what the worker itself does for the messages of the plan: the hook of every gradient that travels, in the pass
/// that makes it ready (where it is copied into a bucket, it is divided by the number of workers on the way; else where
/// it lies), the issue of a message where its last gradient is, and the way out of the buckets before the update.
void Lowering::add_packing(const ComputeTimes& compute, const CommPlan& plan) {
  if (compute.packing.empty() || plan.packing == Packing::none) return;
  follow_gradients(plan);
  const std::size_t tensors = compute.packing.size();
  hooked_.assign(plan.period * tensors, false);
  hooked_tensors_.assign(plan.period, 0);
  copied_tensors_.assign(plan.period, 0);
  for (std::size_t x = 0; x < plan.transfers.size(); ++x) {
    const Transfer& t = plan.transfers[x];
    const std::uint32_t phase = phase_of_[x];
    if (phase == Slot::none || !t.carries_gradient || t.tensors == 0) continue;
    const std::size_t here = phase * layers_;
    const std::uint32_t last = compute.layer_of[plan.tensor(t.first_tensor + t.tensors - 1)];
    slots_[backward_[here + last]].times.host += compute.message;
    const bool in_bucket = t.tensors > 1 || plan.packing == Packing::all;
    for (std::uint32_t i = 0; i < t.tensors && hooked_tensors_[phase] < tensors; ++i) {
      const std::uint32_t tensor = plan.tensor(t.first_tensor + i);
      if (hooked_[phase * tensors + tensor]) continue;
      hooked_[phase * tensors + tensor] = true;
      ++hooked_tensors_[phase];
      copied_tensors_[phase] += in_bucket;
      slots_[backward_[here + compute.layer_of[tensor]]].times += compute.packing[tensor];
    }
  }
  for (std::uint32_t phase = 0; phase < plan.period; ++phase)
    slots_[unpack_[phase]].times = shared(compute.after, copied_tensors_[phase], tensors);
}

// The slot that a node starts at; for a source, the one that it ends with. `none` for transfers.
std::uint32_t Lowering::slot_of(const Node& node, bool source) const {
  const std::size_t at = node.phase * layers_ + node.index;
  switch (node.kind) {
    case NodeKind::forward_entry:
      return forward_[at];
    case NodeKind::forward:
      return source ? forward_end_[at] : forward_[at];
    case NodeKind::backward:
      return backward_[at];
    case NodeKind::update:
      return source || unpack_[node.phase] == Slot::none ? update_[node.phase] : unpack_[node.phase];
    case NodeKind::transfer:
    case NodeKind::codec:
      return Slot::none;
  }
  return Slot::none;
}

void Lowering::mark_cuts(const CommPlan& plan) {
  for (const Edge& e : plan.edges) {
    if (const std::uint32_t s = slot_of(e.from, true); s != Slot::none) {
      if (e.from.kind == NodeKind::forward_entry) slots_[s].cut_before = slots_[s].has_entry = true;
      else slots_[s].cut_after = true;
    }
    if (const std::uint32_t s = slot_of(e.to, false); s != Slot::none) slots_[s].cut_before = true;
  }
}

namespace {

// Turns slots into chains of tasks on one or two streams.
class ChainWriter {
 public:
  /// `compute` is how the compute stream is served: `parallel` when nothing but the chain runs on it.
  ChainWriter(TaskGraphBuilder& builder, ChainEnds& ends, bool two_streams, double slow_down, Discipline compute)
      : builder_(builder), out_(ends), slow_down_(slow_down) {
    out_.clear();
    if (two_streams) host_ = builder_.add_resource({"host", ResourceClass::host, Discipline::parallel, 0});
    compute_ = builder_.add_resource({"compute", ResourceClass::compute, compute, 0});
  }

  /// Writes the slots of [from, iteration_end) up to the first one where a transfer starts or waits as one block, or
  /// if they are not to `merge`, one slot; returns where it ends.
  std::size_t block(std::vector<Slot>& slots, std::size_t from, std::size_t iteration_end, bool merge) {
    Slot& head = slots[from];
    if (head.has_entry) head.entry_task = chained({0, compute_, 0, head.layer, head.kind, 0}, last_compute_);
    Picoseconds host = 0, device = 0, reach = 0;  // reach = max_k (h_1 + ... + h_k - d_1 - ... - d_{k-1})
    const auto goes_on = [&](std::size_t next) {
      return merge && next < iteration_end && !slots[next - 1].cut_after && !slots[next].cut_before &&
             (slots[next].kind == TaskKind::input) == (head.kind == TaskKind::input);
    };
    std::size_t to = from;
    do {
      const PassTimes& times = slots[to].times;
      host += times.host;
      reach = std::max(reach, host - device);
      device += times.device;
    } while (goes_on(++to));
    Slot& tail = slots[to - 1];
    if (host_ == Slot::none) {
      head.first_task = tail.last_task =
          chained({host + device, compute_, 0, tail.layer, tail.kind, 0, slow_down_}, last_compute_);
      if (tail.kind == TaskKind::input) out_.takes.push_back(head.first_task);
      return to;
    }
    // The host's tasks come right before the device's, which names them in reports.
    const TaskKind kind = tail.kind == TaskKind::input ? TaskKind::input : TaskKind::host;
    const std::uint32_t issue = chained({reach, host_, 0, tail.layer, kind, 0}, last_host_);
    if (kind == TaskKind::input) out_.takes.push_back(issue);
    if (host > reach) chained({host - reach, host_, 0, tail.layer, kind, 0}, last_host_);
    head.first_task = tail.last_task =
        chained({device, compute_, 0, tail.layer, tail.kind, 0, slow_down_}, last_compute_);
    builder_.add_arc(issue, head.first_task);
    return to;
  }

  /// The next block begins an iteration.
  void begin_iteration() {
    if (last_compute_ != Slot::none) out_.compute_ends.push_back(last_compute_);
    begins_ = true;
  }

  /// What follows starts so much later, on both streams.
  void late(Picoseconds time) {
    if (host_ != Slot::none) chained({time, host_, 0, 0, TaskKind::late}, last_host_);
    chained({time, compute_, 0, 0, TaskKind::late}, last_compute_);
  }

  /// Closes the loop to the next repetition.
  void close(bool host_waits) {
    builder_.add_arc(last_compute_, first_compute_, 1);
    if (host_ == Slot::none) return;
    builder_.add_arc(last_host_, first_host_, 1);
    out_.compute_ends.push_back(last_compute_);
    const auto period = static_cast<std::uint32_t>(out_.compute_ends.size());
    const std::uint32_t ahead = host_waits ? 1 : 2;
    for (std::uint32_t i = 0; i < period; ++i)
      builder_.add_arc(out_.compute_ends[i], out_.host_begins[(i + ahead) % period], (i + ahead) / period);
  }
  std::uint32_t last_compute() const { return last_compute_; }
  std::uint32_t compute() const { return compute_; }

 private:
  std::uint32_t chained(const Task& task, std::uint32_t& last) {
    const std::uint32_t t = builder_.add_task(task);
    if (last == Slot::none) (&last == &last_host_ ? first_host_ : first_compute_) = t;
    else builder_.add_arc(last, t);
    if (begins_ && &last == &last_host_) out_.host_begins.push_back(t), begins_ = false;
    return last = t;
  }

  TaskGraphBuilder& builder_;
  ChainEnds& out_;
  double slow_down_;
  bool begins_ = false;
  std::uint32_t host_ = Slot::none, compute_ = Slot::none;
  std::uint32_t first_host_ = Slot::none, last_host_ = Slot::none, first_compute_ = Slot::none,
                last_compute_ = Slot::none;
};

// A loader beside the step prepares batch after batch, at most two ahead of the one that was taken last.
void add_loader(Picoseconds period, const std::vector<std::uint32_t>& takes, TaskGraphBuilder& builder) {
  constexpr std::uint32_t ahead = 2;
  const std::uint32_t loader = builder.add_resource({"loader", ResourceClass::host, Discipline::parallel, 0});
  const auto n = static_cast<std::uint32_t>(takes.size());
  const auto first = static_cast<std::uint32_t>(builder.graph().tasks.size());
  for (std::uint32_t i = 0; i < n; ++i) {
    builder.add_task({period, loader, 0, 0, TaskKind::load});
    builder.add_arc(first + i, takes[i]);
    builder.add_arc(first + i, first + (i + 1) % n, (i + 1) / n);
    builder.add_arc(takes[i], first + (i + ahead) % n, (i + ahead) / n);
  }
}

Picoseconds time_of(const Transfer& t, bool timer, const CommunicationCost& cost) {
  return picoseconds_of(timer ? t.delay : cost(t.operation, t.size) + t.overhead);
}
std::int64_t credit_of(const Channel& channel) {
  return static_cast<std::int64_t>(std::min(channel.credit.value(), 9e18));
}
bool is_timer(const Transfer& t, const CommPlan& plan) {
  return plan.channels[t.channel].discipline == Discipline::parallel;
}

/// True where a transfer is followed by an arrival: the same for plans of the same structure on the same network.
bool arrives_later(const Transfer& t, bool timer, const CommunicationCost& cost) {
  return !timer && (t.after > Seconds(0) || (!t.may_lose && cost.repairs(t.operation)));
}
Picoseconds arrival_time(const Transfer& t, const CommunicationCost& cost) {
  return picoseconds_of(t.may_lose ? t.after : t.after + cost.repair_time(t.operation, t.size));
}

void add_transfers(const CommPlan& plan, const CommunicationCost& cost, TaskGraphBuilder& builder) {
  std::array<std::uint32_t, 256> resource_of{};
  for (std::size_t c = 0; c < plan.channels.size(); ++c) {
    const Channel& channel = plan.channels[c];
    const auto kind = channel.discipline == Discipline::parallel ? ResourceClass::timer : ResourceClass::communication;
    resource_of[c] = builder.add_resource(
        {std::string(channel.name), kind, channel.discipline, credit_of(channel), channel.preemptive});
  }
  for (std::uint32_t x = 0; x < plan.transfers.size(); ++x) {
    const Transfer& t = plan.transfers[x];
    const bool timer = is_timer(t, plan);
    if (!timer && !cost.defines(t.operation))
      throw InputError("plan", "a collective algorithm that defines " + std::string(name_of(t.operation)),
                       std::string(cost.algorithm()));
    builder.add_task({time_of(t, timer, cost), resource_of[t.channel], t.priority, x,
                      timer ? TaskKind::timer : TaskKind::transfer, static_cast<std::int64_t>(t.size.value()),
                      timer ? 1 : cost.slow_down(t.operation, t.size)});
  }
}

// Codecs queue for their engine. They precede a layer's pass that becomes ready at the same time: whoever makes a
// gradient ready issues its codec before the next pass.
void add_codecs(const CommPlan& plan, const Contention& contention, std::uint32_t compute, TaskGraphBuilder& builder) {
  std::uint32_t processor = Slot::none;
  for (std::uint32_t c = 0; c < plan.codecs.size(); ++c) {
    const Codec& codec = plan.codecs[c];
    const bool beside = codec.engine == Engine::processor;
    if (beside && processor == Slot::none)
      processor = builder.add_resource({"processor", ResourceClass::host, Discipline::fifo, 0});
    builder.add_task({picoseconds_of(codec.time), beside ? processor : compute, -1, c, TaskKind::codec, 0,
                      beside ? 1 : contention.compute_under_communication});
  }
}

// What arrives later than it was sent. `arrivals`: the task for which those wait that wait for a transfer.
void add_arrivals(const CommPlan& plan, const CommunicationCost& cost, std::uint32_t first_transfer,
                  TaskGraphBuilder& builder, std::vector<std::uint32_t>& arrivals) {
  arrivals.clear();
  std::uint32_t beside = Slot::none;
  for (std::uint32_t x = 0; x < plan.transfers.size(); ++x) {
    const Transfer& t = plan.transfers[x];
    arrivals.push_back(first_transfer + x);
    if (!arrives_later(t, is_timer(t, plan), cost)) continue;
    if (beside == Slot::none)
      beside = builder.add_resource({"repairs", ResourceClass::communication, Discipline::parallel, 0});
    arrivals[x] = builder.add_task({arrival_time(t, cost), beside, t.priority, x, TaskKind::arrival});
    builder.add_arc(first_transfer + x, arrivals[x]);
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

// --- Graph ----------------------------------------------------------------------------------------------------------

std::uint32_t Lowering::task_of(const Node& node, bool source) const {
  if (node.kind == NodeKind::transfer) return source ? arrivals_[node.index] : first_transfer_ + node.index;
  if (node.kind == NodeKind::codec) return first_codec_ + node.index;
  const Slot& slot = slots_[slot_of(node, source)];
  if (node.kind == NodeKind::forward_entry) return slot.entry_task;
  return source ? slot.last_task : slot.first_task;
}

void Lowering::write(const ComputeTimes& compute, const CommPlan& plan, const CommunicationCost& cost,
                     const Contention& contention, const LowerOptions& options, TaskGraph& graph) {
  order_compute(compute, plan);
  add_packing(compute, plan);
  mark_cuts(plan);
  builder_.begin(std::move(graph));
  builder_.reserve(plan.transfers.size() + 3 * slots_.size() + 2 * plan.period,
                   plan.edges.size() + 4 * slots_.size() + 3 + 2 * plan.period);
  // A codec may come in between any two passes: then the passes queue, too, one by one.
  const bool shared = std::any_of(plan.codecs.begin(), plan.codecs.end(), runs_on_compute);
  ChainWriter chain(builder_, ends_, compute.has_device, contention.compute_under_communication,
                    shared ? Discipline::fifo : Discipline::parallel);
  for (std::size_t i = 0; i < first_.size(); ++i) {
    const std::size_t iteration_end = i + 1 < first_.size() ? first_[i + 1] : slots_.size();
    chain.begin_iteration();
    if (compute.late > 0) chain.late(compute.late);
    for (std::size_t from = first_[i]; from < iteration_end;)
      from = chain.block(slots_, from, iteration_end, options.merge && !shared);
  }
  const std::uint32_t last = chain.last_compute();
  chain.close(compute.host_waits_for_device);
  if (compute.has_loader) add_loader(compute.input_period, ends_.takes, builder_);

  first_transfer_ = static_cast<std::uint32_t>(builder_.graph().tasks.size());
  add_transfers(plan, cost, builder_);
  first_codec_ = static_cast<std::uint32_t>(builder_.graph().tasks.size());
  add_codecs(plan, contention, chain.compute(), builder_);
  add_arrivals(plan, cost, first_transfer_, builder_, arrivals_);
  for (const Edge& e : plan.edges) builder_.add_arc(task_of(e.from, true), task_of(e.to, false), e.lag);

  graph = builder_.build();
  graph.marker = last;
  graph.barrier = is_barrier(graph);
}

bool same_structure(const CommPlan& a, const CommPlan& b) {
  return a.period == b.period && a.one_update == b.one_update && a.update == b.update &&
         a.update_per_tensor == b.update_per_tensor && a.packing == b.packing && a.order == b.order &&
         a.edges == b.edges &&
         std::equal(a.channels.begin(), a.channels.end(), b.channels.begin(), b.channels.end(),
                    [](const Channel& x, const Channel& y) {
                      return x.discipline == y.discipline && x.preemptive == y.preemptive;
                    }) &&
         std::equal(a.transfers.begin(), a.transfers.end(), b.transfers.begin(), b.transfers.end(),
                    [](const Transfer& x, const Transfer& y) {
                      return x.channel == y.channel && x.priority == y.priority && x.may_lose == y.may_lose &&
                             x.first_tensor == y.first_tensor && x.tensors == y.tensors &&
                             x.carries_gradient == y.carries_gradient &&
                             (x.after > Seconds(0)) == (y.after > Seconds(0)) && x.operation == y.operation;
                    }) &&
         std::equal(a.codecs.begin(), a.codecs.end(), b.codecs.begin(), b.codecs.end(),
                    [](const Codec& x, const Codec& y) { return x.engine == y.engine; });
}

bool refilled(const CommPlan& plan, const CommunicationCost& cost, TaskGraph& graph) {
  bool changed = false;
  const auto set = [&](auto& to, const auto& value) {
    changed |= to != value;
    to = value;
  };
  const auto arrivals =
      static_cast<std::size_t>(std::count_if(plan.transfers.begin(), plan.transfers.end(), [&](const Transfer& t) {
        return arrives_later(t, is_timer(t, plan), cost);
      }));
  Task* task = graph.tasks.data() + (graph.tasks.size() - plan.transfers.size() - plan.codecs.size() - arrivals);
  for (const Transfer& t : plan.transfers) {
    const bool timer = is_timer(t, plan);
    set(task->work, time_of(t, timer, cost));
    set(task->bytes, static_cast<std::int64_t>(t.size.value()));
    set(task->slow_down, timer ? 1 : cost.slow_down(t.operation, t.size));
    set(graph.resources[task->resource].credit, credit_of(plan.channels[t.channel]));
    ++task;
  }
  for (const Codec& c : plan.codecs) set((task++)->work, picoseconds_of(c.time));
  for (const Transfer& t : plan.transfers)
    if (arrives_later(t, is_timer(t, plan), cost)) set((task++)->work, arrival_time(t, cost));
  return changed;
}

}  // namespace stepcast
