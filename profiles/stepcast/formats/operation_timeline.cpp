// Operation timeline: the operations of a pipelined job as a Chrome trace.
//
//   {"name": "forward-compute", "cat": "forward-compute", "ph": "X", "pid": 0, "tid": 160, "ts": 51337207.9, "dur":
//   63458.9,
//    "args": {"step": 21, "model_chunk": 0, "mb_id": 3, "seq_id": 3}}
//   {"name": "thread_name", "ph": "M", "pid": 0, "tid": 160, "args": {"name": "PP rank 2, TP rank 0, compute"}}
//
// A bare array; a process is a data-parallel rank, a thread a stage of it and a kind of operation; microseconds on one
// clock. The names of the threads come behind the events, so stages are known at the end. Unlike the table of the same
// job (operation_csv.cpp) a transfer lasts from when both sides were there. Written by StragglerAnalysis (ByteDance).
#include <stepcast/base/decimal.hpp>
#include <stepcast/base/error.hpp>
#include <stepcast/formats/shared/chrome_events.hpp>
#include <stepcast/formats/shared/chrome_writer.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/shared/operation_table.hpp>

#include <algorithm>
#include <map>

namespace stepcast::format::operation_timeline {
namespace {

bool recognises(std::string_view head) { return chrome_writer_of(head) == ChromeWriter::operations; }

// The number behind `word` in "PP rank 2, TP rank 0, compute", or -1.
std::int32_t number_behind(std::string_view text, std::string_view word) {
  const std::size_t at = text.find(word);
  if (at == std::string_view::npos) return -1;
  std::string_view digits = text.substr(at + word.size());
  digits = digits.substr(0, std::min(digits.find_first_not_of("0123456789"), digits.size()));
  std::int64_t value = -1;
  return digits.size() <= 6 && !digits.empty() && read_integer(digits, value) == Parsed::fine
             ? static_cast<std::int32_t>(value)
             : -1;
}

class OperationTimelineReader {
 public:
  OperationTimelineReader(const Source& source, const ReadOptions& options)
      : source_(source), options_(options), repairs_(source, options), times_(source) {}

  std::vector<Trace> read() {
    const ChromeWalk walk =
        walk_chrome_trace(source_, options_, repairs_, {[this](const ChromeEvent& e) { add(e); }, {}});
    if (!walk.closed) repairs_.say("truncated tail: closing bracket missing");
    times_.report(repairs_);
    repairs_.count(unnumbered_, "event dropped", "events dropped", "no step");
    repairs_.count(negative_, "event dropped", "events dropped", "negative duration");
    place_operations();
    ReadReport& report = table_.report;
    describe(report, walk, repairs_, "operation-timeline", "operations of a pipelined job (StragglerAnalysis)",
             "which worker and which stage of a pipeline sets the pace; layers need a trace of the framework");
    report.missing.insert(report.missing.end(), {"kernels and operators", "sizes of the collectives", "world size"});
    return traces_of(std::move(table_), source_);
  }

 private:
  using Thread = std::pair<std::int64_t, std::int64_t>;

  void add(const ChromeEvent& event) {
    Thread thread{-1, -1};
    (void)read_id(event.process, thread.first);
    (void)read_id(event.thread, thread.second);
    if (event.kind() == 'M') {
      const std::string_view name = content_of_member(event.arguments, "name");
      if (event.name == "\"thread_name\"") {
        stages_[thread] = number_behind(name, "PP rank ");
        tensor_ranks_[thread] = number_behind(name, "TP rank ");
      }
      if (event.name == "\"process_name\"") data_ranks_[thread.first] = number_behind(name, "DP rank [");
      return;
    }
    if (event.kind() != 'X') return;
    OperationRecord row;
    if (!times_.start(event, row.start_ns) || !times_.duration(event, row.duration_ns)) return;
    const auto number = [&](std::string_view key) {
      const std::int64_t value = integer_member(event.arguments, key);
      return value >= 0 && value < (std::int64_t{1} << 31) ? static_cast<std::int32_t>(value) : -1;
    };
    row.step = number("step");
    if (row.duration_ns < 0) {
      ++negative_;
    } else if (row.step < 0) {
      ++unnumbered_;
    } else if (table_.operations.size() >= most_rows) {
      ++table_.report.events_left_out;
    } else {
      row.chunk = number("model_chunk");
      row.micro_batch = number("mb_id");
      row.sequence = number("seq_id");
      row.type = table_.type(content_of(event.category.size() > 2 ? event.category : event.name));
      if (table_.types.size() > most_types)
        throw InputError(source_.name, "at most 256 types of operations", "more", "their key is \"cat\"");
      table_.operations.push_back(row);
      threads_.push_back(thread);
    }
  }

  void place_operations() {
    std::int32_t data_ranks = 0;
    bool named = true;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      const auto stage = stages_.find(threads_[i]);
      const auto data_rank = data_ranks_.find(threads_[i].first);
      OperationRecord& row = table_.operations[i];
      named &= stage != stages_.end() && stage->second >= 0;
      row.stage = stage == stages_.end() ? -1 : stage->second;
      const auto tensor_rank = tensor_ranks_.find(threads_[i]);
      row.tensor_rank = tensor_rank == tensor_ranks_.end() ? -1 : tensor_rank->second;
      const bool small = threads_[i].first >= 0 && threads_[i].first < (1 << 20);
      row.data_rank = data_rank != data_ranks_.end() && data_rank->second >= 0 ? data_rank->second
                      : small ? static_cast<std::int32_t>(threads_[i].first)
                              : -1;
      data_ranks = std::max(data_ranks, row.data_rank + 1);
    }
    if (!named) {
      table_.report.missing.push_back("stages (names of the threads)");
      repairs_.say("threads without a name: what has none is taken for one worker a process");
    }
    for (OperationRecord& row : table_.operations)
      row.rank = std::int64_t{std::max(row.stage, 0)} * data_ranks + std::max(row.data_rank, 0);
    table_.report.assumed.push_back("workers are numbered by stage, then by data-parallel rank");
  }

  static constexpr std::size_t most_rows = std::size_t{1} << 24, most_types = 256;
  const Source& source_;
  const ReadOptions& options_;
  Repairs repairs_;
  ChromeTimes times_;
  OperationTable table_;
  std::vector<Thread> threads_;  ///< of each operation
  std::map<Thread, std::int32_t> stages_, tensor_ranks_;
  std::map<std::int64_t, std::int32_t> data_ranks_;
  std::uint64_t unnumbered_ = 0, negative_ = 0;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.traces = OperationTimelineReader(source, options).read();
  return reading;
}

}  // namespace

Format record() {
  return {"operation-timeline",
          "operations of a pipelined job as a Chrome trace (cat = operation, args step, mb_id, ...)",
          "ByteDance-Seed/StragglerAnalysis, data/timeline-*.json", recognises, read};
}

}  // namespace stepcast::format::operation_timeline
