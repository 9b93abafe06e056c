// Backward gaps: when each gradient of a model is ready, as training-bottleneck's layerwise_bk_done.py logs it.
//
//   first line is for explaination; sec line: # of batches; 3rd line:# of layers; first col: time wait for ...
//   1
//   58
//   483.539,4000          microseconds since the gradient before, bytes; in the order in which gradients are ready
//
// Several batches follow one another and are averaged. Gradients without a gap to the one before belong to its layer.
// There are no forward times; forward passes are taken as half of the backward passes, and the profile says so.
#include <stepcast/base/error.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/shared/layer_table.hpp>

#include <algorithm>

namespace stepcast::format::backward_gaps {
namespace {

constexpr std::string_view first_words = "first line is for expla";

bool recognises(std::string_view head) { return first_line_of(head).starts_with(first_words); }

struct Gap {
  Seconds time;
  Bytes size;
};

std::vector<Gap> averaged_gaps(const Source& source, const TableText& text, const ReadOptions& options,
                               LayerTable& table) {
  const std::vector<TextLine>& lines = text.lines();
  if (lines.size() < 4) throw InputError(source.name, "three header lines and rows", "fewer than four lines");
  const auto count = [&](const TextLine& line) {
    return static_cast<std::size_t>(integer_of(line.text, text.where(line), 1, 10'000'000));
  };
  const std::size_t batches = count(lines[1]), gradients = count(lines[2]), rows = lines.size() - 3;
  const std::size_t complete = rows / gradients;
  if (rows != batches * gradients) {
    const std::string found = std::to_string(rows) + " rows for " + std::to_string(batches) + " batches of " +
                              std::to_string(gradients) + " gradients";
    if (options.strict || complete == 0 || rows > batches * gradients)
      throw InputError(source.name, std::to_string(batches * gradients) + " rows", found);
    table.missing.push_back("rows: " + found + "; incomplete batches are left out");
  }
  std::vector<Gap> gaps(gradients);
  for (std::size_t i = 0; i < complete * gradients; ++i) {
    const TextLine& line = lines[3 + i];
    const std::vector<std::string> cells = cells_of(line.text, ',');
    if (cells.size() != 2)
      throw InputError(text.where(line), "'gap in us, bytes'", std::to_string(cells.size()) + " cells");
    const Bytes size(amount_of(cells[1], text.where(line), "size in bytes"));
    Gap& gap = gaps[i % gradients];
    if (i >= gradients && gap.size != size)
      throw InputError(text.where(line), "the size of the first batch", text_of(size));
    gap.size = size;
    gap.time += microseconds(amount_of(cells[0], text.where(line), "time in us")) / double(complete);
  }
  return gaps;
}

Reading read(const Source& source, const ReadOptions& options) {
  const TableText text(source, options);
  LayerTable table;
  const std::vector<Gap> gaps = averaged_gaps(source, text, options, table);
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const std::string name = "gradient " + std::to_string(i);
    if (gaps[i].time.value() > 0 || table.layers.empty())
      table.layers.push_back({name, gaps[i].time * 0.5, gaps[i].time, {}});
    if (gaps[i].size.value() == 0) continue;
    Tensor tensor;
    tensor.name = name;
    tensor.size = gaps[i].size;
    table.layers.back().tensors.push_back(std::move(tensor));
  }
  std::ranges::reverse(table.layers);
  table.source = source.name;
  table.recognised = "backward-gap log of training-bottleneck";
  table.missing.push_back("forward times");
  table.missing.push_back("names of layers");
  if (!text.damage().empty()) table.missing.push_back("the end of the file: " + text.damage());
  table.assumed.push_back("the forward pass of a layer takes half of its backward pass");
  table.assumed.push_back("gradients that follow without a gap belong to one layer, 4 bytes an element");
  Reading reading;
  reading.profiles.push_back(profile_of_table(std::move(table)));
  return reading;
}

}  // namespace

Format record() {
  return {"backward-gaps", "Times between gradients (*.bk.log)", "netx-repo/training-bottleneck layerwise_bk_done.py",
          recognises, read};
}

}  // namespace stepcast::format::backward_gaps
