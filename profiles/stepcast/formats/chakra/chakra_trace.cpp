// Chakra traces: nodes to events, dependencies by id, and times where the file has none.
#include <stepcast/base/error.hpp>
#include <stepcast/formats/chakra/chakra_trace.hpp>
#include <stepcast/formats/chakra/execution_node.hpp>
#include <stepcast/profile/profile.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace stepcast {
namespace {

using chakra_et::Node;
using chakra_et::NodeType;

constexpr std::int64_t longest_ns = std::int64_t{1} << 61;

bool communicates(NodeType type) {
  return type == NodeType::send || type == NodeType::receive || type == NodeType::collective;
}

/// The rank in "trace.3.et", "chakra.3.json.gz"; -1: none.
std::int64_t rank_in(std::string_view name) {
  for (const std::string_view ending : {".gz", ".et", ".json"})
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return -1;
  const std::string_view digits = name.substr(dot + 1);
  if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != digits.npos) return -1;
  return std::stoll(std::string(digits));
}

/// ['Tensor(float)', 'Int'], as the converter leaves it, in the profiler's words; those stay.
std::string list_of_types(std::string text) {
  std::ranges::replace(text, '\'', '"');
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = std::min(text.find('"', at), text.size());
    const std::size_t close = text.find('"', std::min(open + 1, text.size()));
    out.append(text, at, open - at);
    if (close == std::string::npos) return out.append(text, open);
    const std::string_view type = std::string_view(text).substr(open + 1, close - open - 1);
    const bool of_tensors = type.find("Tensor(") != std::string_view::npos;
    ((out += '"') += of_tensors ? element_type_of(type) : type) += '"';
    at = close + 1;
  }
  return out;
}

template <class T>
T within(std::int64_t value, T otherwise) {
  return value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max() ? static_cast<T>(value)
                                                                                          : otherwise;
}

std::string of(std::size_t count, std::size_t all) { return std::to_string(count) + " of " + std::to_string(all); }

}  // namespace

ChakraTrace::ChakraTrace(std::string_view source, const ReadOptions& options)
    : strict_(options.strict), draft_(source) {}

void ChakraTrace::repaired(const std::string& what) {
  if (strict_) throw InputError(draft_.trace().source, "an intact file", what);
  draft_.trace().report.repaired.push_back(what);
}

void ChakraTrace::add(const Node& node, chakra_et::Schema schema) {
  const auto number = static_cast<std::uint32_t>(nodes_.size());
  if (!by_id_.try_emplace(node.id, number).second) {
    ++duplicates_;
    return;
  }
  NodeFacts facts;
  facts.id = node.id;
  facts.first_data = static_cast<std::uint32_t>(data_ids_.size());
  facts.first_control = static_cast<std::uint32_t>(control_ids_.size());
  data_ids_.insert(data_ids_.end(), node.data.begin(), node.data.end());
  control_ids_.insert(control_ids_.end(), node.control.begin(), node.control.end());
  Event event;
  event.name = draft_.text(node.name.empty() ? "node " + std::to_string(node.id) : node.name);
  event.duration_ns = duration_of(node);
  constexpr std::uint64_t latest_us = static_cast<std::uint64_t>(longest_ns) / 1000;
  if (const auto start = node.number("start_ns"); start && *start >= 0 && *start < longest_ns) event.start_ns = *start;
  else if (node.start_us < latest_us) event.start_ns = static_cast<std::int64_t>(node.start_us) * 1000;
  with_start_ += event.start_ns > 0;
  with_duration_ += event.duration_ns > 0;
  zero_ += event.duration_ns == 0 && node.type != NodeType::metadata;
  place(node, event);
  event.record_function = within(node.number("rf_id").value_or(-1), -1);
  event.sequence = node.number("seq_id").value_or(-1);
  event.forward_thread = within(node.number("fw_tid").value_or(-1), -1);
  if (!node.shapes.empty()) event.shapes = draft_.text(node.shapes);
  if (!node.types.empty()) event.types = draft_.text(list_of_types(node.types));
  const bool unknown_kind = node.number("unknown_collective").has_value();  // chakra_export.cpp
  if (communicates(node.type) || unknown_kind) event.collective = collective_of(node, schema);
  if (node.type == NodeType::metadata) add_groups(node);
  facts.launches = event.kind == EventKind::runtime_call || event.kind == EventKind::host_op;
  facts.event = draft_.add(event);
  nodes_.push_back(facts);
}

std::int64_t ChakraTrace::duration_of(const Node& node) {
  // Older files keep the time in an attribute; exact ones agree with the whole microseconds beside them.
  std::uint64_t us = node.duration_us;
  if (const auto runtime = node.number("runtime"); us == 0 && runtime && *runtime > 0)
    us = static_cast<std::uint64_t>(*runtime);
  if (const auto exact = node.number("duration_ns"); exact && *exact >= 0 && *exact <= longest_slice_ns) {
    ++exact_;
    return *exact;
  }
  if (us > static_cast<std::uint64_t>(longest_slice_ns) / 1000) {
    ++too_long_;
    return 0;
  }
  return static_cast<std::int64_t>(us) * 1000;
}

// Which track, and what kind of event.
void ChakraTrace::place(const Node& node, Event& event) {
  const std::string& name = node.name;
  const bool comm = communicates(node.type);
  const auto cpu = node.number("is_cpu_op");
  const auto host_thread = node.number("host_thread"), stream = node.number("stream"), tid = node.number("tid");
  if (!cpu && node.type != NodeType::metadata) ++no_place_;
  const bool on_host = host_thread || (cpu ? *cpu != 0 : !comm && !stream);
  const bool memory = node.type == NodeType::load || node.type == NodeType::store;
  if (on_host) {
    event.track = draft_.track(0, host_thread.value_or(tid.value_or(0)), false);
    // cudaLaunchKernel, hipMemcpyAsync, cuLaunchKernelEx
    const bool call = name.starts_with("cuda") || name.starts_with("hip") ||
                      (name.size() > 2 && name.starts_with("cu") && name[2] >= 'A' && name[2] <= 'Z');
    event.kind = call ? EventKind::runtime_call : EventKind::host_op;
    // A backend's own account of a collective, as profilers write it.
    if (comm && (name.starts_with("gloo:") || name.starts_with("nccl:"))) event.kind = EventKind::annotation;
  } else {
    const bool own = comm && !stream && !tid;
    event.track = draft_.track(0, stream.value_or(tid.value_or(0)), true, own ? "communication" : "");
    const bool fill = name.starts_with("Memset");
    event.kind = fill ? EventKind::fill : memory || name.starts_with("Memcpy") ? EventKind::copy : EventKind::kernel;
  }
  if (node.type == NodeType::invalid || node.type == NodeType::metadata || node.type == NodeType::other)
    event.kind = EventKind::other;
}

std::uint32_t ChakraTrace::collective_of(const Node& node, chakra_et::Schema schema) {
  CollectiveArguments arguments;
  ++communication_;
  if (node.type == NodeType::collective) {
    const std::span<const std::string_view> names =
        schema == chakra_et::Schema::attribute_types
            ? std::span<const std::string_view>(chakra_et::old_collective_names)
            : std::span<const std::string_view>(chakra_et::collective_names);
    const std::int64_t type = node.number("comm_type").value_or(-1);
    if (type >= 0 && type < static_cast<std::int64_t>(names.size()))
      arguments.name = draft_.text(names[static_cast<std::size_t>(type)]);
    else if (type >= 0) ++unknown_collectives_;
  } else if (communicates(node.type)) {
    arguments.name = draft_.text(node.type == NodeType::send ? "send" : "recv");
  } else {
    ++unknown_collectives_;
  }
  const std::string dtype = node.text("comm_dtype");
  const Answer<DataType> type = data_type_of(dtype);
  const std::int64_t element = type ? static_cast<std::int64_t>(size_of(*type)) : 1;
  arguments.dtype = draft_.text(type ? dtype : "Byte");
  const std::int64_t in = node.number("comm_size").value_or(-1), out = node.number("comm_out_size").value_or(in);
  arguments.in_elements = in < 0 ? -1 : in / element;
  arguments.out_elements = out < 0 ? -1 : out / element;
  unsized_ += in < 0;
  std::string group = node.text("pg_name");
  if (group.empty()) group = node.text("comm_group");
  arguments.group = draft_.text(group);
  arguments.group_size = node.number("comm_group_size").value_or(-1);
  arguments.source_rank = node.number("comm_src").value_or(-1);
  arguments.destination_rank = node.number("comm_dst").value_or(-1);
  draft_.trace().collectives.push_back(arguments);
  return static_cast<std::uint32_t>(draft_.trace().collectives.size() - 1);
}

// PyTorch's process groups: ['[{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1], ...}]'].
void ChakraTrace::add_groups(const Node& node) {
  const std::size_t open = node.values.find('{'), close = node.values.rfind('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return;
  const auto json = nlohmann::json::parse("[" + node.values.substr(open, close - open + 1) + "]", nullptr, false);
  if (!json.is_array()) return;
  for (const auto& entry : json) {
    if (!entry.is_object() || !entry.contains("pg_name") || !entry.contains("ranks")) continue;
    ProcessGroup group;
    const auto& name = entry["pg_name"];
    if (name.is_string()) group.name = name.get<std::string>();
    else if (name.is_number_integer()) group.name = std::to_string(name.get<std::int64_t>());
    else continue;
    group.description = entry.value("pg_desc", nlohmann::json("")).is_string() ? entry.value("pg_desc", "") : "";
    if (entry["ranks"].is_array())
      for (const auto& rank : entry["ranks"])
        if (rank.is_number_integer()) group.ranks.push_back(rank.get<std::int64_t>());
    draft_.trace().groups.push_back(std::move(group));
  }
}

void ChakraTrace::resolve(DependencyKind kind, const std::vector<std::uint64_t>& ids, std::uint32_t NodeFacts::*first) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const std::size_t end = i + 1 < nodes_.size() ? nodes_[i + 1].*first : ids.size();
    for (std::size_t at = nodes_[i].*first; at < end; ++at) {
      const auto before = by_id_.find(ids[at]);
      if (before == by_id_.end() || before->second == i) ++unresolved_;
      else draft_.trace().dependencies.push_back({nodes_[before->second].event, nodes_[i].event, kind});
    }
  }
}

// Device work that depends on one host event was launched by it: a correlation says so to all that read traces.
void ChakraTrace::link_launches() {
  std::vector<std::uint32_t> launcher(draft_.size(), no_index);
  for (const Dependency& d : draft_.trace().dependencies) {
    if (d.kind != DependencyKind::data || !is_device_work(draft_[d.after].kind)) continue;
    const EventKind before = draft_[d.before].kind;
    if (before != EventKind::runtime_call && before != EventKind::host_op) continue;
    const bool better = launcher[d.after] == no_index || before == EventKind::runtime_call;
    if (better) launcher[d.after] = d.before;
  }
  for (std::uint32_t i = 0; i < launcher.size(); ++i)
    if (launcher[i] != no_index) draft_[i].correlation = draft_[launcher[i]].correlation = launcher[i];
}

// List scheduling. Of the nodes whose dependencies have ended the one that may start first is next, in the order of the
// file where several may; nodes on a cycle come last.
void ChakraTrace::lay_out() {
  const std::vector<Dependency>& all = draft_.trace().dependencies;
  const bool any_data = std::ranges::any_of(all, [](const Dependency& d) { return d.kind == DependencyKind::data; });
  const DependencyKind kind = any_data ? DependencyKind::data : DependencyKind::control;
  std::vector<std::vector<std::uint32_t>> after(draft_.size());
  std::vector<std::uint32_t> open(draft_.size());
  for (const Dependency& d : all) {
    if (d.kind != kind) continue;
    after[d.before].push_back(d.after);
    ++open[d.after];
  }
  using Entry = std::pair<std::int64_t, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  std::vector<std::int64_t> earliest(draft_.size()), free(draft_.trace().tracks.size());
  for (std::uint32_t i = 0; i < open.size(); ++i)
    if (open[i] == 0) ready.emplace(0, i);
  std::size_t done = 0;
  const auto start = [&](std::uint32_t i) {
    Event& event = draft_[i];
    event.start_ns = std::min(std::max(earliest[i], free[event.track]), longest_ns);
    free[event.track] = event.end_ns();
    ++done;
  };
  while (!ready.empty()) {
    const std::uint32_t i = ready.top().second;
    ready.pop();
    start(i);
    for (const std::uint32_t next : after[i]) {
      earliest[next] = std::max(earliest[next], draft_[i].end_ns());
      if (--open[next] == 0) ready.emplace(earliest[next], next);
    }
  }
  if (done < open.size())
    repaired("dependencies go round in a circle: " + of(open.size() - done, open.size()) + " nodes come last");
  for (std::uint32_t i = 0; i < open.size(); ++i)
    if (open[i] > 0) start(i);
  draft_.trace().report.assumed.push_back(std::string("no node says when it started: times are laid out by the ") +
                                          (any_data ? "data" : "control") +
                                          " dependencies and the order on each thread and stream");
}

void ChakraTrace::report(const chakra_et::Metadata& metadata) {
  ReadReport& report = draft_.trace().report;
  const std::size_t all = nodes_.size();
  if (duplicates_ > 0) repaired(std::to_string(duplicates_) + " nodes dropped that repeat the id of another");
  if (too_long_ > 0) repaired(std::to_string(too_long_) + " impossible durations set to 0");
  if (with_duration_ == 0) report.missing.push_back("durations: the nodes are work to simulate, not measurements");
  else if (zero_ > 0 && exact_ == 0)
    report.missing.push_back("durations below a microsecond: " + of(zero_, all) + " nodes have none");
  if (unresolved_ > 0)
    report.missing.push_back(std::to_string(unresolved_) + " dependencies on nodes that the file does not hold");
  if (communication_ == 0) report.missing.push_back("communication");
  if (unsized_ > 0) report.missing.push_back("sizes of " + of(unsized_, communication_) + " communication nodes");
  if (unknown_collectives_ > 0)
    report.missing.push_back("kinds of " + of(unknown_collectives_, communication_) + " communication nodes");
  if (no_place_ > 0)
    report.assumed.push_back(of(no_place_, all) +
                             " nodes do not say is_cpu_op: communication and nodes with a stream are the device's, "
                             "others the host's");
  if (exact_ == 0 && with_duration_ > 0) report.assumed.push_back("durations are whole microseconds");
  const auto world = metadata.attributes.find("world_size");
  if (world != metadata.attributes.end() && world->second.number) draft_.trace().world_size = *world->second.number;
}

Trace ChakraTrace::finish(const chakra_et::Metadata& metadata, std::string_view format, std::string_view producer,
                          std::uint64_t bytes) {
  Trace& trace = draft_.trace();
  if (nodes_.empty()) throw InputError(trace.source, "nodes", "none");
  resolve(DependencyKind::data, data_ids_, &NodeFacts::first_data);
  resolve(DependencyKind::control, control_ids_, &NodeFacts::first_control);
  link_launches();
  if (with_start_ == 0) lay_out();
  trace.rank = rank_in(trace.source);
  if (const auto rank = metadata.attributes.find("rank"); rank != metadata.attributes.end() && rank->second.number)
    trace.rank = *rank->second.number;
  report(metadata);
  trace.report.format = format;
  trace.report.producer = producer;
  if (!metadata.version.empty()) trace.report.producer += " " + metadata.version;
  if (const auto schema = metadata.attributes.find("schema");
      schema != metadata.attributes.end() && schema->second.text)
    trace.report.producer += ", from a PyTorch execution trace " + *schema->second.text;
  trace.report.bytes = bytes;
  trace.report.events_seen = nodes_.size();
  for (std::uint32_t i = 0; i < draft_.size(); ++i) {
    if (draft_[i].kind != EventKind::other) continue;
    ++trace.report.events_unclassified;
    trace.report.unclassified_ns += draft_[i].duration_ns;
  }
  return draft_.finish();
}

}  // namespace stepcast
