#pragma once
// Tensor shapes: the "Input Dims" and "Input type" arguments of a trace event, as values.
//
// Readers keep both as raw JSON text, because most events never need them. Not modelled: shapes of tensor lists.
#include <stepcast/profile.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace stepcast {

using TensorShape = std::vector<std::int64_t>;

/// "[[64,3,7,7],[],[64]]" -> {{64,3,7,7},{},{64}}; empty for text that is no such list. Deeper lists count as empty.
[[nodiscard]] std::vector<TensorShape> shapes_of(std::string_view dims);
[[nodiscard]] double elements_of(const TensorShape&);
/// The first known element type of ["float","c10::Half",...]; f32 when there is none.
[[nodiscard]] DataType first_type_of(std::string_view types);

}  // namespace stepcast
