#pragma once
// PipelineOrder: all passes of a schedule, merged from the orders of its devices into one that respects every
// dependency.
//
// The forward pass of a virtual stage waits for that of the stage before, the backward pass (or the input gradient) for
// that of the stage after; what a device itself has to do before stands before it in the device's own order. Building
// it is the proof that a schedule does every pass once and has no deadlock. Not modelled: passes that hand on to a
// device that is no neighbour.
#include <stepcast/pipeline/pipeline.hpp>

#include <cstdint>
#include <vector>

namespace stepcast {

struct OrderedPass {
  static constexpr std::uint32_t none = 0xffffffffu;
  enum Output : std::uint8_t { to_next, to_previous, to_none };

  PipelineSlot slot;
  std::uint32_t device = 0, virtual_stage = 0;
  std::uint32_t position = 0;  ///< its place in its device's order
  std::uint32_t input = none;  ///< number of the pass whose result it waits for
  std::uint32_t receiver = 0;  ///< device that its result goes to; its own: nothing is sent
  Output output = to_none;     ///< link that takes its result; with two devices there is only `to_next`
  /// A whole backward pass which a forward pass follows on its device, or that forward pass.
  bool beside = false;
};

/// Takes the passes in order; they are numbered from 0.
class PassTaker {
 public:
  virtual ~PassTaker() = default;
  virtual void expect(std::size_t passes) = 0;
  virtual void take(const OrderedPass&) = 0;
};
/// Hands all passes to `taker`. Empty, or why the schedule does not suit the shape (or how its order is broken).
[[nodiscard]] std::string order_passes(const PipelineSchedule&, const PipelineShape&, PassTaker& taker);

inline std::uint32_t virtual_stages(const PipelineSchedule& schedule, const PipelineShape& shape) {
  return shape.stages * (shape.chunks / schedule.copies);
}

}  // namespace stepcast
