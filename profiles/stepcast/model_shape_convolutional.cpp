// Convolutional networks.
#include <stepcast/model_description.hpp>

namespace stepcast {

bool is_convolutional(std::string_view) { return false; }
ModelShape convolutional_shape(ModelDescriptionText&) { return {}; }
std::vector<std::string> model_families() { return {"gpt", "bert", "llama"}; }

}  // namespace stepcast
