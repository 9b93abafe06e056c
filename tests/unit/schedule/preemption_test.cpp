// Pre-emption: a channel that serves the most urgent transfer at every moment, against a clock that ticks.
#include "helpers/graph_text.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/schedule/schedule.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace stepcast;
using namespace stepcast::test;

TEST_CASE("pre-emption: the most urgent of those that are ready is served at every tick") {
  Draw draw(91);
  for (int round = 0; round < 200; ++round) {
    // Task k is ready when the k-th piece of compute ends; priorities are all different.
    const int n = draw.whole(1, 8);
    std::string text = "net priority\ngpu chain\n";
    std::vector<int> ready, left, priority, end(static_cast<std::size_t>(n), 0);
    int clock = 0;
    for (int k = 0; k < n; ++k) {
      const int compute = draw.whole(1, 6), work = draw.whole(1, 9), rank = draw.whole(0, 9) * 10 + k;
      const std::string id = std::to_string(k);
      text += "g" + id + " gpu " + std::to_string(compute) + "\nn" + id + " net " + std::to_string(work) +
              " priority=" + std::to_string(rank) + "\ng" + id + " -> n" + id + "\nn" + id + " -> u\n";
      if (k > 0) text += "g" + std::to_string(k - 1) + " -> g" + id + "\n";
      clock += compute;
      ready.push_back(clock), left.push_back(work), priority.push_back(rank);
    }
    text += "u gpu 1\nu -> g0 +1\nmarker u\n";
    // The statement of a task precedes those of its arcs.
    std::string ordered = "net priority\ngpu chain\n", arcs;
    std::size_t from = ordered.size();
    while (from < text.size()) {
      const std::size_t to = text.find('\n', from) + 1;
      const std::string line = text.substr(from, to - from);
      (line.find("->") != std::string::npos || line.starts_with("marker") ? arcs : ordered) += line;
      from = to;
    }
    TextGraph graph = graph_of(ordered + arcs);
    graph.graph.resources[0].preemptive = true;
    graph.graph.barrier = false;
    const Timeline timeline = schedule(graph.graph);

    int busy = 0;
    for (int now = 0; busy < n; ++now) {
      int chosen = -1;
      for (int k = 0; k < n; ++k) {
        const auto i = static_cast<std::size_t>(k);
        if (ready[i] > now || left[i] == 0) continue;
        if (chosen < 0 || priority[i] < priority[static_cast<std::size_t>(chosen)]) chosen = k;
      }
      if (chosen < 0) continue;
      const auto i = static_cast<std::size_t>(chosen);
      if (--left[i] == 0) end[i] = now + 1, ++busy;
    }
    for (int k = 0; k < n; ++k) {
      const std::uint32_t task = graph.task.at("n" + std::to_string(k));
      CAPTURE(ordered + arcs);
      CHECK(timeline.end[task] == end[static_cast<std::size_t>(k)] * unit);
    }
  }
}

TEST_CASE("pre-emption: an interrupted transfer keeps its progress while compute slows it down") {
  // Low starts at 2 under compute (1.5 times as slow), has done 2 of 6 at 5, waits for High 5-6.5, and goes on; compute
  // ends at 8: 1 more is done, then 3 units remain at full speed.
  TextGraph graph = graph_of(
      "net priority\ngpu chain\n"
      "a gpu 2\nb gpu 3\nc gpu 3\nu gpu 0\n"
      "low net 6 priority=9\nhigh net 1 priority=1\n"
      "a -> b\nb -> c\nc -> u\na -> low\nb -> high\nlow -> u\nhigh -> u\nu -> a +1\nmarker u\ncontention 1.5 1\n");
  graph.graph.resources[0].preemptive = true;
  const Timeline timeline = schedule(graph.graph);
  CHECK(timeline.end[graph.task.at("high")] == static_cast<Picoseconds>(6.5 * unit));
  CHECK(timeline.start[graph.task.at("low")] == 2 * unit);
  CHECK(timeline.end[graph.task.at("low")] == 11 * unit);
}
