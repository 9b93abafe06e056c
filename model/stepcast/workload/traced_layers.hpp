#pragma once
// Traced layers: what the shapes in a profile say of each layer's matrix product and of how tensor parallelism would
// divide it.
//
// A weight of two dimensions is a product with n columns and k rows. Column- and row-wise cuts alternate so that what
// lies between them stays divided (Shoeybi et al. 2019): a product whose input is not as wide as the model closes a
// group, one whose output is not opens one, and of products from the model's width to the same width that follow one
// another the last closes the group (query, key, value | output). Not modelled: convolutions (they are not divided),
// experts, weights that are used twice.
#include <stepcast/profile/blocks.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/roofline/device.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <span>
#include <string>
#include <vector>

namespace stepcast {

struct TracedLayer {
  bool has_product = false, has_convolution = false, is_embedding = false;
  MatrixProduct product;               ///< the product of one sample; m = 0: its rows are not known
  Division division = Division::none;  ///< how the product is divided
  bool divided = false;                ///< what follows the product within the layer works on a part of its columns
  bool closes_attention = false;       ///< rows-wise product as wide as the model: the output of attention
  double divided_parameters = 0, other_parameters = 0;
};

struct TracedShapes {
  std::vector<TracedLayer> layers;  ///< one for each layer of the profile
  double hidden = 0;                ///< width of the model; 0: not known
  double sequence = 0;              ///< rows of the products of one sample; 0: not known
  std::vector<std::string> assumed;
};

/// `samples`: of the traced batch. `device`: estimates the rows from the time of the products where no shapes of
/// activations were recorded; may be null.
[[nodiscard]] TracedShapes traced_shapes(const Profile&, const ProfileBlocks&, double samples, const Device* device);

}  // namespace stepcast
