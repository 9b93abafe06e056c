// The devices' orders are merged into one that respects all dependencies, or found to have a deadlock.
#include <stepcast/pipeline/order.hpp>

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
  Merger(const PipelineSchedule& schedule, const PipelineShape& shape, PassTaker& taker)
      : shape_(shape),
        n_(virtual_stages(schedule, shape)),
        chunks_a_copy_(shape.chunks / schedule.copies),
        taker_(taker),
        copy_of_(shape.micro_batches, OrderedPass::none) {
    place_.resize(std::size_t{shape.stages} * shape.chunks);
    device_of_.resize(place_.size());
    orders_.reserve(shape.stages);
    std::size_t passes = 0;
    for (std::uint32_t d = 0; d < shape.stages; ++d) {
      for (std::uint32_t c = 0; c < shape.chunks; ++c) {
        const std::uint32_t v = schedule.place(shape, d, c);
        place_[d * shape.chunks + c] = v;
        device_of_[c / chunks_a_copy_ * n_ + v] = d;
      }
      orders_.push_back(schedule.order(shape, d));
      passes += orders_.back().size();
    }
    const std::size_t cells = std::size_t{n_} * shape.micro_batches;
    for (auto& made : made_) made.assign(cells, OrderedPass::none);
    gradients_.assign(cells, Gradients::none);
    taker.expect(passes);
  }

  std::string merge() {
    // One pass of each device that can do one, again and again: neighbours in the result are of different devices, so
    // that whoever evaluates it need not wait for the pass before.
    std::vector<std::uint32_t> next(shape_.stages, 0);
    for (bool moves = true; moves;) {
      moves = false;
      for (std::uint32_t d = 0; d < shape_.stages; ++d) {
        if (next[d] == orders_[d].size()) continue;
        if (add(d, next[d], orders_[d][next[d]])) ++next[d], moves = true;
        else if (flaw_ != nullptr) return flaw_;
      }
    }
    for (std::uint32_t d = 0; d < shape_.stages; ++d)
      if (next[d] < orders_[d].size())
        return "device " + std::to_string(d) + " waits for ever at pass " + std::to_string(next[d]);
    if (ends_ != 2 * gradients_.size()) return "a pass is missing";
    return {};
  }

 private:
  enum class Gradients : std::uint8_t { none, input, all };

  // False: not yet, or never when there is a flaw.
  bool add(std::uint32_t device, std::uint32_t position, const PipelineSlot& slot) {
    if (slot.chunk >= shape_.chunks || slot.micro_batch >= shape_.micro_batches)
      return refuse("a pass that does not exist");
    const std::uint32_t v = place_[device * shape_.chunks + slot.chunk], copy = slot.chunk / chunks_a_copy_;
    const std::size_t cell = std::size_t{v} * shape_.micro_batches + slot.micro_batch;
    OrderedPass pass{
        slot, device, v, position, OrderedPass::none, device, OrderedPass::to_none, paired(orders_[device], position)};
    if (slot.pass == PipelinePass::forward) {
      if (copy_of_[slot.micro_batch] == OrderedPass::none) copy_of_[slot.micro_batch] = copy;
      if (made_[0][cell] != OrderedPass::none) return refuse("a pass twice");
    } else if (slot.pass == PipelinePass::weight_gradient) {
      if (gradients_[cell] != Gradients::input) return refuse("a weight gradient without its input gradient, or twice");
    } else {
      if (made_[0][cell] == OrderedPass::none) return refuse("a backward pass before its forward pass");
      if (gradients_[cell] != Gradients::none) return refuse("a pass twice");
    }
    if (copy_of_[slot.micro_batch] != copy) return refuse("a micro-batch in two copies of the model");
    if (slot.pass != PipelinePass::weight_gradient && !connect(pass, cell, copy)) return false;

    if (slot.pass != PipelinePass::input_gradient) ++ends_;
    if (slot.pass != PipelinePass::forward)
      gradients_[cell] = slot.pass == PipelinePass::input_gradient ? Gradients::input : Gradients::all;
    ++taken_;
    taker_.take(pass);
    return true;
  }

  // What the pass waits for and where its result goes; false when its input has not been made yet.
  bool connect(OrderedPass& pass, std::size_t cell, std::uint32_t copy) {
    const bool forward = pass.slot.pass == PipelinePass::forward;
    const std::uint32_t v = pass.virtual_stage;
    auto& made = made_[forward ? 0 : 1];
    if (forward ? v > 0 : v + 1 < n_) {
      pass.input = made[forward ? cell - shape_.micro_batches : cell + shape_.micro_batches];
      if (pass.input == OrderedPass::none) return false;
    }
    if (forward ? v + 1 < n_ : v > 0) {
      pass.receiver = device_of_[copy * n_ + (forward ? v + 1 : v - 1)];
      if (pass.receiver != pass.device) {
        if (pass.receiver == (pass.device + 1) % shape_.stages) pass.output = OrderedPass::to_next;
        else if (pass.device == (pass.receiver + 1) % shape_.stages) pass.output = OrderedPass::to_previous;
        else return refuse("a pass that hands on to a device that is no neighbour");
      }
    }
    made[cell] = taken_;
    return true;
  }

  static bool paired(const std::vector<PipelineSlot>& order, std::uint32_t position) {
    const auto follows = [&](std::uint32_t second) {
      return second > 0 && second < order.size() && order[second].pass == PipelinePass::forward &&
             order[second - 1].pass == PipelinePass::backward;
    };
    return follows(position) || follows(position + 1);
  }

  bool refuse(const char* flaw) {
    flaw_ = flaw;
    return false;
  }

  PipelineShape shape_;
  std::uint32_t n_, chunks_a_copy_;
  PassTaker& taker_;
  std::vector<std::uint32_t> place_, device_of_;  // virtual stage of a device's chunk; device of a copy's virtual stage
  std::vector<std::uint32_t> copy_of_;            // that works on a micro-batch
  std::vector<std::vector<PipelineSlot>> orders_;
  std::vector<std::uint32_t> made_[2];  // number of the pass by virtual stage and micro-batch: forward, backward
  std::vector<Gradients> gradients_;
  std::uint32_t taken_ = 0;
  std::size_t ends_ = 0;  // forward passes and complete gradients
  const char* flaw_ = nullptr;
};

}  // namespace

std::string order_passes(const PipelineSchedule& schedule, const PipelineShape& shape, PassTaker& taker) {
  std::string why = flaw_of(schedule, shape);
  if (why.empty()) why = Merger(schedule, shape, taker).merge();
  return why.empty() ? why : std::string(schedule.name) + ": " + why;
}

}  // namespace stepcast
