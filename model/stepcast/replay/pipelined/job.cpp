// PipelineJob, its operations: from traces to types, workers and steps.
#include <stepcast/base/statistics.hpp>
#include <stepcast/formats/shared/operation_table.hpp>
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/replay/pipelined/job.hpp>
#include <stepcast/replay/pipelined/waits.hpp>
#include <stepcast/trace/steps.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace stepcast::pipelined {
namespace {

OperationType type_of(std::string_view name) {
  OperationType type;
  type.name = name;
  const OperationRole role = role_of_operation(name);
  const auto holds = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (!role.communication) {
    type.role = holds("forward") ? Role::forward : holds("backward") ? Role::backward : Role::computation;
    return type;
  }
  type.peer_stage = role.peer_stage;
  type.backward = holds("backward");
  type.role = role.peer_stage == 0 ? Role::collective : role.operation == "send" ? Role::send : Role::receive;
  // Ranks of a tensor group are not told apart by such tables: theirs is a collective among the parts of one worker.
  type.together = type.role != Role::collective ? Together::peer
                  : role.group == "data"        ? Together::replicas
                  : role.group == "embedding"   ? Together::ends_of_pipeline
                                                : Together::alone;
  return type;
}

struct Window {
  std::int64_t start_ns = 0, end_ns = 0;
};

class OperationReader {
 public:
  explicit OperationReader(std::span<const Trace> traces) : traces_(traces) {}

  Answer<PipelineJob> job() {
    for (std::size_t t = 0; t < traces_.size(); ++t)
      if (!traces_[t].operations.empty()) add(t);
    if (steps_.empty()) return Inapplicable{"the traces hold no operations of a pipelined job"};
    const bool passes = std::ranges::any_of(job_.types, [](const OperationType& type) { return is_pass(type.role); });
    if (!passes) return Inapplicable{"the operations hold no forward or backward passes"};
    job_.stages = 1 + std::ranges::max(job_.workers, {}, &JobWorker::stage).stage;
    job_.replicas = 1 + std::ranges::max(job_.workers, {}, &JobWorker::replica).replica;
    if (std::string missing = missing_worker(); !missing.empty()) return Inapplicable{std::move(missing)};
    for (auto& [number, step] : steps_) finish(number, std::move(step));
    if (job_.steps.empty()) return Inapplicable{"no step holds operations of all workers"};
    number_chunks();
    return std::move(job_);
  }

 private:
  void add(std::size_t t) {
    const Trace& trace = traces_[t];
    std::map<std::int64_t, Window> windows;
    for (const Step& step : steps_of(trace)) windows[step.number] = {step.start_ns, step.end_ns};
    const auto worker = static_cast<std::uint32_t>(job_.workers.size());
    const OperationArguments& first = trace.operations.front();
    const std::int64_t stage = first.stage >= 0 ? first.stage : std::max<std::int64_t>(trace.rank, 0);
    job_.workers.push_back({trace.rank, stage, std::max(first.data_rank, 0), t});
    for (const OperationArguments& o : trace.operations) {
      const auto window = windows.find(o.step);
      if (window == windows.end()) continue;
      const Event& event = trace.events[o.event];
      const auto seconds = [&](std::int64_t ns) { return static_cast<double>(ns - window->second.start_ns) * 1e-9; };
      JobStep& step = steps_[o.step];
      step.measured = std::max(step.measured, seconds(window->second.end_ns));
      step.operations.push_back({seconds(event.start_ns), seconds(event.end_ns()), type_named(trace.text(event.name)),
                                 worker, 0, o.event, o.micro_batch, std::max(o.chunk, 0)});
      job_.micro_batches = std::max<std::int64_t>(job_.micro_batches, o.micro_batch + 1);
      job_.chunks = std::max<std::int64_t>(job_.chunks, o.chunk + 1);
      chunks_said_ = chunks_said_ || o.chunk >= 0;
    }
  }

  /// Every stage of every replica has to be there once: what is missing cannot be waited for.
  [[nodiscard]] std::string missing_worker() const {
    std::set<std::pair<std::int64_t, std::int64_t>> places;
    for (const JobWorker& worker : job_.workers)
      if (!places.emplace(worker.replica, worker.stage).second)
        return "two workers are stage " + std::to_string(worker.stage) + " of replica " +
               std::to_string(worker.replica) + " (files of stages are told apart by their names: pp_rank_N)";
    std::pair<std::int64_t, std::int64_t> expected{0, 0};
    for (const auto& place : places) {
      if (place != expected) break;
      expected = expected.second + 1 == job_.stages ? std::pair{expected.first + 1, std::int64_t{0}}
                                                    : std::pair{expected.first, expected.second + 1};
    }
    if (expected == std::pair{job_.replicas, std::int64_t{0}}) return {};
    return "stage " + std::to_string(expected.second) + " of replica " + std::to_string(expected.first) +
           " is missing: the files of all workers are needed";
  }

  std::uint32_t type_named(std::string_view name) {
    const auto found = types_.find(name);
    if (found != types_.end()) return found->second;
    job_.types.push_back(type_of(name));
    return types_.emplace(std::string(name), static_cast<std::uint32_t>(job_.types.size() - 1)).first->second;
  }

  /// A step without some workers (files that end early) cannot be rebuilt.
  void finish(std::int64_t number, JobStep step) {
    step.number = number;
    std::ranges::stable_sort(step.operations, {},
                             [](const JobOperation& o) { return std::tuple(o.worker, o.start, o.end, o.type); });
    std::vector<std::uint32_t> seen(job_.types.size());
    std::uint32_t next = 0;
    for (std::uint32_t w = 0; w < job_.workers.size(); ++w) {
      step.first_of.push_back(next);
      std::ranges::fill(seen, 0u);
      for (; next < step.operations.size() && step.operations[next].worker == w; ++next)
        step.operations[next].nth = seen[step.operations[next].type]++;
      if (next == step.first_of.back()) {
        job_.notes.push_back("step " + std::to_string(number) + " left out: it lacks worker " +
                             std::to_string(job_.workers[w].rank));
        return;
      }
    }
    step.first_of.push_back(next);
    if (step.measured > 0) job_.steps.push_back(std::move(step));
  }

  /// Where the recording does not tell chunks, those of an interleaved pipeline look like so many more micro-batches.
  /// The order of forward and backward passes tells: no other schedule has as many forward passes ahead.
  void number_chunks() {
    constexpr std::int64_t most_passes = 1 << 16, most_chunks = 16;
    if (chunks_said_ || job_.stages < 2 || job_.stages * job_.micro_batches > most_passes) return;
    const auto passes = static_cast<std::uint32_t>(job_.micro_batches);
    const PipelineShape whole{static_cast<std::uint32_t>(job_.stages), 1, passes};
    for (const PipelineSchedule& schedule : pipeline_schedules())
      if (schedule.copies == 1 && schedule.unsuitable(whole).empty() && !slots_of(schedule, whole).empty()) return;
    const PipelineSchedule& interleaved = *pipeline_schedule("interleaved");
    for (std::uint32_t chunks = 2; chunks <= most_chunks; ++chunks) {
      const PipelineShape shape{whole.stages, chunks, passes / chunks};
      if (passes % chunks != 0 || !interleaved.unsuitable(shape).empty()) continue;
      const std::vector<std::vector<PipelineSlot>> slots = slots_of(interleaved, shape);
      if (slots.empty()) continue;
      for (JobStep& step : job_.steps) {
        std::vector<std::size_t> next(job_.workers.size(), 0);
        for (JobOperation& o : step.operations) {
          if (!is_pass(job_.types[o.type].role)) continue;
          const PipelineSlot& slot = slots[o.worker][next[o.worker]++];
          o.chunk = static_cast<std::int32_t>(slot.chunk);
          o.micro_batch = static_cast<std::int32_t>(slot.micro_batch);
        }
      }
      job_.chunks = chunks;
      job_.micro_batches = shape.micro_batches;
      job_.notes.push_back("the order of the passes is that of an interleaved pipeline of " + std::to_string(chunks) +
                           " chunks a stage: " + std::to_string(passes) + " forward passes are " +
                           std::to_string(shape.micro_batches) + " micro-batches");
      return;
    }
  }
  /// The passes of each worker, if it runs forward and backward passes in the order of the schedule in every step.
  [[nodiscard]] std::vector<std::vector<PipelineSlot>> slots_of(const PipelineSchedule& schedule,
                                                                const PipelineShape& shape) const {
    std::vector<std::vector<PipelineSlot>> slots;
    for (const JobWorker& worker : job_.workers)
      slots.push_back(schedule.order(shape, static_cast<std::uint32_t>(worker.stage)));
    std::vector<std::size_t> next(slots.size());
    for (const JobStep& step : job_.steps) {
      std::ranges::fill(next, std::size_t{0});
      for (const JobOperation& o : step.operations) {
        const Role role = job_.types[o.type].role;
        if (!is_pass(role)) continue;
        const std::vector<PipelineSlot>& order = slots[o.worker];
        const PipelinePass pass = role == Role::forward ? PipelinePass::forward : PipelinePass::backward;
        if (next[o.worker] == order.size() || order[next[o.worker]++].pass != pass) return {};
      }
      for (std::size_t w = 0; w < slots.size(); ++w)
        if (next[w] != slots[w].size()) return {};
    }
    return slots;
  }

  std::span<const Trace> traces_;
  PipelineJob job_;
  bool chunks_said_ = false;
  std::map<std::string, std::uint32_t, std::less<>> types_;
  std::map<std::int64_t, JobStep> steps_;
};

}  // namespace

Answer<PipelineJob> operations_of(std::span<const Trace> traces) { return OperationReader(traces).job(); }

Answer<PipelineJob> job_of(std::span<const Trace> traces) {
  Answer<PipelineJob> job = operations_of(traces);
  if (!job) return job;
  std::string flaw = add_waits(*job);
  if (!flaw.empty()) return Inapplicable{std::move(flaw)};
  return job;
}

std::string words_of(const PipelineJob& job, const LagKind& kind) {
  const std::string& name = job.types[kind.type].name;
  if (kind.after == no_index) return name + " at the start of the step";
  return name + " after " + job.types[kind.after].name + (kind.remote ? " of another worker" : "");
}

namespace {

/// The median of what a host takes. What is far beyond the lower quartile was a wait for something not recorded.
double typical_lag(std::vector<double> seen, UnexplainedWait& waits) {
  const double limit = 3 * quantile(seen, 0.25) + 1e-3;
  const std::size_t all = seen.size();
  for (const double lag : seen)
    if (lag > limit) waits.longest = std::max(waits.longest, lag);
  std::erase_if(seen, [limit](double lag) { return lag > limit; });
  waits.seen += all, waits.unexplained += all - seen.size();
  return median(std::move(seen));
}

}  // namespace

std::vector<double> lags_of(const PipelineJob& job, const std::vector<bool>& use,
                            std::vector<UnexplainedWait>* unexplained) {
  std::vector<std::vector<double>> seen(job.lags.size() + 1);
  for (std::size_t s = 0; s < job.steps.size(); ++s) {
    if (!use[s]) continue;
    const JobStep& step = job.steps[s];
    double last = 0;
    for (std::size_t g = 0; g + 1 < step.first_member.size(); ++g) {
      // Of what ends together, only the member that came last tells how long the host took: others may have waited.
      double ready = -std::numeric_limits<double>::infinity(), start = ready;
      std::uint32_t kind = 0;
      for (std::uint32_t m = step.first_member[g]; m < step.first_member[g + 1]; ++m) {
        const std::uint32_t o = step.members[m];
        start = std::max(start, step.operations[o].start);
        last = std::max(last, step.operations[o].end);
        for (std::uint32_t w = step.first_wait[o]; w < step.first_wait[o + 1]; ++w) {
          const Wait& wait = step.waits[w];
          const double end = wait.on == no_index ? 0 : step.operations[wait.on].end;
          if (end > ready) ready = end, kind = wait.lag;
        }
      }
      seen[kind].push_back(std::max(0.0, start - ready));
    }
    seen.back().push_back(std::max(0.0, step.measured - last));
  }
  std::vector<double> lags(seen.size());
  std::vector<UnexplainedWait> waits(seen.size());
  for (std::size_t k = 0; k < seen.size(); ++k) lags[k] = typical_lag(std::move(seen[k]), waits[k]);
  if (unexplained) *unexplained = std::move(waits);
  return lags;
}

std::vector<double> typical_work(const PipelineJob& job, const JobStep& of, const std::vector<bool>& use) {
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::vector<double>> seen;
  for (std::size_t s = 0; s < job.steps.size(); ++s) {
    if (!use[s]) continue;
    const JobStep& step = job.steps[s];
    for (std::size_t o = 0; o < step.operations.size(); ++o) {
      const JobOperation& operation = step.operations[o];
      seen[{operation.worker, operation.type, operation.nth}].push_back(step.work[o]);
    }
  }
  std::vector<double> work(of.operations.size());
  for (std::size_t o = 0; o < work.size(); ++o) {
    const JobOperation& operation = of.operations[o];
    const auto found = seen.find({operation.worker, operation.type, operation.nth});
    work[o] = found == seen.end() ? of.work[o] : median(found->second);
  }
  return work;
}

void rebuild(const JobStep& step, std::span<const double> work, std::span<const double> lags, Rebuilt& out) {
  out.start.assign(step.operations.size(), 0);
  out.end.assign(step.operations.size(), 0);
  double last = 0;
  for (std::size_t g = 0; g + 1 < step.first_member.size(); ++g) {
    double common = 0;
    for (std::uint32_t m = step.first_member[g]; m < step.first_member[g + 1]; ++m) {
      const std::uint32_t o = step.members[m];
      for (std::uint32_t w = step.first_wait[o]; w < step.first_wait[o + 1]; ++w) {
        const Wait& wait = step.waits[w];
        out.start[o] = std::max(out.start[o], (wait.on == no_index ? 0 : out.end[wait.on]) + lags[wait.lag]);
      }
      common = std::max(common, out.start[o]);
    }
    for (std::uint32_t m = step.first_member[g]; m < step.first_member[g + 1]; ++m) {
      const std::uint32_t o = step.members[m];
      out.end[o] = common + work[o];
      last = std::max(last, out.end[o]);
    }
  }
  out.step = last + lags.back();
}

}  // namespace stepcast::pipelined
