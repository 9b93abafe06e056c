// Every message is walked link by link.
#include "oracles/torus_traffic.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

namespace stepcast::test {
namespace {

using Place = std::vector<std::int64_t>;

Place place_of(const Torus& torus, std::int64_t unit) {
  Place place;
  for (const TorusDimension& d : torus) place.push_back(unit % d.units), unit /= d.units;
  return place;
}

std::int64_t unit_at(const Torus& torus, const Place& place) {
  std::int64_t unit = 0, stride = 1;
  for (std::size_t j = 0; j < torus.size(); ++j) unit += place[j] * stride, stride *= torus[j].units;
  return unit;
}

/// Links from `a` to `b` along a dimension that way, or -1 where the line ends before.
std::int64_t links_between(const TorusDimension& d, std::int64_t a, std::int64_t b, int way) {
  const std::int64_t straight = way > 0 ? b - a : a - b;
  if (straight >= 0) return straight;
  // Two units have one link, so that nothing leads around.
  return d.closed && d.units > 2 ? straight + d.units : -1;
}

/// The unit it leaves, the dimension, the way.
using LinkId = std::tuple<std::int64_t, std::size_t, int>;

class Walk {
 public:
  explicit Walk(const Torus& torus) : torus_(torus) {}

  void along(const TorusMessage& m) { along(m, 0, place_of(torus_, m.from), m.bytes); }
  std::map<LinkId, double> links;
  std::int64_t longest = 0;

 private:
  void along(const TorusMessage& m, std::size_t j, Place at, double bytes, std::int64_t passed = 0) {
    if (j == torus_.size()) {
      longest = std::max(longest, passed);
      return;
    }
    const std::int64_t goal = place_of(torus_, m.to)[j];
    if (at[j] == goal) return along(m, j + 1, at, bytes, passed);
    const std::int64_t up = links_between(torus_[j], at[j], goal, 1), down = links_between(torus_[j], at[j], goal, -1);
    const auto go = [&](int way, std::int64_t count, double part) {
      Place here = at;
      for (std::int64_t i = 0; i < count; ++i) {
        links[{unit_at(torus_, here), j, way}] += part;
        here[j] = (here[j] + way + torus_[j].units) % torus_[j].units;
      }
      along(m, j + 1, here, part, passed + count);
    };
    if (m.way != 0) return go(m.way, m.way > 0 ? up : down, bytes);
    if (up == down) return go(1, up, bytes / 2), go(-1, down, bytes / 2);
    if (down < 0 || (up >= 0 && up < down)) return go(1, up, bytes);
    go(-1, down, bytes);
  }
  const Torus& torus_;
};

}  // namespace

std::int64_t units_of(const Torus& torus) {
  std::int64_t units = 1;
  for (const TorusDimension& d : torus) units *= d.units;
  return units;
}

LinkLoad load_of(const Torus& torus, const TorusPhase& phase) {
  Walk walk(torus);
  for (const TorusMessage& m : phase) walk.along(m);
  LinkLoad load;
  for (const auto& [link, bytes] : walk.links) load.fullest = std::max(load.fullest, bytes), load.total += bytes;
  return load;
}

std::int64_t longest_way(const Torus& torus, const TorusPhase& phase) {
  Walk walk(torus);
  for (const TorusMessage& m : phase) walk.along(m);
  return walk.longest;
}

TorusPhase ring_half(const Torus& torus, double m) {
  TorusPhase phase;
  const std::int64_t p = units_of(torus);
  for (std::int64_t step = 1; step < p; ++step)
    for (std::int64_t r = 0; r < p; ++r) phase.push_back({r, (r + 1) % p, m / static_cast<double>(p)});
  return phase;
}

std::vector<TorusPhase> bucket_half(const Torus& torus, double m) {
  const std::size_t k = torus.size();
  std::vector<double> of_part(k, m / static_cast<double>(k));
  std::vector<TorusPhase> phases(k);
  for (std::size_t t = 0; t < k; ++t)
    for (std::size_t part = 0; part < k; ++part) {
      const std::size_t j = (part + t) % k;
      const TorusDimension d = torus[j];
      const bool both = d.closed && d.units > 2;
      const double piece = of_part[part] / static_cast<double>(d.units) / (both ? 2 : 1);
      for (std::int64_t step = 1; step < d.units; ++step)
        for (std::int64_t r = 0; r < units_of(torus); ++r)
          for (const int way : both ? std::vector<int>{1, -1} : std::vector<int>{1}) {
            Place to = place_of(torus, r);
            to[j] = (to[j] + way + d.units) % d.units;
            // The end of a line sends its part back along it.
            phases[t].push_back({r, unit_at(torus, to), piece, both ? way : 0});
          }
      of_part[part] /= static_cast<double>(d.units);
    }
  return phases;
}

TorusPhase all_to_all(const Torus& torus, double m) {
  TorusPhase phase;
  const std::int64_t p = units_of(torus);
  for (std::int64_t a = 0; a < p; ++a)
    for (std::int64_t b = 0; b < p; ++b)
      if (a != b) phase.push_back({a, b, m / static_cast<double>(p)});
  return phase;
}

}  // namespace stepcast::test
