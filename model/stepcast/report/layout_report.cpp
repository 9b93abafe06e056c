#include <stepcast/report/layout_report.hpp>

#include <algorithm>
#include <utility>

namespace stepcast {

LayoutSubject layout_subject_of(const PreparedQuestion& question, const SelfCheck& check) {
  const LayoutOptions options = question.layout_options();
  const Bytes searched = question.search_options().memory_cap;
  return {*question.workload(), question.cluster(), check,
          options.global_batch, options.memory_cap, searched < options.memory_cap ? searched : Bytes(0),
          question.correction()};
}

LayoutReport layout_report_of(const PreparedQuestion& question, const SelfCheck& check,
                              const LayoutPrediction& prediction) {
  return {layout_subject_of(question, check), prediction,
          launch_settings(*question.workload(), prediction, {}, question.cluster().device_memory)};
}

Answer<UnitFrontiers> unit_frontiers(const PreparedQuestion& question, std::vector<std::int64_t> workers,
                                     Objective objective, Seconds target_step) {
  UnitFrontiers out{{}, {}, objective, target_step, {}, {}};
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  for (const std::int64_t count : workers) {
    Answer<Cluster> there = resized(question.cluster(), count);
    if (!there) throw InputError("workers", "numbers of workers that the cluster can have", there.reason());
    out.questions.push_back(question.on(*std::move(there)));
  }
  if (out.questions.empty()) out.questions.push_back(question);
  const PlanSpec gradients = plan_spec_of("ddp");
  for (const PreparedQuestion& q : out.questions) {
    const Answer<Workload>& workload = q.workload();
    if (!workload) return Inapplicable{workload.reason()};
    DeviceCount count{q.cluster(), q.search_options()};
    count.found = unit_frontier(*workload, count.cluster, count.options, gradients);
    out.counts.push_back(std::move(count));
  }
  if (out.counts.size() == 1 && !out.counts.front().found) return Inapplicable{out.counts.front().found.reason()};
  out.choice = chosen(out.counts, objective, target_step);
  if (out.choice.point == nullptr) return out;
  const PreparedQuestion& there = out.questions[static_cast<std::size_t>(out.choice.devices - out.counts.data())];
  const LayoutPlan& plan = out.choice.point->plan;
  if (const Answer<Prediction> point = there.answer({plan.gradients, plan.layout}))
    out.settings = launch_settings(*there.workload(), *point->layout, {}, there.cluster().device_memory);
  return out;
}

UnitFrontierReport unit_frontier_report_of(const UnitFrontiers& found, const SelfCheck& check) {
  const std::size_t shown = found.choice.devices ? static_cast<std::size_t>(found.choice.devices - found.counts.data())
                                                 : found.counts.size() - 1;
  return {layout_subject_of(found.questions[shown], check),
          found.counts,
          found.objective,
          found.target_step,
          found.choice,
          found.settings};
}

}  // namespace stepcast
