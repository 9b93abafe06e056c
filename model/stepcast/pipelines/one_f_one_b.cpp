// 1F1B (PipeDream-flush): as many forward passes as there are stages behind, then one forward and one backward pass in
// turn, then the backward passes that are left.
//
//   iteration  (m + Z - 1)(f + b)      bubble  (Z - 1)(f + b)      kept  min(Z - s, m) micro-batches on stage s = 0...
//
// The time is GPipe's on even stages; what is kept is bounded by the number of stages instead of micro-batches.
//
// 4 stages, 6 micro-batches, b = 2 f (digits forward, letters backward):
//     |0123......aa4bb5cc.dd.ee.ff
//     |.012....aa3bb4cc5dd.ee.ff..
//     |..01..aa2bb3cc4dd5ee.ff....
//     |...0aa1bb2cc3dd4ee5ff......
#include <stepcast/pipelines/orders.hpp>

namespace stepcast::pipeline::one_f_one_b {
namespace {

TextbookPipeline textbook(const PipelineShape& shape, Seconds f, Seconds i, Seconds w) {
  return with_bubble(shape, f + i + w, (shape.stages - 1) * (f + i + w), std::min(shape.stages, shape.micro_batches));
}

}  // namespace

extern constinit const PipelineSchedule record{"1f1b",
                                               "1F1B",
                                               "one forward and one backward pass in turn",
                                               "Narayanan et al., ICML 2021 (arXiv 2006.09503, PipeDream-flush)",
                                               unless_one_chunk,
                                               one_forward_one_backward,
                                               place_in_a_row,
                                               1,
                                               textbook};

}  // namespace stepcast::pipeline::one_f_one_b
