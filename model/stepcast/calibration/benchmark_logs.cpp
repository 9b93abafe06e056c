// What benchmarks print: nccl-tests logs and CSV tables, as measured collectives.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/benchmark_logs.hpp>
#include <stepcast/cluster/fit.hpp>
#include <stepcast/encodings/csv.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace stepcast {
namespace {

/// Iterates over lines with their numbers; a carriage return at the end is dropped.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  bool next() {
    if (rest_.empty()) return false;
    const auto end = rest_.find('\n');
    line = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    ++number;
    return true;
  }
  std::string_view line;
  std::size_t number = 0;

 private:
  std::string_view rest_;
};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < line.size();) {
    const auto start = line.find_first_not_of(" \t", at);
    if (start == std::string_view::npos) break;
    at = std::min(line.find_first_of(" \t", start), line.size());
    words.push_back(line.substr(start, at - start));
  }
  return words;
}

std::string place(std::string_view source, std::size_t line) {
  return std::string(source) + ":" + std::to_string(line);
}

double positive_number(std::string_view text, const std::string& where) {
  const double value = number_of(text, where);
  if (!(value > 0)) throw InputError(where, "a number above zero", in_quotes(text));
  return value;
}

/// Points in any order, repeated sizes allowed: sorted, the median where a size occurs more than once.
class Points {
 public:
  void add(double size, double seconds) { times_[size].push_back(seconds); }
  [[nodiscard]] bool empty() const { return times_.empty(); }
  void move_to(MeasuredCollective& table) {
    for (auto& [size, times] : times_) {
      std::sort(times.begin(), times.end());
      const std::size_t n = times.size();
      table.sizes.emplace_back(size);
      table.times.emplace_back(n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2);
    }
    times_.clear();
  }

 private:
  std::map<double, std::vector<double>> times_;
};

// --- nccl-tests -----------------------------------------------------------------------------------------------------

/// "[1,0]<stdout>:text" of mpirun --tag-output, also with a host name or a time in front of it -> "text".
std::string_view without_prefix(std::string_view line) {
  const auto tag = line.find(">:");
  if (!line.empty() && line.front() == '[' && tag != std::string_view::npos) line.remove_prefix(tag + 2);
  const auto start = line.find_first_not_of(" \t");
  return start == std::string_view::npos ? std::string_view() : line.substr(start);
}

/// "all_reduce_perf" anywhere in the line -> "all_reduce"; empty if no test is named.
std::string test_named_in(std::string_view line) {
  static constexpr std::pair<std::string_view, std::string_view> tests[] = {
      {"all_reduce_perf", "all_reduce"}, {"all_gather_perf", "all_gather"}, {"reduce_scatter_perf", "reduce_scatter"},
      {"broadcast_perf", "broadcast"},   {"alltoall_perf", "all_to_all"},   {"sendrecv_perf", "send"}};
  for (const auto& [name, operation] : tests) {
    if (line.find(name) != std::string_view::npos) return std::string(operation);
  }
  return {};
}

class NcclTestsReader {
 public:
  explicit NcclTestsReader(std::string_view source) : source_(source) {}

  std::vector<MeasuredCollective> read(std::string_view text) {
    for (Lines lines(text); lines.next();) {
      const std::string_view line = without_prefix(lines.line);
      if (line.empty()) continue;
      if (const std::string test = test_named_in(line); !test.empty()) operation_ = test;
      if (line.front() == '#') {
        comment(words_of(line.substr(1)));
      } else if (time_column_ && std::isdigit(static_cast<unsigned char>(line.front()))) {
        row(words_of(line), place(source_, lines.number));
      }
    }
    finish();
    if (tables_.empty()) {
      throw InputError(std::string(source_), "an nccl-tests log with a table of size, count, type, ..., time",
                       text.empty() ? "an empty file" : "no such table");
    }
    return std::move(tables_);
  }

 private:
  void comment(const std::vector<std::string_view>& words) {
    if (words.empty()) return;
    if (words[0] == "nThread" || words[0] == "Using") {
      // The head of a run: a table may follow with other ranks than the last one.
      finish();
      ranks_ = 0;
    } else if (words[0] == "Rank" && words.size() > 1) {
      ++ranks_;
    } else if (words[0] == "size" && words.size() > 4) {
      finish();
      const auto time = std::find(words.begin(), words.end(), "time");
      if (time != words.end()) time_column_ = static_cast<std::size_t>(time - words.begin());
      columns_ = words.size();
    } else if (words[0] == "Out" || words[0] == "Avg") {
      finish();
    }
  }

  void row(const std::vector<std::string_view>& words, const std::string& where) {
    if (words.size() < columns_) {
      throw InputError(where, std::to_string(columns_) + " columns", std::to_string(words.size()),
                       "the log is cut off or mixed up");
    }
    if (operation_.empty() && words[3] == "none") {
      throw InputError(where, "a log that names its test, such as 'all_gather_perf'", "a table without a reduction",
                       "add a line '# all_gather_perf'");
    }
    points_.add(positive_number(words[0], where + " column size"),
                positive_number(words[*time_column_], where + " column time") * 1e-6);
  }

  void finish() {
    if (!points_.empty()) {
      MeasuredCollective table;
      if (!operation_.empty()) table.operation = operation_;
      table.workers = ranks_;
      points_.move_to(table);
      table.provenance = "nccl-tests log " + std::string(source_) + ", out of place";
      tables_.push_back(std::move(table));
    }
    time_column_.reset();
  }

  std::string_view source_;
  std::string operation_;
  std::int64_t ranks_ = 0;
  std::size_t columns_ = 0;
  std::optional<std::size_t> time_column_;  ///< set while inside a table
  Points points_;
  std::vector<MeasuredCollective> tables_;
};

// --- CSV ------------------------------------------------------------------------------------------------------------

bool any_of(const std::vector<std::string>& words, std::initializer_list<std::string_view> wanted) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& w) { return std::find(wanted.begin(), wanted.end(), w) != wanted.end(); });
}

std::optional<double> first_unit(const std::vector<std::string>& words,
                                 std::optional<double> (*per_unit)(std::string_view)) {
  for (const std::string& word : words)
    if (const std::optional<double> factor = per_unit(word)) return factor;
  return {};
}

/// Seconds per unit if the words name a time with its unit: "time_us", "ms_median", "latency (us)", "ms".
std::optional<double> time_unit(const std::vector<std::string>& words) {
  if (words.size() > 1 && !any_of(words, {"time", "median", "mean", "avg", "latency", "duration"})) return {};
  return first_unit(words, seconds_per_unit);
}

/// Bytes per unit if the words name a size: "bytes", "size", "size(B)", "size_mib".
std::optional<double> size_unit(const std::vector<std::string>& words) {
  if (words.size() == 1 && words[0] == "size") return 1;
  if (words.size() == 1 ? words[0] != "bytes" : !any_of(words, {"size", "message", "buffer"})) return {};
  return first_unit(words, bytes_per_unit);
}

struct Columns {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::size_t size = none, time = none, operation = none, workers = none;
  double size_unit = 1, time_unit = 1;
  std::vector<std::size_t> setting;  ///< what else tells one experiment from another: link, network, pin mode
  char separator = ',';
  std::vector<std::string> names;
};

Columns columns_of(std::string_view header, const std::string& where) {
  Columns c;
  c.separator = separator_of(header);
  c.names = cells_of(header, c.separator);
  for (std::size_t i = 0; i < c.names.size(); ++i) {
    const auto words = title_words(c.names[i]);
    if (const auto unit = size_unit(words); unit && c.size == Columns::none) {
      c.size = i;
      c.size_unit = *unit;
    } else if (const auto time = time_unit(words); time && c.time == Columns::none) {
      c.time = i;
      c.time_unit = *time;
    } else if (any_of(words, {"op", "operation", "collective"}) && c.operation == Columns::none) {
      c.operation = i;
    } else if (any_of(words, {"world", "workers", "ranks", "gpus", "nranks"}) && words.size() == 1) {
      c.workers = i;
    } else if (any_of(words, {"link", "network", "pin"})) {
      c.setting.push_back(i);
    }
  }
  const std::string found = "the columns '" + std::string(header) + "'";
  if (c.size == Columns::none) throw InputError(where, "a column 'bytes' or 'size'", found);
  if (c.time == Columns::none) {
    throw InputError(where, "a column of times with its unit, such as 'time_us' or 'ms_median'", found);
  }
  return c;
}

}  // namespace

std::vector<MeasuredCollective> collectives_of_nccl_tests(std::string_view text, std::string_view source) {
  return NcclTestsReader(source).read(text);
}

std::vector<MeasuredCollective> collectives_of_csv(std::string_view text, std::string_view source) {
  std::optional<Columns> columns;
  std::vector<std::pair<std::string, MeasuredCollective>> tables;  // by settings, in order of appearance
  std::map<std::string, std::pair<std::size_t, Points>> groups;
  for (Lines lines(text); lines.next();) {
    if (lines.line.empty() || lines.line.front() == '#') continue;
    const std::string where = place(source, lines.number);
    if (!columns) {
      columns = columns_of(lines.line, where);
      continue;
    }
    const std::vector<std::string> fields = cells_of(lines.line, columns->separator);
    if (fields.size() != columns->names.size()) {
      throw InputError(where, std::to_string(columns->names.size()) + " fields", std::to_string(fields.size()),
                       "the file may be cut off");
    }
    const auto column = [&](std::size_t i) { return where + " column " + columns->names[i]; };
    MeasuredCollective row;
    if (columns->operation != Columns::none) row.operation = fields[columns->operation];
    if (columns->workers != Columns::none) {
      row.workers = integer_of(fields[columns->workers], column(columns->workers), 1, 100'000'000);
    }
    std::string settings;
    for (const std::size_t i : columns->setting) { settings += ", " + columns->names[i] + " " + fields[i]; }
    const std::string key = row.operation + "\n" + std::to_string(row.workers) + "\n" + settings;
    const auto [group, fresh] = groups.try_emplace(key, tables.size(), Points());
    if (fresh) {
      row.provenance = std::string(source) + settings;
      tables.emplace_back(key, row);
    }
    group->second.second.add(positive_number(fields[columns->size], column(columns->size)) * columns->size_unit,
                             positive_number(fields[columns->time], column(columns->time)) * columns->time_unit);
  }
  if (tables.empty()) {
    throw InputError(std::string(source), "a CSV table with a header and at least one row",
                     text.empty() ? "an empty file" : (columns ? "a header only" : "comments only"));
  }
  std::vector<MeasuredCollective> result;
  for (auto& [key, table] : tables) {
    groups.at(key).second.move_to(table);
    result.push_back(std::move(table));
  }
  return result;
}

}  // namespace stepcast
