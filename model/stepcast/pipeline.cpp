#include <stepcast/pipeline.hpp>
#include <stepcast/pipeline_order.hpp>

#include <algorithm>
#include <cassert>
#include <iterator>

namespace stepcast {
namespace {

constexpr std::uint32_t compute_place = 3;  // of a device's four places in state_; the first three are its outputs

// Chunks held by each device at most: from a forward pass until the pass that needs its activations last.
std::vector<double> kept_chunks(const PipelineOrder& order) {
  std::vector<std::int64_t> now(order.shape.stages, 0);
  std::vector<double> most(order.shape.stages, 0);
  for (const OrderedPass& pass : order.passes) {
    if (pass.slot.pass == PipelinePass::input_gradient) continue;
    now[pass.device] += pass.slot.pass == PipelinePass::forward ? 1 : -1;
    most[pass.device] = std::max(most[pass.device], static_cast<double>(now[pass.device]));
  }
  return most;
}

}  // namespace

const PipelineSchedule* pipeline_schedule(std::string_view name) {
  for (const PipelineSchedule& schedule : pipeline_schedules())
    if (schedule.name == name) return &schedule;
  return nullptr;
}

Answer<PipelineEvaluator> PipelineEvaluator::of(const PipelineSchedule& schedule, const PipelineShape& shape) {
  const Answer<PipelineOrder> order = pipeline_order(schedule, shape);
  if (!order) return Inapplicable{order.reason()};
  PipelineEvaluator made;
  made.shape_ = shape;
  made.virtual_stages_ = order->virtual_stages;
  made.first_ = order->first;
  made.last_ = order->last;
  made.entries_.reserve(order->passes.size());
  const std::uint32_t costs = 4 * order->virtual_stages;
  std::vector<Work> work(std::size_t{costs} * schedule.copies, Work{0, 0, 0});
  for (const OrderedPass& pass : order->passes) {
    const std::uint32_t cost = static_cast<std::uint32_t>(pass.slot.pass) * order->virtual_stages + pass.virtual_stage;
    static_assert(OrderedPass::none + 1 == 0);  // what waits for nothing reads the zero in front
    made.entries_.push_back({pass.input + 1, 4 * pass.device + pass.output, cost});
    const std::uint32_t copy = pass.slot.chunk * schedule.copies / shape.chunks;
    Work& w = work[copy * costs + cost];
    w = {pass.device, cost, w.count + 1};
  }
  made.sent_.resize(costs);
  for (std::size_t i = 0; i < order->passes.size(); ++i)
    made.sent_[made.entries_[i].cost] = order->passes[i].output != OrderedPass::to_none;
  std::copy_if(work.begin(), work.end(), std::back_inserter(made.work_), [](const Work& w) { return w.count > 0; });
  made.cost_.resize(costs);
  made.state_.resize(4 * std::size_t{shape.stages});
  made.arrival_.assign(made.entries_.size() + 1, 0);
  PipelineTimes& times = made.times_;
  times.kept = kept_chunks(*order);
  for (auto* v : {&times.first_start, &times.last_backward, &times.busy}) v->resize(shape.stages);
  return made;
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
  }
  for (std::size_t i = 0; i < cost_.size(); ++i)
    if (!sent_[i]) cost_[i].send = 0;
  std::fill(state_.begin(), state_.end(), 0);
  overlap ? run<true>() : run<false>();

  std::fill(times_.busy.begin(), times_.busy.end(), Seconds(0));
  for (const Work& w : work_) times_.busy[w.device] += Seconds(w.count * cost_[w.cost].time);
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

}  // namespace stepcast
