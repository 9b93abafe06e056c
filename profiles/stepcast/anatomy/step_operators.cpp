// StepOperators: gather -> link -> phases.
#include <stepcast/anatomy/step_operators.hpp>

#include <algorithm>
#include <map>
#include <string>

namespace stepcast {
namespace {

using naming::Role;

class Gathering {
 public:
  Gathering(const TraceIndex& index, const StepWindow& window) : index_(index), trace_(index.trace), window_(window) {}

  StepOperators result() {
    gather();
    if (out_.first_backward == no_index) return std::move(out_);
    link_nodes();
    assign_phases();
    return std::move(out_);
  }

 private:
  const Event& event(const StepOperator& o) const { return trace_.events[o.event]; }

  void gather() {
    const auto first = std::lower_bound(trace_.events.begin(), trace_.events.end(), window_.start_ns,
                                        [](const Event& e, std::int64_t t) { return e.start_ns < t; });
    out_.begin = std::uint32_t(first - trace_.events.begin());
    out_.end = out_.begin;
    while (out_.end < trace_.events.size() && trace_.events[out_.end].start_ns < window_.end_ns) ++out_.end;
    const std::vector<std::uint8_t> wanted = wanted_tracks();
    for (std::uint32_t i = out_.begin; i < out_.end; ++i)
      if (index_.is_operator(i) && wanted[trace_.events[i].track] != 0) out_.list.push_back({i, index_.facts(i).role});
    for (std::uint32_t k = 0; k < out_.list.size(); ++k) {
      out_.position.emplace(out_.list[k].event, k);
      if (!out_.list[k].is_node()) continue;
      if (out_.first_backward == no_index) out_.first_backward = k;
      out_.last_backward = k;
    }
  }

  /// The thread that runs the step, and the threads of the backward pass.
  std::vector<std::uint8_t> wanted_tracks() const {
    std::vector<std::int64_t> busy(trace_.tracks.size(), 0);
    std::vector<std::uint8_t> wanted(trace_.tracks.size(), 0);
    for (std::uint32_t i = out_.begin; i < out_.end; ++i) {
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
    for (const StepOperator& o : out_.list)
      if (o.forward != no_index) out_.list[o.forward].linked = true;
  }

  std::size_t count_linked() {
    std::size_t linked = 0;
    out_.backward_nodes = 0;
    for (const StepOperator& o : out_.list) {
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
    for (std::uint32_t i = out_.begin; i < out_.end; ++i) {
      const Event& e = trace_.events[i];
      if (e.sequence < 0 || index_.operator_of[i] == no_index) continue;
      const auto at = out_.position.find(index_.operator_of[i]);
      if (at == out_.position.end()) continue;
      StepOperator& o = out_.list[at->second];
      if (!o.is_node()) creator[e.sequence] = at->second;
      else if (o.role == Role::backward_node && o.event == i)
        if (const auto it = creator.find(e.sequence); it != creator.end()) o.forward = it->second;
    }
  }

  void link_by_arrows() {
    for (const ForwardBackwardLink& link : trace_.forward_backward) {
      if (link.forward < out_.begin || link.backward >= out_.end) continue;
      const auto from = out_.position.find(index_.operator_of[link.forward]);
      const auto to = out_.position.find(index_.operator_of[link.backward]);
      if (from == out_.position.end() || to == out_.position.end() || !out_.list[to->second].is_node()) continue;
      if (out_.list[from->second].is_node()) continue;
      out_.list[to->second].forward = from->second;
      out_.links = LinkSource::arrows;
    }
  }

  /// The engine runs nodes in reverse order of their creation: the k-th node of a kind from the start belongs to the
  /// k-th forward operator of that kind from the end.
  void link_by_order() {
    std::map<std::string, std::vector<std::uint32_t>> nodes, creators;
    for (std::uint32_t k = 0; k < out_.list.size(); ++k)
      if (out_.list[k].role == Role::backward_node) nodes[naming::operator_key(text(out_.list[k].event))].push_back(k);
    for (std::uint32_t i = out_.begin; i < out_.end; ++i) {
      const auto at = out_.position.find(index_.operator_of[i]);
      if (index_.operator_of[i] == no_index || at == out_.position.end() || out_.list[at->second].is_node()) continue;
      if (at->second > out_.first_backward) break;
      const std::string key = naming::operator_key(text(i));
      if (nodes.count(key) == 0) continue;
      const bool repeats = index_.parent[i] != no_index && naming::operator_key(text(index_.parent[i])) == key;
      if (!repeats) creators[key].push_back(at->second);
    }
    for (const auto& [key, list] : nodes) {
      const std::vector<std::uint32_t>& from = creators[key];
      if (from.size() != list.size()) continue;
      for (std::size_t k = 0; k < list.size(); ++k) out_.list[list[k]].forward = from[list.size() - 1 - k];
      out_.links = LinkSource::order;
    }
  }

  std::string_view text(std::uint32_t i) const { return trace_.text(trace_.events[i].name); }

  void assign_phases() {
    bool computing = false, in_backward = false;
    const std::uint32_t backward_track = event(out_.list[out_.first_backward]).track;
    for (std::uint32_t k = 0; k < out_.list.size(); ++k) {
      StepOperator& o = out_.list[k];
      computing = computing || o.linked;
      if (o.is_node()) {
        if (!in_backward) ++out_.backward_passes;
        in_backward = true;
        o.phase = Phase::backward;
      } else if (k > out_.last_backward) {
        o.phase = Phase::tail;
      } else if (!computing) {
        o.phase = Phase::lead_in;
      } else if (k < out_.first_backward || o.linked || event(o).track != backward_track) {
        if (o.linked && (in_backward || out_.pass_starts_ns.empty())) out_.pass_starts_ns.push_back(event(o).start_ns);
        if (o.linked) in_backward = false;
        o.phase = Phase::forward;
        if (out_.first_operator == no_index) out_.first_operator = o.event;
      } else {
        o.phase = Phase::backward;
      }
    }
  }

  const TraceIndex& index_;
  const Trace& trace_;
  StepWindow window_;
  StepOperators out_;
};

}  // namespace

std::uint32_t StepOperators::position_of(const TraceIndex& index, std::uint32_t event) const {
  const std::uint32_t owner = index.operator_of[event];
  const auto at = owner == no_index ? position.end() : position.find(owner);
  return at == position.end() ? no_index : at->second;
}

StepOperators step_operators(const TraceIndex& index, const StepWindow& window) {
  return Gathering(index, window).result();
}

}  // namespace stepcast
