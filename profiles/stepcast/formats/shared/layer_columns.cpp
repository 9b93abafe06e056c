// LayerColumns: words of the title, its unit taken off.
#include <stepcast/formats/shared/layer_columns.hpp>
#include <stepcast/formats/shared/layer_table.hpp>

#include <algorithm>
#include <initializer_list>
#include <span>

namespace stepcast {
namespace {

struct Unit {
  std::string_view word;
  double factor;
};
constexpr Unit time_units[] = {{"ns", 1e-9},   {"us", 1e-6},           {"usec", 1e-6},        {"ms", 1e-3},
                               {"msec", 1e-3}, {"microseconds", 1e-6}, {"nanoseconds", 1e-9}, {"s", 1},
                               {"sec", 1},     {"seconds", 1},         {"milliseconds", 1e-3}};
constexpr Unit size_units[] = {{"bytes", 1}, {"byte", 1},   {"b", 1},         {"kb", 1e3},        {"mb", 1e6},
                               {"gb", 1e9},  {"kib", 1024}, {"mib", 1048576}, {"gib", 1073741824}};

/// Takes the last word off if it is a unit: "size in bytes" becomes "size".
double take_unit(std::string& words, std::span<const Unit> units) {
  const std::size_t space = words.rfind(' ');
  const std::string last = space == std::string::npos ? words : words.substr(space + 1);
  for (const Unit& unit : units) {
    if (unit.word != last) continue;
    words.resize(space == std::string::npos ? 0 : space);
    if (words.ends_with(" in")) words.resize(words.size() - 3);
    return unit.factor;
  }
  return 0;
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
  const double time = take_unit(words, time_units);
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
  column.unit = take_unit(words, size_units);
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
