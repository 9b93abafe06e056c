// Operation CSV: the operations of a pipelined job, a row each.
//
//   dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc
//   0,0,0,16,backward-compute,2.6883304119110107,0.8543476462364197,0,0,0,0
//
// Times are seconds from the start of the step; -1 or nothing stands for what does not apply. Columns may come in any
// order; "tp_rank" may tell tensor-parallel ranks, of which the first of a stage stands for all. Published with
// StragglerAnalysis (ByteDance, "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025)
// as Parquet; see its data/README.md.
#include <stepcast/base/decimal.hpp>
#include <stepcast/base/error.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/units.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/formats/shared/chrome_events.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/shared/layer_table.hpp>
#include <stepcast/formats/shared/operation_table.hpp>
#include <stepcast/formats/shared/tensor_steps.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>

namespace stepcast::format::operation_csv {
namespace {

constexpr std::array<std::string_view, 11> columns = {"dp_rank",  "stage",  "rank", "step",  "optype", "start_ts",
                                                      "duration", "seq_id", "mc",   "mb_id", "tp_rank"};
enum Column : std::size_t { dp_rank, stage, rank, step, optype, start_ts, duration, seq_id, mc, mb_id, tp_rank };

std::string_view unquoted(std::string_view cell) {
  while (!cell.empty() && (cell.front() == ' ' || cell.front() == '"')) cell.remove_prefix(1);
  while (!cell.empty() && (cell.back() == ' ' || cell.back() == '"' || cell.back() == '\r')) cell.remove_suffix(1);
  return cell;
}

// The cells of a line; names and numbers hold no separators.
void split(std::string_view line, char separator, std::vector<std::string_view>& cells) {
  cells.clear();
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t comma = std::min(line.find(separator, at), line.size());
    cells.push_back(unquoted(line.substr(at, comma - at)));
    at = comma + 1;
  }
}

bool recognises(std::string_view head) {
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  if (head.starts_with('{') || head.starts_with('[')) return false;
  std::vector<std::string_view> cells;
  const std::string_view header = head.substr(0, head.find('\n'));
  split(header, separator_of(header), cells);
  const auto has = [&](std::string_view name) { return std::ranges::find(cells, name) != cells.end(); };
  return has("optype") && has("start_ts") && has("duration") && has("step");
}

// Seconds as decimal text to nanoseconds, exactly: microseconds are read with the point six places on.
bool read_seconds(std::string_view text, std::int64_t limit, std::int64_t& ns) {
  const std::size_t exponent = text.find_first_of("eE");
  if (text.empty()) return false;
  std::string shifted;
  if (exponent == std::string_view::npos) {
    shifted = std::string(text) + "e6";
  } else {
    std::int64_t power = 0;
    std::string_view digits = text.substr(exponent + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    if (read_integer(digits, power) != Parsed::fine || power > 99 || power < -99) return false;
    shifted = std::string(text.substr(0, exponent)) + "e" + std::to_string(power + 6);
  }
  return read_microseconds(shifted, ns) == Parsed::fine && ns < limit && ns > -limit;
}

// Empty, "nan" and "None" are what a null becomes on its way through a spreadsheet.
bool read_optional(std::string_view text, std::int64_t& value) {
  value = -1;
  if (text.empty() || text == "nan" || text == "NaN" || text == "None" || text == "null") return true;
  return read_integer(text, value) == Parsed::fine;
}

class OperationCsvReader {
 public:
  OperationCsvReader(const Source& source, const ReadOptions& options)
      : source_(source), options_(options), repairs_(source, options), plain_(source.bytes) {}

  std::vector<Trace> read() {
    std::string buffer;
    std::vector<char> piece(1u << 18);
    for (;;) {
      const std::size_t got = plain_.read(piece);
      if (options_.progress) options_.progress(plain_.share_read());
      bytes_ += got;
      buffer.append(piece.data(), got);
      std::size_t from = 0;
      for (std::size_t end = buffer.find('\n'); end != std::string::npos; end = buffer.find('\n', from)) {
        add_line(std::string_view(buffer).substr(from, end - from));
        from = end + 1;
      }
      buffer.erase(0, from);
      if (buffer.size() > longest_line)
        throw InputError(source_.name, "lines of at most 64 KiB", "a longer one", "is this a CSV file?");
      if (got < piece.size()) break;
    }
    if (!buffer.empty() && !plain_.damage().empty()) ++unreadable_;  // the last number may be cut
    else if (!buffer.empty()) add_line(buffer);
    return traces();
  }

 private:
  void add_line(std::string_view line) {
    ++lines_;
    if (lines_ == 1) separator_ = separator_of(line);
    split(line, separator_, cells_);
    if (cells_.size() == 1 && cells_[0].empty()) return;
    if (lines_ == 1) return read_header();
    ++rows_;
    OperationRecord row;
    if (cells_.size() != width_ || !read_row(row)) {
      ++unreadable_;
      return;
    }
    if (table_.operations.size() >= most_rows) {
      ++table_.report.events_left_out;
      return;
    }
    table_.operations.push_back(row);
  }

  void read_header() {
    if (!cells_.empty() && cells_[0].starts_with("\xef\xbb\xbf")) cells_[0].remove_prefix(3);
    width_ = cells_.size();
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const auto found = std::ranges::find(cells_, columns[c]);
      place_[c] = found == cells_.end() ? -1 : found - cells_.begin();
      if (place_[c] < 0 && c != tp_rank) table_.report.missing.push_back("column " + std::string(columns[c]));
    }
    if (place_[rank] < 0 && (place_[dp_rank] < 0 || place_[stage] < 0))
      throw InputError(source_.name, "a column \"rank\", or \"dp_rank\" and \"stage\"", "neither");
  }

  [[nodiscard]] std::string_view cell(Column column) const {
    return place_[column] < 0 ? std::string_view() : cells_[static_cast<std::size_t>(place_[column])];
  }

  bool read_number(Column column, std::int32_t& value) {
    std::int64_t wide = -1;
    // Neighbours (the next stage) are numbers, too.
    if (!read_optional(cell(column), wide) || wide >= std::numeric_limits<std::int32_t>::max() || wide < -1)
      return false;
    value = static_cast<std::int32_t>(wide);
    return true;
  }

  bool read_row(OperationRecord& row) {
    constexpr std::int64_t latest = std::int64_t{1} << 61, longest = std::int64_t{1} << 53;
    if (!read_seconds(cell(start_ts), latest, row.start_ns) || !read_seconds(cell(duration), longest, row.duration_ns))
      return false;
    if (row.duration_ns < 0 || cell(optype).empty()) return false;
    const bool numbers = read_number(tp_rank, row.tensor_rank) && read_optional(cell(rank), row.rank) &&
                         read_number(dp_rank, row.data_rank) && read_number(stage, row.stage) &&
                         read_number(step, row.step) && read_number(mc, row.chunk) &&
                         read_number(mb_id, row.micro_batch) && read_number(seq_id, row.sequence);
    if (!numbers || row.step < 0) return false;
    if (row.rank < 0) {
      const auto next = static_cast<std::int64_t>(workers_.size());
      row.rank = workers_.try_emplace({row.stage, row.data_rank}, next).first->second;
    }
    row.type = table_.type(cell(optype));
    if (table_.types.size() > most_types)
      throw InputError(source_.name, "at most 256 types of operations", "more", "is the column \"optype\" really one?");
    return true;
  }

  // Steps that overlap in time cannot be on one clock.
  [[nodiscard]] bool is_relative() const {
    std::map<std::int32_t, std::pair<std::int64_t, std::int64_t>> span;
    for (const OperationRecord& row : table_.operations) {
      const auto [entry, is_new] = span.try_emplace(row.step, row.start_ns, row.start_ns + row.duration_ns);
      entry->second.first = std::min(entry->second.first, row.start_ns);
      entry->second.second = std::max(entry->second.second, row.start_ns + row.duration_ns);
    }
    std::int64_t end = std::numeric_limits<std::int64_t>::min();
    for (const auto& [number, times] : span) {
      if (times.first < end) return true;
      end = times.second;
    }
    return false;
  }

  // Half of the operations of a job (one pass of one micro-batch, one transfer) do not last for minutes.
  void check_unit() const {
    std::vector<std::int64_t> durations;
    for (const OperationRecord& row : table_.operations) durations.push_back(row.duration_ns);
    const auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
    std::nth_element(durations.begin(), middle, durations.end());
    constexpr std::int64_t longest = 100'000'000'000;
    if (middle != durations.end() && *middle > longest)
      throw InputError(source_.name, "start_ts and duration in seconds",
                       "operations of " + text_of(Seconds(static_cast<double>(*middle) * 1e-9)) + " in the median",
                       "are they milliseconds or microseconds? divide them");
    if (durations.empty() && unreadable_ > 0)
      throw InputError(source_.name, "operations of a pipelined job, with start_ts and duration in seconds",
                       counted(unreadable_, "row") + " with too few cells or a number that cannot be");
  }

  std::vector<Trace> traces() {
    check_unit();
    if (!plain_.damage().empty()) repairs_.say("truncated: " + plain_.damage());
    repairs_.count(unreadable_, "row dropped", "rows dropped", "too few cells, or a number that is none");
    ReadReport& report = table_.report;
    report.repaired = repairs_.take();
    report.format = "operation-csv";
    report.good_for = "which worker and which stage of a pipeline sets the pace; layers need a trace of the framework";
    report.producer = "operations of a pipelined job (CSV)";
    report.bytes = bytes_;
    report.events_seen = rows_;
    report.missing.insert(report.missing.end(), {"kernels and operators", "sizes of the collectives", "world size"});
    report.assumed.push_back("times are seconds");
    table_.relative = is_relative();
    return traces_of(std::move(table_), source_);
  }

  static constexpr std::size_t longest_line = 1u << 16, most_rows = std::size_t{1} << 24, most_types = 256;
  const Source& source_;
  const ReadOptions& options_;
  Repairs repairs_;
  PlainText plain_;
  OperationTable table_;
  std::array<std::ptrdiff_t, columns.size()> place_{};
  std::vector<std::string_view> cells_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> workers_;
  char separator_ = ',';
  std::size_t width_ = 0;
  std::uint64_t lines_ = 0, rows_ = 0, unreadable_ = 0, bytes_ = 0;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.traces = OperationCsvReader(source, options).read();
  return reading;
}

}  // namespace

Format record() {
  return {"operation-csv", "operations of a pipelined job as CSV (dp_rank, stage, step, optype, start_ts, ...)",
          "ByteDance-Seed/StragglerAnalysis, data/", recognises, read};
}

}  // namespace stepcast::format::operation_csv
