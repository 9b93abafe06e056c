// Bidirectional (Chimera): two copies of the model run through the same devices in opposite directions, each with half
// of the micro-batches; where one waits, the other one works.
//
//   m <= Z             bubble  (Z - m) min(f, b) + (Z - 2) max(f, b)
//   m = k Z, k >= 1    bubble  (Z - 2) (max(f, b) + (k - 1)|b - f|)
//   kept               min(Z, m)/2 + 1 micro-batches on the first and last device, up to Z on those in the middle
//
// Units of Z micro-batches follow one another without a gap where f = b: the paper's bubble ratio (Z - 2)/(2m + Z - 2).
// For m = Z and b > f this is its critical path of Z forward and 2Z - 2 backward passes. Where f and b differ, each
// further unit adds to the bubble, which the paper notes of direct concatenation, too: beyond a few units 1F1B is
// faster. Other m have no closed form here. Each device holds the weights of two stages, and the copies' gradients have
// to be added up.
//
// 4 stages, 8 micro-batches, 4 to 7 in the other direction, b = f (digits forward, letters backward):
//     |01.4e5fa2b36g7hc.d
//     |.0415eafb2637gchd.
//     |.4051aebf6273cgdh.
//     |45.0a1be6f72c3dg.h
#include <stepcast/pipelines/orders.hpp>

#include <limits>

namespace stepcast::pipeline::bidirectional {
namespace {

std::string unsuitable(const PipelineShape& shape) {
  if (shape.stages % 2 != 0) return "the number of stages has to be even, not " + std::to_string(shape.stages);
  if (shape.chunks != 2) return "a device holds one chunk of either copy, 2 in all";
  if (shape.micro_batches % 2 != 0)
    return "the copies share the micro-batches: their number has to be even, not " +
           std::to_string(shape.micro_batches);
  return "";
}

std::uint32_t place(const PipelineShape& shape, std::uint32_t stage, std::uint32_t chunk) {
  return chunk == 0 ? stage : shape.stages - 1 - stage;
}

// The order of even stages with f = b = 1: in a unit of Z/2 micro-batches a copy's j-th forward pass through its stage
// s is at time s + 2j, its backward pass at 2Z - 1 - s + 2j; units follow one another after 2Z. One copy's forward and
// the other one's backward passes on a device come at even times, the rest at odd ones, so that none collide.
std::vector<PipelineSlot> order(const PipelineShape& shape, std::uint32_t stage) {
  struct Timed {
    std::uint64_t time;
    PipelineSlot slot;
  };
  const std::uint64_t z = shape.stages, half = shape.micro_batches / 2;
  std::vector<Timed> timed;
  timed.reserve(2 * std::size_t{shape.micro_batches});
  for (std::uint32_t copy = 0; copy < 2; ++copy) {
    const std::uint64_t s = place(shape, stage, copy);
    for (std::uint64_t k = 0; k < half; ++k) {
      const std::uint64_t start = k / (z / 2) * 2 * z + 2 * (k % (z / 2));
      const auto micro_batch = static_cast<std::uint32_t>(copy * half + k);
      timed.push_back({start + s, {PipelinePass::forward, copy, micro_batch}});
      timed.push_back({start + 2 * z - 1 - s, {PipelinePass::backward, copy, micro_batch}});
    }
  }
  std::sort(timed.begin(), timed.end(), [](const Timed& a, const Timed& b) { return a.time < b.time; });
  std::vector<PipelineSlot> slots;
  slots.reserve(timed.size());
  for (const Timed& t : timed) slots.push_back(t.slot);
  return slots;
}

TextbookPipeline textbook(const PipelineShape& shape, Seconds f, Seconds i, Seconds w) {
  const double z = shape.stages, m = shape.micro_batches;
  const Seconds less = std::min(f, i + w), more = std::max(f, i + w);
  const double kept = std::min(z, m) / 2 + 1;
  if (m <= z) return with_bubble(shape, f + i + w, (z - m) * less + (z - 2) * more, kept);
  if (shape.micro_batches % shape.stages == 0)
    return with_bubble(shape, f + i + w, (z - 2) * (more + (m / z - 1) * (more - less)), kept);
  const Seconds unknown(std::numeric_limits<double>::quiet_NaN());
  return {unknown, unknown, kept};
}

}  // namespace

extern constinit const PipelineSchedule record{"bidirectional",
                                               "bidirectional (Chimera)",
                                               "two copies of the model in opposite directions",
                                               "Li and Hoefler, SC 2021 (arXiv 2107.06925)",
                                               unsuitable,
                                               order,
                                               place,
                                               2,
                                               textbook};

}  // namespace stepcast::pipeline::bidirectional
