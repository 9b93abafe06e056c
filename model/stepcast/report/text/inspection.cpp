// Inspection as text: a line for each trace, table of layers and execution trace, or all that is known of each.
//
//   written by     rank  steps      step  kernels  coll.  uncl.  trace
//   Kineto >= 2.4   0/8      6  61.71 ms     5586     84    0 %  rank-0.json.gz
//
// Names of files come last, and whole: their ends tell the ranks of a run apart.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/report/inspection_report.hpp>
#include <stepcast/report/text/phrases.hpp>
#include <stepcast/report/text/table.hpp>

#include <algorithm>
#include <numeric>
#include <ostream>

namespace stepcast {
namespace {

using Align = TextTable::Align;
using Row = std::vector<std::string>;

/// A table, or nothing where there is nothing to say.
void write_rows(std::ostream& out, const std::vector<TextTable::Column>& columns, std::vector<Row> rows) {
  if (rows.empty()) return;
  TextTable table(columns);
  for (Row& row : rows) table.add_row(std::move(row));
  table.write(out);
}

/// What tells traces apart is the end of their path.
std::string file_of(std::string_view source) { return std::string(source.substr(source.rfind('/') + 1)); }

/// "PyTorch Kineto >= 2.4 (relative ns times), CUDA runtime 12.6" -> "Kineto >= 2.4"; the format where that is long.
std::string writer_of(const TraceSummary& s) {
  std::string_view name = s.producer.empty() ? std::string_view(s.format) : std::string_view(s.producer);
  name = name.substr(0, name.find_first_of("(,;"));
  constexpr std::string_view framework = "PyTorch ";
  if (name.starts_with(framework)) name.remove_prefix(framework.size());
  while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
  constexpr std::size_t widest = 19;
  return shortened(name.size() > widest ? std::string_view(s.format) : name, widest);
}

std::string rank_text(std::int64_t rank, std::int64_t world_size) {
  if (rank < 0) return "-";
  return std::to_string(rank) + (world_size > 0 ? "/" + std::to_string(world_size) : "");
}

double share_of(Seconds part, Seconds whole) { return whole > Seconds(0) ? part / whole : 0; }

std::string time_or_dash(Seconds t) { return t > Seconds(0) ? text_of(t) : "-"; }

void write_trace_lines(std::ostream& out, const Inspection& inspection) {
  std::vector<Row> rows;
  for (const InspectedFile& file : inspection.files)
    for (const InspectedTrace& t : file.traces) {
      const TraceSummary& s = t.summary;
      rows.push_back({writer_of(s), rank_text(s.rank, s.world_size), std::to_string(s.steps), time_or_dash(s.step),
                      std::to_string(s.kernels), std::to_string(s.collectives), share_text(s.unclassified_share),
                      file_of(s.source)});
    }
  write_rows(out,
             {{"written by"},
              {"rank", Align::right},
              {"steps", Align::right},
              {"step", Align::right},
              {"kernels", Align::right},
              {"coll.", Align::right},
              {"uncl.", Align::right},
              {"trace"}},
             std::move(rows));
}

Seconds summed(const Profile& profile, PassCost Layer::*pass) {
  Seconds sum;
  for (const Layer& layer : profile.layers) sum += std::max((layer.*pass).host, (layer.*pass).device);
  return sum;
}

void write_profile_lines(std::ostream& out, const Inspection& inspection) {
  std::vector<Row> rows;
  for (const InspectedFile& file : inspection.files)
    for (const Profile& p : file.profiles)
      rows.push_back({shortened(p.model, 16), std::to_string(p.layers.size()), std::to_string(p.tensors.size()),
                      text_of(p.gradient_size()), time_or_dash(summed(p, &Layer::forward)),
                      time_or_dash(summed(p, &Layer::backward)), time_or_dash(p.measured_step()), file_of(file.name)});
  write_rows(out,
             {{"model"},
              {"layers", Align::right},
              {"tensors", Align::right},
              {"size", Align::right},
              {"forward", Align::right},
              {"backward", Align::right},
              {"step", Align::right},
              {"profile"}},
             std::move(rows));
}

void write_execution_lines(std::ostream& out, const Inspection& inspection) {
  std::vector<Row> rows;
  for (const InspectedFile& file : inspection.files)
    for (const InspectedExecution& e : file.executions)
      rows.push_back({shortened(e.schema, 20), rank_text(e.rank, -1), std::to_string(e.nodes),
                      std::to_string(e.with_shapes), std::to_string(e.collectives), "none", file_of(e.source)});
  write_rows(out,
             {{"schema"},
              {"rank", Align::right},
              {"operators", Align::right},
              {"shapes", Align::right},
              {"coll.", Align::right},
              {"times", Align::right},
              {"execution trace"}},
             std::move(rows));
}

// In full.

void say(std::ostream& out, std::string_view label, std::string_view text) {
  constexpr std::size_t label_width = 14;
  write_labelled(out, label, text, label_width);
}

void write_report(std::ostream& out, const ReadReport& report) {
  for (const std::string& text : report.missing) say(out, "missing", text);
  for (const std::string& text : report.assumed) say(out, "assumed", text);
  for (const std::string& text : report.repaired) say(out, "repaired", text);
}

std::string steps_text(const TraceSummary& s) {
  if (s.steps == 0) return "none annotated";
  return std::to_string(s.steps) + " (" + s.step_annotation + ": " + std::to_string(s.first_step) + " to " +
         std::to_string(s.last_step) + ")";
}

std::string step_text(const TraceSummary& s) {
  std::string text = time_or_dash(s.step);
  text += "; annotations " + time_or_dash(s.host_step) + " (median of all)";
  if (s.device_period > Seconds(0)) text += ", device " + text_of(s.device_period) + " from kernel to kernel";
  return text;
}

void write_collectives(std::ostream& out, const TraceSummary& s) {
  if (s.collectives == 0) return say(out, "collectives", "none");
  say(out, "collectives",
      std::to_string(s.collectives) + ", " + text_of(s.collective_time) + " together" +
          (s.kernels == 0            ? ""
           : s.exposed >= Seconds(0) ? ", " + text_of(s.exposed) + " of it next to no other kernel"
                                     : ", as the host shows them: which of it is next to no kernel is not recorded"));
  for (std::size_t i = 0; i < bytes_sources; ++i) {
    if (s.collectives_by_source[i] == 0) continue;
    const auto source = static_cast<BytesSource>(i);
    say(out, "",
        std::to_string(s.collectives_by_source[i]) +
            (source == BytesSource::unknown
                 ? " of unknown size"
                 : ", " + text_of(s.bytes_by_source[i]) + " by " + std::string(words_of(source))));
  }
}

void write_dependencies(std::ostream& out, const InspectedTrace& t) {
  constexpr std::string_view names[] = {"stream waits", "host waits", "data", "control"};
  std::string text;
  for (std::size_t i = 0; i < t.dependencies.size(); ++i)
    if (t.dependencies[i] > 0) add_to_list(text, std::to_string(t.dependencies[i]) + " " + std::string(names[i]));
  if (t.forward_backward > 0) add_to_list(text, std::to_string(t.forward_backward) + " forward to backward");
  say(out, "dependencies", text.empty() ? "none recorded by id" : text);
}

void write_trace_in_full(std::ostream& out, const InspectedTrace& t) {
  const TraceSummary& s = t.summary;
  say(out, "trace", s.source);
  say(out, "format", s.format + (s.producer.empty() ? "" : ": " + s.producer));
  if (!s.device.empty()) say(out, "device", s.device);
  say(out, "rank", s.rank < 0 ? "not said" : rank_text(s.rank, s.world_size));
  say(out, "steps", steps_text(s));
  if (s.steps > 0) say(out, "step", step_text(s));
  say(out, "span", text_of(s.span));
  say(out, "events",
      std::to_string(s.events) + " on " + counted(std::int64_t(t.host_tracks), "thread") + " and " +
          counted(std::int64_t(t.device_tracks), "stream"));
  say(out, "kernels",
      std::to_string(s.kernels) + ", " + text_of(s.kernel_time) +
          (s.unclassified_kernels == 0 ? ""
                                       : "; " + std::to_string(s.unclassified_kernels) + " (" +
                                             share_text(share_of(s.unclassified_kernel_time, s.kernel_time)) +
                                             " of the time) do what their name does not say"));
  write_collectives(out, s);
  write_dependencies(out, t);
  if (t.groups > 0) say(out, "groups", counted(std::int64_t(t.groups), "process group"));
  say(out, "unclassified",
      share_text(s.unclassified_share) + " of the recorded time, " +
          counted(std::int64_t(t.report.events_unclassified), "event"));
  write_report(out, t.report);
}

void write_execution_in_full(std::ostream& out, const InspectedExecution& e) {
  say(out, "trace", e.source);
  say(out, "format",
      "execution trace, schema " + e.schema + (e.report.producer.empty() ? "" : ": ") + e.report.producer);
  say(out, "rank", e.rank < 0 ? "not said" : std::to_string(e.rank));
  say(out, "operators",
      std::to_string(e.nodes) + ", " + std::to_string(e.with_shapes) + " with shapes, " +
          std::to_string(e.collectives) + " collectives");
  if (e.groups > 0) say(out, "groups", counted(std::int64_t(e.groups), "process group"));
  say(out, "times", "none: give it together with the profiler's trace of the same run");
  write_report(out, e.report);
}

void write_profile_in_full(std::ostream& out, const std::string& file, const Profile& p) {
  say(out, "profile", file);
  say(out, "model", model_text(p));
  say(out, "gradients", gradients_text(p));
  say(out, "step", time_or_dash(p.measured_step()));
  say(out, "from", p.provenance);
  for (const std::string& text : p.missing) say(out, "missing", text);
  for (const std::string& text : p.assumed) say(out, "assumed", text);
}

void write_in_full(std::ostream& out, const Inspection& inspection) {
  bool any = false;
  const auto paragraph = [&] {
    if (any) out << '\n';
    any = true;
  };
  for (const InspectedFile& file : inspection.files) {
    for (const InspectedTrace& t : file.traces) paragraph(), write_trace_in_full(out, t);
    for (const InspectedExecution& e : file.executions) paragraph(), write_execution_in_full(out, e);
    for (const Profile& p : file.profiles) paragraph(), write_profile_in_full(out, file.name, p);
    for (const std::string& why : file.refused) paragraph(), say(out, "refused", why);
  }
}

}  // namespace

void write_inspection_text(std::ostream& out, const Inspection& inspection) {
  if (inspection.in_full) return write_in_full(out, inspection);
  write_trace_lines(out, inspection);
  write_profile_lines(out, inspection);
  write_execution_lines(out, inspection);
  for (const InspectedFile& file : inspection.files)
    for (const std::string& why : file.refused) write_labelled(out, "refused", why);
}

}  // namespace stepcast
