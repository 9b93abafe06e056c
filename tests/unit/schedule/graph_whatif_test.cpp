// What-if on task graphs: the primitives and their identities.
#include <stepcast/schedule/graph_whatif.hpp>
#include <stepcast/schedule/schedule.hpp>

#include <doctest/doctest.h>

#include "helpers/graph_text.hpp"

#include <algorithm>
#include <set>
#include <tuple>

using namespace stepcast;
using namespace stepcast::test;

namespace {

/// Everything that the schedule of a graph depends on; arcs as a set, because their order says nothing.
auto content(const TaskGraph& g) {
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> arcs;
  std::vector<std::tuple<Picoseconds, std::uint32_t, std::int32_t, std::uint32_t>> tasks;
  for (std::uint32_t t = 0; t < g.tasks.size(); ++t) {
    tasks.emplace_back(g.tasks[t].work, g.tasks[t].resource, g.tasks[t].priority, g.tasks[t].index);
    for (const Arc& arc : g.successors(t)) arcs.emplace(t, arc.task, arc.lag);
  }
  return std::tuple(tasks, arcs, g.marker, g.barrier);
}

const char* const two_streams = R"(
  gpu chain
  net fifo
  f gpu 2
  b2 gpu 3
  b1 gpu 4
  c2 net 5
  c1 net 6
  u gpu 1
  f -> b2
  b2 -> b1
  b2 -> c2
  b1 -> c1
  c2 -> u
  c1 -> u
  b1 -> u
  u -> f +1
  marker u
)";

std::vector<std::uint32_t> transfers(const TaskGraph& g) {
  return selected_tasks(g, [&](const Task& t) { return g.resources[t.resource].kind == ResourceClass::communication; });
}

}  // namespace

TEST_CASE("graph what-if: scaling by 1 is the identity, and scales nothing else") {
  const TextGraph text = graph_of(two_streams);
  CHECK(content(with_work_scaled(text.graph, transfers(text.graph), 1)) == content(text.graph));
  const TaskGraph slower = with_work_scaled(text.graph, transfers(text.graph), 2);
  CHECK(slower.tasks[text.task.at("c1")].work == 2 * text.graph.tasks[text.task.at("c1")].work);
  CHECK(slower.tasks[text.task.at("b1")].work == text.graph.tasks[text.task.at("b1")].work);
  CHECK(schedule(slower).period > schedule(text.graph).period);
}

TEST_CASE("graph what-if: insert, then remove is the identity, wherever the task goes") {
  const TextGraph text = graph_of(two_streams);
  for (std::uint32_t t = 0; t < text.graph.tasks.size(); ++t) {
    Task task;
    task.work = 7 * unit;
    task.resource = text.graph.tasks[t].resource;
    const TaskGraph longer = with_task_after(text.graph, t, task);
    CHECK(flaw_of(longer).empty());
    CHECK(schedule(longer).period >= schedule(text.graph).period);
    const std::vector<std::uint32_t> inserted{std::uint32_t(text.graph.tasks.size())};
    REQUIRE(removable(longer, inserted));
    CHECK(content(without_tasks(longer, inserted)) == content(text.graph));
  }
}

TEST_CASE("graph what-if: removing a task joins its neighbours and never lengthens a chain") {
  const TextGraph text = graph_of(R"(
    gpu chain
    a gpu 2
    b gpu 3
    c gpu 4
    a -> b
    b -> c
    c -> a +1
    marker c
  )");
  const Picoseconds before = schedule(text.graph).period;
  CHECK(before == 9 * unit);
  for (const std::uint32_t t : {0u, 1u, 2u}) {
    const std::vector<std::uint32_t> gone{t};
    REQUIRE(removable(text.graph, gone));
    const TaskGraph shorter = without_tasks(text.graph, gone);
    CHECK(flaw_of(shorter).empty());
    CHECK(schedule(shorter).period == before - text.graph.tasks[t].work);
  }
}

TEST_CASE("graph what-if: without its transfers a step is its compute; a lag survives the removal") {
  const TextGraph text = graph_of(two_streams);
  const TaskGraph alone = without_tasks(text.graph, transfers(text.graph));
  CHECK(flaw_of(alone).empty());
  CHECK(alone.tasks.size() == 4);
  CHECK(schedule(alone).period == 10 * unit);
  const TextGraph lagged = graph_of(R"(
    gpu chain
    net fifo
    a gpu 2
    c net 9
    a -> c
    c -> a +2
    marker a
  )");
  const std::vector<std::uint32_t> transfer{lagged.task.at("c")};
  const TaskGraph bridged = without_tasks(lagged.graph, transfer);
  REQUIRE(bridged.successors(0).size() == 1);
  CHECK(bridged.successors(0)[0].lag == 2);
}

TEST_CASE("graph what-if: a marker that several tasks precede cannot go") {
  const TextGraph text = graph_of(two_streams);
  const std::vector<std::uint32_t> update{text.task.at("u")};
  CHECK_FALSE(removable(text.graph, update));
}
