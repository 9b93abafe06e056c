// Interleaved 1F1B: each device holds v chunks that lie Z apart (virtual stage c Z + d), so that a micro-batch comes by
// v times and the pipeline fills v times as fast.
//
//   iteration  m(f + b) + (Z - 1)(f + b)/v      bubble  (Z - 1)(f + b)/v
//   kept       min(2(Z - 1) + (v - 1)g + 1, m v) chunks on the first device; of g = Z that is Z(1 + (Z - 1)/(Z v))
//              micro-batches
//
// f and b of all v chunks of a device. Micro-batches go in groups of g through all chunks, min(2(Z - 1 - d) + (v - 1)g,
// m v) forward passes ahead of the first backward pass on device d = 0... The group is Z where m is a multiple of it,
// else the next larger number that leaves no rest, or one of at least Z, as Megatron-Core demands
// (microbatch_group_size_per_vp_stage in pipeline_parallel/schedules.py); the rest goes through all chunks as a smaller
// group. With one chunk it is 1F1B, with its fewer forward passes ahead, as there. The number of sends is v times as
// large.
//
// 4 stages of 2 chunks, 4 micro-batches, b = 2 f (digits forward, letters backward):
//     |01230123......aa.bb.cc.ddaabbccdd
//     |.01230123...aa.bb.cc.ddaabbccdd..
//     |..0123012.aa3bb.cc.ddaabbccdd....
//     |...01230aa1bb2cc3ddaabbccdd......
#include <stepcast/pipelines/orders.hpp>

namespace stepcast::pipeline::interleaved {
namespace {

std::string unsuitable(const PipelineShape& shape) {
  if (shape.chunks == 1 || shape.micro_batches >= shape.stages) return "";
  return std::to_string(shape.micro_batches) + " micro-batches are fewer than " + std::to_string(shape.stages) +
         " stages";
}

// The k-th pass of a kind; backward passes take the chunks from the last to the first.
PipelineSlot numbered(const PipelineShape& shape, std::uint32_t group, PipelinePass pass, std::uint32_t k) {
  const std::uint32_t first = k / (group * shape.chunks) * group, in_group = k - first * shape.chunks;
  const std::uint32_t size = std::min(group, shape.micro_batches - first), chunk = in_group / size;
  return {pass, pass == PipelinePass::forward ? chunk : shape.chunks - 1 - chunk, first + in_group % size};
}

std::vector<PipelineSlot> order(const PipelineShape& shape, std::uint32_t stage) {
  if (shape.chunks == 1) return one_forward_one_backward(shape, stage);
  const std::uint32_t passes = shape.micro_batches * shape.chunks;
  const std::uint32_t group = interleaved_group(shape.stages, shape.micro_batches);
  const std::uint32_t ahead = std::min(2 * (shape.stages - 1 - stage) + (shape.chunks - 1) * group, passes);
  std::vector<PipelineSlot> slots;
  slots.reserve(2 * std::size_t{passes});
  for (std::uint32_t k = 0; k < ahead; ++k) slots.push_back(numbered(shape, group, PipelinePass::forward, k));
  for (std::uint32_t k = 0; k < passes; ++k) {
    if (ahead + k < passes) slots.push_back(numbered(shape, group, PipelinePass::forward, ahead + k));
    slots.push_back(numbered(shape, group, PipelinePass::backward, k));
  }
  return slots;
}

std::uint32_t place(const PipelineShape& shape, std::uint32_t stage, std::uint32_t chunk) {
  return chunk * shape.stages + stage;
}

TextbookPipeline textbook(const PipelineShape& shape, Seconds f, Seconds i, Seconds w) {
  const double z = shape.stages, v = shape.chunks, m = shape.micro_batches;
  const double g = interleaved_group(shape.stages, shape.micro_batches);
  const double kept = v == 1 ? std::min(z, m) : std::min((2 * (z - 1) + (v - 1) * g + 1) / v, m);
  return with_bubble(shape, f + i + w, (z - 1) / v * (f + i + w), kept);
}

}  // namespace

extern constinit const PipelineSchedule record{"interleaved",
                                               "interleaved 1F1B",
                                               "1F1B with several chunks of the model on each device",
                                               "Narayanan et al., SC 2021 (arXiv 2104.04473, Megatron-LM)",
                                               unsuitable,
                                               order,
                                               place,
                                               1,
                                               textbook};

}  // namespace stepcast::pipeline::interleaved
