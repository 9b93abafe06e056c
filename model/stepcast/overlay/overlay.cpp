// Routes by breadth-first search, shares by progressive filling, the bound by maximum flow and Newton's method on cuts.
#include <stepcast/base/error.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/overlay/overlay.hpp>

// g++ takes iterators in Boost's loop over all edges for uninitialised ones.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#pragma GCC diagnostic pop

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace stepcast {
namespace {

constexpr std::size_t absent = std::numeric_limits<std::size_t>::max();

/// The underlay by number: agents first, then relays.
class Underlay {
 public:
  struct Step {
    std::size_t to, link;
  };
  explicit Underlay(const OverlayNetwork& o) : links_of_(o.agents.size() + o.relays.size()) {
    for (const std::string& name : o.agents) number_.emplace(name, number_.size());
    for (const std::string& name : o.relays) number_.emplace(name, number_.size());
    for (std::size_t l = 0; l < o.links.size(); ++l) {
      const std::size_t a = number_of(o.links[l].a), b = number_of(o.links[l].b);
      links_of_[a].push_back({b, l});
      links_of_[b].push_back({a, l});
    }
  }
  [[nodiscard]] std::size_t nodes() const { return links_of_.size(); }
  [[nodiscard]] std::size_t number_of(const std::string& name) const { return number_.find(name)->second; }
  /// Links of a route, in order; `absent` where two places in a row have none.
  [[nodiscard]] std::vector<std::size_t> links_of(const std::vector<std::string>& route) const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i + 1 < route.size(); ++i) {
      const std::vector<Step>& from = links_of_[number_of(route[i])];
      const std::size_t to = number_of(route[i + 1]);
      const auto found = std::find_if(from.begin(), from.end(), [&](const Step& s) { return s.to == to; });
      out.push_back(found == from.end() ? absent : found->link);
    }
    return out;
  }
  /// The nodes of a route with the fewest hops; nothing if no links lead there.
  [[nodiscard]] std::vector<std::size_t> shortest(std::size_t from, std::size_t to) const {
    std::vector<std::size_t> before(nodes(), absent), queue{from};
    before[from] = from;
    for (std::size_t i = 0; i < queue.size() && before[to] == absent; ++i)
      for (const Step& s : links_of_[queue[i]])
        if (before[s.to] == absent) before[s.to] = queue[i], queue.push_back(s.to);
    if (before[to] == absent) return {};
    std::vector<std::size_t> route{to};
    while (route.back() != from) route.push_back(before[route.back()]);
    std::reverse(route.begin(), route.end());
    return route;
  }

 private:
  std::map<std::string, std::size_t> number_;
  std::vector<std::vector<Step>> links_of_;
};

const std::string& name_in(const OverlayNetwork& o, std::size_t node) {
  return node < o.agents.size() ? o.agents[node] : o.relays[node - o.agents.size()];
}

// ---- checks ----

[[noreturn]] void refuse(std::string_view source, const std::string& place, std::string expected, std::string found,
                         std::string hint = {}) {
  throw InputError(std::string(source) + place, std::move(expected), std::move(found), std::move(hint));
}

void check_names(const OverlayNetwork& o, std::string_view source) {
  if (o.agents.size() < 2) refuse(source, "/agents", "at least two agents", std::to_string(o.agents.size()));
  std::set<std::string> seen;
  const auto check = [&](const std::vector<std::string>& names, const std::string& list) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string place = list + "/" + std::to_string(i);
      if (names[i].empty()) refuse(source, place, "a name", "an empty one");
      if (!seen.insert(names[i]).second) refuse(source, place, "a name that occurs once", in_quotes(names[i]));
    }
  };
  // Shares and flows are found edge by edge, over all links: seconds for as many as this.
  constexpr std::size_t most_agents = 500, most_edges = 2000;
  if (o.agents.size() > most_agents) refuse(source, "/agents", "at most 500 agents", std::to_string(o.agents.size()));
  if (o.edges.size() > most_edges) refuse(source, "/overlay", "at most 2000 edges", std::to_string(o.edges.size()));
  check(o.agents, "/agents");
  check(o.relays, "/relays");
}

void check_ends(const std::string& a, const std::string& b, const std::vector<std::string>& known,
                std::string_view what, std::string_view source, const std::string& place) {
  for (const std::string* end : {&a, &b})
    if (std::find(known.begin(), known.end(), *end) == known.end())
      refuse(source, place + "/between", std::string(what), in_quotes(*end), did_you_mean(*end, known, ""));
  if (a == b) refuse(source, place + "/between", "two different ends", in_quotes(a) + " twice");
}

void check_links(const OverlayNetwork& o, std::string_view source) {
  std::vector<std::string> known = o.agents;
  known.insert(known.end(), o.relays.begin(), o.relays.end());
  std::set<std::pair<std::string, std::string>> seen;
  for (std::size_t l = 0; l < o.links.size(); ++l) {
    const OverlayNetwork::Link& link = o.links[l];
    const std::string place = "/links/" + std::to_string(l);
    check_ends(link.a, link.b, known, "an agent or a relay", source, place);
    if (!seen.insert(std::minmax(link.a, link.b)).second)
      refuse(source, place + "/between", "one link between " + in_quotes(link.a) + " and " + in_quotes(link.b),
             "another one", "add up their capacities");
    if (!(link.capacity.value() > 0) || !std::isfinite(link.capacity.value()))
      refuse(source, place + "/capacity", "a capacity above zero", text_of(link.capacity));
    if (!(link.latency >= Seconds(0)) || !std::isfinite(link.latency.value()))
      refuse(source, place + "/latency", "a time of at least zero", text_of(link.latency));
  }
}

void check_route(const OverlayNetwork& o, const OverlayNetwork::Edge& edge, const Underlay& underlay,
                 std::string_view source, const std::string& place) {
  std::vector<std::string> known = o.agents;
  known.insert(known.end(), o.relays.begin(), o.relays.end());
  for (const std::string& stop : edge.route)
    if (std::find(known.begin(), known.end(), stop) == known.end())
      refuse(source, place + "/route", "agents and relays", in_quotes(stop), did_you_mean(stop, known, ""));
  if (edge.route.front() != edge.a || edge.route.back() != edge.b)
    refuse(source, place + "/route", "a route from " + in_quotes(edge.a) + " to " + in_quotes(edge.b),
           "one from " + in_quotes(edge.route.front()) + " to " + in_quotes(edge.route.back()));
  if (std::set<std::string>(edge.route.begin(), edge.route.end()).size() != edge.route.size())
    refuse(source, place + "/route", "a route that passes each place once", "a loop");
  const std::vector<std::size_t> links = underlay.links_of(edge.route);
  const auto gap = std::find(links.begin(), links.end(), absent);
  if (gap == links.end()) return;
  const auto at = static_cast<std::size_t>(gap - links.begin());
  refuse(source, place + "/route",
         "a link between " + in_quotes(edge.route[at]) + " and " + in_quotes(edge.route[at + 1]), "none");
}

void check_edges(const OverlayNetwork& o, std::string_view source) {
  const Underlay underlay(o);
  std::set<std::pair<std::string, std::string>> seen;
  for (std::size_t e = 0; e < o.edges.size(); ++e) {
    const OverlayNetwork::Edge& edge = o.edges[e];
    const std::string place = "/overlay/" + std::to_string(e);
    check_ends(edge.a, edge.b, o.agents, "an agent", source, place);
    if (!seen.insert(std::minmax(edge.a, edge.b)).second)
      refuse(source, place + "/between", "each pair of agents once",
             in_quotes(edge.a) + " and " + in_quotes(edge.b) + " again");
    if (!edge.route.empty()) check_route(o, edge, underlay, source, place);
    else if (underlay.shortest(underlay.number_of(edge.a), underlay.number_of(edge.b)).empty())
      refuse(source, place + "/between", "links that lead from " + in_quotes(edge.a) + " to " + in_quotes(edge.b),
             "none", "the underlay is in parts that no link connects");
  }
  // Who mixes with whom, as links of a network of its own.
  OverlayNetwork mixing;
  mixing.agents = o.agents;
  for (const OverlayNetwork::Edge& edge : o.edges) mixing.links.push_back({edge.a, edge.b, {}, {}});
  const Underlay mixed(mixing);
  for (std::size_t a = 1; a < o.agents.size(); ++a)
    if (mixed.shortest(0, a).empty())
      refuse(source, "/overlay", "edges that connect all agents",
             "none between the part of " + in_quotes(o.agents[a]) + " and that of " + in_quotes(o.agents[0]),
             "models of separate parts are never mixed");
}

// ---- maximum flow ----

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct Arc {
  double capacity = 0, residual = 0;
  Traits::edge_descriptor reverse;
};
struct Vertex {
  boost::default_color_type color{};
  long distance = 0;
  Traits::edge_descriptor predecessor;
};
using FlowGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Vertex, Arc>;

void add_arcs(FlowGraph& graph, std::size_t a, std::size_t b, double there, double back) {
  const auto forth = boost::add_edge(a, b, Arc{.capacity = there, .residual = 0, .reverse = {}}, graph).first;
  const auto other = boost::add_edge(b, a, Arc{.capacity = back, .residual = 0, .reverse = forth}, graph).first;
  graph[forth].reverse = other;
}

FlowGraph flow_graph_of(const OverlayNetwork& o, const Underlay& underlay) {
  FlowGraph graph(underlay.nodes() + 1);  // the last one stands for all receivers together
  for (const OverlayNetwork::Link& link : o.links)
    add_arcs(graph, underlay.number_of(link.a), underlay.number_of(link.b), link.capacity.value(),
             link.capacity.value());
  return graph;
}

double maximum_flow(FlowGraph& graph, std::size_t from, std::size_t to) {
  return boost::boykov_kolmogorov_max_flow(graph, boost::get(&Arc::capacity, graph), boost::get(&Arc::residual, graph),
                                           boost::get(&Arc::reverse, graph), boost::get(&Vertex::predecessor, graph),
                                           boost::get(&Vertex::color, graph), boost::get(&Vertex::distance, graph),
                                           boost::get(boost::vertex_index, graph), from, to);
}

// The nodes on the sender's side of a minimum cut, after maximum_flow.
std::vector<bool> sending_side(const FlowGraph& graph, std::size_t from, double negligible) {
  std::vector<bool> reached(boost::num_vertices(graph), false);
  std::vector<std::size_t> queue{from};
  reached[from] = true;
  for (std::size_t i = 0; i < queue.size(); ++i)
    for (auto [e, end] = boost::out_edges(queue[i], graph); e != end; ++e) {
      const std::size_t next = boost::target(*e, graph);
      if (graph[*e].residual > negligible && !reached[next]) reached[next] = true, queue.push_back(next);
    }
  return reached;
}

// The largest rate at which `from`, alone in the network, can send to each of `receivers`: the least over all cuts of
// capacity / receivers behind it. Newton's method: while a rate is too large, the cut that says so gives a smaller one.
double rate_to_all(const OverlayNetwork& o, const Underlay& underlay, std::size_t from,
                   const std::vector<std::size_t>& receivers) {
  constexpr double rounding = 1e-12;
  const auto all = static_cast<double>(receivers.size());
  double rate = 0;
  for (const OverlayNetwork::Link& link : o.links)
    if (underlay.number_of(link.a) == from || underlay.number_of(link.b) == from) rate += link.capacity.value();
  rate /= all;  // the cut around the sender itself
  for (;;) {
    FlowGraph graph = flow_graph_of(o, underlay);
    const std::size_t sink = underlay.nodes();
    for (const std::size_t r : receivers) add_arcs(graph, r, sink, rate, 0);
    if (maximum_flow(graph, from, sink) >= all * rate * (1 - rounding)) return rate;
    const std::vector<bool> sending = sending_side(graph, from, rate * rounding);
    double capacity = 0, behind = 0;
    for (const OverlayNetwork::Link& link : o.links)
      if (sending[underlay.number_of(link.a)] != sending[underlay.number_of(link.b)]) capacity += link.capacity.value();
    for (const std::size_t r : receivers) behind += sending[r] ? 0 : 1;
    if (behind == 0 || capacity / behind >= rate * (1 - rounding)) return rate;
    rate = capacity / behind;
  }
}

BytesPerSecond best_rate(const OverlayNetwork& o, const Underlay& underlay) {
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < o.agents.size(); ++a) {
    std::vector<std::size_t> neighbours;
    for (const OverlayNetwork::Edge& e : o.edges) {
      if (e.a == o.agents[a]) neighbours.push_back(underlay.number_of(e.b));
      if (e.b == o.agents[a]) neighbours.push_back(underlay.number_of(e.a));
    }
    best = std::min(best, rate_to_all(o, underlay, a, neighbours));
  }
  return BytesPerSecond(best);
}

// ---- shares ----

// Max-min fairness: all rates grow alike; where a link is full, those that cross it stay as they are.
void fill(const OverlayNetwork& o, const std::vector<std::vector<std::size_t>>& routes,
          std::vector<OverlayShare>& shares) {
  std::vector<double> left;
  for (const OverlayNetwork::Link& link : o.links) left.push_back(link.capacity.value());
  std::vector<bool> fixed(routes.size(), false);
  const auto crossing = [&](std::size_t link) {
    std::size_t count = 0;
    for (std::size_t e = 0; e < routes.size(); ++e)
      count += !fixed[e] && std::find(routes[e].begin(), routes[e].end(), link) != routes[e].end();
    return count;
  };
  while (std::find(fixed.begin(), fixed.end(), false) != fixed.end()) {
    std::size_t full = absent;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t l = 0; l < left.size(); ++l)
      if (const std::size_t n = crossing(l); n > 0 && left[l] / static_cast<double>(n) < least)
        least = left[l] / static_cast<double>(n), full = l;
    for (std::size_t e = 0; e < routes.size(); ++e) {
      if (fixed[e] || std::find(routes[e].begin(), routes[e].end(), full) == routes[e].end()) continue;
      fixed[e] = true;
      shares[e].rate = BytesPerSecond(least);
      shares[e].bottleneck = o.links[full].a + "-" + o.links[full].b;
      for (const std::size_t l : routes[e]) left[l] = std::max(0.0, left[l] - least);
    }
  }
}

}  // namespace

OverlayNetwork checked(OverlayNetwork network, std::string_view source) {
  check_names(network, source);
  check_links(network, source);
  check_edges(network, source);
  return network;
}

OverlayExchange exchange_over(const OverlayNetwork& o) {
  const Underlay underlay(o);
  OverlayExchange out;
  std::vector<std::vector<std::size_t>> routes;
  for (const OverlayNetwork::Edge& edge : o.edges) {
    OverlayShare share;
    share.route = edge.route;
    if (share.route.empty())
      for (const std::size_t node : underlay.shortest(underlay.number_of(edge.a), underlay.number_of(edge.b)))
        share.route.push_back(name_in(o, node));
    routes.push_back(underlay.links_of(share.route));
    for (const std::size_t l : routes.back()) share.latency += o.links[l].latency;
    FlowGraph graph = flow_graph_of(o, underlay);
    share.alone = BytesPerSecond(maximum_flow(graph, underlay.number_of(edge.a), underlay.number_of(edge.b)));
    out.shares.push_back(std::move(share));
  }
  fill(o, routes, out.shares);
  out.best = best_rate(o, underlay);
  out.least = out.shares.front().rate;
  for (const OverlayShare& share : out.shares) {
    out.least = std::min(out.least, share.rate);
    out.latency = std::max(out.latency, share.latency);
  }
  return out;
}

}  // namespace stepcast
