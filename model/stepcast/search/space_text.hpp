#pragma once
// Space text: what a search tried in each dimension, and what it did not try, in words.
//
// "best of 281,664 layouts" says nothing unless the reader knows of which: an answer names its space, what was left out
// of it by rule (other schedules, other orders of ranks) and what divisibility emptied (data degrees that do not divide
// the batch). Not modelled: how much better what was not tried would be.
#include <stepcast/search/families.hpp>

#include <span>
#include <string>
#include <vector>

namespace stepcast {

/// "tp 1 to 8, cp 1 to 32, pp 1 to 56, dp 2 to 1920, chunks 1 to 5, schedules 1f1b and interleaved".
[[nodiscard]] std::string space_text(const LayoutSpace&, std::span<const LayoutFamilies* const>);
/// What the space leaves out, most surprising first: each a phrase with the option that would try it.
[[nodiscard]] std::vector<std::string> not_tried(const LayoutSpace&, std::span<const LayoutFamilies* const>,
                                                 const Workload&, const Cluster&, double global_batch);

}  // namespace stepcast
