#pragma once
// Tensor shapes: the "Input Dims" and "Input type" arguments of a trace event, as values.
//
// Readers keep both as raw JSON text, because most events never need them. Not modelled: the shapes of
// single tensors in a list.
#include <stepcast/base/error.hpp>
#include <stepcast/profile/profile.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace stepcast {

using TensorShape = std::vector<std::int64_t>;

/// "[[64,3,7,7],[],[64]]" -> {{64,3,7,7},{},{64}}; empty for text that is no such list. Deeper lists count as empty.
[[nodiscard]] std::vector<TensorShape> shapes_of(std::string_view dims);
[[nodiscard]] double elements_of(const TensorShape&);
/// Elements of each argument, the tensors of a list summed: "[[[64,3],[64]],[5]]" -> {256, 5}; an argument without
/// shape, such as a scalar, counts 0.
[[nodiscard]] std::vector<double> elements_of_arguments(std::string_view dims);
/// The element type of one argument in ["float","c10::Half",...].
[[nodiscard]] Answer<DataType> type_of_argument(std::string_view types, std::size_t argument);
/// The first known element type of ["float","c10::Half",...].
[[nodiscard]] Answer<DataType> known_type_of(std::string_view types);
/// The first known element type of ["float","c10::Half",...]; f32 when there is none.
[[nodiscard]] DataType first_type_of(std::string_view types);

}  // namespace stepcast
