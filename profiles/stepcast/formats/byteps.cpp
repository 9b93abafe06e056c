// BytePS: the communication trace of one GPU (traces/<local rank>/comm.json).
//
//   {"ph": "X", "pid": "Comm.byteps.gradient_0", "tid": "total", "name": "Comm.byteps.gradient_0", "ts": .., "dur": ..}
//   {"ph": "X", "pid": "Comm.byteps.gradient_0", "tid": "26148864", "name": "Comm.byteps.gradient_0.PUSH", ...}
//
// A tensor is cut into partitions (numeric tid), each of which passes the stages REDUCE, COPYD2H, PUSH, PULL, COPYH2D,
// BROADCAST and the COORDINATE_ stages before some. The row "total" spans all of them with the queueing between: it is
// an annotation here, and only partitions count as work. PUSH and PULL appear at one GPU of a machine only. Absolute
// microseconds. Described in docs/timeline.md of bytedance/byteps; written by byteps/common/global.cc.
#include <stepcast/formats/shared/chrome_events.hpp>
#include <stepcast/formats/shared/chrome_writer.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/shared/tensor_steps.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <map>

namespace stepcast::format::byteps {
namespace {

bool recognises(std::string_view head) { return chrome_writer_of(head) == ChromeWriter::byteps; }

struct Stage {
  std::string_view name;
  EventKind kind;
  std::string_view operation;  ///< what it is between devices or machines; empty: work within the device
};
// byteps/common/common.h, QueueType.
constexpr Stage stages[] = {
    {"COORDINATE_REDUCE", EventKind::annotation, ""},
    {"REDUCE", EventKind::host_op, "reducescatter"},
    {"COPYD2H", EventKind::host_op, ""},
    {"PCIE_REDUCE", EventKind::host_op, "reduce"},
    {"COORDINATE_PUSH", EventKind::annotation, ""},
    {"COMPRESS", EventKind::host_op, ""},
    {"PUSH", EventKind::host_op, "push"},
    {"PULL", EventKind::host_op, "pull"},
    {"DECOMPRESS", EventKind::host_op, ""},
    {"COPYH2D", EventKind::host_op, ""},
    {"COORDINATE_BROADCAST", EventKind::annotation, ""},
    {"BROADCAST", EventKind::host_op, "allgather"},
};

class BytePsReader {
 public:
  BytePsReader(const Source& source, const ReadOptions& options)
      : source_(source), options_(options), repairs_(source, options), times_(source), draft_(source.name) {}

  Trace read() {
    const ChromeWalk walk =
        walk_chrome_trace(source_, options_, repairs_, {[this](const ChromeEvent& e) { add(e); }, {}});
    require_events(draft_, source_.name, "a BytePS communication trace", "no row of a tensor");
    if (!walk.closed) repairs_.say("truncated tail: closing bracket missing");
    times_.report(repairs_);
    repairs_.count(negative_, "row dropped", "rows dropped", "negative duration");
    steps_.add_to(draft_);
    ReadReport& report = draft_.trace().report;
    describe(report, walk, repairs_, "byteps", "BytePS",
             "when each gradient was synchronised and by which stages; layers need a trace of the framework");
    report.missing.insert(report.missing.end(),
                          {"computation: operators and kernels", "sizes of the partitions", "rank and world size"});
    if (!pushed_) report.missing.push_back("PUSH and PULL, which another GPU of the machine has recorded");
    if (totals_ > 0)
      report.assumed.push_back(std::to_string(totals_) +
                               " rows \"total\" span queueing and partitions and are not counted as work");
    if (unknown_ > 0) {
      report.events_unclassified = unknown_;
      report.unclassified_ns = unknown_ns_;
    }
    return draft_.finish();
  }

 private:
  void add(const ChromeEvent& event) {
    if (event.kind() != 'X') return;
    Event out;
    if (!times_.start(event, out.start_ns) || !times_.duration(event, out.duration_ns)) return;
    if (out.duration_ns < 0) {
      ++negative_;
      return;
    }
    if (draft_.size() >= most_timeline_events) {
      ++draft_.trace().report.events_left_out;
      return;
    }
    const std::string_view tensor = content_of(event.process), name = content_of(event.name);
    const StringId label = draft_.json_text(tensor);
    const auto [row, is_new] = rows_.try_emplace(label, static_cast<std::int64_t>(rows_.size()));
    std::int64_t partition = -1;
    const bool total = !read_id(event.thread, partition);
    out.track = draft_.track(row->second, total ? -1 : partition, false, draft_.text_of(label));
    out.name = draft_.json_text(name);
    out.kind = EventKind::annotation;
    if (total) {
      ++totals_;
      steps_.communicated(label, out.start_ns);
    } else {
      classify(name.starts_with(tensor) ? name.substr(tensor.size()) : name, partition, out);
    }
    draft_.add(out);
  }

  void classify(std::string_view suffix, std::int64_t partition, Event& out) {
    if (suffix.starts_with(".")) suffix.remove_prefix(1);
    for (const Stage& stage : stages) {
      if (stage.name != suffix) continue;
      out.kind = stage.kind;
      pushed_ |= suffix == "PUSH";
      if (stage.operation.empty()) return;
      CollectiveArguments arguments;
      arguments.name = draft_.text(stage.operation);
      arguments.sequence = partition;
      out.collective = static_cast<std::uint32_t>(draft_.trace().collectives.size());
      draft_.trace().collectives.push_back(arguments);
      return;
    }
    out.kind = EventKind::other;
    ++unknown_;
    unknown_ns_ += out.duration_ns;
  }

  const Source& source_;
  const ReadOptions& options_;
  Repairs repairs_;
  ChromeTimes times_;
  TraceDraft draft_;
  TensorSteps steps_;
  std::map<StringId, std::int64_t> rows_;
  bool pushed_ = false;
  std::uint64_t totals_ = 0, unknown_ = 0, negative_ = 0;
  std::int64_t unknown_ns_ = 0;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.traces.push_back(BytePsReader(source, options).read());
  return reading;
}

}  // namespace

Format record() {
  return {"byteps", "BytePS communication trace of one GPU (comm.json)",
          "docs/timeline.md and byteps/common/global.cc in bytedance/byteps", recognises, read};
}

}  // namespace stepcast::format::byteps
