// A step of a pipelined job as measured and as rebuilt, worker by worker.
#include <stepcast/replay/pipelined/job.hpp>
#include <stepcast/report/pipeline_replay_report.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

namespace stepcast {
namespace {

using namespace pipelined;

TaskKind kind_of(Role role) {
  return role == Role::forward    ? TaskKind::forward
         : role == Role::backward ? TaskKind::backward
         : computes(role)         ? TaskKind::other
                                  : TaskKind::transfer;
}

std::size_t median_step(const PipelineJob& job) {
  std::vector<std::size_t> order(job.steps.size());
  for (std::size_t s = 0; s < order.size(); ++s) order[s] = s;
  std::ranges::stable_sort(order, {}, [&](std::size_t s) { return job.steps[s].measured; });
  return order[order.size() / 2];
}

/// Computation is one row, each kind of communication another.
class WorkerRows {
 public:
  explicit WorkerRows(const PipelineJob& job) : job_(job), row_(job.types.size(), no_index) {}
  std::uint32_t row_of(std::uint32_t type, std::vector<std::string>& rows) {
    const bool compute = computes(job_.types[type].role);
    std::uint32_t& row = compute ? compute_ : row_[type];
    if (row == no_index) {
      row = static_cast<std::uint32_t>(rows.size());
      rows.push_back(compute ? "compute" : job_.types[type].name);
    }
    return row;
  }

 private:
  const PipelineJob& job_;
  std::uint32_t compute_ = no_index;
  std::vector<std::uint32_t> row_;
};

}  // namespace

Answer<std::vector<ReplayTimeline>> pipeline_timelines_of(std::span<const Trace> traces) {
  const Answer<PipelineJob> answer = job_of(traces);
  if (!answer) return Inapplicable{answer.reason()};
  const PipelineJob& job = *answer;
  const std::size_t shown = median_step(job);
  const JobStep& step = job.steps[shown];
  std::vector<bool> others(job.steps.size(), true);
  if (others.size() > 1) others[shown] = false;
  Rebuilt rebuilt;
  rebuild(step, step.work, lags_of(job, others), rebuilt);
  std::vector<ReplayTimeline> out;
  for (std::size_t w = 0; w < job.workers.size(); ++w) {
    const Trace& trace = traces[job.workers[w].trace];
    ReplayTimeline timeline;
    timeline.source = "worker " + std::to_string(job.workers[w].rank);
    timeline.step.number = step.number;
    timeline.period = Seconds(rebuilt.step);
    WorkerRows rows(job);
    for (std::uint32_t o = step.first_of[w]; o < step.first_of[w + 1]; ++o) {
      const JobOperation& operation = step.operations[o];
      const std::uint32_t row = rows.row_of(operation.type, timeline.rows);
      const std::string_view name = trace.text(trace.events[operation.event].name);
      const auto slice = [&](double start, double end) {
        const Picoseconds from = picoseconds_of(Seconds(start));
        return ReplaySlice{row, kind_of(job.types[operation.type].role), std::string(name), from,
                           picoseconds_of(Seconds(end)) - from};
      };
      timeline.measured.push_back(slice(operation.start, operation.end));
      timeline.rebuilt.push_back(slice(rebuilt.start[o], rebuilt.end[o]));
    }
    for (std::vector<ReplaySlice>* slices : {&timeline.measured, &timeline.rebuilt})
      std::ranges::stable_sort(*slices, {},
                               [](const ReplaySlice& s) { return std::tuple(s.row, s.start, -s.duration); });
    out.push_back(std::move(timeline));
  }
  return out;
}

}  // namespace stepcast
