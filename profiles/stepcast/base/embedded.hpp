#pragma once
// Embedded files: the JSON texts that the program carries, so that an installed stepcast finds them anywhere.
#include <span>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

struct EmbeddedFile {
  std::string_view name;  ///< file name without extension
  std::string_view text;
};
[[nodiscard]] std::span<const EmbeddedFile> shipped_model_texts();
[[nodiscard]] std::span<const EmbeddedFile> shipped_kernel_texts();
[[nodiscard]] std::span<const EmbeddedFile> shipped_cluster_texts();
[[nodiscard]] std::span<const EmbeddedFile> shipped_device_texts();
[[nodiscard]] std::span<const EmbeddedFile> shipped_schema_texts();   ///< JSON schemas of what --json writes
[[nodiscard]] std::span<const EmbeddedFile> shipped_case_texts();     ///< validation suites
[[nodiscard]] std::span<const EmbeddedFile> shipped_profile_texts();  ///< profiles of published runs, for validation

}  // namespace stepcast
