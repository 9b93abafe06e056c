#include <stepcast/schedule.hpp>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/howard_cycle_ratio.hpp>

#include <algorithm>
#include <map>

namespace stepcast {
namespace {

struct EdgeWeights {
  double duration = 0;
  double lag = 0;
};
using PeriodicGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS,
                                            boost::property<boost::vertex_index_t, int>, EdgeWeights>;

}  // namespace

Seconds maximum_cycle_ratio(const TaskGraph& graph, const Timeline& timeline) {
  const std::size_t n = graph.tasks.size();
  PeriodicGraph periodic(n);
  // The iteration looked at; the one after it shows which of its transfers overtook earlier ones.
  const std::uint32_t last = timeline.iterations - 1;
  const std::uint32_t here = last >= 2 ? last - 1 : last;
  const auto duration = [&](std::uint32_t t) {
    const std::size_t i = std::size_t{here} * n + t;
    return static_cast<double>(timeline.end[i] - timeline.start[i]);
  };
  const auto connect = [&](std::uint32_t from, std::uint32_t to, double lag) {
    boost::add_edge(from, to, EdgeWeights{duration(from), lag}, periodic);
  };
  for (std::uint32_t t = 0; t < n; ++t)
    for (const Arc& a : graph.successors(t)) connect(t, a.task, a.lag);

  // The order in which each queue served the tasks of this iteration: who came just before each of them? A task of a
  // later iteration may have (lag -1); every cycle still has a positive sum of lags.
  std::vector<std::vector<std::pair<Picoseconds, std::uint32_t>>> served(graph.resources.size());
  const std::uint32_t first = here >= 3 ? here - 3 : 0;
  for (std::uint32_t i = first; i <= last; ++i)
    for (std::uint32_t t = 0; t < n; ++t)
      if (graph.resources[graph.tasks[t].resource].discipline != Discipline::parallel)
        served[graph.tasks[t].resource].emplace_back(timeline.start[std::size_t{i} * n + t],
                                                     i * static_cast<std::uint32_t>(n) + t);
  for (auto& order : served) {
    // Of tasks that start together all but the last take no time; those come first.
    std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      if (a.first != b.first) return a.first < b.first;
      const Picoseconds ea = timeline.end[a.second], eb = timeline.end[b.second];
      return ea != eb ? ea < eb : a.second < b.second;
    });
    for (std::size_t k = 1; k < order.size(); ++k) {
      const auto iteration = static_cast<double>(order[k].second / n);
      const auto before = static_cast<double>(order[k - 1].second / n);
      if (iteration != here) continue;
      connect(static_cast<std::uint32_t>(order[k - 1].second % n), static_cast<std::uint32_t>(order[k].second % n),
              iteration - before);
    }
  }
  const double ratio =
      boost::maximum_cycle_ratio(periodic, boost::get(boost::vertex_index, periodic),
                                 boost::get(&EdgeWeights::duration, periodic), boost::get(&EdgeWeights::lag, periodic));
  return Seconds(ratio * 1e-12);
}

}  // namespace stepcast
