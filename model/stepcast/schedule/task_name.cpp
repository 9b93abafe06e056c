// The names of tasks in reports: what a task does, and to which layer or tensors.
#include <stepcast/schedule/task_name.hpp>

#include <string>

namespace stepcast {
namespace {

// " first tensor .. last tensor" of a run; empty for none.
std::string run_name(const Profile& profile, const CommPlan& plan, std::uint32_t first, std::uint32_t count) {
  if (count == 0) return {};
  std::string name = " " + profile.tensors[plan.tensor(first)].name;
  if (count > 1) name += " .. " + profile.tensors[plan.tensor(first + count - 1)].name;
  return name;
}

}  // namespace

std::string task_name(const Profile& profile, const CommPlan& plan, const TaskGraph& graph, std::uint32_t number) {
  const Task& task = graph.tasks[number];
  const auto layer = [&] { return " " + profile.layers[task.index].name; };
  switch (task.kind) {
    case TaskKind::host: {
      // What is issued follows its host tasks (lower.cpp).
      std::uint32_t issued = number;
      while (graph.tasks[issued].kind == TaskKind::host) ++issued;
      return "issue " + task_name(profile, plan, graph, issued);
    }
    case TaskKind::forward:
      return "forward" + layer();
    case TaskKind::backward:
      return "backward" + layer();
    case TaskKind::update:
      return plan.update == UpdatePlace::after_backward ? "update" : "update" + layer();
    case TaskKind::codec: {
      const Codec& c = plan.codecs[task.index];
      return std::string(c.name) + run_name(profile, plan, c.first_tensor, c.tensors);
    }
    case TaskKind::transfer:
    case TaskKind::arrival:
    case TaskKind::timer: {
      const Transfer& t = plan.transfers[task.index];
      const std::string_view name = task.kind == TaskKind::timer ? "timer" : name_of(t.operation);
      return std::string(task.kind == TaskKind::arrival ? "repair of " : "") + std::string(name) +
             run_name(profile, plan, t.first_tensor, t.tensors);
    }
    default:
      return std::string(name_of(task.kind));
  }
}

}  // namespace stepcast
