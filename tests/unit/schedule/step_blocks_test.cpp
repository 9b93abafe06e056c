// StepBlocks against the scheduler: a graph by hand, and random graphs in program order with any tasks free.
#include <stepcast/schedule/schedule.hpp>
#include <stepcast/schedule/step_blocks.hpp>

#include "helpers/graph_text.hpp"
#include "helpers/random_input.hpp"
#include "helpers/random_step.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace stepcast {
namespace {

using test::unit;

std::vector<Picoseconds> works_of(const TaskGraph& graph, const std::vector<std::uint32_t>& tasks) {
  std::vector<Picoseconds> times;
  for (const std::uint32_t t : tasks) times.push_back(graph.tasks[t].work);
  return times;
}

/// When the marker ends in the first iterations, by the scheduler.
std::vector<Picoseconds> scheduled_ends(const TaskGraph& graph, std::uint32_t iterations) {
  const Timeline timeline = schedule(graph, {.most_iterations = iterations, .least_iterations = iterations});
  REQUIRE(timeline.iterations >= iterations);
  std::vector<Picoseconds> ends;
  for (std::uint32_t i = 0; i < iterations; ++i) ends.push_back(timeline.end[i * timeline.tasks + graph.marker]);
  return ends;
}

}  // namespace

TEST_CASE("blocks: a step by hand is as long as what its host waits for") {
  const auto g = test::graph_of(R"(
    host chain
    gpu chain
    net chain
    a host 2
    k gpu 5
    x net 9
    b host 1
    a -> k
    k -> x
    a -> b
    x -> b
    b -> a +1
    k -> k +1
    x -> x +1
    marker b)");
  REQUIRE(works_in_program_order(g.graph));
  const StepBlocks blocks = blocks_of(g.graph, std::vector{g.task.at("x")});
  CHECK(is_whole(blocks, 1));
  CHECK(blocks.blocks.size() == 3);  // up to x, from x on, and the one behind the last
  CHECK(blocks.period(std::vector{9 * unit}) == (2 + 5 + 9 + 1) * unit);
  CHECK(blocks.period(std::vector{0 * unit}) == (2 + 5 + 0 + 1) * unit);
  CHECK(blocks.ends(std::vector{20 * unit}, 2) == std::vector{28 * unit, 56 * unit});
}

TEST_CASE("blocks: with any times of any free tasks the marker ends when the scheduler says, to the picosecond") {
  test::Draw draw(41);
  int settled = 0;
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    TaskGraph graph = test::random_step(draw);
    REQUIRE(flaw_of(graph) == "");
    REQUIRE(works_in_program_order(graph));
    std::vector<std::uint32_t> free;
    for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
      if (draw.whole(0, 3) == 0) free.push_back(t);
    std::shuffle(free.begin(), free.end(), draw.engine());
    const StepBlocks blocks = blocks_of(graph, free);
    REQUIRE(is_whole(blocks, free.size()));
    for (const int factor : {1, 0, 3}) {
      TaskGraph changed = graph;
      for (const std::uint32_t t : free) changed.tasks[t].work *= factor;
      const std::vector<Picoseconds> times = works_of(changed, free);
      REQUIRE(blocks.ends(times, 8) == scheduled_ends(changed, 8));
      const Timeline timeline = schedule(changed);
      const std::vector<Picoseconds> later = scheduled_ends(changed, 24);
      // The scheduler is content while hosts still run ahead, and with a nanosecond.
      if (timeline.period_iterations != 1 || later[23] - later[22] != timeline.period) continue;
      ++settled;
      REQUIRE(blocks.period(times) == timeline.period);
    }
  }
  CHECK(settled > 5000);
}

TEST_CASE("blocks: graphs with queues, slow-downs or longer memories are none, and broken blocks are found") {
  CHECK_FALSE(works_in_program_order(test::graph_of("net fifo\n a net 1").graph));
  CHECK_FALSE(works_in_program_order(test::graph_of("gpu chain\n a gpu 1\n contention 1.5 1.2").graph));
  CHECK_FALSE(works_in_program_order(test::graph_of("gpu chain\n a gpu 1\n a -> a +2").graph));
  const auto g = test::graph_of("gpu chain\n a gpu 1\n b gpu 1\n a -> b\n b -> a +1\n marker b");
  const StepBlocks whole = blocks_of(g.graph, std::vector{g.task.at("a")});
  REQUIRE(is_whole(whole, 1));
  CHECK_FALSE(is_whole(whole, 2));
  StepBlocks broken = whole;
  broken.terms.back().slot = broken.slots;
  CHECK_FALSE(is_whole(broken, 1));
  broken = whole;
  broken.rows.back().first_term += 1;
  CHECK_FALSE(is_whole(broken, 1));
  broken = whole;
  broken.order[0] = 1;
  CHECK_FALSE(is_whole(broken, 1));
  CHECK_FALSE(is_whole(StepBlocks{}, 0));
}

}  // namespace stepcast
