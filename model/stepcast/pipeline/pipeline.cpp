// The order is compiled once into a flat list of entries; an evaluation is one walk over it.
#include <stepcast/pipeline/order.hpp>
#include <stepcast/pipeline/pipeline.hpp>

#include <algorithm>
#include <cassert>
#include <iterator>

namespace stepcast {
namespace {

constexpr std::uint32_t compute_place = 3;  // of a device's four places in state_; the first three are its outputs
// Kinds of passes: the four, then a forward and a backward pass beside each other.
constexpr std::uint32_t beside_others = 4, kinds = 6;

}  // namespace

const PipelineSchedule* pipeline_schedule(std::string_view name) {
  for (const PipelineSchedule& schedule : pipeline_schedules())
    if (schedule.name == name) return &schedule;
  return nullptr;
}

class PipelineEvaluator::Builder : public PassTaker {
 public:
  Builder(const PipelineSchedule& schedule, const PipelineShape& shape) : schedule_(schedule) { made_.shape_ = shape; }

  void expect(std::size_t passes) override {
    const std::size_t stages = made_.shape_.stages;
    made_.virtual_stages_ = virtual_stages(schedule_, made_.shape_);
    costs_ = kinds * std::size_t{made_.virtual_stages_};
    work_.assign(costs_ * schedule_.copies, {0, 0, 0});
    held_.resize(stages);
    made_.cost_.resize(costs_);
    made_.sent_.resize(costs_);
    made_.state_.resize(4 * stages);
    made_.first_.assign(stages, OrderedPass::none);
    made_.last_.resize(stages);
    PipelineTimes& times = made_.times_;
    times.kept.resize(stages);
    for (auto* v : {&times.first_start, &times.last_backward, &times.busy, &times.saved}) v->resize(stages);
    made_.entries_.reserve(passes);
  }

  void take(const OrderedPass& pass) override {
    const auto number = static_cast<std::uint32_t>(made_.entries_.size());
    const std::uint32_t kind = static_cast<std::uint32_t>(pass.slot.pass) + (pass.beside ? beside_others : 0);
    const std::uint32_t cost = kind * made_.virtual_stages_ + pass.virtual_stage;
    static_assert(OrderedPass::none + 1 == 0);  // what waits for nothing reads the zero in front
    made_.entries_.push_back({pass.input + 1, 4 * pass.device + pass.output, cost});
    made_.sent_[cost] = pass.output != OrderedPass::to_none;
    if (made_.first_[pass.device] == OrderedPass::none) made_.first_[pass.device] = number;
    made_.last_[pass.device] = number;
    Work& work = work_[pass.slot.chunk * schedule_.copies / made_.shape_.chunks * costs_ + cost];
    work = {pass.device, cost, work.count + 1};
    hold(pass);
  }

  PipelineEvaluator evaluator() {
    std::copy_if(work_.begin(), work_.end(), std::back_inserter(made_.work_),
                 [](const Work& w) { return w.count > 0; });
    made_.arrival_.assign(made_.entries_.size() + 1, 0);
    return std::move(made_);
  }

 private:
  // From a forward pass until the pass that needs its activations last.
  void hold(const OrderedPass& pass) {
    if (pass.slot.pass == PipelinePass::input_gradient) return;
    double& held = held_[pass.device];
    held += pass.slot.pass == PipelinePass::forward ? 1 : -1;
    made_.times_.kept[pass.device] = std::max(made_.times_.kept[pass.device], held);
  }

  const PipelineSchedule& schedule_;
  std::size_t costs_ = 0;  // passes of one virtual stage and micro-batch, over all virtual stages
  PipelineEvaluator made_;
  std::vector<double> held_;
  std::vector<Work> work_;  // by copy and cost
};

Answer<PipelineEvaluator> PipelineEvaluator::of(const PipelineSchedule& schedule, const PipelineShape& shape) {
  Builder builder(schedule, shape);
  if (std::string why = order_passes(schedule, shape, builder); !why.empty()) return Inapplicable{std::move(why)};
  return builder.evaluator();
}

// Max-plus: a pass starts when its input has come and its device is free; its result leaves when the link is free.
template <bool overlap>
void PipelineEvaluator::run() {
  double* const state = state_.data();
  double* arrival = arrival_.data();
  const double* const come = arrival;
  const PassCost* const costs = cost_.data();
  for (const Entry entry : entries_) {
    const PassCost cost = costs[entry.cost];
    double& compute = state[entry.output | compute_place];
    double& output = state[entry.output];
    const double end = std::max(compute, come[entry.input]) + cost.time;
    output = std::max(output, end) + cost.send;
    compute = overlap ? end : output;
    *++arrival = output;
  }
}

const PipelineTimes& PipelineEvaluator::operator()(std::span<const ChunkTimes> chunk, bool overlap) {
  assert(chunk.size() == virtual_stages_);
  const std::uint32_t n = virtual_stages_;
  for (std::uint32_t v = 0; v < n; ++v) {
    const ChunkTimes& c = chunk[v];
    cost_[v] = {c.forward.value(), c.send_forward.value()};
    cost_[n + v] = {(c.input_gradient + c.weight_gradient).value(), c.send_backward.value()};
    cost_[2 * n + v] = {c.input_gradient.value(), c.send_backward.value()};
    cost_[3 * n + v] = {c.weight_gradient.value(), 0};
    cost_[4 * n + v] = {(c.forward - c.beside_forward).value(), c.send_forward.value()};
    cost_[5 * n + v] = {(c.input_gradient + c.weight_gradient - c.beside_backward).value(), c.send_backward.value()};
  }
  for (std::size_t i = 0; i < cost_.size(); ++i)
    if (!sent_[i]) cost_[i].send = 0;
  std::fill(state_.begin(), state_.end(), 0);
  overlap ? run<true>() : run<false>();

  std::fill(times_.busy.begin(), times_.busy.end(), Seconds(0));
  std::fill(times_.saved.begin(), times_.saved.end(), Seconds(0));
  for (const Work& w : work_) {
    times_.busy[w.device] += Seconds(w.count * cost_[w.cost].time);
    if (w.cost < beside_others * n) continue;
    const double alone = cost_[w.cost - beside_others * n].time;
    times_.saved[w.device] += Seconds(w.count * (alone - cost_[w.cost].time));
  }
  times_.iteration = Seconds(0);
  for (std::uint32_t d = 0; d < shape_.stages; ++d) {
    times_.first_start[d] = Seconds(arrival_[entries_[first_[d]].input]);
    // A sender that waits is free only when its last result has left.
    const double sent = overlap ? 0 : cost_[entries_[last_[d]].cost].send;
    times_.last_backward[d] = Seconds(state_[4 * d + compute_place] - sent);
    times_.iteration = std::max(times_.iteration, times_.last_backward[d]);
  }
  return times_;
}

#define STEPCAST_MEMBER(name)           \
  namespace pipeline::name {            \
  extern const PipelineSchedule record; \
  }
#include <stepcast/pipelines/pipelines.inc>
#undef STEPCAST_MEMBER

std::span<const PipelineSchedule> pipeline_schedules() {
  static const PipelineSchedule all[] = {
#define STEPCAST_MEMBER(name) pipeline::name::record,
#include <stepcast/pipelines/pipelines.inc>
#undef STEPCAST_MEMBER
  };
  return all;
}

PipelineShape small_shape(const PipelineSchedule& schedule) {
  const PipelineShape one{2, schedule.copies, 2};
  return schedule.unsuitable(one).empty() ? one : PipelineShape{2, 2 * schedule.copies, 2};
}

bool delays_weight_gradients(const PipelineSchedule& schedule) {
  const PipelineShape small = small_shape(schedule);
  const std::vector<PipelineSlot> order = schedule.order(small, 0);
  return std::any_of(order.begin(), order.end(),
                     [](const PipelineSlot& slot) { return slot.pass == PipelinePass::weight_gradient; });
}

bool pairs_passes(const PipelineSchedule& schedule) {
  PipelineShape shape = small_shape(schedule);
  shape.micro_batches = 8;  // enough for passes that are neither its first nor its last
  for (std::uint32_t d = 0; d < shape.stages; ++d) {
    const std::vector<PipelineSlot> order = schedule.order(shape, d);
    for (std::size_t i = 1; i < order.size(); ++i)
      if (order[i].pass == PipelinePass::forward && order[i - 1].pass == PipelinePass::backward) return true;
  }
  return false;
}

std::uint32_t interleaved_group(std::uint32_t stages, std::uint32_t micro_batches) {
  for (std::uint32_t group = stages; group <= micro_batches; ++group) {
    const std::uint32_t rest = micro_batches % group;
    if (rest == 0 || rest >= stages) return group;
  }
  return 0;
}

}  // namespace stepcast
