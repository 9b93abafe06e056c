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

struct PredictFlags {
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

/// The question that the flags ask, with the self-check of the trace.
struct Asked {
  PreparedQuestion question;
  SelfCheck check;
};
Answer<Asked> asked_of(const PredictFlags& flags, bool divided) {
  ClusterFlags cluster = flags.cluster;
  cluster.what.clear();  // the question makes the changes
  if (divided) {
    Answer<LayoutInput> input = layout_input_of(flags.input, cluster, flags.layout, changes_of(flags.cluster));
    if (!input) return Inapplicable{input.reason()};
    return Asked{PreparedQuestion(input->question), input->check};
  }
  const Cluster machines = cluster_for(flags.input, cluster);
  Input input = input_of(flags.input, machines);
  Question question{.cluster = machines};
  question.pipeline = pipeline_of(cluster.pipeline);  // once: it may come from standard input
  cluster.pipeline = {};
  question.profile = fed(profile_on(machines, std::move(input.profile), cluster), question.pipeline, machines);
  question.changes = changes_of(flags.cluster);
  return Asked{PreparedQuestion(std::move(question)), std::move(input.check)};
}

ExitCode predict(const PredictFlags& flags) {
  const Plan plan = plan_of(flags.plan);
  const bool divided = plan.layout || !flags.layout.global_batch.empty();
  (void)changes_of(flags.cluster);  // wrong flags are told before a large file is read
  check_outputs(flags.output, flags.timeline, files_of(flags.input, flags.cluster));
  const Answer<Asked> asked = asked_of(flags, divided);
  const auto refuse = [&](const std::string& reason) {
    const std::string name = divided ? text_of({plan.strategy, plan.layout.value_or(Layout{})}) : text_of(plan);
    return refuse_layout(name, reason, flags.output);
  };
  if (!asked) return refuse(asked.reason());
  Answer<Prediction> prediction = asked->question.answer(plan);
  if (!prediction) return refuse(prediction.reason());
  if (divided) return show_layout(asked->question, asked->check, *prediction->layout, flags.output, flags.timeline);
  const Profile& profile = *asked->question.profile();
  const Cluster& cluster = asked->question.cluster();
  if (const std::string caution = asked->check.caution(); !caution.empty())
    prediction->warnings.push_back(caution + ": this prediction is doubtful");
  if (!flags.timeline.empty()) write_timeline(flags.timeline, profile, cluster, prediction->plan);
  write_output(flags.output.path, [&](std::ostream& out) {
    report_of(flags.output).prediction(out, {profile, cluster, asked->check, *prediction});
  });
  return answered;
}

Action add_predict_flags(CLI::App& app) {
  auto flags = std::make_shared<PredictFlags>();
  add_input_flags(app, flags->input);
  app.add_option("--plan", flags->plan,
                 "Plan to predict: [layout(tp=8, pp=4, ...)/]strategy(option=value, ...)@collective")
      ->required();
  add_change_flag(app, flags->cluster);
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
    add_predict_flags};

}  // namespace stepcast::cli
