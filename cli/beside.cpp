// The second job is asked as any job is: its plan on the same cluster, with workers of its own.
#include "beside.hpp"

#include "help.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/placement/placement.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <memory>
#include <string>
#include <utility>

namespace stepcast::cli {
namespace {

struct SaidBeside {
  std::string level;
  Plan plan;
};

/// "spine=layout(zero=3)/ddp": the '=' of a level stands before any option.
SaidBeside said_beside(const std::string& text) {
  const auto equals = text.find('='), options = text.find('(');
  const bool named = equals != std::string::npos && (options == std::string::npos || equals < options);
  const std::string level = named ? text.substr(0, equals) : "", plan = named ? text.substr(equals + 1) : text;
  if (named && level.empty()) throw InputError("--beside", "the name of a level in front of '='", in_quotes(text));
  if (has_placement(plan)) throw InputError("--beside", "a plan on equal devices", in_quotes(plan));
  try {
    return {level, plan_of(plan)};
  } catch (const InputError& wrong) {
    throw InputError("--beside, " + wrong.where, wrong.expected, wrong.found, wrong.hint);
  }
}

double beside_batch_of(const std::string& text) {
  return static_cast<double>(integer_of(text, "--beside-batch", 1, 1'000'000'000));
}

/// The same job once more, with its own workers.
SecondAsked twin_of(const Asked& asked, const ClusterFlags& flags, const Plan& plan) {
  if (!asked.refusal.empty())
    throw InputError("--beside-model", "the model of the second job", "nothing, and a trace that gives no profile",
                     asked.refusal);
  Question question = asked.question;
  question.iterations = 0;
  if (!flags.beside_batch.empty()) question.global_batch = beside_batch_of(flags.beside_batch);
  return {std::move(question), asked.check, plan};
}

/// Another job, described or traced.
SecondAsked another_job(const Asked& asked, const InputFlags& first, const ClusterFlags& said, const Plan& plan) {
  InputFlags input;
  input.device = first.device;
  ClusterFlags flags;
  if (describes_model(said.beside_model)) {
    input.model = said.beside_model;
  } else {
    input.files = {said.beside_model};
    flags.same_device = said.same_device, flags.faster_compute = said.faster_compute;
  }
  LayoutFlags layout;
  layout.global_batch = said.beside_batch;
  Asked second = asked_of(input, flags, layout,
                          {.layouts = plan.layout || !said.beside_batch.empty(), .cluster = asked.question.cluster});
  return {std::move(second.question), std::move(second.check), plan};
}

}  // namespace

void add_beside_flags(CLI::App& app, ClusterFlags& flags) {
  const HelpGroup group(app, "A second job on the network");
  app.add_option("--beside", flags.beside,
                 "Plan of a second job that shares the network's outermost level, or one that is named: "
                 "'spine=layout(zero=3)/ddp'; on as many workers of its own, the same model if --beside-model names "
                 "no other");
  app.add_option("--beside-model", flags.beside_model,
                 "The second job's model: a description (llama3-8b), a trace or a profile");
  app.add_option("--beside-batch", flags.beside_batch, "Samples of the second job's step on all its devices");
}

void check_beside_flags(const ClusterFlags& flags) {
  if (!flags.beside.empty()) {
    (void)said_beside(flags.beside);
    if (!flags.beside_batch.empty()) (void)beside_batch_of(flags.beside_batch);
    return;
  }
  for (const auto& [flag, value] :
       {std::pair{"--beside-model", &flags.beside_model}, std::pair{"--beside-batch", &flags.beside_batch}})
    if (!value->empty()) throw InputError(flag, "the plan of a second job, --beside", "none", "such as --beside ddp");
}

void put_beside(Asked& asked, const InputFlags& input, const ClusterFlags& flags) {
  if (flags.beside.empty()) return;
  if (asked.question.cluster.overlay)
    throw InputError("--beside", "a network whose levels two jobs share", "an overlay", "whose links it names itself");
  constexpr double most_taken = 0.98;  // of which two jobs can share the rest
  const SaidBeside said = said_beside(flags.beside);
  Cluster& cluster = asked.question.cluster;
  const std::size_t level = shared_level(cluster, said.level, "--beside");
  if (const double taken = background_at(cluster, level); taken > most_taken)
    throw InputError("--beside", "a level of which two jobs can share 2 % or more",
                     "one of which others take " + percent(taken), "--background says so, or the cluster");
  SecondAsked second =
      flags.beside_model.empty() ? twin_of(asked, flags, said.plan) : another_job(asked, input, flags, said.plan);
  second.question.cluster.stragglers = {};  // are workers of the first job
  second.level = level;
  second.alone = cluster;
  const Answer<SecondJob> job = second_job_of(second.job(), level);
  if (!job)
    throw InputError("--beside", "a plan that the second job can run here", in_quotes(text_of(said.plan)),
                     job.reason());
  cluster = with_share_taken(std::move(cluster), level, job->share);
  cluster.beside = std::make_shared<const SecondJob>(*job);
  asked.second = std::make_shared<const SecondAsked>(std::move(second));
}

void tell_of_both(Asked& asked, const std::function<Answer<Prediction>(const PreparedQuestion&)>& answer) {
  if (!asked.second) return;
  OtherJob first{asked.question, answer};
  first.question.cluster = asked.second->alone;
  Cluster& cluster = asked.question.cluster;
  if (const Answer<SecondJob> told = told_of_both(*cluster.beside, first, asked.second->job(), asked.second->level))
    cluster.beside = std::make_shared<const SecondJob>(*told);
}

}  // namespace stepcast::cli
