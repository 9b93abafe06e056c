// Speed of one prediction: ResNet-50 (161 gradient tensors), from plan to step time, beside the least that a program
// can do for the same question: a bare loop over flat arrays that rebuilds the buckets and follows the recurrence task
// by task. Compare rows of one run only.
#include <stepcast/prediction.hpp>
#include <stepcast/profile_of.hpp>
#include <stepcast/recommend.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

using namespace stepcast;

namespace {

// One layer per gradient tensor; times as of a V100-class device: 60 us forward, 120 us backward, host a third of that.
Profile resnet50(bool device) {
  const ModelDescription* model = shipped_model("resnet50");
  Profile p;
  p.model = model->name;
  p.provenance = "benchmark";
  if (device) p.device = "device";
  const auto cost = [&](double us) {
    PassCost c;
    (device ? c.device : c.host) = microseconds(us);
    if (device) c.host = microseconds(us / 3);
    return c;
  };
  const auto n = static_cast<std::uint32_t>(model->parameters.size());
  for (std::uint32_t l = 0; l < n; ++l) p.layers.push_back({model->parameters[l].name, cost(60), cost(120)});
  for (std::uint32_t l = n; l-- > 0;) {
    p.backward_order.push_back(l);
    Tensor t = model->parameters[l];
    t.layer = l;
    p.tensors.push_back(t);
  }
  p.optimizer = cost(500);
  return checked(p, "benchmark");
}

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

void recommendation(benchmark::State& state) {
  const Profile p = resnet50(true);
  const Cluster c = cluster();
  for (auto _ : state) benchmark::DoNotOptimize(recommended(p, c).exact.size());
}
BENCHMARK(recommendation)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
