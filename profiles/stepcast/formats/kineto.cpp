// Kineto: the Chrome trace of the PyTorch profiler, in all its eras, and the bare array of the autograd profiler.
//
//   {"schemaVersion": 1, "deviceProperties": [...], "distributedInfo": {...},      any order, also behind the events
//    "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 12.345, "dur": 6.789,
//                     "args": {"External id": 3, "Sequence number": 7, "Input Dims": [[64, 3], []]}}, ...],
//    "baseTimeNanoseconds": 1727743122000000000}
//
// Times are microseconds with a decimal fraction, whatever displayTimeUnit says. Written by libkineto
// (output_json.cpp), torch/csrc/profiler and, until 1.7, torch/autograd/profiler.py.
#include <stepcast/base/decimal.hpp>
#include <stepcast/base/error.hpp>
#include <stepcast/base/helping_threads.hpp>
#include <stepcast/encodings/json_text.hpp>
#include <stepcast/formats/kineto/kineto_windows.hpp>
#include <stepcast/formats/kineto/split_recording.hpp>
#include <stepcast/formats/kineto/trace_builder.hpp>
#include <stepcast/formats/shared/chrome_writer.hpp>
#include <stepcast/formats/shared/format.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace stepcast::format::kineto {
namespace {

using Json = nlohmann::json;

bool recognises(std::string_view head) {
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || chrome_writer_of(head) != ChromeWriter::none) return false;
  const auto holds = [head](std::string_view text) { return head.find(text) != std::string_view::npos; };
  if (head[first] == '[')
    return holds("\"CPU functions\"") || holds("\"CUDA functions\"") || holds("\"Operator\"") || holds("\"cpu_op\"") ||
           holds("\"kernel\"") || holds("\"Kernel\"") || holds("\"python_function\"") || holds("\"Ascend Hardware\"") ||
           holds("\"CANN\"") || holds("\"ProfilerStep#");
  if (head[first] != '{' || holds("\"stepcast.")) return false;
  return holds("\"traceEvents\"") || holds("\"deviceProperties\"") || holds("\"distributedInfo\"") ||
         holds("\"schemaVersion\"");
}

std::int64_t integer_at(const Json& object, const char* key, std::int64_t absent) {
  const auto found = object.find(key);
  if (found == object.end()) return absent;
  std::int64_t value = absent;
  const std::string text = found->is_string() ? found->get<std::string>() : found->dump();
  return read_integer(text, value) == Parsed::fine ? value : absent;
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// pg_config is a list of groups, or in traces on demand a string with one.
std::vector<ListedGroup> groups_in(const Json& distributed) {
  auto found = distributed.find("pg_config");
  if (found == distributed.end()) return {};
  const Json list = found->is_string() ? Json::parse(found->get<std::string>(), nullptr, false) : *found;
  std::vector<ListedGroup> groups;
  if (!list.is_array()) return groups;
  for (const Json& entry : list) {
    if (!entry.is_object()) continue;
    ListedGroup group{text_at(entry, "pg_name"), text_at(entry, "pg_desc"), text_at(entry, "ranks"),
                      integer_at(entry, "pg_size", -1)};
    if (group.description.empty()) group.description = text_at(entry, "uid");
    if (const auto ranks = entry.find("ranks"); ranks != entry.end() && ranks->is_array()) group.ranks = ranks->dump();
    groups.push_back(std::move(group));
  }
  return groups;
}

// 12060 is CUDA 12.6; HIP writes 60443483 for 6.4 and 70051831 for 7.0.
std::string version_text(std::int64_t number, std::int64_t major, std::int64_t minor) {
  return std::to_string(number / major) + "." + std::to_string(number % major / minor);
}

// Events are seldom shorter than 256 bytes, and gzip makes traces some twenty times smaller.
std::size_t expected_events(const Source& source) {
  constexpr std::size_t event_size = 256, gzip_ratio = 20, most = 1u << 20;
  const std::size_t plain = source.bytes.size() * (PlainText::is_gzip(source.bytes) ? gzip_ratio : 1);
  return std::min(plain / event_size, most);
}

// One document; files may hold several, one behind the other.
class KinetoReader {
 public:
  KinetoReader(const Source& source, const ReadOptions& options, PlainText& plain, JsonText& text,
               TraceBuilder& builder, KinetoHeader& header)
      : source_(source),
        options_(options),
        plain_(plain),
        text_(text),
        start_(text.offset()),
        builder_(builder),
        header_(header) {}

  /// Reads it into the builder and the header; returns its length.
  std::uint64_t read() {
    if (text_.take('[')) {
      header_.bare_array = true;
      read_array();
    } else if (text_.take('{')) {
      read_object();
    } else {
      throw InputError(source_.name, "JSON: an object or an array of events", found_at_cursor());
    }
    if (!saw_events_) refuse_other_kind();
    report_damage();
    return text_.offset() - start_;
  }

 private:
  void read_array() {
    saw_events_ = true;
    const auto progress = [this] {
      if (options_.progress) options_.progress(plain_.share_read());
    };
    WindowSizes sizes;
    sizes.threads = threads_or_all(options_.threads);
    damage_ += read_events(text_, builder_, source_.name, progress, sizes);
  }

  // The keys around the events; a text that ends between them is truncated, not wrong.
  void read_object() {
    for (;;) {
      if (text_.take('}')) return;
      if (text_.take(',')) continue;
      std::string key;
      if (text_.peek() != '"' || !text_.value(&key, longest_value) || !text_.take(':')) {
        if (text_.peek() != '\0')
          throw InputError(where(), "a key and a value", found_at_cursor(), "the file is not JSON from here on");
        damage_.no_closing_bracket = true;
        return;
      }
      const std::string_view name = content_of(key);
      if (name == "traceEvents" && text_.take('[')) {
        read_array();
        if (damage_.no_closing_bracket) return;
        continue;
      }
      std::string value;
      if (!text_.value(is_wanted(name) ? &value : nullptr, longest_value)) damage_.no_closing_bracket = true;
      read_header(name, value);
      keys_ += keys_.empty() ? std::string(name) : ", " + std::string(name);
    }
  }

  static bool is_wanted(std::string_view key) {
    return key == "deviceProperties" || key == "distributedInfo" || key == "baseTimeNanoseconds" ||
           key == "labWriter" || key.ends_with("_runtime_version") || key.ends_with("_version");
  }

  void read_header(std::string_view key, const std::string& value) {
    if (!is_wanted(key)) return;
    const Json json = Json::parse(value, nullptr, false);
    if (key == "baseTimeNanoseconds") {
      header_.has_base = read_integer(content_of(value), header_.base_ns) == Parsed::fine;
      if (!header_.has_base) builder_.repaired("baseTimeNanoseconds is not a number, taken as 0");
    } else if (json.is_discarded()) {
      if (!damage_.no_closing_bracket) builder_.repaired(std::string(key) + " is not JSON, left out");
    } else if (key == "distributedInfo" && json.is_object()) {
      header_.has_distributed_info = true;
      header_.backend = text_at(json, "backend");
      header_.rank = integer_at(json, "rank", -1);
      header_.world_size = integer_at(json, "world_size", -1);
      header_.groups = groups_in(json);
    } else if (key == "deviceProperties" && json.is_array() && !json.empty() && json[0].is_object()) {
      header_.has_device_properties = true;
      header_.device_name = text_at(json[0], "name");
      header_.device_memory_bytes = integer_at(json[0], "totalGlobalMem", -1);
      header_.machine_devices = std::ssize(json);
    } else if (key == "labWriter" && json.is_string()) {
      header_.lab_writer = json.get<std::string>();
    } else if (std::int64_t number = 0; read_integer(content_of(value), number) == Parsed::fine && number > 0) {
      if (key == "cuda_runtime_version") header_.runtime = "CUDA runtime " + version_text(number, 1000, 10);
      if (key == "hip_runtime_version") header_.runtime = "HIP runtime " + version_text(number, 10'000'000, 100'000);
    }
  }

  void report_damage() {
    const char next = text_.peek();
    if (next != '\0' && next != '{' && next != '[')
      builder_.repaired("what follows the end of the JSON is left out, beginning " + found_at_cursor());
    if (!plain_.damage().empty()) builder_.repaired("truncated: " + plain_.damage());
    if (damage_.cut_event) {
      builder_.repaired("truncated tail: the text ends inside an event, 1 event dropped");
    } else if (damage_.no_closing_bracket) {
      builder_.repaired("truncated tail: closing bracket missing");
    }
    const auto say = [this](std::uint64_t count, const std::string& what) {
      if (count > 0) builder_.repaired(std::to_string(count) + " " + what);
    };
    say(damage_.unreadable_events, "events dropped: their text is not JSON (unescaped quotes?)");
    say(damage_.utf8, "bytes replaced that are not UTF-8");
    say(damage_.control_characters, "unescaped control characters replaced");
    if (damage_.unreadable_events > builder_.events_seen())
      throw InputError(source_.name, "mostly readable events",
                       std::to_string(damage_.unreadable_events) + " unreadable ones of " +
                           std::to_string(damage_.unreadable_events + builder_.events_seen()));
  }

  [[noreturn]] void refuse_other_kind() {
    const auto has = [this](std::string_view key) { return keys_.find(key) != std::string::npos; };
    std::string found = keys_.empty() ? "an empty object" : "an object with the keys " + keys_;
    std::string hint;
    if (has("nodes")) {
      found = "an execution trace (key \"nodes\"), which holds no times";
      hint = "give the profiler's trace of the same run";
    } else if (damage_.no_closing_bracket) {
      found += "; the text ends before the events";
    }
    throw InputError(source_.name, "a PyTorch trace (key \"traceEvents\")", found, hint);
  }

  [[nodiscard]] std::string where() const { return source_.name + "@" + std::to_string(text_.offset()); }
  std::string found_at_cursor() {
    if (text_.peek() == '\0' && text_.available(1) == 0) return "the end of the text";
    return "\"" + std::string(text_.here(), std::min<std::size_t>(text_.available(1), 20)) + "\"";
  }

  static constexpr std::size_t longest_value = 1u << 20;
  const Source& source_;
  const ReadOptions& options_;
  PlainText& plain_;
  JsonText& text_;
  std::uint64_t start_;
  TraceBuilder& builder_;
  KinetoHeader& header_;
  TextDamage damage_;
  std::string keys_;
  bool saw_events_ = false;
};

Reading read(const Source& source, const ReadOptions& options) {
  PlainText plain(source.bytes, source.release);
  JsonText text(plain, true);
  Reading reading;
  for (std::size_t document = 1; document == 1 || text.peek() == '{' || text.peek() == '['; ++document) {
    try {
      TraceBuilder builder(source.name, options.strict, document == 1 ? expected_events(source) : 0,
                           options.most_events);
      KinetoHeader header;
      const std::uint64_t bytes = KinetoReader(source, options, plain, text, builder, header).read();
      for (Trace& trace : builder.finish_ranks(header, bytes)) reading.traces.push_back(std::move(trace));
    } catch (const InputError& error) {
      if (document == 1 || options.strict) throw;
      reading.refused.push_back("document " + std::to_string(document) + " of " + error.what());
      break;
    }
  }
  return reading;
}

}  // namespace

Trace kineto_trace_of(std::span<const Source> parts, const ReadOptions& options) {
  if (parts.empty()) throw InputError("", "at least one part of a trace", "none");
  TraceBuilder builder(parts.front().name, options.strict, expected_events(parts.front()), options.most_events);
  KinetoHeader header;
  std::uint64_t bytes = 0;
  for (const Source& part : parts) {
    PlainText plain(part.bytes, part.release);
    JsonText text(plain, true);
    const KinetoHeader before = header;
    bytes += KinetoReader(part, options, plain, text, builder, header).read();
    const auto contradicts = [](std::int64_t was, std::int64_t is) { return was >= 0 && is != was; };
    if (before.has_base && header.base_ns != before.base_ns)
      throw InputError(part.name, "the base time of the other parts, " + std::to_string(before.base_ns),
                       std::to_string(header.base_ns));
    if (contradicts(before.rank, header.rank) || contradicts(before.world_size, header.world_size))
      throw InputError(part.name,
                       "a part of rank " + std::to_string(before.rank) + " of " + std::to_string(before.world_size),
                       "rank " + std::to_string(header.rank) + " of " + std::to_string(header.world_size));
  }
  return builder.finish(header, bytes);
}

Format record() {
  return {"kineto", "PyTorch profiler trace (*.pt.trace.json[.gz]), all versions",
          "libkineto output_json.cpp; torch.profiler; Chrome Trace Event Format", recognises, read};
}

}  // namespace stepcast::format::kineto
