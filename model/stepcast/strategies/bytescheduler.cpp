// ByteScheduler over all-reduce: cut tensors, send the most urgent part first, no barrier. Peng et al. 2019.
//
//   compute |  F1 F2 F3  B3 B2 B1      U1 F1 U2 F2  U3 F3 ...
//   net     |              [3a][2a][1a][1b][2b][3b]
//
// Tensors above `partition` are cut; a part queues when its gradient is ready. Whenever the credit is positive the part
// nearest the input is issued, its size is taken from the credit (which may go below zero by one part) and given back
// on completion. What is issued is not pre-empted, so a late urgent part waits for at most credit / bandwidth. The
// forward pass of a layer waits for its own parts only, and its update runs just before it.
//
//   one part: theta + m/B (theta = start-up and message overhead of the cluster); T >= max(t_C + t_U, channel time of
//   M) partition >= every tensor and a credit without end make the queue first-in first-out (WFBP without its barrier).
//
// Below it runs Horovod with its own loop (horovod): what is issued by a tick of `cycle` goes out then, fused up to
// `fusion`; 5 ms and 64 MiB up to version 0.20, the last that ByteScheduler patches. Its phase is unknown, half a
// period is assumed. The loop is followed from profiled ready times; parts of tensors that are cut are not fused.
//
// Defaults are those advised for all-reduce, 8 M and 16 M elements of 4 bytes (bytedance/byteps, branch bytescheduler);
// the survey ran 4 M and 16 M. Only rank 0 orders; the others post at once. The wrapper polls and updates tensor by
// tensor in Python while the training thread waits for the interpreter: `host` per tensor, on top of the links. 0.65 ms
// is the mean of what the survey's runs on one machine show above compute and links: 0.61, 0.85 and 0.86 ms for
// ResNet-50, 0.53 and 0.54 ms for BERT-Base (arXiv 2005.13247, 4 GPUs); how it grows with the workers is not modelled.
#include <stepcast/strategies/shared/plan_writing.hpp>
#include <stepcast/strategies/shared/server_plan.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace stepcast::strategy::bytescheduler {
namespace {

constexpr double million_elements = 4e6;  // bytes
constexpr OptionSpec options[] = {{.name = "partition",
                                   .kind = OptionKind::size,
                                   .standard = 8 * million_elements,
                                   .low = 1024,
                                   .high = 0x1p40,
                                   .summary = "largest message; larger tensors are cut",
                                   .tuned = true,
                                   .tune_low = 0.25 * million_elements,
                                   .tune_high = 32 * million_elements},
                                  {.name = "credit",
                                   .kind = OptionKind::size,
                                   .standard = 16 * million_elements,
                                   .low = 1024,
                                   .high = 0x1p50,
                                   .summary = "bytes that may be in flight",
                                   .tuned = true,
                                   .tune_low = million_elements,
                                   .tune_high = 64 * million_elements},
                                  {.name = "host",
                                   .kind = OptionKind::duration,
                                   .standard = 0.65e-3,
                                   .low = 0,
                                   .high = 1,
                                   .summary = "host time of the wrapper to finish and update one tensor"},
                                  {.name = "cycle",
                                   .kind = OptionKind::duration,
                                   .standard = 5e-3,
                                   .low = 0,
                                   .high = 10,
                                   .summary = "period of Horovod's loop below (HOROVOD_CYCLE_TIME); 0: none"},
                                  {.name = "fusion",
                                   .kind = OptionKind::size,
                                   .standard = 64 * 0x1p20,
                                   .low = 0,
                                   .high = 0x1p40,
                                   .summary = "what Horovod fuses at a tick (HOROVOD_FUSION_THRESHOLD)"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

/// What is posted together: a run of tensors, and the ready time of the last one.
struct Posted {
  std::uint32_t first = 0, count = 0;
  Bytes size;
  Seconds wait;  ///< from the gradient of its last tensor to the tick that takes it
};

/// Every tensor alone, or what Horovod's loop below fuses: tensors that are ready at the same tick, up to the
/// threshold. Tensors that are cut travel alone.
std::pmr::vector<Posted> posted(const StrategyInput& in) {
  const Bytes partition(in.options[named("partition")]), threshold(in.options[named("fusion")]);
  const bool wrapped = in.cluster.workers() > 1;
  const Seconds cycle(wrapped ? in.options[named("cycle")] : 0);
  const auto ready = ready_times(in);
  std::pmr::vector<Posted> groups(in.memory);
  groups.reserve(ready.size());
  double open_tick = -1;  // number of the tick of the last group, if more may join it
  for (std::uint32_t t = 0; t < in.profile.tensors.size(); ++t) {
    const Tensor& tensor = in.profile.tensors[t];
    const double tick = cycle > Seconds(0) ? std::ceil(ready[t] / cycle - in.phase) : -1;
    const Seconds wait = cycle > Seconds(0) ? std::max(Seconds(0), cycle * (tick + in.phase) - ready[t]) : Seconds(0);
    const bool alone = tick < 0 || tensor.size > partition;
    const bool joins = !alone && tick == open_tick && groups.back().size + tensor.size <= threshold &&
                       tensor.dtype == in.profile.tensors[groups.back().first].dtype;
    if (!joins) groups.push_back({t, 0, Bytes(0), wait});
    Posted& group = groups.back();
    ++group.count;
    group.size += tensor.size;
    group.wait = wait;
    open_tick = alone ? -1 : tick;
  }
  return groups;
}

/// The gradient of the last tensor of the group, at the tick that takes it.
Node released(const StrategyInput& in, const Posted& group, std::uint8_t timer, CommPlan& plan) {
  const Node ready = gradient(in.profile, group.first + group.count - 1);
  if (group.wait <= Seconds(0)) return ready;
  Transfer tick;
  tick.channel = timer;
  tick.carries_gradient = false;
  tick.delay = group.wait;
  plan.transfers.push_back(tick);
  const Node node = transfer(plan.transfers.size() - 1);
  plan.edges.push_back({ready, node});
  return node;
}

Answer<CommPlan> plan(const StrategyInput& in) {
  const Bytes partition(in.options[named("partition")]), credit(in.options[named("credit")]);
  const double parts = number_of_parts(in.profile, partition);
  if (std::string why = too_many(parts); !why.empty()) return Inapplicable{why};
  CommPlan plan = in.blank();
  plan.update = UpdatePlace::before_forward;
  plan.update_per_tensor = in.cluster.workers() > 1 ? Seconds(in.options[named("host")]) : Seconds(0);
  plan.channels.push_back({"net", Discipline::priority, credit});
  plan.channels.push_back({"timer", Discipline::parallel, Bytes(0)});
  plan.transfers.reserve(2 * static_cast<std::size_t>(parts));
  plan.edges.reserve(4 * static_cast<std::size_t>(parts));
  for (const Posted& group : posted(in)) {
    const Node start = released(in, group, 1, plan);
    const Bytes largest = group.count > 1 ? group.size : partition;
    for_each_part(group.size, largest, [&](Bytes size) {
      Transfer part;
      part.priority = std::numeric_limits<std::int32_t>::max();
      part.size = size;
      part.first_tensor = group.first;
      part.tensors = group.count;
      const Node node = transfer(plan.transfers.size());
      plan.edges.push_back({start, node});
      for (std::uint32_t t = group.first; t < group.first + group.count; ++t) {
        const std::uint32_t layer = in.profile.tensors[t].layer;
        part.priority = std::min(part.priority, static_cast<std::int32_t>(layer));
        plan.edges.push_back({node, forward_of(layer), 1});
      }
      plan.transfers.push_back(part);
    });
  }
  return plan;
}

std::string settings(const OptionValues& v) {
  return "USE_BYTESCHEDULER=1 BYTESCHEDULER_PARTITION=" +
         std::to_string(static_cast<long long>(v[named("partition")] / 4)) +
         " BYTESCHEDULER_CREDIT=" + std::to_string(static_cast<long long>(v[named("credit")] / 4)) + " (elements)";
}

}  // namespace

extern constinit const Strategy record{
    .name = "bytescheduler",
    .title = "ByteScheduler-A2A",
    .summary = "tensors cut into parts, all-reduced by urgency under a credit, across the barrier",
    .reference = "Peng et al., SOSP 2019; bytedance/byteps branch bytescheduler",
    .fidelity = Fidelity::exact,
    .needs = "ByteScheduler",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution =
        "the host cost per tensor of its wrapper (0.65 ms, from a survey of 2020) decides for models of many small "
        "tensors: measure it before relying on this",
    .same_on_all_links = true,
};

}  // namespace stepcast::strategy::bytescheduler
