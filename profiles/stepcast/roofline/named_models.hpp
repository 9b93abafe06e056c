#pragma once
// Named models: public transformers by the name that everybody knows them by, as descriptions.
//
// "llama3-8b" stands for "llama:hidden=4096,layers=32,heads=32,kv_heads=8,ffn=14336,vocab=128256,seq=8192,...", and
// "llama3-8b:seq=4096" for the same with other tokens a sample. Invariant: each name reads as a model whose number of
// parameters is the published one, within a thousandth (biases and norms that a family leaves out). Not modelled:
// sliding windows (Mistral's is as long as its samples here), norms of queries and keys (Qwen3).
#include <span>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

struct NamedModel {
  std::string_view name;         ///< lower case: "llama3-8b"
  std::string_view description;  ///< "llama:hidden=4096,..."
  double parameters;             ///< as published
  std::string_view source;
};
[[nodiscard]] std::span<const NamedModel> named_models();
/// The one of that name, in capitals or not, with or without its owner and what joins its words
/// ("meta-llama/Llama-3-8B"); null for any other text.
[[nodiscard]] const NamedModel* named_model(std::string_view name);

}  // namespace stepcast
