// Each message is put on the link out of every unit that it leaves.
#include "oracles/level_traffic.hpp"

#include <algorithm>
#include <cstddef>

namespace stepcast::test {
namespace {

/// Devices of one: device, machine, unit of the first level, and so on.
std::vector<std::int64_t> block_sizes(const Cluster& c) {
  std::vector<std::int64_t> sizes{1, c.devices_per_node};
  for (const Level& level : c.levels) sizes.push_back(sizes.back() * level.units);
  return sizes;
}

/// Of the link out of a block: of a device within its machine, of a machine, of a unit of the first level, ...
double rate_out_of(const Cluster& c, std::size_t block) {
  if (block == 0) return c.inside.bandwidth.value();
  const double cards = static_cast<double>(c.nics_per_node);
  if (block == 1) return cards * c.network.bandwidth.value();
  const Level& level = c.levels[block - 1];
  double machines = 1;
  for (std::size_t k = 0; k + 1 < block; ++k) machines *= static_cast<double>(c.levels[k].units);
  return machines * cards * level.bandwidth.value() / level.oversubscription * (1 - level.background);
}

double latency_out_of(const Cluster& c, std::size_t block) {
  return block == 0   ? c.inside.latency.value()
         : block == 1 ? c.network.latency.value()
                      : c.levels[block - 1].latency.value();
}

}  // namespace

LinkBytes bytes_on_links(const Cluster& c, const Round& round) {
  const std::vector<std::int64_t> sizes = block_sizes(c);
  LinkBytes bytes;
  for (const std::int64_t size : sizes)
    bytes.of.emplace_back(static_cast<std::size_t>((c.workers() + size - 1) / size), 0.0);
  for (const LevelMessage& m : round)
    for (std::size_t b = 0; b < sizes.size(); ++b) {
      const std::int64_t from = m.from / sizes[b], to = m.to / sizes[b];
      // A device's link inside carries what stays on its machine.
      if (from != to && (b > 0 || m.from / sizes[1] == m.to / sizes[1]))
        bytes.of[b][static_cast<std::size_t>(from)] += m.bytes;
    }
  return bytes;
}

double time_of_bytes(const Cluster& c, const LinkBytes& bytes) {
  double time = 0;
  for (std::size_t b = 0; b < bytes.of.size(); ++b)
    for (const double sent : bytes.of[b])
      if (sent > 0) time = std::max(time, sent / rate_out_of(c, b));
  return time;
}

double time_of(const Cluster& c, const Rounds& rounds) {
  double time = 0;
  for (const Round& round : rounds) {
    const LinkBytes bytes = bytes_on_links(c, round);
    double latency = 0;
    for (std::size_t b = 0; b < bytes.of.size(); ++b)
      if (*std::max_element(bytes.of[b].begin(), bytes.of[b].end()) > 0)
        latency = std::max(latency, latency_out_of(c, b));
    time += latency + time_of_bytes(c, bytes);
  }
  return time;
}

Rounds ring_all_reduce(const std::vector<std::int64_t>& ranks, double m) {
  const std::size_t p = ranks.size();
  Rounds rounds(2 * (p - 1));
  for (Round& round : rounds)
    for (std::size_t i = 0; i < p; ++i) round.push_back({ranks[i], ranks[(i + 1) % p], m / static_cast<double>(p)});
  return rounds;
}

Rounds together(const std::vector<Rounds>& many) {
  Rounds rounds(many.front().size());
  for (const Rounds& one : many)
    for (std::size_t i = 0; i < rounds.size(); ++i) rounds[i].insert(rounds[i].end(), one[i].begin(), one[i].end());
  return rounds;
}

Rounds factored_all_reduce(const std::vector<std::int64_t>& factors, double m) {
  std::int64_t ranks = 1;
  for (const std::int64_t f : factors) ranks *= f;
  Rounds up;
  std::int64_t stride = 1;
  for (const std::int64_t f : factors) {
    for (std::int64_t step = 1; step < f; ++step) {
      Round round;
      for (std::int64_t r = 0; r < ranks; ++r) {
        const std::int64_t place = r / stride % f;
        round.push_back({r, r + ((place + 1) % f - place) * stride, m / static_cast<double>(stride * f)});
      }
      up.push_back(round);
    }
    stride *= f;
  }
  Rounds both = up;
  both.insert(both.end(), up.rbegin(), up.rend());
  return both;
}

Rounds pairwise_all_to_all(std::int64_t ranks, double m) {
  Rounds rounds;
  for (std::int64_t s = 1; s < ranks; ++s) {
    Round round;
    for (std::int64_t r = 0; r < ranks; ++r) round.push_back({r, r ^ s, m / static_cast<double>(ranks)});
    rounds.push_back(round);
  }
  return rounds;
}

Rounds doubling_all_reduce(std::int64_t ranks, double m) {
  Rounds rounds;
  for (std::int64_t s = 1; s < ranks; s *= 2) {
    Round round;
    for (std::int64_t r = 0; r < ranks; ++r) round.push_back({r, r ^ s, m});
    rounds.push_back(round);
  }
  return rounds;
}

Round tree_all_reduce(std::int64_t machines, std::int64_t per_node, double m) {
  Round round;
  const auto edge = [&](std::int64_t a, std::int64_t b) {
    round.push_back({a * per_node, b * per_node, m / 2});
    round.push_back({b * per_node, a * per_node, m / 2});
  };
  for (std::int64_t r = 1; r < machines; ++r) {
    // In order: rank r hangs 2^k away, k its trailing zeros, at the neighbour that has one more of them; at the one
    // below where there is none above.
    std::int64_t span = 1;
    while (r % (2 * span) == 0) span *= 2;
    const std::int64_t above = r + span, below = r - span;
    const std::int64_t parent = above < machines && below % (4 * span) == 0 ? above : below;
    edge(r, parent);
    if (machines % 2 == 0) edge(machines - 1 - r, machines - 1 - parent);
    else edge((r + 1) % machines, (parent + 1) % machines);
  }
  return round;
}

}  // namespace stepcast::test
