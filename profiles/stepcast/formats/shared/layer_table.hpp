#pragma once
// LayerTable: the costs of a model's layers as somebody tabulated them, and the profile that they make.
//
// Readers of tables fill in rows; this file holds what they share: the text of a small file as lines, numbers in
// cells, and the way from rows to a checked profile. (Cells and titles: encodings/csv.hpp.)
// A table has one time for a pass over a layer and does not say whether the host or the device spent it: it counts as
// device time. Not modelled: several steps, several workers.
#include <stepcast/base/units.hpp>
#include <stepcast/encodings/source.hpp>
#include <stepcast/profile/profile.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

/// One parameterised module or operator, with or without the parameterless ones that follow it.
struct TabledLayer {
  std::string name;
  Seconds forward, backward;
  std::vector<Tensor> tensors;  ///< `layer` is filled in later
};

struct LayerTable {
  std::string source, model, device;
  std::vector<TabledLayer> layers;            ///< in forward order
  std::vector<std::uint32_t> backward_order;  ///< empty: the forward order reversed
  Seconds optimizer, other;
  Seconds input;  ///< the step waits for its batch
  Bytes activations;
  double batch_samples = 0;
  std::string recognised;  ///< "PipeDream layer graph"
  std::vector<std::string> missing, assumed, cautions;
};

/// Throws InputError when the table makes no valid profile.
[[nodiscard]] Profile profile_of_table(LayerTable);

/// One line of a text, without its end; `number` counts from 1.
struct TextLine {
  std::size_t number = 0;
  std::string_view text;
};

/// The whole text of a small file. Damage is refused when `strict`, else said in `damage`.
class TableText {
 public:
  TableText(const Source&, const ReadOptions&);
  /// Lines that hold more than white space; comments ("# ...") apart.
  [[nodiscard]] const std::vector<TextLine>& lines() const { return lines_; }
  /// The text of comment lines, behind the #.
  [[nodiscard]] const std::vector<TextLine>& comments() const { return comments_; }
  [[nodiscard]] const std::string& damage() const { return damage_; }
  /// "table.csv:12"
  [[nodiscard]] std::string where(const TextLine& line) const { return name_ + ":" + std::to_string(line.number); }

 private:
  std::string name_, text_, damage_;
  std::vector<TextLine> lines_, comments_;
};

/// The first line that is no comment, of the first bytes of a file.
[[nodiscard]] std::string_view first_line_of(std::string_view head);
/// A name for the model from a file's path: "runs/vgg16/graph.txt" and "vgg16__trace.csv.gz" -> "vgg16".
[[nodiscard]] std::string model_name_of(std::string_view path);
/// A finite number >= 0; throws InputError naming `where` and `what` for anything else.
[[nodiscard]] double amount_of(std::string_view cell, const std::string& where, std::string_view what);
/// "", "null", "none", "-": nobody measured it. ("nan" is what went wrong in a measurement, and no number.)
[[nodiscard]] bool is_null(std::string_view cell);

}  // namespace stepcast
