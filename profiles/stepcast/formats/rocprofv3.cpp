// rocprofv3: the JSON of ROCm's third profiler (rocprofv3 --output-format json).
//
//   {"rocprofiler-sdk-tool": [{"metadata": {...}, "agents": [...], "strings": {"buffer_records": [{"kind": ...,
//     "operations": [...]}, ...], "marker_api": [{"key": correlation, "value": text}, ...]}, "kernel_symbols":
//     [{"kernel_id": 8, "formatted_kernel_name": ...}, ...], "buffer_records": {"kernel_dispatch": [{"start_timestamp":
//     ns, "end_timestamp": ns, "correlation_id":
//     {"internal": 1},
//       "dispatch_info": {"agent_id": {"handle": ..}, "kernel_id": 8, ...}, "stream_id": {"handle": 0}}, ...],
//       "memory_copy": [...], "hip_api": [...], "rccl_api": [...], "marker_api": [...]}}]}
//
// One entry of the outer list is a process; its records are read one by one, in bounded memory. Nanoseconds. Written by
// source/lib/output/generateJSON.cpp of ROCm/rocprofiler-sdk.
#include <stepcast/base/decimal.hpp>
#include <stepcast/base/error.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/encodings/json_text.hpp>
#include <stepcast/formats/shared/chrome_events.hpp>
#include <stepcast/formats/shared/chrome_writer.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/shared/tensor_steps.hpp>
#include <stepcast/trace/steps.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <nlohmann/json.hpp>

#include <map>
#include <optional>

namespace stepcast::format::rocprofv3 {
namespace {

using Json = nlohmann::json;

bool recognises(std::string_view head) {
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && head[first] == '{' &&
         head.substr(first).find("\"rocprofiler-sdk-tool\"") < 64 && chrome_writer_of(head) == ChromeWriter::none;
}

std::int64_t integer_in(std::string_view object, std::string_view outer, std::string_view inner) {
  return integer_member(member_of(object, outer), inner);
}

class Rocprofv3Reader {
 public:
  Rocprofv3Reader(const Source& source, const ReadOptions& options)
      : source_(source), options_(options), repairs_(source, options), plain_(source.bytes), text_(plain_) {}

  std::vector<Trace> read() {
    members([this](const std::string& key) {
      if (key != "rocprofiler-sdk-tool") return skip();
      elements([this] {
        draft_.emplace(source_.name);
        kernels_.clear();
        agents_.clear();
        markers_.clear();
        operations_ = Json();
        members([this](const std::string& inner) { read_part(inner); });
        finish();
      });
    });
    if (traces_.empty())
      throw InputError(source_.name, "kernels, copies or HIP calls", "a rocprofv3 file without records",
                       "trace with --kernel-trace --hip-runtime-trace --memory-copy-trace");
    return std::move(traces_);
  }

 private:
  // The members of the object at the cursor; `read` is called at each value and leaves it behind.
  template <class Read>
  void members(Read read) {
    if (!text_.take('{')) return skip();
    while (!cut_ && !text_.take('}')) {
      if (text_.take(',')) continue;
      std::string key;
      if (text_.peek() != '"' || !text_.value(&key, longest_value) || !text_.take(':')) return end_early();
      read(key.substr(1, key.size() - 2));
    }
  }
  template <class Read>
  void elements(Read read) {
    if (!text_.take('[')) return skip();
    while (!cut_ && !text_.take(']')) {
      if (text_.take(',')) continue;
      if (text_.peek() == '\0') return end_early();
      const std::uint64_t before = text_.offset();
      read();
      if (text_.offset() == before) return end_early();
      if (options_.progress && text_.offset() >= next_progress_) {
        options_.progress(plain_.share_read());
        next_progress_ = text_.offset() + (1u << 20);
      }
    }
  }
  void skip() {
    if (!text_.value(nullptr, 0)) end_early();
  }
  void end_early() {
    if (!cut_ && text_.peek() != '\0')
      throw InputError(source_.name + "@" + std::to_string(text_.offset()), "JSON", "something else",
                       "the file is not JSON from here on");
    cut_ = true;
  }
  // The value at the cursor as text; empty where the text ends.
  std::string_view value() {
    value_.clear();
    if (text_.value(&value_, longest_value)) return value_;
    end_early();
    return {};
  }

  void read_part(const std::string& key) {
    if (key == "agents") return elements([this] { add_agent(value()); });
    if (key == "kernel_symbols") return elements([this] { add_symbol(value()); });
    if (key == "strings") {
      const Json strings = Json::parse(value(), nullptr, false);
      if (!strings.is_object()) return;
      if (strings.contains("buffer_records")) operations_ = strings["buffer_records"];
      if (const auto said = strings.find("marker_api"); said != strings.end() && said->is_array())
        for (const Json& marker : *said) add_marker(marker);
      return;
    }
    if (key == "buffer_records")
      return members([this](const std::string& kind) { elements([&] { add_record(kind, value()); }); });
    skip();
  }

  void add_agent(std::string_view agent) {
    if (integer_member(agent, "type") != 2) return;  // 1 is a CPU
    std::string name(content_of_member(agent, "product_name"));
    if (name.empty()) name = content_of_member(agent, "name");
    const auto number = static_cast<std::int64_t>(agents_.size());
    std::int64_t memory = -1;
    const std::string_view banks = member_of(agent, "mem_banks");
    if (const std::size_t first = banks.find('{'); first != std::string_view::npos)
      memory = integer_member(banks.substr(first), "size_in_bytes");
    agents_.try_emplace(integer_in(agent, "id", "handle"), Agent{number, name, memory});
  }

  // What the program wrote into a roctx marker or range.
  void add_marker(const Json& marker) {
    if (!marker.is_object()) return;
    const auto key = marker.find("key"), text = marker.find("value");
    if (key == marker.end() || !key->is_number_integer() || text == marker.end() || !text->is_string()) return;
    markers_.try_emplace(key->get<std::int64_t>(), draft_->text(text->get_ref<const std::string&>()));
  }

  void add_symbol(std::string_view symbol) {
    std::string_view name = content_of_member(symbol, "formatted_kernel_name");
    if (name.empty()) name = content_of_member(symbol, "kernel_name");
    kernels_[integer_member(symbol, "kernel_id")] = draft_->json_text(name);
  }

  void add_record(const std::string& kind, std::string_view record) {
    if (record.empty() || !record.starts_with('{')) return;
    ++seen_;
    Event out;
    out.start_ns = integer_member(record, "start_timestamp");
    const std::int64_t end = integer_member(record, "end_timestamp");
    if (out.start_ns <= 0 || end < out.start_ns || end > (std::int64_t{1} << 61) ||
        end - out.start_ns > longest_slice_ns) {
      ++unreadable_;
      return;
    }
    if (draft_->size() >= most_timeline_events) {
      ++draft_->trace().report.events_left_out;
      return;
    }
    out.duration_ns = end - out.start_ns;
    out.correlation = integer_in(record, "correlation_id", "internal");
    if (kind == "kernel_dispatch") {
      const std::string_view dispatch = member_of(record, "dispatch_info");
      const auto kernel = kernels_.find(integer_member(dispatch, "kernel_id"));
      out.name = kernel == kernels_.end() ? draft_->text("unknown kernel") : kernel->second;
      out.kind = draft_->text_of(out.name).starts_with("__amd_rocclr_copy")   ? EventKind::copy
                 : draft_->text_of(out.name).starts_with("__amd_rocclr_fill") ? EventKind::fill
                                                                              : EventKind::kernel;
      std::int64_t stream = integer_in(record, "stream_id", "handle");
      if (stream < 0) stream = integer_in(dispatch, "queue_id", "handle");
      out.track = draft_->track(device_of(integer_in(dispatch, "agent_id", "handle")), stream, true);
    } else if (kind == "memory_copy") {
      out.name = operation_of(record, "copy");
      out.kind = EventKind::copy;
      std::int64_t agent = integer_in(record, "dst_agent_id", "handle");
      if (!agents_.contains(agent)) agent = integer_in(record, "src_agent_id", "handle");
      out.track = draft_->track(device_of(agent), integer_in(record, "stream_id", "handle"), true, "copies");
    } else if (kind.ends_with("_api")) {
      const auto said = kind == "marker_api" ? markers_.find(out.correlation) : markers_.end();
      out.name = said == markers_.end() ? operation_of(record, kind) : said->second;
      out.kind = kind == "marker_api" ? EventKind::annotation : EventKind::runtime_call;
      out.track = draft_->track(process_, integer_member(record, "thread_id"), false);
    } else {
      return;  // allocations, scratch memory, samples: no work
    }
    draft_->add(out);
  }

  std::int64_t device_of(std::int64_t handle) {
    const auto agent = agents_.find(handle);
    if (agent == agents_.end()) return -1;
    Trace& trace = draft_->trace();
    if (trace.device_name.empty()) {
      trace.device_name = agent->second.name;
      trace.device_memory_bytes = agent->second.memory_bytes;
    }
    return agent->second.number;
  }

  // Calls are numbered: strings.buffer_records[kind].operations[operation].
  StringId operation_of(std::string_view record, std::string_view otherwise) {
    const std::int64_t kind = integer_member(record, "kind"), operation = integer_member(record, "operation");
    const auto [known, is_new] = names_.try_emplace({kind, operation}, StringId{0});
    if (!is_new) return known->second;
    std::string name(otherwise);
    if (operations_.is_array() && kind >= 0 && kind < static_cast<std::int64_t>(operations_.size())) {
      const Json& of_kind = operations_[static_cast<std::size_t>(kind)];
      const auto list = of_kind.is_object() ? of_kind.find("operations") : of_kind.end();
      if (list != of_kind.end() && list->is_array() && operation >= 0 &&
          operation < static_cast<std::int64_t>(list->size()) &&
          (*list)[static_cast<std::size_t>(operation)].is_string())
        name = (*list)[static_cast<std::size_t>(operation)].get<std::string>();
    }
    return known->second = draft_->text(name);
  }

  void finish() {
    if (cut_) repairs_.say("truncated tail: the text ends inside a record");
    if (!plain_.damage().empty()) repairs_.say("truncated: " + plain_.damage());
    repairs_.count(unreadable_, "record dropped", "records dropped", "no time, or an end before its start");
    if (draft_->size() > 0) {
      ReadReport& report = draft_->trace().report;
      report.repaired = repairs_.take();
      report.format = "rocprofv3";
      report.good_for = "kernels, copies and HIP calls; layers need PyTorch's own profiler";
      report.producer = "rocprofv3 (ROCm rocprofiler-sdk)";
      report.bytes = text_.offset();
      report.events_seen = seen_;
      report.missing = {"operators", "shapes", "sizes of the collectives", "rank and world size"};
      traces_.push_back(draft_->finish());
      std::vector<std::string>& missing = traces_.back().report.missing;
      if (steps_of(traces_.back()).empty()) missing.insert(missing.begin() + 1, "step annotations");
    }
    ++process_;
    seen_ = unreadable_ = 0;
    names_.clear();
  }

  struct Agent {
    std::int64_t number;
    std::string name;
    std::int64_t memory_bytes;
  };
  static constexpr std::size_t longest_value = 1u << 26;
  const Source& source_;
  const ReadOptions& options_;
  Repairs repairs_;
  PlainText plain_;
  JsonText text_;
  std::optional<TraceDraft> draft_;
  std::vector<Trace> traces_;
  std::map<std::int64_t, StringId> kernels_;
  std::map<std::int64_t, Agent> agents_;
  std::map<std::int64_t, StringId> markers_;  ///< by correlation
  std::map<std::pair<std::int64_t, std::int64_t>, StringId> names_;
  Json operations_;
  std::string value_;
  std::int64_t process_ = 0;
  std::uint64_t seen_ = 0, unreadable_ = 0, next_progress_ = 0;
  bool cut_ = false;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.traces = Rocprofv3Reader(source, options).read();
  return reading;
}

}  // namespace

Format record() {
  return {"rocprofv3", "rocprofv3: kernels, copies, HIP and RCCL calls as JSON",
          "ROCm/rocprofiler-sdk, generateJSON.cpp", recognises, read};
}

}  // namespace stepcast::format::rocprofv3
