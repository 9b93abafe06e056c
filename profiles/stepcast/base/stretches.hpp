#pragma once
// Stretches: a set of moments, given as stretches of time that may overlap.
//
// Each moment counts once. Not modelled: taking moments away.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace stepcast {

class Stretches {
 public:
  /// In any order; cheapest in the order of the starts.
  void add(std::int64_t from, std::int64_t to) {
    if (to <= from) return;
    sorted_ &= spans_.empty() || from >= spans_.back().first;
    if (sorted_ && !spans_.empty() && from <= spans_.back().second)
      spans_.back().second = std::max(spans_.back().second, to);
    else spans_.emplace_back(from, to);
  }
  [[nodiscard]] std::int64_t length() {
    join();
    std::int64_t sum = 0;
    for (const auto& [from, to] : spans_) sum += to - from;
    return sum;
  }
  /// Length of what both sets hold.
  [[nodiscard]] std::int64_t shared_with(Stretches& other) {
    join();
    other.join();
    std::int64_t sum = 0;
    for (std::size_t a = 0, b = 0; a < spans_.size() && b < other.spans_.size();) {
      const auto &x = spans_[a], &y = other.spans_[b];
      sum += std::max<std::int64_t>(0, std::min(x.second, y.second) - std::max(x.first, y.first));
      if (x.second < y.second) ++a;
      else ++b;
    }
    return sum;
  }

 private:
  // Sorted, and none touches the next.
  void join() {
    if (sorted_) return;
    std::sort(spans_.begin(), spans_.end());
    const std::vector<std::pair<std::int64_t, std::int64_t>> all = std::exchange(spans_, {});
    sorted_ = true;
    for (const auto& [from, to] : all) add(from, to);
  }

  std::vector<std::pair<std::int64_t, std::int64_t>> spans_;
  bool sorted_ = true;
};

}  // namespace stepcast
