// The table of tensor schemes (tensor_schemes/), and the volume of a ring.
#include <stepcast/layout/tensor_scheme.hpp>

#include <algorithm>

namespace stepcast {

#define STEPCAST_MEMBER(name)       \
  namespace scheme::name {          \
  extern const TensorScheme record; \
  }
#include <stepcast/tensor_schemes/tensor_schemes.inc>
#undef STEPCAST_MEMBER

std::span<const TensorScheme> tensor_schemes() {
  static const TensorScheme all[] = {
#define STEPCAST_MEMBER(name) scheme::name::record,
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

}  // namespace stepcast
