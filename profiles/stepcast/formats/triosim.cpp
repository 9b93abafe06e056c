// TrioSim: the operators of one training step (trace.csv) and their tensors (tensor.csv), as its tracer writes them.
//
//   OperatorID,OperatorName,Operator_input,Operator_output,Operator_cudatime,Operator_cudatimenooverlap,InputSize,
//       OutputSize,gpuid,stage,tpflag                                                               (one line)
//   1,aten::conv2d,[4; 6; 8],[14],2673,2671,[19267584; 1728; 64],[411041792],0,forward,1
//   Index,TensorID,TensorShape,TensorNumElement,TensorEachByte,TensorType,TensorStorgeid,gpuid
//   1,6,"[64, 3, 3, 3]",1728,4,weight,7,0
//
// Both tables in one text, in either order; joined_tables.hpp makes one of two files. A parameter is a tensor of type
// weight or bias that a forward operator reads; such an operator is a layer, the operators without parameters belong to
// the layer before them (forward) or behind them (backward). A backward operator belongs to the layer whose weight it
// reads, or (matrix products read a transposed view) to the last open layer with a weight of that size. The time is
// "nooverlap", so that kernels side by side count once. Not modelled: tensor parallelism, more than one GPU.
// Written by sarchlab/triosim tracer/.
#include <stepcast/base/error.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/shared/joined_tables.hpp>
#include <stepcast/formats/shared/layer_table.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>

namespace stepcast::format::triosim {
namespace {

constexpr std::string_view operator_header = "OperatorID,OperatorName,";
constexpr std::string_view tensor_header = "Index,TensorID,TensorShape,";

bool recognises(std::string_view head) {
  const std::string_view line = first_line_of(head);
  return line.starts_with(operator_header) || line.starts_with(tensor_header);
}

/// Positions of named columns; throws for one that is absent.
template <std::size_t n>
std::array<std::size_t, n> columns_in(const TextLine& header, const std::string& where,
                                      const std::array<const char*, n>& names) {
  const std::vector<std::string> titles = cells_of(header.text, ',');
  std::array<std::size_t, n> columns;
  for (std::size_t i = 0; i < n; ++i) {
    const auto found = std::ranges::find(titles, names[i]);
    if (found == titles.end()) throw InputError(where, "a column " + std::string(names[i]), "none");
    columns[i] = static_cast<std::size_t>(found - titles.begin());
  }
  return columns;
}

class OperatorTable {
 public:
  OperatorTable(const Source& source, const ReadOptions& options) : name_(source.name), text_(source, options) {}

  Profile read() {
    split();
    for (std::size_t i = 1; i < tensor_lines_.size(); ++i) add_tensor(tensor_lines_[i]);
    for (std::size_t i = 1; i < operator_lines_.size(); ++i) add_operator(operator_lines_[i]);
    finish();
    return profile_of_table(std::move(table_));
  }

 private:
  struct Parameter {
    std::int64_t elements = 0;
    double element_size = 4;
    bool bias = false, used = false;
  };

  void split() {
    std::vector<TextLine>* block = nullptr;
    for (const TextLine& line : text_.lines()) {
      const bool operators = line.text.starts_with(operator_header), tensors = line.text.starts_with(tensor_header);
      if (operators || tensors) {
        block = operators ? &operator_lines_ : &tensor_lines_;
        if (!block->empty()) throw InputError(text_.where(line), "one table of each kind", "a second header");
      }
      if (block != nullptr) block->push_back(line);
    }
    const std::string expected = "TrioSim's operator table and its tensor table";
    if (operator_lines_.empty())
      throw InputError(name_, expected, "the tensor table alone, which holds no times",
                       "give trace.csv and tensor.csv of the run together");
    if (tensor_lines_.empty())
      throw InputError(name_, expected, "the operator table alone, which does not say what is a parameter",
                       "give trace.csv and tensor.csv of the run together");
    tensor_columns_ = columns_in<5>(tensor_lines_[0], text_.where(tensor_lines_[0]),
                                    {"TensorID", "TensorNumElement", "TensorEachByte", "TensorType", "TensorShape"});
    operator_columns_ = columns_in<7>(
        operator_lines_[0], text_.where(operator_lines_[0]),
        {"OperatorName", "Operator_input", "Operator_cudatimenooverlap", "InputSize", "stage", "gpuid", "OperatorID"});
    tensor_width_ = cells_of(tensor_lines_[0].text, ',').size();
    operator_width_ = cells_of(operator_lines_[0].text, ',').size();
  }

  std::vector<std::string> row_of(const TextLine& line, std::size_t width) const {
    std::vector<std::string> cells = cells_of(line.text, ',');
    if (cells.size() == width) return cells;
    throw InputError(text_.where(line), std::to_string(width) + " cells as in the header",
                     std::to_string(cells.size()));
  }

  std::int64_t whole(const std::string& cell, const TextLine& line) const {
    return integer_of(cell, text_.where(line), 0, std::numeric_limits<std::int64_t>::max() / 16);
  }

  void add_tensor(const TextLine& line) {
    const std::vector<std::string> cells = row_of(line, tensor_width_);
    const auto& [id, elements, size, type, shape] = tensor_columns_;
    const bool bias = cells[type].starts_with("bias");
    if (!bias && !cells[type].starts_with("weight")) return;
    Parameter parameter{whole(cells[elements], line), double(whole(cells[size], line)), bias};
    parameters_.try_emplace(whole(cells[id], line), parameter);
  }

  std::vector<std::int64_t> list_of(std::string_view cell, const TextLine& line) const {
    if (!cell.starts_with('[') || !cell.ends_with(']'))
      throw InputError(text_.where(line), "a list in brackets", "'" + std::string(cell.substr(0, 40)) + "'");
    std::vector<std::int64_t> numbers;
    cell = trimmed(cell.substr(1, cell.size() - 2));
    if (cell.empty()) return numbers;
    for (const std::string& number : cells_of(cell, ';')) numbers.push_back(whole(number, line));
    return numbers;
  }

  void add_operator(const TextLine& line) {
    const std::vector<std::string> cells = row_of(line, operator_width_);
    const auto& [name, inputs, time, sizes, stage, gpu, id] = operator_columns_;
    if (gpu_.empty()) gpu_ = cells[gpu];
    if (cells[gpu] != gpu_) {
      ++other_gpus_;
      return;
    }
    const Seconds cost = microseconds(amount_of(cells[time], text_.where(line), "time in us"));
    if (cells[stage] == "optimizer") {
      table_.optimizer += cost;
    } else if (cells[stage] == "forward") {
      add_forward(cells[id] + " " + cells[name], list_of(cells[inputs], line), cost);
    } else if (cells[stage] == "backward") {
      add_backward(list_of(cells[inputs], line), list_of(cells[sizes], line), cost);
    } else {
      throw InputError(text_.where(line), "stage forward, backward or optimizer", "'" + cells[stage] + "'");
    }
  }

  void add_forward(const std::string& name, const std::vector<std::int64_t>& inputs, Seconds cost) {
    TabledLayer layer{name, cost, {}, {}};
    std::vector<std::int64_t> weights;
    for (const std::int64_t input : inputs) {
      const auto found = parameters_.find(input);
      if (found == parameters_.end() || found->second.used) continue;
      Parameter& parameter = found->second;
      parameter.used = true;
      weights.push_back(input);
      Tensor tensor;
      tensor.name = name + (parameter.bias ? ".bias" : ".weight");
      tensor.size = Bytes(double(parameter.elements) * parameter.element_size);
      layer.tensors.push_back(std::move(tensor));
    }
    if (weights.empty() && !table_.layers.empty()) {
      table_.layers.back().forward += cost;
      return;
    }
    if (!table_.layers.empty() && table_.layers.back().tensors.empty()) {
      // What precedes the first layer with parameters belongs to it.
      layer.forward += table_.layers.back().forward;
      table_.layers.back() = std::move(layer);
      weights_.back() = std::move(weights);
    } else {
      table_.layers.push_back(std::move(layer));
      weights_.push_back(std::move(weights));
      done_.push_back(false);
    }
    for (const std::int64_t weight : weights_.back())
      layer_of_weight_[weight] = std::uint32_t(table_.layers.size() - 1);
  }

  void add_backward(const std::vector<std::int64_t>& inputs, const std::vector<std::int64_t>& sizes, Seconds cost) {
    waiting_ += cost;
    const std::uint32_t layer = layer_of(inputs, sizes);
    if (layer == no_index) return;
    table_.layers[layer].backward += waiting_;
    waiting_ = Seconds();
    if (done_[layer]) return;
    done_[layer] = true;
    table_.backward_order.push_back(layer);
  }

  std::uint32_t layer_of(const std::vector<std::int64_t>& inputs, const std::vector<std::int64_t>& sizes) const {
    const auto among = [](const std::vector<std::int64_t>& all, std::int64_t one) {
      return std::ranges::find(all, one) != all.end();
    };
    std::uint32_t last = no_index;
    for (const std::int64_t input : inputs)
      if (const auto found = layer_of_weight_.find(input); found != layer_of_weight_.end())
        last = last == no_index ? found->second : std::max(last, found->second);
    if (last != no_index) return last;
    if (inputs.size() != 1) return no_index;  // not a matrix product with a transposed weight alone
    for (auto layer = static_cast<std::uint32_t>(weights_.size()); layer-- > 0;)
      for (const std::int64_t weight : weights_[layer])
        if (!done_[layer] && among(sizes, parameters_.at(weight).elements)) return layer;
    return no_index;
  }

  void finish() {
    table_.source = name_;
    if (table_.layers.empty())
      throw InputError(name_, "forward operators with parameters", "none in the operator table");
    std::size_t unmatched = 0;
    for (std::uint32_t layer = static_cast<std::uint32_t>(done_.size()); layer-- > 0;) {
      if (done_[layer]) continue;
      table_.backward_order.push_back(layer);
      ++unmatched;
    }
    table_.layers[table_.backward_order.back()].backward += waiting_;
    if (unmatched > 0)
      table_.missing.push_back("the backward pass of " + counted(unmatched, "layer") +
                               ": its gradients count as ready last");
    if (!text_.damage().empty()) table_.missing.push_back("the end of the file: " + text_.damage());
    if (other_gpus_ > 0)
      table_.assumed.push_back("GPU " + gpu_ + " stands for all; " + counted(other_gpus_, "operator") +
                               " of others left out");
    table_.assumed.push_back("times are microseconds (the table does not say)");
    table_.assumed.push_back("operators without parameters belong to the layer before them");
    table_.recognised = "TrioSim operator and tensor tables";
  }

  std::string name_;
  TableText text_;
  LayerTable table_;
  std::vector<TextLine> operator_lines_, tensor_lines_;
  std::array<std::size_t, 5> tensor_columns_{};
  std::array<std::size_t, 7> operator_columns_{};
  std::size_t tensor_width_ = 0, operator_width_ = 0, other_gpus_ = 0;
  std::unordered_map<std::int64_t, Parameter> parameters_;  ///< by tensor id
  std::vector<std::vector<std::int64_t>> weights_;          ///< by layer: ids of its parameters
  std::unordered_map<std::int64_t, std::uint32_t> layer_of_weight_;
  std::vector<bool> done_;  ///< by layer: its backward operator was met
  Seconds waiting_;         ///< backward operators since the last layer's
  std::string gpu_;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.profiles.push_back(OperatorTable(source, options).read());
  return reading;
}

}  // namespace

Format record() {
  return {"triosim", "Operator and tensor tables of TrioSim's tracer (trace.csv and tensor.csv together)",
          "sarchlab/triosim tracer", recognises, read};
}

std::optional<std::string> joined_tables(std::span<const Source> files) {
  if (files.size() != 2) return std::nullopt;
  std::array<std::string, 2> texts;
  std::size_t operators = 0, tensors = 0;
  ReadOptions strict;
  strict.strict = true;
  for (std::size_t i = 0; i < 2; ++i) {
    PlainText plain(files[i].bytes);
    std::string head(4096, '\0');
    head.resize(plain.read(head));
    operators += first_line_of(head).starts_with(operator_header);
    tensors += first_line_of(head).starts_with(tensor_header);
    texts[i] = std::move(head);
  }
  if (operators != 1 || tensors != 1) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i) {
    const TableText text(files[i], strict);
    texts[i].clear();
    for (const TextLine& line : text.lines()) texts[i].append(line.text) += '\n';
  }
  return texts[0] + texts[1];
}

}  // namespace stepcast::format::triosim
