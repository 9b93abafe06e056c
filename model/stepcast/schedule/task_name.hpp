#pragma once
// Task names: what a task of a lowered plan does, and to which layer or tensors, for timelines and critical paths.
//
// Example: "all_reduce bucket 3", "forward layer4.1.conv2".
#include <stepcast/plan/comm_plan.hpp>
#include <stepcast/schedule/task_graph.hpp>

#include <cstdint>
#include <string>

namespace [[gnu::visibility("default")]] stepcast {

/// The name of task number `task` of the graph that `plan` was lowered to.
[[nodiscard]] std::string task_name(const Profile&, const CommPlan& plan, const TaskGraph&, std::uint32_t task);

}  // namespace stepcast
