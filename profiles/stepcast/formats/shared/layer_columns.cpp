// LayerColumns: words of the title, its unit taken off.
#include <stepcast/encodings/csv.hpp>
#include <stepcast/formats/shared/layer_columns.hpp>
#include <stepcast/formats/shared/layer_table.hpp>

#include <algorithm>
#include <initializer_list>

namespace stepcast {
namespace {

/// Takes the last word off if it is a unit: "size in bytes" becomes "size".
double take_unit(std::string& words, std::optional<double> (*per_unit)(std::string_view)) {
  const std::size_t space = words.rfind(' ');
  const std::optional<double> factor = per_unit(std::string_view(words).substr(space + 1));  // npos + 1 = 0
  if (!factor) return 0;
  words.resize(space == std::string::npos ? 0 : space);
  if (words.ends_with(" in")) words.resize(words.size() - 3);
  return *factor;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

bool is_pass(std::string_view words, std::string_view pass, std::string_view brief, std::string_view letter) {
  for (const std::string_view of_runs : {"mean ", "avg ", "average ", "median "})
    if (words.starts_with(of_runs)) words.remove_prefix(of_runs.size());
  if (words.starts_with(pass)) words.remove_prefix(pass.size());
  else if (words.starts_with(brief)) words.remove_prefix(brief.size());
  else return words == letter;
  return is_one_of(words, {"", " pass", " time", " pass time", " compute time", " compute", " cost", " duration",
                           " latency", " mean", " avg", " median"});
}

LayerRole described(std::string_view words) {
  if (is_one_of(words, {"name", "layer", "layer name", "module", "op", "operator"})) return LayerRole::name;
  if (is_one_of(words, {"layer index", "layer id", "layer idx", "index", "idx", "id"})) return LayerRole::index;
  if (is_one_of(words, {"tensor", "tensor name", "parameter name", "param name"})) return LayerRole::tensor;
  if (is_one_of(words, {"dtype", "data type"})) return LayerRole::dtype;
  if (words == "type") return LayerRole::kind;
  if (is_one_of(words, {"epoch", "step", "iteration", "iter", "run", "trial", "repeat", "rank", "worker", "gpu id"}))
    return LayerRole::repeated;
  return LayerRole::none;
}

LayerColumn column_of(std::string_view cell) {
  LayerColumn column;
  column.title = cell;
  std::string words = words_of_header(cell);
  const double time = take_unit(words, seconds_per_unit);
  column.role = is_pass(words, "forward", "fwd", "fp")    ? LayerRole::forward
                : is_pass(words, "backward", "bwd", "bp") ? LayerRole::backward
                                                          : LayerRole::none;
  if (column.role != LayerRole::none) {
    column.unit = time;
    return column;
  }
  words = words_of_header(cell);
  if (is_one_of(words, {"numel", "elements", "params", "parameters", "num params", "num parameters", "param count",
                        "num elements", "n params", "n elements", "parameter count", "element count"})) {
    column.role = LayerRole::elements;
    return column;
  }
  column.role = described(words);
  if (column.role != LayerRole::none) return column;
  column.unit = take_unit(words, bytes_per_unit);
  if (is_one_of(words, {"", "size", "gradient", "grad", "gradient size", "grad size", "parameter", "param", "params",
                        "parameters", "parameter size", "param size", "parameter memory", "param memory", "weight",
                        "weights", "tensor", "tensor size"}) &&
      (column.unit > 0 || words.ends_with("size")))
    column.role = LayerRole::bytes;
  return column;
}

}  // namespace

std::vector<LayerColumn> layer_columns_of(std::string_view header) {
  std::vector<LayerColumn> columns;
  for (const std::string& cell : cells_of(header, separator_of(header))) columns.push_back(column_of(cell));
  const auto drop = [&](auto unwanted) {
    for (LayerColumn& column : columns)
      if (unwanted(column)) column.role = LayerRole::none;
  };
  const auto is_operator = [](const LayerColumn& column) {
    return column.role == LayerRole::name && is_one_of(words_of_header(column.title), {"op", "operator"});
  };
  if (std::ranges::count(columns, LayerRole::name, &LayerColumn::role) > std::ranges::count_if(columns, is_operator))
    drop(is_operator);
  if (has_role(columns, LayerRole::dtype)) drop([](const LayerColumn& c) { return c.role == LayerRole::kind; });
  return columns;
}

bool has_role(const std::vector<LayerColumn>& columns, LayerRole role) {
  return std::ranges::count(columns, role, &LayerColumn::role) > 0;
}

bool is_layer_header(const std::vector<LayerColumn>& columns) {
  return has_role(columns, LayerRole::forward) && has_role(columns, LayerRole::backward) &&
         (has_role(columns, LayerRole::bytes) || has_role(columns, LayerRole::elements));
}

}  // namespace stepcast
