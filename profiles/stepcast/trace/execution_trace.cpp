// Joining an execution trace with the profiler's trace: by id, else by the order of the operators on each thread.
#include <stepcast/base/error.hpp>
#include <stepcast/base/operator_order.hpp>
#include <stepcast/trace/execution_trace.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace stepcast {
namespace {

bool is_host_operator(const Trace& trace, const Event& event) {
  return (event.kind == EventKind::host_op || event.kind == EventKind::annotation) &&
         !trace.tracks[event.track].on_device;
}

/// Nodes that the observer adds on its own account.
bool is_operator(const ExecutionNode& node) {
  return !node.name.starts_with("[pytorch|") && !node.name.starts_with("## process_group:init");
}

bool is_of_process(const Trace& trace, std::int64_t process) {
  return std::ranges::any_of(trace.tracks, [&](const Track& t) { return !t.on_device && t.process == process; });
}

/// Which event is which node.
struct Pairing {
  std::vector<std::uint32_t> event_of;  ///< by node; `no_index`: none
  std::size_t pairs = 0;
  std::string how;
};

Pairing paired_by_id(const Trace& trace, const ExecutionTrace& execution) {
  const bool named = std::ranges::any_of(trace.events, [](const Event& e) { return e.record_function > 0; });
  std::unordered_map<std::int64_t, std::uint32_t> event_of_id;
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    const std::int64_t id = named ? event.record_function : event.external_id;
    if (id > 0 && is_host_operator(trace, event)) event_of_id.try_emplace(id, i);
  }
  Pairing out{std::vector<std::uint32_t>(execution.nodes.size(), no_index), 0,
              named ? "record-function id" : "external id"};
  for (std::size_t n = 0; n < execution.nodes.size(); ++n) {
    const ExecutionNode& node = execution.nodes[n];
    const auto found = node.record_function > 0 ? event_of_id.find(node.record_function) : event_of_id.end();
    if (found == event_of_id.end() || trace.text(trace.events[found->second].name) != node.name) continue;
    out.event_of[n] = found->second;
    ++out.pairs;
  }
  return out;
}

using Members = std::map<std::int64_t, std::vector<std::uint32_t>>;

/// Operators of each thread in the order of their calls, which is that of the ids.
Members nodes_by_thread(const ExecutionTrace& execution) {
  Members threads;
  for (std::uint32_t n = 0; n < execution.nodes.size(); ++n)
    if (is_operator(execution.nodes[n])) threads[execution.nodes[n].thread].push_back(n);
  for (auto& [thread, nodes] : threads)
    std::ranges::sort(nodes, {}, [&](std::uint32_t n) { return execution.nodes[n].id; });
  return threads;
}

Members events_by_track(const Trace& trace) {
  Members tracks;
  for (std::uint32_t i = 0; i < trace.events.size(); ++i)
    if (is_host_operator(trace, trace.events[i])) tracks[trace.events[i].track].push_back(i);
  // Starts are rounded to microseconds; the ids count the calls.
  for (auto& [track, events] : tracks)
    if (std::ranges::all_of(events, [&](std::uint32_t i) { return trace.events[i].external_id > 0; }))
      std::ranges::sort(events, {}, [&](std::uint32_t i) { return trace.events[i].external_id; });
  return tracks;
}

/// Pairs one thread after the other, that of the first operator first: where a recording of many like steps is joined
/// with one step, the other threads are looked for in the time that the first was found to take.
class ByOrder {
 public:
  ByOrder(const Trace& trace, const ExecutionTrace& execution)
      : trace_(trace), execution_(execution), tracks_(events_by_track(trace)) {}

  Pairing result() {
    out_.event_of.assign(execution_.nodes.size(), no_index);
    out_.how = "the order of operators on each thread";
    for (const auto& [thread, nodes] : nodes_by_thread(execution_)) pair_thread(nodes);
    return std::move(out_);
  }

 private:
  std::uint32_t number(std::string_view name) {
    return numbers_.try_emplace(name, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

  void pair_thread(const std::vector<std::uint32_t>& nodes) {
    std::vector<std::uint32_t> names;
    for (const std::uint32_t n : nodes) names.push_back(number(execution_.nodes[n].name));
    OrderMatch best;
    std::vector<std::uint32_t> best_events;
    std::int64_t best_track = -1;
    for (const auto& [track, all] : tracks_) {
      if (taken_.contains(track)) continue;
      std::vector<std::uint32_t> events, other;
      for (const std::uint32_t i : all) {
        const Event& event = trace_.events[i];
        if (event.start_ns < from_ns_ || event.start_ns > until_ns_) continue;
        events.push_back(i);
        other.push_back(number(trace_.text(event.name)));
      }
      OrderMatch match = order_match(names, other);
      if (match.size() <= best.size()) continue;
      best = std::move(match);
      best_events = std::move(events);
      best_track = track;
    }
    // A few equal names in a row say nothing.
    if (best.empty() || best.size() * 2 < names.size()) return;
    for (const auto& [from, to] : best) out_.event_of[nodes[from]] = best_events[to];
    out_.pairs += best.size();
    if (taken_.empty()) {
      from_ns_ = trace_.events[best_events[best.front().second]].start_ns;
      until_ns_ = trace_.events[best_events[best.back().second]].end_ns();
      if (best_events.size() > names.size() + names.size() / 2) out_.how += " (the first of the like steps)";
    }
    taken_.insert(best_track);
  }

  const Trace& trace_;
  const ExecutionTrace& execution_;
  const Members tracks_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
  std::set<std::int64_t> taken_;
  std::int64_t from_ns_ = std::numeric_limits<std::int64_t>::min();
  std::int64_t until_ns_ = std::numeric_limits<std::int64_t>::max();
  Pairing out_;
};

std::size_t operators_in(const ExecutionTrace& execution) {
  return static_cast<std::size_t>(std::ranges::count_if(execution.nodes, is_operator));
}

/// The best pairing; `pairs` stays 0 when the two are of different processes and their ids do not agree.
Pairing pairing_of(const Trace& trace, const ExecutionTrace& execution) {
  Pairing by_id = paired_by_id(trace, execution);
  const std::size_t operators = operators_in(execution);
  if (by_id.pairs * 10 >= operators * 9) return by_id;
  // Order proves nothing between runs: the same model gives the same names with any batch.
  if (execution.process >= 0 && !is_of_process(trace, execution.process)) {
    if (by_id.pairs * 2 < operators) by_id.pairs = 0;
    return by_id;
  }
  Pairing by_order = ByOrder(trace, execution).result();
  return by_order.pairs > by_id.pairs ? by_order : by_id;
}

// ---- what is taken over ----

class Join {
 public:
  Join(Trace trace, const ExecutionTrace& execution, const Pairing& pairing)
      : trace_(std::move(trace)), execution_(execution), pairing_(pairing) {}

  Trace result() {
    const bool had_shapes = std::ranges::any_of(trace_.events, [](const Event& e) { return e.shapes != 0; });
    for (std::size_t n = 0; n < execution_.nodes.size(); ++n)
      if (pairing_.event_of[n] != no_index) fill(trace_.events[pairing_.event_of[n]], execution_.nodes[n]);
    add_dependencies();
    if (trace_.rank < 0) trace_.rank = execution_.rank;
    if (trace_.groups.empty()) trace_.groups = execution_.groups;
    say(had_shapes);
    return std::move(trace_);
  }

 private:
  StringId text(const std::string& text) {
    if (text.empty()) return 0;
    const auto [found, is_new] = ids_.try_emplace(text, static_cast<StringId>(trace_.strings.size()));
    if (is_new) trace_.strings.push_back(text);
    return found->second;
  }

  void fill(Event& event, const ExecutionNode& node) {
    if (event.shapes == 0) event.shapes = text(node.input_shapes);
    if (event.types == 0) event.types = text(node.input_types);
    if (event.sequence < 0) event.sequence = node.sequence;
    if (event.forward_thread < 0 && node.forward_thread > 0 && node.forward_thread < no_index / 2)
      event.forward_thread = static_cast<std::int32_t>(node.forward_thread);
    if (event.record_function < 0 && node.record_function > 0 && node.record_function < no_index / 2)
      event.record_function = static_cast<std::int32_t>(node.record_function);
    if (node.collective != no_index) fill_collective(event, execution_.collectives[node.collective]);
  }

  void fill_collective(Event& event, const ExecutionCollective& known) {
    if (event.collective == no_index) {
      event.collective = static_cast<std::uint32_t>(trace_.collectives.size());
      trace_.collectives.emplace_back();
    }
    CollectiveArguments& out = trace_.collectives[event.collective];
    const bool without_size = out.in_elements < 0 && out.out_elements < 0;
    if (without_size && (known.in_elements >= 0 || known.out_elements >= 0)) {
      out.in_elements = known.in_elements;
      out.out_elements = known.out_elements;
      out.dtype = text(known.dtype);
      out.from_execution_trace = true;
      ++sized_;
    }
    if (out.name == 0) out.name = text(known.name);
    if (out.dtype == 0) out.dtype = text(known.dtype);
    if (out.group == 0) out.group = text(known.group);
    if (out.in_split == 0) out.in_split = text(known.in_split);
    if (out.out_split == 0) out.out_split = text(known.out_split);
    if (out.group_size < 0) out.group_size = known.group_size > 0 ? known.group_size : -1;
  }

  /// The joined event of the node or of the nearest node around it.
  [[nodiscard]] std::uint32_t event_around(std::uint32_t node) const {
    for (std::size_t steps = 0; node != no_index && steps < 1000; ++steps) {
      if (pairing_.event_of[node] != no_index) return pairing_.event_of[node];
      node = execution_.nodes[node].parent;
    }
    return no_index;
  }

  /// From the operator that wrote a storage last to each that reads it. Only operators that call no other one count:
  /// what encloses them passes the same tensors on. A storage id may be given again, but is written before it is read.
  void add_dependencies() {
    std::vector<bool> calls_another(execution_.nodes.size(), false);
    for (const ExecutionNode& node : execution_.nodes)
      if (node.parent != no_index) calls_another[node.parent] = true;
    std::vector<std::uint32_t> order;
    for (std::uint32_t n = 0; n < execution_.nodes.size(); ++n)
      if (!calls_another[n] && is_operator(execution_.nodes[n])) order.push_back(n);
    std::ranges::sort(order, {}, [&](std::uint32_t n) { return execution_.nodes[n].id; });
    std::unordered_map<std::int64_t, std::uint32_t> writer_of;  // storage -> event
    for (const std::uint32_t n : order) {
      const ExecutionNode& node = execution_.nodes[n];
      const std::uint32_t event = event_around(n);
      std::set<std::uint32_t> before;
      for (const ExecutionTensor& tensor : node.inputs)
        if (const auto writer = writer_of.find(tensor.storage); writer != writer_of.end())
          before.insert(writer->second);
      for (const std::uint32_t writer : before)
        if (writer != no_index && event != no_index && writer != event)
          trace_.dependencies.push_back({writer, event, DependencyKind::data}), ++dependencies_;
      const bool in_place = node.outputs.empty() && node.name.ends_with("_");
      for (const ExecutionTensor& tensor : in_place ? node.inputs : node.outputs)
        if (!is_view(node, tensor)) writer_of[tensor.storage] = event;
    }
  }

  /// An output in the storage of an input under another tensor id is a view: nothing is written.
  static bool is_view(const ExecutionNode& node, const ExecutionTensor& output) {
    bool shares = false;
    for (const ExecutionTensor& input : node.inputs) {
      if (input.storage != output.storage) continue;
      if (input.tensor == output.tensor) return false;
      shares = true;
    }
    return shares;
  }

  [[nodiscard]] bool all_collectives_joined() const {
    const std::unordered_set<std::uint32_t> joined_events(pairing_.event_of.begin(), pairing_.event_of.end());
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i)
      if (trace_.text(trace_.events[i].name) == "record_param_comms" && !joined_events.contains(i)) return false;
    return true;
  }

  void say(bool had_shapes) {
    const std::size_t operators = operators_in(execution_);
    std::string line = "joined with " + execution_.source + " (" + execution_.report.producer +
                       "): " + std::to_string(pairing_.pairs) + " of " + std::to_string(operators) + " operators by " +
                       pairing_.how + ", " + std::to_string(dependencies_) + " data dependencies";
    if (sized_ > 0) line += ", " + std::to_string(sized_) + " sizes of collectives";
    trace_.report.assumed.push_back(line);
    if (!had_shapes) std::erase(trace_.report.missing, "input shapes");
    if (sized_ > 0 && all_collectives_joined()) std::erase(trace_.report.missing, "sizes of collectives");
    for (const std::string& what : execution_.report.missing)
      trace_.report.missing.push_back(execution_.source + ": " + what);
    for (const std::string& what : execution_.report.repaired)
      trace_.report.repaired.push_back(execution_.source + ": " + what);
  }

  Trace trace_;
  const ExecutionTrace& execution_;
  const Pairing& pairing_;
  std::unordered_map<std::string, StringId> ids_;
  std::size_t dependencies_ = 0, sized_ = 0;
};

/// Less than this share of the operators is chance.
constexpr double least_share = 0.05;

bool is_enough(const Pairing& pairing, const ExecutionTrace& execution) {
  return pairing.pairs > 0 &&
         static_cast<double>(pairing.pairs) >= least_share * static_cast<double>(operators_in(execution));
}

InputError not_of_one_run(const Trace& trace, const ExecutionTrace& execution, std::size_t pairs) {
  std::string found = std::to_string(pairs) + " operators in common";
  if (execution.process >= 0 && !is_of_process(trace, execution.process))
    found = "the execution trace of another process (" + std::to_string(execution.process) + ")";
  return {execution.source, "the execution trace of the run that " + trace.source + " shows", found,
          "record both with one profiler session"};
}

/// How sure it is, before looking at operators, that the two belong together; negative: they do not.
int kinship(const Trace& trace, const ExecutionTrace& execution) {
  const bool both_ranks = trace.rank >= 0 && execution.rank >= 0;
  if (both_ranks && trace.rank != execution.rank) return -1;
  const bool same_process = execution.process >= 0 && is_of_process(trace, execution.process);
  return (both_ranks ? 1 : 0) + (same_process ? 2 : 0);
}

}  // namespace

Trace joined(Trace trace, const ExecutionTrace& execution) {
  const Pairing pairing = pairing_of(trace, execution);
  if (!is_enough(pairing, execution)) throw not_of_one_run(trace, execution, pairing.pairs);
  return Join(std::move(trace), execution, pairing).result();
}

std::vector<Trace> joined(std::vector<Trace> traces, const std::vector<ExecutionTrace>& executions) {
  if (traces.empty() && !executions.empty())
    throw InputError(executions.front().source, "a trace with times", "an execution trace, which holds no times",
                     "give the profiler's trace of the same run too");
  std::vector<bool> taken(traces.size(), false);
  for (const ExecutionTrace& execution : executions) {
    std::size_t best = traces.size(), best_pairs = 0;
    int best_kinship = -1;
    for (std::size_t t = 0; t < traces.size(); ++t) {
      const int near = taken[t] ? -1 : kinship(traces[t], execution);
      if (near < 0 || near < best_kinship) continue;
      // Only among equals do the operators decide.
      const std::size_t pairs = near > best_kinship && near >= 2 ? 1 : pairing_of(traces[t], execution).pairs;
      if (near == best_kinship && pairs <= best_pairs) continue;
      best = t;
      best_pairs = pairs;
      best_kinship = near;
    }
    if (best == traces.size())
      throw InputError(execution.source, "an execution trace with the profiler's trace of the same rank",
                       "no such trace among the " + std::to_string(traces.size()) + " given");
    traces[best] = joined(std::move(traces[best]), execution);
    taken[best] = true;
  }
  return traces;
}

}  // namespace stepcast
