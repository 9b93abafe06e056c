// Layer CSV: one row a layer, in forward order, written by hand or by anyone's script.
//
//   # model: my-net          comment lines may name model, device, batch, optimizer ("3 ms"), other, and
//   # order: backward        the order of the rows, when the layer whose gradient is ready first comes first
//   name,forward_ms,backward_ms,bytes
//   "conv1, 7x7",0.31,0.62,37632
//
// Columns are known by their names, in any order and case, other columns are left alone: the layer (name, layer,
// layer_index), its passes (forward, fwd, forward_pass, ... with a unit: ns, us, ms, s) and its gradient (bytes, size,
// or a count of elements: numel, elements, params; with an optional dtype, else 4 bytes each). "forward_ms",
// "Forward time [ms]" and a column "forward" with cells like "0.3 ms" say the same. Separators are comma, semicolon or
// tab. A row that repeats the layer and the times of the row above is a further tensor of that layer, counted once; a
// last row of sums is no layer. A column that numbers steps, runs or workers has to hold one and the same.
// The order of SwitchML's dnn_benchmark (layer_index, numel, forward_pass_ns, backward_pass_ns) is one such table.
#include <stepcast/base/error.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/csv.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/shared/layer_columns.hpp>
#include <stepcast/formats/shared/layer_table.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>

namespace stepcast::format::layer_csv {
namespace {

bool recognises(std::string_view head) {
  const std::string_view line = first_line_of(head);
  return !line.empty() && line.front() != '{' && line.front() != '[' && is_layer_header(layer_columns_of(line));
}

struct Row {
  std::string name, index, tensor;
  std::optional<Seconds> forward, backward;
  std::optional<Bytes> size;
  DataType dtype = DataType::f32;
  bool dtype_said = false;
};

class LayerCsv {
 public:
  LayerCsv(const Source& source, const ReadOptions& options) : options_(options), text_(source, options) {
    table_.source = source.name;
  }

  Profile read() {
    read_comments();
    const std::vector<TextLine>& lines = text_.lines();
    if (lines.empty()) throw InputError(table_.source, "a header and rows", "nothing but comments");
    separator_ = separator_of(lines.front().text);
    read_header(lines.front());
    for (std::size_t i = 1; i < lines.size(); ++i) {
      if (is_layer_header(layer_columns_of(lines[i].text))) {
        leave_out_block(lines[i]);
        break;
      }
      add(row_of(lines[i]), lines[i]);
    }
    if (table_.layers.empty())
      throw InputError(text_.where(lines.front()), "rows below the header", "the end of the file");
    finish();
    return profile_of_table(std::move(table_));
  }

 private:
  void read_comments() {
    for (const TextLine& comment : text_.comments()) {
      const std::size_t colon = comment.text.find(':');
      if (colon == std::string_view::npos) continue;
      const std::string key = words_of_header(comment.text.substr(0, colon));
      const std::string value(trimmed(comment.text.substr(colon + 1)));
      const std::string where = text_.where(comment);
      if (key == "model") table_.model = value;
      if (key == "device") table_.device = value;
      if (key == "batch") table_.batch_samples = samples_in(value, where);
      if (key == "optimizer") table_.optimizer = seconds_of(value, where);
      if (key == "other") table_.other = seconds_of(value, where);
      if (key != "order") continue;
      if (value != "forward" && value != "backward") throw InputError(where, "order: forward or backward", value);
      backward_first_ = value == "backward";
    }
  }

  static double samples_in(const std::string& value, const std::string& where) {
    const double samples = amount_of(value, where, "number of samples");
    if (samples <= 0) throw InputError(where, "a positive number of samples", in_quotes(value));
    return samples;
  }

  void read_header(const TextLine& line) {
    columns_ = layer_columns_of(line.text);
    for (const LayerRole role : {LayerRole::name, LayerRole::index, LayerRole::tensor, LayerRole::forward,
                                 LayerRole::backward, LayerRole::bytes, LayerRole::elements}) {
      if (std::ranges::count(columns_, role, &LayerColumn::role) < 2) continue;
      const auto first = std::ranges::find(columns_, role, &LayerColumn::role);
      const auto second = std::find_if(first + 1, columns_.end(), [&](const LayerColumn& c) { return c.role == role; });
      throw InputError(text_.where(line), "every quantity in one column", first->title + " and " + second->title);
    }
    if (!has_role(columns_, LayerRole::name) && !has_role(columns_, LayerRole::index))
      table_.missing.push_back("names of layers: rows are numbered");
  }

  Row row_of(const TextLine& line) {
    const std::vector<std::string> cells = cells_of(line.text, separator_);
    const std::string where = text_.where(line);
    if (cells.size() != columns_.size())
      throw InputError(where, std::to_string(columns_.size()) + " cells as in the header",
                       std::to_string(cells.size()));
    Row row;
    std::optional<double> elements;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      LayerColumn& column = columns_[i];
      const std::string& cell = cells[i];
      switch (column.role) {
        case LayerRole::none:
          break;
        case LayerRole::name:
          row.name = cell;
          break;
        case LayerRole::index:
          row.index = cell;
          break;
        case LayerRole::tensor:
          row.tensor = cell;
          break;
        case LayerRole::forward:
          row.forward = time_of(cell, column, where);
          break;
        case LayerRole::backward:
          row.backward = time_of(cell, column, where);
          break;
        case LayerRole::bytes:
          row.size = size_in(cell, column, where);
          break;
        case LayerRole::elements:
          if (!is_null(cell)) elements = amount_of(cell, where, "number of elements");
          break;
        case LayerRole::kind:
          // The first row shows whether these are types of data ("float32") or of layers ("Conv2d").
          if (is_null(cell)) break;
          column.role = data_type_of(cell) ? LayerRole::dtype : LayerRole::none;
          if (column.role == LayerRole::dtype) read_dtype(cell, where, row);
          break;
        case LayerRole::repeated:
          check_repeated(cell, i, where);
          break;
        case LayerRole::dtype:
          read_dtype(cell, where, row);
          break;
      }
    }
    if (!row.size && elements) row.size = Bytes(*elements * size_of(row.dtype));
    return row;
  }

  /// Rows of several steps or workers are measurements, of which a table of layers holds the means.
  void check_repeated(const std::string& cell, std::size_t column, const std::string& where) {
    const auto [first, is_new] = repeated_.try_emplace(column, cell);
    if (!is_new && first->second != cell)
      throw InputError(where, "the layers of one step of one worker",
                       "'" + first->second + "' and '" + cell + "' in column " + columns_[column].title,
                       "give the rows of one, or means over all");
  }

  static void read_dtype(const std::string& cell, const std::string& where, Row& row) {
    if (is_null(cell)) return;
    const Answer<DataType> type = data_type_of(cell);
    if (!type) throw InputError(where, "a data type such as float32", in_quotes(cell));
    row.dtype = *type;
    row.dtype_said = true;
  }

  static std::optional<Seconds> time_of(const std::string& cell, const LayerColumn& column, const std::string& where) {
    if (is_null(cell)) return std::nullopt;
    if (column.unit > 0) return Seconds(amount_of(cell, where, "time") * column.unit);
    try {
      return seconds_of(cell, where);
    } catch (const InputError&) {
      throw InputError(where, "a time with its unit", in_quotes(cell), "or name the column " + column.title + "_ms");
    }
  }

  static std::optional<Bytes> size_in(const std::string& cell, const LayerColumn& column, const std::string& where) {
    if (is_null(cell)) return std::nullopt;
    if (column.unit > 0) return Bytes(amount_of(cell, where, "size") * column.unit);
    try {
      return bytes_of(cell, where);
    } catch (const InputError&) {
      throw InputError(where, "a size with its unit", in_quotes(cell), "or name the column bytes");
    }
  }

  void add(Row row, const TextLine& line) {
    if (row.name.empty()) row.name = !row.index.empty() ? row.index : "layer " + std::to_string(table_.layers.size());
    const bool nulls = !row.forward || !row.backward;
    const bool same_layer =
        !table_.layers.empty() && (row.index.empty() ? table_.layers.back().name == row.name : index_ == row.index);
    index_ = row.index;
    if (same_layer) {
      const TabledLayer& above = table_.layers.back();
      if ((row.forward && *row.forward != above.forward) || (row.backward && *row.backward != above.backward))
        throw InputError(text_.where(line), "one time for layer '" + row.name + "'", "two different ones",
                         "give every layer a name of its own");
      ++shared_times_;
    } else {
      if (nulls) {
        if (options_.strict) throw InputError(text_.where(line), "both times of layer '" + row.name + "'", "a null");
        ++null_times_;
      }
      table_.layers.push_back({row.name, row.forward.value_or(Seconds()), row.backward.value_or(Seconds()), {}});
    }
    if (!row.size || row.size->value() == 0) return;
    TabledLayer& layer = table_.layers.back();
    Tensor tensor;
    const std::size_t n = layer.tensors.size();
    tensor.name = !row.tensor.empty() ? row.tensor : n == 0 ? row.name : row.name + " (" + std::to_string(n + 1) + ")";
    tensor.dtype = row.dtype;
    tensor.size = *row.size;
    all_f32_ &= !row.dtype_said;
    layer.tensors.push_back(std::move(tensor));
  }

  void leave_out_block(const TextLine& line) {
    if (options_.strict) throw InputError(text_.where(line), "one table in the file", "a second header");
    table_.assumed.push_back("the first table is meant; a second one from line " + std::to_string(line.number) +
                             " on is left out");
  }

  /// Spreadsheets sum up below. "total" is never a layer; "sum" and "mean" may be one and have to fit the rows above.
  void leave_out_sum() {
    if (table_.layers.size() < 3) return;
    const TabledLayer& last = table_.layers.back();
    const std::string words = words_of_header(last.name);
    const bool mean = words == "mean" || words == "average" || words == "avg";
    const bool total = words == "total" || words == "totals" || words == "overall";
    if (!mean && !total && words != "sum") return;
    Seconds forward, backward;
    for (const TabledLayer& layer : std::span(table_.layers).first(table_.layers.size() - 1)) {
      forward += layer.forward;
      backward += layer.backward;
    }
    const double share = mean ? 1 / static_cast<double>(table_.layers.size() - 1) : 1;
    const auto near = [&](Seconds one, Seconds sum) {
      return std::abs(one.value() - share * sum.value()) <= 0.01 * share * sum.value();
    };
    if (!total && (!near(last.forward, forward) || !near(last.backward, backward))) return;
    table_.assumed.push_back("the last row, '" + last.name + "', sums up the others and is no layer");
    table_.layers.pop_back();
  }

  void finish() {
    leave_out_sum();
    if (backward_first_) std::ranges::reverse(table_.layers);
    table_.assumed.push_back(backward_first_ ? "gradients are ready in the order of the rows, as the file says"
                                             : "rows are in forward order; gradients are ready in the reverse order");
    if (all_f32_) table_.assumed.push_back("gradients have 4 bytes an element");
    if (shared_times_ > 0)
      table_.assumed.push_back(counted(shared_times_, "row") +
                               " below one of the same layer: further tensors of it, its time counted once");
    if (null_times_ > 0)
      table_.cautions.push_back("a time of " + counted(null_times_, "layer") + " is missing and counted as 0");
    if (!text_.damage().empty()) table_.missing.push_back("the end of the file: " + text_.damage());
    const bool switchml =
        columns_.size() == 4 && columns_.front().title == "layer_index" && columns_.back().title == "backward_pass_ns";
    table_.recognised = switchml ? "layer CSV of SwitchML's dnn_benchmark" : "layer CSV";
  }

  const ReadOptions& options_;
  TableText text_;
  LayerTable table_;
  std::vector<LayerColumn> columns_;
  std::map<std::size_t, std::string> repeated_;  ///< first cell of such a column
  std::string index_;                            ///< of the row above
  char separator_ = ',';
  bool backward_first_ = false, all_f32_ = true;
  std::size_t shared_times_ = 0, null_times_ = 0;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.profiles.push_back(LayerCsv(source, options).read());
  return reading;
}

}  // namespace

Format record() {
  return {"layer-csv", "Table of layers: name, forward_ms, backward_ms, bytes (or numel); any order and unit",
          "scripts of users; p4lang/p4app-switchML dnn_benchmark", recognises, read};
}

}  // namespace stepcast::format::layer_csv
