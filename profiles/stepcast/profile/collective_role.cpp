// CollectiveRole: its names in JSON and for people.
#include <stepcast/profile/collective_role.hpp>

namespace stepcast {
namespace {

struct RoleWords {
  std::string_view name, words;
};
constexpr RoleWords role_words[collective_roles] = {
    {"gradient_bucket", "gradients"},
    {"gradient_scatter", "gradients to their owners"},
    {"parameter_gather_forward", "parameters for the forward pass"},
    {"parameter_gather_backward", "parameters for the backward pass"},
    {"gather_after_update", "updated parameters"},
    {"within_layer", "within a layer"},
    {"pipeline", "between pipeline stages"},
    {"all_to_all", "tokens or embeddings"},
    {"buffers", "buffers"},
    {"metrics", "metrics"},
    {"barrier", "nothing but waiting"},
    {"unknown", "role unknown"},
};

}  // namespace

std::string_view name_of(CollectiveRole role) { return role_words[static_cast<std::size_t>(role)].name; }
std::string_view words_of(CollectiveRole role) { return role_words[static_cast<std::size_t>(role)].words; }

}  // namespace stepcast
