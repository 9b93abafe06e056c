// stepcast predict: the step time of one plan or layout, what it is made of, and its timeline.
#include "asked.hpp"
#include "beside.hpp"
#include "command.hpp"
#include "described.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "input.hpp"
#include "layouts.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/recorded_refusals.hpp>
#include <stepcast/baseline/recorded_timeline.hpp>
#include <stepcast/placement/placement.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/prediction/recommend.hpp>

#include <memory>
#include <optional>
#include <span>

namespace stepcast::cli {
namespace {

struct PredictFlags {
  InputFlags input;
  ClusterFlags cluster;
  OutputFlags output;
  LayoutFlags layout;
  std::string plan, timeline;
};

/// The plan on the cluster, and beside it the step as it was traced.
void write_timeline(const std::string& path, const Asked& asked, const PreparedQuestion& question,
                    const PlanSpec& plan) {
  const Profile& profile = *question.profile();
  const Answer<DetailedTimeline> detail = detailed_timeline(profile, question.cluster(), plan);
  if (!detail) throw InputError("--timeline", "a plan with a timeline", detail.reason());
  const ReplayTimeline* recorded = asked.recorded ? &*asked.recorded : nullptr;
  write_output(path, [&](std::ostream& out) {
    report_named("perfetto")->timeline(out, {profile, *detail, plan, recorded});
  });
}

/// The recorded step of each rank as measured, and with the messages of the plan.
void write_recorded_timeline(const PredictFlags& flags, const Asked& asked, const PreparedQuestion& question,
                             const PlanSpec& plan) {
  const Documents documents = documents_of(flags.input.files, flags.input.strict, flags.input.kernels);
  const Answer<std::vector<ReplayTimeline>> ranks =
      recorded_timelines_of(documents.traces, *asked.check.recorded, *question.profile(), plan, question.cluster());
  if (!ranks) throw InputError("--timeline", "a plan whose messages have a place in the recorded step", ranks.reason());
  write_output(flags.timeline, [&](std::ostream& out) { report_named("perfetto")->replay_timeline(out, *ranks); });
}

/// Of traces that give no profile: the job that they recorded.
ExitCode predict_recorded(const Asked& asked, const PredictFlags& flags) {
  if (!flags.timeline.empty())
    throw InputError("--timeline", "a trace that gives a profile", "one that does not", asked.refusal);
  const Prediction job = recorded_answer(asked);
  write_output(flags.output.path, [&](std::ostream& out) {
    report_of(flags.output)
        .prediction(out, {asked.question.profile, asked.question.cluster, asked.check, job, std::nullopt});
  });
  return answered;
}

[[noreturn]] void refuse_tokens(const std::string& found) {
  throw InputError("--tokens", "a layout of a model that is trained on tokens", found,
                   "such as --model llama3-8b --plan fsdp --global-batch 512");
}

ExitCode predict(const PredictFlags& flags) {
  if (has_placement(flags.plan) && !flags.layout.measured.empty())
    throw InputError("--measured", "equal devices, whose description it corrects", in_quotes(flags.plan));
  if (has_placement(flags.plan) && !flags.layout.framework.empty()) refuse_framework(in_quotes(flags.plan));
  const std::optional<RunRequest> run = run_request_of(flags.layout);
  if (!run && !flags.layout.price.empty())
    throw InputError("--price", "a whole run, which --tokens asks about", "none", "--tokens 1.5T");
  if (has_placement(flags.plan) && run) refuse_tokens(in_quotes(flags.plan));
  if (has_placement(flags.plan))
    return predict_placement(flags.input, flags.cluster, flags.layout, flags.plan, flags.output, flags.timeline);
  if (!flags.layout.devices.empty())
    throw InputError("--devices", "a plan such as 'placement(devices=0+1, units=4+3)'", in_quotes(flags.plan));
  const bool unnamed = flags.plan.empty();
  if (unnamed && (flags.input.files.empty() || is_described(flags.input)))
    throw InputError("--plan", "a plan", "nothing",
                     "such as ddp, fsdp or 'layout(tp=8, pp=4)/ddp'; of a trace it is "
                     "what ran, unless it is given");
  Plan plan = plan_of(unnamed ? "ddp" : flags.plan);
  const bool usual_batch = flags.input.files.empty() && is_described(flags.input) && flags.input.batch.empty();
  const bool divided = plan.layout || !flags.layout.global_batch.empty() || (usual_batch && flags.cluster.what.empty());
  if (flags.input.recorded && !flags.layout.global_batch.empty())
    throw InputError("--global-batch", "nothing beside --recorded, which keeps the batch of the recorded step",
                     flags.layout.global_batch);
  (void)iterations_of(flags.cluster);
  (void)changes_of(flags.cluster);  // wrong flags are told before a large file is read
  refuse_unused_flags(flags.cluster, std::span(&plan, 1));
  check_outputs(flags.output, flags.timeline, files_of(flags.input, flags.cluster, flags.layout));
  Asked asked = asked_of(flags.input, flags.cluster, flags.layout,
                         {.layouts = divided && !flags.input.recorded,
                          .input = {.draws_step = !flags.timeline.empty() && !divided, .recorded_will_do = unnamed}});
  if (!asked.refusal.empty() && !flags.layout.framework.empty()) refuse_framework("a recorded step");
  if (!asked.refusal.empty() && run) refuse_tokens("a recorded step");
  if (!asked.refusal.empty()) return predict_recorded(asked, flags);
  if (unnamed && asked.check.traced_plan().empty())
    throw InputError("--plan", "a plan", "nothing, and a trace that no plan stands for", "such as ddp or fsdp");
  if (unnamed) plan = asked.check.plan_in_use();
  // Where no plan stands for the job what runs is its recorded step.
  const bool is_recorded = unnamed && asked.check.recorded && asked.check.traced_plan() == RecordedJob::name;
  const auto answer_to = [&](const PreparedQuestion& q) {
    const std::optional<Prediction> recorded = is_recorded ? asked.check.in_use(q) : std::nullopt;
    return recorded ? Answer<Prediction>(*recorded) : checked_answer(asked.check, q, plan);
  };
  tell_of_both(asked, answer_to);
  const PreparedQuestion question(asked.question);
  if (!flags.layout.framework.empty() && !question.divides(plan)) refuse_framework(in_quotes(text_of(plan)));
  if (run && !question.divides(plan)) refuse_tokens(in_quotes(text_of(plan)));
  const Answer<Prediction> prediction = answer_to(question);
  if (!prediction) {
    const std::string name =
        divided || plan.layout ? text_of({plan.strategy, plan.layout.value_or(Layout{})}) : text_of(plan);
    return refuse_layout(name, prediction.reason(), flags.output);
  }
  if (prediction->layout)
    return show_layout(question, asked.check, *prediction->layout, flags.layout.framework, run, flags.output,
                       flags.timeline);
  const Profile& profile = *question.profile();
  if (!flags.timeline.empty() && prediction->of_recorded_step)
    write_recorded_timeline(flags, asked, question, prediction->plan);
  else if (!flags.timeline.empty()) write_timeline(flags.timeline, asked, question, prediction->plan);
  write_output(flags.output.path, [&](std::ostream& out) {
    report_of(flags.output)
        .prediction(out, {profile, question.cluster(), asked.check, *prediction,
                          prediction->of_recorded_step || prediction->plan.own
                              ? std::nullopt
                              : pacing_cycle_of(profile, question.cluster(), prediction->plan)});
  });
  return answered;
}

Action add_predict_flags(CLI::App& app) {
  auto flags = std::make_shared<PredictFlags>();
  add_input_flags(app, flags->input);
  add_recorded_flag(app, flags->input);
  app.add_option("--plan", flags->plan,
                 "Plan to predict: [layout(tp=8, pp=4, ...)/]strategy(option=value, ...)@collective, or with "
                 "--devices placement(devices=0+1, units=4+3) (default: what was traced)");
  add_change_flag(app, flags->cluster);
  add_iterations_flag(app, flags->cluster);
  add_global_batch_flag(app, flags->layout);
  add_measured_flag(app, flags->layout);
  add_framework_flag(app, flags->layout);
  add_whole_run_flags(app, flags->layout);
  app.add_option("--price", flags->layout.price, "Price of a device-hour, for --tokens: 2.5")->group("A whole run");
  app.add_option("--devices", flags->layout.devices, "Unequal devices of a placement, and their links: a JSON file");
  add_cluster_flags(app, flags->cluster);
  add_beside_flags(app, flags->cluster);
  app.add_option("--timeline", flags->timeline,
                 "Also write a trace for ui.perfetto.dev: the plan, and beside it the step as it was traced; "
                 "of --recorded the recorded step of each rank, measured and with the plan's messages");
  add_output_flags(app, flags->output);
  return [flags] { return predict(*flags); };
}

}  // namespace

const Verb predict_verb = {
    "predict", "Predict the step time of one plan",
    "stepcast predict trace.json.gz --plan 'dear(bucket=25 MiB)' --workers 16 --network 10GbE --timeline out.json\n"
    "  stepcast predict --model gpt:hidden=4096,layers=32,heads=32,seq=2048 --device a100-sxm4-80gb \\\n"
    "      --plan 'layout(tp=8, pp=4)/ddp' --global-batch 512 --workers 64 --per-node 8 --network '800 Gb/s'\n"
    "  stepcast predict trace.json.gz --plan ddp --workers 16 --network 25GbE --beside fsdp --beside-model llama3-8b",
    add_predict_flags};

}  // namespace stepcast::cli
