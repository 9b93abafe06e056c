#pragma once
// RecordedCollective: what PyTorch's record_param_comms says of ranks and sizes, and what of it is not meant as it
// stands. For the readers of both files that it goes into, the profiler's trace and the execution trace.
//
// Internal to the library.
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepcast {

/// Collectives with a root, and transfers between two, say the other's rank as theirs.
[[nodiscard]] bool tells_own_rank(std::string_view collective);

/// Until 2.5, PyTorch counted elements in 32 bits. Puts back the multiples of 2^32 that sign and group size show to be
/// missing; true when it did.
bool restore_counts(std::string_view collective, std::int64_t group_size, std::int64_t& in, std::int64_t& out);

/// The rank of a process among all, from its places in process groups.
class OwnRank {
 public:
  /// Its place in the group, whose ranks are first, first + stride, ... where stride > 0. `collective` as above.
  void add(std::string_view collective, std::string_view group, std::string_view description, std::int64_t place,
           std::int64_t first, std::int64_t stride);
  /// -1: nothing tells.
  [[nodiscard]] std::int64_t among(const std::vector<ProcessGroup>&) const;

 private:
  std::vector<std::pair<std::string, std::int64_t>> places_;  ///< each group once
  std::int64_t rank_ = -1;
};

}  // namespace stepcast
