// Lockstep against the scheduler: the graphs of several ranks as one, in which meetings are arcs.
#include <stepcast/schedule/lockstep.hpp>
#include <stepcast/schedule/schedule.hpp>

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

/// A rank, which free tasks it has, and whom they meet.
struct Rank {
  TaskGraph graph;
  std::vector<std::uint32_t> free, meetings;
  StepBlocks blocks;
};
Rank random_rank(test::Draw& draw) {
  Rank rank{test::random_step(draw), {}, {}, {}};
  for (std::uint32_t t = 0; t < rank.graph.tasks.size(); ++t)
    if (draw.whole(0, 2) == 0) rank.free.push_back(t);
  rank.meetings.assign(rank.free.size(), no_meeting);
  rank.blocks = blocks_of(rank.graph, rank.free);
  return rank;
}

/// Free tasks of the ranks meet, in the order of issue or in any.
void let_meet(std::vector<Rank>& ranks, bool in_order, test::Draw& draw) {
  std::vector<std::vector<std::uint32_t>> order;
  std::size_t fewest = 1000;
  for (const Rank& rank : ranks) {
    order.push_back(rank.blocks.order);
    if (!in_order) std::shuffle(order.back().begin(), order.back().end(), draw.engine());
    fewest = std::min(fewest, order.back().size());
  }
  for (std::uint32_t m = 0; m < fewest; ++m) {
    if (draw.whole(0, 3) == 0) continue;
    for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r].meetings[order[r][m]] = m;
  }
}

/// All ranks as one graph: those that meet wait for what any of them waits for. Its marker ends when all have.
TaskGraph joined(const std::vector<Rank>& ranks) {
  TaskGraphBuilder builder;
  std::vector<std::uint32_t> first, markers;
  std::vector<std::vector<std::uint32_t>> meeting;  // tasks
  for (const Rank& rank : ranks) {
    std::vector<std::uint32_t> rows;
    for (const Resource& resource : rank.graph.resources) rows.push_back(builder.add_resource(resource));
    first.push_back(static_cast<std::uint32_t>(builder.graph().tasks.size()));
    for (Task task : rank.graph.tasks) {
      task.resource = rows[task.resource];
      builder.add_task(task);
    }
    markers.push_back(first.back() + rank.graph.marker);
    for (std::size_t f = 0; f < rank.free.size(); ++f) {
      if (rank.meetings[f] == no_meeting) continue;
      if (meeting.size() <= rank.meetings[f]) meeting.resize(rank.meetings[f] + 1);
      meeting[rank.meetings[f]].push_back(first.back() + rank.free[f]);
    }
  }
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (std::uint32_t t = 0; t < ranks[r].graph.tasks.size(); ++t)
      for (const Arc& arc : ranks[r].graph.successors(t)) {
        const std::uint32_t to = first[r] + arc.task;
        builder.add_arc(first[r] + t, to, arc.lag);
        for (const std::vector<std::uint32_t>& together : meeting)
          if (std::ranges::count(together, to) > 0)
            for (const std::uint32_t other : together)
              if (other != to) builder.add_arc(first[r] + t, other, arc.lag);
      }
  const std::uint32_t row = builder.add_resource({"end", ResourceClass::host});
  const std::uint32_t end = builder.add_task({.work = 0, .resource = row});
  for (const std::uint32_t marker : markers) builder.add_arc(marker, end);
  builder.add_arc(end, end, 1);
  builder.graph().marker = end;
  return builder.build();
}

std::vector<RankInStep> in_step(const std::vector<Rank>& ranks, int factor) {
  std::vector<RankInStep> out;
  for (const Rank& rank : ranks) {
    RankInStep& each = out.emplace_back(RankInStep{&rank.blocks, {}, rank.meetings});
    for (const std::uint32_t t : rank.free) each.times.push_back(rank.graph.tasks[t].work * factor);
  }
  return out;
}

}  // namespace

TEST_CASE("lockstep: who comes late to a collective holds up the other, unless the network does") {
  const std::string step = R"(
    host chain
    net chain
    a host 4
    x net 1
    b host 3
    a -> x
    a -> b
    x -> b
    b -> a +1
    x -> x +1
    marker b)";
  const auto fast = test::graph_of(step);
  auto slow = test::graph_of(step);
  slow.graph.tasks[slow.task.at("a")].work = 9 * unit;
  std::vector<Rank> ranks;
  for (const test::TextGraph* g : {&fast, static_cast<const test::TextGraph*>(&slow)}) {
    const std::vector free{g->task.at("x")};
    ranks.push_back({g->graph, free, {0}, blocks_of(g->graph, free)});
  }
  CHECK(period_in_lockstep(in_step(ranks, 1)) == (9 + 1 + 3) * unit);
  CHECK(period_in_lockstep(in_step(ranks, 5)) == (9 + 5 + 3) * unit);
  for (Rank& rank : ranks) rank.meetings = {no_meeting};
  CHECK(period_in_lockstep(in_step(ranks, 1)) == (9 + 1 + 3) * unit);
}

TEST_CASE("lockstep: steps are those of all ranks in one graph, and who waits crosswise is found") {
  test::Draw draw(97);
  int settled = 0, crosswise = 0;
  for (int round = 0; round < 1500; ++round) {
    CAPTURE(round);
    std::vector<Rank> ranks;
    for (int r = draw.whole(2, 3); r > 0; --r) ranks.push_back(random_rank(draw));
    const bool in_order = draw.whole(0, 2) > 0;
    let_meet(ranks, in_order, draw);
    const bool meets = can_meet(in_step(ranks, 1));
    const TaskGraph graph = joined(ranks);
    if (in_order) REQUIRE(meets);
    if (flaw_of(graph) != "") {
      ++crosswise;
      REQUIRE_FALSE(meets);
    }
    if (!meets) continue;
    for (const int factor : {0, 1, 3}) {
      CAPTURE(factor);
      TaskGraph changed = joined(ranks);
      std::uint32_t first = 0;
      for (const Rank& rank : ranks) {
        for (const std::uint32_t t : rank.free) changed.tasks[first + t].work *= factor;
        first += static_cast<std::uint32_t>(rank.graph.tasks.size());
      }
      const Timeline timeline = schedule(changed, {.most_iterations = 60, .least_iterations = 60});
      const auto step = [&](std::uint32_t i) {
        const std::size_t at = i * timeline.tasks + changed.marker;
        return timeline.end[at] - timeline.end[at - timeline.tasks];
      };
      // A rank that is ahead may be overtaken by a slower one, long after; steps of a cycle over several differ.
      bool equal = true;
      for (std::uint32_t i = 40; i < 60; ++i) equal = equal && step(i) == step(59);
      if (!equal) continue;
      ++settled;
      const Picoseconds apart = period_in_lockstep(in_step(ranks, factor)) - step(59);
      REQUIRE(std::abs(apart) <= 1000);
    }
  }
  CHECK(settled > 2000);
  CHECK(crosswise > 50);
}

}  // namespace stepcast
