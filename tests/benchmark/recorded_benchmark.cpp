// Speed of a recorded step on another network: the graph of the replay against its blocks (step_blocks.hpp), and how
// long it takes to build both beyond reading the trace; with other messages of its gradients, where these can be
// exchanged (gradient_exchange.hpp). Compare rows of one run only.
//
//     recorded_benchmark TRACE [runs]
#include <stepcast/baseline/recorded_job.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/replay/calibration.hpp>
#include <stepcast/schedule/schedule.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

using namespace stepcast;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// The median time of `runs` calls, each of `repeats`.
template <class Call>
double median_of(int runs, int repeats, const Call& call) {
  std::vector<double> times;
  for (int run = 0; run < runs; ++run) {
    const double begin = seconds();
    for (int i = 0; i < repeats; ++i) call(run * repeats + i);
    times.push_back((seconds() - begin) / repeats);
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

/// A message for each gradient, one for every ten, and whole plans on a cluster.
void measure_exchange(const Trace& trace, int runs) try {
  const Profile profile = profile_of(trace, {});
  const Answer<RecordedJob> job = recorded_job_of(std::span(&trace, 1), &profile);
  if (!job || !job->fixed().empty()) {
    std::printf("exchange   %s\n", job ? job->fixed().c_str() : job.reason().c_str());
    return;
  }
  const RecordedRank& rank = job->ranks.front();
  const std::vector<double> factors(rank.collectives.size(), 1);
  double checksum = 0;
  const auto step_us = [&](std::size_t each) {
    std::vector<GradientMessage> messages;
    for (std::size_t k = each - 1; k < rank.exchange->sizes.size(); k += each)
      messages.push_back({static_cast<std::uint32_t>(k), Bytes(1e6), 0, 50'000'000});
    return 1e6 * median_of(runs, 200, [&](int i) {
             messages.back().time = 50'000'000 + i % 2;
             checksum += rank.step(factors, messages).value();
           });
  };
  Cluster cluster;
  cluster.name = "benchmark", cluster.nodes = 2, cluster.devices_per_node = 8;
  cluster.inside = {Seconds(3e-6), BytesPerSecond(2e11)}, cluster.network = {Seconds(5e-6), BytesPerSecond(1e10)};
  const PlanSpec ddp = plan_spec_of("ddp");
  const double for_ten = step_us(10), for_each = step_us(1);
  const double plan =
      1e6 * median_of(runs, 20, [&](int) { checksum += job->with(ddp, profile, cluster)->iteration.value(); });
  std::printf(
      "exchange   %zu gradients, %zu blocks; one step with a message for ten of them %.3f us, for each %.3f us; "
      "a prediction of ddp %.3f us (checksum %.0f)\n",
      rank.exchange->sizes.size(), rank.blocks.blocks.size() - 1, for_ten, for_each, plan, checksum);
} catch (const InputError& error) { std::printf("exchange   %s\n", error.what()); }

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 2 ? std::max(1, std::atoi(argv[2])) : 5;
  if (argc < 2) {
    std::fprintf(stderr, "recorded_benchmark TRACE [runs]\n");
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const double begin = seconds();
  const Trace trace = trace_of({argv[1], std::as_bytes(std::span(text)), {}});
  const double reading = seconds() - begin;
  const Answer<RecordedJob> job = recorded_job_of(std::span(&trace, 1));
  if (!job) {
    std::fprintf(stderr, "%s\n", job.reason().c_str());
    return 1;
  }
  const auto calibration = replaying::calibration_of(trace);
  TaskGraph graph = (*calibration)->taken_apart.graph;
  const RecordedRank& rank = job->ranks.front();
  std::printf("%zu tasks, %zu arcs; %zu blocks, %zu rows, %zu terms, %u slots\n", graph.tasks.size(), graph.arcs.size(),
              rank.blocks.blocks.size() - 1, rank.blocks.rows.size() - 1, rank.blocks.terms.size(), rank.blocks.slots);
  const double graphing = median_of(runs, 1, [&](int) { (void)replaying::calibration_of(trace); });
  const double building = median_of(runs, 1, [&](int) { (void)recorded_job_of(std::span(&trace, 1)); });
  std::vector<Picoseconds> times;
  for (const RecordedRank::Part& part : rank.parts) times.push_back(part.recorded);
  Picoseconds sum = 0;
  Timeline timeline;
  const double by_graph = median_of(runs, 3, [&](int i) {
    graph.tasks.front().work += i % 2;
    schedule(graph, timeline);
    sum += timeline.period;
  });
  const double by_blocks = median_of(runs, 1000, [&](int i) {
    times.front() += i % 2;
    sum += rank.blocks.period(times);
  });
  std::printf("reading    %9.3f ms\n", reading * 1e3);
  std::printf("the graph  %9.3f ms beyond reading\n", graphing * 1e3);
  std::printf("the blocks %9.3f ms beyond reading, the graph included\n", building * 1e3);
  std::printf("one step   %9.3f us by the graph, %.3f us by its blocks: 1 to %.0f (checksum %lld)\n", by_graph * 1e6,
              by_blocks * 1e6, by_graph / by_blocks, static_cast<long long>(sum % 1000));
  measure_exchange(trace, runs);
  return 0;
}
