// Worked examples and simulators that others published, reproduced by the strategies and the scheduler to the last
// printed digit. Sources: first lines of the tables in tests/data.
#include "helpers/csv_table.hpp"
#include "helpers/plan_cases.hpp"

#include <stepcast/schedule/schedule.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace stepcast;
using namespace stepcast::test;

namespace {

std::string printed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

// --- ByteScheduler's contrived example ------------------------------------------------------------------------------

constexpr double unit_s = 1e-3, unit_bytes = 1e6;  // one unit of time, and what a link moves in it

Profile contrived_profile() {
  const std::vector<Produced> gradients{{Seconds(2 * unit_s), Bytes(3 * unit_bytes)},
                                        {Seconds(2 * unit_s), Bytes(6 * unit_bytes)},
                                        {Seconds(2 * unit_s), Bytes(3 * unit_bytes)}};
  Profile p = profile_of_gradients(gradients, {});
  for (Layer& layer : p.layers) layer.forward.host = Seconds(2 * unit_s);
  return p;
}

// Start and end, in units, of what a row of the table names, counted from the start of a steady backward pass.
std::pair<double, double> event_of(const Row& row, const Profile& profile, const CommPlan& plan, const TaskGraph& graph,
                                   const Timeline& timeline) {
  constexpr std::uint32_t iteration = 2;
  const auto layer = static_cast<std::uint32_t>(number(row, "layer"));
  const auto find = [&](TaskKind kind, auto matches) {
    for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
      if (graph.tasks[t].kind == kind && matches(graph.tasks[t])) return t;
    FAIL("no such task");
    return 0u;
  };
  const auto of_layer = [](std::uint32_t l) { return [l](const Task& t) { return t.index == l && t.work > 0; }; };
  const auto backward = find(TaskKind::backward, of_layer(2));
  const Picoseconds origin = timeline.start[iteration * timeline.tasks + backward];
  std::uint32_t task = 0, in = iteration;
  if (row.at("task") == "backward") task = find(TaskKind::backward, of_layer(layer));
  if (row.at("task") == "forward") task = find(TaskKind::forward, of_layer(layer)), in = iteration + 1;
  if (row.at("task") == "push" || row.at("task") == "pull") {
    const Operation operation = row.at("task") == "push" ? Operation::push : Operation::pull;
    int skip = row.at("partition").empty() ? 0 : static_cast<int>(number(row, "partition"));
    task = find(TaskKind::transfer, [&](const Task& t) {
      const Transfer& x = plan.transfers[t.index];
      return x.operation == operation && profile.tensors[x.first_tensor].layer == layer && skip-- == 0;
    });
  }
  const auto units = [&](Picoseconds at) { return static_cast<double>(at - origin) * 1e-12 / unit_s; };
  const std::size_t instance = in * timeline.tasks + task;
  return {units(timeline.start[instance]), units(timeline.end[instance])};
}

}  // namespace

TEST_CASE("ByteScheduler's worked example: every event, and 26 against 18 units") {
  const Profile profile = contrived_profile();
  Cluster cluster = plain_cluster(2, BytesPerSecond(unit_bytes / unit_s));
  cluster.servers = 2;
  const struct {
    const char *policy, *plan;
    double units;
  } cases[] = {{"fifo", "wfbp_ps(partition=1 GB, keys=even)", 26},
               {"priority", "bytescheduler_ps(partition=1 MB, credit=1 MB)", 18},
               {"priority", "p3(slice=1 MB)", 18}};
  for (const auto& c : cases) {
    CAPTURE(std::string(c.plan));
    const CommPlan plan = plan_of(c.plan, profile, cluster);
    const TaskGraph graph = lowered(profile, plan, *communication_cost(cluster), {}, {.merge = false});
    const Timeline timeline = schedule(graph, {.least_iterations = 5});
    CHECK(timeline.iteration_time().value() / unit_s == doctest::Approx(c.units).epsilon(1e-12));
    int compared = 0;
    for (const Row& row : table_of("bytescheduler_example.csv")) {
      if (row.at("policy") != c.policy) continue;
      CAPTURE(row.at("task") + " of layer " + row.at("layer") + " part " + row.at("partition"));
      const auto [start, end] = event_of(row, profile, plan, graph, timeline);
      CHECK(start == doctest::Approx(number(row, "start")).epsilon(1e-12));
      CHECK(end == doctest::Approx(number(row, "end")).epsilon(1e-12));
      ++compared;
    }
    CHECK(compared == (std::string(c.policy) == "fifo" ? 12 : 30));
  }
}

namespace {

// --- The simulator of MG-WFBP ---------------------------------------------------------------------------------------

// T(N, e) = 2N * 45.25e-6 + 2(N-1)/N * 4e * 1.2 / B + (N-1)/N * 4e * 160 / 64e9 seconds for e elements (gmwfbp.py),
// as the ring of a cluster: 2(N-1) latency + 2(N-1)/N * bytes / bandwidth.
Cluster simulator_cluster(int nodes) {
  const double n = nodes, b = 9 * 0x1p30 / 8;
  const double seconds_per_byte = 2 * (n - 1) / n * 1.2 / b + (n - 1) / n * 160 / 64e9;
  return plain_cluster(nodes, BytesPerSecond(2 * (n - 1) / n / seconds_per_byte),
                       Seconds(2 * n * 45.25e-6 / (2 * (n - 1))));
}

// The forward pass takes half of the backward time.
Profile simulator_profile(bool reversed, double& compute) {
  std::vector<Produced> gradients;
  double backward = 0;
  for (const Row& row : table_of("mgwfbp_input.csv")) {
    backward += number(row, "backward_us") * 1e-6;
    gradients.push_back({Seconds(number(row, "backward_us") * 1e-6), Bytes(4 * number(row, "elements"))});
  }
  if (reversed) std::reverse(gradients.begin(), gradients.end());
  compute = 1.5 * backward;
  return profile_of_gradients(gradients, Seconds(0.5 * backward));
}

}  // namespace

TEST_CASE("the MG-WFBP simulator: groups, iteration time and speed-up of every row") {
  const std::map<std::string, std::string> plans{
      {"WFBP", "wfbp"}, {"SyncEASGD", "bsp"}, {"MG-WFBP", "mg_wfbp(rule=caffe)"}};
  int rows = 0;
  for (const Row& row : table_of("mgwfbp_sim.csv")) {
    CAPTURE(row.at("row_order") + " " + row.at("nodes") + " " + row.at("method"));
    double compute = 0;
    const Profile profile = simulator_profile(row.at("row_order") == "reversed", compute);
    const int nodes = static_cast<int>(number(row, "nodes"));
    const Cluster cluster = simulator_cluster(nodes);
    const std::string& plan = plans.at(row.at("method"));
    CHECK(std::to_string(plan_of(plan, profile, cluster).transfers.size()) == row.at("groups"));
    const double seconds = time_of(plan, profile, cluster).value();
    CHECK(printed(seconds * 1e3, 6) == row.at("iteration_ms"));
    CHECK(printed(nodes * compute / seconds, 6) == row.at("speedup"));
    ++rows;
  }
  CHECK(rows == 36);
}

namespace {

// --- Is network the bottleneck of distributed training? -------------------------------------------------------------

Profile bottleneck_profile(const std::string& model) {
  std::vector<Produced> gradients;
  for (const Row& row : table_of("training_bottleneck_backward.csv"))
    if (row.at("model") == model)
      gradients.push_back({Seconds(number(row, "gap_us") * 1e-6), Bytes(number(row, "bytes"))});
  return profile_of_gradients(gradients, {});
}

// Time to add two vectors: linear interpolation, clamped at both ends.
double addition_s(double bytes) {
  static const std::vector<Row> table = table_of("training_bottleneck_vecadd.csv");
  const auto size = [](std::size_t i) { return number(table[i], "bytes"); };
  const auto time = [](std::size_t i) { return number(table[i], "seconds"); };
  if (bytes <= size(0)) return time(0);
  for (std::size_t i = 1; i < table.size(); ++i)
    if (bytes <= size(i))
      return time(i - 1) + (time(i) - time(i - 1)) * (bytes - size(i - 1)) / (size(i) - size(i - 1));
  return time(table.size() - 1);
}

// Their all-reduce is not linear in the size, so it becomes the measured table of the cluster, at the very sizes sent.
Cluster bottleneck_cluster(const CommPlan& plan, double nodes, double bits_per_s) {
  Cluster c = plain_cluster(static_cast<std::int64_t>(nodes), BytesPerSecond(bits_per_s / 8));
  std::vector<Bytes> sizes;
  for (const Transfer& t : plan.transfers) sizes.push_back(t.size);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  MeasuredCollective table;
  table.workers = c.nodes;
  table.sizes = sizes;
  for (const Bytes m : sizes) {
    const double wire = 8 * m.value() * (nodes - 1) / nodes / bits_per_s;
    table.times.push_back(Seconds(2 * wire + (nodes - 1) * addition_s(m.value() / nodes)));
  }
  c.all_reduce = "table";
  c.tables.push_back(table);
  return c;
}

}  // namespace

TEST_CASE("the training-bottleneck simulator: buckets, exposed time and scaling factor of every row") {
  const std::string plan = "horovod(threshold=64 MiB, cycle=5 ms, loop=gap)";
  int rows = 0;
  for (const Row& row : table_of("training_bottleneck.csv")) {
    CAPTURE(row.at("model") + " " + row.at("nodes") + " " + row.at("link_gbit_s"));
    const Profile profile = bottleneck_profile(row.at("model"));
    const double nodes = number(row, "nodes");
    const CommPlan buckets = plan_of(plan, profile, plain_cluster(2, BytesPerSecond(1e9)));
    CHECK(std::to_string(buckets.transfers.size()) == row.at("buckets"));
    const Cluster cluster = bottleneck_cluster(buckets, nodes, 1e9 * number(row, "link_gbit_s"));
    const double exposed = time_of(plan, profile, cluster).value() - compute_time(profile).value();
    const double alone = number(row, "iteration_1gpu_s");
    CHECK(printed(compute_time(profile).value(), 6) == row.at("backward_s"));
    CHECK(printed(exposed, 6) == row.at("exposed_s"));
    CHECK(printed(alone / (alone + exposed), 4) == row.at("scaling_factor"));
    ++rows;
  }
  CHECK(rows == 45);
}

namespace {

double fraction(const std::string& text) {
  const std::size_t slash = text.find('/');
  const double numerator = std::stod(text);
  return slash == std::string::npos ? numerator : numerator / std::stod(text.substr(slash + 1));
}

}  // namespace

// The busiest direction of the cards settles how fast partitions flow once the pipeline is full.
TEST_CASE("BytePS: the link time of every deployment, as scheduled") {
  const Bytes m(1e9);
  const BytesPerSecond b(1e9);
  const Profile profile = profile_of_gradients({{Seconds(0.001), m}}, Seconds(0.001));
  for (const Row& row : table_of("byteps_identities.csv")) {
    CAPTURE(row.at("gpu_machines") + " + " + row.at("cpu_machines"));
    Cluster cluster = plain_cluster(static_cast<std::int64_t>(number(row, "gpu_machines")), b);
    cluster.servers = static_cast<std::int64_t>(number(row, "cpu_machines"));
    const double part = 1e6;
    const double time = (time_of("byteps(partition=1 MB)", profile, cluster) - compute_time(profile)).value();
    const double expected = fraction(row.at("optimal_time_fraction")) * (m / b).value();
    // Filling and draining the pipeline costs a few partitions on either link.
    CHECK(time >= expected * (1 - 1e-9));
    CHECK(time <= expected + 4 * part / b.value());
    const ServerSplit split = byteps_split(cluster.nodes, cluster.servers);
    CHECK(split.time_factor == doctest::Approx(number(row, "optimal_time")).epsilon(1e-8));
    CHECK(split.per_worker == doctest::Approx(fraction(row.at("share_gpu_machine"))));
    if (!row.at("share_cpu_machine").empty())
      CHECK(split.per_server == doctest::Approx(fraction(row.at("share_cpu_machine"))));
    // Against an all-reduce between the machines, and against the same servers without the workers' help.
    const double ring = (time_of("bsp@ring", profile, cluster) - compute_time(profile)).value();
    CHECK(ring / expected == doctest::Approx(fraction(row.at("gain_over_allreduce"))));
    if (!row.at("gain_over_noncolocated_ps").empty()) {
      const double alone =
          (time_of("wfbp_ps(partition=1 MB, keys=even)", profile, cluster) - compute_time(profile)).value();
      CHECK(alone / expected == doctest::Approx(fraction(row.at("gain_over_noncolocated_ps"))).epsilon(0.01));
    }
  }
}
