// Speed of a recorded step on another network: the graph of the replay against its blocks (step_blocks.hpp), and how
// long it takes to build both beyond reading the trace. Compare rows of one run only.
//
//     recorded_benchmark TRACE [runs]
#include <stepcast/baseline/recorded_job.hpp>
#include <stepcast/documents/reading.hpp>
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
  return 0;
}
