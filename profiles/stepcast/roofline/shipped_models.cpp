// Shipped models: parameter names and shapes of well-known networks, for traces that were recorded without shapes.
//
// Schema "stepcast.model/1": name, provenance, parameters in forward order with shape and the module that they belong
// to. The texts are compiled into the program (embedded.hpp) and checked like any other input.
#include <stepcast/base/embedded.hpp>
#include <stepcast/roofline/shipped_models.hpp>

#include <nlohmann/json.hpp>

#include <utility>

namespace stepcast {
namespace {

using Json = JsonNode::Json;

Tensor parameter_of_json(const Json& entry, std::string_view source) {
  Tensor tensor;
  tensor.name = entry.at("name").get<std::string>();
  tensor.layer = entry.at("module").get<std::uint32_t>();
  double elements = 1;
  for (const Json& d : entry.at("shape")) {
    tensor.shape.push_back(d.get<std::int64_t>());
    if (tensor.shape.back() < 1) throw InputError(std::string(source), "dimensions >= 1", d.dump());
    elements *= double(tensor.shape.back());
  }
  tensor.size = Bytes(elements * size_of(tensor.dtype));
  return tensor;
}

ModelDescription model_of_json(std::string_view text, std::string_view source) {
  try {
    const Json json = Json::parse(text);
    if (json.at("schema") != "stepcast.model/1")
      throw InputError(std::string(source), "schema 'stepcast.model/1'", json.at("schema").dump());
    ModelDescription model;
    model.name = json.at("name").get<std::string>();
    model.provenance = json.at("provenance").get<std::string>();
    for (const Json& entry : json.at("parameters")) model.parameters.push_back(parameter_of_json(entry, source));
    return model;
  } catch (const Json::exception& e) { throw InputError(std::string(source), "a model description", e.what()); }
}

std::vector<ModelDescription> parsed_models() {
  std::vector<ModelDescription> models;
  for (const EmbeddedFile& file : shipped_model_texts()) models.push_back(model_of_json(file.text, file.name));
  return models;
}

}  // namespace

const std::vector<ModelDescription>& shipped_models() {
  static const std::vector<ModelDescription> models = parsed_models();
  return models;
}

const ModelDescription* shipped_model(std::string_view name) {
  for (const ModelDescription& model : shipped_models())
    if (model.name == name) return &model;
  return nullptr;
}

}  // namespace stepcast
