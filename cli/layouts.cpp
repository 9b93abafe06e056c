// Predictions, comparisons and recommendations of layouts.
#include "layouts.hpp"

#include "described.hpp"
#include "files.hpp"
#include "progress.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <utility>

namespace stepcast::cli {
namespace {

/// Flags that change a trace are refused where there is none, not ignored.
void refuse_flags_of_traces(const ClusterFlags& flags) {
  if (!flags.faster_compute.empty())
    throw InputError("--faster-compute", "a trace, whose times it changes", "a described model",
                     "give another --device");
  if (pipeline_of(flags.pipeline)) throw InputError("--input", "a trace", "a described model");
}

double global_batch_of(const InputFlags& input, const LayoutFlags& flags, const Cluster& cluster, double traced_batch) {
  if (!flags.global_batch.empty()) return global_batch_of(flags);
  const double batch = input.batch.empty() ? traced_batch : number_of(input.batch, "--batch");
  if (!(batch > 0))
    throw InputError("--global-batch", "samples a step on all devices", "nothing", "or give --batch on each worker");
  return batch * static_cast<double>(cluster.workers());
}

/// The model of the question taken apart, with the batch and the memory that the flags leave to a layout.
Answer<LayoutInput> input_of(Question question, SelfCheck check, const InputFlags& input, const LayoutFlags& flags) {
  const PreparedQuestion asked(question);
  const Answer<Workload>& workload = asked.workload();
  if (!workload) return Inapplicable{workload.reason()};
  const double traced = question.shape ? 0 : asked.profile()->batch_samples;
  question.global_batch = global_batch_of(input, flags, question.cluster, traced);
  if (!flags.memory.empty()) question.memory_cap = memory_of(flags.memory, "--memory");
  LayoutInput out{std::move(question), *workload, asked.cluster(), std::move(check), {}};
  out.options.global_batch = out.question.global_batch;
  out.options.memory_cap = out.question.memory_cap > Bytes(0) ? out.question.memory_cap : out.cluster.device_memory;
  return out;
}

Answer<LayoutInput> described_input(const InputFlags& input, const Cluster& cluster, const LayoutFlags& flags,
                                    const Scenario& changes) {
  Question question{.cluster = cluster};
  question.shape = model_shape_of(input.model);
  question.device = device_of_description(input, cluster);
  question.cluster = with_device(cluster, *question.device);
  question.changes = changes;
  return input_of(std::move(question), {{}, "the model is described"}, input, flags);
}

void write_layout_timeline(const std::string& path, const Workload& workload, const Cluster& cluster,
                           const LayoutPrediction& prediction, const LayoutOptions& options) {
  const Answer<LayoutTimeline> detail = layout_timeline(workload, cluster, prediction.plan, options);
  if (!detail) throw InputError("--timeline", "a layout with a timeline", detail.reason());
  write_output(path, [&](std::ostream& out) {
    report_named("perfetto")->layout_timeline(out, {workload, *detail, prediction.plan, prediction.iteration});
  });
}

}  // namespace

LayoutSubject LayoutInput::subject() const {
  return {workload, cluster, check, options.global_batch, options.memory_cap};
}

Answer<LayoutInput> layout_input_of(const InputFlags& input, const ClusterFlags& flags, const LayoutFlags& layout,
                                    const Scenario& changes) {
  if (is_described(input)) {
    refuse_flags_of_traces(flags);
    const Cluster cluster = cluster_of(flags);
    const Device device = device_of_description(input, cluster);
    if (!flags.same_device && !cluster.device.empty() && !same_device(cluster.device, device.name))
      throw InputError("--device", "the cluster's device (" + cluster.device + ")", in_quotes(device.name),
                       "--same-device to put it into this cluster");
    return described_input(input, cluster, layout, changes);
  }
  const Cluster cluster = cluster_for(input, flags);
  Input traced = input_of(input);
  traced.profile = profile_on(cluster, std::move(traced.profile), flags);
  return layout_input_of(input, cluster, traced, layout, changes);
}

Answer<LayoutInput> layout_input_of(const InputFlags& input, const Cluster& cluster, const Input& traced,
                                    const LayoutFlags& flags, const Scenario& changes) {
  Question question{.profile = traced.profile, .cluster = cluster};
  question.device = roofline_of(input, traced.profile);
  question.cluster = with_device(cluster, question.device);
  question.changes = changes;
  return input_of(std::move(question), traced.check, input, flags);
}

ExitCode refuse_layout(const std::string& plan, const std::string& reason, const OutputFlags& output) {
  write_output(output.path,
               [&](std::ostream& out) { report_of(output).inapplicable(out, plan, Inapplicable{reason}); });
  return answer_is_no;
}

ExitCode show_layout(const PreparedQuestion& question, const SelfCheck& check, const LayoutPrediction& prediction,
                     const OutputFlags& output, const std::string& timeline) {
  const Workload& workload = *question.workload();
  const LayoutOptions options = question.layout_options();
  if (!timeline.empty()) write_layout_timeline(timeline, workload, question.cluster(), prediction, options);
  const LayoutReport report{{workload, question.cluster(), check, options.global_batch, options.memory_cap},
                            prediction,
                            launch_settings(workload, prediction)};
  write_output(output.path, [&](std::ostream& out) { report_of(output).layout(out, report); });
  return answered;
}

ExitCode compare_layouts(const LayoutInput& input, const std::vector<std::string>& plans, const OutputFlags& output) {
  LayoutComparisonReport report{input.subject(), {}};
  const PreparedQuestion question(input.question);
  bool any = false;
  for (const std::string& text : plans) {
    const Answer<Prediction> prediction = question.answer(plan_of(text));
    if (prediction) report.rows.push_back({text, *prediction->layout, {}});
    else report.rows.push_back({text, {}, prediction.reason()});
    any |= static_cast<bool>(prediction);
  }
  write_output(output.path, [&](std::ostream& out) { report_of(output).layout_comparison(out, report); });
  return any ? answered : answer_is_no;
}

ExitCode recommend_layout(const LayoutInput& input, const LayoutFlags& flags, Search tuning, const OutputFlags& output,
                          const std::string& reason) {
  LayoutAdviceOptions options;
  options.search = search_options_of(flags);
  options.search.layout = input.options;
  options.search.best = 20;  // half of them often differ in switches only
  options.tuning = tuning;
  Answer<LayoutAdvice> advice = Inapplicable{};
  {
    Progress progress("searching layouts");
    options.search.progress = [&](std::uint64_t done, std::uint64_t total, Seconds) {
      progress.show(total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0);
      return true;
    };
    advice = layout_advice(input.workload, input.cluster, space_of(flags), options);
  }
  if (!advice) return refuse_layout("layout/ddp", advice.reason(), output);
  const LayoutSearchReport report{input.subject(), *advice, options.search, reason, flags.frontier};
  write_output(output.path, [&](std::ostream& out) { report_of(output).layout_search(out, report); });
  return advice->best.empty() ? answer_is_no : answered;
}

ExitCode recommend_units(const LayoutInput& input, const OutputFlags& output) {
  const Answer<UnitFrontier> found = unit_frontier(input.workload, input.cluster, input.options);
  if (!found) return refuse_layout("a configuration for each unit", found.reason(), output);
  const UnitFrontierReport report{input.subject(), *found};
  write_output(output.path, [&](std::ostream& out) { report_of(output).unit_frontier(out, report); });
  return fastest_within(found->frontier, input.options.memory_cap) ? answered : answer_is_no;
}

}  // namespace stepcast::cli
