// Tensor shapes: a scan over brackets and digits; anything else ends the shape that it stands in.
#include <stepcast/tensor_shapes.hpp>

#include <charconv>

namespace stepcast {

std::vector<TensorShape> shapes_of(std::string_view dims) {
  std::vector<TensorShape> shapes;
  int depth = 0;
  bool nested = false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const char c = dims[i];
    if (c == '[' && ++depth == 2) {
      shapes.emplace_back();
      nested = false;
    } else if (c == '[' && depth > 2) {
      shapes.back().clear();
      nested = true;
    } else if (c == ']') {
      --depth;
    } else if (c >= '0' && c <= '9' && depth == 2 && !nested) {
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(dims.data() + i, dims.data() + dims.size(), value);
      if (error != std::errc()) return {};
      shapes.back().push_back(value);
      i = std::size_t(end - dims.data()) - 1;
    }
  }
  return shapes;
}

double elements_of(const TensorShape& shape) {
  double product = 1;
  for (const std::int64_t d : shape) product *= double(d);
  return product;
}

DataType first_type_of(std::string_view types) {
  std::size_t at = types.find('"');
  while (at != std::string_view::npos) {
    const std::size_t end = types.find('"', at + 1);
    if (end == std::string_view::npos) break;
    if (const Answer<DataType> type = data_type_of(types.substr(at + 1, end - at - 1))) return *type;
    at = types.find('"', end + 1);
  }
  return DataType::f32;
}

}  // namespace stepcast
