#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/report/layout_report.hpp>
#include <stepcast/roofline/usual_batch.hpp>
#include <stepcast/search/preference.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace stepcast {
namespace {

/// Layouts are made of units of layers, and of these alone. What the worker does besides in the job that ran (DDP's
/// buffers and hooks) is not in them: told where the same plan is another one as a layout.
std::string doubt_of_layouts(const PreparedQuestion& question, const SelfCheck& check) {
  const std::optional<Plan> traced = check.as_traced ? check.as_traced->as_plan() : std::nullopt;
  if (!traced || traced->layout || !question.profile() || question.cluster().workers() < 2) return {};
  const Answer<Prediction> plain = predicted(*question.profile(), question.cluster(), traced->strategy);
  const Answer<Prediction> divided = question.answer({traced->strategy, Layout{}});
  if (!plain || !divided) return {};
  const double apart = divided->iteration / plain->iteration - 1;
  if (std::abs(apart) <= AsTraced::largest_trusted_error) return {};
  return check.as_traced->plan + " takes " + text_of(divided->iteration) + " as a layout and " +
         text_of(plain->iteration) + " with all that the traced worker does (" + percent(apart, true) +
         "): layouts leave that out, so that these are doubtful";
}

void say_batch(LayoutSubject& subject) {
  const Workload& w = subject.workload;
  subject.batch_in_words = fixed(subject.global_batch, 0) + " samples a step on all devices";
  if (subject.tokens_a_step() > 0) subject.batch_in_words += " (" + batch_in_tokens(subject.tokens_a_step()) + ")";
  if (!w.shape) return;
  const std::string assumed = usual_batch_text(*w.shape, subject.global_batch);
  for (const std::string& line : w.assumed)
    if (line.starts_with(assumed)) {
      subject.said_of_batch = line;
      subject.batch_in_words += ", " + why_usual(*w.shape, subject.global_batch) + "; --global-batch sets it";
    }
}

}  // namespace

LayoutSubject layout_subject_of(const PreparedQuestion& question, const SelfCheck& check) {
  const LayoutOptions options = question.layout_options();
  const Bytes searched = question.search_options().memory_cap;
  LayoutSubject subject{*question.workload(),
                        question.cluster(),
                        check,
                        options.global_batch,
                        options.memory_cap,
                        searched < options.memory_cap ? searched : Bytes(0),
                        question.correction(),
                        doubt_of_layouts(question, check)};
  say_batch(subject);
  return subject;
}

const LayoutRow* fastest_of(const LayoutComparisonReport& report) {
  const LayoutRow* fastest = nullptr;
  for (const LayoutRow& row : report.rows) {
    if (!row.prediction || !row.not_run.empty()) continue;
    if (fastest == nullptr || row.prediction->iteration < fastest->prediction->iteration) fastest = &row;
  }
  return fastest;
}

double resolution_of(const LayoutComparisonReport& report) {
  const LayoutRow* fastest = fastest_of(report);
  return fastest != nullptr ? resolution_of(report.subject.workload, fastest->prediction->plan.layout) : 0;
}

std::vector<std::string> equals_of(const LayoutComparisonReport& report) {
  std::vector<std::string> equals;
  const LayoutRow* fastest = fastest_of(report);
  const double resolution = resolution_of(report);
  for (const LayoutRow& row : report.rows)
    if (row.prediction && row.not_run.empty() && &row != fastest &&
        row.prediction->iteration <= fastest->prediction->iteration * (1 + resolution))
      equals.push_back(row.plan);
  return equals;
}

std::optional<WholeRun> run_by(const LayoutSubject& subject, const LayoutPrediction& p) {
  if (!subject.run || !(subject.tokens_a_step() > 0) || !(p.iteration > Seconds(0))) return std::nullopt;
  return whole_run(*subject.run, {p.iteration, p.interval_low, p.interval_high}, subject.tokens_a_step(), p.devices);
}

LayoutReport layout_report_of(const PreparedQuestion& question, const SelfCheck& check,
                              const LayoutPrediction& prediction, std::string_view framework) {
  const std::vector<OwnKernels> own = by_own_kernels(question, prediction, framework);
  return {layout_subject_of(question, check), prediction,
          launch_settings(*question.workload(), prediction, framework, question.cluster().device_memory, own),
          by_pytorch(question, own)};
}

std::vector<OwnKernels> by_own_kernels(const PreparedQuestion& question, const LayoutPrediction& prediction,
                                       std::string_view framework) {
  const Workload& w = *question.workload();
  std::vector<OwnKernels> all;
  if (!framework.empty() || !w.shape || !w.device || w.shape->heads == 0 || w.shape->kernels_given) return all;
  LayoutOptions options = question.layout_options();
  options.memory_cap = Bytes(std::numeric_limits<double>::infinity());
  for (const std::string& name : launch_frameworks()) {
    const std::string model = model_run_by(w.shape->name, name);
    if (model == w.shape->name || !why_not_launched(w, prediction.plan, prediction.micro_batches, name).empty())
      continue;
    options.memory = memory_options_of(name);
    const Answer<LayoutPrediction> p =
        predicted(workload_of(model_shape_of(model), *w.device), question.cluster(), prediction.plan, options);
    if (p) all.push_back({name, p->iteration, p->memory.total()});
  }
  return all;
}

std::optional<OwnKernels> by_pytorch(const PreparedQuestion& question, std::span<const OwnKernels> own) {
  // A measured step corrected the device as if the kernels that were asked about had run.
  const auto found = std::ranges::find(own, "pytorch", &OwnKernels::framework);
  if (question.correction() != nullptr || found == own.end()) return std::nullopt;
  return *found;
}

namespace {

bool any_to_paste(const std::vector<LaunchSettings>& all) {
  return std::ranges::any_of(all, [](const LaunchSettings& s) { return !s.text.empty(); });
}

}  // namespace

LayoutSearchReport layout_search_report_of(const PreparedQuestion& question, const SelfCheck& check,
                                           const LayoutAdvice& advice, const LayoutSearchOptions& options,
                                           std::string_view framework) {
  LayoutSearchReport report{layout_subject_of(question, check), advice, options, {}, false, std::string(framework)};
  const auto settings_of = [&](const LayoutPrediction& p, std::span<const OwnKernels> own) {
    return launch_settings(*question.workload(), p, framework, question.cluster().device_memory, own,
                           report.subject.planned_memory);
  };
  for (const LayoutPrediction& p : advice.best) {
    const std::vector<OwnKernels> own = by_own_kernels(question, p, framework);
    std::vector<LaunchSettings> settings = settings_of(p, own);
    const bool runs = any_to_paste(settings);
    if (&p == &advice.best.front()) {
      report.settings = std::move(settings);
      report.by_pytorch = by_pytorch(question, own);
    } else if (runs) {
      report.runnable.emplace(p, std::move(settings));
    }
    if (runs) break;
  }
  return report;
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
    out.settings = launch_settings(*there.workload(), *point->layout, {}, there.cluster().device_memory,
                                   by_own_kernels(there, *point->layout, {}));
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
