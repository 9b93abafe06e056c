// Composer: the training loop's own trace (JSONTraceHandler of MosaicML Composer), in host phases.
//
// B and E marks of one thread with their names: "event/batch" is a step and holds "event/forward", "event/loss",
// "event/backward"; "dataloader/train" waits for data; "callback/..." are what users hook in. Microseconds since the
// epoch; the array is closed at the end of the run only. Phases hold no operators: such a trace says how long a step
// and its parts take on the host, no more. A merged trace holds the ranks of a machine as processes, on one clock.
// Written by composer/profiler/json_trace_handler.py and json_trace_merger.py in mosaicml/composer.
#include <stepcast/base/error.hpp>
#include <stepcast/formats/shared/chrome_events.hpp>
#include <stepcast/formats/shared/chrome_writer.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/shared/tensor_steps.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <map>

namespace stepcast::format::composer {
namespace {

bool recognises(std::string_view head) { return chrome_writer_of(head) == ChromeWriter::composer; }

class ComposerReader {
 public:
  ComposerReader(const Source& source, const ReadOptions& options)
      : source_(source), options_(options), repairs_(source, options), times_(source) {}

  std::vector<Trace> read() {
    const ChromeWalk walk =
        walk_chrome_trace(source_, options_, repairs_, {[this](const ChromeEvent& e) { add(e); }, {}});
    times_.report(repairs_);
    std::size_t ranks = 0;
    for (auto& [process, rank] : ranks_) {
      rank.open.report(repairs_);
      ranks += rank.draft.size() > 0;
    }
    if (ranks == 0) throw InputError(source_.name, "a Composer trace with phases of training", "no complete phase");
    ReadReport common;
    describe(common, walk, repairs_, "composer", "Composer (MosaicML)",
             "how long steps and their phases take; for layers record with Composer's TorchProfiler");
    common.missing = {"operators and kernels", "collectives"};
    if (!walk.closed) common.assumed.push_back("the array is left open, as Composer does while it runs");
    if (foreign_ > 0)
      common.assumed.push_back(std::to_string(foreign_) +
                               " events that another profiler has added are left out: its own file has the operators");
    std::vector<Trace> traces;
    for (auto& [process, rank] : ranks_)
      if (rank.draft.size() > 0) traces.push_back(finished(rank, common, ranks > 1 ? process : -1));
    return traces;
  }

 private:
  struct Rank {
    explicit Rank(std::string_view source) : draft(source) {}
    TraceDraft draft;
    OpenSlices open;
    std::int64_t steps = 0;
  };

  static Trace finished(Rank& rank, ReadReport report, std::int64_t process) {
    Trace& trace = rank.draft.trace();
    if (trace.rank < 0) trace.rank = process;
    report.events_left_out = trace.report.events_left_out;
    if (rank.steps == 0) report.missing.push_back("steps (event/batch)");
    rank.open.report(report.missing);
    say_left_out(report);
    trace.report = std::move(report);
    return rank.draft.finish();
  }

  void add(const ChromeEvent& event) {
    const std::string_view name = content_of(event.name);
    std::int64_t process = -1, thread = -1, time = 0;
    if (!read_id(event.process, process)) process = -1;
    Rank& rank = ranks_.try_emplace(process, source_.name).first->second;
    if (ranks_.size() > most_ranks)
      throw InputError(source_.name, "at most 4096 ranks of a Composer trace", "more processes");
    if (event.kind() == 'M') {
      if (name == "global_rank") rank.draft.trace().rank = integer_member(event.arguments, "value");
      return;
    }
    foreign_ += event.kind() == 'X';
    if ((event.kind() != 'B' && event.kind() != 'E') || !times_.start(event, time)) return;
    if (!read_id(event.thread, thread)) thread = -1;
    const std::uint32_t track = rank.draft.track(process, thread, false);
    const StringId id = rank.draft.json_text(name);
    if (event.kind() == 'B') {
      rank.open.begin(track, id, time);
      return;
    }
    OpenSlices::Slice slice;
    if (!rank.open.end(track, id, time, slice)) return;
    if (kept_ >= most_timeline_events) {
      ++rank.draft.trace().report.events_left_out;
      return;
    }
    ++kept_;
    if (name == "event/batch") {
      add_step(rank.draft, rank.steps++, slice.start_ns, time);
      return;
    }
    Event out;
    out.start_ns = slice.start_ns;
    out.duration_ns = time - slice.start_ns;
    out.name = id;
    out.track = track;
    // "event/epoch", "event/train_batch", ... enclose; the phases inside and the callbacks are what takes time.
    const bool phase = name == "event/forward" || name == "event/loss" || name == "event/backward" ||
                       name == "event/eval_forward" || name.starts_with("dataloader/") || name.starts_with("callback/");
    out.kind = phase ? EventKind::host_op : EventKind::annotation;
    rank.draft.add(out);
  }

  static constexpr std::size_t most_ranks = 4096;
  const Source& source_;
  const ReadOptions& options_;
  Repairs repairs_;
  ChromeTimes times_;
  std::map<std::int64_t, Rank> ranks_;  ///< by process
  std::size_t kept_ = 0;
  std::uint64_t foreign_ = 0;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.traces = ComposerReader(source, options).read();
  return reading;
}

}  // namespace

Format record() {
  return {"composer", "MosaicML Composer's training loop (JSONTraceHandler)",
          "composer/profiler/json_trace_handler.py in mosaicml/composer", recognises, read};
}

}  // namespace stepcast::format::composer
