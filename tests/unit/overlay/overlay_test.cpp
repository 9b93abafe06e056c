// Overlays: shares by their definition, maximum flow against all cuts, routes, refusals, and the exchange of a plan.
#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/overlay/overlay.hpp>

#include <algorithm>
#include <limits>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

/// Two sites of two agents, 10 MB/s to each agent, `between` the sites.
OverlayNetwork two_sites(double between) {
  OverlayNetwork o;
  o.name = "two sites";
  o.agents = {"a1", "a2", "b1", "b2"};
  o.relays = {"ra", "rb"};
  for (const char* a : {"a1", "a2"}) o.links.push_back({a, "ra", BytesPerSecond(1e7), milliseconds(1)});
  for (const char* b : {"b1", "b2"}) o.links.push_back({b, "rb", BytesPerSecond(1e7), milliseconds(1)});
  o.links.push_back({"ra", "rb", BytesPerSecond(between), milliseconds(10)});
  o.edges = {{"a1", "a2", {}}, {"a1", "b1", {}}, {"a2", "b2", {}}};
  o.provenance = {"by hand"};
  return o;
}

OverlayNetwork random_overlay(Draw& draw) {
  OverlayNetwork o;
  o.name = "random";
  const int agents = draw.whole(2, 5), relays = draw.whole(0, 3), nodes = agents + relays;
  for (int i = 0; i < agents; ++i) o.agents.push_back("a" + std::to_string(i));
  for (int i = 0; i < relays; ++i) o.relays.push_back("r" + std::to_string(i));
  const auto name = [&](int i) { return i < agents ? o.agents[i] : o.relays[i - agents]; };
  const auto add = [&](int i, int j) {
    o.links.push_back({name(i), name(j), BytesPerSecond(draw.log_uniform(1e6, 1e8)), Seconds(0)});
  };
  for (int i = 1; i < nodes; ++i) add(draw.whole(0, i - 1), i);  // a tree, and more
  for (int i = 0; i < nodes; ++i)
    for (int j = i + 1; j < nodes; ++j) {
      const bool known = std::any_of(o.links.begin(), o.links.end(), [&](const auto& l) {
        return (l.a == name(i) && l.b == name(j)) || (l.a == name(j) && l.b == name(i));
      });
      if (!known && draw.whole(0, 2) == 0) add(i, j);
    }
  for (int i = 1; i < agents; ++i) o.edges.push_back({name(draw.whole(0, i - 1)), name(i), {}});
  o.provenance = {"random"};
  return checked(std::move(o), "random#");
}

bool crosses(const OverlayShare& share, const OverlayNetwork::Link& link) {
  for (std::size_t i = 0; i + 1 < share.route.size(); ++i)
    if ((share.route[i] == link.a && share.route[i + 1] == link.b) ||
        (share.route[i] == link.b && share.route[i + 1] == link.a))
      return true;
  return false;
}

/// The least capacity, over its `per`, of all sets of places with `from` in it.
template <class Per>
double least_cut(const OverlayNetwork& o, const std::string& from, const Per& per) {
  std::vector<std::string> places = o.agents;
  places.insert(places.end(), o.relays.begin(), o.relays.end());
  const auto in = [&](unsigned set, const std::string& name) {
    return (set >> (std::find(places.begin(), places.end(), name) - places.begin()) & 1u) != 0;
  };
  double least = std::numeric_limits<double>::infinity();
  for (unsigned set = 0; set < 1u << places.size(); ++set) {
    if (!in(set, from)) continue;
    const double behind = per([&](const std::string& name) { return !in(set, name); });
    if (behind == 0) continue;
    double capacity = 0;
    for (const auto& link : o.links)
      if (in(set, link.a) != in(set, link.b)) capacity += link.capacity.value();
    least = std::min(least, capacity / behind);
  }
  return least;
}

std::string refusal(const std::string& text) {
  try {
    (void)overlay_of_json(text, "o.json");
  } catch (const InputError& error) { return error.what(); }
  return "";
}
std::string document(const std::string& links, const std::string& edges, const std::string& relays = "\"r\"") {
  return R"({"schema": "stepcast.overlay/1", "name": "n", "agents": ["a", "b", "c"], "relays": [)" + relays +
         R"(], "links": [)" + links + R"(], "overlay": [)" + edges + R"(], "provenance": ["test"]})";
}
const std::string ab = R"({"between": ["a", "b"], "capacity": "8 Mb/s"})",
                  bc = R"({"between": ["b", "c"], "capacity": "8 Mb/s"})",
                  edges_abc = R"({"between": ["a", "b"]}, {"between": ["b", "c"]})";

}  // namespace

TEST_CASE("overlay: shares of two sites by hand") {
  // Both edges between the sites share 6 MB/s; each agent's own 10 MB/s are left with 7 for the edge inside.
  const OverlayExchange exchange = exchange_over(two_sites(6e6));
  REQUIRE(exchange.shares.size() == 3);
  CHECK(exchange.shares[0].rate.value() == Approx(7e6));
  CHECK(exchange.shares[1].rate.value() == Approx(3e6));
  CHECK(exchange.shares[2].rate.value() == Approx(3e6));
  CHECK(exchange.shares[0].route == std::vector<std::string>{"a1", "ra", "a2"});
  CHECK(exchange.shares[1].bottleneck == "ra-rb");
  CHECK(exchange.shares[1].alone.value() == Approx(6e6));
  CHECK(exchange.least.value() == Approx(3e6));
  CHECK(exchange.latency.value() == Approx(12e-3));
  // Alone, a1 has 10 MB/s for two neighbours, one of them behind 6: 5 each.
  CHECK(exchange.best.value() == Approx(5e6));
  // With much between the sites the agents' links are full.
  CHECK(exchange_over(two_sites(1e9)).least.value() == Approx(5e6));
  // A detour of its own for one of the two.
  OverlayNetwork detour = two_sites(6e6);
  detour.relays.push_back("rc");
  detour.links.push_back({"ra", "rc", BytesPerSecond(6e6), Seconds(0)});
  detour.links.push_back({"rc", "rb", BytesPerSecond(6e6), Seconds(0)});
  CHECK(exchange_over(detour).least.value() == Approx(3e6));  // shortest routes do not take it
  detour.edges[2].route = {"a2", "ra", "rc", "rb", "b2"};
  CHECK(exchange_over(checked(detour, "detour#")).least.value() == Approx(5e6));
}

TEST_CASE("overlay: shares are max-min fair, and routes and flows are those of all cuts, on random networks") {
  Draw draw(81);
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    const OverlayNetwork o = random_overlay(draw);
    const OverlayExchange exchange = exchange_over(o);
    for (const auto& link : o.links) {
      double load = 0;
      for (const OverlayShare& s : exchange.shares) load += crosses(s, link) ? s.rate.value() : 0;
      CHECK(load <= link.capacity.value() * (1 + 1e-9));
    }
    for (std::size_t e = 0; e < o.edges.size(); ++e) {
      const OverlayShare& share = exchange.shares[e];
      // Fair: some link on its route is full, on which nobody has more.
      const bool fair = std::any_of(o.links.begin(), o.links.end(), [&](const auto& link) {
        if (!crosses(share, link)) return false;
        double load = 0, most = 0;
        for (const OverlayShare& s : exchange.shares)
          if (crosses(s, link)) load += s.rate.value(), most = std::max(most, s.rate.value());
        return load >= link.capacity.value() * (1 - 1e-9) && share.rate.value() >= most * (1 - 1e-9);
      });
      CHECK(fair);
      const std::string& to = o.edges[e].b;
      const double cut = least_cut(o, o.edges[e].a, [&](const auto& behind) { return behind(to) ? 1.0 : 0.0; });
      CHECK(share.alone.value() == Approx(cut));
    }
    // Equal messages: the least share is C_l / n_l of the busiest link.
    double busiest = std::numeric_limits<double>::infinity();
    for (const auto& link : o.links) {
      const auto n = std::count_if(exchange.shares.begin(), exchange.shares.end(),
                                   [&](const OverlayShare& s) { return crosses(s, link); });
      if (n > 0) busiest = std::min(busiest, link.capacity.value() / static_cast<double>(n));
    }
    CHECK(exchange.least.value() == Approx(busiest));
    double best = std::numeric_limits<double>::infinity();
    for (const std::string& agent : o.agents)
      best = std::min(best, least_cut(o, agent, [&](const auto& behind) {
                        double n = 0;
                        for (const auto& edge : o.edges)
                          n += (edge.a == agent && behind(edge.b)) || (edge.b == agent && behind(edge.a));
                        return n;
                      }));
    CHECK(exchange.best.value() == Approx(best));
    CHECK(exchange.least.value() <= exchange.best.value() * (1 + 1e-9));
  }
}

TEST_CASE("overlay: another edge never gives the slowest one more") {
  Draw draw(82);
  for (int round = 0; round < 100; ++round) {
    OverlayNetwork o = random_overlay(draw);
    const double before = exchange_over(o).least.value();
    const std::string &a = o.agents.front(), &b = o.agents.back();
    const bool known = std::any_of(o.edges.begin(), o.edges.end(),
                                   [&](const auto& e) { return std::minmax(e.a, e.b) == std::minmax(a, b); });
    if (known || a == b) continue;
    o.edges.push_back({a, b, {}});
    CHECK(exchange_over(o).least.value() <= before * (1 + 1e-9));
  }
}

TEST_CASE("overlay: what does not fit together is refused with its place") {
  CHECK(refusal(document(ab + "," + bc, edges_abc)) == "");
  CHECK(refusal(document(ab, edges_abc))
            .find("/overlay/1/between: expected links that lead from 'b' to 'c', found none") != std::string::npos);
  CHECK(refusal(document(ab + "," + bc, R"({"between": ["a", "b"]})")).find("edges that connect all agents") !=
        std::string::npos);
  CHECK(refusal(document(ab + "," + bc, R"({"between": ["a", "q"]})"))
            .find("/overlay/0/between: expected an agent, found 'q'") != std::string::npos);
  CHECK(refusal(document(ab + "," + bc, R"({"between": ["a", "r"]})")).find("expected an agent, found 'r'") !=
        std::string::npos);
  CHECK(refusal(document(R"({"between": ["a", "x"], "capacity": "8 Mb/s"})", edges_abc))
            .find("/links/0/between: expected an agent or a relay, found 'x'") != std::string::npos);
  CHECK(refusal(document(R"({"between": ["a", "b"], "capacity": "0 Mb/s"})", edges_abc)).find("/links/0/capacity") !=
        std::string::npos);
  CHECK(refusal(document(ab + "," + ab, edges_abc)).find("add up their capacities") != std::string::npos);
  CHECK(refusal(document(ab + "," + bc, R"({"between": ["a", "c"], "route": ["a", "c"]}, {"between": ["a", "b"]})"))
            .find("/overlay/0/route: expected a link between 'a' and 'c', found none") != std::string::npos);
  CHECK(refusal(document(ab + "," + bc, R"({"between": ["a", "c"], "route": ["a", "b"]}, {"between": ["a", "b"]})"))
            .find("a route from 'a' to 'c'") != std::string::npos);
  CHECK(refusal(document(ab + "," + bc, edges_abc, "\"a\"")).find("a name that occurs once") != std::string::npos);
  OverlayNetwork crowd;
  crowd.agents.assign(501, "a");
  try {
    (void)checked(crowd, "crowd");
    FAIL("501 agents");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("at most 500 agents, found 501") != std::string::npos);
  }
}

TEST_CASE("overlay: documents read back, by themselves and in a cluster") {
  OverlayNetwork o = two_sites(6e6);
  o.edges[1].route = {"a1", "ra", "rb", "b1"};
  const std::string text = json_of(o);
  CHECK(json_of(overlay_of_json(text, "o.json")) == text);
  Cluster c = plain_cluster(4, BytesPerSecond(1e9));
  c.overlay = o;
  c.provenance = {"by hand"};
  const std::string whole = json_of(c);
  CHECK(json_of(cluster_of_json(whole, "c.json")) == whole);
  CHECK(json_of(*cluster_of_json(whole, "c.json").overlay) == text);
  c.nodes = 5;
  CHECK_THROWS_WITH_AS((void)checked(c, "c.json"), doctest::Contains("one agent for each worker (5)"), InputError);
  c.nodes = 4;
  CHECK(!resized(c, 8));
  CHECK(resized(c, 4));
}

TEST_CASE("overlay: a step is compute, the longest route and the model over the least share") {
  const Profile p = profile_of_gradients({{milliseconds(6), Bytes(6e6)}}, milliseconds(4), milliseconds(2));
  Cluster c = plain_cluster(4, BytesPerSecond(1e9), microseconds(50));
  c.overlay = two_sites(6e6);
  CHECK(time_of("overlay", p, c).value() == Approx(12e-3 + 12e-3 + 6e6 / 3e6));
  const Answer<CommPlan> other = comm_plan_of(plan_spec_of("overlay(degree=3)"), p, c, *communication_cost(c));
  REQUIRE(!other);
  CHECK(other.reason().find("leave out degree") != std::string::npos);
}
