// The frontier algebra and TensorOpt's eliminations: laws of the algebra, equality with brute force on small graphs,
// with the single-objective dynamic programme on larger ones, in any order of steps. Costs are whole numbers, so that
// sums do not depend on their order.
#include "helpers/random_input.hpp"
#include "oracles/assignments.hpp"

#include <stepcast/search/frontier.hpp>
#include <stepcast/search/frontier_graph.hpp>

#include <doctest/doctest.h>

#include <algorithm>

using namespace stepcast;
using namespace stepcast::test;

namespace {

using Costs = std::vector<std::pair<double, double>>;

Costs costs(const Frontier& frontier) {
  Costs all;
  for (const CostPoint& p : frontier) all.emplace_back(p.memory, p.time);
  return all;
}
Costs costs(const AssignmentFrontier& frontier) {
  Costs all;
  for (const Assignment& a : frontier.points) all.emplace_back(a.memory, a.time);
  return all;
}

std::vector<CostPoint> random_points(Draw& draw, int least, int most, int extent = 30) {
  std::vector<CostPoint> points(static_cast<std::size_t>(draw.whole(least, most)));
  for (CostPoint& p : points) p.memory = draw.whole(0, extent), p.time = draw.whole(0, extent);
  return points;
}
Frontier random_frontier(Draw& draw) { return reduced(random_points(draw, 0, 9)); }

// `spread`: how far ahead an operator's consumers may be; 1: a chain.
OperatorGraph random_graph(Draw& draw, int operators, int configurations, double density, int spread = 1000) {
  OperatorGraph g;
  for (int i = 0; i < operators; ++i) g.operators.push_back({random_points(draw, 1, configurations)});
  const auto add = [&](std::uint32_t from, std::uint32_t to) {
    const auto pairs =
        static_cast<int>(g.operators[from].configurations.size() * g.operators[to].configurations.size());
    g.edges.push_back({from, to, random_points(draw, pairs, pairs, 12)});
  };
  for (std::uint32_t i = 0; i < g.operators.size(); ++i)
    for (std::uint32_t j = i + 1; j < g.operators.size() && j <= i + static_cast<std::uint32_t>(spread); ++j) {
      if (spread > 1 && draw.whole(0, 999) >= 1000 * density) continue;
      draw.coin() ? add(i, j) : add(j, i);
      if (draw.whole(0, 9) == 0) add(i, j);  // parallel edges
    }
  return g;
}

void check_strict(const Costs& frontier) {
  for (std::size_t i = 1; i < frontier.size(); ++i) {
    CHECK(frontier[i - 1].first < frontier[i].first);
    CHECK(frontier[i - 1].second > frontier[i].second);
  }
}

// What an assignment costs, from the graph alone.
std::pair<double, double> cost_of(const OperatorGraph& g, const std::vector<std::uint32_t>& configuration) {
  std::pair<double, double> sum{0, 0};
  const auto add = [&](const CostPoint& p) { sum.first += p.memory, sum.second += p.time; };
  for (std::size_t i = 0; i < g.operators.size(); ++i) add(g.operators[i].configurations[configuration[i]]);
  for (const OperatorGraph::Edge& e : g.edges)
    add(e.change[configuration[e.from] * g.operators[e.to].configurations.size() + configuration[e.to]]);
  return sum;
}

void check_assignments(const OperatorGraph& g, const AssignmentFrontier& frontier) {
  for (const Assignment& a : frontier.points) {
    REQUIRE(a.configuration.size() == g.operators.size());
    CHECK(cost_of(g, a.configuration) == std::make_pair(a.memory, a.time));
  }
}

double shortest(const AssignmentFrontier& frontier) { return frontier.points.back().time; }

}  // namespace

TEST_CASE("a reduced set of points keeps what nothing beats, and its traces") {
  const Frontier f = reduced({{5, 5, 0}, {3, 7, 1}, {3, 6, 2}, {4, 6, 3}, {5, 5, 4}, {9, 1, 5}, {10, 1, 6}, {2, 9, 7}});
  CHECK(f == Frontier{{2, 9, 7}, {3, 6, 2}, {5, 5, 0}, {9, 1, 5}});
  CHECK(reduced({}).empty());
  Draw draw(1);
  for (int i = 0; i < 2000; ++i) {
    const std::vector<CostPoint> points = random_points(draw, 0, 30, 20);
    const Frontier kept = reduced(points);
    check_strict(costs(kept));
    CHECK(reduced(kept) == kept);
    for (const CostPoint& p : points)  // something kept is at least as good
      CHECK(std::any_of(kept.begin(), kept.end(),
                        [&](const CostPoint& k) { return k.memory <= p.memory && k.time <= p.time; }));
  }
}

TEST_CASE("a product is the reduced set of all sums, and says which two points each came from") {
  Draw draw(2);
  for (int i = 0; i < 2000; ++i) {
    const Frontier a = random_frontier(draw), b = random_frontier(draw);
    std::vector<CostPoint> sums;
    for (const CostPoint& p : a)
      for (const CostPoint& q : b) sums.push_back({p.memory + q.memory, p.time + q.time, 0});
    const Frontier both = product(a, b);
    CHECK(costs(both) == costs(reduced(sums)));
    for (const CostPoint& p : both) {
      const CostPoint &l = a[p.trace / b.size()], &r = b[p.trace % b.size()];
      CHECK((l.memory + r.memory == p.memory && l.time + r.time == p.time));
    }
  }
}

TEST_CASE("the algebra's laws: series in any order, alternatives twice are alternatives once") {
  Draw draw(3);
  const Frontier nothing{{0, 0, 0}};
  for (int i = 0; i < 2000; ++i) {
    const Frontier a = random_frontier(draw), b = random_frontier(draw), c = random_frontier(draw);
    CHECK(costs(product(a, b)) == costs(product(b, a)));
    CHECK(costs(product(product(a, b), c)) == costs(product(a, product(b, c))));
    CHECK(costs(product(a, nothing)) == costs(a));
    CHECK(product(a, {}).empty());
    CHECK(united(a, a) == a);
    CHECK(united(a, {}) == a);
    CHECK(costs(united(a, b)) == costs(united(b, a)));
    CHECK(costs(united(united(a, b), c)) == costs(united(a, united(b, c))));
    CHECK(costs(product(a, united(b, c))) == costs(united(product(a, b), product(a, c))));
    std::vector<CostPoint> all = a;
    all.insert(all.end(), b.begin(), b.end());
    CHECK(costs(united(a, b)) == costs(reduced(all)));
    check_strict(costs(product(a, b)));
    check_strict(costs(united(a, b)));
  }
}

TEST_CASE("the frontier of up to six operators equals brute force, and its assignments cost what it says") {
  Draw draw(4);
  for (int i = 0; i < 4000; ++i) {
    const OperatorGraph g = random_graph(draw, draw.whole(1, 6), 4, draw.whole(0, 10) / 10.0);
    CAPTURE(i);
    const AssignmentFrontier tracked = frontier_of(g), enumerated = frontier_by_enumeration(g);
    CHECK(tracked.exact);
    REQUIRE(costs(tracked) == costs(enumerated));
    check_strict(costs(tracked));
    check_assignments(g, tracked);
    CHECK(shortest(tracked) == least_time(g));
  }
}

TEST_CASE("the least time of the frontier is that of the single-objective dynamic programme") {
  Draw draw(5);
  for (int i = 0; i < 150; ++i) {
    const bool chain = draw.coin();
    const OperatorGraph g =
        chain ? random_graph(draw, draw.whole(2, 60), 6, 1, 1) : random_graph(draw, draw.whole(2, 14), 3, 0.5, 3);
    const AssignmentFrontier tracked = frontier_of(g);
    CHECK(tracked.exact);
    check_assignments(g, tracked);
    CHECK(shortest(tracked) == least_time(g));
    OperatorGraph turned = g;  // the least memory is the least "time" of the graph with the two exchanged
    for (auto& o : turned.operators)
      for (CostPoint& p : o.configurations) std::swap(p.memory, p.time);
    for (auto& e : turned.edges)
      for (CostPoint& p : e.change) std::swap(p.memory, p.time);
    CHECK(tracked.points.front().memory == least_time(turned));
  }
}

TEST_CASE("eliminations in any order end in the same frontier") {
  Draw draw(6);
  for (int i = 0; i < 1000; ++i) {
    const OperatorGraph g = random_graph(draw, draw.whole(2, 7), 3, 0.6);
    const Costs expected = costs(frontier_of(g));
    EliminationGraph left(g, {});
    for (;;) {
      std::vector<std::uint32_t> connected;
      for (const std::uint32_t op : left.operators())
        if (!left.neighbours(op).empty()) connected.push_back(op);
      if (connected.empty()) break;
      const std::uint32_t op =
          connected[static_cast<std::size_t>(draw.whole(0, static_cast<int>(connected.size()) - 1))];
      const std::vector<std::uint32_t> around = left.neighbours(op);
      if (around.size() == 1 && draw.coin()) left.eliminate_end(op);
      else if (around.size() == 2 && draw.coin()) left.eliminate_node(op);
      else if (left.configurations(op) * left.configurations(around.back()) <= 729)
        left.merge_branch(op, around[static_cast<std::size_t>(draw.whole(0, static_cast<int>(around.size()) - 1))]);
    }
    const AssignmentFrontier result = left.result();
    CAPTURE(i);
    CHECK(costs(result) == expected);
    CHECK(result.exact);
    check_assignments(g, result);
  }
}

TEST_CASE("more to choose from never makes a frontier worse, higher costs never better") {
  const auto covers = [](const Costs& good, const Costs& bad) {
    return std::all_of(bad.begin(), bad.end(), [&](const auto& b) {
      return std::any_of(good.begin(), good.end(),
                         [&](const auto& g) { return g.first <= b.first && g.second <= b.second; });
    });
  };
  Draw draw(7);
  for (int i = 0; i < 500; ++i) {
    const OperatorGraph g = random_graph(draw, draw.whole(2, 6), 4, 0.6);
    const Costs whole = costs(frontier_of(g));
    OperatorGraph dearer = g;
    auto& raised = dearer.operators[static_cast<std::size_t>(draw.whole(0, static_cast<int>(g.operators.size()) - 1))];
    for (CostPoint& p : raised.configurations) draw.coin() ? p.memory += 3 : p.time += 3;
    CHECK(covers(whole, costs(frontier_of(dearer))));

    OperatorGraph fewer = g;  // without the last configuration of operator 0
    const std::size_t rows = g.operators[0].configurations.size();
    if (rows == 1) continue;
    fewer.operators[0].configurations.pop_back();
    for (auto& e : fewer.edges) {
      if (e.from != 0 && e.to != 0) continue;
      std::vector<CostPoint> kept;
      const std::size_t columns = g.operators[e.to].configurations.size();
      for (std::size_t k = 0; k < e.change.size(); ++k)
        if ((e.from == 0 ? k / columns : k % columns) != rows - 1) kept.push_back(e.change[k]);
      e.change = kept;
    }
    CHECK(covers(whole, costs(frontier_of(fewer))));
  }
}

TEST_CASE("a thinned frontier keeps both ends, is attained, and says that it is not exact") {
  Draw draw(8);
  int thinned = 0;
  for (int i = 0; i < 200; ++i) {
    const OperatorGraph g = random_graph(draw, draw.whole(3, 12), 5, 0.4, 2);
    const AssignmentFrontier whole = frontier_of(g), few = frontier_of(g, {4});
    CHECK(few.points.size() <= 4);
    CHECK(few.points.front().memory == whole.points.front().memory);
    CHECK(shortest(few) == shortest(whole));
    check_strict(costs(few));
    check_assignments(g, few);
    if (few.exact) CHECK(costs(few) == costs(whole));
    thinned += few.exact ? 0 : 1;
    const AssignmentFrontier one = frontier_of(g, {1});
    CHECK(one.points.size() == 1);
    CHECK(shortest(one) == shortest(whole));
  }
  CHECK(thinned > 100);
}

TEST_CASE("operators that cannot be eliminated at a bearable cost are fixed, which is said") {
  // Every operator is every other one's neighbour, and two of them have more pairs than a branch may.
  Draw draw(9);
  OperatorGraph g;
  for (int i = 0; i < 5; ++i) g.operators.push_back({random_points(draw, 70, 70)});
  for (std::uint32_t i = 0; i < 5; ++i)
    for (std::uint32_t j = i + 1; j < 5; ++j) g.edges.push_back({i, j, random_points(draw, 4900, 4900)});
  const AssignmentFrontier f = frontier_of(g, {8});
  CHECK_FALSE(f.exact);
  CHECK_FALSE(f.points.empty());
  check_strict(costs(f));
  check_assignments(g, f);
}

TEST_CASE("graphs whose tables do not fit are refused") {
  OperatorGraph g;
  CHECK(frontier_of(g).points.size() == 1);  // nothing to choose costs nothing
  g.operators.push_back({});
  CHECK_THROWS_WITH_AS((void)frontier_of(g), "operator 0: expected at least one configuration, found none", InputError);
  g.operators[0].configurations = {{1, 2, 0}};
  g.edges.push_back({0, 0, {}});
  CHECK_THROWS_WITH_AS((void)frontier_of(g), "edge 0: expected two different operators below 1, found 0 and 0",
                       InputError);
  g.operators.push_back({{{1, 2, 0}, {2, 1, 0}}});
  g.edges = {{0, 1, {{0, 0, 0}}}};
  CHECK_THROWS_WITH_AS((void)frontier_of(g), "edge 0: expected 2 costs, one for each pair of configurations, found 1",
                       InputError);
  g.edges[0].change = {{0, 0, 0}, {0, std::numeric_limits<double>::quiet_NaN(), 0}};
  CHECK_THROWS_AS((void)frontier_by_enumeration(g), InputError);
  CHECK_THROWS_AS((void)least_time(g), InputError);
}
