#pragma once
// LayerColumns: what the columns of somebody's table of layers mean, told by their titles.
//
// "forward_ms", "Forward Time [ms]" and "fwd" say the same; a title may end in a unit. Not modelled: other languages.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

enum class LayerRole : std::uint8_t {
  none,
  name,
  index,  ///< numbers the layers; rows of one number are tensors of one layer
  tensor,
  forward,
  backward,
  bytes,
  elements,
  dtype,
  kind,     ///< "type": of the data or of the layer, which its cells tell
  repeated  ///< "step", "rank": a table of several of them is not a table of layers
};

struct LayerColumn {
  LayerRole role = LayerRole::none;
  double unit = 0;  ///< SI units of a bare number; 0: the cell has to say
  std::string title;
};

/// The columns of a header line. Columns that describe next to a better one have no role.
[[nodiscard]] std::vector<LayerColumn> layer_columns_of(std::string_view header);
[[nodiscard]] bool has_role(const std::vector<LayerColumn>&, LayerRole);
/// A pass forward, a pass backward and a gradient.
[[nodiscard]] bool is_layer_header(const std::vector<LayerColumn>&);

}  // namespace stepcast
