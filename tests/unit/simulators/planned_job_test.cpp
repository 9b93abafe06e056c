// Planned jobs: read back, and replayed as ASTRA-sim would with one chunk, rings and no delay at the ends.
#include "helpers/chakra_nodes.hpp"
#include "helpers/plan_cases.hpp"

#include <stepcast/schedule/task_name.hpp>
#include <stepcast/simulators/planned_job.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

/// A dimension of the network file.
struct Dimension {
  double ranks = 1, rate = 0, latency = 0;
};
std::vector<Dimension> dimensions_of(const std::string& yaml) {
  std::vector<Dimension> dimensions;
  std::istringstream lines(yaml);
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(": [ ");
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, colon);
    std::string list = line.substr(colon + 4);
    std::ranges::replace(list, ',', ' ');
    std::istringstream values(list);
    std::size_t i = 0;
    for (std::string value; values >> value && value != "]"; ++i) {
      if (dimensions.size() <= i) dimensions.emplace_back();
      if (key == "topology") CHECK(value == "Ring");
      if (key == "npus_count") dimensions[i].ranks = std::stod(value);
      if (key == "bandwidth") dimensions[i].rate = std::stod(value) * (1 << 30) / 1e9;  // bytes a nanosecond
      if (key == "latency") dimensions[i].latency = std::stod(value);
    }
  }
  return dimensions;
}

/// Nanoseconds of an all-reduce of so many bytes: scattered sums dimension after dimension, and gathered back.
double all_reduce_time(const std::vector<Dimension>& dimensions, double bytes) {
  double time = 0;
  for (const Dimension& d : dimensions) {
    time += 2 * (d.ranks - 1) * (d.latency + bytes / d.ranks / d.rate);
    bytes /= d.ranks;
  }
  return time;
}

/// A rank that computes one thing at a time and runs collectives one after the other.
struct Replay {
  double end = 0, compute = 0;
};
Replay replayed(const std::vector<chakra_et::Node>& nodes, const std::vector<Dimension>& dimensions) {
  std::map<std::uint64_t, double> ended;
  double processor = 0, network = 0;
  Replay out;
  for (const chakra_et::Node& node : nodes) {
    double start = 0;
    for (const std::uint64_t before : node.data) {
      REQUIRE(ended.contains(before));  // dependencies come first
      start = std::max(start, ended.at(before));
    }
    const bool sends = node.type == chakra_et::NodeType::collective;
    double& free = sends ? network : processor;
    const double time = sends ? all_reduce_time(dimensions, static_cast<double>(*node.number("comm_size")))
                              : static_cast<double>(node.duration_us) * 1000;
    if (!sends) out.compute += time;
    free = std::max(start, free) + time;
    ended[node.id] = free;
    out.end = std::max(out.end, free);
  }
  return out;
}

Profile eight_layers() {
  std::vector<Produced> gradients;
  for (int i = 0; i < 8; ++i) gradients.push_back({Seconds(2.3e-3 + 1.7e-4 * i), mebibytes(6.0 + i)});
  return profile_of_gradients(gradients, Seconds(9.1e-3), Seconds(1.2e-3));
}

/// Machines of one device in a torus, or in a mesh.
Cluster torus_of(const std::vector<std::int64_t>& sides, bool closed = true) {
  Cluster c = plain_cluster(1, BytesPerSecond(25e9), microseconds(3));
  Level level{"pod", 1, {}, {}, 1, 0};
  for (const std::int64_t side : sides) level.torus.push_back({side, closed}), level.units *= side;
  c.nodes = level.units;
  c.levels = {level};
  return checked(c, "test");
}

Cluster tree_of(std::int64_t per_node, std::vector<std::int64_t> units) {
  Cluster c = plain_cluster(1, BytesPerSecond(12e9), microseconds(4));
  c.inside = {microseconds(2), BytesPerSecond(90e9)};
  c.devices_per_node = per_node;
  for (std::size_t k = 0; k < units.size(); ++k) {
    c.levels.push_back({"level " + std::to_string(k), units[k], {}, {}, 1, 0});
    if (k > 0) c.levels.back().latency = microseconds(6), c.levels.back().bandwidth = BytesPerSecond(12e9);
    if (k > 0) c.levels.back().oversubscription = 2;
    c.nodes *= units[k];
  }
  return c;
}

}  // namespace

TEST_CASE("A planned job read back has the plan's collectives, bytes and dependencies") {
  const Profile profile = eight_layers();
  const Cluster cluster = plain_cluster(8, BytesPerSecond(5e9), microseconds(5));
  for (const char* text : {"ddp", "ddp(bucket=16 MiB)", "wfbp", "dear", "horovod"}) {
    CAPTURE(text);
    const PlanSpec plan = plan_spec_of(text);
    const Answer<PlannedJob> job = planned_job(profile, cluster, plan);
    REQUIRE(job);
    const Answer<DetailedTimeline> step = detailed_timeline(profile, cluster, plan);
    REQUIRE(step);
    const std::vector<chakra_et::Node> nodes = chakra_nodes_of(job->execution_trace);
    CHECK(nodes.size() == step->graph.tasks.size());
    CHECK(nodes.size() == job->nodes);
    // By name: what waits for what, also the other way round.
    std::map<std::string, double> sent, planned;
    std::map<std::uint64_t, std::string> names;
    std::size_t arcs = 0, dependencies = 0, collectives = 0;
    for (const chakra_et::Node& node : nodes) {
      names[node.id] = node.name;
      dependencies += node.data.size();
      if (node.type != chakra_et::NodeType::collective) continue;
      ++collectives;
      sent[node.name] += static_cast<double>(*node.number("comm_size")) * (*node.number("comm_type") == 2 ? 8 : 1);
    }
    for (std::uint32_t t = 0; t < step->graph.tasks.size(); ++t) {
      for (const Arc& arc : step->graph.successors(t)) arcs += arc.lag == 0 ? 1 : 0;
      const Task& task = step->graph.tasks[t];
      if (task.kind == TaskKind::transfer && step->plan.transfers[task.index].size > Bytes(0))
        planned[task_name(profile, step->plan, step->graph, t)] += step->plan.transfers[task.index].size.value();
    }
    CHECK(collectives == job->collectives);
    CHECK(dependencies >= arcs);
    CHECK(dependencies <= arcs + collectives + 16);
    REQUIRE(sent.size() == planned.size());
    for (const auto& [name, bytes] : planned) CHECK(sent.at(name) == Approx(bytes).epsilon(1e-6));
  }
}

TEST_CASE("ASTRA-sim's rings expose as much communication as predicted") {
  const Profile profile = eight_layers();
  struct Case {
    Cluster cluster;
    const char* plan;
  };
  const std::vector<Case> cases{{plain_cluster(8, BytesPerSecond(5e9), microseconds(5)), "ddp(bucket=16 MiB)@ring"},
                                {plain_cluster(64, BytesPerSecond(5e9), microseconds(5)), "ddp(bucket=16 MiB)@ring"},
                                {plain_cluster(64, BytesPerSecond(50e9), microseconds(5)), "wfbp@ring"},
                                {tree_of(4, {2}), "ddp(bucket=16 MiB)@hierarchical"},
                                {tree_of(8, {8}), "ddp(bucket=16 MiB)@hierarchical"},
                                {tree_of(2, {2, 2}), "ddp(bucket=16 MiB)@factored"},
                                {tree_of(1, {2, 2, 2}), "ddp(bucket=16 MiB)@factored"},
                                {torus_of({4, 4}), "ddp(bucket=16 MiB)@factored"},
                                {torus_of({4, 4, 4}), "ddp(bucket=16 MiB)@factored"}};
  for (const Case& c : cases) {
    CAPTURE(c.cluster.workers());
    CAPTURE(c.plan);
    const PlanSpec plan = plan_spec_of(c.plan);
    const Answer<PlannedJob> job = planned_job(profile, c.cluster, plan);
    REQUIRE(job);
    CHECK(job->remarks.empty());
    const Answer<Prediction> prediction = predicted(profile, c.cluster, plan);
    REQUIRE(prediction);
    const std::vector<Dimension> dimensions = dimensions_of(job->network);
    const nlohmann::json system = nlohmann::json::parse(job->system);
    CHECK(system["endpoint-delay"] == 0);
    CHECK(system["preferred-dataset-splits"] == 1);
    CHECK(system["all-reduce-implementation"].size() == dimensions.size());
    const Replay replay = replayed(chakra_nodes_of(job->execution_trace), dimensions);
    const double exposed = prediction->breakdown.exposed_communication.value() * 1e9;
    REQUIRE(exposed > 0);
    CHECK(replay.end - replay.compute == Approx(exposed).epsilon(0.01));
    CHECK(replay.end == Approx(prediction->iteration.value() * 1e9).epsilon(0.005));
  }
}

TEST_CASE("What has no collective is refused, and what differs is told") {
  const Profile profile = eight_layers();
  const Cluster eight = plain_cluster(8, BytesPerSecond(5e9), microseconds(5));
  CHECK_FALSE(planned_job(profile, eight, plan_spec_of("wfbp_ps")));
  CHECK_FALSE(planned_job(profile, eight, plan_spec_of("d_psgd")));
  CHECK_FALSE(planned_job(profile, plain_cluster(1, BytesPerSecond(5e9)), plan_spec_of("ddp")));
  const Answer<PlannedJob> tree = planned_job(profile, eight, plan_spec_of("ddp@binary_tree"));
  REQUIRE(tree);
  CHECK(tree->remarks.size() == 1);
  const Answer<PlannedJob> flat = planned_job(profile, tree_of(4, {2}), plan_spec_of("ddp@ring"));
  REQUIRE(flat);
  CHECK(flat->remarks.size() == 1);
  const Answer<PlannedJob> both_ways = planned_job(profile, torus_of({4, 4}), plan_spec_of("ddp@torus"));
  REQUIRE(both_ways);
  CHECK(both_ways->remarks.size() == 1);
  CHECK_FALSE(planned_job(profile, torus_of({4, 4}, false), plan_spec_of("ddp@factored")));
}
