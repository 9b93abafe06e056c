// Tasks become nodes in an order in which every dependency comes first.
#include <stepcast/base/words.hpp>
#include <stepcast/formats/chakra/chakra.hpp>
#include <stepcast/prediction/breakdown.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/schedule/task_name.hpp>
#include <stepcast/simulators/network_files.hpp>
#include <stepcast/simulators/planned_job.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace stepcast {
namespace {

class JobWriter {
 public:
  JobWriter(const Profile& profile, const Cluster& cluster, const DetailedTimeline& step)
      : profile_(profile), cluster_(cluster), plan_(step.plan), graph_(step.graph), timeline_(step.timeline) {}

  void write(PlannedJob& out) {
    const std::vector<std::uint32_t> order = step_order(graph_, timeline_);
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

}  // namespace

Answer<PlannedJob> planned_job(const Profile& profile, const Cluster& cluster, const PlanSpec& plan) {
  if (cluster.workers() < 2) return Inapplicable{"one rank sends nothing that a network could simulate"};
  const Answer<DetailedTimeline> step = detailed_timeline(profile, cluster, plan);
  if (!step) return Inapplicable{step.reason()};
  if (const std::string why = unwritable(step->plan); !why.empty()) return Inapplicable{why};
  PlannedJob out;
  JobWriter(profile, cluster, *step).write(out);
  const std::string algorithm = plan.collective.empty() ? cluster.all_reduce : plan.collective;
  Answer<NetworkFiles> files = network_files(cluster, algorithm);
  if (!files) return Inapplicable{files.reason()};
  if (!files->as_predicted)
    out.remarks.push_back("ASTRA-sim runs a " + files->all_reduce + " in each of " +
                          counted(files->dimensions, "dimension") + ", not '" + algorithm + "'" +
                          (files->dimensions > 1 ? "; --collective factored predicts that" : ""));
  out.remarks.insert(out.remarks.end(), files->remarks.begin(), files->remarks.end());
  out.network = std::move(files->network);
  out.system = std::move(files->system);
  out.memory = std::move(files->memory);
  return out;
}

}  // namespace stepcast
