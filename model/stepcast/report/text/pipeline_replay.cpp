// Text of a pipeline replay, 80 columns.
//
//   job         16 workers: 4 stages x 4 replicas, 32 micro-batches, 1f1b
//   measured    46.67 s a step, median of 44 steps
//   rebuilt     46.55 s, -0.2 %: each step from its own passes
//   cause       worker 0 (replica 0, stage 0): its passes take 2.36 x those of its peers
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/report/pipeline_replay_report.hpp>
#include <stepcast/report/text/phrases.hpp>
#include <stepcast/report/text/table.hpp>

#include <algorithm>
#include <ostream>

namespace stepcast {
namespace {

using Align = TextTable::Align;

std::string times(double factor) { return fixed(factor, 2) + " x"; }
std::string off(Seconds is, Seconds should) { return percent(is / should - 1, true); }

std::string job_text(const PipelineReplay& replay) {
  std::string text = counted(replay.stages * replay.replicas, "worker") + ": " + counted(replay.stages, "stage") +
                     " x " + counted(replay.replicas, "replica") + ", ";
  if (replay.chunks > 1) text += counted(replay.chunks, "chunk") + " each, ";
  text += counted(replay.micro_batches, "micro-batch", "micro-batches");
  const auto recorded = std::ranges::find_if(replay.schedules, &ReorderedPipeline::recorded);
  if (recorded != replay.schedules.end()) text += ", schedule " + std::string(recorded->schedule);
  return text;
}

Seconds median_of(const PipelineReplay& replay, Seconds PipelineStepReplay::*part) {
  std::vector<Seconds> all;
  for (const PipelineStepReplay& step : replay.steps) all.push_back(step.*part);
  std::ranges::nth_element(all, all.begin() + std::ssize(all) / 2);
  return all[all.size() / 2];
}

void write_what_ifs(std::ostream& out, const PipelineReplay& replay) {
  write_labelled(out, "cause",
                 replay.cause.empty() ? "no worker and no stage costs 1 % of the step or more" : replay.cause);
  if (replay.replicas > 1)
    write_labelled(out, "workers",
                   text_of(median_of(replay, &PipelineStepReplay::without_slow_workers)) +
                       " if no worker were slower than its peers: the job is slowed down " + times(replay.slowdown));
  if (replay.stages > 1)
    write_labelled(
        out, "stages",
        text_of(median_of(replay, &PipelineStepReplay::without_slow_stages)) + " if every stage took the mean of all");
  write_labelled(out, "even",
                 text_of(median_of(replay, &PipelineStepReplay::even)) +
                     " if all operations of a kind were alike: the host's lags aside, the job is slowed down " +
                     times(replay.unevenness));
}

void write_slow(std::ostream& out, const PipelineReplay& replay) {
  TextTable table({{"slow", Align::left},
                   {"passes", Align::right},
                   {"forward", Align::right},
                   {"backward", Align::right},
                   {"costs", Align::right}});
  constexpr std::size_t shown = 8;
  for (const std::vector<Slowness>* all : {&replay.workers, &replay.stages_slow})
    for (std::size_t i = 0; i < std::min(shown, all->size()); ++i) {
      const Slowness& slow = (*all)[i];
      const std::string stage = "stage " + std::to_string(slow.stage);
      table.add_row({slow.worker < 0 ? stage
                                     : "worker " + std::to_string(slow.worker) + " (replica " +
                                           std::to_string(slow.replica) + ", " + stage + ")",
                     times(slow.factor), times(slow.forward), times(slow.backward),
                     percent(slow.step_cost) + " of the step"});
    }
  if (!table.empty()) out << '\n', table.write(out);
}

void write_schedules(std::ostream& out, const PipelineReplay& replay) {
  TextTable table({{"schedules", Align::left}, {"step", Align::right}, {"", Align::flexible}});
  for (const ReorderedPipeline& other : replay.schedules) {
    std::string remark;
    if (other.recorded) remark = "as recorded, " + percent(replay.schedule_error) + " off the steps not used";
    if (other.backward_halved) remark = "assuming that both gradients take half of the backward pass";
    if (other.stages_halved) remark = "assuming two chunks a stage, half of it each";
    table.add_row({std::string(other.schedule), text_of(other.step), remark});
  }
  if (!table.empty()) out << '\n', table.write(out);
}

void write_steps(std::ostream& out, const PipelineReplay& replay) {
  std::vector<TextTable::Column> columns{
      {"step", Align::right}, {"measured", Align::right}, {"rebuilt", Align::right}, {"error", Align::right}};
  const bool peers = replay.replicas > 1;
  if (peers) columns.push_back({"no slow worker", Align::right});
  columns.push_back({"even stages", Align::right});
  columns.push_back({"forecast", Align::right});
  TextTable table(std::move(columns));
  for (const PipelineStepReplay& step : replay.steps) {
    std::vector<std::string> row{std::to_string(step.step), text_of(step.measured), text_of(step.rebuilt),
                                 off(step.rebuilt, step.measured)};
    if (peers) row.push_back(text_of(step.without_slow_workers));
    row.push_back(text_of(step.without_slow_stages));
    row.push_back(text_of(step.forecast));
    table.add_row(std::move(row));
  }
  out << '\n', table.write(out);
}

}  // namespace

void write_pipeline_replay_text(std::ostream& out, const PipelineReplay& replay) {
  write_labelled(out, "job", job_text(replay));
  write_labelled(out, "measured",
                 text_of(replay.measured) + " a step, median of " + counted(std::ssize(replay.steps), "step"));
  write_labelled(out, "rebuilt",
                 text_of(replay.rebuilt) + ", from a step's own passes and the host's lags in other steps; a step is " +
                     percent(replay.median_error) + " off (median)");
  write_labelled(
      out, "forecast",
      text_of(replay.forecast) + ", from the passes of other steps alone; " + percent(replay.forecast_error) + " off");
  if (const std::string caution = replay.caution(); !caution.empty()) write_labelled(out, "CAUTION", caution);
  write_what_ifs(out, replay);
  for (const std::string& note : replay.notes) write_labelled(out, "note", note);
  write_slow(out, replay);
  write_schedules(out, replay);
  write_steps(out, replay);
}

}  // namespace stepcast
