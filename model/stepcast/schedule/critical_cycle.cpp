// Howard's algorithm on the realised graph: an independent check of the period.
#include <stepcast/schedule/critical_cycle.hpp>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/howard_cycle_ratio.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace stepcast {
namespace {

struct EdgeWeights {
  double duration = 0;
  double lag = 0;
};
using PeriodicGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS,
                                            boost::property<boost::vertex_index_t, int>, EdgeWeights>;

struct Cycle {
  double ratio = 0;
  std::vector<PeriodicGraph::edge_descriptor> edges;
};

// A cycle whose ratio is larger than `ratio`, if there is one: Bellman and Ford's longest paths under the
// weights duration - ratio * lag, which a cycle of positive weight keeps from settling.
std::optional<Cycle> cycle_above(const PeriodicGraph& graph, double ratio) {
  constexpr double least_gain = 1;  // picosecond
  const std::size_t n = boost::num_vertices(graph);
  std::vector<double> longest(n, 0);
  std::vector<std::optional<PeriodicGraph::edge_descriptor>> into(n);
  std::size_t changed = n;
  for (std::size_t round = 0; round <= n && changed < n + 1; ++round) {
    changed = n + 1;
    for (auto [e, end] = boost::edges(graph); e != end; ++e) {
      const std::size_t from = boost::source(*e, graph), to = boost::target(*e, graph);
      const double through = longest[from] + graph[*e].duration - ratio * graph[*e].lag;
      if (through > longest[to] + least_gain) longest[to] = through, into[to] = *e, changed = to;
    }
  }
  if (changed == n + 1) return {};
  std::size_t at = changed;
  for (std::size_t i = 0; i < n; ++i) at = boost::source(*into[at], graph);  // surely on the cycle now
  double duration = 0, lag = 0;
  const std::size_t start = at;
  Cycle cycle;
  do {
    cycle.edges.push_back(*into[at]);
    duration += graph[*into[at]].duration;
    lag += graph[*into[at]].lag;
    at = boost::source(*into[at], graph);
  } while (at != start);
  if (!(duration / lag > ratio)) return {};
  cycle.ratio = duration / lag;
  std::reverse(cycle.edges.begin(), cycle.edges.end());
  return cycle;
}

}  // namespace

std::int64_t CriticalCycle::steps() const {
  std::int64_t sum = 0;
  for (const std::int64_t lag : lags) sum += lag;
  return sum;
}

bool has_critical_cycle(const TaskGraph& graph) {
  return std::all_of(graph.arcs.begin(), graph.arcs.end(), [](const Arc& a) { return a.lag <= 2; });
}

CriticalCycle critical_cycle_of(const TaskGraph& graph, const Timeline& timeline) {
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
  Cycle best;
  best.ratio = boost::maximum_cycle_ratio(periodic, boost::get(boost::vertex_index, periodic),
                                          boost::get(&EdgeWeights::duration, periodic),
                                          boost::get(&EdgeWeights::lag, periodic), &best.edges);
  // Howard's iteration can stop short where edges have negative lags: go on while a better cycle exists.
  while (std::optional<Cycle> better = cycle_above(periodic, best.ratio)) best = *std::move(better);
  CriticalCycle out;
  out.period = Seconds(best.ratio * 1e-12);
  for (const PeriodicGraph::edge_descriptor& e : best.edges) {
    out.tasks.push_back(static_cast<std::uint32_t>(boost::source(e, periodic)));
    out.lags.push_back(std::llround(periodic[e].lag));
  }
  return out;
}

}  // namespace stepcast
