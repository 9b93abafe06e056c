// Predictions, comparisons and recommendations of layouts.
#include "layouts.hpp"

#include "described.hpp"
#include "files.hpp"
#include "progress.hpp"

#include <stepcast/base/text.hpp>
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
  if (!flags.global_batch.empty())
    return static_cast<double>(integer_of(flags.global_batch, "--global-batch", 1, 1'000'000'000));
  const double batch = input.batch.empty() ? traced_batch : number_of(input.batch, "--batch");
  if (!(batch > 0))
    throw InputError("--global-batch", "samples a step on all devices", "nothing", "or give --batch on each worker");
  return batch * static_cast<double>(cluster.workers());
}

LayoutOptions layout_options_of(const LayoutFlags& flags, const Cluster& cluster, double global_batch) {
  LayoutOptions options;
  options.global_batch = global_batch;
  options.memory_cap = flags.memory.empty() ? cluster.device_memory : memory_of(flags.memory, "--memory");
  return options;
}

Answer<LayoutInput> described_input(const InputFlags& input, const Cluster& cluster, const LayoutFlags& flags) {
  const ModelShape shape = model_shape_of(input.model);
  const Device device = device_of_description(input, cluster);
  LayoutInput out{workload_of(shape, device), with_device(cluster, device), {{}, "the model is described"}, {}};
  out.options = layout_options_of(flags, out.cluster, global_batch_of(input, flags, out.cluster, 0));
  return out;
}

void write_layout_timeline(const std::string& path, const LayoutInput& input, const LayoutPrediction& prediction) {
  const Answer<LayoutTimeline> detail = layout_timeline(input.workload, input.cluster, prediction.plan, input.options);
  if (!detail) throw InputError("--timeline", "a layout with a timeline", detail.reason());
  write_output(path, [&](std::ostream& out) {
    report_named("perfetto")->layout_timeline(out, {input.workload, *detail, prediction.plan, prediction.iteration});
  });
}

}  // namespace

LayoutSubject LayoutInput::subject() const {
  return {workload, cluster, check, options.global_batch, options.memory_cap};
}

Answer<LayoutInput> layout_input_of(const InputFlags& input, const ClusterFlags& flags, const LayoutFlags& layout) {
  if (is_described(input)) {
    refuse_flags_of_traces(flags);
    const Cluster cluster = cluster_of(flags);
    const Device device = device_of_description(input, cluster);
    if (!flags.same_device && !cluster.device.empty() && !same_device(cluster.device, device.name))
      throw InputError("--device", "the cluster's device (" + cluster.device + ")", "'" + device.name + "'",
                       "--same-device to put it into this cluster");
    return described_input(input, cluster, layout);
  }
  const Cluster cluster = cluster_for(input, flags);
  Input traced = input_of(input);
  traced.profile = profile_on(cluster, std::move(traced.profile), flags);
  return layout_input_of(input, cluster, traced, layout);
}

Answer<LayoutInput> layout_input_of(const InputFlags& input, const Cluster& cluster, const Input& traced,
                                    const LayoutFlags& flags) {
  const std::optional<Device> device = roofline_of(input, traced.profile);
  Answer<Workload> workload = workload_of(traced.profile, device ? &*device : nullptr);
  if (!workload) return Inapplicable{workload.reason()};
  LayoutInput out{*std::move(workload), with_device(cluster, device), traced.check, {}};
  out.options =
      layout_options_of(flags, out.cluster, global_batch_of(input, flags, out.cluster, traced.profile.batch_samples));
  return out;
}

ExitCode refuse_layout(const std::string& plan, const std::string& reason, const OutputFlags& output) {
  write_output(output.path,
               [&](std::ostream& out) { report_of(output).inapplicable(out, plan, Inapplicable{reason}); });
  return answer_is_no;
}

ExitCode predict_layout(const LayoutInput& input, const LayoutPlan& plan, const OutputFlags& output,
                        const std::string& timeline) {
  const Answer<LayoutPrediction> prediction = predicted(input.workload, input.cluster, plan, input.options);
  if (!prediction) return refuse_layout(text_of(plan), prediction.reason(), output);
  if (!timeline.empty()) write_layout_timeline(timeline, input, *prediction);
  const LayoutReport report{input.subject(), *prediction, launch_settings(input.workload, *prediction)};
  write_output(output.path, [&](std::ostream& out) { report_of(output).layout(out, report); });
  return answered;
}

ExitCode compare_layouts(const LayoutInput& input, const std::vector<std::string>& plans, const OutputFlags& output) {
  LayoutComparisonReport report{input.subject(), {}};
  bool any = false;
  for (const std::string& text : plans) {
    const LayoutPlan plan = layout_plan_of(text);
    const Answer<LayoutPrediction> prediction = predicted(input.workload, input.cluster, plan, input.options);
    if (prediction) report.rows.push_back({text, *prediction, {}});
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
