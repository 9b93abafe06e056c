// ZB-V: each device holds two chunks that lie in a V, device d the virtual stages d and 2Z - 1 - d, so that the last
// device turns a micro-batch round by itself and the first has the model's both ends. Backward passes are split, weight
// gradients behind their input gradients but at the end, where they fill the bubble.
//
//   f = i = w    bubble  max(Z - 1, 4(Z - 1) - 2(m - 1)) f/2, the first of both from 2Z - 1 micro-batches on
//   kept         min(Z, (m + 1)/2) micro-batches on the first device, up to min(Z, m) on others
//
// f, i and w of both chunks of a device; for m >= 2Z - 1 that is a sixth of 1F1B's bubble, of which nothing but the way
// to the last device and back is left. Where the three differ there is no closed form here: the bubble grows. The order
// is PyTorch's (ScheduleZBVZeroBubble), for 2Z - 1 micro-batches where there are fewer, of which those that do not
// exist are left out; the paper's own is searched for the times at hand. Not modelled: what splitting a backward pass
// costs.
//
// 3 stages of 2 chunks, 6 micro-batches, f = i = w (digits forward, letters input, capitals weight gradients):
//     |012340aA1bB2cC5aA3dDbB4eEcC5fFdDeEfF..
//     |.012031aA2bB4aA3cC5bB4dDcC5eEdfeDfEFF.
//     |..001122aA3aA3bB4bB4cC5cC5dDdeeffDEFEF
#include <stepcast/pipelines/orders.hpp>

#include <array>
#include <limits>

namespace stepcast::pipeline::zb_v {
namespace {

std::string unsuitable(const PipelineShape& shape) {
  return shape.chunks == 2 ? "" : "a device holds two chunks of the model (chunks=2)";
}

std::uint32_t place(const PipelineShape& shape, std::uint32_t stage, std::uint32_t chunk) {
  return chunk == 0 ? stage : 2 * shape.stages - 1 - stage;
}

/// Passes of the micro-batches that there are, each kind of each chunk in order.
class Slots {
 public:
  explicit Slots(std::uint32_t micro_batches) : micro_batches_(micro_batches) {
    all_.reserve(6 * std::size_t{micro_batches});
  }

  void add(PipelinePass pass, std::uint32_t chunk) {
    const std::uint32_t micro_batch = done(pass, chunk)++;
    if (micro_batch < micro_batches_) all_.push_back({pass, chunk, micro_batch});
  }
  void add_backward(std::uint32_t chunk) {
    add(PipelinePass::input_gradient, chunk);
    add(PipelinePass::weight_gradient, chunk);
  }
  [[nodiscard]] std::uint32_t& done(PipelinePass pass, std::uint32_t chunk) {
    return done_[chunk][static_cast<std::size_t>(pass)];
  }
  [[nodiscard]] std::vector<PipelineSlot> all() && { return std::move(all_); }

 private:
  std::uint32_t micro_batches_;
  std::array<std::array<std::uint32_t, 4>, 2> done_{};
  std::vector<PipelineSlot> all_;
};

std::vector<PipelineSlot> order(const PipelineShape& shape, std::uint32_t stage) {
  constexpr PipelinePass forward = PipelinePass::forward, input = PipelinePass::input_gradient,
                         weight = PipelinePass::weight_gradient;
  const std::uint32_t counted = std::max(2 * shape.stages - 1, shape.micro_batches), behind = shape.stages - stage;
  Slots slots(shape.micro_batches);
  for (std::uint32_t j = 0; j < 2 * behind - 1; ++j) slots.add(forward, 0);
  for (std::uint32_t j = 0; j < stage; ++j) slots.add(forward, 1), slots.add(forward, 0);
  for (std::uint32_t j = 0; j < behind; ++j) slots.add(forward, 1), slots.add_backward(1);
  while (slots.done(forward, 1) < slots.done(forward, 0) || slots.done(forward, 0) < counted) {
    if (slots.done(forward, 0) < counted) slots.add(forward, 0);
    slots.add_backward(0);
    slots.add(forward, 1);
    slots.add_backward(1);
  }
  for (std::uint32_t j = 0; j < stage; ++j) slots.add(input, 0), slots.add(input, 1);
  for (std::uint32_t j = 0; j < behind; ++j) slots.add_backward(0);
  for (const std::uint32_t chunk : {1u, 0u})
    while (slots.done(weight, chunk) < slots.done(input, chunk)) slots.add(weight, chunk);
  return std::move(slots).all();
}

TextbookPipeline textbook(const PipelineShape& shape, Seconds f, Seconds i, Seconds w) {
  const double z = shape.stages, m = shape.micro_batches, kept = std::min(z, (m + 1) / 2);
  if (f == i && i == w) return with_bubble(shape, 3 * f, std::max(z - 1, 4 * (z - 1) - 2 * (m - 1)) * f / 2, kept);
  const Seconds unknown(std::numeric_limits<double>::quiet_NaN());
  return {unknown, unknown, kept};
}

}  // namespace

extern constinit const PipelineSchedule record{"zb_v",
                                               "zero bubble V",
                                               "two chunks in a V on each device, and weight gradients in the bubble",
                                               "Qi et al., ICLR 2024 (arXiv 2401.10241), section 6; PyTorch's order",
                                               unsuitable,
                                               order,
                                               place,
                                               1,
                                               textbook};

}  // namespace stepcast::pipeline::zb_v
