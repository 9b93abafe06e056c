// Eliminations of edges, ends, nodes and branches, with the record of choices behind each point.
#include <stepcast/search/frontier_graph.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace stepcast {
namespace {

// Configurations that a branch may have before an operator is fixed instead.
constexpr std::size_t most_pairs = 4096;

double least_time_of(const Frontier& frontier) { return frontier.back().time; }

bool usable(const std::vector<CostPoint>& points) {
  return std::all_of(points.begin(), points.end(),
                     [](const CostPoint& p) { return std::isfinite(p.memory) && std::isfinite(p.time); });
}

[[noreturn]] void refuse(const std::string& where, std::string expected, std::string found) {
  throw InputError(where, std::move(expected), std::move(found));
}

}  // namespace

void check(const OperatorGraph& graph) {
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    const std::string where = "operator " + std::to_string(i);
    const auto& configurations = graph.operators[i].configurations;
    if (configurations.empty()) refuse(where, "at least one configuration", "none");
    if (!usable(configurations)) refuse(where, "finite costs", "a configuration whose cost is not");
  }
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    const std::string where = "edge " + std::to_string(e);
    const OperatorGraph::Edge& edge = graph.edges[e];
    if (edge.from >= graph.operators.size() || edge.to >= graph.operators.size() || edge.from == edge.to)
      refuse(where, "two different operators below " + std::to_string(graph.operators.size()),
             std::to_string(edge.from) + " and " + std::to_string(edge.to));
    const std::size_t pairs =
        graph.operators[edge.from].configurations.size() * graph.operators[edge.to].configurations.size();
    if (edge.change.size() != pairs)
      refuse(where, std::to_string(pairs) + " costs, one for each pair of configurations",
             std::to_string(edge.change.size()));
    if (!usable(edge.change)) refuse(where, "finite costs", "a change whose cost is not");
  }
}

EliminationGraph::EliminationGraph(const OperatorGraph& graph, const FrontierOptions& options)
    : options_(options), original_(graph.operators.size()) {
  check(graph);
  for (std::uint32_t op = 0; op < graph.operators.size(); ++op) {
    nodes_.emplace_back();
    const auto& configurations = graph.operators[op].configurations;
    for (std::uint32_t c = 0; c < configurations.size(); ++c) {
      nodes_.back().push_back(
          {{configurations[c].memory, configurations[c].time, static_cast<std::uint32_t>(choices_.size())}});
      choices_.push_back({op, c, true});
    }
  }
  for (const OperatorGraph::Edge& e : graph.edges) {
    Edge edge{e.from, e.to, {}};
    for (const CostPoint& p : e.change) edge.change.push_back({{p.memory, p.time, 0}});
    add(std::move(edge));
  }
}

std::vector<std::uint32_t> EliminationGraph::operators() const {
  std::vector<std::uint32_t> left;
  for (std::uint32_t op = 0; op < nodes_.size(); ++op)
    if (!nodes_[op].empty()) left.push_back(op);
  return left;
}

std::vector<std::uint32_t> EliminationGraph::neighbours(std::uint32_t op) const {
  std::vector<std::uint32_t> found;
  for (const Edge& e : edges_)
    if (e.from == op || e.to == op) found.push_back(e.from == op ? e.to : e.from);
  std::sort(found.begin(), found.end());
  return found;
}

Frontier EliminationGraph::thinned(Frontier frontier) {
  const std::size_t most = options_.most_points, n = frontier.size();
  if (most == 0 || n <= most) return frontier;
  exact_ = false;
  if (most == 1) return {frontier.back()};
  // Evenly, with both ends: least memory and least time stay exact, since sums of ends are ends of sums.
  Frontier kept;
  for (std::size_t i = 0; i < most; ++i) kept.push_back(frontier[i * (n - 1) / (most - 1)]);
  return kept;
}

Frontier EliminationGraph::both(const Frontier& a, const Frontier& b) {
  Frontier sum = thinned(product(a, b));
  for (CostPoint& p : sum) {
    const std::uint32_t left = a[p.trace / b.size()].trace, right = b[p.trace % b.size()].trace;
    if (left == 0 || right == 0) {
      p.trace = left + right;
    } else {
      p.trace = static_cast<std::uint32_t>(choices_.size());
      choices_.push_back({left, right});
    }
  }
  return sum;
}

Frontier EliminationGraph::either(const Frontier& a, const Frontier& b) { return thinned(united(a, b)); }

EliminationGraph::Edge EliminationGraph::taken(std::uint32_t from, std::uint32_t to) {
  const auto found = std::find_if(edges_.begin(), edges_.end(), [&](const Edge& e) {
    return (e.from == from && e.to == to) || (e.from == to && e.to == from);
  });
  assert(found != edges_.end());
  Edge edge = std::move(*found);
  edges_.erase(found);
  if (edge.from == from) return edge;
  Edge turned{from, to, std::vector<Frontier>(edge.change.size())};
  const std::size_t rows = nodes_[from].size(), columns = nodes_[to].size();
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) turned.change[i * columns + j] = std::move(edge.change[j * rows + i]);
  return turned;
}

void EliminationGraph::add(Edge edge) {
  const auto twin = [&](const Edge& e) {
    return (e.from == edge.from && e.to == edge.to) || (e.from == edge.to && e.to == edge.from);
  };
  if (std::any_of(edges_.begin(), edges_.end(), twin)) {  // edge elimination
    const Edge other = taken(edge.from, edge.to);
    for (std::size_t i = 0; i < edge.change.size(); ++i) edge.change[i] = both(other.change[i], edge.change[i]);
  }
  edges_.push_back(std::move(edge));
}

void EliminationGraph::eliminate_end(std::uint32_t op) {
  const std::vector<std::uint32_t> around = neighbours(op);
  assert(around.size() == 1);
  const Edge edge = taken(around.front(), op);
  std::vector<Frontier>& next = nodes_[around.front()];
  const std::vector<Frontier>& current = nodes_[op];
  for (std::size_t s = 0; s < next.size(); ++s) {
    Frontier best;
    for (std::size_t t = 0; t < current.size(); ++t)
      best = either(best, both(edge.change[s * current.size() + t], current[t]));
    next[s] = both(next[s], best);
  }
  nodes_[op].clear();
}

void EliminationGraph::eliminate_node(std::uint32_t op) {
  const std::vector<std::uint32_t> around = neighbours(op);
  assert(around.size() == 2);
  Edge in = taken(around[0], op);
  const Edge out = taken(op, around[1]);
  const std::size_t middle = nodes_[op].size(), columns = nodes_[around[1]].size();
  Edge bridge{around[0], around[1], {}};
  for (std::size_t i = 0; i < nodes_[around[0]].size(); ++i) {
    for (std::size_t j = 0; j < middle; ++j) {
      Frontier& arrived = in.change[i * middle + j];
      arrived = both(arrived, nodes_[op][j]);
    }
    for (std::size_t k = 0; k < columns; ++k) {
      Frontier best;
      for (std::size_t j = 0; j < middle; ++j)
        best = either(best, both(in.change[i * middle + j], out.change[j * columns + k]));
      bridge.change.push_back(std::move(best));
    }
  }
  nodes_[op].clear();
  add(std::move(bridge));
}

void EliminationGraph::merge_branch(std::uint32_t op, std::uint32_t into) {
  const Edge between = taken(into, op);
  const std::vector<Frontier> first = std::move(nodes_[into]), second = std::move(nodes_[op]);
  nodes_[into] = first, nodes_[op] = second;  // sizes are needed to turn edges
  std::vector<std::pair<Edge, bool>> around;  // edge from one of the two; true: from `op`
  for (const bool of_op : {false, true})
    for (const std::uint32_t n : neighbours(of_op ? op : into)) around.emplace_back(taken(of_op ? op : into, n), of_op);
  std::vector<Frontier> pairs;
  for (std::size_t i = 0; i < first.size(); ++i)
    for (std::size_t j = 0; j < second.size(); ++j)
      pairs.push_back(both(both(first[i], between.change[i * second.size() + j]), second[j]));
  nodes_[into] = std::move(pairs);
  nodes_[op].clear();
  for (auto& [edge, of_op] : around) {
    const std::size_t columns = nodes_[edge.to].size();
    Edge wide{into, edge.to, {}};
    for (std::size_t i = 0; i < first.size(); ++i)
      for (std::size_t j = 0; j < second.size(); ++j)
        for (std::size_t k = 0; k < columns; ++k) wide.change.push_back(edge.change[(of_op ? j : i) * columns + k]);
    add(std::move(wide));
  }
}

void EliminationGraph::fix(std::uint32_t op) {
  std::vector<Edge> around;
  for (const std::uint32_t n : neighbours(op)) around.push_back(taken(op, n));
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < nodes_[op].size(); ++i) {
    double time = least_time_of(nodes_[op][i]);
    for (const Edge& e : around) {
      const std::size_t columns = nodes_[e.to].size();
      double change = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < columns; ++k)
        change = std::min(change, least_time_of(e.change[i * columns + k]) + least_time_of(nodes_[e.to][k]));
      time += change;
    }
    if (time < least) least = time, best = i;
  }
  if (nodes_[op].size() > 1) exact_ = false;
  // With one configuration, its changes are costs of the neighbours' own.
  for (const Edge& e : around)
    for (std::size_t k = 0; k < nodes_[e.to].size(); ++k)
      nodes_[e.to][k] = both(nodes_[e.to][k], e.change[best * nodes_[e.to].size() + k]);
  nodes_[op] = {Frontier(nodes_[op][best])};
}

void EliminationGraph::merge_smallest_branch() {
  const auto pairs = [&](const Edge& e) { return nodes_[e.from].size() * nodes_[e.to].size(); };
  const auto smallest = std::min_element(edges_.begin(), edges_.end(), [&](const Edge& a, const Edge& b) {
    return std::make_pair(pairs(a), std::minmax(a.from, a.to)) < std::make_pair(pairs(b), std::minmax(b.from, b.to));
  });
  if (pairs(*smallest) <= most_pairs) {
    const auto [low, high] = std::minmax(smallest->from, smallest->to);
    merge_branch(high, low);
    return;
  }
  std::uint32_t blocking = 0;
  std::size_t most = 0;
  for (const std::uint32_t op : operators())
    if (const std::size_t degree = neighbours(op).size(); degree > most) most = degree, blocking = op;
  fix(blocking);
}

void EliminationGraph::eliminate_all() {
  while (!edges_.empty()) {
    bool found = false;
    for (const std::size_t degree : {1u, 2u}) {
      for (const std::uint32_t op : operators()) {
        if (neighbours(op).size() != degree) continue;
        degree == 1 ? eliminate_end(op) : eliminate_node(op);
        found = true;
        break;
      }
      if (found) break;
    }
    if (!found) merge_smallest_branch();
  }
}

AssignmentFrontier EliminationGraph::result() {
  assert(edges_.empty());
  Frontier all{{0, 0, 0}};
  for (const std::uint32_t op : operators()) {  // parts of the graph that nothing connects
    Frontier best;
    for (const Frontier& configuration : nodes_[op]) best = either(best, configuration);
    all = both(all, best);
  }
  AssignmentFrontier result{{}, exact_};
  std::vector<std::uint32_t> open;
  for (const CostPoint& p : all) {
    Assignment assignment{p.memory, p.time, std::vector<std::uint32_t>(original_, 0)};
    open.assign(1, p.trace);
    while (!open.empty()) {
      const Choice choice = choices_[open.back()];
      open.pop_back();
      if (choice.leaf) {
        assignment.configuration[choice.left] = choice.right;
      } else if (choice.left != 0) {
        open.push_back(choice.left);
        open.push_back(choice.right);
      }
    }
    result.points.push_back(std::move(assignment));
  }
  return result;
}

}  // namespace stepcast
