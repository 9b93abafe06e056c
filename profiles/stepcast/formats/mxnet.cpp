// MXNet: the Chrome trace of its built-in profiler (mx.profiler, MXNET_PROFILER_AUTOSTART).
//
// B and E marks; a device is a process ("cpu/0", "gpu/1", "cpu pinned/", "cpu shared/"), and what belongs to no device
// is in a process whose id is the hash of its category. Thread ids are hashes of 64 bits: read as doubles they would
// merge threads. Microseconds. The file is an object that is closed by the final dump only. On a gpu/N process a slice
// is the execution of an operator by an engine worker, kernels and waiting for them together. Tasks (b and e) and
// frames ("(" and ")") are the user's own, but every operator is written a second time, as a task. Written by
// src/profiler/profiler.{h,cc} in apache/mxnet.
#include <stepcast/base/decimal.hpp>
#include <stepcast/formats/shared/chrome_events.hpp>
#include <stepcast/formats/shared/chrome_writer.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/shared/tensor_steps.hpp>
#include <stepcast/trace/steps.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <compare>
#include <map>

namespace stepcast::format::mxnet {
namespace {

bool recognises(std::string_view head) { return chrome_writer_of(head) == ChromeWriter::mxnet; }

class MxnetReader {
 public:
  MxnetReader(const Source& source, const ReadOptions& options)
      : source_(source), options_(options), repairs_(source, options), times_(source), draft_(source.name) {}

  Trace read() {
    const ChromeWalk walk =
        walk_chrome_trace(source_, options_, repairs_, {[this](const ChromeEvent& e) { add(e); }, {}});
    require_events(draft_, source_.name, "an MXNet profile with operators", "no complete slice");
    place_events();
    times_.report(repairs_);
    open_.report(repairs_);
    ReadReport& report = draft_.trace().report;
    describe(report, walk, repairs_, "mxnet", "MXNet profiler",
             "which operators ran when on which device; its slices say nothing of layers or gradients");
    report.missing.insert(report.missing.end(), {"launches and their kernels: a slice on a GPU is an operator",
                                                 "shapes", "sizes of the collectives", "rank and world size"});
    open_.report(report.missing);
    if (!walk.closed)
      report.assumed.push_back("the file is left open, as MXNet leaves it until the final dump (profiler.dump())");
    say_left_out(report);
    Trace trace = draft_.finish();
    if (steps_of(trace).empty()) trace.report.missing.insert(trace.report.missing.begin(), "step annotations");
    return trace;
  }

 private:
  struct ThreadOf {
    std::int64_t process, thread;
    bool tasks;
    auto operator<=>(const ThreadOf&) const = default;
  };

  // What the user marked; operators of the engine are there as slices already.
  static bool is_task(const ChromeEvent& event) {
    if (std::string_view("be()").find(event.kind()) == std::string_view::npos) return false;
    const std::string_view category = content_of(event.category);
    return category != "operator" && category != "Custom Operator";
  }

  void add(const ChromeEvent& event) {
    const std::string_view raw = content_of(event.name);
    std::int64_t process = -1, thread = -1, time = 0;
    if (!read_id(event.process, process)) process = -1;
    if (event.kind() == 'M') {
      if (raw == "process_name") names_[process] = draft_.json_text(content_of_member(event.arguments, "name"));
      return;
    }
    const bool task = is_task(event);
    char kind = event.kind();
    if (task) kind = kind == 'b' || kind == '(' ? 'B' : 'E';
    if ((kind != 'B' && kind != 'E' && kind != 'X') || !times_.start(event, time)) return;
    if (!read_id(event.thread, thread)) thread = -1;
    const StringId name = draft_.json_text(raw);
    const auto [known, is_new] =
        threads_.try_emplace({process, thread, task}, static_cast<std::uint64_t>(threads_.size()));
    if (kind == 'B') {
      open_.begin(known->second, name, time);
      return;
    }
    OpenSlices::Slice slice{time, name};
    std::int64_t duration = 0;
    if (kind == 'X' ? !times_.duration(event, duration) : !open_.end(known->second, name, time, slice)) return;
    if (draft_.size() >= most_timeline_events) {
      ++draft_.trace().report.events_left_out;
      return;
    }
    Event out;
    out.start_ns = slice.start_ns;
    out.duration_ns = kind == 'X' ? duration : time - slice.start_ns;
    out.name = name;
    out.kind = task ? EventKind::annotation : EventKind::host_op;
    out.track = draft_.track(process, thread, false, task ? "tasks" : "");
    draft_.add(out);
  }

  // Names of processes may come after their slices: host or device is decided when all are known.
  void place_events() {
    Trace& trace = draft_.trace();
    for (Track& track : trace.tracks) {
      const auto name = names_.find(track.process);
      if (name == names_.end()) continue;
      const std::string text = draft_.text_of(name->second);
      track.label = name->second;
      std::int64_t gpu = 0;
      if (!text.starts_with("gpu/") || read_integer(std::string_view(text).substr(4), gpu) != Parsed::fine) continue;
      track.on_device = true;
      track.process = gpu;
      track.label = 0;
    }
    for (Event& event : trace.events) {
      if (trace.tracks[event.track].on_device) event.kind = EventKind::kernel;
      add_collective(event);
    }
  }

  // The key-value store: "KVStorePush", "KVStoreDistDefaultPull", "KVStoreReduce", ... The call of the interface that
  // asked for it ("MXKVStorePushEx") returns at once.
  void add_collective(Event& event) {
    const std::string& name = draft_.text_of(event.name);
    const std::size_t at = name.find("KVStore");
    if (at == std::string::npos || name.starts_with("MX") || event.kind == EventKind::annotation) return;
    std::string_view operation;
    for (const std::string_view known : {"Push", "Pull", "Reduce", "Broadcast"})
      if (name.find(known, at) != std::string::npos) operation = known;
    if (operation.empty()) return;
    CollectiveArguments arguments;
    arguments.name = draft_.text(operation == "Push"     ? "push"
                                 : operation == "Pull"   ? "pull"
                                 : operation == "Reduce" ? "reduce"
                                                         : "broadcast");
    event.collective = static_cast<std::uint32_t>(draft_.trace().collectives.size());
    draft_.trace().collectives.push_back(arguments);
  }

  const Source& source_;
  const ReadOptions& options_;
  Repairs repairs_;
  ChromeTimes times_;
  TraceDraft draft_;
  OpenSlices open_;
  std::map<std::int64_t, StringId> names_;
  std::map<ThreadOf, std::uint64_t> threads_;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.traces.push_back(MxnetReader(source, options).read());
  return reading;
}

}  // namespace

Format record() {
  return {"mxnet", "MXNet profiler (profile.json), finished or not", "src/profiler/profiler.cc in apache/mxnet",
          recognises, read};
}

}  // namespace stepcast::format::mxnet
