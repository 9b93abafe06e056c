// Execution trace: what PyTorch's ExecutionTraceObserver writes, schemas 1.0.1 to 1.1.1.
//
//   {"schema": "1.1.0-chakra.0.0.4", "pid": 17, "time": "...", "start_ts": 1,
//    "nodes": [{"id": 5, "name": "aten::mm", "ctrl_deps": 4,
//               "inputs": {"values": [[7, 8, 0, 64, 4, "cuda:0"]], "shapes": [[8, 8]], "types": ["Tensor(float)"]},
//               "outputs": {...}, "attrs": [{"name": "rf_id", "type": "uint64", "value": 3}, ...]}, ...],
//    "finish_ts": 2}
//
// 1.0.1 has flat nodes: "parent", "inputs", "input_shapes", "input_types", "rf_id", ... Children are written before
// their parents, lists are cut after 4,096 entries, nothing holds a time. Collectives say their sizes in attributes
// from 1.1.0 on, before that in the arguments of record_param_comms. Written by
// torch/csrc/profiler/standalone/execution_trace_observer.cpp.
#include <stepcast/base/error.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/encodings/json_text.hpp>
#include <stepcast/formats/chakra/execution_node.hpp>
#include <stepcast/formats/shared/format.hpp>

#include <simdjson.h>

#include <algorithm>
#include <unordered_map>

namespace stepcast::format::execution_trace {
namespace {

using simdjson::dom::element;

bool recognises(std::string_view head) {
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || head[first] != '{') return false;
  const auto holds = [head](std::string_view text) { return head.find(text) != std::string_view::npos; };
  return holds("\"nodes\"") && holds("\"schema\"") && (holds("\"rf_id\"") || holds("\"op_schema\"")) &&
         !holds("\"traceEvents\"");
}

class ExecutionReader {
 public:
  ExecutionReader(const Source& source, const ReadOptions& options) : source_(source), options_(options) {
    out_.source = source.name;
    out_.report.format = "execution-trace";
  }

  ExecutionTrace read() {
    read_text();
    simdjson::dom::parser parser;
    const simdjson::dom::object top = parsed(parser);
    read_header(top);
    simdjson::dom::array nodes;
    if (top["nodes"].get(nodes) != simdjson::SUCCESS)
      throw InputError(source_.name, "an execution trace (key \"nodes\")", "an object without that list");
    for (const element node : nodes) read_node(node);
    if (out_.nodes.empty()) throw InputError(source_.name, "an execution trace with operators", "an empty one");
    out_.rank = own_rank_.among(out_.groups);
    link_parents();
    report();
    if (options_.progress) options_.progress(1);
    return std::move(out_);
  }

 private:
  // ---- text to JSON ----

  void read_text() {
    constexpr std::size_t piece = 1u << 20;
    PlainText plain(source_.bytes);
    std::size_t size = 0;
    for (std::size_t got = piece; got == piece;) {
      text_.resize(size + piece);
      got = plain.read({text_.data() + size, piece});
      size += got;
    }
    text_.resize(size);
    out_.report.bytes = size;
    if (!plain.damage().empty()) repaired("truncated: " + plain.damage());
  }

  void repaired(const std::string& what) {
    if (options_.strict) throw InputError(source_.name, "an undamaged execution trace", what);
    out_.report.repaired.push_back(what);
  }

  simdjson::dom::object parsed(simdjson::dom::parser& parser) {
    element top;
    simdjson::error_code error = parse(parser, top);
    if (error == simdjson::UTF8_ERROR) {
      repaired(std::to_string(repair_utf8(text_.data(), text_.size())) + " bytes replaced that are not UTF-8");
      error = parse(parser, top);
    }
    if (error == simdjson::UNESCAPED_CHARS) {
      repaired(std::to_string(repair_control_characters(text_.data(), text_.size())) +
               " unescaped control characters replaced");
      error = parse(parser, top);
    }
    if (error != simdjson::SUCCESS && cut_behind_last_node()) error = parse(parser, top);
    simdjson::dom::object object;
    if (error != simdjson::SUCCESS || top.get(object) != simdjson::SUCCESS)
      throw InputError(source_.name, "an execution trace in JSON", simdjson::error_message(error));
    return object;
  }

  simdjson::error_code parse(simdjson::dom::parser& parser, element& top) {
    return parser.parse(simdjson::padded_string(text_)).get(top);
  }

  /// A text that ends early ends behind its last complete node.
  bool cut_behind_last_node() {
    const std::size_t key = text_.find("\"nodes\"");
    const std::size_t list = key == std::string::npos ? key : text_.find('[', key);
    if (list == std::string::npos) return false;
    std::size_t end = 0, at = list + 1, count = 0;
    for (;; ++count) {
      at = text_.find_first_not_of(" \t\r\n,", at);
      if (at == std::string::npos || text_[at] != '{') break;
      const std::size_t size = bracketed_size(std::string_view(text_).substr(at));
      if (size == 0) break;
      end = at += size;
    }
    if (end == 0 || (at != std::string::npos && text_[at] == ']')) return false;
    repaired("truncated tail: the text ends behind node " + std::to_string(count));
    text_.resize(end);
    text_ += "]}";
    return true;
  }

  // ---- JSON to nodes ----

  void read_header(const simdjson::dom::object& top) {
    std::string_view schema;
    if (top["schema"].get(schema) == simdjson::SUCCESS) out_.schema = std::string(schema.substr(0, 60));
    element pid;
    if (top["pid"].get(pid) == simdjson::SUCCESS) out_.process = json_integer(pid, -1);
    out_.report.producer = "PyTorch execution trace " + out_.schema;
    constexpr std::string_view known[] = {"1.0.1", "1.0.2-", "1.0.3-", "1.0.4-", "1.1.0-", "1.1.1-"};
    const bool is_known = std::ranges::any_of(known, [&](std::string_view k) {
      return out_.schema == k || (k.ends_with('-') && (out_.schema.starts_with(k) || out_.schema + "-" == k));
    });
    if (!is_known)
      out_.report.assumed.push_back("schema " + (out_.schema.empty() ? "(none)" : out_.schema) +
                                    " is not a known one: read like 1.1.1");
  }

  void read_node(const element& json) {
    ++out_.report.events_seen;
    std::int64_t parent = -1;
    if (!read_execution_node(json, out_, own_rank_, parent)) {
      ++unreadable_;
      return;
    }
    parent_ids_.push_back(parent);
  }

  void link_parents() {
    std::unordered_map<std::int64_t, std::uint32_t> of_id;
    for (std::uint32_t i = 0; i < out_.nodes.size(); ++i) repeated_ += !of_id.try_emplace(out_.nodes[i].id, i).second;
    for (std::uint32_t i = 0; i < out_.nodes.size(); ++i) {
      const auto parent = of_id.find(parent_ids_[i]);  // the root is its own parent
      if (parent != of_id.end() && parent->second != i) out_.nodes[i].parent = parent->second;
    }
  }

  void report() {
    const auto say = [](std::vector<std::string>& to, std::size_t count, const std::string& what) {
      if (count > 0) to.push_back(std::to_string(count) + " " + what);
    };
    if (unreadable_ > 0) repaired(std::to_string(unreadable_) + " nodes dropped: no id or no name");
    if (repeated_ > 0) repaired(std::to_string(repeated_) + " node ids occur twice: children belong to the first");
    say(out_.report.missing, std::size_t(std::ranges::count(out_.nodes, -1, &ExecutionNode::record_function)),
        "record-function ids (rf_id)");
    std::size_t cut = 0;
    constexpr std::size_t longest_list = 4096;
    for (const ExecutionNode& node : out_.nodes)
      cut += node.inputs.size() >= longest_list || node.outputs.size() >= longest_list;
    say(out_.report.missing, cut, "operators have lists that the writer cut after 4,096 entries: what follows");
  }

  const Source& source_;
  const ReadOptions& options_;
  ExecutionTrace out_;
  OwnRank own_rank_;
  std::string text_;
  std::vector<std::int64_t> parent_ids_;
  std::size_t unreadable_ = 0, repeated_ = 0;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.executions.push_back(ExecutionReader(source, options).read());
  return reading;
}

}  // namespace

Format record() {
  return {"execution-trace", "PyTorch execution trace, schemas 1.0.1 to 1.1.1 (no times; adds to a Kineto trace)",
          "torch/csrc/profiler/standalone/execution_trace_observer.cpp", recognises, read};
}

}  // namespace stepcast::format::execution_trace
