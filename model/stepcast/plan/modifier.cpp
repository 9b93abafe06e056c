// The lookup of a modifier by its name.
#include <stepcast/plan/modifier.hpp>

namespace stepcast {

const Modifier* modifier_named(std::string_view name) {
  for (const Modifier& m : modifiers())
    if (m.name == name) return &m;
  return nullptr;
}

}  // namespace stepcast
