// The algebra of frontiers (reduced, product, united), and the search by elimination.
#include <stepcast/search/frontier.hpp>
#include <stepcast/search/frontier_graph.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace stepcast {
namespace {

bool before(const CostPoint& a, const CostPoint& b) {
  return std::tie(a.memory, a.time, a.trace) < std::tie(b.memory, b.time, b.trace);
}

// All sums of one point of `b` with one point of `a`, least memory first. `a`'s times fall, so that what comes after
// a point is only faster: sums that are no faster than `limit` are passed over by bisection.
struct Row {
  const Frontier* a;
  CostPoint offset;  // the point of `b`; `trace`: its position
  std::size_t next = 0;
  [[nodiscard]] double memory() const { return (*a)[next].memory + offset.memory; }
  [[nodiscard]] double time() const { return (*a)[next].time + offset.time; }
  // False when no sum is left that is faster than `limit`.
  bool advance(double limit) {
    const auto first = a->begin() + static_cast<std::ptrdiff_t>(next);
    next += static_cast<std::size_t>(
        std::partition_point(first, a->end(), [&](const CostPoint& p) { return p.time + offset.time >= limit; }) -
        first);
    return next < a->size();
  }
};

bool later(const Row& x, const Row& y) {
  return std::make_tuple(x.memory(), x.time(), x.offset.trace, x.next) >
         std::make_tuple(y.memory(), y.time(), y.offset.trace, y.next);
}

}  // namespace

Frontier reduced(std::vector<CostPoint> points) {
  std::sort(points.begin(), points.end(), before);
  double fastest = std::numeric_limits<double>::infinity();
  std::erase_if(points, [&](const CostPoint& p) {
    if (p.time >= fastest) return true;
    fastest = p.time;
    return false;
  });
  return points;
}

Frontier product(const Frontier& a, const Frontier& b) {
  // A merge of one sorted row of sums for each point of the smaller frontier: the pairs are never all held.
  const bool swapped = b.size() > a.size();
  const Frontier& longer = swapped ? b : a;
  const Frontier& shorter = swapped ? a : b;
  const auto pair = [&](std::size_t in_longer, std::size_t in_shorter) {
    const std::size_t i = swapped ? in_shorter : in_longer, j = swapped ? in_longer : in_shorter;
    return static_cast<std::uint32_t>(i * b.size() + j);
  };
  std::vector<Row> heap;
  if (!longer.empty())
    for (std::uint32_t i = 0; i < shorter.size(); ++i)
      heap.push_back({&longer, {shorter[i].memory, shorter[i].time, i}});
  std::make_heap(heap.begin(), heap.end(), later);
  Frontier result;
  result.reserve(longer.size());
  double fastest = std::numeric_limits<double>::infinity();
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    Row& row = heap.back();
    if (row.time() < fastest) {
      fastest = row.time();
      result.push_back({row.memory(), fastest, pair(row.next, row.offset.trace)});
    }
    if (row.advance(fastest)) std::push_heap(heap.begin(), heap.end(), later);
    else heap.pop_back();
  }
  return result;
}

Frontier united(const Frontier& a, const Frontier& b) {
  Frontier result;
  result.reserve(a.size() + b.size());
  double fastest = std::numeric_limits<double>::infinity();
  const auto take = [&](const CostPoint& p) {
    if (p.time >= fastest) return;
    fastest = p.time;
    result.push_back(p);
  };
  auto i = a.begin();
  auto j = b.begin();
  while (i != a.end() && j != b.end()) take(before(*j, *i) ? *j++ : *i++);
  while (i != a.end()) take(*i++);
  while (j != b.end()) take(*j++);
  return result;
}

AssignmentFrontier frontier_of(const OperatorGraph& graph, const FrontierOptions& options) {
  EliminationGraph left(graph, options);
  left.eliminate_all();
  return left.result();
}

}  // namespace stepcast
