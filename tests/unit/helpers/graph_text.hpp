#pragma once
// Task graphs as text, for tests. One statement a line:
//   net fifo | net priority credit=4 | gpu chain      a resource and its discipline (chain = program order, as arcs)
//   a gpu 2                                            task a on gpu with 2 units of work (1 unit = 1 ns)
//   b net 3 priority=1 bytes=3
//   a -> b            b -> a +1                        arcs; +1 = of the next iteration
//   marker b          contention 1.5 1.2               marker; slow-down of communication, of compute
// A resource named host, gpu/cpu or timer has that class; every other one is communication.
#include <stepcast/schedule/task_graph.hpp>

#include <cmath>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

namespace stepcast::test {

inline constexpr Picoseconds unit = 1000;

struct TextGraph {
  TaskGraph graph;
  std::map<std::string, std::uint32_t> task;
};

inline TextGraph graph_of(const std::string& text) {
  TaskGraphBuilder builder;
  std::map<std::string, std::uint32_t> task, resource;
  std::string marker;
  double communication = 1, compute = 1;
  const std::map<std::string, Discipline> disciplines{{"chain", Discipline::parallel},
                                                      {"fifo", Discipline::fifo},
                                                      {"in_order", Discipline::in_order},
                                                      {"priority", Discipline::priority}};
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string a, b, c;
    if (!(words >> a)) continue;
    words >> b >> c;
    if (a == "marker") {
      marker = b;
    } else if (a == "contention") {
      communication = std::stod(b), compute = std::stod(c);
    } else if (b == "->") {
      std::string lag;
      words >> lag;
      builder.add_arc(task.at(a), task.at(c), lag.empty() ? 0 : static_cast<std::uint32_t>(std::stoul(lag.substr(1))));
    } else if (const auto d = disciplines.find(b); d != disciplines.end()) {
      Resource r{a, ResourceClass::communication, d->second, 0};
      if (a == "host") r.kind = ResourceClass::host;
      if (a == "gpu" || a == "cpu") r.kind = ResourceClass::compute;
      if (a == "timer") r.kind = ResourceClass::timer;
      if (c.starts_with("credit=")) r.credit = std::stoll(c.substr(7));
      resource[a] = builder.add_resource(r);
    } else {
      Task t;
      t.resource = resource.at(b);
      t.work = std::llround(std::stod(c) * static_cast<double>(unit));
      t.index = static_cast<std::uint32_t>(task.size());
      for (std::string option; words >> option;) {
        if (option.starts_with("priority=")) t.priority = std::stoi(option.substr(9));
        if (option.starts_with("bytes=")) t.bytes = std::stoll(option.substr(6));
      }
      task[a] = builder.add_task(t);
    }
  }
  TextGraph out{builder.build(), task};
  out.graph.marker = marker.empty() ? static_cast<std::uint32_t>(out.graph.tasks.size() - 1) : task.at(marker);
  for (Task& t : out.graph.tasks) {
    const ResourceClass kind = out.graph.resources[t.resource].kind;
    t.slow_down = kind == ResourceClass::communication ? communication : kind == ResourceClass::compute ? compute : 1;
  }
  return out;
}

}  // namespace stepcast::test
