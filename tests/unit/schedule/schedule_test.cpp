#include "helpers/graph_text.hpp"

#include <stepcast/schedule/critical_cycle.hpp>
#include <stepcast/schedule/in_order_period.hpp>
#include <stepcast/schedule/schedule.hpp>
#include <stepcast/schedule/steady_period.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace stepcast;
using test::graph_of;
using test::unit;

namespace {

// "a 0-2, b 2-5": the tasks of one iteration in units, in the order in which they are named.
std::string shown(const test::TextGraph& g, const Timeline& timeline, std::uint32_t iteration = 0) {
  std::vector<std::string> names(g.task.size());
  for (const auto& [name, number] : g.task) names[number] = name;
  std::string out;
  for (std::uint32_t t = 0; t < names.size(); ++t) {
    const std::size_t i = std::size_t{iteration} * timeline.tasks + t;
    out += (out.empty() ? "" : ", ") + names[t] + " " + std::to_string(timeline.start[i] / unit) + "-" +
           std::to_string(timeline.end[i] / unit);
  }
  return out;
}

std::string scheduled(const std::string& text) {
  const auto g = graph_of(text);
  REQUIRE(flaw_of(g.graph) == "");
  return shown(g, schedule(g.graph));
}

}  // namespace

TEST_CASE("a task starts when its last predecessor ended") {
  CHECK(scheduled(R"(
    gpu chain
    a gpu 2
    b gpu 3
    c gpu 1
    a -> c
    b -> c)") == "a 0-2, b 0-3, c 3-4");
}

TEST_CASE("a fifo channel serves by ready time, ties by priority") {
  CHECK(scheduled(R"(
    gpu chain
    net fifo
    a gpu 1
    b gpu 1
    x net 5 priority=2
    y net 1 priority=1
    z net 1 priority=0
    a -> b
    a -> x
    b -> y
    b -> z)") == "a 0-1, b 1-2, x 1-6, y 7-8, z 6-7");
}

TEST_CASE("an in-order channel lets its head block the rest") {
  CHECK(scheduled(R"(
    gpu chain
    net in_order
    a gpu 1
    b gpu 3
    x net 1 priority=0
    y net 1 priority=1
    a -> b
    b -> x
    a -> y)") == "a 0-1, b 1-4, x 4-5, y 5-6");
}

TEST_CASE("a priority channel chooses the most urgent and never pre-empts") {
  CHECK(scheduled(R"(
    gpu chain
    net priority
    a gpu 1
    b gpu 1
    x net 4 priority=9
    y net 1 priority=5
    z net 1 priority=1
    a -> b
    a -> x
    a -> y
    b -> z)") == "a 0-1, b 1-2, x 3-7, y 1-2, z 2-3");
}

TEST_CASE("a credit lets transfers be issued ahead, in order of issue") {
  // Credit 2 with unit transfers: two of the late tensor are issued before the urgent one exists, and keep their turn.
  CHECK(scheduled(R"(
    gpu chain
    net priority credit=2
    a gpu 1
    b gpu 0.5
    x1 net 2 priority=9 bytes=1
    x2 net 2 priority=9 bytes=1
    x3 net 2 priority=9 bytes=1
    y net 2 priority=1 bytes=1
    a -> b
    a -> x1
    a -> x2
    a -> x3
    b -> y)") == "a 0-1, b 1-1, x1 1-3, x2 3-5, x3 7-9, y 5-7");
}

TEST_CASE("contention: rates change only when something starts or ends") {
  // The transfer runs at half speed under compute: by 4 it has done 2 of 3 units, then 1 more at full speed.
  CHECK(scheduled(R"(
    gpu chain
    net fifo
    a gpu 0
    b gpu 4
    x net 3
    a -> b
    a -> x
    contention 2 1)") == "a 0-0, b 0-4, x 0-5");
  // Both ways: compute at 2/3 until the transfer ends at 6 with 4 of its 4 units done, the transfer at 1/2.
  CHECK(scheduled(R"(
    gpu chain
    net fifo
    a gpu 0
    b gpu 6
    x net 3
    a -> b
    a -> x
    contention 2 1.5)") == "a 0-0, b 0-8, x 0-6");
}

TEST_CASE("the steady state of a cross-iteration graph is its maximum cycle ratio") {
  const auto g = graph_of(R"(
    gpu chain
    net fifo
    f gpu 3
    b gpu 4
    x net 9
    f -> b
    b -> f +1
    b -> x
    x -> f +2
    marker b)");
  const Timeline timeline = schedule(g.graph, {.least_iterations = 6});
  CHECK(timeline.steady);
  // Cycles: compute alone 7; f, b, x over two iterations (3 + 4 + 9) / 2 = 8; the channel alone 9.
  CHECK(timeline.period == 9 * unit);
  CHECK(critical_cycle_of(g.graph, timeline).period.value() == doctest::Approx(9e-9));
}

TEST_CASE("a host that runs ahead does not hide the device's period") {
  const auto g = graph_of(R"(
    host chain
    gpu chain
    h host 2
    d gpu 3
    h -> d
    h -> h +1
    d -> d +1
    d -> h +2)");
  const Timeline timeline = schedule(g.graph);
  CHECK(timeline.steady);
  CHECK(timeline.period == 3 * unit);
}

TEST_CASE("flaws of a graph are named") {
  auto g = graph_of(R"(
    gpu chain
    a gpu 1
    b gpu 1
    a -> b
    b -> a)");
  CHECK(flaw_of(g.graph).find("cycle") != std::string::npos);
  g = graph_of("gpu chain\n a gpu 1");
  g.graph.tasks[0].work = -1;
  CHECK(flaw_of(g.graph).find("negative") != std::string::npos);
}

namespace {

// A random training-like graph: a compute chain over the iteration and transfers hanging off it, for which somebody
// waits at most `most_lag` iterations later.
TaskGraph random_graph(std::mt19937& random, bool contention, int most_lag = 1) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  TaskGraphBuilder builder;
  const Discipline disciplines[] = {Discipline::fifo, Discipline::in_order, Discipline::priority};
  const auto compute = builder.add_resource({"gpu", ResourceClass::compute, Discipline::parallel, 0});
  std::vector<std::uint32_t> channels;
  for (int c = draw(1, 3); c > 0; --c)
    channels.push_back(builder.add_resource(
        {"c", ResourceClass::communication, disciplines[draw(0, 2)], draw(0, 1) ? draw(1, 8) : 0}));
  const int chain = draw(2, 6);
  for (int i = 0; i < chain; ++i) {
    builder.add_task({draw(0, 9) * unit, compute, 0, 0, TaskKind::forward, 0});
    if (i > 0) builder.add_arc(i - 1, i);
  }
  builder.add_arc(chain - 1, 0, 1);
  for (int x = draw(1, 8); x > 0; --x) {
    const int source = draw(0, chain - 1);
    const auto t = builder.add_task({draw(0, 9) * unit, channels[draw(0, static_cast<int>(channels.size()) - 1)],
                                     draw(0, 5), 0, TaskKind::transfer, draw(1, 4)});
    builder.add_arc(source, t);
    // Somebody waits for it: later in the same iteration, or in the next one.
    const int target = draw(0, chain - 1);
    const int lag = target > source ? draw(0, 1) : 1;
    builder.add_arc(t, target, most_lag > 1 && lag > 0 ? draw(1, most_lag) : lag);
  }
  TaskGraph graph = builder.build();
  graph.marker = static_cast<std::uint32_t>(chain - 1);
  if (contention)
    for (Task& t : graph.tasks)
      t.slow_down = graph.resources[t.resource].kind == ResourceClass::communication ? 1.25 : 1.5;
  return graph;
}

}  // namespace

TEST_CASE("periods without a clock are those of the schedule, for every discipline, credit and lag that they cover") {
  std::mt19937 random(23);
  SteadyPeriod period;  // its buffers see one graph after the other
  InOrderPeriod in_order;
  int covered = 0, served_in_order = 0;
  for (int round = 0; round < 12000; ++round) {
    const TaskGraph graph = random_graph(random, false, 1 + round % 4);
    if (!SteadyPeriod::covers(graph)) continue;
    ++covered;
    CAPTURE(round);
    const Picoseconds scheduled = schedule(graph).period;
    REQUIRE(period(graph) == scheduled);
    if (!in_order.prepare(graph)) continue;
    const std::optional<Picoseconds> answer = in_order(graph);
    if (!answer) continue;
    ++served_in_order;
    REQUIRE(*answer == scheduled);
  }
  CHECK(covered > 6000);
  CHECK(served_in_order > 1000);
}

TEST_CASE("tightness: a task starts exactly when its last predecessor ended and its channel serves it") {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const TaskGraph graph = random_graph(random, round % 4 == 0);
    REQUIRE(flaw_of(graph) == "");
    const Timeline timeline = schedule(graph, {.most_iterations = 12, .least_iterations = 5});
    const std::uint32_t n = timeline.tasks;
    std::vector<Picoseconds> ready(std::size_t{timeline.iterations} * n, 0);
    for (std::uint32_t i = 0; i < timeline.iterations; ++i)
      for (std::uint32_t t = 0; t < n; ++t)
        for (const Arc& a : graph.successors(t))
          if (i + a.lag < timeline.iterations) {
            Picoseconds& r = ready[std::size_t{i + a.lag} * n + a.task];
            r = std::max(r, timeline.end[std::size_t{i} * n + t]);
          }
    for (std::uint32_t r = 0; r < graph.resources.size(); ++r) {
      std::vector<std::size_t> served;
      for (std::size_t k = 0; k < ready.size(); ++k)
        if (graph.tasks[k % n].resource == r) served.push_back(k);
      if (graph.resources[r].discipline == Discipline::parallel) {
        for (const std::size_t k : served) REQUIRE(timeline.start[k] == ready[k]);
        continue;
      }
      std::sort(served.begin(), served.end(), [&](std::size_t a, std::size_t b) {
        return std::pair(timeline.start[a], timeline.end[a]) < std::pair(timeline.start[b], timeline.end[b]);
      });
      for (std::size_t k = 0; k < served.size(); ++k) {
        REQUIRE(timeline.start[served[k]] >= ready[served[k]]);
        // Tasks of unfinished later iterations may hold the channel too: only look where all is known.
        const Picoseconds free = k == 0 ? 0 : timeline.end[served[k - 1]];
        REQUIRE(timeline.start[served[k]] >= free);
        if (graph.resources[r].discipline == Discipline::fifo && served[k] / n + 2 < timeline.iterations)
          REQUIRE(timeline.start[served[k]] == std::max(free, ready[served[k]]));
      }
    }
  }
}

TEST_CASE("what waits only for two iterations before may start at once in the first two") {
  const auto g = graph_of(R"(
    gpu chain
    net fifo
    a gpu 4
    x net 1
    a -> a +1
    a -> x +2
    x -> a +1
    marker a)");
  REQUIRE(flaw_of(g.graph) == "");
  const Timeline timeline = schedule(g.graph, {.least_iterations = 4});
  CHECK(timeline.steady);
  CHECK(timeline.period == 4 * unit);
  CHECK(shown(g, timeline, 0) == "a 0-4, x 0-1");
  CHECK(shown(g, timeline, 1) == "a 4-8, x 1-2");
  CHECK(shown(g, timeline, 2) == "a 8-12, x 4-5");
}

TEST_CASE("steady state equals the maximum cycle ratio on random graphs") {
  std::mt19937 random(11);
  int compared = 0;
  for (int round = 0; round < 1500; ++round) {
    const TaskGraph graph = random_graph(random, false);
    const Timeline timeline = schedule(graph, {.most_iterations = 40, .least_iterations = 6});
    if (!timeline.steady || timeline.period_iterations != 1) continue;
    ++compared;
    const Seconds ratio = critical_cycle_of(graph, timeline).period;
    CHECK(ratio.value() == doctest::Approx(timeline.iteration_time().value()).epsilon(1e-9));
  }
  CHECK(compared > 1000);
}

TEST_CASE("the same graph gives the same bytes") {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const TaskGraph graph = random_graph(random, round % 2 == 0);
    const Timeline a = schedule(graph), b = schedule(graph);
    CHECK(a.start == b.start);
    CHECK(a.end == b.end);
    CHECK(a.period == b.period);
  }
}

TEST_CASE("the critical cycle names the tasks that set the pace, and what it says of a step is the period") {
  // Forward and backward hide nothing of a transfer of 9 that the next forward pass waits for: f, b, t, 2 + 3 + 9.
  const test::TextGraph text = graph_of(R"(
  gpu chain
  net fifo
  f gpu 2
  b gpu 3
  t net 9
  s net 1
  f -> b
  b -> t
  b -> s
  t -> f +1
  b -> f +1
  marker b
)");
  const Timeline timeline = schedule(text.graph);
  const CriticalCycle cycle = critical_cycle_of(text.graph, timeline);
  CHECK(cycle.period == timeline.iteration_time());
  CHECK(cycle.steps() == 1);
  CHECK(std::set<std::uint32_t>(cycle.tasks.begin(), cycle.tasks.end()) ==
        std::set<std::uint32_t>{text.task.at("f"), text.task.at("b"), text.task.at("t")});
}
