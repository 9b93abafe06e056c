#pragma once
// Random task graphs in program order, as recorded steps have them.
#include <stepcast/schedule/task_graph.hpp>

#include "helpers/graph_text.hpp"
#include "helpers/random_input.hpp"

#include <cstdint>
#include <vector>

namespace stepcast::test {

/// Threads and streams that issue work to one another and wait for it, within the step and across it. Times are
/// multiples of 10 ns: the scheduler takes two steps for equal that differ by 1 ns.
inline TaskGraph random_step(Draw& draw) {
  TaskGraphBuilder builder;
  const int rows = draw.whole(1, 5), tasks = draw.whole(rows, 40);
  for (int r = 0; r < rows; ++r) {
    const ResourceClass kinds[] = {ResourceClass::host, ResourceClass::compute, ResourceClass::communication};
    builder.add_resource({"row", r == 0 ? ResourceClass::host : kinds[draw.whole(0, 2)]});
  }
  constexpr std::uint32_t none = 0xffffffffu;
  std::vector<std::uint32_t> first(static_cast<std::size_t>(rows), none), last(first);
  for (int t = 0; t < tasks; ++t) {
    const auto row = static_cast<std::uint32_t>(draw.whole(0, rows - 1));
    const std::uint32_t task =
        builder.add_task({.work = draw.whole(0, 3) == 0 ? 0 : draw.whole(1, 50) * 10 * unit, .resource = row});
    if (last[row] == none) first[row] = task;
    else builder.add_arc(last[row], task);
    last[row] = task;
    for (int more = draw.whole(0, 2); more > 0 && task > 0; --more)
      builder.add_arc(static_cast<std::uint32_t>(draw.whole(0, static_cast<int>(task) - 1)), task);
  }
  for (std::size_t r = 0; r < first.size(); ++r)
    if (first[r] != none) builder.add_arc(last[r], first[r], 1);
  for (int more = draw.whole(0, 3); more > 0; --more)
    builder.add_arc(static_cast<std::uint32_t>(draw.whole(0, tasks - 1)),
                    static_cast<std::uint32_t>(draw.whole(0, tasks - 1)), 1);
  builder.graph().marker = static_cast<std::uint32_t>(draw.whole(0, tasks - 1));
  return builder.build();
}

}  // namespace stepcast::test
