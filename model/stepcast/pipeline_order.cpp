#include <stepcast/pipeline_order.hpp>

namespace stepcast {
namespace {

// More passes than any job has; their numbers have to fit into 32 bits.
constexpr std::uint64_t most_passes = 1u << 24;

std::string flaw_of(const PipelineSchedule& schedule, const PipelineShape& shape) {
  if (shape.stages == 0 || shape.chunks == 0 || shape.micro_batches == 0)
    return "a pipeline has at least one stage, one chunk and one micro-batch";
  // Each factor first: their product must not wrap around.
  const std::uint64_t chunks = std::uint64_t{shape.stages} * shape.chunks;
  if (shape.stages > most_passes || chunks > most_passes || chunks * shape.micro_batches > most_passes)
    return "a pipeline of more than " + std::to_string(most_passes) + " passes";
  return schedule.unsuitable(shape);
}

class Merger {
 public:
  Merger(const PipelineSchedule& schedule, const PipelineShape& shape)
      : shape_(shape), chunks_a_copy_(shape.chunks / schedule.copies) {
    out_.shape = shape;
    out_.virtual_stages = shape.stages * chunks_a_copy_;
    place_.resize(std::size_t{shape.stages} * shape.chunks);
    device_of_.resize(std::size_t{out_.virtual_stages} * schedule.copies);
    orders_.reserve(shape.stages);
    std::size_t passes = 0;
    for (std::uint32_t d = 0; d < shape.stages; ++d) {
      for (std::uint32_t c = 0; c < shape.chunks; ++c) {
        const std::uint32_t v = schedule.place(shape, d, c);
        place_[d * shape.chunks + c] = v;
        device_of_[c / chunks_a_copy_ * out_.virtual_stages + v] = d;
      }
      orders_.push_back(schedule.order(shape, d));
      passes += orders_.back().size();
    }
    const std::size_t cells = std::size_t{out_.virtual_stages} * shape.micro_batches;
    for (auto& made : made_) made.assign(cells, OrderedPass::none);
    weighed_.assign(cells, false);
    out_.passes.reserve(passes);
    out_.first.assign(shape.stages, OrderedPass::none);
    out_.last.assign(shape.stages, OrderedPass::none);
  }

  Answer<PipelineOrder> merged() {
    // One pass of each device that can do one, again and again: neighbours in the result are of different devices, so
    // that whoever evaluates it need not wait for the pass before.
    std::vector<std::uint32_t> next(shape_.stages, 0);
    for (bool moves = true; moves;) {
      moves = false;
      for (std::uint32_t d = 0; d < shape_.stages; ++d) {
        if (next[d] == orders_[d].size()) continue;
        const PipelineSlot& slot = orders_[d][next[d]];
        if (slot.chunk >= shape_.chunks || slot.micro_batch >= shape_.micro_batches)
          return Inapplicable{"device " + std::to_string(d) + " has a pass that does not exist"};
        const std::uint32_t v = place_[d * shape_.chunks + slot.chunk];
        if (std::string why; !add(d, v, next[d], slot, why)) {
          if (!why.empty()) return Inapplicable{why};
          continue;
        }
        ++next[d];
        moves = true;
      }
    }
    for (std::uint32_t d = 0; d < shape_.stages; ++d)
      if (next[d] < orders_[d].size())
        return Inapplicable{"device " + std::to_string(d) + " waits for ever at pass " + std::to_string(next[d])};
    const std::size_t cells = std::size_t{out_.virtual_stages} * shape_.micro_batches;
    if (counted_ != 2 * cells || weights_missing_ != 0) return Inapplicable{"a pass is missing"};
    return std::move(out_);
  }

 private:
  // False: not yet, or never when `why` says so.
  bool add(std::uint32_t device, std::uint32_t v, std::uint32_t position, const PipelineSlot& slot, std::string& why) {
    const std::uint32_t copy = slot.chunk / chunks_a_copy_;
    const std::size_t cell = std::size_t{v} * shape_.micro_batches + slot.micro_batch;
    const auto index = static_cast<std::uint32_t>(out_.passes.size());
    OrderedPass pass{slot, device, v, position, OrderedPass::none, device, OrderedPass::to_none};
    if (slot.pass == PipelinePass::weight_gradient) {
      if (weighed_[cell] || made_[1][cell] == OrderedPass::none || out_.passes[made_[1][cell]].device != device ||
          out_.passes[made_[1][cell]].slot.pass != PipelinePass::input_gradient) {
        why = "a weight gradient without its input gradient, or twice";
        return false;
      }
      weighed_[cell] = true;
      --weights_missing_;
    } else {
      const bool forward = slot.pass == PipelinePass::forward;
      auto& made = made_[forward ? 0 : 1];
      if (made[cell] != OrderedPass::none) why = "a pass twice";
      if (!forward && (made_[0][cell] == OrderedPass::none || out_.passes[made_[0][cell]].device != device))
        why = "a backward pass before its forward pass";
      if (!why.empty()) return false;
      if (forward ? v > 0 : v + 1 < out_.virtual_stages) {
        const std::uint32_t before = made[forward ? cell - shape_.micro_batches : cell + shape_.micro_batches];
        if (before == OrderedPass::none) return false;
        if (out_.passes[before].receiver != device) {
          why = "a pass whose input goes to another device";
          return false;
        }
        pass.input = before;
      }
      if (forward ? v + 1 < out_.virtual_stages : v > 0) {
        pass.receiver = device_of_[copy * out_.virtual_stages + (forward ? v + 1 : v - 1)];
        if (!connect(pass)) {
          why = "a pass that hands on to a device that is no neighbour";
          return false;
        }
      }
      made[cell] = index;
      ++counted_;
      if (slot.pass == PipelinePass::input_gradient) ++weights_missing_;
    }
    if (out_.first[device] == OrderedPass::none) out_.first[device] = index;
    out_.last[device] = index;
    out_.passes.push_back(pass);
    return true;
  }

  bool connect(OrderedPass& pass) const {
    if (pass.receiver == pass.device) return true;
    if (pass.receiver == (pass.device + 1) % shape_.stages) pass.output = OrderedPass::to_next;
    else if (pass.device == (pass.receiver + 1) % shape_.stages) pass.output = OrderedPass::to_previous;
    else return false;
    return true;
  }

  PipelineShape shape_;
  std::uint32_t chunks_a_copy_;
  PipelineOrder out_;
  std::vector<std::uint32_t> place_, device_of_;
  std::vector<std::vector<PipelineSlot>> orders_;
  std::vector<std::uint32_t> made_[2];  // pass by virtual stage and micro-batch: forward, backward
  std::vector<bool> weighed_;
  std::size_t counted_ = 0, weights_missing_ = 0;
};

}  // namespace

Answer<PipelineOrder> pipeline_order(const PipelineSchedule& schedule, const PipelineShape& shape) {
  if (std::string why = flaw_of(schedule, shape); !why.empty())
    return Inapplicable{std::string(schedule.name) + ": " + why};
  Answer<PipelineOrder> merged = Merger(schedule, shape).merged();
  if (!merged) return Inapplicable{std::string(schedule.name) + ": " + merged.reason()};
  return merged;
}

}  // namespace stepcast
