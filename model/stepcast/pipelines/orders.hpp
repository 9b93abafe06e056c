#pragma once
// What the members of the family share: a device's place when each holds one chunk, and the 1F1B order.
#include <stepcast/pipeline/pipeline.hpp>

#include <algorithm>

namespace stepcast {

inline std::uint32_t place_in_a_row(const PipelineShape&, std::uint32_t stage, std::uint32_t) { return stage; }

inline std::string unless_one_chunk(const PipelineShape& shape) {
  return shape.chunks == 1 ? "" : "a stage is one chunk; several are for interleaved";
}

/// Warm-up forward passes, one forward and one backward pass at a time, then the backward passes that are left.
inline std::vector<PipelineSlot> one_forward_one_backward(const PipelineShape& shape, std::uint32_t stage) {
  const std::uint32_t m = shape.micro_batches, warm_up = std::min(shape.stages - 1 - stage, m);
  std::vector<PipelineSlot> order;
  order.reserve(2 * std::size_t{m});
  for (std::uint32_t j = 0; j < warm_up; ++j) order.push_back({PipelinePass::forward, 0, j});
  for (std::uint32_t j = 0; j < m; ++j) {
    if (warm_up + j < m) order.push_back({PipelinePass::forward, 0, warm_up + j});
    order.push_back({PipelinePass::backward, 0, j});
  }
  return order;
}

/// Iteration and bubble of a device that works on `micro_batches` and else waits for `bubble`.
inline TextbookPipeline with_bubble(const PipelineShape& shape, Seconds work_of_a_micro_batch, Seconds bubble,
                                    double kept) {
  return {shape.micro_batches * work_of_a_micro_batch + bubble, bubble, kept};
}

}  // namespace stepcast
