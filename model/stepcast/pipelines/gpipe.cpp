// GPipe: all forward passes, then all backward passes.
//
//   iteration  (m + Z - 1)(f + b)      bubble  (Z - 1)(f + b)      kept  m micro-batches
//
// Z stages, m micro-batches, f and b of one stage and micro-batch, b = input and weight gradient. The order of the
// backward passes is that of the forward passes, so that a stage hands on what the next one waits for first. Needs as
// much memory as there are micro-batches; 1F1B takes the same time on even stages with less.
//
// 4 stages, 4 micro-batches, b = 2 f (digits forward, letters backward):
//     |0123.........aabbccdd
//     |.0123......aabbccdd..
//     |..0123...aabbccdd....
//     |...0123aabbccdd......
#include <stepcast/pipelines/orders.hpp>

namespace stepcast::pipeline::gpipe {
namespace {

std::vector<PipelineSlot> order(const PipelineShape& shape, std::uint32_t) {
  std::vector<PipelineSlot> slots;
  slots.reserve(2 * std::size_t{shape.micro_batches});
  for (const PipelinePass pass : {PipelinePass::forward, PipelinePass::backward})
    for (std::uint32_t j = 0; j < shape.micro_batches; ++j) slots.push_back({pass, 0, j});
  return slots;
}

TextbookPipeline textbook(const PipelineShape& shape, Seconds f, Seconds i, Seconds w) {
  return with_bubble(shape, f + i + w, (shape.stages - 1) * (f + i + w), shape.micro_batches);
}

}  // namespace

extern constinit const PipelineSchedule record{"gpipe",
                                               "GPipe",
                                               "all forward passes, then all backward passes",
                                               "Huang et al., NeurIPS 2019 (arXiv 1811.06965)",
                                               unless_one_chunk,
                                               order,
                                               place_in_a_row,
                                               1,
                                               textbook};

}  // namespace stepcast::pipeline::gpipe
