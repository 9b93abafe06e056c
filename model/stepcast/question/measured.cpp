// The device is corrected first; the profile is described anew with it.
#include <stepcast/question/measured.hpp>

#include <stepcast/cluster/device_match.hpp>
#include <stepcast/cluster/links_of_trace.hpp>

#include <algorithm>
#include <memory>
#include <utility>

namespace stepcast {

StepDefaults step_defaults_of(const Question& question, std::string model, bool batch_said) {
  return {.plan = layout_plan_of("ddp"),
          .model = std::move(model),
          .devices = question.cluster.workers(),
          .global_batch = question.global_batch,
          .batch_of_device = batch_said ? question.profile.batch_samples : 0};
}

Question with_measured_steps(Question question, std::vector<MeasuredStep> steps) {
  if (steps.empty()) return question;
  if (!question.shape || !question.device)
    throw InputError(steps.front().source, "a described model on a device, which the step corrects", "a trace",
                     "its own step is measured; --step says how long it takes without the profiler");
  for (const MeasuredStep& step : steps)
    if (step.plan.layout.offloads(Offloaded::optimizer))
      throw InputError(step.source, "a step whose devices update, since they are what it corrects",
                       "offload=" + offload_text(step.plan.layout),
                       "\"host\": {\"updates\": ...} in the cluster's file says how fast a host does");
  const Cluster cluster = with_links_of(with_device(question.cluster, question.device), question.profile, "");
  DeviceCorrection correction = corrected_device(*question.device, cluster, std::move(steps));
  const double samples = question.profile.batch_samples;
  // What was said beside the description stays.
  const std::vector<std::string> described = described_profile(*question.shape, *question.device, samples).assumed;
  std::vector<std::string> beside = std::move(question.profile.assumed);
  std::erase_if(beside, [&](const std::string& line) { return std::ranges::find(described, line) != described.end(); });
  question.device = correction.device;
  question.profile = described_profile(*question.shape, correction.device, samples);
  std::vector<std::string>& assumed = question.profile.assumed;
  assumed.insert(assumed.end(), beside.begin(), beside.end());
  std::vector<std::string> told = words_of(correction);
  for (std::string& line : told) line = "measured: " + line;
  assumed.insert(assumed.begin(), told.begin(), told.end());
  question.correction = std::make_shared<const DeviceCorrection>(std::move(correction));
  return question;
}

}  // namespace stepcast
