#pragma once
// StepDifference: what takes longer in the second of two recordings, and whether that is noise.
//
//   slower   61.7 ms -> 66.0 ms, +7.0 %; by noise the two may differ by 0.9 %
//   exposed communication   3.27 ms -> 7.41 ms   +4.14 ms   told
//   host                    1.17 ms -> 1.22 ms   +0.05 ms   noise
//
// The steps of both are split (step_split.hpp), and part is compared with part, purpose of communication with purpose,
// and layer with layer where both have the same. How far two medians may be apart by noise follows from how much the
// steps of either vary. Invariant: the parts' differences add up to that of the steps. Not modelled: drift between
// recordings that no step shows (another clock of the device, a neighbour), which is told as a difference.
#include <stepcast/base/units.hpp>
#include <stepcast/extraction/step_split.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

enum class Change : std::uint8_t { slower, faster, noise, cannot_tell };
/// "slower", "faster", "noise", "cannot tell".
[[nodiscard]] std::string_view name_of(Change);

/// Something that both recordings have, a step of each; `doubt`: by which noise may set them apart (80 %).
struct ChangedPart {
  std::string what;
  Seconds before, after, doubt;
  Change change = Change::cannot_tell;

  [[nodiscard]] Seconds by() const { return after - before; }
};

struct StepDifference {
  StepSplit before, after;
  ChangedPart step;
  std::vector<ChangedPart> parts;          ///< of the split, the largest change first
  std::vector<ChangedPart> communication;  ///< exposed, by purpose and operation
  std::vector<ChangedPart> layers;         ///< forward and backward, the largest changes; without doubts
  std::string no_layers;                   ///< why layers are not compared; empty: they are
  std::vector<std::string> cautions;       ///< why these may be two different jobs
};

/// Throws InputError for traces without events of any duration.
[[nodiscard]] StepDifference difference_of(const Trace& before, const Trace& after);

}  // namespace stepcast
