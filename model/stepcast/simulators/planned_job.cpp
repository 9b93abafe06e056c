// Tasks become nodes in an order in which every dependency comes first; the cluster becomes dimensions.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/closed_forms.hpp>
#include <stepcast/formats/chakra/chakra.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/schedule/task_name.hpp>
#include <stepcast/simulators/planned_job.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

namespace stepcast {
namespace {

/// CollectiveCommType of the operations that ASTRA-sim runs among all ranks.
std::optional<std::int64_t> chakra_number_of(Operation op) {
  const std::pair<Operation, std::string_view> names[] = {{Operation::all_reduce, "allreduce"},
                                                          {Operation::all_gather, "allgather"},
                                                          {Operation::reduce_scatter, "reducescatter"},
                                                          {Operation::all_to_all, "alltoall"},
                                                          {Operation::broadcast, "broadcast"}};
  for (const auto& [operation, name] : names)
    if (operation == op)
      return std::find(std::begin(chakra_et::collective_names), std::end(chakra_et::collective_names), name) -
             std::begin(chakra_et::collective_names);
  return std::nullopt;
}

/// Tasks of one step in the order in which they are predicted to start, every one behind those that it waits for.
std::vector<std::uint32_t> order_of(const TaskGraph& graph, const Timeline& timeline) {
  const std::size_t first = std::size_t{timeline.iterations - 1} * timeline.tasks;
  std::vector<std::uint32_t> waits(graph.tasks.size(), 0), order;
  for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
    for (const Arc& arc : graph.successors(t)) waits[arc.task] += arc.lag == 0 ? 1 : 0;
  using Entry = std::pair<Picoseconds, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
    if (waits[t] == 0) ready.emplace(timeline.start[first + t], t);
  while (!ready.empty()) {
    const std::uint32_t t = ready.top().second;
    ready.pop();
    order.push_back(t);
    for (const Arc& arc : graph.successors(t))
      if (arc.lag == 0 && --waits[arc.task] == 0) ready.emplace(timeline.start[first + arc.task], arc.task);
  }
  return order;
}

class JobWriter {
 public:
  JobWriter(const Profile& profile, const Cluster& cluster, const DetailedTimeline& step)
      : profile_(profile), cluster_(cluster), plan_(step.plan), graph_(step.graph), timeline_(step.timeline) {}

  void write(PlannedJob& out) {
    const std::vector<std::uint32_t> order = order_of(graph_, timeline_);
    std::vector<std::vector<std::uint64_t>> after(graph_.tasks.size());
    number_.assign(graph_.tasks.size(), 0);
    for (std::uint32_t i = 0; i < order.size(); ++i) number_[order[i]] = i + 1;
    bool earlier_steps = false;
    for (std::uint32_t t = 0; t < graph_.tasks.size(); ++t)
      for (const Arc& arc : graph_.successors(t)) {
        if (arc.lag == 0) after[arc.task].push_back(number_[t]);
        else if (graph_.tasks[t].kind == TaskKind::transfer) earlier_steps = true;
      }
    follow_channels(order, after);
    chakra_et::Metadata metadata;
    metadata.version = "0.0.4";
    metadata.attributes["producer"].text = "stepcast";
    metadata.attributes["world_size"].number = cluster_.workers();
    out.execution_trace = chakra_et::bytes_of(metadata);
    rounded_.assign(graph_.resources.size(), {});
    for (const std::uint32_t t : order) out.execution_trace += chakra_et::bytes_of(node_of(t, after[t], out));
    out.nodes = order.size();
    if (earlier_steps)
      out.remarks.emplace_back("passes wait for messages of the step before: of one step they wait for nothing");
  }

 private:
  /// A channel that serves one message at a time sends the next one when the one before has arrived.
  void follow_channels(const std::vector<std::uint32_t>& order, std::vector<std::vector<std::uint64_t>>& after) const {
    std::vector<std::uint64_t> before(graph_.resources.size(), 0);
    for (const std::uint32_t t : order) {
      const Task& task = graph_.tasks[t];
      if (graph_.resources[task.resource].discipline == Discipline::parallel) continue;
      if (before[task.resource] != 0) after[t].push_back(before[task.resource]);
      before[task.resource] = number_[t];
    }
  }

  chakra_et::Node node_of(std::uint32_t t, std::vector<std::uint64_t>& after, PlannedJob& out) {
    const Task& task = graph_.tasks[t];
    chakra_et::Node node;
    node.id = number_[t];
    node.name = task_name(profile_, plan_, graph_, t);
    node.type = chakra_et::NodeType::compute;
    std::ranges::sort(after);
    after.erase(std::unique(after.begin(), after.end()), after.end());
    node.data = after;
    const std::size_t instance = std::size_t{timeline_.iterations - 1} * timeline_.tasks + t;
    const Picoseconds origin = timeline_.start[std::size_t{timeline_.iterations - 1} * timeline_.tasks];
    constexpr Picoseconds microsecond = 1'000'000;
    node.start_us =
        static_cast<std::uint64_t>(std::max<Picoseconds>(0, timeline_.start[instance] - origin) / microsecond);
    Sum& sum = rounded_[task.resource];
    sum.exact += task.work;
    const Picoseconds whole = (sum.exact + microsecond / 2) / microsecond;
    node.duration_us = static_cast<std::uint64_t>(whole - sum.whole);
    sum.whole = whole;
    node.attributes["duration_ns"].number = task.work / 1000;
    const ResourceClass kind = graph_.resources[task.resource].kind;
    node.attributes["is_cpu_op"].number = kind == ResourceClass::host || !profile_.has_device();
    if (task.kind == TaskKind::transfer) describe(plan_.transfers[task.index], node, out);
    else if (kind != ResourceClass::timer) out.compute += seconds_of(task.work);
    if (task.kind == TaskKind::transfer) out.communication += seconds_of(task.work);
    return node;
  }

  void describe(const Transfer& t, chakra_et::Node& node, PlannedJob& out) const {
    const std::optional<std::int64_t> type = chakra_number_of(t.operation);
    if (!type) return;  // a timer, which takes its time
    node.type = chakra_et::NodeType::collective;
    ++out.collectives;
    const double share = t.operation == Operation::all_gather ? static_cast<double>(cluster_.workers()) : 1;
    node.attributes["is_cpu_op"].number = 0;
    node.attributes["comm_type"].number = *type;
    node.attributes["comm_size"].number = std::llround(t.size.value() / share);
    if (share > 1) node.attributes["comm_out_size"].number = std::llround(t.size.value());
    node.attributes["comm_group_size"].number = cluster_.workers();
  }

  struct Sum {
    Picoseconds exact = 0, whole = 0;  ///< whole: in microseconds
  };
  const Profile& profile_;
  const Cluster& cluster_;
  const CommPlan& plan_;
  const TaskGraph& graph_;
  const Timeline& timeline_;
  std::vector<std::uint64_t> number_;
  std::vector<Sum> rounded_;  // by resource
};

/// What of a plan no collective of ASTRA-sim stands for; empty if all has one.
std::string unwritable(const CommPlan& plan) {
  for (const Transfer& t : plan.transfers)
    if (!chakra_number_of(t.operation) && t.delay == Seconds(0))
      return "it sends by " + std::string(name_of(t.operation)) + ", which ASTRA-sim does not run among all ranks";
  if (plan.period > 1) return "it repeats every " + std::to_string(plan.period) + " steps, of which one file has one";
  return {};
}

/// One dimension of the network: ranks next to one another first.
std::vector<FactorLevel> dimensions_of(const Cluster& c) {
  std::vector<FactorLevel> dimensions;
  if (c.devices_per_node > 1) dimensions.push_back({c.devices_per_node, inside_link(c)});
  bool first = true;
  if (c.nodes > 1)
    for (const NetworkLevel& level : network_levels(c)) {
      if (std::exchange(first, false) && on_torus(c)) {
        for (const TorusSide& side : torus_sides(c, level.units)) dimensions.push_back({side.units, torus_link(c)});
      } else if (level.units > 1) {
        dimensions.push_back({level.units, device_link(c, level)});
      }
    }
  return dimensions;
}

std::string yaml_list(const std::vector<FactorLevel>& dimensions, const std::function<std::string(FactorLevel)>& text) {
  std::string list;
  for (const FactorLevel& d : dimensions) add_to_list(list, text(d));
  return "[ " + list + " ]";
}

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string network_of(const std::vector<FactorLevel>& dimensions) {
  constexpr double gigabyte = 1 << 30;
  return "# Written by stepcast. Bandwidth in GB/s of 2^30 bytes, latency in ns.\ntopology: " +
         yaml_list(dimensions, [](const FactorLevel&) { return std::string("Ring"); }) +
         "\nnpus_count: " + yaml_list(dimensions, [](const FactorLevel& d) { return std::to_string(d.factor); }) +
         "\nbandwidth: " +
         yaml_list(dimensions, [](const FactorLevel& d) { return number_text(d.link.bandwidth.value() / gigabyte); }) +
         "\nlatency: " +
         yaml_list(dimensions, [](const FactorLevel& d) { return number_text(d.link.latency.value() * 1e9); }) + "\n";
}

/// ASTRA-sim's name of an algorithm, and whether it runs it as the plan is predicted.
std::pair<std::string, bool> implementation_of(std::string_view algorithm, std::size_t dimensions) {
  if (algorithm == "ring") return {"ring", dimensions == 1};
  if (algorithm == "hierarchical" || algorithm == "factored") return {"ring", true};
  if (algorithm == "halving_doubling") return {"halvingDoubling", true};
  if (algorithm == "double_tree") return {"doubleBinaryTree", dimensions == 1};
  return {"ring", false};
}

std::string system_of(const std::string& all_reduce, std::size_t dimensions) {
  const std::vector<std::string> rings(dimensions, "ring"), sums(dimensions, all_reduce);
  const nlohmann::ordered_json json{{"scheduling-policy", "FIFO"},
                                    {"endpoint-delay", 0},
                                    {"active-chunks-per-dimension", 1},
                                    {"preferred-dataset-splits", 1},
                                    {"all-reduce-implementation", sums},
                                    {"all-gather-implementation", rings},
                                    {"reduce-scatter-implementation", rings},
                                    {"all-to-all-implementation", rings},
                                    {"collective-optimization", "localBWAware"},
                                    {"local-mem-bw", 1000},
                                    {"boost-mode", 0}};
  return json.dump(2) + "\n";
}

}  // namespace

Answer<PlannedJob> planned_job(const Profile& profile, const Cluster& cluster, const PlanSpec& plan) {
  if (cluster.workers() < 2) return Inapplicable{"one rank sends nothing that a network could simulate"};
  const Answer<DetailedTimeline> step = detailed_timeline(profile, cluster, plan);
  if (!step) return Inapplicable{step.reason()};
  if (const std::string why = unwritable(step->plan); !why.empty()) return Inapplicable{why};
  PlannedJob out;
  JobWriter(profile, cluster, *step).write(out);
  if (on_torus(cluster))
    for (const TorusSide& side : torus_sides(cluster, network_levels(cluster).level[0].units))
      if (side.units > 2 && !side.closed)
        return Inapplicable{"its machines form a mesh, whose lines ASTRA-sim would close to rings"};
  const std::vector<FactorLevel> dimensions = dimensions_of(cluster);
  const std::string algorithm = plan.collective.empty() ? cluster.all_reduce : plan.collective;
  const auto [implementation, same] = implementation_of(algorithm, dimensions.size());
  if (!same)
    out.remarks.push_back("ASTRA-sim runs a " + implementation + " in each of " +
                          counted(std::ssize(dimensions), "dimension") + ", not '" + algorithm + "'" +
                          (dimensions.size() > 1 ? "; --collective factored predicts that" : ""));
  if (cluster.message_overhead > Seconds(0))
    out.remarks.push_back("the network's files do not say the " + text_of(cluster.message_overhead) +
                          " that each message takes on the host");
  std::int64_t ranks = 1;
  for (const FactorLevel& d : dimensions) ranks *= d.factor;
  if (ranks != cluster.workers())
    return Inapplicable{"its " + std::to_string(cluster.nodes) + " machines fill no whole units of its levels"};
  out.network = network_of(dimensions);
  out.system = system_of(implementation, dimensions.size());
  out.memory = "{\n  \"memory-type\": \"NO_MEMORY_EXPANSION\"\n}\n";
  return out;
}

}  // namespace stepcast
