// StepOperators: gather -> link -> phases.
#include <stepcast/anatomy/step_operators.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace stepcast {
namespace {

using naming::Role;

/// The thread that runs the step, and the threads of the backward pass; `begin` to `end` are the events of the window.
std::vector<std::uint8_t> wanted_tracks(const TraceIndex& index, const StepWindow& window, std::uint32_t begin,
                                        std::uint32_t end) {
  const Trace& trace = index.trace;
  std::vector<std::int64_t> busy(trace.tracks.size(), 0);
  std::vector<std::uint8_t> wanted(trace.tracks.size(), 0);
  for (std::uint32_t i = begin; i < end; ++i) {
    if (!index.is_operator(i)) continue;
    const Role role = index.facts(i).role;
    const std::uint32_t track = trace.events[i].track;
    if (role == Role::backward_node || role == Role::accumulate_node) wanted[track] = 1;
    // Optimizer steps and loaders mark the main thread; other threads only compute.
    const bool mark = role == Role::optimizer || role == Role::loader;
    if (mark || (role == Role::plain && trace.events[i].kind == EventKind::host_op))
      busy[track] += trace.events[i].duration_ns + (mark ? window.end_ns - window.start_ns : 0);
  }
  const auto main = std::max_element(busy.begin(), busy.end());
  if (main != busy.end() && *main > 0) wanted[std::size_t(main - busy.begin())] = 1;
  return wanted;
}

/// The operators of the window, not linked yet and without phases.
StepOperators gathered(const TraceIndex& index, const StepWindow& window) {
  const std::vector<Event>& events = index.trace.events;
  StepOperators step;
  const auto first = std::lower_bound(events.begin(), events.end(), window.start_ns,
                                      [](const Event& e, std::int64_t t) { return e.start_ns < t; });
  step.begin = step.end = std::uint32_t(first - events.begin());
  while (step.end < events.size() && events[step.end].start_ns < window.end_ns) ++step.end;
  const std::vector<std::uint8_t> wanted = wanted_tracks(index, window, step.begin, step.end);
  for (std::uint32_t i = step.begin; i < step.end; ++i)
    if (index.is_operator(i) && wanted[events[i].track] != 0) step.list.push_back({i, index.facts(i).role});
  for (std::uint32_t k = 0; k < step.list.size(); ++k) {
    step.position.emplace(step.list[k].event, k);
    if (!step.list[k].is_node()) continue;
    if (step.first_backward == no_index) step.first_backward = k;
    step.last_backward = k;
  }
  return step;
}

/// Which forward operator each node belongs to, by positions in the list of a step.
struct Links {
  std::vector<std::uint32_t> forward;
  LinkSource source = LinkSource::none;
};

std::size_t linked_nodes(const StepOperators& step, const Links& links) {
  std::size_t linked = 0;
  for (std::size_t k = 0; k < step.list.size(); ++k)
    if (step.list[k].role == Role::backward_node && links.forward[k] != no_index) ++linked;
  return linked;
}

/// The counter is recorded before an operator creates its node: of the events that show the same number, the last one
/// before the node created it.
Links linked_by_sequence(const TraceIndex& index, const StepOperators& step) {
  Links links{std::vector<std::uint32_t>(step.list.size(), no_index)};
  std::unordered_map<std::int64_t, std::uint32_t> creator;
  for (std::uint32_t i = step.begin; i < step.end; ++i) {
    const Event& e = index.trace.events[i];
    if (e.sequence < 0 || index.operator_of[i] == no_index) continue;
    const auto at = step.position.find(index.operator_of[i]);
    if (at == step.position.end()) continue;
    const StepOperator& o = step.list[at->second];
    if (!o.is_node()) creator[e.sequence] = at->second;
    else if (o.role == Role::backward_node && o.event == i)
      if (const auto it = creator.find(e.sequence); it != creator.end()) links.forward[at->second] = it->second;
  }
  if (linked_nodes(step, links) > 0) links.source = LinkSource::sequence;
  return links;
}

/// The same links, but where an arrow says otherwise.
Links linked_by_arrows(const TraceIndex& index, const StepOperators& step, Links links) {
  for (const ForwardBackwardLink& link : index.trace.forward_backward) {
    if (link.forward < step.begin || link.backward >= step.end) continue;
    const auto from = step.position.find(index.operator_of[link.forward]);
    const auto to = step.position.find(index.operator_of[link.backward]);
    if (from == step.position.end() || to == step.position.end() || !step.list[to->second].is_node()) continue;
    if (step.list[from->second].is_node()) continue;
    links.forward[to->second] = from->second;
    links.source = LinkSource::arrows;
  }
  return links;
}

/// The same links, but for kinds whose nodes can be counted. The engine runs nodes in reverse order of their creation:
/// the k-th node of a kind from the start belongs to the k-th forward operator of that kind from the end.
Links linked_by_order(const TraceIndex& index, const StepOperators& step, Links links) {
  const auto key_of = [&](std::uint32_t i) {
    return naming::operator_key(index.trace.text(index.trace.events[i].name));
  };
  std::map<std::string, std::vector<std::uint32_t>> nodes, creators;
  for (std::uint32_t k = 0; k < step.list.size(); ++k)
    if (step.list[k].role == Role::backward_node) nodes[key_of(step.list[k].event)].push_back(k);
  for (std::uint32_t i = step.begin; i < step.end; ++i) {
    const auto at = step.position.find(index.operator_of[i]);
    if (index.operator_of[i] == no_index || at == step.position.end() || step.list[at->second].is_node()) continue;
    if (at->second > step.first_backward) break;
    const std::string key = key_of(i);
    if (nodes.count(key) == 0) continue;
    const bool repeats = index.parent[i] != no_index && key_of(index.parent[i]) == key;
    if (!repeats) creators[key].push_back(at->second);
  }
  for (const auto& [key, list] : nodes) {
    const std::vector<std::uint32_t>& from = creators[key];
    if (from.size() != list.size()) continue;
    for (std::size_t k = 0; k < list.size(); ++k) links.forward[list[k]] = from[list.size() - 1 - k];
    links.source = LinkSource::order;
  }
  return links;
}

/// The step with the operators that belong together; the next source is asked where one links less than half.
StepOperators linked(const TraceIndex& index, StepOperators step) {
  step.backward_nodes = std::size_t(std::count_if(step.list.begin(), step.list.end(),
                                                  [](const StepOperator& o) { return o.role == Role::backward_node; }));
  Links links = linked_by_sequence(index, step);
  if (2 * linked_nodes(step, links) < step.backward_nodes) links = linked_by_arrows(index, step, std::move(links));
  if (2 * linked_nodes(step, links) < step.backward_nodes) links = linked_by_order(index, step, std::move(links));
  step.links = links.source;
  step.linked_nodes = linked_nodes(step, links);
  for (std::size_t k = 0; k < step.list.size(); ++k) {
    step.list[k].forward = links.forward[k];
    if (links.forward[k] != no_index) step.list[links.forward[k]].linked = true;
  }
  return step;
}

/// The step with the phase of each operator, and the passes that they make up.
StepOperators with_phases(const Trace& trace, StepOperators step) {
  const auto event = [&](const StepOperator& o) -> const Event& { return trace.events[o.event]; };
  bool computing = false, in_backward = false;
  const std::uint32_t backward_track = event(step.list[step.first_backward]).track;
  for (std::uint32_t k = 0; k < step.list.size(); ++k) {
    StepOperator& o = step.list[k];
    computing = computing || o.linked;
    if (o.is_node()) {
      if (!in_backward) ++step.backward_passes;
      in_backward = true;
      o.phase = Phase::backward;
    } else if (k > step.last_backward) {
      o.phase = Phase::tail;
    } else if (!computing) {
      o.phase = Phase::lead_in;
    } else if (k < step.first_backward || o.linked || event(o).track != backward_track) {
      if (o.linked && (in_backward || step.pass_starts_ns.empty())) step.pass_starts_ns.push_back(event(o).start_ns);
      if (o.linked) in_backward = false;
      o.phase = Phase::forward;
      if (step.first_operator == no_index) step.first_operator = o.event;
    } else {
      o.phase = Phase::backward;
    }
  }
  return step;
}

}  // namespace

std::uint32_t StepOperators::position_of(const TraceIndex& index, std::uint32_t event) const {
  const std::uint32_t owner = index.operator_of[event];
  const auto at = owner == no_index ? position.end() : position.find(owner);
  return at == position.end() ? no_index : at->second;
}

StepOperators step_operators(const TraceIndex& index, const StepWindow& window) {
  StepOperators step = gathered(index, window);
  if (step.first_backward == no_index) return step;
  return with_phases(index.trace, linked(index, std::move(step)));
}

}  // namespace stepcast
