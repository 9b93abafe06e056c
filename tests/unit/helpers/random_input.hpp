#pragma once
// Seeded random profiles and clusters for laws and differential tests. All times are whole microseconds, so that sums
// are exact in picoseconds.
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/profile/profile.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <string_view>

namespace stepcast::test {

class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  int whole(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  double log_uniform(double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(engine_));
  }
  double between(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine_); }
  bool coin() { return whole(0, 1) == 1; }
  std::mt19937& engine() { return engine_; }

 private:
  std::mt19937 engine_;
};

/// A number of a name (FNV-1a, 32 bits) and a salt, the same on every machine.
inline std::uint32_t hash_of(std::string_view name, std::uint32_t salt) {
  std::uint32_t hash = 2166136261u ^ salt;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  hash ^= hash >> 16;
  return hash * 2246822507u;
}

/// Draws of one round for what has this name: who else is in its list, and where it stands there, changes none.
inline Draw draw_of(unsigned seed, int round, std::string_view name) {
  return Draw(hash_of(name, seed * 1000003u + static_cast<unsigned>(round)));
}

/// One of a family by its name: a newcomer takes some cases, and the others stay.
template <class Family>
const auto& any_of(Draw& draw, const Family& family) {
  const auto salt = static_cast<std::uint32_t>(draw.engine()());
  return *std::max_element(family.begin(), family.end(),
                           [&](const auto& a, const auto& b) { return hash_of(a.name, salt) < hash_of(b.name, salt); });
}

struct ProfileShape {
  int most_layers = 8;
  bool device = false;  ///< two streams
  int most_time_us = 3000;
  double most_bytes = 8e6;
  bool packs = false;  ///< the worker does something for its messages
};

inline Profile random_profile(Draw& draw, const ProfileShape& shape = {}) {
  Profile p;
  p.model = "random";
  p.provenance = "random";
  if (shape.device) p.device = "device";
  const int layers = draw.whole(1, shape.most_layers);
  const auto cost = [&](int most) {
    PassCost c;
    const Seconds a = microseconds(draw.whole(0, most)), b = microseconds(draw.whole(0, most));
    c.host = a;
    if (shape.device) c.device = b;
    return c;
  };
  for (int l = 0; l < layers; ++l)
    p.layers.push_back({"layer" + std::to_string(l), cost(shape.most_time_us), cost(shape.most_time_us)});
  p.backward_order.resize(p.layers.size());
  std::iota(p.backward_order.rbegin(), p.backward_order.rend(), 0u);
  if (layers > 2 && draw.whole(0, 3) == 0) std::swap(p.backward_order[0], p.backward_order[1]);
  for (const std::uint32_t l : p.backward_order)
    for (int t = draw.whole(l == p.backward_order.front() ? 1 : 0, 3); t > 0; --t) {
      Tensor tensor;
      tensor.name = "t" + std::to_string(p.tensors.size());
      tensor.shape = {static_cast<std::int64_t>(draw.log_uniform(1, shape.most_bytes / 4))};
      tensor.size = Bytes(4.0 * static_cast<double>(tensor.shape[0]));
      tensor.layer = l;
      p.tensors.push_back(tensor);
    }
  p.optimizer = cost(shape.most_time_us / 4);
  p.other = cost(shape.most_time_us / 8);
  if (shape.packs) {
    for (Tensor& tensor : p.tensors) tensor.packing = cost(100);
    p.communication = {cost(200), cost(200), microseconds(draw.whole(0, 100))};
  }
  p.host_waits_for_device = shape.device && draw.coin();
  p.step_times = {compute_time(p), compute_time(p)};
  return p;
}

inline Cluster random_cluster(Draw& draw, std::int64_t most_nodes = 16) {
  Cluster c;
  c.name = "random";
  c.nodes = draw.whole(1, static_cast<int>(most_nodes));
  c.devices_per_node = draw.coin() ? 1 : draw.whole(1, 8);
  c.inside = {microseconds(draw.whole(0, 20)), BytesPerSecond(draw.log_uniform(1e9, 3e11))};
  c.network = {microseconds(draw.whole(0, 100)), BytesPerSecond(draw.log_uniform(1e7, 5e10))};
  c.message_overhead = microseconds(draw.whole(0, 50));
  c.servers = draw.coin() ? 0 : draw.whole(1, 8);
  c.provenance = {"random"};
  return c;
}

}  // namespace stepcast::test
