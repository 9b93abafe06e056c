// ZB-H1: 1F1B whose backward pass is split: the stage before waits for the input gradient only, and weight gradients
// are put off into the bubble, on stage s = 0... by s micro-batches, so that every stage keeps as much as 1F1B's first.
//
//   iteration  m(f + i + w) + bubble      bubble  (Z - 1)(f + i) - (n - 1) min(i, w)      kept  n micro-batches
//
// with n = min(Z, m). For m >= Z and w <= i that is the paper's (Z - 1)(f + i - w). Derivation, on even stages: the
// last stage starts at (Z - 1) f and has done m forward passes, m input gradients and m - n weight gradients when its
// last input gradient is ready; that of stage s is (Z - 1 - s) i later, and its weight gradients that are left take
// (min(s, m - 1) + 1) w. The end is the largest over s: at s = 0 when w <= i, else at s = n - 1.
#include <stepcast/pipelines/orders.hpp>

namespace stepcast {
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
  return with_bubble(shape, f + i + w, (shape.stages - 1) * (f + i) - (n - 1) * std::min(i, w), n);
}

}  // namespace

extern const PipelineSchedule pipeline_zb_h1;
const PipelineSchedule pipeline_zb_h1{"zb_h1",
                                      "zero bubble H1",
                                      "1F1B with weight gradients put off into the bubble, in 1F1B's memory",
                                      "Qi et al., ICLR 2024 (arXiv 2401.10241)",
                                      unless_one_chunk,
                                      order,
                                      place_in_a_row,
                                      1,
                                      textbook};

}  // namespace stepcast
