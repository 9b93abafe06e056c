// The walk back from the last marker, and what the largest part of it is called.
#include <stepcast/prediction/critical_path.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace stepcast {
namespace {

constexpr std::uint32_t periods_walked = 4;  // hosts run one iteration ahead: two would do for one such lag

}  // namespace

CriticalPath critical_path_of(const TaskGraph& graph, const Timeline& timeline, const CommPlan& plan,
                              const CommunicationCost& cost) {
  CriticalPath path;
  const std::uint32_t last = timeline.iterations - 1, skipped = (periods_walked - 1) * timeline.period_iterations;
  path.window = period_until(last >= skipped + timeline.period_iterations ? last - skipped : last, graph, timeline);
  for (std::uint32_t i = last * timeline.tasks + graph.marker;
       i != Timeline::no_instance && timeline.end[i] > path.window.from; i = timeline.cause[i]) {
    const std::uint32_t t = i % timeline.tasks;
    const Task& task = graph.tasks[t];
    const Interval run{std::max(path.window.from, timeline.start[i]), std::min(path.window.to, timeline.end[i])};
    if (run.from >= run.to) continue;
    const Seconds time = seconds_of(length(run));
    path.tasks.push_back(t);
    if (task.kind == TaskKind::input || task.kind == TaskKind::load) {
      path.input += time;
      continue;
    }
    if (task.kind == TaskKind::late) {
      path.late += time;
      continue;
    }
    if (task.kind == TaskKind::codec) {
      path.codec += time;
      continue;
    }
    switch (graph.resources[task.resource].kind) {
      case ResourceClass::compute:
        path.compute += time;
        break;
      case ResourceClass::host:
        path.host += time;
        break;
      case ResourceClass::timer:
        path.timer += time;
        break;
      case ResourceClass::communication: {
        const Transfer& transfer = plan.transfers[task.index];
        const Seconds start_up = std::min(time, cost.line(transfer.operation).start_up + transfer.overhead);
        path.start_up += start_up;
        path.transfer += time - start_up;
      }
    }
  }
  std::reverse(path.tasks.begin(), path.tasks.end());
  return path;
}

std::string bound_of(const CriticalPath& path, Seconds late) {
  struct Share {
    const char* name;
    Seconds time;
  };
  const Share shares[] = {{"communication bandwidth", path.transfer},
                          {"start-up of messages", path.start_up},
                          {"waiting for input", path.input},
                          {"waiting for a timer", path.timer},
                          {"encoding and decoding", path.codec},
                          {"host issue of kernels", path.host},
                          {"a late start", path.late},
                          {"time-outs of lost packets", late}};
  const Share* largest = std::max_element(std::begin(shares), std::end(shares),
                                          [](const Share& a, const Share& b) { return a.time < b.time; });
  const Seconds iteration = seconds_of(length(path.window)) + late;
  const auto percent = [&](Seconds s) { return std::to_string(std::lround(100 * (s / iteration))) + " %"; };
  if (largest->time < 0.01 * iteration) return "compute";
  const Share compute{"compute", path.compute};
  const auto& [first, second] =
      std::minmax(*largest, compute, [](const Share& a, const Share& b) { return a.time > b.time; });
  return std::string(first.name) + " (" + percent(first.time) + " of the critical path; " + second.name + " " +
         percent(second.time) + ")";
}

}  // namespace stepcast
