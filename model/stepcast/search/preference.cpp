// What no framework runs and what nobody does outweigh all else; the rest is weighed in switches.
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/search/preference.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

// A judgement, not a measurement: in switches, what it takes to set up and to debug.
constexpr double runs_nowhere = 1000, unusual = 100, dimension = 10, tight = 8, doubling = 0.02, chunk = 0.002;
constexpr double tokens_of_context_parallelism = 16384;
constexpr double small_share = 0.25, enough_share = 0.6;
constexpr double least_resolution = 0.02, most_resolution = 0.03;

bool unusual_context(const Workload& w, const Layout& l) {
  return l.context > 1 && w.sequence < tokens_of_context_parallelism;
}

}  // namespace

double resolution_of(const Workload& workload) {
  // Errors of compute are those of both layouts; a quarter of them is taken to be of one alone.
  constexpr double not_shared = 0.25;
  if (workload.relative_error <= 0) return most_resolution;
  return std::clamp(not_shared * workload.relative_error, least_resolution, most_resolution);
}

double resolution_of(const Workload& workload, const Layout& fastest) {
  return unusual_context(workload, fastest) ? most_resolution : resolution_of(workload);
}

LayoutPreference::LayoutPreference(const Workload& workload, const Cluster& cluster, std::string_view framework)
    : workload_(workload), framework_(framework) {
  const Bytes whole(workload.parameters() * (workload.bytes_of_weight + workload.bytes_of_gradient));
  small_ = cluster.device_memory > Bytes(0) && whole < small_share * cluster.device_memory;
  for (const PipelineSchedule& s : pipeline_schedules())
    if (delays_weight_gradients(s)) delaying_.push_back(&s);
  shards_by_default_ = workload.shape && holds_whole_weights(workload.shape->kernels);
  wraps_anew_ = workload.shape && workload.shape->kernels == KernelSet::megatron &&
                (framework.empty() || framework == "megatron");
  enough_ = enough_share * std::max(Bytes(0), cluster.device_memory);
  tight_ = tight_memory_share * std::max(Bytes(0), cluster.device_memory);
}

double LayoutPreference::burden_of(Bytes memory) const { return tight_ > Bytes(0) && memory > tight_ ? tight : 0; }

bool LayoutPreference::divides_evenly(std::int64_t stages) const {
  const std::int64_t blocks = workload_.shape ? workload_.shape->layers : 0;
  return blocks % stages == 0 || std::ssize(workload_.units) % stages == 0;
}

double LayoutPreference::of_dimensions(const Layout& l) const {
  double burden = 0;
  if (unusual_context(workload_, l)) burden += unusual;
  for (const std::int64_t degree : {l.tensor, l.context, l.pipeline, l.expert})
    if (degree > 1) burden += dimension + doubling * std::log2(static_cast<double>(degree));
  if (l.pipeline > 1 && !divides_evenly(l.pipeline * l.chunks)) burden += 1;
  if (l.stages_by_time) burden += 1;
  if (l.chunks > 1) burden += 1 + chunk * static_cast<double>(l.chunks);
  if (l.pipeline > 1 && std::ranges::find(delaying_, l.schedule) != delaying_.end()) burden += 1;
  if (l.expert_exchange != ExpertExchange::all_to_all) burden += 1;  // a library of its own
  if (l.overlap_expert) burden += 1;                                 // blocks of two micro-batches at a time
  return burden;
}

double LayoutPreference::burden(const LayoutPlan& plan, std::int64_t micro_batches) const {
  const Layout& l = plan.layout;
  double burden = of_dimensions(l);
  if (small_ && l.zero == 3) burden += unusual;
  // A large model's optimizer is divided by default everywhere.
  if (shards_by_default_ && !small_) burden += l.zero == 1 || l.zero == 2 ? 1 : 0;
  else burden += std::max(0, l.zero - (small_ ? 0 : 1));
  if (l.zero >= 2 && wraps_anew_) burden += 1;
  if (l.shard > 0 || l.backward_shard > 0) burden += 1;
  if (l.recomputation != Recomputation::none) burden += 1;  // of a memory that has room without
  if (l.recomputed_blocks > 0) burden += 1;
  if (l.overlap_tensor == TensorOverlap::products) burden += 1;  // buffers that devices write to one another
  if (!l.overlap_gradients) burden += 1;
  if (!l.overlap_pipeline) burden += unusual;
  if (plan.gradients.strategy != nullptr && plan.gradients.strategy->name != "ddp") burden += 1;
  if (!why_not(plan, micro_batches).empty()) burden += runs_nowhere;
  return burden;
}

double LayoutPreference::least_burden(const LayoutFamily& family) const {
  Layout l;
  l.tensor = family.tensor, l.context = family.context, l.context_exchange = family.context_exchange,
  l.pipeline = family.pipeline;
  l.expert = family.expert, l.expert_exchange = family.expert_exchange, l.overlap_expert = family.overlap_expert,
  l.chunks = family.chunks;
  l.schedule = family.schedule, l.stages_by_time = family.stages_by_time;
  return of_dimensions(l);
}

double LayoutPreference::after_burden(Seconds iteration, Bytes memory, Seconds target_step) const {
  return std::max(memory, enough_).value() + iteration / target_step;
}

std::string LayoutPreference::why_not(const LayoutPlan& plan, std::int64_t micro_batches) const {
  return why_not_launched(workload_, plan, micro_batches, framework_);
}

}  // namespace stepcast
