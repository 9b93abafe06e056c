#pragma once
// XlaLanes: a track each for asynchronous operations that run at the same time, so that on no track events overlap.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace stepcast {

class XlaLanes {
 public:
  static constexpr std::int64_t open_end = std::numeric_limits<std::int64_t>::max();

  /// The first lane that is free from `start_ns` on; taken until `end_ns`. Operations come in order of their starts.
  std::size_t take(std::int64_t start_ns, std::int64_t end_ns) {
    constexpr std::size_t most = 256;  // starts whose end was not recorded must not make every search long
    const auto free = std::ranges::find_if(ends_, [&](std::int64_t end) { return end <= start_ns; });
    const std::size_t lane = std::min<std::size_t>(free - ends_.begin(), most - 1);
    if (lane == ends_.size()) ends_.push_back(end_ns);
    ends_[lane] = end_ns;
    return lane;
  }
  void give_back(std::size_t lane, std::int64_t end_ns) { ends_[lane] = end_ns; }

 private:
  std::vector<std::int64_t> ends_;
};

}  // namespace stepcast
