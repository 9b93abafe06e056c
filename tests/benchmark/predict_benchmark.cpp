// Speed of one prediction: ResNet-50 (161 gradient tensors), from plan to step time, beside the least that a program
// can do for the same question: a bare loop over flat arrays that rebuilds the buckets and follows the recurrence task
// by task. Then the loop of an autotuner: thousands of distinct plans in a row, by the model and by one prediction
// after the other. Compare rows of one run only.
#include "../unit/oracles/iteration_by_clock.hpp"
#include "resnet50_profile.hpp"

#include <stepcast/prediction/model.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/schedule/in_order_period.hpp>
#include <stepcast/schedule/lower.hpp>
#include <stepcast/schedule/steady_period.hpp>
#include <stepcast/strategies/shared/grouping.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace stepcast;
using stepcast::test::predicted_iteration;

namespace {

Cluster cluster() { return cluster_of_flags(64, 8, "25GbE"); }

// The bare loop: greedy buckets, then start and end of every task over flat arrays. Forward and backward are a chain
// and the network is one queue in bucket order, so that no scheduler is needed.
struct Bare {
  std::vector<double> forward, backward, bytes, start, end;
  explicit Bare(const Profile& p) {
    for (const Layer& l : p.layers) forward.push_back((p.has_device() ? l.forward.device : l.forward.host).value());
    for (const std::uint32_t l : p.backward_order)
      backward.push_back((p.has_device() ? p.layers[l].backward.device : p.layers[l].backward.host).value());
    for (const Tensor& t : p.tensors) bytes.push_back(t.size.value());
    start.resize(forward.size() + 2 * backward.size());
    end.resize(start.size());
  }
  double step(double a, double b, double first, double cap, double update) {
    double now = 0;
    std::size_t k = 0;
    for (const double f : forward) start[k] = now, end[k++] = now += f;
    double limit = first, size = 0, network = 0;
    for (std::size_t i = 0; i < backward.size(); ++i) {
      start[k] = now;
      end[k++] = now += backward[i];
      size += bytes[i];
      if (size < limit && i + 1 < backward.size()) continue;
      start[k] = std::max(network, now);
      network = end[k] = start[k] + a + b * size;
      ++k;
      size = 0;
      limit = cap;
    }
    return std::max(now, network) + update;
  }
};

void bare_loop(benchmark::State& state) {
  const Profile p = resnet50(false);
  Bare bare(p);
  const CostLine line = communication_cost(cluster())->line(Operation::all_reduce);
  double cap = 25 << 20;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bare.step(line.start_up.value(), line.seconds_per_byte, 1 << 20, cap, 5e-4));
    cap += 1;
  }
}
BENCHMARK(bare_loop);

void one_prediction(benchmark::State& state, const char* text, bool device) {
  const Profile p = resnet50(device);
  const Cluster c = cluster();
  const CommunicationCost cost = *communication_cost(c);
  PlanSpec spec = plan_spec_of(text);
  Timeline timeline;
  for (auto _ : state) {
    spec.options[0] += 1;  // a tuner asks for another size each time
    benchmark::DoNotOptimize(predicted_iteration(p, c, cost, spec, timeline)->value());
  }
}
BENCHMARK_CAPTURE(one_prediction, ddp_one_stream, "ddp", false);
BENCHMARK_CAPTURE(one_prediction, ddp_host_and_device, "ddp", true);
BENCHMARK_CAPTURE(one_prediction, dear_host_and_device, "dear", true);

void per_tensor(benchmark::State& state, bool device) {
  const Profile p = resnet50(device);
  const Cluster c = cluster();
  const CommunicationCost cost = *communication_cost(c);
  const PlanSpec spec = plan_spec_of("wfbp");
  Timeline timeline;
  for (auto _ : state) benchmark::DoNotOptimize(predicted_iteration(p, c, cost, spec, timeline)->value());
}
BENCHMARK_CAPTURE(per_tensor, wfbp_one_stream, false);
BENCHMARK_CAPTURE(per_tensor, wfbp_host_and_device, true);

// The same by models. Two of them take turns with one scratch, each with a profile of its own, so that nothing that was
// kept helps: the plan is written, lowered and followed anew.
void per_tensor_by_model(benchmark::State& state, bool device) {
  const Model models[] = {{resnet50(device), cluster()}, {resnet50(device), cluster()}};
  const PlanSpec spec = plan_spec_of("wfbp");
  Model::Scratch scratch;
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(models[i++ % 2].iteration(spec, scratch)->value());
}
BENCHMARK_CAPTURE(per_tensor_by_model, wfbp_one_stream, false);
BENCHMARK_CAPTURE(per_tensor_by_model, wfbp_host_and_device, true);

// The period alone, of a graph that is there: by queues that are followed in time, and in an order that is known.
void period(benchmark::State& state, const char* text, bool known_order) {
  const Profile p = resnet50(true);
  Cluster c = cluster();
  c.servers = 4;
  const CommunicationCost cost = *communication_cost(c);
  const CommPlan plan = *comm_plan_of(plan_spec_of(text), p, c, cost);
  TaskGraph graph = lowered(p, plan, cost, c.contention, {.merge = true});
  SteadyPeriod by_queues;
  InOrderPeriod in_order;
  const bool prepared = SteadyPeriod::covers(graph) && in_order.prepare(graph) && in_order(graph);
  for (auto _ : state) {
    graph.tasks.back().work += 1;
    if (known_order && prepared) benchmark::DoNotOptimize(in_order(graph));
    else benchmark::DoNotOptimize(by_queues(graph));
  }
  state.counters["tasks"] = static_cast<double>(graph.tasks.size());
  state.counters["in order"] = prepared;
}
#define PERIODS(plan)                                        \
  BENCHMARK_CAPTURE(period, plan##_by_queues, #plan, false); \
  BENCHMARK_CAPTURE(period, plan##_in_order, #plan, true)
PERIODS(ddp);
PERIODS(wfbp);
PERIODS(dear);
PERIODS(wfbp_ps);
PERIODS(byteps);

// --- Many plans -----------------------------------------------------------------------------------------------------

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Plans a second of the rows so far, by name.
std::map<std::string, double>& rates() {
  static std::map<std::string, double> known;
  return known;
}

// Runs `evaluate(i)` and says how many plans a second that are, and in relation to earlier rows.
template <class Evaluate>
void measure(benchmark::State& state, const std::string& row, const std::string& reference, const Evaluate& evaluate) {
  std::size_t i = 0;
  const double begin = cpu_seconds();
  for (auto _ : state) evaluate(i++);
  const double rate = static_cast<double>(i) / (cpu_seconds() - begin);
  rates()[row] = rate;
  state.counters["plans/s"] = rate;
  if (rates().contains(reference))
    state.counters["x " + reference.substr(reference.find(' ') + 1)] = rate / rates()[reference];
  if (rates().contains("bare")) state.counters["of bare loop"] = rate / rates()["bare"];
}

constexpr std::size_t many = 4096;

double log_uniform(std::mt19937& random, double low, double high) {
  return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
}

// Distinct plans, each of which groups otherwise than the one before it, so that nothing that was kept helps.
std::vector<PlanSpec> distinct_groupings(const Profile& profile) {
  std::mt19937 random(1);
  std::vector<PlanSpec> plans;
  std::vector<std::uint32_t> before;
  while (plans.size() < many) {
    PlanSpec plan = plan_spec_of("ddp");
    plan.options[0] = std::round(log_uniform(random, 0x1p14, 0x1p25));
    plan.options[1] = std::round(log_uniform(random, 0x1p10, 0x1p24));
    std::vector<std::uint32_t> ends;
    for (const Group& g : closed_at(profile, Bytes(plan.options[1]), Bytes(plan.options[0]))) ends.push_back(g.last());
    if (ends == before) continue;
    plans.push_back(plan);
    before = std::move(ends);
  }
  return plans;
}

// Every strategy named, one after the other, with its tuned options anywhere in their range.
std::vector<PlanSpec> mixed(const std::vector<std::string>& names) {
  std::mt19937 random(2);
  std::vector<PlanSpec> plans;
  while (plans.size() < many) {
    PlanSpec plan = plan_spec_of(names[plans.size() % names.size()]);
    const auto options = plan.strategy->options;
    for (std::size_t o = 0; o < options.size(); ++o)
      if (options[o].tuned) plan.options[o] = log_uniform(random, options[o].tune_low, options[o].tune_high);
    plans.push_back(plan);
  }
  return plans;
}

std::vector<PlanSpec> plans_of(const std::string& kind, const Profile& profile) {
  if (kind == "buckets") return distinct_groupings(profile);
  if (kind == "fused") return mixed({"ddp", "dear", "mg_wfbp", "bsp"});
  if (kind == "all-reduce") return mixed({"ddp", "dear", "mg_wfbp", "bsp", "wfbp", "horovod", "bytescheduler"});
  if (kind == "servers") return mixed({"byteps", "p3", "bytescheduler_ps", "wfbp_ps"});
  return mixed({kind});
}

Cluster with_servers() {
  Cluster c = cluster();
  c.servers = 4;
  return c;
}

void many_by_prediction(benchmark::State& state, const std::string& kind, bool device) {
  const Profile p = resnet50(device);
  const Cluster c = with_servers();
  const CommunicationCost cost = *communication_cost(c);
  const std::vector<PlanSpec> plans = plans_of(kind, p);
  Timeline timeline;
  measure(state, kind + (device ? "+device" : "") + " predicted_iteration", "", [&](std::size_t i) {
    benchmark::DoNotOptimize(predicted_iteration(p, c, cost, plans[i % many], timeline)->value());
  });
}
void many_by_model(benchmark::State& state, const std::string& kind, bool device) {
  const Model model(resnet50(device), with_servers());
  const std::vector<PlanSpec> plans = plans_of(kind, model.profile());
  Model::Scratch scratch;
  const std::string row = kind + (device ? "+device" : "");
  measure(state, row + " model", row + " predicted_iteration",
          [&](std::size_t i) { benchmark::DoNotOptimize(model.iteration(plans[i % many], scratch)->value()); });
}
void bare_buckets(benchmark::State& state) {
  const Profile p = resnet50(false);
  Bare bare(p);
  const std::vector<PlanSpec> plans = distinct_groupings(p);
  const CostLine line = communication_cost(cluster())->line(Operation::all_reduce);
  measure(state, "bare", "", [&](std::size_t i) {
    const OptionValues& o = plans[i % many].options;
    benchmark::DoNotOptimize(bare.step(line.start_up.value(), line.seconds_per_byte, o[1], o[0], 5e-4));
  });
}
BENCHMARK(bare_buckets);
#define MANY_PLANS(kind, device)                                         \
  BENCHMARK_CAPTURE(many_by_prediction, kind##_##device, #kind, device); \
  BENCHMARK_CAPTURE(many_by_model, kind##_##device, #kind, device)
MANY_PLANS(buckets, false);
MANY_PLANS(buckets, true);
MANY_PLANS(fused, false);
MANY_PLANS(fused, true);
BENCHMARK_CAPTURE(many_by_prediction, all_reduce, "all-reduce", true);
BENCHMARK_CAPTURE(many_by_model, all_reduce, "all-reduce", true);
BENCHMARK_CAPTURE(many_by_prediction, servers, "servers", true);
BENCHMARK_CAPTURE(many_by_model, servers, "servers", true);
BENCHMARK_CAPTURE(many_by_model, byteps, "byteps", true);
BENCHMARK_CAPTURE(many_by_model, p3, "p3", true);
BENCHMARK_CAPTURE(many_by_model, bytescheduler_ps, "bytescheduler_ps", true);
BENCHMARK_CAPTURE(many_by_model, wfbp_ps, "wfbp_ps", true);

// The same plan on one cluster after the other, as a sweep of bandwidths asks for it.
void another_bandwidth(benchmark::State& state, const char* text) {
  const Model model(resnet50(true), cluster());
  const PlanSpec plan = plan_spec_of(text);
  Model::Scratch scratch;
  Cluster c = cluster();
  measure(state, text, "", [&](std::size_t i) {
    c.network.bandwidth = BytesPerSecond(1e9 + 1e6 * static_cast<double>(i % many));
    benchmark::DoNotOptimize(model.on(c).iteration(plan, scratch)->value());
  });
}
BENCHMARK_CAPTURE(another_bandwidth, ddp, "ddp");
BENCHMARK_CAPTURE(another_bandwidth, wfbp, "wfbp");

void recommendation(benchmark::State& state) {
  const Profile p = resnet50(true);
  const Cluster c = cluster();
  for (auto _ : state) benchmark::DoNotOptimize(recommended(p, c).exact.size());
}
BENCHMARK(recommendation)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
