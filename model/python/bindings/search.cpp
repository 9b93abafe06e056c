// Searches: layouts, frontiers of units, placements; each answer as the JSON that the command line writes.
#include "bindings.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/recorded_refusals.hpp>
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/placement/placement.hpp>
#include <stepcast/report/placement_report.hpp>
#include <stepcast/report/report.hpp>
#include <stepcast/search/layout_advice.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace stepcast::python {
namespace {

Objective objective_of(const std::string& name) {
  const std::vector<std::string> names{"step", "memory", "devices", "cost"};
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Objective>(i);
  throw InputError("objective", "one of " + listed(names), in_quotes(name), did_you_mean(name, names));
}

Seconds step_of(double seconds) {
  if (!(seconds >= 0 && seconds < 1e9)) throw InputError("target_step", "seconds, 0 for none", exact_text_of(seconds));
  return Seconds(seconds);
}

PreparedQuestion question_about(const ProfilePtr& profile, const ClusterPtr& cluster, double global_batch,
                                double memory, const std::vector<std::string>& measured = {}) {
  if (const std::string& asked = profile->check.by_request; !asked.empty()) throw recorded_refusal::of_layouts(asked);
  Question question = question_of(*profile, *cluster, global_batch, measured);
  if (!(memory >= 0 && memory < 1e18))
    throw InputError("memory", "bytes, 0 for those of the device", exact_text_of(memory));
  question.memory_cap = Bytes(memory);
  return with_recorded_rest(profile->check, PreparedQuestion(std::move(question)));
}

std::string unit_frontier_json(const ProfilePtr& profile, const ClusterPtr& cluster,
                               const std::vector<std::int64_t>& workers, double memory, const std::string& objective,
                               double target_step, double global_batch) {
  const Objective wanted = objective_of(objective);
  if (wanted == Objective::cheapest) throw InputError("objective", "step, memory or devices", "'cost'");
  const Seconds step = step_of(target_step);
  const UnitFrontiers found =
      answered(unit_frontiers(question_about(profile, cluster, global_batch, memory), workers, wanted, step));
  const UnitFrontierReport report = unit_frontier_report_of(found, profile->check);
  return written([&](std::ostream& out) { report_named("json")->unit_frontier(out, report); });
}

std::string layouts_json(const ProfilePtr& profile, const ClusterPtr& cluster, double memory,
                         const std::string& objective, double target_step, double price, bool frontier,
                         double global_batch, const std::string& framework, const std::vector<std::string>& measured) {
  LayoutAdviceOptions options;
  options.search.objective = objective_of(objective);
  options.search.target_step = step_of(target_step);
  options.search.price_per_device_hour = price;
  options.search.frontier = frontier;
  options.search.one_of_kind = true;
  if (options.search.objective == Objective::cheapest && !(price > 0))
    throw InputError("price", "the price of a device-hour, which 'cost' is about", exact_text_of(price));
  if (options.search.objective == Objective::fewest_devices && target_step == 0)
    throw InputError("target_step", "the step that the fewest devices have to reach", "none");
  LayoutSpace space;
  space.framework = launch_framework_of(framework, "framework");
  const PreparedQuestion question =
      question_about(run_by(profile, space.framework), cluster, global_batch, memory, measured);
  const Workload& workload = answered(question.workload());
  options.search.layout = question.search_options();
  options.other_kernels = question.correction() == nullptr;
  const LayoutAdvice advice = answered(layout_advice(workload, question.cluster(), space, options));
  LayoutSearchReport report = layout_search_report_of(question, profile->check, advice, options.search, framework);
  report.frontier = frontier;
  return written([&](std::ostream& out) { report_named("json")->layout_search(out, report); });
}

std::string placement_json(const ProfilePtr& profile, const std::string& devices, const std::string& plan,
                           double adatopk, double global_batch) {
  if (const std::string& asked = profile->check.by_request; !asked.empty()) throw recorded_refusal::of_placement(asked);
  const UnequalCluster cluster = unequal_cluster_of_json(devices, "devices");
  const PreparedQuestion question(question_of(*profile, Cluster{}, 0));
  const Workload& workload = answered(question.workload());
  const double batch = global_batch > 0 ? global_batch : profile->profile.batch_samples;
  if (!(batch >= 1 && batch <= 1e9) || batch != std::floor(batch))
    throw InputError("global_batch", "samples a step on all devices", exact_text_of(batch));
  if (!(adatopk >= 1 && adatopk <= 1e6)) throw InputError("adatopk", "a ratio from 1 to 1e6", exact_text_of(adatopk));
  const auto samples = static_cast<std::int64_t>(batch);
  PlacementOptions options;
  options.ratio = adatopk;
  if (!plan.empty() && adatopk != 1) throw InputError("adatopk", "the ratio within the plan", "one beside it");
  const PlacementChoice choice =
      answered(plan.empty() ? best_placement(workload, cluster, samples, {}, options)
                            : given_placement(workload, cluster, samples, placement_plan_of(plan)));
  return written([&](std::ostream& out) {
    report_named("json")->placement(out, {workload, cluster, samples, choice});
  });
}

}  // namespace

void bind_search(py::module_& module) {
  module.def("unit_frontier", &unit_frontier_json, Free());
  module.def("layouts", &layouts_json, Free());
  module.def("place", &placement_json, Free());
}

}  // namespace stepcast::python
