#pragma once
// AscendLists: shapes and types as Ascend's profiler writes them, "64,3;\r\n64;\r\n", into the lists of PyTorch,
// [[64,3],[64],[]].
//
// Internal to the library.
#include <string>
#include <string_view>

namespace stepcast {

/// `raw` is a JSON string without its quotes; a list that was written as text stays as it is.
[[nodiscard]] std::string shapes_of_ascend(std::string_view raw);
[[nodiscard]] std::string types_of_ascend(std::string_view raw);

}  // namespace stepcast
