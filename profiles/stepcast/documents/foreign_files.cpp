// ForeignFiles: the table.
#include <stepcast/base/words.hpp>
#include <stepcast/documents/foreign_files.hpp>
#include <stepcast/formats/shared/chrome_writer.hpp>

#include <algorithm>
#include <cctype>
#include <string>

namespace stepcast {
namespace {

struct Head {
  std::string_view text;
  std::string_view body;  ///< without leading white space

  explicit Head(std::string_view whole) : text(whole), body(whole) {
    const std::size_t first = whole.find_first_not_of(" \t\r\n");
    body.remove_prefix(first == std::string_view::npos ? whole.size() : first);
  }
  [[nodiscard]] bool has(std::string_view mark) const { return text.find(mark) != std::string_view::npos; }
  [[nodiscard]] bool is_object() const { return body.starts_with('{'); }
};

// "[[-1, 1, 37888, 7], [...": time, action, bytes, category.
bool is_memory_timeline(const Head& head) {
  if (!head.body.starts_with("[[")) return false;
  const std::string_view row = head.body.substr(2, head.body.find(']') - 2);
  int commas = 0;
  for (const char c : row) {
    if (c == ',') ++commas;
    else if (!std::isdigit(static_cast<unsigned char>(c)) && c != '-' && c != ' ') return false;
  }
  return commas == 3;
}

// "[host:4711] Warning: ...", "2021-10-05 10:55:05.052891: I tensorflow/...".
bool is_log(const Head& head) {
  const std::string_view line = head.body.substr(0, head.body.find('\n'));
  if (line.size() < 12) return false;
  const auto letter = [&](std::size_t i) { return std::isalpha(static_cast<unsigned char>(line[i])) != 0; };
  const bool bracketed = line[0] == '[' && letter(1) && line.find("] ") != std::string_view::npos;
  const bool dated =
      std::isdigit(static_cast<unsigned char>(line[0])) && line[4] == '-' && line[7] == '-' && line[10] == ' ';
  return bracketed || dated;
}

// The first line in lower case, of a text.
std::string first_line(const Head& head) { return lower_case(head.body.substr(0, head.body.find('\n'))); }

bool may_be_table(const Head& head) {
  return !head.is_object() && !head.body.starts_with('[') && !head.has(std::string_view("\0", 1));
}

// Somebody's table of layers whose header says too little.
bool is_layer_table(const Head& head) {
  if (!may_be_table(head)) return false;
  const std::string line = first_line(head);
  return contains_any(line, {"forward", "fwd"}) && contains_any(line, {"backward", "bwd"});
}

bool is_operation_table(const Head& head) {
  return may_be_table(head) && contains_any(first_line(head), {"optype", "op_type"});
}

// A header and separators, of columns that mean nothing here.
bool is_table(const Head& head) {
  const std::string line = first_line(head);
  if (!may_be_table(head) || line.size() > 1000) return false;
  return std::ranges::any_of(std::string_view(",;\t"), [&](char separator) {
    return std::ranges::count(line, separator) >= 2 && line.find(": ") == std::string::npos;
  });
}

// Aligned in columns between lines of dashes.
bool is_printed_summary(const Head& head) {
  return head.body.starts_with("-----") && head.has("Self CPU") && head.has("# of Calls");
}

bool is_web_page(const Head& head) { return contains_any(first_line(head).substr(0, 64), {"<!doctype html", "<html"}); }

struct Entry {
  bool (*is)(const Head&);
  ForeignFile file;
};

constexpr Entry table[] = {
    {[](const Head& h) { return h.text.starts_with("PAR1"); },
     {"a Parquet table, which stepcast has no library for",
      "convert it: python3 -c \"import pandas; pandas.read_parquet('X.parquet').to_csv('X.csv', index=False)\""}},
    {[](const Head& h) { return h.text.starts_with("PK\x03\x04") && h.has("[Content_Types].xml"); },
     {"a spreadsheet", "save the sheet as CSV"}},
    {[](const Head& h) { return h.text.starts_with("\xd0\xcf\x11\xe0"); }, {"a spreadsheet", "save the sheet as CSV"}},
    {[](const Head& h) { return h.text.starts_with("PK\x03\x04"); }, {"a zip archive", "unpack it and give the files"}},
    {[](const Head& h) { return h.text.starts_with("7z\xbc\xaf\x27\x1c"); },
     {"a 7z archive", "unpack it and give the files"}},
    {[](const Head& h) { return h.text.starts_with("\x1f\x8b"); },
     {"gzip within gzip", "unpack the outer one first: gzip -d"}},
    {[](const Head& h) { return h.text.starts_with("BZh") && h.text.find("1AY&SY") == 4; },
     {"something compressed with bzip2", "unpack it first: bzip2 -d"}},
    {[](const Head& h) { return h.text.starts_with("\x04\x22\x4d\x18"); },
     {"something compressed with lz4", "unpack it first: lz4 -d"}},
    {[](const Head& h) { return h.text.starts_with("\x89HDF\r\n"); },
     {"an HDF5 file", "export Nsight Systems' reports to SQLite: nsys export --type sqlite"}},
    {[](const Head& h) { return h.text.starts_with("version https://git-lfs.github.com/"); },
     {"a pointer of Git LFS, not the file itself", "fetch it: git lfs pull"}},
    {[](const Head& h) { return h.has("brain.Event:"); },
     {"an event file of TensorBoard: scalars and images", "give plugins/profile/*/*.xplane.pb of the run"}},
    {is_printed_summary,
     {"the summary that PyTorch's profiler prints (key_averages), without single events",
      "give its trace: profiler.export_chrome_trace(\"trace.json\")"}},
    {[](const Head& h) { return h.body.starts_with("-----") && h.has("DeepSpeed Flops Profiler"); },
     {"the report of DeepSpeed's flops profiler, without backward passes",
      "give a trace of PyTorch's profiler of the same run"}},
    {[](const Head& h) { return h.text.starts_with("# nThread") || h.has("# nccl-tests version"); },
     {"a log of nccl-tests", "give it to stepcast calibrate"}},
    {[](const Head& h) {
       return contains_any(first_line(h), {"total time (ns),", "time(%),total"});
     },
     {"a summary of Nsight Systems (nsys stats), without single events",
      "export the report itself: nsys export --type sqlite"}},
    {is_web_page, {"a web page", "download the file itself, not the page that shows it"}},
    {[](const Head& h) { return h.text.starts_with("\x28\xb5\x2f\xfd"); },
     {"something compressed with zstd", "unpack it first: zstd -d"}},
    {[](const Head& h) {
       return h.text.starts_with(
           "\xfd"
           "7zXZ");
     },
     {"something compressed with xz", "unpack it first: xz -d"}},
    {[](const Head& h) { return h.text.size() > 2 && h.text[0] == '\x80' && h.text[1] >= 2 && h.text[1] <= 5; },
     {"a Python pickle: a flight-recorder dump of NCCL or a memory snapshot, which hold no operators",
      "give the profiler's trace of the run (torch.profiler, export_chrome_trace)"}},
    {[](const Head& h) { return chrome_writer_of(h.text) == ChromeWriter::model_timeline; },
     {"a list of framework events by SageMaker Debugger (pevents): data iterators and NCCL calls without tensors, "
      "operators or steps",
      "give what they were made from: TensorFlow's trace.json.gz, or the Horovod timeline of the job"}},
    {is_memory_timeline,
     {"PyTorch's raw memory timeline: sizes of allocations, no operators and no durations",
      "give the trace of the same profiler (export_chrome_trace)"}},
    {[](const Head& h) {
       return h.is_object() && h.has("\"entries\"") && (h.has("\"collective_seq_id\"") || h.has("\"profiling_name\""));
     },
     {"a flight-recorder dump of NCCL: which collectives were enqueued, for finding hangs",
      "give the profiler's trace of the run"}},
    {[](const Head& h) { return h.is_object() && h.has("\"device_traces\"") && h.has("\"segments\""); },
     {"a memory snapshot of PyTorch: allocations, no operators", "give the profiler's trace of the run"}},
    {[](const Head& h) {
       return h.is_object() && h.text.size() < 4096 && h.has("\"pp_size\"") &&
              (h.has("\"world_size\"") || h.has("\"micro_batches\""));
     },
     {"the parallel layout of a run, which holds no times",
      "give the timestamps beside it (pp_rank_*.json); the layout is given by --plan layout(...)"}},
    {[](const Head& h) { return h.text.size() < 4096 && h.has("pp_size:") && h.has("world_size:"); },
     {"the parallel layout of a job, which holds no times",
      "give the operations beside it (trace-*.csv or timeline-*.json)"}},
    {[](const Head& h) { return chrome_writer_of(h.text) == ChromeWriter::run_metadata; },
     {"a timeline of TensorFlow 1 (RunMetadata), one session step without collectives",
      "profile with tf.profiler.experimental and give plugins/profile/*/*.xplane.pb"}},
    {[](const Head& h) { return (h.has("\"push-") || h.has("\"pull-")) && h.has("\"ph\"") && h.has("\"tid\""); },
     {"a profile of a BytePS server: its requests, without the workers that wait for them",
      "give the workers' comm.json (BYTEPS_TRACE_ON=1)"}},
    {is_log, {"the log of a job", "give the trace that the job wrote"}},
    {[](const Head& h) { return h.has("\r") && !h.has("\n") && !h.has(std::string_view("\0", 1)); },
     {"text whose lines end as on old Macs (CR)", "save it with line ends of Unix or Windows"}},
    {is_layer_table,
     {"a table without the columns of a table of layers",
      "name them forward_ms, backward_ms and bytes (or numel, the number of elements), in a header line separated by "
      "commas"}},
    {is_operation_table,
     {"a table of operations without all that is needed",
      "its columns are step, optype, start_ts and duration (in seconds), and rank, or dp_rank and stage"}},
    {is_table,
     {"a table whose columns stepcast does not know",
      "a table of layers has a header such as name,forward_ms,backward_ms,bytes"}},
    {[](const Head& h) { return h.has("\"ph\"") && (h.has("\"ts\"") || h.has("\"traceEvents\"")); },
     {"a Chrome trace of a writer that stepcast does not know", "give the file as the framework's profiler wrote it"}},
};

}  // namespace

std::optional<ForeignFile> foreign_file(std::string_view head) {
  const Head seen(head);
  if (seen.body.empty()) return std::nullopt;
  for (const Entry& entry : table)
    if (entry.is(seen)) return entry.file;
  return std::nullopt;
}

}  // namespace stepcast
