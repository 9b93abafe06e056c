// ByteScheduler: the timeline of its credit scheduler, as a Chrome trace in which tensors (or slices of one) are
// processes.
//
//   INITCOMMUNICATION, PULLCOMMUNICATION   the parameters are set up, once
//   PUSH_PULLQUEUE                         a gradient is ready and waits for credit
//   PUSH_PULLCOMMUNICATION                 it is pushed and the sum pulled
//   ALLREDUCEQUEUE, ALLREDUCECOMMUNICATION the same over Horovod
//
// B and E marks that both carry the name, microseconds since the start, an array that is often left open. Tensors
// larger than the partition size occur as name_0, name_1, ... Written by bytescheduler/common/profiler.py in
// bytedance/byteps.
#include <stepcast/formats/shared/chrome_events.hpp>
#include <stepcast/formats/shared/chrome_writer.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/shared/tensor_steps.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <map>

namespace stepcast::format::bytescheduler {
namespace {

constexpr std::string_view queue = "QUEUE", communication = "COMMUNICATION", allreduce = "ALLREDUCE";

bool recognises(std::string_view head) { return chrome_writer_of(head) == ChromeWriter::bytescheduler; }

class ByteSchedulerReader {
 public:
  ByteSchedulerReader(const Source& source, const ReadOptions& options)
      : source_(source), options_(options), repairs_(source, options), times_(source), draft_(source.name) {}

  Trace read() {
    const ChromeWalk walk =
        walk_chrome_trace(source_, options_, repairs_, {[this](const ChromeEvent& e) { add(e); }, {}});
    require_events(draft_, source_.name, "a ByteScheduler timeline", "no complete slice");
    steps_.add_to(draft_);
    times_.report(repairs_);
    open_.report(repairs_);
    ReadReport& report = draft_.trace().report;
    describe(report, walk, repairs_, "bytescheduler", "ByteScheduler",
             "when each tensor was ready, queued and sent; layers need a trace of the framework");
    report.missing.insert(report.missing.end(),
                          {"computation: operators and kernels", "sizes of the collectives", "rank and world size"});
    open_.report(report.missing);
    if (!walk.closed) report.assumed.push_back("the array is left open, as ByteScheduler does while it runs");
    say_left_out(report);
    return draft_.finish();
  }

 private:
  void add(const ChromeEvent& event) {
    const std::string_view raw = content_of(event.name);
    std::int64_t id = -1, time = 0;
    if (!read_id(event.process, id)) id = -1;
    if (event.kind() == 'M') {
      if (raw == "process_name") tensor(id) = draft_.json_text(content_of_member(event.arguments, "name"));
      return;
    }
    if ((event.kind() != 'B' && event.kind() != 'E') || !times_.start(event, time)) return;
    const StringId name = draft_.json_text(raw);
    const auto track = static_cast<std::uint64_t>(id);
    if (event.kind() == 'B') {
      open_.begin(track, name, time);
      return;
    }
    OpenSlices::Slice slice;
    if (open_.end(track, name, time, slice)) keep(slice, time, id, raw);
  }

  StringId& tensor(std::int64_t id) {
    const auto [found, is_new] = tensors_.try_emplace(id, StringId{0});
    if (is_new) found->second = draft_.text("tensor " + std::to_string(id));
    return found->second;
  }

  void keep(const OpenSlices::Slice& slice, std::int64_t end, std::int64_t id, std::string_view raw) {
    if (draft_.size() >= most_timeline_events) {
      ++draft_.trace().report.events_left_out;
      return;
    }
    const StringId name = tensor(id);
    Event out;
    out.start_ns = slice.start_ns;
    out.duration_ns = end - slice.start_ns;
    out.name = slice.name;
    out.track = draft_.track(id, 0, false);
    draft_.trace().tracks[out.track].label = name;
    out.kind = raw.ends_with(queue) ? EventKind::annotation : EventKind::host_op;
    if (raw.ends_with(communication) && !raw.starts_with("INIT")) {
      CollectiveArguments arguments;
      arguments.name = raw.starts_with("PUSH_PULL") ? draft_.text("push_pull")
                       : raw.starts_with("PUSH")    ? draft_.text("push")
                       : raw.starts_with("PULL")    ? draft_.text("pull")
                       : raw.starts_with(allreduce) ? draft_.text("allreduce")
                                                    : draft_.json_text(raw);
      out.collective = static_cast<std::uint32_t>(draft_.trace().collectives.size());
      draft_.trace().collectives.push_back(arguments);
    }
    // A gradient is ready when it enters the queue; without credit there is no queue.
    if ((raw.starts_with("PUSH") || raw.starts_with(allreduce)) && (raw.ends_with(queue) || !queued_))
      steps_.communicated(name, slice.start_ns);
    queued_ |= raw.ends_with(queue);
    draft_.add(out);
  }

  const Source& source_;
  const ReadOptions& options_;
  Repairs repairs_;
  ChromeTimes times_;
  TraceDraft draft_;
  OpenSlices open_;
  TensorSteps steps_;
  std::map<std::int64_t, StringId> tensors_;
  bool queued_ = false;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.traces.push_back(ByteSchedulerReader(source, options).read());
  return reading;
}

}  // namespace

Format record() {
  return {"bytescheduler", "ByteScheduler timeline of tensors in its queue and on the wire",
          "bytescheduler/common/profiler.py in bytedance/byteps", recognises, read};
}

}  // namespace stepcast::format::bytescheduler
