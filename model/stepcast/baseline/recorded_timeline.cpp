// The graph of the recorded step gets the times of its free tasks, and what is shut in it goes.
#include <stepcast/base/text.hpp>
#include <stepcast/baseline/recorded_step.hpp>
#include <stepcast/baseline/recorded_timeline.hpp>
#include <stepcast/replay/calibration.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace stepcast {
namespace {

using replaying::StepGraph;
using replaying::TaskRole;

/// The graph of one rank's step while the times of a plan are put into it.
class Drawing {
 public:
  Drawing(const StepGraph& recorded, RecordedStep step, const RecordedJob::Laid& laid)
      : recorded_(recorded), step_(std::move(step)), laid_(laid) {}

  /// Names of the tasks that are not of the trace.
  std::map<std::uint32_t, std::string> names;

  StepGraph graph() {
    StepGraph out = recorded_;
    out.roles.resize(step_.graph.tasks.size());
    out.tracks.resize(step_.graph.resources.size(), no_index);
    tasks_ = step_.graph.tasks;
    const std::size_t parts = step_.rank.parts.size(),
                      hosts = step_.rank.exchange ? step_.rank.exchange->hosts.size() : 0;
    std::vector<bool> is_shut(tasks_.size(), false);
    for (std::size_t i = 0; i < step_.free.size(); ++i) {
      Task& task = tasks_[step_.free[i]];
      is_shut[step_.free[i]] = laid_.times[i] < 0;
      task.work = std::max<Picoseconds>(0, laid_.times[i]);
    }
    // Behind the hosts: a gate, a message and what hands it on, for each gradient.
    for (const GradientMessage& m : laid_.messages) {
      const std::uint32_t task = step_.free[parts + hosts + 3 * m.last + 1];
      tasks_[task].resource = row_of_messages();
      out.roles[task].part = TaskRole::Part::inserted;
      names[task] = "all-reduce " + text_of(m.size);
    }
    for (const Resource& resource : step_.graph.resources) builder_.add_resource(resource);
    for (const Task& task : tasks_) (void)builder_.add_task(task);
    add_waits(out);
    for (std::uint32_t t = 0; t < step_.graph.tasks.size(); ++t)
      for (const Arc& arc : step_.graph.successors(t))
        if (!is_shut[t]) builder_.add_arc(t, wait_before(arc.task), arc.lag);
    builder_.graph().marker = step_.graph.marker;
    out.graph = builder_.build();
    return out;
  }

 private:
  [[nodiscard]] std::uint32_t row_of_messages() const {
    const std::uint32_t collective = step_.rank.exchange->recorded.front().collective;
    for (std::size_t i = 0; i < step_.rank.parts.size(); ++i)
      if (step_.rank.parts[i].collective == collective) return tasks_[step_.free[i]].resource;
    return 0;
  }
  /// A task in front of each that waits for other ranks.
  void add_waits(StepGraph& out) {
    for (std::size_t i = 0; i < laid_.waits.size(); ++i) {
      if (laid_.waits[i] <= 0) continue;
      Task wait = tasks_[step_.free[i]];
      wait.work = laid_.waits[i];
      const std::uint32_t task = builder_.add_task(wait);
      builder_.add_arc(task, step_.free[i]);
      waits_[step_.free[i]] = task;
      names[task] = "waits for other ranks";
      out.roles.push_back({TaskRole::Part::inserted});
    }
  }
  [[nodiscard]] std::uint32_t wait_before(std::uint32_t task) const {
    const auto wait = waits_.find(task);
    return wait == waits_.end() ? task : wait->second;
  }

  const StepGraph& recorded_;
  const RecordedStep step_;
  const RecordedJob::Laid& laid_;
  std::vector<Task> tasks_;
  std::map<std::uint32_t, std::uint32_t> waits_;  // by task
  TaskGraphBuilder builder_;
};

}  // namespace

Answer<std::vector<ReplayTimeline>> recorded_timelines_of(std::span<const Trace> traces, const RecordedJob& job,
                                                          const Profile& profile, const PlanSpec& spec,
                                                          const Cluster& cluster) {
  if (traces.size() != job.ranks.size()) return Inapplicable{"the job was made of other traces"};
  const Answer<std::vector<RecordedJob::Laid>> laid = job.laid_out(spec, profile, cluster);
  if (!laid) return Inapplicable{laid.reason()};
  std::vector<ReplayTimeline> out;
  for (std::size_t r = 0; r < traces.size(); ++r) {
    const Answer<std::unique_ptr<replaying::Calibration>> calibration = replaying::calibration_of(traces[r]);
    if (!calibration) return Inapplicable{calibration.reason()};
    RecordedStep step = recorded_step_of(traces[r], **calibration, &profile, nullptr, job.workers);
    if (step.free.size() != (*laid)[r].times.size()) return Inapplicable{"the job was made of other traces"};
    Drawing drawing((*calibration)->taken_apart, std::move(step), (*laid)[r]);
    const StepGraph rebuilt = drawing.graph();
    out.push_back(replaying::timeline_of(traces[r], **calibration, rebuilt, drawing.names));
    out.back().rebuilt_as = "with " + text_of(spec);
  }
  return out;
}

}  // namespace stepcast
