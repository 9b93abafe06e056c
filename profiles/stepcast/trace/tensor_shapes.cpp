// Tensor shapes: a scan over brackets and digits; anything else ends the shape that it stands in.
#include <stepcast/trace/tensor_shapes.hpp>

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
    } else if ((c == '[' && depth > 2) || (c == '-' && depth == 2)) {  // no list of extents, or none of one
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

std::vector<double> elements_of_arguments(std::string_view dims) {
  std::vector<double> arguments;
  double product = 0;  // of the innermost list that is open; 0: it holds no number
  int depth = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const char c = dims[i];
    if (c == '[') {
      if (++depth == 2) arguments.push_back(0);
      product = 0;
    } else if (c == ']') {
      if (depth >= 2 && !arguments.empty()) arguments.back() += product;
      product = 0;
      --depth;
    } else if (c == '-') {
      return {};
    } else if (c >= '0' && c <= '9' && depth >= 2) {
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(dims.data() + i, dims.data() + dims.size(), value);
      if (error != std::errc()) return {};
      product = (product == 0 ? 1 : product) * double(value);
      i = std::size_t(end - dims.data()) - 1;
    }
  }
  return arguments;
}

Answer<DataType> type_of_argument(std::string_view types, std::size_t argument) {
  std::size_t at = types.find('"');
  for (std::size_t i = 0; at != std::string_view::npos; ++i) {
    const std::size_t end = types.find('"', at + 1);
    if (end == std::string_view::npos) break;
    if (i == argument) return data_type_of(types.substr(at + 1, end - at - 1));
    at = types.find('"', end + 1);
  }
  return Inapplicable{"no such argument has a type"};
}

Answer<DataType> known_type_of(std::string_view types) {
  std::size_t at = types.find('"');
  while (at != std::string_view::npos) {
    const std::size_t end = types.find('"', at + 1);
    if (end == std::string_view::npos) break;
    if (const Answer<DataType> type = data_type_of(types.substr(at + 1, end - at - 1))) return *type;
    at = types.find('"', end + 1);
  }
  return Inapplicable{"no argument has a known element type"};
}

DataType first_type_of(std::string_view types) {
  const Answer<DataType> type = known_type_of(types);
  return type ? *type : DataType::f32;
}

}  // namespace stepcast
