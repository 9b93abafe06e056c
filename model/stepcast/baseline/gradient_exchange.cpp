// The graph of a recorded step gets a gate and a message behind each gradient; a plan opens some of the gates.
#include <stepcast/anatomy/traced_collectives.hpp>
#include <stepcast/baseline/gradient_exchange.hpp>
#include <stepcast/replay/calibration.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace stepcast {
namespace {

using replaying::HostPlace;
using replaying::TaskRole;

/// Far below any time: what a shut gate adds.
constexpr Picoseconds shut = -(Picoseconds{1} << 61);

class Exchanging {
 public:
  Exchanging(const TraceIndex& index, const replaying::Calibration& calibration,
             std::span<const std::uint32_t> collective_of, std::span<const Tensor> tensors, Seconds issue)
      : index_(index),
        step_(calibration.taken_apart),
        links_(calibration.links),
        window_{calibration.step().start_ns, calibration.step().end_ns},
        collective_of_(collective_of),
        tensors_(tensors),
        issue_(picoseconds_of(issue)),
        anatomy_(anatomy_of(index, window_)) {}

  Answer<ExchangeableStep> step() {
    if (std::string why = find_messages(); !why.empty()) return Inapplicable{std::move(why)};
    if (std::string why = find_transfers(); !why.empty()) return Inapplicable{std::move(why)};
    if (std::string why = place_gradients(); !why.empty()) return Inapplicable{std::move(why)};
    if (std::string why = leave_out_gaps(); !why.empty()) return Inapplicable{std::move(why)};
    copy_graph();
    add_gates();
    add_waits();
    out_.graph = builder_.build();
    if (!flaw_of(out_.graph).empty())
      return Inapplicable{"some of its gradients are waited for before others are ready"};
    return std::move(out_);
  }

 private:
  struct Message {
    TracedCollective collective;
    std::uint32_t last = 0;  ///< gradient
  };
  struct Wait {
    std::uint32_t gradient = 0, task = no_index, lag = 0;
  };
  [[nodiscard]] const Event& event(std::uint32_t e) const { return index_.trace.events[e]; }
  [[nodiscard]] std::uint32_t gradients() const { return static_cast<std::uint32_t>(tensors_.size()); }

  /// The recorded messages, and which gradients each of them carried.
  std::string find_messages() {
    if (tensors_.empty() || anatomy_.gradients.size() != tensors_.size())
      return "the gradients of its profile are not those of the step that is rebuilt";
    const std::vector<TracedCollective> collectives = collectives_in(index_, std::span(&window_, 1)).front();
    std::uint32_t next = 0;
    for (const GradientReduction& r : gradient_reductions(collectives, anatomy_, tensors_)) {
      const TracedCollective& c = collectives[r.collective];
      next += r.gradients;
      if (c.operation != "allreduce") return "its gradients are not all-reduced";
      if (collective_of_[c.event] == no_index) return "an all-reduce of its gradients is no task of the rebuilt step";
      messages_.push_back({c, next - 1});
      out_.exchange.recorded.push_back({collective_of_[c.event], next - 1});
    }
    constexpr double alike = 0.01;
    Bytes all, carried, sent;
    for (const Message& message : messages_) sent += message.collective.size;
    for (std::uint32_t k = 0; k < gradients(); ++k) {
      all += tensors_[k].size;
      if (k >= next) continue;
      carried += tensors_[k].size;
      out_.exchange.sizes.push_back(tensors_[k].size);
    }
    // What became ready behind them is not sent, by their bytes or by its own: gradients of divided tables, say.
    const bool as_many_bytes = std::abs(sent / carried - 1) <= alike;
    if (messages_.empty() || (!as_many_bytes && carried < (1 - alike) * all))
      return "its all-reduces do not take the gradients of the step with them";
    tensors_ = tensors_.first(next);
    return {};
  }

  /// The tasks of the recorded messages, the row of the graph that carries them, and who waits for them.
  std::string find_transfers() {
    std::map<std::uint32_t, std::size_t> message_of;  // by event
    for (std::size_t m = 0; m < messages_.size(); ++m) message_of[messages_[m].collective.event] = m;
    const TaskGraph& graph = step_.graph;
    std::set<std::uint32_t> rows;
    bool on_device = false, awaited = false;
    for (std::uint32_t t = 0; t < graph.tasks.size(); ++t) {
      const TaskRole::Part part = step_.roles[t].part;
      if (part == TaskRole::Part::latency)
        for (const Arc& arc : graph.successors(t))
          if (message_of.contains(graph.tasks[arc.task].index) && step_.roles[arc.task].part == TaskRole::Part::device)
            out_.exchange.latency = std::max(out_.exchange.latency, graph.tasks[t].work);
      if (part != TaskRole::Part::transfer && part != TaskRole::Part::device) continue;
      const auto message = message_of.find(graph.tasks[t].index);
      if (message == message_of.end()) continue;
      rows.insert(graph.tasks[t].resource);
      on_device = on_device || part == TaskRole::Part::device;
      for (const Arc& arc : graph.successors(t)) {
        if (graph.tasks[arc.task].resource == graph.tasks[t].resource || arc.task == graph.marker) continue;
        waits_.push_back({messages_[message->second].last, arc.task, arc.lag});
        awaited = true;
      }
    }
    if (!awaited) return "nobody is seen to wait for its gradients";
    if (!on_device) return {};
    if (rows.size() > 1) return "its gradients are all-reduced on several streams";
    row_ = *rows.begin();
    return {};
  }

  /// Where the trace has the hook of a gradient end, and the task of the host in which it does.
  std::string place_gradients() {
    std::int64_t latest = INT64_MIN;
    for (std::uint32_t k = 0; k < gradients(); ++k) {
      const std::uint32_t hook = anatomy_.gradients[k].event, around = index_.operator_of[hook];
      latest = std::max(latest, event(around == no_index ? hook : around).end_ns());
      hook_ends_ns_.push_back(latest);
      const HostPlace* place = last_before(event(hook).track, latest);
      if (place == nullptr) return "the thread that takes its gradients is no part of the rebuilt step";
      anchors_.push_back(host_number(place->task));
      threads_.push_back(event(hook).track);
    }
    out_.exchange.anchors = anchors_;
    for (const Message& message : messages_) find_issue(message);
    std::vector<bool> is_recorded(gradients(), false);
    for (const Message& message : messages_) is_recorded[message.last] = true;
    for (std::uint32_t k = 0; k < gradients(); ++k)
      if (!is_recorded[k]) out_.exchange.issues.push_back({k, anchors_[k], issue_, false});
    return {};
  }

  /// A host that lost its processor to the thread of a message looks as if it had waited for it. Whoever really waits
  /// for gradients before all are ready does so at once, before the next of them.
  std::string leave_out_gaps() {
    std::vector<std::int64_t> began_ns(step_.graph.tasks.size(), INT64_MAX);
    for (const std::vector<HostPlace>& row : step_.threads)
      for (const HostPlace& place : row) began_ns[place.task] = place.began_ns;
    for (std::uint32_t t = 0; t < step_.graph.tasks.size(); ++t)
      if (step_.roles[t].part == TaskRole::Part::device && links_.launch_of[step_.graph.tasks[t].index] != no_index)
        began_ns[t] = links_.launch_time(step_.graph.tasks[t].index);
    const auto in_passes = [&](const Wait& wait) {
      return wait.lag == 0 && began_ns[wait.task] < hook_ends_ns_.back();
    };
    std::set<std::uint32_t> at_once;
    for (const Wait& wait : waits_)
      if (in_passes(wait) && wait.gradient + 1 < gradients() && began_ns[wait.task] < hook_ends_ns_[wait.gradient + 1])
        at_once.insert(wait.gradient);
    if (2 * at_once.size() > messages_.size()) return "some of its gradients are waited for before others are ready";
    std::erase_if(waits_, in_passes);
    return waits_.empty() ? "nobody is seen to wait for its gradients" : "";
  }

  [[nodiscard]] const std::vector<HostPlace>* row_of(std::uint32_t track) const {
    for (const std::vector<HostPlace>& row : step_.threads)
      if (!row.empty() && step_.roles[row.front().task].track == track) return &row;
    return nullptr;
  }
  [[nodiscard]] const HostPlace* last_before(std::uint32_t track, std::int64_t time_ns) const {
    const std::vector<HostPlace>* row = row_of(track);
    if (row == nullptr) return nullptr;
    const auto after = std::ranges::lower_bound(*row, time_ns, {}, &HostPlace::began_ns);
    return after == row->begin() ? nullptr : &*(after - 1);
  }
  std::uint32_t host_number(std::uint32_t task) {
    const auto [entry, is_new] = number_of_host_.try_emplace(task, static_cast<std::uint32_t>(hosts_.size()));
    if (is_new) {
      hosts_.push_back(task);
      out_.exchange.hosts.push_back(step_.graph.tasks[task].work);
    }
    return entry->second;
  }

  /// The call that issued a message: the outermost one that communicates and nothing else.
  [[nodiscard]] std::uint32_t call_of(const TracedCollective& c) const {
    std::uint32_t call = index_.launcher[c.event];
    if (call == no_index) {
      const auto [first, end] = links_.events_within(c.issued_ns, c.issued_ns + 1);
      for (std::uint32_t e = first; e < end && call == no_index; ++e)
        if (!index_.trace.tracks[event(e).track].on_device && index_.facts(e).role == naming::Role::communication &&
            e != c.event)
          call = e;
      return call;
    }
    for (std::uint32_t e = call; e != no_index; e = index_.parent[e])
      if (index_.facts(e).role == naming::Role::communication) call = e;
    return call;
  }
  void find_issue(const Message& message) {
    const std::uint32_t call = call_of(message.collective);
    if (call == no_index) return;
    const std::vector<HostPlace>* row = row_of(event(call).track);
    if (row == nullptr) return;
    for (const HostPlace& place : *row) {
      const std::int64_t work_ns = step_.graph.tasks[place.task].work / 1000;
      const std::int64_t from = std::max(place.began_ns, event(call).start_ns);
      const std::int64_t to = std::min(place.began_ns + work_ns, event(call).end_ns());
      if (place.began_ns >= event(call).end_ns()) break;
      if (to <= from) continue;
      anchors_[message.last] = host_number(place.task);
      out_.exchange.issues.push_back({message.last, anchors_[message.last], (to - from) * 1000, true});
    }
  }

  void copy_graph() {
    const TaskGraph& graph = step_.graph;
    for (const Resource& resource : graph.resources) builder_.add_resource(resource);
    for (const Task& task : graph.tasks) (void)builder_.add_task(task);
    for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
      for (const Arc& arc : graph.successors(t)) builder_.add_arc(t, arc.task, arc.lag);
    builder_.graph().marker = graph.marker;
    out_.free = hosts_;
  }
  std::uint32_t add(Picoseconds work = 0) {
    return builder_.add_task({.work = work, .resource = messages_row_, .index = no_index, .kind = TaskKind::transfer});
  }

  /// Device work of the step with the call that launched it.
  struct Launched {
    std::int64_t time_ns = 0;
    std::uint32_t task = no_index, thread = no_index;
    bool sends = false;
  };
  [[nodiscard]] std::vector<Launched> launched() const {
    std::vector<Launched> out;
    for (std::uint32_t t = 0; t < step_.graph.tasks.size(); ++t) {
      if (step_.roles[t].part != TaskRole::Part::device) continue;
      const std::uint32_t work = step_.graph.tasks[t].index, call = links_.launch_of[work];
      if (call == no_index) continue;
      const bool sends = step_.graph.tasks[t].resource == row_ || collective_of_[work] != no_index;
      out.push_back({event(call).start_ns, t, event(call).track, sends});
    }
    std::ranges::stable_sort(out, {}, &Launched::time_ns);
    return out;
  }

  /// Behind each gradient: ready -> gate -> message, in the row of what its stream carries.
  void add_gates() {
    messages_row_ = builder_.add_resource({"messages of gradients", ResourceClass::communication});
    const std::vector<Launched> work = launched();
    std::vector<std::uint32_t> row;  // what the stream of the messages carries, by launch
    std::vector<std::int64_t> row_times;
    for (const Launched& w : work)
      if (row_ != no_index && step_.graph.tasks[w.task].resource == row_)
        row.push_back(w.task), row_times.push_back(w.time_ns);
    std::map<std::uint32_t, std::uint32_t> latest;  // compute by thread
    std::size_t next = 0;
    for (std::uint32_t k = 0; k < gradients(); ++k) {
      for (; next < work.size() && work[next].time_ns < hook_ends_ns_[k]; ++next)
        if (!work[next].sends) latest[work[next].thread] = work[next].task;
      const std::uint32_t reached = add(out_.exchange.latency), gate = add(), message = add();
      builder_.add_arc(hosts_[anchors_[k]], reached);
      builder_.add_arc(reached, gate);
      if (const auto kernel = latest.find(threads_[k]); kernel != latest.end()) builder_.add_arc(kernel->second, gate);
      builder_.add_arc(gate, message);
      if (k > 0) builder_.add_arc(sent_.back(), message);
      take_turn(message, row, std::ranges::lower_bound(row_times, hook_ends_ns_[k]) - row_times.begin());
      sent_.push_back(message);
      gates_.push_back(gate);
    }
    builder_.add_arc(sent_.back(), sent_.front(), 1);
    if (row_ != no_index) builder_.add_arc(sent_.back(), step_.graph.marker);
  }
  /// Between what the stream was given before and what it is given after.
  void take_turn(std::uint32_t message, const std::vector<std::uint32_t>& row, std::ptrdiff_t place) {
    if (row.empty()) return;
    const bool first = place == 0, last = place == std::ssize(row);
    builder_.add_arc(first ? row.back() : row[static_cast<std::size_t>(place - 1)], message, first ? 1 : 0);
    builder_.add_arc(message, last ? row.front() : row[static_cast<std::size_t>(place)], last ? 1 : 0);
  }

  /// A gradient has arrived with its message: with the first one that is sent behind it or behind a later one.
  void add_waits() {
    std::vector<std::uint32_t> spreads(gradients()), arrived(gradients());
    for (std::uint32_t k = gradients(); k-- > 0;) {
      arrived[k] = add();
      builder_.add_arc(sent_[k], arrived[k]);
      spreads[k] = add();
      builder_.add_arc(k + 1 < gradients() ? arrived[k + 1] : sent_[k], spreads[k]);
      builder_.add_arc(spreads[k], arrived[k]);
    }
    for (const Wait& wait : waits_) builder_.add_arc(arrived[wait.gradient], wait.task, wait.lag);
    for (std::uint32_t k = 0; k < gradients(); ++k)
      out_.free.insert(out_.free.end(), {gates_[k], sent_[k], spreads[k]});
  }

  const TraceIndex& index_;
  const replaying::StepGraph& step_;
  const replaying::TraceLinks& links_;
  const StepWindow window_;
  const std::span<const std::uint32_t> collective_of_;  // by event
  std::span<const Tensor> tensors_;                     // those that are sent
  const Picoseconds issue_;
  const StepAnatomy anatomy_;
  std::vector<Message> messages_;
  std::vector<Wait> waits_;
  std::uint32_t row_ = no_index;            // the stream that carries the messages
  std::vector<std::int64_t> hook_ends_ns_;  // by gradient, as are the next two
  std::vector<std::uint32_t> anchors_;      // place among hosts_
  std::vector<std::uint32_t> threads_;      // of the hook
  std::vector<std::uint32_t> hosts_;        // tasks
  std::map<std::uint32_t, std::uint32_t> number_of_host_;
  TaskGraphBuilder builder_;
  std::uint32_t messages_row_ = 0;
  std::vector<std::uint32_t> gates_, sent_;
  ExchangeableStep out_;
};

}  // namespace

void GradientExchange::append_times(std::span<const GradientMessage> messages, std::vector<Picoseconds>& times,
                                    std::span<const Picoseconds> slowed) const {
  const std::size_t host = times.size(), gate = host + hosts.size();
  times.insert(times.end(), hosts.begin(), hosts.end());
  for (std::size_t k = 0; k < sizes.size(); ++k) times.insert(times.end(), {shut, 0, 0});
  std::vector<std::uint32_t> issued(sizes.size(), 0);
  for (const GradientMessage& m : messages) {
    ++issued[m.last];
    times[gate + 3 * m.last] = std::max(times[gate + 3 * m.last], m.late);
    times[gate + 3 * m.last + 1] += m.time;
    times[gate + 3 * m.last + 2] = shut;
  }
  times[gate + 3 * sizes.size() - 1] = shut;
  for (const Issue& issue : issues) {
    const std::uint32_t count = issued[issue.gradient];
    Picoseconds& work = times[host + issue.host];
    work += issue.work * (issue.is_recorded ? std::int64_t{count} - 1 : std::int64_t{count});
  }
  for (std::size_t k = 0; k < slowed.size(); ++k) times[host + anchors[k]] += slowed[k];
  for (std::size_t h = host; h < gate; ++h) times[h] = std::max<Picoseconds>(0, times[h]);
}

void GradientExchange::append_recorded_times(std::vector<Picoseconds>& times) const {
  times.insert(times.end(), hosts.begin(), hosts.end());
  for (std::size_t k = 0; k < sizes.size(); ++k) times.insert(times.end(), {shut, 0, shut});
}

Answer<std::vector<GradientMessage>> messages_of(const CommPlan& plan, const Profile& profile) {
  const auto other = [](std::string why) { return Inapplicable{"in the recorded step " + std::move(why)}; };
  if (plan.period != 1) return other("every step exchanges gradients");
  if (!plan.codecs.empty()) return other("the work of codecs has no place");
  if (!plan.order.empty()) return other("messages follow the order in which gradients become ready");
  if (plan.update != UpdatePlace::after_backward) return other("the update is behind the backward pass");
  if (plan.channels.size() > 1) return other("messages travel one after the other");
  // The last gradient that is ready when the backward pass of a layer has ended; not every layer has one.
  std::vector<std::uint32_t> last_after_layer(profile.layers.size(), 0);
  for (std::uint32_t i = 0, last = 0; const std::uint32_t layer : profile.backward_order) {
    for (; i < profile.tensors.size() && profile.tensors[i].layer == layer; ++i) last = i;
    last_after_layer[layer] = last;
  }
  std::vector<GradientMessage> messages;
  std::uint32_t next = 0;
  for (const Transfer& t : plan.transfers) {
    if (t.operation != Operation::all_reduce || !t.carries_gradient) return other("gradients are all-reduced");
    if (t.tensors == 0 || t.first_tensor != next) return other("messages are runs of whole gradients");
    next += t.tensors;
    messages.push_back({next - 1, t.size});
  }
  if (next != profile.tensors.size()) return other("every gradient is sent");
  for (const Edge& edge : plan.edges) {
    const bool ready = edge.from.kind == NodeKind::backward && edge.to.kind == NodeKind::transfer;
    const bool waits = edge.from.kind == NodeKind::transfer && edge.to.kind == NodeKind::update;
    if (edge.lag != 0 || (!ready && !waits)) return other("the update waits for all messages, and nobody else does");
    if (!ready) continue;
    // That of a layer's pass; a message of only some of its gradients is issued behind the last of these.
    GradientMessage& message = messages[edge.to.index];
    const Transfer& t = plan.transfers[edge.to.index];
    const auto of_layer = [&](std::uint32_t i) { return profile.tensors[i].layer == edge.from.index; };
    if (!of_layer(t.first_tensor + t.tensors - 1))
      message.last = std::max(message.last, last_after_layer[edge.from.index]);
  }
  for (std::size_t m = 1; m < messages.size(); ++m) messages[m].last = std::max(messages[m].last, messages[m - 1].last);
  return messages;
}

Answer<ExchangeableStep> exchangeable(const TraceIndex& index, const replaying::Calibration& calibration,
                                      std::span<const std::uint32_t> collective_of, std::span<const Tensor> tensors,
                                      Seconds issue) {
  return Exchanging(index, calibration, collective_of, tensors, issue).step();
}

bool is_whole(const GradientExchange& e, std::size_t collectives) {
  return !e.sizes.empty() && e.anchors.size() == e.sizes.size() && !e.recorded.empty() &&
         std::ranges::all_of(e.anchors, [&](std::uint32_t host) { return host < e.hosts.size(); }) &&
         std::ranges::all_of(e.issues,
                             [&](const auto& i) { return i.gradient < e.sizes.size() && i.host < e.hosts.size(); }) &&
         std::ranges::all_of(e.recorded,
                             [&](const auto& r) { return r.collective < collectives && r.last < e.sizes.size(); });
}

}  // namespace stepcast
