// Thakur, Rabenseifner, Gropp 2005 and the papers of the others, term by term.
#include "oracles/collective_times.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace stepcast::test {
namespace {

using Line = CollectiveTimes::Line;
Line operator+(Line a, Line b) { return {a.start + b.start, a.byte + b.byte}; }
Line twice(Line a) { return {2 * a.start, 2 * a.byte}; }
double rounds(double ranks) {
  double k = 0;
  for (double reached = 1; reached < ranks; reached *= 2) ++k;
  return k;
}

// Mean number of flows on the fullest path, over all ways in which `flows` can choose among `paths`.
double fullest(std::int64_t flows, std::vector<int>& on) {
  if (flows == 0) return *std::max_element(on.begin(), on.end());
  double sum = 0;
  for (int& path : on) {
    ++path;
    sum += fullest(flows - 1, on);
    --path;
  }
  return sum / static_cast<double>(on.size());
}

double usable_share_of(const Transport& t) {
  double crowd = 1;
  if (!t.spraying) {
    std::vector<int> on(static_cast<std::size_t>(t.paths), 0);
    crowd = fullest(t.flows, on) * static_cast<double>(t.paths) / static_cast<double>(t.flows);
  }
  return (1 - t.loss) / std::max(1.0, t.oversubscription * crowd);
}

}  // namespace

CollectiveTimes::CollectiveTimes(const Cluster& c, std::string algorithm)
    : cluster_(c),
      algorithm_(std::move(algorithm)),
      usable_(usable_share_of(c.transport)),
      n_(static_cast<double>(c.nodes)),
      g_(static_cast<double>(c.devices_per_node)),
      p_(n_ * g_) {
  double share = 1;
  for (const SlowWorkers& s : c.stragglers.slow) share = std::min(share, s.link_share);
  if (algorithm_.empty()) algorithm_ = c.all_reduce;
  in_ = {c.inside.latency.value(), c.inside.bandwidth.value() * (n_ > 1 ? 1 : share)};
  card_ = {c.network.latency.value(), c.network.bandwidth.value() * share * usable_};
  cards_ = {card_.latency, card_.rate * static_cast<double>(c.nics_per_node)};
  device_ = {cards_.latency, cards_.rate / g_};
  if (n_ == 1) flat_ = in_;
  else if (g_ == 1) flat_ = cards_;
  else flat_ = {std::max(in_.latency, cards_.latency), std::min(in_.rate, cards_.rate)};
}

Line CollectiveTimes::half_of_ring(double ranks, Wire wire, double share) const {
  return {(ranks - 1) * wire.latency, share * (ranks - 1) / ranks / wire.rate};
}

Line CollectiveTimes::in_switch() const {
  const Aggregation a = cluster_.aggregation.value_or(Aggregation{});
  const bool own = a.payload > Bytes(0);
  const bool atp = algorithm_ != "switchml";
  const double payload = own ? a.payload.value() : atp ? 248 : 256, header = own ? a.header.value() : atp ? 60 : 52;
  const double round = a.round_trip > Seconds(0) ? a.round_trip.value() : 2 * cluster_.network.latency.value();
  double share = 1, slow_workers = 0;
  for (const SlowWorkers& s : cluster_.stragglers.slow) {
    share = std::min(share, s.link_share);
    if (s.link_share < 1) slow_workers += static_cast<double>(s.workers);
  }
  double healthy = a.line_rate.value() > 0
                       ? a.line_rate.value()
                       : cluster_.network.bandwidth.value() * static_cast<double>(cluster_.nics_per_node);
  healthy *= usable_;
  const double wire = (payload + header) / payload / healthy;  // seconds of a healthy card for a byte of values
  const double host = a.host_rate.value() > 0 ? 1 / a.host_rate.value() : 0;
  if (!atp) {
    const double levels = a.racks > 1 ? 2 : 1;
    const double window = levels * round / (static_cast<double>(a.packets_outstanding) * g_ * payload);
    return {levels * round, std::max({wire / share, window, host})};
  }
  // Late workers' bytes that leaders take over: nothing for ATP; else until both sides end together.
  const double late = std::min(n_, std::ceil(slow_workers / g_)), leaders = n_ - late;
  const double leader = std::max(wire, host);
  double taken = algorithm_ == "sa_atp" ? a.absorbed_share : 0;
  if (leaders == 0 || wire / share <= leader) taken = 0;
  else taken = std::min(taken, (wire / share - leader) / (wire / share + leader * late / leaders));
  double worker = wire / share * (1 - taken);
  worker = std::max(worker, leader * (leaders > 0 ? 1 + taken * late / leaders : 1));
  const double racks = std::min(static_cast<double>(a.racks), n_);
  const double server_rate =
      cluster_.server_link.bandwidth.value() > 0 ? cluster_.server_link.bandwidth.value() * usable_ : healthy;
  const double server = (payload + header) / payload * (a.hit_fraction * racks + (1 - a.hit_fraction) * n_) /
                        (std::max(1.0, static_cast<double>(cluster_.servers)) * server_rate);
  return {2 * round, std::max({worker, server, host})};
}

std::optional<Line> CollectiveTimes::all_reduce(const std::string& name) const {
  if (name == "ring") return twice(half_of_ring(p_, flat_));
  if (name == "hierarchical") return twice(half_of_ring(g_, in_) + half_of_ring(n_, device_, 1 / g_));
  if (name == "factored") {
    Line half = half_of_ring(g_, in_);
    double done = g_, rest = n_;
    for (double factor = 2; rest > 1; ++factor)
      for (; std::fmod(rest, factor) == 0 && rest > 1; rest /= factor, done *= factor)
        half = half + half_of_ring(factor, device_, 1 / done);
    return twice(half);
  }
  if (name == "double_tree") {
    constexpr double chunk = 16 * 1024;
    const auto busiest = [](double ranks) { return ranks == 1 ? 0 : ranks >= 4 ? 2 : ranks / 2; };
    const auto fill = [&](double ranks, Wire w) { return 2 * rounds(ranks) * (w.latency + chunk / w.rate); };
    return Line{fill(g_, in_) + fill(n_, cards_), std::max(busiest(g_) / in_.rate, busiest(n_) / cards_.rate)};
  }
  if (name == "binary_tree")
    return Line{2 * (rounds(g_) * in_.latency + rounds(n_) * card_.latency),
                2 * (rounds(g_) / in_.rate + rounds(n_) / card_.rate)};
  if (name == "recursive_doubling")
    return Line{rounds(g_) * in_.latency + rounds(n_) * device_.latency,
                rounds(g_) / in_.rate + rounds(n_) / device_.rate};
  if (name == "halving_doubling")
    return Line{2 * (rounds(g_) * in_.latency + rounds(n_) * device_.latency),
                2 * ((g_ - 1) / g_ / in_.rate + (n_ - 1) / n_ / g_ / device_.rate)};
  if (name == "switchml" || name == "atp" || name == "sa_atp")
    return twice(half_of_ring(g_, in_)) + (n_ > 1 ? in_switch() : Line{});
  return std::nullopt;
}

std::optional<Line> CollectiveTimes::form(Operation op) const {
  const double servers = static_cast<double>(cluster_.servers);
  const bool separate = servers > 0;
  Wire server{cluster_.network.latency.value(),
              cluster_.network.bandwidth.value() * static_cast<double>(cluster_.nics_per_node)};
  const double whole_card = server.rate * usable_;
  if (cluster_.server_link.bandwidth.value() > 0)
    server = {cluster_.server_link.latency.value(), cluster_.server_link.bandwidth.value()};
  server.rate *= usable_;
  double share = 1;
  for (const SlowWorkers& s : cluster_.stragglers.slow) share = std::min(share, s.link_share);
  switch (op) {
    case Operation::all_reduce:
      return all_reduce(algorithm_ == "ring_or_tree" ? "ring" : algorithm_);
    case Operation::reduce_scatter:
    case Operation::all_gather: {
      const std::string name = algorithm_ == "ring_or_tree" ? "ring" : algorithm_;
      if (name != "ring" && name != "hierarchical" && name != "factored" && name != "halving_doubling")
        return std::nullopt;
      const Line both = *all_reduce(name);
      return Line{both.start / 2, both.byte / 2};
    }
    case Operation::all_to_all:
      if (algorithm_ == "bruck")
        return Line{rounds(g_) * in_.latency + rounds(n_) * device_.latency,
                    (rounds(g_) / in_.rate + rounds(n_) / device_.rate) / 2};
      if (algorithm_ != "ring" && algorithm_ != "ring_or_tree" && algorithm_ != "pairwise") return std::nullopt;
      return Line{(g_ - 1) * in_.latency + (p_ - g_) * device_.latency,
                  (g_ - 1) / p_ / in_.rate + (p_ - g_) / p_ / device_.rate};
    case Operation::send:
      return n_ > 1 ? Line{card_.latency, 1 / card_.rate} : Line{in_.latency, 1 / in_.rate};
    case Operation::push:
    case Operation::pull:
      if (n_ == 1) return Line{};
      return Line{server.latency, (separate ? std::max(1 / share, n_ / servers) : (n_ - 1) / n_ / share) / server.rate};
    case Operation::server_sum:
      if (n_ == 1 || cluster_.server_sum_rate.value() == 0) return Line{};
      return Line{0, n_ / (separate ? servers : n_) / cluster_.server_sum_rate.value()};
    case Operation::server_card:
      return n_ == 1 || !separate ? Line{} : Line{0, n_ / std::max(whole_card, server.rate)};
    case Operation::local_reduce_scatter:
    case Operation::local_all_gather: {
      const double rate = cluster_.server_local_rate.value() > 0 ? cluster_.server_local_rate.value() : in_.rate;
      const double staging =
          n_ > 1 && cluster_.server_staging_rate.value() > 0 ? 1 / cluster_.server_staging_rate.value() : 0;
      return Line{(g_ - 1) * in_.latency, (g_ - 1) / g_ / rate + staging};
    }
    case Operation::broadcast:
      break;
  }
  return std::nullopt;
}

double CollectiveTimes::packets(Operation op, double bytes) const {
  if (n_ == 1) return 0;
  const double others = n_ - 1, in_packets = bytes / cluster_.transport.packet.value();
  switch (op) {
    case Operation::all_reduce:  // there and back
      return 2 * others * in_packets;
    case Operation::reduce_scatter:
    case Operation::all_gather:
    case Operation::broadcast:
      return others * in_packets;
    case Operation::all_to_all:  // every device of n machines sends (n-1)/n of its buffer out of its machine
      return g_ * others * in_packets;
    case Operation::send:
      return n_ * in_packets;
    case Operation::push:
    case Operation::pull:
      return (cluster_.servers > 0 ? n_ : others) * in_packets;
    default:
      return 0;
  }
}

double CollectiveTimes::repairs(double packets) const {
  const double x = cluster_.transport.loss;
  if (x == 0 || packets == 0) return 0;
  // The last of N packets needs more than r trips unless each of them got through in r + 1.
  double trips = 0;
  for (double lost = x; lost > 1e-18; lost *= x) trips += 1 - std::pow(1 - lost, packets);
  return trips * 2 * cluster_.network.latency.value();
}

bool CollectiveTimes::has(Operation op) const { return form(op).has_value(); }

double CollectiveTimes::time(Operation op, double bytes) const {
  if (p_ == 1) return 0;
  const Line line = form(op).value_or(Line{});  // what an algorithm does not define is never sent
  if (line.start == 0 && line.byte == 0) return 0;
  double seconds = line(bytes);
  if (op == Operation::all_reduce && algorithm_ == "ring_or_tree") {
    Line tree = *all_reduce("double_tree");
    tree.byte = std::max(tree.byte, 1 / 65e9);
    seconds = std::min(seconds, tree(bytes));
  }
  return seconds + cluster_.message_overhead.value();
}

double CollectiveTimes::seconds(Operation op, double bytes) const { return time(op, bytes); }

double CollectiveTimes::slow_down(Operation op, double bytes) const {
  const double free = time(op, bytes);
  Cluster busy = cluster_;
  const Contention& k = cluster_.contention;
  for (Link* link : {&busy.inside, &busy.network, &busy.server_link}) link->latency *= k.latency_under_compute;
  busy.inside.bandwidth /= k.inside_under_compute;
  busy.server_local_rate /= k.inside_under_compute;
  busy.server_staging_rate /= k.inside_under_compute;
  busy.network.bandwidth /= k.network_under_compute;
  busy.server_link.bandwidth /= k.network_under_compute;
  if (busy.aggregation) {
    busy.aggregation->line_rate /= k.network_under_compute;
    busy.aggregation->round_trip *= k.latency_under_compute;
  }
  return free > 0 ? CollectiveTimes(busy, algorithm_).time(op, bytes) / free : 1;
}

Line CollectiveTimes::line() const {
  if (p_ == 1) return {};
  const std::optional<Line> defined = all_reduce(algorithm_ == "ring_or_tree" ? "double_tree" : algorithm_);
  if (!defined) return {};
  Line line = *defined;
  if (algorithm_ == "ring_or_tree") line.byte = std::max(line.byte, 1 / 65e9);
  line.start += cluster_.message_overhead.value();
  return line;
}

}  // namespace stepcast::test
