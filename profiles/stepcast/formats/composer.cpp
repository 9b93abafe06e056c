// Composer: the training loop's own trace (JSONTraceHandler of MosaicML Composer), in host phases.
//
// B and E marks of one thread with their names: "event/batch" is a step and holds "event/forward", "event/loss",
// "event/backward"; "dataloader/train" waits for data; "callback/..." are what users hook in. Microseconds since the
// epoch; the array is closed at the end of the run only. Phases hold no operators: such a trace says how long a step
// and its parts take on the host, no more. Written by composer/profiler/json_trace_handler.py in mosaicml/composer.
#include <stepcast/formats/parts/chrome_events.hpp>
#include <stepcast/formats/parts/chrome_writer.hpp>
#include <stepcast/formats/parts/tensor_steps.hpp>
#include <stepcast/trace_draft.hpp>

#include <map>

namespace stepcast {
namespace {

bool recognises(std::string_view head) { return chrome_writer_of(head) == ChromeWriter::composer; }

class ComposerReader {
 public:
  ComposerReader(const Source& source, const ReadOptions& options)
      : source_(source), options_(options), repairs_(source, options), times_(source), draft_(source.name) {}

  Trace read() {
    const ChromeWalk walk =
        walk_chrome_trace(source_, options_, repairs_, {[this](const ChromeEvent& e) { add(e); }, {}});
    require_events(draft_, source_.name, "a Composer trace with phases of training", "no complete phase");
    times_.report(repairs_);
    open_.report(repairs_);
    ReadReport& report = draft_.trace().report;
    describe(report, walk, repairs_, "composer", "Composer (MosaicML)",
             "how long steps and their phases take; for layers record with Composer's TorchProfiler");
    report.missing.insert(report.missing.end(), {"operators and kernels", "collectives"});
    if (steps_ == 0) report.missing.push_back("steps (event/batch)");
    open_.report(report.missing);
    if (!walk.closed) report.assumed.push_back("the array is left open, as Composer does while it runs");
    say_left_out(report);
    return draft_.finish();
  }

 private:
  void add(const ChromeEvent& event) {
    const std::string_view name = content_of(event.name);
    if (event.kind() == 'M') {
      if (name == "global_rank") draft_.trace().rank = integer_member(event.arguments, "value");
      return;
    }
    std::int64_t process = -1, thread = -1, time = 0;
    if ((event.kind() != 'B' && event.kind() != 'E') || !times_.start(event, time)) return;
    if (!read_id(event.process, process)) process = -1;
    if (!read_id(event.thread, thread)) thread = -1;
    const std::uint32_t track = draft_.track(process, thread, false);
    const StringId id = draft_.json_text(name);
    if (event.kind() == 'B') {
      open_.begin(track, id, time);
      return;
    }
    OpenSlices::Slice slice;
    if (!open_.end(track, id, time, slice)) return;
    if (draft_.size() >= most_timeline_events) {
      ++draft_.trace().report.events_left_out;
      return;
    }
    if (name == "event/batch") {
      add_step(draft_, steps_++, slice.start_ns, time);
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
    draft_.add(out);
  }

  const Source& source_;
  const ReadOptions& options_;
  Repairs repairs_;
  ChromeTimes times_;
  TraceDraft draft_;
  OpenSlices open_;
  std::int64_t steps_ = 0;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.traces.push_back(ComposerReader(source, options).read());
  return reading;
}

}  // namespace

Format composer() {
  return {"composer", "MosaicML Composer's training loop (JSONTraceHandler)",
          "composer/profiler/json_trace_handler.py in mosaicml/composer", recognises, read};
}

}  // namespace stepcast
