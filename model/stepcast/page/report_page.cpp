// What the report page shows: ranking, timelines, sweeps around what was asked for, and validation.
#include <stepcast/base/text.hpp>
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/page/report_page.hpp>
#include <stepcast/page/timeline.hpp>
#include <stepcast/report/layout_report.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

/// `here` and its neighbours by factors of two, `below` and `above` it.
std::vector<double> doubled_around(double here, int below, int above) {
  std::vector<double> values;
  for (int k = -below; k <= above; ++k) values.push_back(here * std::exp2(k));
  return values;
}

SweepAxis bandwidth_axis(const Cluster& cluster) {
  const Link& link = cluster.nodes > 1 ? cluster.network : cluster.inside;
  return {SweepQuantity::bandwidth, "bandwidth", doubled_around(link.bandwidth.value(), 5, 5)};
}

/// Whole machines, up to eight times as many; of a single machine, parts of it, for nothing is known of a network.
SweepAxis worker_axis(const Cluster& cluster) {
  SweepAxis axis{SweepQuantity::workers, "workers", {}};
  const std::int64_t here = cluster.workers(), machine = cluster.devices_per_node;
  const std::int64_t most = cluster.nodes > 1 ? 8 * here : here;
  for (std::int64_t n = cluster.nodes > 1 && machine > 1 ? machine : 2; n <= most; n *= 2)
    if (n >= machine || machine % n == 0) axis.values.push_back(static_cast<double>(n));
  axis.values.push_back(static_cast<double>(here));
  std::ranges::sort(axis.values);
  axis.values.erase(std::unique(axis.values.begin(), axis.values.end()), axis.values.end());
  return axis;
}

/// Whole samples, each number once.
SweepAxis batch_axis(const Profile& profile) {
  SweepAxis axis{SweepQuantity::batch, "batch", {}};
  for (const double value : doubled_around(profile.batch_samples, 3, 4))
    if (value >= 1) axis.values.push_back(value);
  return axis;
}

std::vector<SweepAxis> axes_around(const Profile& profile, const Cluster& cluster) {
  std::vector<SweepAxis> axes;
  if (cluster.workers() > 1) axes.push_back(bandwidth_axis(cluster));
  if (cluster.workers() > 1) axes.push_back(worker_axis(cluster));
  if (profile.batch_samples > 0) axes.push_back(batch_axis(profile));
  std::erase_if(axes, [](const SweepAxis& axis) { return axis.values.size() < 2; });
  return axes;
}

double value_here(const SweepAxis& axis, const Profile& profile, const Cluster& cluster) {
  const Link& link = cluster.nodes > 1 ? cluster.network : cluster.inside;
  switch (axis.quantity) {
    case SweepQuantity::bandwidth:
      return link.bandwidth.value();
    case SweepQuantity::latency:
      return link.latency.value();
    case SweepQuantity::workers:
      return static_cast<double>(cluster.workers());
    case SweepQuantity::batch:
      return profile.batch_samples;
    case SweepQuantity::compute:
      return 1;
    case SweepQuantity::loss:
      return cluster.transport.loss;
    case SweepQuantity::stalls:
      return cluster.transport.stalls;
    case SweepQuantity::background:
      return cluster.levels.size() < 2 ? cluster.transport.background : cluster.levels.back().background;
    case SweepQuantity::jitter:
      return cluster.stragglers.jitter.relative;
    case SweepQuantity::layout:
    case SweepQuantity::option:
    case SweepQuantity::change:
      break;
  }
  return std::nan("");  // plans differ in their options
}

/// The plans of the ranking as they were tuned, and the baseline, which may only have a name (SelfCheck::in_use).
std::vector<Plan> plans_to_sweep(const Ranking& ranking, const SelfCheck& check) {
  const std::string baseline = text_of(ranking.baseline.plan);
  std::vector<Plan> plans;
  if (!check.is_recorded(ranking.baseline.plan)) plans.push_back(plan_of(baseline));
  for (const RankedPlan& plan : ranking.exact)
    if (text_of(plan.prediction.plan) != baseline) plans.emplace_back(plan.prediction.plan);
  return plans;
}

PageSweep sweep_over(const SweepAxis& axis, const ReportPage& page, const SelfCheck::Model& model,
                     const SweepOptions& options) {
  PageSweep sweep;
  sweep.question.profile = page.profile;
  sweep.question.cluster = page.cluster;
  sweep.question.axes = {axis};
  sweep.question.plans = plans_to_sweep(page.ranking, page.check);
  sweep.question.model = model;
  sweep.rows = swept(sweep.question, options);
  sweep.cross_overs = cross_overs_of(sweep.question, sweep.rows);
  sweep.question.model = nullptr;  // it refers to the check of this page
  sweep.here = value_here(axis, page.profile, page.cluster);
  return sweep;
}

void add_timeline(ReportPage& page, const PlanSpec& plan) {
  if (std::optional<PageTimeline> timeline = page_timeline_of(page.profile, page.cluster, plan))
    page.timelines.push_back(*std::move(timeline));
}

void add_asked(ReportPage& page, const Plan& plan, const PreparedQuestion& question) {
  PageAsked& shown = page.asked.emplace_back();
  shown.plan = text_of(plan);
  const Answer<Prediction> answer = checked_answer(page.check, question, plan);
  if (!answer) {
    shown.inapplicable = answer.reason();
    return;
  }
  shown.prediction = *answer;
  if (answer->layout)
    shown.settings = launch_settings(*question.workload(), *answer->layout, {}, question.cluster().device_memory,
                                     by_own_kernels(question, *answer->layout, {}));
}

/// The cases by which the model is judged; those that its inputs were fitted to tell nothing.
std::vector<ValidationSuite> held_out_suites() {
  std::vector<ValidationSuite> suites;
  for (const std::string& name : shipped_suite_names()) {
    suites.push_back(shipped_suite(name));
    std::erase_if(suites.back().cases, [](const ValidationCase& c) { return c.split == CaseSplit::calibration; });
  }
  return suites;
}

}  // namespace

ReportPage report_page_of(const PreparedQuestion& question, SelfCheck check, const ReportPageOptions& options) {
  if (!question.profile()) throw InputError("what-ifs", "changes that this step can take", question.profile().reason());
  ReportPage page;
  page.profile = *question.profile();
  page.cluster = question.cluster();
  page.check = std::move(check);
  // Shares of the work by experience; the bar need not be exact.
  const double ranked = 0.3, drawn = options.validation ? 0.6 : 1;
  const auto tell = [&](double share) {
    if (options.progress) options.progress(share);
  };
  RecommendOptions how = options.recommend;
  rank_over_what_runs(how, page.check, question, how.by_step ? PlansOfAnotherJob::ranked : PlansOfAnotherJob::left_out);
  page.ranking = recommended(page.profile, page.cluster, how);
  for (const Plan& plan : options.asked) add_asked(page, plan, question);
  page.check = check_of(RankingReport{page.profile, page.cluster, page.check, page.ranking});
  page.recorded = options.recorded;
  page.changed = options.changed;
  tell(ranked);
  const SelfCheck::Model recorded = page.check.of_recorded_step ? page.check.recorded_model(question) : nullptr;
  // Timelines are of the model of layers, and so is another batch.
  const bool of_layers = !page.check.of_recorded_step;
  if (of_layers) add_timeline(page, page.ranking.baseline.plan);
  if (!page.ranking.exact.empty()) {
    const PlanSpec& best = page.ranking.exact.front().prediction.plan;
    if (of_layers && text_of(best) != text_of(page.ranking.baseline.plan)) add_timeline(page, best);
    std::vector<SweepAxis> axes = options.axes.empty() ? axes_around(page.profile, page.cluster) : options.axes;
    if (!of_layers) std::erase_if(axes, [](const SweepAxis& axis) { return axis.quantity == SweepQuantity::batch; });
    if (plans_to_sweep(page.ranking, page.check).empty()) axes.clear();  // a recorded job alone is no plan
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const double from = ranked + (drawn - ranked) * static_cast<double>(i) / static_cast<double>(axes.size());
      const double each = (drawn - ranked) / static_cast<double>(axes.size());
      SweepOptions how;
      how.threads = options.threads;
      how.progress = [&](double share) { tell(from + each * share); };
      page.sweeps.push_back(sweep_over(axes[i], page, recorded, how));
    }
  }
  if (options.validation) {
    ValidationOptions how;
    how.file = [](const std::string&) { return std::nullopt; };
    how.progress = [&](double share) { tell(drawn + (1 - drawn) * share); };
    how.threads = options.threads;
    page.validation = validated(held_out_suites(), how);
  }
  tell(1);
  return page;
}

}  // namespace stepcast
