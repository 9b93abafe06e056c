#pragma once
// PipelineOrder: all passes of a schedule, merged from the orders of its devices into one that respects every
// dependency.
//
// The forward pass of a virtual stage waits for that of the stage before, the backward pass (or the input gradient) for
// that of the stage after; what a device itself has to do before stands before it in the device's own order. Building
// it is the proof that a schedule does every pass once and has no deadlock. Not modelled: passes that hand on to a
// device that is no neighbour.
#include <stepcast/pipeline.hpp>

#include <cstdint>
#include <vector>

namespace stepcast {

struct OrderedPass {
  static constexpr std::uint32_t none = 0xffffffffu;
  enum Output : std::uint8_t { to_next, to_previous, to_none };

  PipelineSlot slot;
  std::uint32_t device = 0, virtual_stage = 0;
  std::uint32_t position = 0;  ///< in the order of its device
  std::uint32_t input = none;  ///< index of the pass whose result it waits for
  std::uint32_t receiver = 0;  ///< device that its result goes to; its own: nothing is sent
  Output output = to_none;     ///< link that takes its result; with two devices there is only `to_next`
};

struct PipelineOrder {
  PipelineShape shape;
  std::uint32_t virtual_stages = 1;
  std::vector<OrderedPass> passes;
  std::vector<std::uint32_t> first, last;  ///< pass of each device
};
/// Inapplicable when the schedule does not suit the shape, or if its order were broken.
[[nodiscard]] Answer<PipelineOrder> pipeline_order(const PipelineSchedule&, const PipelineShape&);

}  // namespace stepcast
