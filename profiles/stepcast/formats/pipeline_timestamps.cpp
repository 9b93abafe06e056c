// Pipeline timestamps: when each micro-batch was computed on one stage of a pipeline, iteration by iteration.
//
//   {"2": {"total": 3193.6, "memory": 102.3, "fwd_start": [0.04, 63.3, ...], "fwd_end": [62.5, ...],
//          "bwd_start": [...], "bwd_end": [...]}, "3": ...}
//
// Lists "fwd_minibatch" and "fwd_chunk", which some schedules fill, say which pass is whose; "wgrad" is a third pass.
// Milliseconds from the start of the iteration; one file a stage, which only the file's name tells. Forward and
// backward passes become kernels on one stream, iterations follow each other by their totals. Written by the pipeline
// visualisation of AMD-AGI/Primus (tools/visualization/pp_vis) for Megatron.
#include <stepcast/base/decimal.hpp>
#include <stepcast/base/error.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/encodings/json_text.hpp>
#include <stepcast/formats/shared/chrome_events.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/shared/tensor_steps.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

namespace stepcast::format::pipeline_timestamps {
namespace {

using Json = nlohmann::json;

bool recognises(std::string_view head) {
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  const auto holds = [head](std::string_view text) { return head.find(text) != std::string_view::npos; };
  return first != std::string_view::npos && head[first] == '{' && holds("\"fwd_start\"") && holds("\"fwd_end\"") &&
         !holds("\"traceEvents\"") && !holds("\"rocprofiler-sdk-tool\"");
}

// "pp_rank_3.json" -> 3; -1 when the name does not say.
std::int64_t stage_in(std::string_view name) {
  for (const std::string_view mark : {"pp_rank_", "pp_rank", "stage_", "stage"}) {
    const std::size_t at = name.rfind(mark);
    if (at == std::string_view::npos) continue;
    std::string_view digits = name.substr(at + mark.size());
    digits = digits.substr(0, std::min(digits.find_first_not_of("0123456789"), digits.size()));
    std::int64_t value = -1;
    if (!digits.empty() && digits.size() < 7 && read_integer(digits, value) == Parsed::fine) return value;
  }
  return -1;
}

// Milliseconds to nanoseconds; nothing for what is no time of a training step.
std::optional<std::int64_t> time_of(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  const double ns = value.get<double>() * 1e6;
  constexpr double longest = 1e16;  // four months
  if (!(ns >= 0) || ns > longest) return std::nullopt;
  return std::llround(ns);
}

struct Pass {
  std::int64_t start_ns, duration_ns;
  std::int32_t micro_batch, chunk;
  std::string type;
};
struct Iteration {
  std::int64_t total_ns = 0;
  std::vector<Pass> passes;
};

class PipelineReader {
 public:
  PipelineReader(const Source& source, const ReadOptions& options)
      : source_(source), options_(options), repairs_(source, options), plain_(source.bytes), text_(plain_) {}

  Trace read() {
    (void)text_.take('{');
    while (!text_.take('}')) {
      if (text_.take(',')) continue;
      std::string key, value;
      if (text_.peek() != '"' || !text_.value(&key, longest_value) || !text_.take(':') ||
          !text_.value(&value, longest_value)) {
        if (text_.peek() != '\0')
          throw InputError(source_.name + "@" + std::to_string(text_.offset()), "the number of an iteration",
                           "something else", "the file is not JSON from here on");
        repairs_.say("truncated tail: the text ends inside iteration " + (key.empty() ? "?" : key));
        break;
      }
      add(key.substr(1, key.size() - 2), Json::parse(value, nullptr, false));
      if (options_.progress) options_.progress(plain_.share_read());
    }
    if (!plain_.damage().empty()) repairs_.say("truncated: " + plain_.damage());
    if (iterations_.empty())
      throw InputError(source_.name, "iterations with fwd_start and fwd_end", "none that is complete");
    return trace();
  }

 private:
  void add(const std::string& key, const Json& iteration) {
    std::int64_t number = -1;
    const bool readable = iteration.is_object() && read_integer(key, number) == Parsed::fine && number >= 0 &&
                          number < (std::int64_t{1} << 31);
    const auto total = readable && iteration.contains("total") ? time_of(iteration["total"]) : std::nullopt;
    if (!total) {
      repairs_.say("iteration " + key.substr(0, 20) + " dropped: no number, no total or not JSON");
      return;
    }
    simulated_ |= iteration.contains("activation_memory_usage");
    Iteration& out = iterations_[number];
    out.total_ns = *total;
    out.passes.clear();
    for (const auto& [name, starts] : iteration.items()) {
      constexpr std::string_view suffix = "_start";
      if (!name.ends_with(suffix)) continue;
      const std::string pass = name.substr(0, name.size() - suffix.size());
      const auto ends = iteration.find(pass + "_end");
      const auto list = [&, &all = iteration](const char* what) {
        const auto found = all.find(pass + what);
        return found == all.end() ? Json() : *found;
      };
      add_passes(pass, starts, ends == iteration.end() ? Json() : *ends, list("_minibatch"), list("_chunk"), out);
    }
    count_combined(out);
  }

  // Forward and backward of a pass that interleaves both (for the communication of experts) are written with one time.
  void count_combined(const Iteration& iteration) {
    std::set<std::pair<std::int64_t, std::int64_t>> forwards;
    for (const Pass& pass : iteration.passes)
      if (pass.type == "forward-compute" && pass.duration_ns > 0) forwards.emplace(pass.start_ns, pass.duration_ns);
    for (const Pass& pass : iteration.passes)
      combined_ += pass.type == "backward-compute" && forwards.contains({pass.start_ns, pass.duration_ns});
  }

  // The number of a micro-batch or chunk, where the list has one for every pass.
  static std::int32_t number_in(const Json& list, std::size_t i, std::size_t count, std::int32_t otherwise) {
    if (!list.is_array() || list.size() != count || !list[i].is_number_integer()) return otherwise;
    const auto value = list[i].get<std::int64_t>();
    return value >= 0 && value < (std::int64_t{1} << 20) ? static_cast<std::int32_t>(value) : otherwise;
  }

  void add_passes(const std::string& pass, const Json& starts, const Json& ends, const Json& micro_batches,
                  const Json& chunks, Iteration& out) {
    if (!starts.is_array() || !ends.is_array()) {
      ++unreadable_;
      return;
    }
    const std::size_t count = std::min(starts.size(), ends.size());
    unreadable_ += std::max(starts.size(), ends.size()) - count;
    unnumbered_ |= count > 0 && (!micro_batches.is_array() || micro_batches.size() != count);
    const std::string type = pass == "fwd" ? "forward-compute" : pass == "bwd" ? "backward-compute" : pass + "-compute";
    for (std::size_t i = 0; i < count; ++i) {
      const auto start = time_of(starts[i]), end = time_of(ends[i]);
      if (!start || !end || *end < *start) {
        ++unreadable_;
        continue;
      }
      out.passes.push_back({*start, *end - *start, number_in(micro_batches, i, count, static_cast<std::int32_t>(i)),
                            number_in(chunks, i, count, -1), type});
    }
  }

  Trace trace() {
    const std::int64_t stage = stage_in(source_.name);
    TraceDraft draft(source_.name);
    std::int64_t now = 0;
    std::uint64_t passes = 0, late = 0;
    for (const auto& [number, iteration] : iterations_) {
      for (const Pass& pass : iteration.passes) {
        Event event;
        event.kind = EventKind::kernel;
        event.name = draft.text(pass.type);
        event.start_ns = now + pass.start_ns;
        event.duration_ns = pass.duration_ns;
        event.track = draft.track(0, 0, true, "compute");
        late += pass.start_ns + pass.duration_ns > iteration.total_ns;
        ++passes;
        draft.trace().operations.push_back({draft.add(event), static_cast<std::int32_t>(number), pass.micro_batch,
                                            pass.chunk, static_cast<std::int32_t>(stage), -1, -1});
      }
      add_step(draft, number, now, now + iteration.total_ns);
      now += iteration.total_ns;
      if (now > std::int64_t{1} << 61)
        throw InputError(source_.name, "iterations of a run", "iterations that take centuries together");
    }
    repairs_.count(unreadable_, "pass dropped", "passes dropped", "a start without an end, or no time");
    repairs_.count(late, "pass ends", "passes end", "after the iteration that it belongs to");
    if (passes == 0) throw InputError(source_.name, "forward and backward passes with start and end", "none");
    Trace& trace = draft.trace();
    trace.rank = stage;
    ReadReport& report = trace.report;
    report.repaired = repairs_.take();
    report.format = "pipeline-timestamps";
    report.good_for = "the schedule and the bubble of a pipeline; layers need a trace of the framework";
    report.producer = "pipeline timestamps of Megatron (Primus)";
    report.bytes = text_.offset();
    report.events_seen = passes;
    report.missing = {"kernels and operators", "communication between stages", "optimizer", "world size"};
    if (stage < 0) report.missing.push_back("the stage (the file's name says none: pp_rank_N)");
    else report.assumed.push_back("stage " + std::to_string(stage) + ", from the file's name; it stands for the rank");
    report.assumed.push_back("times are milliseconds; iterations follow each other without a gap");
    if (stage != 0)
      report.assumed.push_back(
          "an iteration is over when this stage is; the first stage, which ends last, tells its time");
    if (unnumbered_) report.assumed.push_back("the passes of an iteration are listed in order of micro-batches");
    if (simulated_) report.assumed.push_back("the file looks like the result of Primus' simulator: nobody measured it");
    if (combined_ > 0)
      report.assumed.push_back(
          std::to_string(combined_) +
          " forward and backward passes were run as one, and both carry the time of the two: their "
          "work is counted twice");
    return draft.finish();
  }

  static constexpr std::size_t longest_value = 1u << 26;
  const Source& source_;
  const ReadOptions& options_;
  Repairs repairs_;
  PlainText plain_;
  JsonText text_;
  std::map<std::int64_t, Iteration> iterations_;
  std::uint64_t unreadable_ = 0, combined_ = 0;
  bool unnumbered_ = false, simulated_ = false;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.traces.push_back(PipelineReader(source, options).read());
  return reading;
}

}  // namespace

Format record() {
  return {"pipeline-timestamps", "start and end of each micro-batch on one pipeline stage (fwd_start, bwd_end, ...)",
          "AMD-AGI/Primus, tools/visualization/pp_vis", recognises, read};
}

}  // namespace stepcast::format::pipeline_timestamps
