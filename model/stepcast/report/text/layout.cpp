// The text reports of one layout and of several side by side.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/device_fit.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/report/text/layout.hpp>
#include <stepcast/report/text/phrases.hpp>
#include <stepcast/report/text/table.hpp>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <tuple>
#include <utility>

namespace stepcast {
namespace {

using Align = TextTable::Align;

std::string count_text(double n) {
  constexpr double million = 1e6;
  return n >= million ? large_number_text(n) : grouped_digits(static_cast<std::uint64_t>(n));
}

/// Whose kernels a described transformer is predicted with: " with Megatron-LM's kernels".
std::string kernels_text(const ModelShape& shape) {
  if (shape.heads == 0) return {};
  switch (shape.kernels) {
    case KernelSet::megatron:
      return " with Megatron-LM's kernels";
    case KernelSet::compiled:
      return " with PyTorch's kernels, compiled";
    case KernelSet::eager:
      return " with PyTorch's kernels";
    case KernelSet::deepspeed:
      return " with DeepSpeed's kernels";
  }
  return {};
}

/// What of the peak operations of the model are held against, where that is no plain type: " in eight bits".
std::string in_short_types(const Workload& workload) {
  const std::optional<DataType> linear = workload.shape ? linear_type(*workload.shape) : std::nullopt;
  if (!linear) return {};
  return *linear == DataType::f4 ? " in four bits" : " in eight bits";
}

std::string workload_text(const Workload& workload) {
  std::string text = workload.name.empty() ? "unnamed" : workload.name;
  text += ", " + count_text(workload.parameters()) + " parameters";
  if (!workload.shape) return text;
  return text + "; described" + kernels_text(*workload.shape) + ", not measured";
}

/// "the optimizer's state and activations".
std::string offloaded_words(const Layout& l) {
  const std::string state = l.offloads(Offloaded::parameters)  ? "parameters, gradients and the optimizer's state"
                            : l.offloads(Offloaded::optimizer) ? "the optimizer's state"
                                                               : "";
  if (!l.offloads(Offloaded::activations)) return state;
  const std::string blocks = l.offloaded_blocks == 0 ? "blocks keep"
                                                     : "the first " + counted(l.offloaded_blocks, "block") +
                                                           (l.chunks > 1     ? " of each chunk"
                                                            : l.pipeline > 1 ? " of each stage"
                                                                             : "") +
                                                           (l.offloaded_blocks == 1 ? " keeps" : " keep");
  return (state.empty() ? "" : state + ", ") + "what " + blocks + " of activations";
}

void add(std::vector<std::string>& parts, bool wanted, const std::string& part) {
  if (wanted) parts.push_back(part);
}

/// "embedding, 4 block" for a stage that is one run of units; of an interleaved one only how many.
std::string units_text(const Workload& workload, const StageSummary& stage, std::int64_t chunks) {
  if (chunks > 1 || stage.first_unit + stage.units > workload.units.size()) return std::to_string(stage.units);
  std::string text;
  for (std::uint32_t u = stage.first_unit; u < stage.first_unit + stage.units;) {
    const std::uint32_t kind = workload.units[u];
    std::uint32_t end = u;
    while (end < stage.first_unit + stage.units && workload.units[end] == kind) ++end;
    const std::string& name = workload.kinds[kind].name;
    add_to_list(text, (end - u == 1 ? "" : std::to_string(end - u) + " x ") + name);
    u = end;
  }
  return text;
}

/// Neighbouring stages that show the same units and times.
struct StageRow {
  std::size_t first = 0, last = 0;
  std::string units, forward, backward;
  Seconds end;  ///< of the last one to end
  Bytes least, most;
  [[nodiscard]] bool shows_the_same(const StageRow& o) const {
    return std::tie(units, forward, backward) == std::tie(o.units, o.forward, o.backward);
  }
};

std::vector<StageRow> stage_rows(const Workload& workload, const LayoutPrediction& p) {
  std::vector<StageRow> rows;
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const StageSummary& stage = p.stages[s];
    const Bytes memory = stage.memory.total();
    StageRow row{s,
                 s,
                 units_text(workload, stage, p.plan.layout.chunks),
                 text_of(stage.forward),
                 text_of(stage.backward),
                 stage.end,
                 memory,
                 memory};
    if (rows.empty() || !rows.back().shows_the_same(row)) {
      rows.push_back(std::move(row));
      continue;
    }
    StageRow& before = rows.back();
    before.last = s;
    before.end = std::max(before.end, row.end);
    before.least = std::min(before.least, memory);
    before.most = std::max(before.most, memory);
  }
  return rows;
}

void write_stages(std::ostream& out, const Workload& workload, const LayoutPrediction& p) {
  if (p.stages.size() < 2) return;
  TextTable table({{"stages"},
                   {"units", Align::flexible},
                   {"forward", Align::right},
                   {"backward", Align::right},
                   {"ends", Align::right},
                   {"memory", Align::right}});
  for (const StageRow& row : stage_rows(workload, p)) {
    const std::string most = text_of(row.most), least = text_of(row.least);
    table.add_row({std::to_string(row.first) + (row.last > row.first ? "-" + std::to_string(row.last) : ""), row.units,
                   row.forward, row.backward, text_of(row.end), least == most ? most : least + " - " + most});
  }
  out << '\n';
  table.write(out);
  out << "(forward and backward: one micro-batch, with its collectives)\n";
}

void write_memory(std::ostream& out, const LayoutPrediction& p) {
  const MemoryUse& m = p.memory;
  const std::pair<std::string_view, Bytes> parts[] = {{"parameters", m.parameters},     {"gradients", m.gradients},
                                                      {"optimizer state", m.optimizer}, {"activations", m.activations},
                                                      {"buffers", m.buffers},           {"margin", m.margin}};
  TextTable table({{p.stages.size() > 1 ? "memory of the fullest stage" : "memory of a device"},
                   {"size", Align::right},
                   {"share", Align::right}});
  const Bytes total = m.total();
  for (const auto& [name, size] : parts)
    table.add_row({std::string(name), text_of(size), total > Bytes(0) ? percent(size / total) : ""});
  out << '\n';
  table.write(out);
  if (p.host_memory > Bytes(0)) out << "(and " << text_of(p.host_memory) << " of a machine's own memory)\n";
  if (!m.moment.empty()) out << "(at the fullest moment, " << m.moment << ")\n";
}

}  // namespace

std::string grouped_digits(std::uint64_t n) {
  std::string text = std::to_string(n);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string memory_text(Bytes used, Bytes cap) { return text_of(used) + (cap > Bytes(0) ? " of " + text_of(cap) : ""); }

std::string words_of(const LayoutPrediction& p) {
  const Layout& l = p.plan.layout;
  const auto over = [](std::int64_t n) { return " over " + counted(n, "device"); };
  const std::string scheme = l.scheme && l.scheme->name != "1d" ? std::string(l.scheme->name) + " " : "";
  const std::string schedule = l.schedule ? std::string(l.schedule->name) : "1f1b";
  std::vector<std::string> parts;
  const bool chosen = !l.unit_choices.empty();
  std::string choices;
  for (const UnitChoice& c : l.unit_choices)
    choices += (choices.empty() ? "" : ", ") + counted(std::int64_t{c.units}, "unit") + " " + text_of(c);
  add(parts, chosen, "each unit its own: " + choices);
  add(parts, !chosen && l.tensor > 1,
      scheme + "tensor parallelism" + over(l.tensor) + (l.sequence_parallel ? " with sequence parallelism" : ""));
  add(parts, l.context > 1, "context parallelism" + over(l.context));
  add(parts, l.pipeline > 1,
      counted(l.pipeline, "pipeline stage") + " (" + schedule +
          (l.chunks > 1 ? ", " + std::to_string(l.chunks) + " chunks each" : "") + ")");
  add(parts, !chosen && l.data > 1,
      counted(l.data, "data-parallel replica") + (l.zero > 0 ? " with ZeRO-" + std::to_string(l.zero) : "") +
          (l.whole_tensors ? " of whole tensors" : "") +
          (l.shard > 0 ? " within groups of " + std::to_string(l.shard) : "") +
          (l.backward_shard > 0 ? ", gathered backward within groups of " + std::to_string(l.backward_shard * l.context)
                                : "") +
          (l.quantized_weights ? ", parameters in 8 bits" : "") +
          (l.quantized_gradients ? ", gradients in 4 bits" : ""));
  add(parts, l.expert > 1,
      (l.whole_experts() ? "whole experts spread" : "experts spread") + over(l.expert) +
          (l.expert_exchange == ExpertExchange::deduplicated
               ? ", each token sent once to a machine (inside one, to a device) with some of its experts"
               : "") +
          (l.overlap_expert && p.micro_batches > 1 ? ", beside the compute of another micro-batch" : ""));
  add(parts, !chosen && l.data == 1 && l.context > 1 && l.zero > 0,
      "ZeRO-" + std::to_string(l.zero) + " over the devices of context parallelism");
  add(parts, parts.empty(), "one device");
  const std::string samples =
      counted(chosen ? l.micro_batch * l.data : l.micro_batch, "sample") + (chosen ? " on all devices" : "");
  parts.push_back(p.micro_batches == 1 ? "one micro-batch of " + samples
                                       : std::to_string(p.micro_batches) + " micro-batches of " + samples);
  if (l.recomputation != Recomputation::none)
    parts.push_back((l.recomputation == Recomputation::modules
                         ? "recomputation of " + recomputation_text(l)
                         : std::string(name_of(l.recomputation)) + " recomputation of activations") +
                    (l.recomputed_blocks > 0
                         ? (l.recomputed_blocks == 1 ? " of the first block"
                                                     : " of the first " + counted(l.recomputed_blocks, "block")) +
                               (l.chunks > 1     ? " of each chunk"
                                : l.pipeline > 1 ? " of each stage"
                                                 : "")
                     : l.recomputed_together > 1 ? ", " + std::to_string(l.recomputed_together) + " blocks at a time"
                                                 : ""));
  add(parts, l.offloaded != 0, offloaded_words(l) + " in the host's memory");
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

void write_layout_subject(std::ostream& out, const LayoutSubject& subject) {
  const Workload& workload = subject.workload;
  write_labelled(out, "model", workload_text(workload));
  if (workload.device) write_labelled(out, "device", workload.device->name);
  write_labelled(out, "cluster", cluster_text(subject.cluster));
  write_second_job(out, subject.cluster, workload.name);
  write_labelled(out, "batch", subject.batch_in_words);
  if (subject.correction != nullptr)
    for (const std::string& line : words_of(*subject.correction)) write_labelled(out, "measured", line);
  write_caution(out, subject.check);
  if (!subject.doubt.empty()) write_labelled(out, "CAUTION", subject.doubt);
  out << '\n';
}

void write_layout_grounds(std::ostream& out, const LayoutSubject& subject, const std::vector<std::string>& also) {
  out << '\n';
  if (!subject.workload.shape) write_check(out, subject.check);
  write_links(out, subject.cluster);
  std::vector<std::string> assumed = subject.workload.assumed;
  for (const std::string& text : also)
    if (std::find(assumed.begin(), assumed.end(), text) == assumed.end()) assumed.push_back(text);
  std::erase(assumed, subject.said_of_batch);
  write_assumed(out, assumed, "--json says all");
}

namespace {

void write_whole_run(std::ostream& out, const RunRequest& asked, const WholeRun& run) {
  std::string text = count_text(run.tokens) + " tokens in " + grouped_digits(static_cast<std::uint64_t>(run.steps)) +
                     " steps: " + duration_text(run.expected) + " (" + duration_text(run.low) + " to " +
                     duration_text(run.high) + "), " +
                     grouped_digits(static_cast<std::uint64_t>(std::llround(run.device_hours))) + " device-hours";
  const auto cost_of = [&](Seconds takes) {
    return grouped_digits(static_cast<std::uint64_t>(std::llround(run.cost_of(takes))));
  };
  if (run.cost > 0)
    text += ", " + cost_of(run.expected) + " (" + cost_of(run.low) + " to " + cost_of(run.high) + ") at " +
            fixed(asked.price_per_device_hour, 2) + " a device-hour";
  if (run.kilowatt_hours > 0) text += ", " + fixed(run.kilowatt_hours / 1000, 1) + " MWh";
  if (asked.within > Seconds(0) && run.expected > asked.within)
    text += "; longer than the " + duration_text(asked.within) + " asked for, because of interruptions";
  else if (asked.within > Seconds(0) && run.high > asked.within)
    text += "; the longer end misses " + duration_text(asked.within) + ", that of a plan for --within '" +
            duration_text(asked.within * (run.expected / run.high)) + "' would not";
  write_labelled(out, "run", text);
  if (run.checkpoint_every <= Seconds(0)) return;
  write_labelled(out, "interrupted",
                 fixed(run.interruptions, 1) + " times, if a device fails once in " +
                     grouped_digits(static_cast<std::uint64_t>(std::llround(asked.between_failures.value() / 3600))) +
                     " h and steps go on after " + duration_text(asked.restart) + ": " +
                     percent(run.expected / run.duration - 1) + " longer than the steps alone, with a checkpoint of " +
                     duration_text(asked.checkpoint) + " every " + duration_text(run.checkpoint_every) +
                     " (--mtbf, --restart, --checkpoint)");
}

std::string step_text(const LayoutPrediction& p) {
  return text_of(p.iteration) + " (80 % interval of the mean: " + text_of(p.interval_low) + " to " +
         text_of(p.interval_high) + ")";
}

}  // namespace

void write_layout_facts(std::ostream& out, const LayoutSubject& subject, const LayoutPrediction& p,
                        std::string_view label) {
  write_labelled(out, label, text_of(p.plan));
  write_labelled(out, "in words", words_of(p));
  write_labelled(out, "step", step_text(p));
  const double sequence = subject.workload.sequence;
  if (p.throughput_samples_per_s > 0)
    write_labelled(out, "throughput",
                   fixed(p.throughput_samples_per_s, 1) + " samples/s" +
                       (sequence > 0 ? ", " + count_text(p.throughput_samples_per_s * sequence) + " tokens/s" : "") +
                       " on all devices" +
                       (sequence > 0 && p.devices > 1
                            ? ", " + count_text(p.throughput_samples_per_s * sequence / double(p.devices)) + " on each"
                            : ""));
  if (p.model_flops_utilization > 0) {
    const double done = subject.workload.shape->operations() * p.throughput_samples_per_s / double(p.devices);
    write_labelled(out, "MFU",
                   percent(p.model_flops_utilization) + ", " + fixed(done / 1e12, 0) +
                       " Tflop/s a device: operations of the model over the peak of all devices" +
                       in_short_types(subject.workload));
  }
  if (p.run) write_run(out, *p.run);
  if (const std::optional<WholeRun> run = run_by(subject, p)) write_whole_run(out, *subject.run, *run);
  write_labelled(out, "bound", p.bound);
  if (p.input) write_input(out, *p.input);
  const Bytes card = subject.planned_memory > Bytes(0) ? subject.cluster.device_memory : subject.memory_cap;
  write_labelled(out, "memory",
                 memory_text(p.memory.total(), card) + " a device" +
                     (subject.memory_cap > Bytes(0) ? "" : "; how much it has is not known (--device-memory)"));
}

void write_layout_breakdown(std::ostream& out, const LayoutPrediction& p) {
  const LayoutBreakdown& b = p.breakdown;
  const struct {
    std::string_view name;
    Seconds time;
    bool always;
  } parts[] = {{"compute", b.compute, true},
               {"recomputation", b.recomputation, false},
               {"tensor collectives", b.tensor, p.plan.layout.tensor > 1},
               {"context collectives", b.context, p.plan.layout.context > 1},
               {"expert exchanges", b.expert, p.plan.layout.expert > 1},
               {"pipeline transfers", b.pipeline, p.plan.layout.pipeline > 1},
               {"pipeline bubble", b.bubble, p.plan.layout.pipeline > 1},
               {LayoutBreakdown::gradients_in_words(p.plan.layout), b.gradients, p.plan.layout.data > 1},
               {LayoutBreakdown::copies_in_words(p.plan.layout), b.copies, false},
               {"update", b.update, false},
               {"input", b.input, false},
               {"other", b.other, false}};
  TextTable table({{"part of the step"}, {"time", Align::right}, {"share", Align::right}});
  for (const auto& part : parts)
    if (part.always || part.time > 1e-9 * p.iteration)  // less is rounding
      table.add_row({std::string(part.name), text_of(part.time > 1e-9 * p.iteration ? part.time : Seconds(0)),
                     percent(part.time / p.iteration)});
  table.write(out);
}

void write_launch_settings(std::ostream& out, const std::vector<LaunchSettings>& all) {
  std::vector<std::pair<std::string, std::string>> refusals;  // reason, frameworks
  for (const LaunchSettings& settings : all) {
    if (settings.text.empty()) {
      const auto same = std::find_if(refusals.begin(), refusals.end(),
                                     [&](const auto& refusal) { return refusal.first == settings.cannot; });
      if (same != refusals.end()) same->second += ", " + std::string(settings.framework);
      else refusals.emplace_back(settings.cannot, settings.framework);
      continue;
    }
    write_labelled(out, "settings", "for " + std::string(settings.framework) + ":");
    write_settings(out, settings.text);
    if (!settings.in_code.empty()) write_labelled(out, "in the code", settings.in_code);
  }
  for (const auto& [reason, frameworks] : refusals) write_labelled(out, "not with", frameworks + ": " + reason);
}

void write_by_pytorch(std::ostream& out, const std::optional<OwnKernels>& by, const LayoutSubject& subject) {
  if (!by) return;
  const Bytes left = subject.planned_memory;
  if (subject.memory_cap > Bytes(0) && by->memory > subject.memory_cap) {
    write_labelled(out, "by PyTorch",
                   "does not fit: its own kernels and optimizer hold " + memory_text(by->memory, subject.memory_cap) +
                       " a device (--framework pytorch searches by them)");
    return;
  }
  const bool above = left > Bytes(0) && by->memory > left;
  write_labelled(out, "by PyTorch",
                 text_of(by->iteration) + " and " + memory_text(by->memory, subject.memory_cap) + " a device" +
                     (above ? ", above the " + text_of(left) + " that searches plan with" : "") +
                     ": kernels and optimizer are its own (--framework pytorch searches by them, torchtitan by "
                     "compiled ones)");
}

void write_layout_text(std::ostream& out, const LayoutReport& report) {
  const LayoutPrediction& p = report.prediction;
  write_layout_subject(out, report.subject);
  write_layout_facts(out, report.subject, p, "plan");
  out << '\n';
  write_layout_breakdown(out, p);
  write_memory(out, p);
  write_stages(out, report.subject.workload, p);
  if (!report.settings.empty()) out << '\n';
  write_by_pytorch(out, report.by_pytorch, report.subject);
  write_launch_settings(out, report.settings);
  for (const std::string& warning : p.warnings) write_labelled(out, "note", warning);
  write_layout_grounds(out, report.subject, p.assumed);
}

namespace {

/// What a row of the comparison says of a plan's time, as the comparison of plans without layouts does; all of them sum
/// to the step.
struct ComparedTime {
  std::string_view name;
  bool always = true;  ///< else where some plan has it
  Seconds (*of)(const LayoutBreakdown&);
};
constexpr ComparedTime compared_times[] = {{"compute", true, [](const LayoutBreakdown& b) { return b.computing(); }},
                                           {"exposed", true, [](const LayoutBreakdown& b) { return b.exposed(); }},
                                           {"bubble", false, [](const LayoutBreakdown& b) { return b.bubble; }},
                                           {"input", false, [](const LayoutBreakdown& b) { return b.input; }}};

/// What is said of some of the plans and not of all, and what becomes of stragglers that were asked for.
void write_distinguishing_notes(std::ostream& out, const std::vector<LayoutRow>& rows) {
  const auto says = [](const LayoutRow& row, const std::string& warning) {
    return row.prediction && std::ranges::find(row.prediction->warnings, warning) != row.prediction->warnings.end();
  };
  bool any = false;
  for (const LayoutRow& row : rows) {
    if (!row.prediction) continue;
    for (const std::string& warning : row.prediction->warnings) {
      const bool all = std::ranges::all_of(rows, [&](const LayoutRow& r) { return !r.prediction || says(r, warning); });
      const bool asked = warning == stragglers_of_layouts && !any;
      if (all && !asked) continue;
      if (!any) out << '\n';
      any = true;
      write_labelled(out, "note", all ? warning : row.plan + ": " + warning);
    }
  }
}

/// The fastest of those that are run, and which of the others the answer does not tell from it.
void write_fastest(std::ostream& out, const LayoutComparisonReport& report) {
  const LayoutRow* fastest = fastest_of(report);
  if (fastest == nullptr) return;
  const LayoutPrediction& best = *fastest->prediction;
  const std::vector<std::string> equals = equals_of(report);
  Seconds next;
  for (const LayoutRow& row : report.rows)
    if (row.prediction && row.not_run.empty() && &row != fastest &&
        (next == Seconds(0) || row.prediction->iteration < next))
      next = row.prediction->iteration;
  if (next == Seconds(0)) return;
  std::string text = fastest->plan + ", " + step_text(best);
  if (equals.empty()) text += "; the next takes " + percent(next / best.iteration - 1) + " longer";
  else text += "; not to be told from " + listed(equals) + " (" + percent(resolution_of(report)) + ")";
  write_labelled(out, "fastest", text);
}

}  // namespace

void write_layout_comparison_text(std::ostream& out, const LayoutComparisonReport& report) {
  write_layout_subject(out, report.subject);
  const auto works = [](const LayoutRow& row) { return row.prediction.has_value(); };
  const auto is_traced = [&](const LayoutRow& row) { return row.prediction && row.plan == report.traced; };
  const auto is_run = [](const LayoutRow& row) { return row.prediction && row.not_run.empty(); };
  auto baseline = std::ranges::find_if(report.rows, is_traced);
  if (baseline == report.rows.end()) baseline = std::ranges::find_if(report.rows, is_run);
  if (baseline == report.rows.end()) baseline = std::ranges::find_if(report.rows, works);
  if (baseline == report.rows.end()) {
    out << "No plan can run on this cluster.\n";
  } else {
    std::vector<ComparedTime> times;
    std::vector<TextTable::Column> columns{{"plan", Align::flexible}, {"step", Align::right}, {"gain", Align::right}};
    for (const ComparedTime& time : compared_times) {
      const auto has = [&](const LayoutRow& row) {
        return row.prediction && time.of(row.prediction->breakdown) > 1e-9 * row.prediction->iteration;
      };
      if (!time.always && std::ranges::none_of(report.rows, has)) continue;
      times.push_back(time);
      columns.push_back({std::string(time.name), Align::right});
    }
    columns.push_back({"memory", Align::right});
    const bool utilization = baseline->prediction->model_flops_utilization > 0;
    if (utilization) columns.push_back({"MFU", Align::right});
    const bool runs = baseline->prediction->run.has_value();
    if (runs) columns.push_back({"run", Align::right});
    TextTable table(std::move(columns));
    for (const LayoutRow& row : report.rows) {
      if (!row.prediction) continue;
      const LayoutPrediction& p = *row.prediction;
      std::vector<std::string> cells{row.plan + (is_traced(row) ? ", as traced" : ""), text_of(p.iteration),
                                     fixed(baseline->prediction->iteration / p.iteration, 2) + "x"};
      for (const ComparedTime& time : times) {
        const Seconds part = time.of(p.breakdown);
        cells.push_back(text_of(part > 1e-9 * p.iteration ? part : Seconds(0)));
      }
      cells.push_back(text_of(p.memory.total()));
      if (utilization) cells.push_back(percent(p.model_flops_utilization));
      if (runs) cells.push_back(duration_text(p.run->duration));
      table.add_row(std::move(cells));
    }
    table.write(out);
    if (std::ranges::count_if(report.rows, works) > 1) {
      out << '\n';
      write_fastest(out, report);
      write_labelled(out, "gain", "over " + baseline->plan);
    }
  }
  TextTable refused({{"not here"}, {"because", Align::flexible}});
  for (const LayoutRow& row : report.rows)
    if (!row.prediction) refused.add_row({row.plan, row.inapplicable});
  if (!refused.empty()) out << '\n', refused.write(out);
  TextTable not_run({{"not run"}, {"by", Align::flexible}});
  for (const LayoutRow& row : report.rows)
    if (!row.not_run.empty()) not_run.add_row({row.plan, row.not_run});
  if (!not_run.empty()) out << '\n', not_run.write(out);
  write_distinguishing_notes(out, report.rows);
  write_layout_grounds(out, report.subject);
}

}  // namespace stepcast
