// OperationTable: steps of the job first, then worker by worker.
#include <stepcast/base/error.hpp>
#include <stepcast/formats/shared/operation_table.hpp>
#include <stepcast/formats/shared/tensor_steps.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace stepcast {
namespace {

struct JobStep {
  std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_ns = std::numeric_limits<std::int64_t>::min();
  std::int64_t shift_ns = 0;  ///< to the common clock
};
constexpr std::int64_t longest_job_ns = std::int64_t{1} << 61;
using JobSteps = std::map<std::int32_t, JobStep>;

JobSteps steps_in(const OperationTable& table, const std::string& source) {
  JobSteps steps;
  for (const OperationRecord& operation : table.operations) {
    if (operation.step < 0) continue;
    JobStep& step = steps[operation.step];
    step.first_ns = std::min(step.first_ns, operation.start_ns);
    step.last_ns = std::max(step.last_ns, operation.start_ns + operation.duration_ns);
  }
  if (!table.relative) return steps;
  std::int64_t now = 0;
  for (auto& [number, step] : steps) {
    step.shift_ns = now - step.first_ns;
    now += step.last_ns - step.first_ns;
    if (now > longest_job_ns) throw InputError(source, "steps of a run", "steps that take centuries together");
  }
  return steps;
}

class Worker {
 public:
  Worker(const OperationTable& table, const JobSteps& steps, const Source& source, std::int64_t rank)
      : table_(table), steps_(steps), draft_(source.name), rank_(rank), streams_(table.types.size(), -1) {
    for (const auto& [number, step] : steps_)
      add_step(draft_, number, step.first_ns + step.shift_ns, step.last_ns + step.shift_ns);
  }

  void add(const OperationRecord& operation, std::int64_t peer, std::int64_t data_ranks) {
    const auto step = steps_.find(operation.step);
    Event event;
    event.start_ns = operation.start_ns + (step == steps_.end() ? 0 : step->second.shift_ns);
    event.duration_ns = operation.duration_ns;
    const std::string& type = table_.types[static_cast<std::size_t>(operation.type)];
    event.name = draft_.text(type);
    const OperationRole role = role_of_operation(type);
    event.kind = role.known ? EventKind::kernel : EventKind::other;
    event.track = draft_.track(0, role.communication ? stream_of(operation.type) : 0, true,
                               role.communication ? type : "compute");
    if (role.communication) event.collective = collective(role, operation, peer, data_ranks);
    if (!role.known) {
      ++draft_.trace().report.events_unclassified;
      draft_.trace().report.unclassified_ns += operation.duration_ns;
    }
    draft_.trace().operations.push_back({draft_.add(event), operation.step, operation.micro_batch, operation.chunk,
                                         operation.stage, operation.data_rank, operation.sequence});
  }

  Trace finish() {
    Trace& trace = draft_.trace();
    trace.rank = rank_;
    ReadReport report = table_.report;
    report.events_unclassified = trace.report.events_unclassified;
    report.unclassified_ns = trace.report.unclassified_ns;
    trace.report = std::move(report);
    return draft_.finish();
  }

 private:
  std::int64_t stream_of(std::int32_t type) {
    std::int64_t& stream = streams_[static_cast<std::size_t>(type)];
    if (stream < 0) stream = ++last_stream_;
    return stream;
  }

  std::uint32_t collective(const OperationRole& role, const OperationRecord& operation, std::int64_t peer,
                           std::int64_t data_ranks) {
    CollectiveArguments arguments;
    arguments.name = draft_.text(role.operation);
    arguments.group = draft_.text(role.group);
    arguments.sequence = operation.sequence;
    if (role.group == "data") arguments.group_size = data_ranks;
    if (role.peer_stage != 0) {
      arguments.group_size = 2;
      const bool sends = role.operation == "send";
      arguments.source_rank = sends ? rank_ : peer;
      arguments.destination_rank = sends ? peer : rank_;
    }
    draft_.trace().collectives.push_back(arguments);
    return static_cast<std::uint32_t>(draft_.trace().collectives.size() - 1);
  }

  const OperationTable& table_;
  const JobSteps& steps_;
  TraceDraft draft_;
  std::int64_t rank_;
  std::vector<std::int64_t> streams_;  ///< by type
  std::int64_t last_stream_ = 0;
};

void keep_one_of_tensor_group(OperationTable& table) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> kept;  // the first, by replica and stage
  for (const OperationRecord& o : table.operations) {
    if (o.tensor_rank < 0) continue;
    std::int32_t& first = kept.try_emplace({o.data_rank, o.stage}, o.tensor_rank).first->second;
    first = std::min(first, o.tensor_rank);
  }
  const std::size_t others = std::erase_if(table.operations, [&](const OperationRecord& o) {
    return o.tensor_rank >= 0 && o.tensor_rank > kept.at({o.data_rank, o.stage});
  });
  if (others == 0) return;
  table.report.events_left_out += others;
  table.report.assumed.push_back("the first tensor-parallel rank of each stage stands for all of its group; " +
                                 std::to_string(others) + " operations of the others left out");
}

}  // namespace

std::int32_t OperationTable::type(std::string_view name) {
  const auto found = std::ranges::find(types, name);
  if (found == types.end()) {
    types.emplace_back(name);
    return static_cast<std::int32_t>(types.size() - 1);
  }
  return static_cast<std::int32_t>(found - types.begin());
}

OperationRole role_of_operation(std::string_view type) {
  const auto holds = [type](std::string_view part) { return type.find(part) != std::string_view::npos; };
  if (holds("send") || holds("recv") || holds("receive")) {
    // A forward pass goes down the pipeline, a backward pass up. Both halves of an exchange
    // ("forward-send-backward-recv", "send-forward-recv-backward") have the same peer; the first half names it.
    const std::size_t send = type.find("send"), receive = std::min(type.find("recv"), type.find("receive"));
    const bool sends = send < receive;
    const std::string_view before = type.substr(0, std::min(send, receive));
    const bool said = before.find("ward") != std::string_view::npos;
    const std::string_view half = said ? before : type.substr(0, std::max(send, receive));
    const bool forward = half.find("backward") == std::string_view::npos;
    return {true, sends ? "send" : "recv", "pipeline", sends == forward ? 1 : -1};
  }
  const std::string_view group = holds("embedding")                              ? "embedding"
                                 : holds("layernorm") || type.starts_with("tp-") ? "tensor"
                                                                                 : "data";
  if (holds("reduce-scatter") || holds("reducescatter")) return {true, "reducescatter", group};
  if (holds("all-gather") || holds("allgather")) return {true, "allgather", group};
  if (holds("all-reduce") || holds("allreduce")) return {true, "allreduce", group};
  if (holds("all-to-all")) return {true, "alltoall", "expert"};
  if (holds("broadcast")) return {true, "broadcast", group};
  OperationRole role;
  role.known = holds("compute") || holds("forward") || holds("backward") || holds("optimizer") || type == "gc";
  return role;
}

std::vector<Trace> traces_of(OperationTable table, const Source& source) {
  keep_one_of_tensor_group(table);
  if (table.operations.empty())
    throw InputError(source.name, "operations of a pipelined job", "a table without a readable row");
  const JobSteps steps = steps_in(table, source.name);
  if (steps.empty()) throw InputError(source.name, "operations with the number of their step", "none has one");
  if (table.relative)
    table.report.assumed.push_back(
        "times count from the start of each step; the steps follow each other without a gap");
  std::map<std::int64_t, std::vector<const OperationRecord*>> of_rank;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> rank_at;  // data rank, stage -> rank
  std::int64_t data_ranks = 0;
  for (const OperationRecord& operation : table.operations) {
    of_rank[operation.rank].push_back(&operation);
    rank_at.try_emplace({operation.data_rank, operation.stage}, operation.rank);
    data_ranks = std::max<std::int64_t>(data_ranks, operation.data_rank + 1);
  }
  constexpr std::size_t most_workers = 1u << 17;
  if (of_rank.size() > most_workers)
    throw InputError(source.name, "at most 131072 workers", std::to_string(of_rank.size()),
                     "is the column \"rank\" really one?");
  constexpr std::size_t most_marks = std::size_t{1} << 24;  // every worker carries every step
  if (of_rank.size() * steps.size() > most_marks)
    throw InputError(source.name, "at most 16777216 steps of all workers together",
                     std::to_string(of_rank.size()) + " workers and " + std::to_string(steps.size()) + " steps",
                     "is the column \"step\" really one?");
  std::vector<Trace> traces;
  for (const auto& [rank, operations] : of_rank) {
    Worker worker(table, steps, source, rank);
    for (const OperationRecord* operation : operations) {
      const int offset = role_of_operation(table.types[static_cast<std::size_t>(operation->type)]).peer_stage;
      const auto peer = rank_at.find({operation->data_rank, operation->stage + offset});
      worker.add(*operation, peer == rank_at.end() ? -1 : peer->second, data_ranks > 0 ? data_ranks : -1);
    }
    traces.push_back(worker.finish());
  }
  return traces;
}

}  // namespace stepcast
