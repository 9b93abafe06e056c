#include "oracles/assignments.hpp"

#include <stepcast/search/frontier_graph.hpp>

#include <algorithm>
#include <limits>

namespace stepcast::test {
namespace {

constexpr std::size_t most_entries = std::size_t{1} << 26;

struct Table {
  std::vector<std::uint32_t> over;  // operators, ascending; the last one's configuration changes fastest
  std::vector<double> time;
};

class Tables {
 public:
  explicit Tables(const OperatorGraph& graph) {
    for (std::uint32_t op = 0; op < graph.operators.size(); ++op) {
      extents_.push_back(graph.operators[op].configurations.size());
      Table table{{op}, {}};
      for (const CostPoint& p : graph.operators[op].configurations) table.time.push_back(p.time);
      tables_.push_back(std::move(table));
    }
    for (const OperatorGraph::Edge& e : graph.edges) {
      Table table{{std::min(e.from, e.to), std::max(e.from, e.to)}, {}};
      for (std::size_t i = 0; i < extents_[table.over[0]]; ++i)
        for (std::size_t j = 0; j < extents_[table.over[1]]; ++j)
          table.time.push_back(e.change[e.from < e.to ? i * extents_[e.to] + j : j * extents_[e.to] + i].time);
      tables_.push_back(std::move(table));
    }
  }

  void eliminate(std::uint32_t op) {
    const Table sum = joint(op);
    const auto at = static_cast<std::size_t>(std::find(sum.over.begin(), sum.over.end(), op) - sum.over.begin());
    std::size_t inner = 1;
    for (std::size_t i = at + 1; i < sum.over.size(); ++i) inner *= extents_[sum.over[i]];
    Table least;
    for (const std::uint32_t o : sum.over)
      if (o != op) least.over.push_back(o);
    const std::size_t extent = extents_[op];
    least.time.assign(sum.time.size() / extent, std::numeric_limits<double>::infinity());
    for (std::size_t i = 0; i < sum.time.size(); ++i) {
      double& entry = least.time[i / (inner * extent) * inner + i % inner];
      entry = std::min(entry, sum.time[i]);
    }
    std::erase_if(tables_, [&](const Table& t) { return mentions(t, op); });
    tables_.push_back(std::move(least));
  }

  /// Of what is left, the operator whose table would be smallest.
  [[nodiscard]] std::uint32_t cheapest(const std::vector<std::uint32_t>& left) const {
    return *std::min_element(left.begin(), left.end(),
                             [&](std::uint32_t a, std::uint32_t b) { return entries(scope(a)) < entries(scope(b)); });
  }

  [[nodiscard]] double total() const {
    double sum = 0;
    for (const Table& t : tables_) sum += t.time.front();
    return sum;
  }

 private:
  static bool mentions(const Table& t, std::uint32_t op) {
    return std::find(t.over.begin(), t.over.end(), op) != t.over.end();
  }

  [[nodiscard]] std::vector<std::uint32_t> scope(std::uint32_t op) const {
    std::vector<std::uint32_t> all;
    for (const Table& t : tables_)
      if (mentions(t, op)) all.insert(all.end(), t.over.begin(), t.over.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  [[nodiscard]] double entries(const std::vector<std::uint32_t>& over) const {
    double product = 1;
    for (const std::uint32_t o : over) product *= static_cast<double>(extents_[o]);
    return product;
  }

  [[nodiscard]] Table joint(std::uint32_t op) const {
    Table sum{scope(op), {}};
    if (entries(sum.over) > static_cast<double>(most_entries))
      throw InputError("operator graph", "operators with few neighbours",
                       "a table of " + std::to_string(sum.over.size()) + " operators' configurations");
    sum.time.assign(static_cast<std::size_t>(entries(sum.over)), 0);
    std::vector<std::size_t> chosen(extents_.size(), 0);
    for (double& entry : sum.time) {
      for (const Table& t : tables_) {
        if (!mentions(t, op)) continue;
        std::size_t index = 0;
        for (const std::uint32_t o : t.over) index = index * extents_[o] + chosen[o];
        entry += t.time[index];
      }
      for (std::size_t i = sum.over.size(); i > 0 && ++chosen[sum.over[i - 1]] == extents_[sum.over[i - 1]]; --i)
        chosen[sum.over[i - 1]] = 0;
    }
    return sum;
  }

  std::vector<std::size_t> extents_;  // configurations by operator
  std::vector<Table> tables_;
};

}  // namespace

double least_time(const OperatorGraph& graph) {
  check(graph);
  Tables tables(graph);
  std::vector<std::uint32_t> left(graph.operators.size());
  for (std::uint32_t op = 0; op < left.size(); ++op) left[op] = op;
  while (!left.empty()) {
    const std::uint32_t op = tables.cheapest(left);
    tables.eliminate(op);
    std::erase(left, op);
  }
  return tables.total();
}

AssignmentFrontier frontier_by_enumeration(const OperatorGraph& graph) {
  check(graph);
  const std::size_t n = graph.operators.size();
  std::vector<std::uint32_t> chosen(n, 0);
  std::vector<CostPoint> points;
  std::vector<std::vector<std::uint32_t>> choices;
  for (bool more = true; more;) {
    CostPoint sum{0, 0, static_cast<std::uint32_t>(choices.size())};
    const auto add = [&](const CostPoint& p) { sum.memory += p.memory, sum.time += p.time; };
    for (std::size_t i = 0; i < n; ++i) add(graph.operators[i].configurations[chosen[i]]);
    for (const OperatorGraph::Edge& e : graph.edges)
      add(e.change[chosen[e.from] * graph.operators[e.to].configurations.size() + chosen[e.to]]);
    points.push_back(sum);
    choices.push_back(chosen);
    std::size_t i = n;
    while (i > 0 && ++chosen[i - 1] == graph.operators[i - 1].configurations.size()) chosen[--i] = 0;
    more = i > 0;
  }
  AssignmentFrontier result;
  for (const CostPoint& p : reduced(std::move(points))) result.points.push_back({p.memory, p.time, choices[p.trace]});
  return result;
}

}  // namespace stepcast::test
