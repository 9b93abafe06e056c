// Partitions by dynamic programming over units and devices, keeping those that nothing beats.
#include <stepcast/placement/cuts.hpp>

#include <algorithm>
#include <tuple>

namespace stepcast {
namespace {

// A partition of the first units over the first devices, and the one that it continues.
struct Part {
  double sum = 0, largest = 0;
  std::uint32_t from_device = 0, from_units = 0, from_part = 0;
};

class Cuts {
 public:
  explicit Cuts(const PartitionInput& in) : in_(in), n_(in.units.size()), frontiers_(in.order.size() * (n_ + 1)) {
    work_.push_back(0);
    memory_.push_back(0);
    for (const PlacedUnit& u : in.units) {
      work_.push_back(work_.back() + (u.forward + u.backward).value());
      memory_.push_back(memory_.back() + u.memory.value());
    }
    for (const std::uint32_t d : in.order) fastest_ = std::max(fastest_, in.cluster->devices[d].speed);
  }

  std::vector<Partition> partitions() {
    std::vector<Place> ends;
    for (std::uint32_t k = 0; k < in_.order.size(); ++k) {
      for (std::uint32_t j = 1; j <= n_; ++j) fill(k, j);
      for (std::uint32_t i = 0; i < frontier(k, n_).size(); ++i) ends.push_back({k, i});
    }
    std::vector<Partition> out;
    for (const Place& end : undominated(ends)) out.push_back(partition(end));
    std::stable_sort(out.begin(), out.end(),
                     [](const Partition& a, const Partition& b) { return a.closed_form < b.closed_form; });
    return out;
  }

 private:
  struct Place {
    std::uint32_t device, part;
  };

  std::vector<Part>& frontier(std::uint32_t k, std::size_t j) { return frontiers_[k * (n_ + 1) + j]; }
  const UnequalDevice& device(std::uint32_t k) const { return in_.cluster->devices[in_.order[k]]; }
  double closed_form(const Part& p) const { return p.sum + (in_.rounds - 1) * p.largest; }

  // All partitions whose last stage is device k of the order and ends with unit j.
  void fill(std::uint32_t k, std::uint32_t j) {
    candidates_.clear();
    for (std::uint32_t i = 0; i < j; ++i) {
      const double memory = memory_[j] - memory_[i], room = device(k).memory.value();
      if (room > 0 && memory > room) continue;
      const double compute = (work_[j] - work_[i]) / device(k).speed;
      if (i == 0) consider({compute, compute, none, 0, 0}, j);
      else continued(k, i, j, compute);
    }
    reduce(frontier(k, j));
  }

  void continued(std::uint32_t k, std::uint32_t i, std::uint32_t j, double compute) {
    for (std::uint32_t before = k; before-- > 0;) {
      const auto& parts = frontier(before, i);
      if (!parts.empty()) {
        const std::size_t link = in_.cluster->pair(in_.order[before], in_.order[k]);
        const double bare = (in_.units[i - 1].boundary / in_.cluster->bandwidth[link]).value();
        if (bare <= in_.largest_send.value()) {
          const double once = in_.cluster->latency[link].value() + std::min(bare, in_.compressed_send.value());
          const double longest = std::max(compute, 2 * once);
          for (std::uint32_t p = 0; p < parts.size(); ++p)
            consider({parts[p].sum + 2 * once + compute, std::max(parts[p].largest, longest), before, i, p}, j);
        }
      }
      if (in_.like[in_.order[before]] == in_.like[in_.order[k]]) break;  // leaving it out for this one gains nothing
    }
  }

  void consider(const Part& p, std::uint32_t j) {
    const double rest = (work_[n_] - work_[j]) / fastest_;
    if (closed_form(p) + rest < in_.worth_less_than.value()) candidates_.push_back(p);
  }

  void reduce(std::vector<Part>& out) {
    std::sort(candidates_.begin(), candidates_.end(), [](const Part& a, const Part& b) {
      return std::tie(a.sum, a.largest, a.from_device, a.from_units, a.from_part) <
             std::tie(b.sum, b.largest, b.from_device, b.from_units, b.from_part);
    });
    for (const Part& p : candidates_)
      if (out.empty() || p.largest < out.back().largest) out.push_back(p);
  }

  std::vector<Place> undominated(std::vector<Place> ends) {
    const auto part = [&](const Place& e) -> const Part& { return frontier(e.device, n_)[e.part]; };
    std::stable_sort(ends.begin(), ends.end(), [&](const Place& a, const Place& b) {
      return std::tie(part(a).sum, part(a).largest) < std::tie(part(b).sum, part(b).largest);
    });
    std::vector<Place> out;
    for (const Place& e : ends)
      if (out.empty() || part(e).largest < part(out.back()).largest) out.push_back(e);
    return out;
  }

  Partition partition(Place end) {
    Partition out;
    auto units = static_cast<std::uint32_t>(n_);
    out.closed_form = Seconds(closed_form(frontier(end.device, units)[end.part]));
    for (;;) {
      const Part& p = frontier(end.device, units)[end.part];
      out.device.push_back(in_.order[end.device]);
      out.units.push_back(units - p.from_units);
      if (p.from_device == none) break;
      end = {p.from_device, p.from_part};
      units = p.from_units;
    }
    std::reverse(out.device.begin(), out.device.end());
    std::reverse(out.units.begin(), out.units.end());
    return out;
  }

  static constexpr std::uint32_t none = 0xffffffffu;
  const PartitionInput& in_;
  std::size_t n_;
  std::vector<std::vector<Part>> frontiers_;
  std::vector<Part> candidates_;
  std::vector<double> work_, memory_;  // of the first units
  double fastest_ = 0;
};

}  // namespace

std::vector<Partition> best_partitions(const PartitionInput& in) { return Cuts(in).partitions(); }

}  // namespace stepcast
