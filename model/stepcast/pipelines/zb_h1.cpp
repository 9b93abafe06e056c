// ZB-H1: 1F1B whose backward pass is split: the stage before waits for the input gradient only, and weight gradients
// are put off into the bubble, on stage s = 0... by s micro-batches, so that every stage keeps as much as 1F1B's first.
//
//   iteration  m(f + i + w) + bubble      bubble  (Z - 1)(f + i) - (n - 1) min(f, i, w)      kept  n micro-batches
//
// with n = min(Z, m). For m >= Z and w <= f, i that is the paper's (Z - 1)(f + i - w): when the last stage has its last
// input gradient, it has put off n - 1 weight gradients, and those of the stages before fit into the gaps of f between
// input gradients. Where w > f they do not and hold up what follows; where w > i the last stage ends last.
//
// 4 stages, 6 micro-batches, f = i = w (digits forward, letters input, capitals weight gradients):
//     |0123...aA4bB5cCdDeEfF
//     |.012..a3bA4cB5dCeDfEF
//     |..01.a2b3cA4dB5eCfDEF
//     |...0a1b2c3dA4eB5fCDEF
#include <stepcast/pipelines/orders.hpp>

namespace stepcast::pipeline::zb_h1 {
namespace {

std::vector<PipelineSlot> order(const PipelineShape& shape, std::uint32_t stage) {
  const std::uint32_t m = shape.micro_batches, warm_up = std::min(shape.stages - 1 - stage, m);
  std::vector<PipelineSlot> slots;
  slots.reserve(3 * std::size_t{m});
  for (std::uint32_t j = 0; j < warm_up; ++j) slots.push_back({PipelinePass::forward, 0, j});
  for (std::uint32_t j = 0; j < m; ++j) {
    if (warm_up + j < m) slots.push_back({PipelinePass::forward, 0, warm_up + j});
    slots.push_back({PipelinePass::input_gradient, 0, j});
    if (j >= stage) slots.push_back({PipelinePass::weight_gradient, 0, j - stage});
  }
  for (std::uint32_t j = m - std::min(stage, m); j < m; ++j) slots.push_back({PipelinePass::weight_gradient, 0, j});
  return slots;
}

TextbookPipeline textbook(const PipelineShape& shape, Seconds f, Seconds i, Seconds w) {
  const std::uint32_t n = std::min(shape.stages, shape.micro_batches);
  return with_bubble(shape, f + i + w, (shape.stages - 1) * (f + i) - (n - 1) * std::min({f, i, w}), n);
}

}  // namespace

extern constinit const PipelineSchedule record{"zb_h1",
                                               "zero bubble H1",
                                               "1F1B with weight gradients put off into the bubble, in 1F1B's memory",
                                               "Qi et al., ICLR 2024 (arXiv 2401.10241)",
                                               unless_one_chunk,
                                               order,
                                               place_in_a_row,
                                               1,
                                               textbook};

}  // namespace stepcast::pipeline::zb_h1
