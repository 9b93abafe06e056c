// What the tables tell of a layout is put together as breakdown, stages, interval and warnings.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/cluster/carried.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/parallelism/reasons.hpp>
#include <stepcast/parallelism/stage_division.hpp>
#include <stepcast/parallelism/tables.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

/// Compute and collectives of one micro-batch, one after the other.
Seconds working(const PassParts& p) {
  return p.compute + p.recomputation + p.tensor + p.context + p.expert + p.sharding + p.copies;
}
/// The device that has most to do, which the others wait for; of equals the one that ends last.
std::uint32_t busiest_device(const EvaluatedLayout& e) {
  const double passes = static_cast<double>(e.micro_batches) / e.layout.schedule->copies;
  const auto works = [&](std::uint32_t d) {
    return working(e.pipeline->devices[d].parts) * passes - e.pipeline->saved[d];
  };
  std::uint32_t busiest = e.last_device;
  for (std::uint32_t d = 0; d < e.pipeline->devices.size(); ++d)
    if (works(d) > works(busiest)) busiest = d;
  return busiest;
}

/// The parts of the step of one device; they sum to it. `after` is what it exposes itself, gradients with their copies;
/// where it ends first it waits for those of the device that ends last.
LayoutBreakdown breakdown_of(LayoutTables& state, const EvaluatedLayout& e, const PlanSpec& plan, std::uint32_t d,
                             const LayoutTables::AfterPasses& after, Seconds gradients_of_last) {
  const Seconds gradients = after.gradients;
  const PipelineDevice& device = e.pipeline->devices[d];
  const double passes = static_cast<double>(e.micro_batches) / e.layout.schedule->copies;
  LayoutBreakdown b;
  b.compute = device.parts.compute * passes;
  b.recomputation = device.parts.recomputation * passes;
  // Where messages fill the time of a slow host what is left of compute may be less than is done again, which is a
  // forward pass: a third of all passes at most.
  constexpr double most_again = 1. / 3;
  const Seconds work = b.compute + b.recomputation;
  b.recomputation = std::min(b.recomputation, work * most_again);
  b.compute = work - b.recomputation;
  b.tensor = device.parts.tensor * passes;
  b.context = device.parts.context * passes;
  b.expert = device.parts.expert * passes - e.pipeline->saved[d];
  const Seconds copied = std::min(gradients, state.bucket_copies(e, plan, device));
  b.gradients = gradients - copied + device.parts.sharding * passes;
  b.copies = device.parts.copies * passes + copied;
  b.update = after.update;
  b.input = e.input;
  b.other = state.workload.step_overhead + state.delay;
  const Seconds end = e.pipeline->last_backward[d] + gradients + b.update + b.input + b.other;
  const Seconds waits = std::max(Seconds(0), e.iteration - end);
  const Seconds for_gradients = std::min(waits, gradients_of_last);
  b.gradients += for_gradients;
  // What the stage waits for: the same pipeline with free transfers tells bubble from sends.
  const Seconds last = e.pipeline->last_backward[d] + (waits - for_gradients);
  const Seconds works = working(device.parts) * passes - e.pipeline->saved[d];
  std::vector<ChunkTimes> free = e.staged->chunks;
  for (ChunkTimes& c : free) c.send_forward = c.send_backward = Seconds(0);
  std::string why;
  PipelineEvaluator& pipeline = *state.evaluator(*e.layout.schedule, e.pipeline->shape, why);
  const Seconds without_sends = pipeline(free, e.layout.overlap_pipeline).last_backward[d];
  b.pipeline = std::clamp(e.pipeline->last_backward[d] - without_sends, Seconds(0), std::max(Seconds(0), last - works));
  b.bubble = last - works - b.pipeline;
  if (b.bubble < last * 1e-12) b.bubble = Seconds(0);  // sums in another order may differ in the last digit
  return b;
}

std::vector<StageSummary> summaries_of(LayoutTables& state, const EvaluatedLayout& e, const PlanSpec& plan) {
  std::vector<StageSummary> out;
  for (std::uint32_t d = 0; d < e.pipeline->shape.stages; ++d) {
    const PipelineDevice& device = e.pipeline->devices[d];
    StageSummary s;
    s.first_unit = e.staged->stages[device.virtual_stages.front()].first;
    for (const std::uint32_t v : device.virtual_stages) {
      s.units += e.staged->stages[v].units;
      s.forward += e.staged->chunks[v].forward;
      s.backward += e.staged->chunks[v].input_gradient + e.staged->chunks[v].weight_gradient;
    }
    s.last_backward = e.pipeline->last_backward[d];
    const LayoutTables::AfterPasses after = *state.after_passes(e, plan, device);
    s.end = s.last_backward + after.gradients + after.update;
    s.memory = state.memory(e.layout, device);
    out.push_back(s);
  }
  return out;
}

/// A traced model is divided, which the trace does not show.
bool divides_traced_model(const Workload& w, const Layout& l) {
  return !w.shape && (l.tensor > 1 || l.context > 1 || l.pipeline > 1 || l.expert > 1);
}

/// Of the model of several workers, and of what the trace does not show of the layout.
double residual_of(const Workload& w, const Layout& l) {
  if (w.shape) return residual_of_model;
  if (divides_traced_model(w, l)) return residual_of_division;
  return l.zero == 3 && w.sharding == 0 ? residual_of_sharding : residual_of_model;
}

/// P10-P90 of the mean: residuals of the workload's compute, of the links, and of the model of several workers.
void set_interval(const LayoutTables& state, LayoutPrediction& p) {
  const LayoutBreakdown& b = p.breakdown;
  const Seconds communication = b.exposed();
  const Seconds by_host = p.plan.layout.offloads(Offloaded::optimizer) ? b.update : Seconds(0);
  const Seconds compute = p.iteration - communication - by_host;
  const LinksMargin links = margin_of_links(state.cluster, communication.value());
  const double of_model = p.devices > 1 ? residual_of(state.workload, p.plan.layout) * p.iteration.value() : 0;
  const ComputeInterval device = compute_interval(state.workload.relative_error, state.workload.rates);
  const bool known = state.cluster.host.updates > 0;
  const auto half = [&](double of_compute, double of_links, double of_host) {
    const double host = known ? 0 : of_host * by_host.value();
    return Seconds(std::hypot(std::hypot(of_compute * compute.value(), host), of_links, normal_p90 * of_model));
  };
  p.interval_low = std::max(Seconds(0), p.iteration - half(device.below, links.below, 1 - 1 / host_rate_spread));
  p.interval_high = p.iteration + half(device.above, links.above, host_rate_spread - 1);
}

double flops_utilization(const LayoutTables& state, const LayoutPrediction& p) {
  const Workload& w = state.workload;
  if (!w.shape || !w.device) return 0;
  const DataType type = linear_type(*w.shape).value_or(w.dtype);  // in which most operations are
  const double peak = w.device->matrix_rate[static_cast<std::size_t>(type)];
  if (!(peak > 0) || !(p.iteration > Seconds(0))) return 0;
  return w.shape->operations() * state.global_batch / (p.iteration.value() * static_cast<double>(p.devices) * peak);
}

/// What the same layout takes with fused attention, where a model of many tokens has none: "3.1 s and 41 GiB"; else
/// empty. The scores of attention that is not fused grow with the square of the tokens.
std::string with_fused_attention(const LayoutTables& state, const LayoutPlan& plan) {
  constexpr std::int64_t many_tokens = 8192;
  const Workload& w = state.workload;
  if (!w.shape || !w.device || w.shape->heads == 0 || w.shape->sequence < many_tokens || has_fused_attention(*w.shape))
    return {};
  LayoutOptions options = state.options;
  options.global_batch = state.global_batch;
  LayoutTables fused(workload_of(model_shape_of(with_word(w.shape->name, "attention", "flash")), *w.device),
                     state.cluster, options);
  const Answer<EvaluatedLayout> e = fused.evaluated(plan);
  return e ? text_of(e->iteration) + " and " + text_of(e->memory.total()) + " a device" : std::string();
}

/// No unit of the described model keeps anything for the core of its attention.
bool frees_nothing(const Workload& w) {
  return w.shape && std::ranges::none_of(w.kinds, [](const UnitKind& kind) {
           return kind.shape && kind.shape->kept.attention > Bytes(0);
         });
}

constexpr double worth_telling = 0.02;  // what answers resolve at best

/// What the layout takes with sums of input gradients beside weight gradients, which Megatron-LM does unasked, where
/// the layout leaves it out and that saves time; else empty.
std::string with_its_overlap(LayoutTables& state, LayoutPlan plan, Seconds iteration) {
  const Workload& w = state.workload;
  const Layout& l = plan.layout;
  if (!w.shape || w.shape->kernels != KernelSet::megatron || l.tensor == 1 || l.overlap_expert ||
      l.overlap_tensor != TensorOverlap::nothing || !l.unit_choices.empty())
    return {};
  plan.layout.overlap_tensor = TensorOverlap::sums;
  const Answer<EvaluatedLayout> e = state.evaluated(plan);
  if (!e || e->iteration > iteration * (1 - worth_telling)) return {};
  return "Megatron-LM sums input gradients beside weight gradients without being told: with overlap_tp=on it takes " +
         text_of(e->iteration);
}

/// What a pipeline takes whose units are dealt to stages the other way, where that saves time: by time, which
/// Megatron-LM has to be told, or as the program deals them out. Else empty.
std::string with_other_stages(LayoutTables& state, LayoutPlan plan, Seconds iteration) {
  const Workload& w = state.workload;
  if (plan.layout.pipeline == 1 || !plan.layout.stage_units.empty() || !w.shape) return {};
  const bool told = plan.layout.stages_by_time;
  const std::string_view its_schedule = plan.layout.chunks > 1 ? "interleaved" : "1f1b";
  const bool can_be_told = is_told_stages(w.shape->kernels) && plan.layout.schedule->name == its_schedule;
  if (!told && !can_be_told) return {};
  plan.layout.stages_by_time = !told;
  const Answer<EvaluatedLayout> e = state.evaluated(plan);
  const bool fits = e && (state.memory_cap() <= Bytes(0) || e->memory.total() <= state.memory_cap());
  if (!fits || e->iteration > iteration * (1 - worth_telling)) return {};
  if (told)
    return "a division by time leaves out what stages send and copy: with stages as the program deals them out "
           "(without stages=by_time) it takes " +
           text_of(e->iteration);
  return "stages hold equal numbers of blocks, as without being told; dealt out by time (stages=by_time) it takes " +
         text_of(e->iteration);
}

/// Of ZeRO in groups of ranks: whether what a micro-batch sends inside a machine, gradients and with stage 3 twice the
/// parameters, takes longer than summing the parts over the machines.
bool sends_inside_machines(const Workload& w, const PricedSplit& split, const Layout& l) {
  if (!split.shard || !split.replicas || split.shard->cluster.nodes > 1) return false;
  const double held = w.parameters() / static_cast<double>(l.tensor * l.pipeline);
  const Bytes weights(held * w.bytes_of_weight), gradients(held * w.bytes_of_gradient);
  const CommunicationCost &inside = split.shard->cost, &across = split.replicas->cost;
  const double gathers = l.zero == 3 ? 2 : 0;
  return gathers * inside(Operation::all_gather, weights) + inside(Operation::reduce_scatter, gradients) >
         across(Operation::all_reduce, gradients / static_cast<double>(split.shard->members));
}

Answer<LayoutPrediction> predicted_by(LayoutTables& state, const LayoutPlan& plan) {
  const Answer<EvaluatedLayout> evaluated = state.evaluated(plan);
  if (!evaluated) return Inapplicable{evaluated.reason()};
  const EvaluatedLayout& e = *evaluated;
  LayoutPrediction p;
  p.plan = {e.layout, plan.gradients};
  p.iteration = e.iteration;
  p.memory = e.memory;
  p.host_memory = e.host;
  p.devices = e.layout.devices();
  p.micro_batches = e.micro_batches;
  p.stages = summaries_of(state, e, plan.gradients);
  for (const VirtualStage& s : e.staged->stages) p.stage_units.push_back(s.units);
  const Bytes cap = state.memory_cap();
  const std::string fused = with_fused_attention(state, {e.layout, plan.gradients});
  if (cap > Bytes(0) && e.memory.total() > cap)
    return Inapplicable{too_large_text(e.layout, e.memory, cap, e.fullest_device) +
                        (fused.empty() ? "" : "; with attention=flash in the model it takes " + fused)};
  const std::uint32_t shown = busiest_device(e);
  const LayoutTables::AfterPasses after = *state.after_passes(e, plan.gradients, e.pipeline->devices[shown]);
  const LayoutTables::AfterPasses of_last = *state.after_passes(e, plan.gradients, e.pipeline->devices[e.last_device]);
  p.breakdown = breakdown_of(state, e, plan.gradients, shown, after, of_last.gradients);
  p.throughput_samples_per_s = state.global_batch / p.iteration.value();
  p.model_flops_utilization = flops_utilization(state, p);
  set_interval(state, p);
  const PassParts& passes = e.pipeline->devices[shown].parts;
  p.bound = bound_of(p, state.cluster, passes.idle > Seconds(0) || 2 * passes.paced > passes.compute,
                     sends_inside_machines(state.workload, *e.split, e.layout));
  p.assumed = assumptions_of(state.workload, state.cluster, e.layout, plan.gradients);
  const double times = static_cast<double>(e.micro_batches) / e.layout.schedule->copies;
  for (const std::string& text :
       {division_text(state.workload, e.layout, p), ring_text(e.layout, passes.ring * times, p.breakdown.context),
        micro_batch_text(state, e)})
    if (!text.empty()) p.assumed.push_back(text);
  for (std::string& text : offload_texts(e.layout, state.cluster, e.host)) p.assumed.push_back(std::move(text));
  p.warnings = warnings_of(state.workload, state.cluster, e.layout, plan.gradients, cap);
  if (std::string text = unknown_host_text(e.layout, state.cluster); !text.empty())
    p.warnings.push_back(std::move(text));
  if (p.plan.layout.recomputation == Recomputation::selective && frees_nothing(state.workload))
    p.warnings.emplace_back(
        "recompute=selective does the core of attention again, and fused attention keeps next to nothing that this "
        "would free; torchtitan's selective is recompute=op, and Megatron-LM names modules");
  if (p.plan.layout.zero >= 2 && passes.idle > Seconds(0) && !state.workload.sharded)
    p.warnings.emplace_back(
        "the host sets the pace and issues FSDP's part of the work as well, about 2 ms a block as PyTorch's "
        "takes on another host");
  if (!fused.empty())
    p.warnings.push_back("attention is not fused, and its scores grow with the square of " +
                         std::to_string(state.workload.shape->sequence) +
                         " tokens: with attention=flash in the model this layout takes " + fused);
  if (divides_traced_model(state.workload, e.layout))
    p.warnings.emplace_back("a trace does not show what dividing its model costs: the interval is a third either way");
  if (const Bytes card = state.cluster.device_memory; p.memory.total() > card * tight_memory_share && card > Bytes(0))
    p.warnings.push_back(tight_memory_text(p.memory.total(), card));
  for (const auto tell : {with_other_stages, with_its_overlap})
    if (std::string text = tell(state, p.plan, p.iteration); !text.empty()) p.warnings.push_back(std::move(text));
  return p;
}

}  // namespace

LayoutEvaluator::LayoutEvaluator(const Workload& workload, const Cluster& cluster, const LayoutOptions& options)
    : state_(std::make_unique<State>(workload, cluster, options)) {}
LayoutEvaluator::~LayoutEvaluator() = default;
LayoutEvaluator::LayoutEvaluator(LayoutEvaluator&&) noexcept = default;

Bytes memory_cap_of(const LayoutOptions& options, const Cluster& cluster) {
  return options.memory_cap > Bytes(0) ? options.memory_cap : std::max(Bytes(0), cluster.device_memory);
}

Answer<LayoutPrediction> LayoutEvaluator::predicted(const LayoutPlan& plan) { return predicted_by(*state_, plan); }

Answer<LayoutEvaluator::Quick> LayoutEvaluator::quick(const LayoutPlan& plan) {
  const Answer<EvaluatedLayout> e = state_->evaluated(plan);
  if (!e) return Inapplicable{e.reason()};
  return Quick{e->iteration, e->memory.total(), e->layout.micro_batch};
}

Answer<LayoutPrediction> predicted(const Workload& workload, const Cluster& cluster, const LayoutPlan& plan,
                                   const LayoutOptions& options) {
  return LayoutEvaluator(workload, cluster, options).predicted(plan);
}

Answer<LayoutTimeline> layout_timeline(const Workload& workload, const Cluster& cluster, const LayoutPlan& plan,
                                       const LayoutOptions& options) {
  LayoutTables state(workload, cluster, options);
  const Answer<EvaluatedLayout> e = state.evaluated(plan);
  if (!e) return Inapplicable{e.reason()};
  Answer<TaskGraph> graph =
      lowered(*e->layout.schedule, e->pipeline->shape, e->staged->chunks, e->layout.overlap_pipeline);
  if (!graph) return Inapplicable{graph.reason()};
  LayoutTimeline out{std::move(*graph), {}, e->pipeline->shape, e->layout};
  out.timeline = schedule(out.graph);
  return out;
}

}  // namespace stepcast
