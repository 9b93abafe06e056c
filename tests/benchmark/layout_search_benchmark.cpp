// Speed of the search over layouts: the best plan of a GPT of 530 billion parameters (105 layers, hidden 20480, 128
// heads, sequence 2048; the shape of Smith et al., arXiv 2201.11990) on 4,480 A100 for a global batch of 1,920. Shown
// are the layouts in the space, how many had to be evaluated, and the time; the exit status is 1 unless the best is
// proved. Calculon (Isaev et al., SC 2023), which evaluates every plan, was measured at 310 plans a second on one core.
//
//     layout_search_benchmark [threads] [runs] [frontier]
#include <stepcast/base/text.hpp>
#include <stepcast/search/layout_search.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

using namespace stepcast;

namespace {

Device a100() {
  if (const Device* shipped = shipped_device("a100-80gb")) return *shipped;
  Device d;
  d.name = "NVIDIA A100-SXM4-80GB";
  d.memory = Bytes(80 * 1073741824.0);
  d.memory_bandwidth = BytesPerSecond(1.6e12);
  d.matrix_rate[static_cast<std::size_t>(DataType::f16)] = 312e12;
  d.matrix_rate[static_cast<std::size_t>(DataType::bf16)] = 312e12;
  d.matrix_efficiency = 0.75;
  d.half_m = d.half_n = d.half_k = 100;
  d.kernel_floor = microseconds(3);
  d.provenance = {"data sheet"};
  return d;
}

// 560 machines with 8 devices: NVLink 3 inside, eight ports of 200 Gb/s InfiniBand.
Cluster machines() {
  Cluster c;
  c.name = "560 x 8 A100";
  c.nodes = 560;
  c.devices_per_node = 8;
  c.nics_per_node = 8;
  c.device_memory = Bytes(80 * 1073741824.0);
  c.inside = {microseconds(3), BytesPerSecond(2.4e11)};
  c.network = {microseconds(5), gigabits_per_second(200 * 0.9)};
  c.provenance = {"data sheets"};
  return c;
}

// Tensor, pipeline, data, micro-batch, interleaving, recomputation, ZeRO, sequence parallelism and overlap switches.
LayoutSpace space() {
  LayoutSpace s;
  s.context = {1};
  s.expert = {1};
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 0, runs = argc > 2 ? std::atoi(argv[2]) : 3;
  LayoutSearchOptions options;
  options.layout.global_batch = 1920;
  options.threads = static_cast<unsigned>(std::max(0, threads));
  options.frontier = argc > 3 && std::strcmp(argv[3], "frontier") == 0;
  std::vector<double> times;
  bool proved = true;
  for (int run = 0; run < std::max(1, runs); ++run) {
    const auto start = std::chrono::steady_clock::now();
    const Workload workload = workload_of(model_shape_of("gpt:hidden=20480,layers=105,heads=128,seq=2048"), a100());
    const Answer<LayoutSearchResult> found = best_layouts(workload, machines(), space(), options);
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (!found || found->best.empty()) {
      std::printf("nothing: %s\n", found ? found->nothing.c_str() : found.reason().c_str());
      return 1;
    }
    proved = proved && found->proved && found->gap == 0;
    if (run > 0) continue;
    std::printf("%.1f billion parameters on %lld devices\n", workload.parameters() / 1e9,
                static_cast<long long>(machines().workers()));
    std::printf("%llu layouts: %llu evaluated, %llu bounded, %llu too large, %llu unsuitable\n",
                static_cast<unsigned long long>(found->total), static_cast<unsigned long long>(found->evaluated),
                static_cast<unsigned long long>(found->bounded), static_cast<unsigned long long>(found->too_large),
                static_cast<unsigned long long>(found->unsuitable));
    for (const LayoutPrediction& p : found->best)
      std::printf("%s  %s  %s  %.1f %%\n", text_of(p.iteration).c_str(), text_of(p.memory.total()).c_str(),
                  text_of(p.plan).c_str(), 100 * p.model_flops_utilization);
    std::printf("%zu points on the frontier; gap %g, %s\n", found->frontier.size(), found->gap,
                found->proved ? "proved" : "not proved");
    std::printf("%.0f layouts a second\n", static_cast<double>(found->total) / times.back());
  }
  std::sort(times.begin(), times.end());
  std::printf("%zu runs: %.3f s least, %.3f s median, %.3f s most\n", times.size(), times.front(),
              times[times.size() / 2], times.back());
  return proved ? 0 : 1;
}
