// Planned layouts: what is written, read back, is what the prediction counts, and takes as long when it is replayed.
#include "helpers/chakra_nodes.hpp"
#include "helpers/layout_machines.hpp"

#include <stepcast/documents/reading.hpp>
#include <stepcast/parallelism/priced_split.hpp>
#include <stepcast/simulators/planned_layout.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

using EtNode = chakra_et::Node;
using chakra_et::NodeType;

constexpr double batch = 32;

/// Two machines of eight whose devices compute more slowly while they send.
Cluster machines() {
  Cluster c = layout_machines(2, 8, 8);
  c.all_reduce = "ring";
  c.contention = {1.1, 1.2, 1, 1.25};
  return c;
}
Workload model(const std::string& text = "llama:hidden=1024,layers=14,heads=16,seq=1024,vocab=8192,attention=flash") {
  return workload_of(model_shape_of(text), layout_device(DataType::bf16));
}
const std::string mixture = "llama:hidden=1024,layers=6,heads=16,seq=1024,vocab=8192,experts=8";

struct Job {
  Workload workload;
  LayoutPlan plan;
  LayoutPrediction prediction;
  PlannedLayout written;
  std::vector<std::vector<EtNode>> ranks;
  nlohmann::json groups;
};
LayoutOptions options() {
  LayoutOptions o;
  o.global_batch = batch;
  o.memory_cap = Bytes(1e15);
  return o;
}
Job job_of(Workload w, const std::string& plan, const Cluster& cluster = machines()) {
  const LayoutPlan asked = layout_plan_of(plan);
  Answer<LayoutPrediction> p = predicted(w, cluster, asked, options());
  REQUIRE_MESSAGE(p, plan << ": " << (p ? "" : p.reason()));
  Answer<PlannedLayout> written = planned_layout(w, cluster, asked, options());
  REQUIRE_MESSAGE(written, plan << ": " << (written ? "" : written.reason()));
  Job job{std::move(w), p->plan, *p, *written, {}, nlohmann::json::parse(written->groups)};
  for (std::int64_t rank = 0; rank < written->traces.ranks(); ++rank)
    job.ranks.push_back(chakra_nodes_of(written->traces.of(rank)));
  return job;
}

std::int64_t number(const EtNode& node, const char* name) { return node.number(name).value_or(-1); }

/// A rank does what its nodes wait for; a message arrives when its send ends, and all of a group begin together.
class Replay {
 public:
  explicit Replay(const Job& job) : job_(job), done_(job.ranks.size()), met_(job.ranks.size()) {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t rank = 0; rank < job.ranks.size(); ++rank)
        while (done_[rank].size() < job.ranks[rank].size() && step(rank)) moves = true;
    }
    for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) REQUIRE(done_[rank].size() == job.ranks[rank].size());
    CHECK(sent_.empty());  // every send was received
  }
  double end = 0;

 private:
  bool step(std::size_t rank) {
    const EtNode& node = job_.ranks[rank][done_[rank].size()];
    CHECK(node.id == done_[rank].size() + 1);
    double start = 0;
    for (const std::uint64_t before : node.data) {
      REQUIRE(before < node.id);
      start = std::max(start, done_[rank][before - 1]);
    }
    const double time = static_cast<double>(number(node, "duration_ns"));
    const auto rank_number = static_cast<std::int64_t>(rank);
    const std::tuple key{number(node, "comm_src"), number(node, "comm_dst"), number(node, "comm_tag")};
    if (node.type == NodeType::compute) return finish(rank, start + time);
    if (node.type == NodeType::send) {
      CHECK(std::get<0>(key) == rank_number);
      CHECK(std::get<1>(key) != rank_number);
      REQUIRE(sent_.emplace(key, std::pair{number(node, "comm_size"), start + time}).second);
      return finish(rank, start + time);
    }
    if (node.type == NodeType::receive) {
      CHECK(std::get<1>(key) == rank_number);
      const auto found = sent_.find(key);
      if (found == sent_.end()) return false;
      CHECK(found->second.first == number(node, "comm_size"));
      const double arrival = found->second.second;
      sent_.erase(found);
      return finish(rank, std::max(start, arrival));
    }
    REQUIRE(node.type == NodeType::collective);
    return meet(rank, node, start, time);
  }
  bool meet(std::size_t rank, const EtNode& node, double start, double time) {
    const std::string group = node.text("pg_name");
    REQUIRE(job_.groups.contains(group));
    const auto members = job_.groups[group].get<std::vector<std::size_t>>();
    REQUIRE(std::ranges::find(members, rank) != members.end());
    CHECK(number(node, "comm_group_size") == std::ssize(members));
    std::size_t& count = met_[rank][group];
    Meeting& meeting = meetings_[{group, count}];
    if (!meeting.ranks.contains(rank)) {
      const std::pair what{number(node, "comm_type"), number(node, "comm_size")};
      if (!meeting.ranks.empty()) CHECK(meeting.what == what);
      meeting.what = what;
      meeting.ranks.insert(rank);
      meeting.start = std::max(meeting.start, start);
    }
    if (meeting.ranks.size() < members.size()) return false;
    ++count;
    return finish(rank, meeting.start + time);
  }
  bool finish(std::size_t rank, double at) {
    done_[rank].push_back(at);
    end = std::max(end, at);
    return true;
  }

  struct Meeting {
    std::set<std::size_t> ranks;
    std::pair<std::int64_t, std::int64_t> what;
    double start = 0;
  };
  const Job& job_;
  std::vector<std::vector<double>> done_;
  std::vector<std::map<std::string, std::size_t>> met_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::pair<std::int64_t, double>> sent_;
  std::map<std::pair<std::string, std::size_t>, Meeting> meetings_;
};

/// Bytes by operation and by how many ranks there are, how far apart.
using Sums = std::map<std::tuple<std::string, std::int64_t, std::int64_t>, double>;
Sums sums_of(const Job& job, std::size_t rank) {
  Sums sums;
  for (const EtNode& node : job.ranks[rank]) {
    if (node.type == NodeType::send) sums[{"send", 0, 0}] += static_cast<double>(number(node, "comm_size"));
    if (node.type != NodeType::collective) continue;
    const auto members = job.groups[node.text("pg_name")].get<std::vector<std::int64_t>>();
    const auto type = static_cast<std::size_t>(number(node, "comm_type"));
    const std::string name(chakra_et::collective_names[type]);
    const double share = name == "allgather" ? static_cast<double>(members.size()) : 1;
    sums[{name, std::ssize(members), members[1] - members[0]}] +=
        static_cast<double>(number(node, "comm_size")) * share;
  }
  return sums;
}
std::string chakra_name(Operation op) {
  std::string name(name_of(op));
  std::erase(name, '_');
  return name;
}

/// The values that the prediction uses, of the units that a device of the pipeline holds.
struct Counted {
  const Job& job;
  std::vector<std::uint32_t> units;  ///< kinds
  double passes = 0;                 ///< micro-batches

  Counted(const Job& j, std::uint32_t device) : job(j) {
    const Layout& l = job.plan.layout;
    const std::uint32_t chunks = static_cast<std::uint32_t>(l.chunks), stages = static_cast<std::uint32_t>(l.pipeline);
    std::uint32_t unit = 0;
    for (std::uint32_t v = 0; v < stages * chunks; ++v)
      for (std::uint32_t i = 0; i < job.prediction.stage_units[v]; ++i, ++unit)
        if (v % stages == device) units.push_back(job.workload.units[unit]);
    passes = static_cast<double>(job.prediction.micro_batches);
  }
  [[nodiscard]] UnitCost cost(std::uint32_t kind) const {
    return *unit_cost(job.workload, kind, split_of(job.plan.layout));
  }
  void add(Sums& to, const std::vector<TensorTransfer>& sent, std::int64_t stride) const {
    for (const TensorTransfer& t : sent)
      if (t.members > 1)
        to[{chakra_name(t.operation), t.members, stride * t.stride}] += t.size.value() * t.count * passes;
  }
  [[nodiscard]] std::pair<double, double> parameters() const {
    double dense = 0, expert = 0;
    for (const std::uint32_t kind : units) {
      const UnitCost c = cost(kind);
      dense += c.parameters - c.expert_parameters;
      expert += c.expert_parameters;
    }
    return {dense, expert};
  }
};

void check_same(const Sums& written, const Sums& counted) {
  for (const auto& [key, bytes] : counted) {
    CAPTURE(std::get<0>(key));
    CAPTURE(std::get<1>(key));
    CAPTURE(std::get<2>(key));
    REQUIRE(written.contains(key));
    CHECK(written.at(key) == Approx(bytes).epsilon(1e-5));
  }
  CHECK(written.size() == counted.size());
}

}  // namespace

TEST_CASE("A planned layout takes as long as predicted, and every message has its other end") {
  for (const std::string plan : {"layout(tp=8)/ddp",
                                 "layout(tp=2, sp=on)/wfbp",
                                 "layout(tp=2, overlap_tp=on)/ddp",
                                 "layout(tp=4, sp=on, overlap_tp=products)/ddp",
                                 "layout(tp=2, pp=2, mb=1, sp=on, overlap_tp=products, recompute=full)/ddp",
                                 "layout(tp=2, pp=2, mb=1)/ddp",
                                 "layout(pp=4, mb=2)/ddp(bucket=5 MiB)",
                                 "layout(pp=4, chunks=2, tp=2, mb=1)/ddp",
                                 "layout(pp=4, chunks=4, mb=1, zero=1)/ddp",
                                 "layout(pp=4, tp=2, mb=1, schedule=zb_h1)/ddp",
                                 "layout(pp=4, chunks=2, tp=2, mb=1, schedule=zb_v)/ddp",
                                 "layout(pp=4, tp=2, mb=1, schedule=bidirectional)/ddp",
                                 "layout(pp=2, tp=2, mb=1, schedule=gpipe)/ddp",
                                 "layout(pp=2, tp=2, mb=1, overlap_pp=off)/ddp",
                                 "layout(pp=2, mb=1, overlap_dp=off)/ddp",
                                 "layout(zero=1)/ddp",
                                 "layout(zero=1, overlap_dp=off)/ddp",
                                 "layout(tp=2, zero=2, mb=1)/ddp",
                                 "layout(zero=3)/ddp",
                                 "layout(zero=3, mb=1, in_flight=1, overlap_dp=off)/ddp",
                                 "layout(tp=2, pp=2, zero=3, mb=1)/ddp",
                                 "layout(zero=1, offload=optimizer, mb=1)/ddp",
                                 "layout(tp=2, zero=3, offload=parameters, mb=1)/ddp",
                                 "layout(pp=2, mb=1, offload=optimizer+activations)/ddp",
                                 "layout(zero=1, shard=machine, mb=1)/ddp",
                                 "layout(zero=3, hpz=machine, mb=1)/ddp",
                                 "layout(tp=2, zero=3, hpz=2, qwz=on, qgz=on, mb=1)/ddp",
                                 "layout(pp=2, zero=3, hpz=4, mb=1)/ddp",
                                 "layout(cp=4, mb=1, zero=1)/ddp",
                                 "layout(cp=2, tp=2, pp=2, mb=1, recompute=full)/ddp",
                                 "layout(cp=4, mb=1, cp_comm=allgather, recompute=selective)/ddp",
                                 "layout(cp=4, mb=1, cp_comm=a2a)/ddp",
                                 "layout(tp=2, pp=2, mb=1, recompute=op)/ddp",
                                 "layout(pp=2, mb=1, recompute=full, recompute_blocks=3)/ddp",
                                 "layout(tp=4, scheme=2d, mb=1)/ddp",
                                 "layout(pp=2, tp=2, mb=1, order=tp-pp-dp-cp)/ddp",
                                 "layout(tp=2, pp=2, mb=1)/mg_wfbp+fp16",
                                 "layout(mb=1, zero=1)/ddp+fp16"}) {
    CAPTURE(plan);
    const Job job = job_of(model(), plan);
    const double end = Replay(job).end;
    CHECK(end == Approx(job.prediction.iteration.value() * 1e9).epsilon(0.01));
    CHECK(end == Approx(job.written.end.value() * 1e9).epsilon(1e-4));
  }
  // Sums over replicas run beside reductions within groups, both of which the prediction exposes by themselves.
  const Job groups = job_of(model(), "layout(zero=2, shard=4, mb=1)/ddp");
  CHECK(Replay(groups).end == Approx(groups.prediction.iteration.value() * 1e9).epsilon(0.02));
  for (const std::string plan : {"layout(ep=4, mb=1)/ddp", "layout(ep=8, pp=2, mb=1, zero=1)/ddp",
                                 "layout(ep=4, tp=2, mb=1, zero=3)/ddp", "layout(ep=4, tp=2, mb=1, zero=2)/ddp",
                                 "layout(ep=8, ep_comm=deepep, pp=2, mb=1, recompute=layernorm+moe_act)/ddp"}) {
    CAPTURE(plan);
    const Job job = job_of(model(mixture), plan);
    CHECK(Replay(job).end == Approx(job.prediction.iteration.value() * 1e9).epsilon(0.01));
  }
}

TEST_CASE("Ties of a first and a last stage are summed by both, and a late worker's time is in every rank") {
  const Job tied =
      job_of(model("gpt:hidden=512,layers=6,heads=8,seq=512,vocab=8192,dtype=bf16"), "layout(pp=4, mb=1)/ddp");
  CHECK(Replay(tied).end == Approx(tied.prediction.iteration.value() * 1e9).epsilon(0.01));
  const Sums first = sums_of(tied, 0), inner = sums_of(tied, 4);
  CHECK(first.contains({"allreduce", 2, 12}));
  CHECK_FALSE(inner.contains({"allreduce", 2, 12}));
  Cluster late = machines();
  late.stragglers.slow = {{1, 1.5, milliseconds(3)}};
  const Job slow = job_of(model(), "layout(tp=2, pp=2, mb=1)/ddp", late);
  CHECK(Replay(slow).end == Approx(slow.prediction.iteration.value() * 1e9).epsilon(0.01));
}

TEST_CASE("Every rank sends the bytes that the prediction counts, on its own groups") {
  const Job tensor = job_of(model(), "layout(tp=2, pp=2, mb=1)/ddp");
  for (const std::uint32_t device : {0u, 1u}) {
    const Counted counted(tensor, device);
    Sums expected;
    double boundary = 0;
    for (const std::uint32_t kind : counted.units) {
      const UnitCost c = counted.cost(kind);
      counted.add(expected, c.forward_tensor, 1);
      counted.add(expected, c.backward_tensor, 1);
      boundary = c.boundary.value();
    }
    // Two ranks of a tensor group each send their half, and gather it at the other end.
    if (device == 1) boundary = Counted(tensor, 0).cost(tensor.workload.units[0]).boundary.value();
    expected[{"allgather", 2, 1}] += boundary * counted.passes;
    expected[{"send", 0, 0}] = boundary / 2 * counted.passes;
    const auto [dense, none] = counted.parameters();
    expected[{"allreduce", 4, 2}] += dense * tensor.workload.bytes_of_gradient;
    check_same(sums_of(tensor, device * 8), expected);
    check_same(sums_of(tensor, device * 8 + 7), expected);
  }
  for (const int zero : {1, 2, 3}) {
    CAPTURE(zero);
    const Job job = job_of(model(), "layout(tp=2, mb=1, sp=on, zero=" + std::to_string(zero) + ")/ddp");
    const Counted counted(job, 0);
    Sums expected;
    for (const std::uint32_t kind : counted.units) {
      const UnitCost c = counted.cost(kind);
      counted.add(expected, c.forward_tensor, 1);
      counted.add(expected, c.backward_tensor, 1);
    }
    const double elements = counted.parameters().first, m = counted.passes;
    REQUIRE(m > 1);
    expected[{"reducescatter", 8, 2}] = elements * job.workload.bytes_of_gradient * (zero == 1 ? 1 : m);
    expected[{"allgather", 8, 2}] = elements * job.workload.bytes_of_weight * (zero == 3 ? 2 * m : 1);
    check_same(sums_of(job, 3), expected);
  }
  const Job experts = job_of(model(mixture), "layout(ep=4, mb=1, zero=1)/ddp");
  const Counted of_experts(experts, 0);
  Sums expected;
  for (const std::uint32_t kind : of_experts.units)
    for (int pass = 0; pass < 2; ++pass) of_experts.add(expected, of_experts.cost(kind).expert_transfers, 1);
  const auto [dense, expert] = of_experts.parameters();
  REQUIRE(expert > 0);
  expected[{"reducescatter", 16, 1}] = dense * experts.workload.bytes_of_gradient;
  expected[{"reducescatter", 4, 4}] = expert * experts.workload.bytes_of_gradient;
  expected[{"allgather", 16, 1}] = dense * experts.workload.bytes_of_weight;
  expected[{"allgather", 4, 4}] = expert * experts.workload.bytes_of_weight;
  check_same(sums_of(experts, 5), expected);

  const Job ring = job_of(model(), "layout(cp=4, mb=2)/ddp");
  const Counted of_ring(ring, 0);
  double sent = 0;
  for (const std::uint32_t kind : of_ring.units) {
    const UnitCost c = of_ring.cost(kind);
    for (const auto* list : {&c.context_forward, &c.context_backward})
      for (const TensorTransfer& t : *list) sent += t.size.value() * t.count * of_ring.passes;
  }
  REQUIRE(sent > 0);
  CHECK(sums_of(ring, 6).at({"send", 0, 0}) == Approx(sent).epsilon(1e-6));
  for (const EtNode& node : ring.ranks[7])
    if (node.type == NodeType::send) CHECK(number(node, "comm_dst") == 4);  // around
}

TEST_CASE("Collectives take what the breakdown says, and nodes read back as a trace of each rank") {
  const Job job = job_of(model(), "layout(tp=4, mb=1)/ddp");
  double tensor = 0, compute = 0;
  for (const EtNode& node : job.ranks[0]) {
    const double time = static_cast<double>(number(node, "duration_ns")) * 1e-9;
    if (node.type == NodeType::collective && node.text("pg_name") == "1") tensor += time;
    if (node.type == NodeType::compute) compute += time;
  }
  const LayoutBreakdown& b = job.prediction.breakdown;
  CHECK(tensor == Approx(b.tensor.value()).epsilon(1e-4));
  CHECK(compute >= (b.compute + b.update + b.other).value() * 0.9999);
  CHECK(compute <= (b.compute + b.update + b.other + b.gradients).value() * 1.0001);
  const std::string bytes = job.written.traces.of(5);
  const Trace trace = trace_of({"job.5.et", std::as_bytes(std::span(bytes))});
  CHECK(trace.rank == 5);
  CHECK(trace.world_size == 16);
  CHECK(trace.events.size() == job.ranks[5].size());
  CHECK(trace.report.repaired.empty());
  CHECK(trace.report.missing.empty());
  CHECK(job.written.traces.size().value() == Approx(static_cast<double>(bytes.size()) * 16).epsilon(0.1));
}

TEST_CASE("Gathers that the next forward pass waits for come before the first of its layers") {
  const Job job = job_of(model(), "layout(pp=2, mb=1)/dear");
  const double end = Replay(job).end;
  CHECK(end == Approx(job.written.end.value() * 1e9).epsilon(1e-4));
  CHECK(end == Approx(job.prediction.iteration.value() * 1e9).epsilon(0.1));
  const Sums sums = sums_of(job, 0);
  CHECK(sums.at({"allgather", 8, 1}) == Approx(sums.at({"reducescatter", 8, 1})).epsilon(1e-4));
}

TEST_CASE("Where the nodes take another time than the step it is said") {
  // Casts of the last stage's gradients hold up the stages before it, of which the prediction knows nothing.
  const Answer<PlannedLayout> casts =
      planned_layout(model(), machines(), layout_plan_of("layout(pp=2, mb=1, zero=1)/ddp+fp16"), options());
  REQUIRE(casts);
  REQUIRE(casts->remarks.size() == 1);
  CHECK(casts->remarks[0].find("alone take") != std::string::npos);
  Cluster trees = machines();
  trees.all_reduce = "double_tree";
  trees.message_overhead = microseconds(2);
  const Answer<PlannedLayout> others =
      planned_layout(model(), trees, layout_plan_of("layout(tp=4, mb=1)/ddp"), options());
  REQUIRE(others);
  REQUIRE(others->remarks.size() == 2);
  CHECK(others->remarks[0].find("not 'double_tree'") != std::string::npos);
}

TEST_CASE("Layouts that cannot be written are refused with the reason") {
  const Workload w = model();
  const auto reason = [&](const char* plan, const Cluster& cluster = machines()) {
    const Answer<PlannedLayout> job = planned_layout(w, cluster, layout_plan_of(plan), options());
    return job ? std::string() : job.reason();
  };
  CHECK(reason("layout(units=8*tp1+8*tp2)/ddp").find("choose for themselves") != std::string::npos);
  CHECK(reason("layout(tp=2)/wfbp_ps").find("ASTRA-sim does not run") != std::string::npos);
  CHECK(reason("layout(tp=2)/ddp+local(period=4)").find("every 4 steps") != std::string::npos);
  CHECK(reason("layout(pp=2, mb=1, schedule=zb_h1, zero=2)/ddp").find("passes of their own") != std::string::npos);
  CHECK(reason("layout(tp=3)/ddp") != "");
  CHECK(reason("layout(tp=1)/ddp", layout_machines(1, 1, 1)).find("one rank") != std::string::npos);
}
