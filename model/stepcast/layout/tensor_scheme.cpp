// The table of tensor schemes (tensor_schemes/), and the volume of a ring.
#include <stepcast/layout/tensor_scheme.hpp>

#include <algorithm>

namespace stepcast {

#define STEPCAST_MEMBER(member) extern const TensorScheme tensor_scheme_##member;
#include <stepcast/tensor_schemes/tensor_schemes.inc>
#undef STEPCAST_MEMBER

std::span<const TensorScheme> tensor_schemes() {
  static const TensorScheme all[] = {
#define STEPCAST_MEMBER(member) tensor_scheme_##member,
#include <stepcast/tensor_schemes/tensor_schemes.inc>
#undef STEPCAST_MEMBER
  };
  return all;
}

const TensorScheme* tensor_scheme(std::string_view name) {
  const auto all = tensor_schemes();
  const auto found = std::find_if(all.begin(), all.end(), [&](const TensorScheme& s) { return s.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Bytes ring_volume(const TensorTransfer& transfer) {
  const double members = static_cast<double>(transfer.members);
  const double half = (members - 1) / members;
  const double volume = transfer.operation == Operation::all_reduce ? 2 * half
                        : transfer.operation == Operation::send     ? 1
                                                                    : half;
  return transfer.size * (transfer.count * volume);
}

}  // namespace stepcast
