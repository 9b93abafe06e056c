#pragma once
// Gathered codes: operators that several compressors are: the signs of all elements, or a selection of elements, sent
// to all workers.
//
// Example: signSGD gathers a bit an element, top-k gathers a hundredth of the elements with an index each.
#include <stepcast/modifiers/shared/compression.hpp>

namespace stepcast {

/// Gathers the signs of all elements and `extra` a tensor; its options are values, speed, overlap. `voted`: a server
/// sends signs back, else its sum.
[[nodiscard]] Answer<CommPlan> signs_gathered(CommPlan, const ModifierInput&, Pace encoding, Pace decoding, Bytes extra,
                                              bool voted);
/// Gathers `fraction` of the elements, each with an index of `index` bytes. Encoding looks at `all` elements and takes
/// the `kept` ones; decoding adds those.
struct Selection {
  double fraction = 1;
  Bytes index{4};
  Pace all, kept;
};
[[nodiscard]] Answer<CommPlan> selection_gathered(CommPlan, const ModifierInput&, const Selection&, double speed,
                                                  bool overlapped);

}  // namespace stepcast
