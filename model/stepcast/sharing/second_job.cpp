// The messages of a plan are priced twice: with a small part of the level, and with half of that.
#include <stepcast/sharing/second_job.hpp>

#include <stepcast/schedule/lowering.hpp>
#include <stepcast/step_nodes/layout_step.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

/// Of what others leave of a level, so small a part that messages which take more than it would wait for it; and the
/// level with twice and with once as much of it.
struct Probes {
  double part;
  Cluster twice, once;
};
Probes probes_of(const Cluster& cluster, std::size_t level) {
  constexpr double usual = 0.05, least_left = 0.01;  // of all of a level, of which a cluster keeps that much
  const double part = std::max(usual, least_left / (1 - background_at(cluster, level)));
  return {part, with_share_taken(cluster, level, 1 - 2 * part), with_share_taken(cluster, level, 1 - part)};
}

/// Messages of s seconds of all of the level take s / (2 part) with twice the part of it, and s / part with once.
Seconds filled(Seconds twice, Seconds once, double part) { return std::max(Seconds(0), once - twice) * (2 * part); }

/// Of a plan that divides the batch only: the messages of its steady state, channel by channel.
Answer<Seconds> filled_by(const Profile& profile, const Cluster& cluster, const Probes& probes, const PlanSpec& plan) {
  const Answer<DetailedTimeline> step = detailed_timeline(profile, cluster, plan, 1);
  if (!step) return Inapplicable{step.reason()};
  TaskGraph graphs[] = {step->graph, step->graph};
  const Cluster* clusters[] = {&probes.twice, &probes.once};
  for (int i = 0; i < 2; ++i) {
    const Answer<CommunicationCost> cost = communication_cost(*clusters[i], collective_of(plan));
    if (!cost) return Inapplicable{cost.reason()};
    static_cast<void>(refilled(step->plan, *cost, graphs[i]));
  }
  std::vector<Picoseconds> longer(step->graph.resources.size(), 0);
  for (std::size_t t = 0; t < step->graph.tasks.size(); ++t)
    if (step->graph.tasks[t].kind == TaskKind::transfer)
      longer[step->graph.tasks[t].resource] += graphs[1].tasks[t].work - graphs[0].tasks[t].work;
  return filled(Seconds(0), seconds_of(*std::ranges::max_element(longer)), probes.part) / step->plan.period;
}

/// Collectives and sends of each device of a pipeline.
std::vector<Seconds> sums_of_messages(const LayoutStep& step) {
  std::vector<Seconds> sums;
  for (const std::vector<StepNode>& nodes : step.devices) {
    Seconds sum;
    for (const StepNode& node : nodes)
      if (node.kind == StepNode::Kind::collective || node.kind == StepNode::Kind::send) sum += node.time;
    sums.push_back(sum);
  }
  return sums;
}

Answer<Seconds> filled_by(const PreparedQuestion& question, const Probes& probes, const LayoutPlan& plan) {
  std::vector<std::vector<Seconds>> sums;
  for (const Cluster* cluster : {&probes.twice, &probes.once}) {
    const PreparedQuestion there = question.on(*cluster);
    const Answer<Workload>& units = there.workload();
    if (!units) return Inapplicable{units.reason()};
    const Answer<LayoutStep> step = layout_step(*units, there.cluster(), plan, there.layout_options());
    if (!step) return Inapplicable{step.reason()};
    sums.push_back(sums_of_messages(*step));
  }
  Seconds most;
  for (std::size_t d = 0; d < sums[0].size(); ++d) most = std::max(most, filled(sums[0][d], sums[1][d], probes.part));
  return most;
}

}  // namespace

Answer<Seconds> time_on_level(const PreparedQuestion& question, const Prediction& prediction, std::size_t level) {
  if (prediction.plan.own) return Inapplicable{"its messages are those of the recorded step, which no plan tells"};
  const Probes probes = probes_of(question.cluster(), level);
  if (prediction.layout) return filled_by(question, probes, prediction.layout->plan);
  const Answer<Profile>& profile = question.profile();
  if (!profile) return Inapplicable{profile.reason()};
  return filled_by(*profile, question.cluster(), probes, prediction.plan);
}

double share_taken(Seconds sends, Seconds step) {
  const double sending = step > Seconds(0) ? std::min(1.0, sends / step) : 0;
  return sending / (1 + sending);
}

Cluster with_share_taken(Cluster cluster, std::size_t level, double share) {
  double& background = background_at(cluster, level);
  background = 1 - (1 - background) * (1 - share);
  return cluster;
}

Answer<SecondJob> second_job_of(const OtherJob& second, std::size_t level) {
  const PreparedQuestion question(second.question);
  const Answer<Prediction> alone = second.answer(question);
  if (!alone) return Inapplicable{alone.reason()};
  const Answer<Seconds> sends = time_on_level(question, *alone, level);
  if (!sends) return Inapplicable{sends.reason()};
  SecondJob out;
  out.model = second.question.profile.model;
  out.plan = text_of(plan_of(*alone));
  const std::vector<Level>& levels = question.cluster().levels;
  out.level = levels.empty() ? "network" : levels[level].name;
  out.step = alone->iteration;
  out.sends = std::min(*sends, alone->iteration);
  out.share = share_taken(out.sends, out.step);
  return out;
}

Answer<SecondJob> told_of_both(SecondJob told, const OtherJob& first, const OtherJob& second, std::size_t level) {
  const PreparedQuestion question(first.question);
  const Answer<Prediction> alone = first.answer(question);
  if (!alone) return Inapplicable{alone.reason()};
  const auto beside = [&](const OtherJob& job, double share) {
    Question there = job.question;
    there.cluster = with_share_taken(std::move(there.cluster), level, share);
    return job.answer(PreparedQuestion(std::move(there)));
  };
  told.alone = alone->iteration;
  if (const Answer<Prediction> always = beside(first, share_of_always_sending)) told.at_most = always->iteration;
  if (const Answer<Seconds> sends = time_on_level(question, *alone, level))
    if (const Answer<Prediction> slowed = beside(second, share_taken(*sends, alone->iteration)))
      told.slowed = slowed->iteration;
  return told;
}

}  // namespace stepcast
