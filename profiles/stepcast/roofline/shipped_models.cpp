// Shipped models: parameter names and shapes of well-known networks, for traces that were recorded without shapes.
//
// Schema "stepcast.model/1": name, provenance, parameters in forward order with shape and the module that they belong
// to. The texts are compiled into the program (embedded.hpp) and checked like any other input.
#include <stepcast/base/embedded.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/json_node.hpp>
#include <stepcast/roofline/shipped_models.hpp>

namespace stepcast {
namespace {

constexpr std::string_view model_schema = "stepcast.model/1";

Tensor parameter_of_json(const JsonNode& entry) {
  entry.require_keys({"name", "shape", "module"});
  Tensor tensor;
  tensor.name = entry.at("name").text();
  tensor.layer = static_cast<std::uint32_t>(entry.at("module").integer());
  double elements = 1;
  for (const JsonNode& extent : entry.at("shape").elements("a list of extents")) {
    tensor.shape.push_back(extent.integer());
    if (tensor.shape.back() < 1) extent.refuse("an extent of at least 1");
    elements *= double(tensor.shape.back());
  }
  tensor.size = Bytes(elements * size_of(tensor.dtype));
  return tensor;
}

ModelDescription model_of_json(std::string_view text, std::string_view source) {
  const JsonNode::Json json = parsed_json(text, source);
  const JsonNode document(json, std::string(source) + "#");
  document.require_keys({"schema", "name", "provenance", "parameters"});
  if (document.at("schema").text() != model_schema) document.at("schema").refuse(in_quotes(model_schema));
  ModelDescription model;
  model.name = document.at("name").text();
  model.provenance = document.at("provenance").text();
  for (const JsonNode& entry : document.at("parameters").elements("a list of parameters"))
    model.parameters.push_back(parameter_of_json(entry));
  return model;
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
