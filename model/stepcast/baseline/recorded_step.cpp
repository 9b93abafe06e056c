// Tasks that are collectives are free; what each of them is, is read off the anatomy of the step.
#include <stepcast/anatomy/collective_roles.hpp>
#include <stepcast/baseline/recorded_step.hpp>
#include <stepcast/replay/calibration.hpp>
#include <stepcast/replay/edits/recorded_transfers.hpp>
#include <stepcast/trace/trace_index.hpp>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

namespace stepcast {
namespace {

/// What each collective of a step is for, and how many of its group share a machine, by event.
using Roles = std::map<std::uint32_t, std::pair<CollectiveRole, std::int64_t>>;
Roles roles_in(const TraceIndex& index, const Step& step, std::int64_t world, const Profile* profile) {
  const StepWindow window{step.start_ns, step.end_ns};
  const std::vector<TracedCollective> collectives = collectives_in(index, std::span(&window, 1)).front();
  const std::span<const Tensor> tensors = profile == nullptr ? std::span<const Tensor>() : profile->tensors;
  const std::vector<CollectiveRole> roles = roles_of(collectives, index, anatomy_of(index, window), tensors);
  Roles out;
  for (std::size_t c = 0; c < collectives.size(); ++c)
    out[collectives[c].event] = {roles[c], per_machine_of(index.trace, collectives[c], world)};
  return out;
}

}  // namespace

RecordedStep recorded_step_of(const Trace& trace, const replaying::Calibration& calibration, const Profile* profile,
                              const std::unordered_map<std::uint32_t, Seconds>* waiting, std::int64_t world) {
  RecordedStep out;
  RecordedRank& rank = out.rank;
  const TraceIndex index(trace);
  const Roles roles = roles_in(index, calibration.step(), world, profile);
  const RecordedTransfers transfers(index, calibration.steps);
  const replaying::StepGraph& step = calibration.taken_apart;
  std::vector<std::uint32_t> numbers(trace.events.size(), no_index);
  for (std::uint32_t t = 0; t < step.graph.tasks.size(); ++t) {
    const replaying::TaskRole::Part part = step.roles[t].part;
    const Task& task = step.graph.tasks[t];
    if (part != replaying::TaskRole::Part::transfer && part != replaying::TaskRole::Part::device) continue;
    const RecordedTransfer* transfer = transfers.of(task.index);
    if (transfer == nullptr) continue;
    std::uint32_t& number = numbers[task.index];
    if (number == no_index) {
      number = static_cast<std::uint32_t>(rank.collectives.size());
      Seconds late = transfer->duration - transfer->least;
      if (waiting != nullptr)
        if (const auto known = waiting->find(task.index); known != waiting->end())
          late = std::min(known->second, transfer->duration);
      rank.collectives.push_back(
          {transfer->operation, transfer->size, transfer->group_size, transfer->duration, transfer->least, late});
      rank.collectives.back().event = task.index;
      if (const auto known = roles.find(task.index); known != roles.end())
        rank.collectives.back().role = known->second.first, rank.collectives.back().per_machine = known->second.second;
    }
    rank.parts.push_back({number, task.work});
    out.free.push_back(t);
  }
  if (out.free.empty()) return out;
  rank.fixed = "the sizes of its gradients are not known";
  if (profile != nullptr) {
    Answer<ExchangeableStep> gates =
        exchangeable(index, calibration, numbers, profile->tensors, profile->communication.message);
    if (gates) {
      rank.exchange = std::move(gates->exchange);
      out.free.insert(out.free.end(), gates->free.begin(), gates->free.end());
      out.graph = std::move(gates->graph);
      rank.blocks = blocks_of(out.graph, out.free);
      return out;
    }
    rank.fixed = gates.reason();
  }
  out.graph = step.graph;
  rank.blocks = blocks_of(out.graph, out.free);
  return out;
}

}  // namespace stepcast
