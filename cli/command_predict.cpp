// stepcast predict: the step time of one plan or layout, what it is made of, and its timeline.
#include "command.hpp"
#include "described.hpp"
#include "files.hpp"
#include "input.hpp"
#include "layouts.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/prediction/recommend.hpp>

#include <memory>

namespace stepcast::cli {
namespace {

struct Flags {
  InputFlags input;
  ClusterFlags cluster;
  OutputFlags output;
  LayoutFlags layout;
  std::string plan, timeline;
};

void write_timeline(const std::string& path, const Profile& profile, const Cluster& cluster, const PlanSpec& plan) {
  const Answer<DetailedTimeline> detail = detailed_timeline(profile, cluster, plan);
  if (!detail) throw InputError("--timeline", "a plan with a timeline", detail.reason());
  write_output(path, [&](std::ostream& out) { report_named("perfetto")->timeline(out, {profile, *detail, plan}); });
}

ExitCode predict_divided(const Flags& flags) {
  const LayoutPlan plan = layout_plan_of(flags.plan);
  check_outputs(flags.output, flags.timeline, files_of(flags.input, flags.cluster));
  const Answer<LayoutInput> input = layout_input_of(flags.input, flags.cluster, flags.layout);
  if (!input) return refuse_layout(text_of(plan), input.reason(), flags.output);
  return predict_layout(*input, plan, flags.output, flags.timeline);
}

ExitCode predict(const Flags& flags) {
  if (has_layout(flags.plan) || !flags.layout.global_batch.empty()) return predict_divided(flags);
  const PlanSpec plan = plan_spec_of(flags.plan);
  const Cluster cluster = cluster_for(flags.input, flags.cluster);
  check_outputs(flags.output, flags.timeline, files_of(flags.input, flags.cluster));
  Input input = input_of(flags.input, cluster);
  const Profile profile = profile_on(cluster, std::move(input.profile), flags.cluster);
  Answer<Prediction> prediction = predicted(profile, cluster, plan);
  if (!prediction) {
    write_output(flags.output.path, [&](std::ostream& out) {
      report_of(flags.output).inapplicable(out, text_of(plan), Inapplicable{prediction.reason()});
    });
    return answer_is_no;
  }
  if (const std::string caution = input.check.caution(); !caution.empty())
    prediction->warnings.push_back(caution + ": this prediction is doubtful");
  if (!flags.timeline.empty()) write_timeline(flags.timeline, profile, cluster, prediction->plan);
  write_output(flags.output.path, [&](std::ostream& out) {
    report_of(flags.output).prediction(out, {profile, cluster, input.check, *prediction});
  });
  return answered;
}

Action add_flags(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  add_input_flags(app, flags->input);
  app.add_option("--plan", flags->plan,
                 "Plan to predict: [layout(tp=8, pp=4, ...)/]strategy(option=value, ...)@collective")
      ->required();
  add_global_batch_flag(app, flags->layout);
  add_cluster_flags(app, flags->cluster);
  app.add_option("--timeline", flags->timeline, "Also write a trace for ui.perfetto.dev");
  add_output_flags(app, flags->output);
  return [flags] { return predict(*flags); };
}

}  // namespace

const Verb predict_verb = {
    "predict", "Predict the step time of one plan",
    "stepcast predict trace.json.gz --plan 'dear(bucket=25 MiB)' --workers 16 --network 10GbE --timeline out.json\n"
    "  stepcast predict --model gpt:hidden=4096,layers=32,heads=32,seq=2048 --device a100-sxm4-80gb \\\n"
    "      --plan 'layout(tp=8, pp=4)/ddp' --global-batch 512 --workers 64 --per-node 8 --network '800 Gb/s'",
    add_flags};

}  // namespace stepcast::cli
