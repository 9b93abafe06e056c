// What benchmarks print: logs of nccl-tests, OSU and perftest, and CSV tables, as measured collectives.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/benchmark_logs.hpp>
#include <stepcast/cluster/fit.hpp>
#include <stepcast/encodings/csv.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
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

/// A measured message: refuses what no benchmark can have measured, such as columns of another unit.
void check_point(double size, double seconds, const std::string& where) {
  constexpr double most_bytes = 0x1p50, least_time = 1e-9, most_time = 86400, most_rate = 100e12;
  if (!(size >= 1 && size <= most_bytes))
    throw InputError(where + " column size", "a message of 1 B to 1 PiB", text_of(Bytes(size)));
  if (!(seconds >= least_time && seconds <= most_time))
    throw InputError(where + " column time", "a time from a nanosecond to a day", text_of(Seconds(seconds)),
                     "look for a column of another unit");
  if (size / seconds > most_rate)
    throw InputError(where, "at most 100 TB/s, which no link exceeds",
                     text_of(Bytes(size)) + " in " + text_of(Seconds(seconds)) + ", which are " +
                         text_of(BytesPerSecond(size / seconds)),
                     "look for columns of another unit");
}

/// Points in any order, repeated sizes allowed: sorted, the median where a size occurs more than once. Times of one
/// size that contradict each other are not of one setting.
class Points {
 public:
  void add(double size, double seconds, const std::string& where) {
    check_point(size, seconds, where);
    times_[size].push_back(seconds);
  }
  [[nodiscard]] bool empty() const { return times_.empty(); }
  void move_to(MeasuredCollective& table, const std::string& where) {
    constexpr double most = 4;
    for (auto& [size, times] : times_) {
      std::sort(times.begin(), times.end());
      const std::size_t n = times.size();
      const std::size_t aside = n < 5 ? 0 : n / 4;  // outliers at either end; of a few times none is one
      const double low = times[aside], high = times[n - 1 - aside];
      if (high > most * low)
        throw InputError(where, "one time of a message of " + text_of(Bytes(size)),
                         text_of(Seconds(low)) + " and " + text_of(Seconds(high)),
                         "calibrate each setting by a log of its own");
      table.sizes.emplace_back(size);
      table.times.emplace_back(n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2);
    }
    times_.clear();
  }

 private:
  std::map<double, std::vector<double>> times_;
};

// --- nccl-tests -----------------------------------------------------------------------------------------------------

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// "[1,0]<stdout>:text" of mpirun --tag-output, also with a host name or a time in front of it, and "3: text" of srun
/// --label -> "text".
std::string_view without_prefix(std::string_view line) {
  const auto tag = line.find(">:");
  if (!line.empty() && line.front() == '[' && tag != std::string_view::npos) line.remove_prefix(tag + 2);
  const auto digits = std::find_if_not(line.begin(), line.end(), is_digit) - line.begin();
  if (digits > 0 && line.substr(static_cast<std::size_t>(digits)).starts_with(": "))
    line.remove_prefix(static_cast<std::size_t>(digits) + 2);
  const auto start = line.find_first_not_of(" \t");
  return start == std::string_view::npos ? std::string_view() : line.substr(start);
}

/// A whole number, as sizes and counts are.
bool is_whole(std::string_view word) { return !word.empty() && std::all_of(word.begin(), word.end(), is_digit); }

/// Of a table of numbers; messages of launchers and libraries may stand between its lines. A number that is no size
/// ("-8", "1e30") is one where numbers follow.
bool is_row(std::string_view line) {
  const std::vector<std::string_view> words = words_of(line);
  if (words.empty() || is_whole(words[0])) return !words.empty();
  const auto is_number = [](std::string_view word) {
    return word.find_first_not_of("+-0123456789.eE") == std::string_view::npos && std::ranges::any_of(word, is_digit);
  };
  return words.size() > 1 && is_number(words[0]) && is_number(words.back());
}

struct TestName {
  std::string_view name, operation;
};
constexpr TestName tests[] = {{"all_reduce", "all_reduce"},         {"all_gather", "all_gather"},
                              {"reduce_scatter", "reduce_scatter"}, {"broadcast", "broadcast"},
                              {"alltoall", "all_to_all"},           {"sendrecv", "send"},
                              {"allreduce", "all_reduce"},          {"allgather", "all_gather"},
                              {"reducescatter", "reduce_scatter"},  {"all_to_all", "all_to_all"}};

/// The operation whose test is named in the text, with `ending` behind it: "all_reduce_perf" anywhere -> "all_reduce";
/// empty if there is none.
std::string test_named_in(std::string_view text, std::string_view ending) {
  for (const auto& [name, operation] : tests)
    if (text.find(std::string(name) + std::string(ending)) != std::string_view::npos) return std::string(operation);
  return {};
}

/// "alltoall" and "sendrecv" as our operations are called; other words stay.
std::string operation_of_cell(const std::string& cell) {
  for (const auto& [name, operation] : tests)
    if (name == cell) return std::string(operation);
  return cell;
}

class NcclTestsReader {
 public:
  NcclTestsReader(std::string_view source, std::string_view assumed, std::int64_t workers)
      : source_(source), assumed_(assumed), workers_(workers) {}

  std::vector<MeasuredCollective> read(std::string_view text) {
    for (Lines lines(text); lines.next();) {
      const std::string_view line = without_prefix(lines.line);
      if (line.empty()) continue;
      if (line.find("RDMA_Write BW Test") != std::string_view::npos) begin_other("perftest", "send");
      if (line.starts_with("#bytes") && program_ == "perftest") {
        // #bytes #iterations BW peak[MB/sec] BW average[MB/sec]: perftest's megabytes are 2^20 bytes.
        begin_rates(3, line.find("Gb/sec") != std::string_view::npos ? 1e9 / 8 : 1 << 20, 5);
        continue;
      }
      if (line.starts_with("#bytes") && program_ == "IMB") {
        begin_imb(words_of(line));
        continue;
      }
      if (read_gloo(line, place(source_, lines.number))) continue;
      if (const std::string test = test_named_in(line, "_perf"); !test.empty()) {
        if (!operation_.empty() && test != operation_) finish();  // the table before was cut off
        operation_ = test;
      }
      if (line.front() == '#') {
        comment(words_of(line.substr(1)));
      } else if (time_column_ && is_row(line)) {
        row(words_of(line), place(source_, lines.number));
      }
    }
    finish();
    if (tables_.empty()) {
      throw InputError(std::string(source_),
                       "an nccl-tests log with a table of size, count, type, ..., time, or one of OSU, ib_write_bw, "
                       "IMB-MPI1 or gloo's "
                       "benchmark",
                       text.empty() ? "an empty file" : "no such table");
    }
    return std::move(tables_);
  }

 private:
  void comment(const std::vector<std::string_view>& words) {
    if (words.empty()) return;
    if (words[0] == "nThread" || words[0] == "Using") {
      program_ = "nccl-tests";
      // The head of a run: a table may follow with other ranks than the last one.
      finish();
      ranks_ = 0;
      hosts_.clear();
      if (words[0] == "nThread") per_process_ = count_after(words, "nThread") * count_after(words, "nGpus");
    } else if (words[0] == "Rank" && words.size() > 1) {
      ++ranks_;
      const auto on = std::find(words.begin(), words.end(), "on");
      if (on != words.end() && on + 1 != words.end()) hosts_.emplace(*(on + 1));
    } else if (words[0] == "size" && words.size() > 4) {
      finish();
      begin_times(words, 1e-6);
    } else if (words[0] == "bytes" && words.size() > 4 && words[1] == "N") {
      begin_times(words, 1e-3);  // the first nccl-tests, in milliseconds
    } else if (words[0] == "OSU") {
      begin_osu(words);
    } else if (words[0] == "Benchmarking" && words.size() > 1) {
      begin_imb_test(words[1]);
    } else if (words[0] == "#processes" && words.size() > 2 && program_ == "IMB") {
      ranks_ = integer_of(words[2], std::string(source_of_head), 1, 1'000'000);
    } else if (words[0] == "Size" && program_.starts_with("OSU")) {
      const bool rates = words.size() > 1 && words[1] == "Bandwidth";
      if (!rates && words.size() > 1 && !words[1].starts_with("Avg") && !words[1].starts_with("Latency"))
        throw InputError(std::string(source_), "a column 'Latency', 'Avg Latency' or 'Bandwidth' behind the size",
                         in_quotes(words[1]), "of tests that overlap compute give those of the plain collective");
      if (rates) begin_rates(1, 1e6, 2);
      else begin_times({"Size", "time"}, 1e-6);
    } else if (words[0] == "Out" || words[0] == "Avg") {
      finish();
    }
  }

  void begin_times(const std::vector<std::string_view>& words, double unit) {
    finish();
    const auto time = std::find(words.begin(), words.end(), "time");
    if (time != words.end()) time_column_ = static_cast<std::size_t>(time - words.begin());
    columns_ = words.size();
    seconds_per_unit_ = unit;
    bytes_per_second_ = 0;
  }
  /// A column of rates: a message takes its size over its rate.
  void begin_rates(std::size_t column, double bytes_per_second, std::size_t columns) {
    finish();
    time_column_ = column;
    columns_ = columns;
    bytes_per_second_ = bytes_per_second;
  }
  /// Another program's log, which lists neither ranks nor hosts.
  void begin_other(std::string_view program, std::string_view operation) {
    finish();
    program_ = program;
    operation_ = operation;
    ranks_ = operation == "send" ? 2 : 0;
    hosts_.clear();
    per_process_ = parts_ = 1;
  }
  /// "OSU MPI-CUDA Allreduce Latency Test v7.3"; without a collective's name two ranks send to one another.
  void begin_osu(const std::vector<std::string_view>& words) {
    const auto names = [&](std::string_view word) {
      return std::any_of(words.begin(), words.end(), [&](std::string_view w) {
        return lower_case(w) == word || lower_case(w) == "i" + std::string(word);
      });
    };
    if (names("allreduce")) return begin_other("OSU", "all_reduce");
    if (names("reduce_scatter")) return begin_other("OSU", "reduce_scatter");
    if (names("bcast") || names("broadcast")) return begin_other("OSU", "broadcast");
    if (names("allgather") || names("alltoall") || names("all-to-all")) {
      if (workers_ < 2)
        throw InputError(std::string(source_),
                         "the number of ranks (2 or more), of whose buffer OSU's sizes are a part",
                         workers_ > 0 ? std::to_string(workers_) : "nothing",
                         "say it by --workers N, or write them times the ranks to a CSV with the columns operation, "
                         "workers, bytes, time_us");
      begin_other("OSU", names("allgather") ? "all_gather" : "all_to_all");
      ranks_ = parts_ = workers_;
      return;
    }
    // What else two ranks or many do is told in other quantities.
    std::string title;
    bool of_pair = true, by_library = false;
    for (const std::string_view given : words) {
      const std::string word = lower_case(given);
      const bool version = word.size() > 1 && word[0] == 'v' && is_digit(word[1]);
      const bool library = word.starts_with("nccl") || word.starts_with("rccl");  // "NCCL-CUDA"
      by_library = by_library || library;
      const bool known = word == "osu" || word.starts_with("mpi") || library || word == "latency" ||
                         word == "bandwidth" || word == "test";
      of_pair = of_pair && (known || version);
      title += (title.empty() ? "" : " ") + std::string(given);
    }
    if (!of_pair)
      throw InputError(std::string(source_),
                       "OSU's test of allreduce, reduce_scatter, bcast, allgather or alltoall, or of latency or "
                       "bandwidth of two ranks in one direction",
                       in_quotes(title));
    begin_other(by_library ? "OSU with NCCL" : "OSU", "send");
  }

  /// "# Benchmarking Allreduce" of IMB-MPI1, whose other tests are left out.
  void begin_imb_test(std::string_view test) {
    constexpr TestName known[] = {{"Allreduce", "all_reduce"}, {"Reduce_scatter", "reduce_scatter"},
                                  {"Bcast", "broadcast"},      {"Allgather", "all_gather"},
                                  {"Alltoall", "all_to_all"},  {"PingPong", "send"}};
    finish();
    const auto* found = std::ranges::find(known, test, &TestName::name);
    program_ = "IMB";
    begin_other("IMB", found != std::end(known) ? found->operation : "");
  }
  /// #bytes #repetitions t_min[usec] t_max[usec] t_avg[usec], or t[usec] of two ranks. Sizes of an all-gather and an
  /// all-to-all are one rank's part.
  void begin_imb(const std::vector<std::string_view>& words) {
    finish();
    if (operation_.empty()) return;
    auto time = std::ranges::find(words, "t_avg[usec]");
    if (time == words.end()) time = std::ranges::find(words, "t[usec]");
    if (time == words.end()) return;
    time_column_ = static_cast<std::size_t>(time - words.begin());
    columns_ = *time_column_ + 1;
    seconds_per_unit_ = 1e-6, bytes_per_second_ = 0;
    parts_ = operation_ == "all_gather" || operation_ == "all_to_all" ? std::max<std::int64_t>(1, ranks_) : 1;
  }

  /// The head of gloo's benchmark: "Algorithm:   allreduce_ring", "Options:     processes=4, inputs=1", and the columns
  /// "size (B)" or "elements" (of 4 bytes), min, p50, p99 and max (us). True if the line is of it.
  bool read_gloo(std::string_view line, const std::string& where) {
    const std::vector<std::string_view> words = words_of(line);
    if (words[0] == "Algorithm:" && words.size() > 1) {
      finish();
      const std::string operation = test_named_in(words[1], "");
      if (operation.empty() || operation == "send")
        throw InputError(where, "gloo's allreduce, allgather, reduce_scatter, alltoall or broadcast",
                         in_quotes(words[1]));
      begin_other("gloo", operation);
      ranks_ = 0;
      return true;
    }
    if (program_ != "gloo") return false;
    if (words[0] == "Options:") {
      constexpr std::string_view key = "processes=";
      for (const std::string_view word : words)
        if (word.starts_with(key))
          ranks_ = integer_of(word.substr(key.size(), word.find(',') - key.size()), where, 1, 1'000'000);
      return true;
    }
    const bool elements = words[0] == "elements";
    if (!elements && !(words[0] == "size" && words.size() > 1 && words[1] == "(B)")) return false;
    finish();
    time_column_ = 2;  // the median
    columns_ = 5;
    seconds_per_unit_ = 1e-6, bytes_per_second_ = 0;
    constexpr std::int64_t bytes_of_float = 4;
    parts_ = elements ? bytes_of_float : 1;
    if (operation_ == "all_gather" || operation_ == "all_to_all") parts_ *= std::max<std::int64_t>(1, ranks_);
    return true;
  }

  void row(const std::vector<std::string_view>& words, const std::string& where) {
    const std::string column = where + (bytes_per_second_ > 0 ? " column bandwidth" : " column time");
    if (words.size() < columns_) {
      throw InputError(where, std::to_string(columns_) + " columns", std::to_string(words.size()),
                       "the log is cut off or mixed up");
    }
    if (points_.empty() && rates_.empty()) first_row_ = where, sums_ = words.size() > 3 && words[3] != "none";
    if (*time_column_ + 2 < words.size()) rate_ = words[*time_column_ + 1], bus_rate_ = words[*time_column_ + 2];
    if (words[0] == "0") return;  // of a message without bytes: a rank's part of a small one
    const double size = positive_number(words[0], where + " column size") * static_cast<double>(parts_);
    const double value = positive_number(words[*time_column_], column);
    if (bytes_per_second_ > 0) {
      check_point(size, size / (value * bytes_per_second_), where);
      rates_.emplace_back(size, value * bytes_per_second_);
    } else {
      points_.add(size, value * seconds_per_unit_, where);
    }
  }

  void finish() {
    // Messages of a test of bandwidth overlap: their rate tells a time where it is the link's, not the sender's.
    double most = 0;
    for (const auto& [size, rate] : rates_) most = std::max(most, rate);
    for (const auto& [size, rate] : rates_)
      if (rate >= most / 2) points_.add(size, size / rate, first_row_);
    rates_.clear();
    if (!points_.empty()) {
      MeasuredCollective table;
      table.operation = operation_of_table();
      table.workers = ranks_;
      const auto hosts = static_cast<std::int64_t>(hosts_.size());
      if (hosts > 0 && ranks_ % hosts == 0) table.nodes = hosts;
      table.devices_per_process = std::max<std::int64_t>(1, std::min(per_process_, ranks_));
      points_.move_to(table, first_row_);
      if (program_ != "nccl-tests" && operation_ == "send") table.nodes = 2;
      table.provenance = std::string(program_) + " log " + std::string(source_);
      if (program_ == "nccl-tests") table.provenance += ", out of place";
      tables_.push_back(std::move(table));
    }
    time_column_.reset();
  }

  /// The number behind a word of the head, 1 if it is not there.
  static std::int64_t count_after(const std::vector<std::string_view>& words, std::string_view name) {
    const auto at = std::find(words.begin(), words.end(), name);
    const bool said = at != words.end() && at + 1 != words.end() && is_whole(*(at + 1)) && (at + 1)->size() < 7;
    return said ? std::max<std::int64_t>(1, integer_of(*(at + 1), std::string(source_of_head), 0, 1'000'000)) : 1;
  }

  /// The test that the log names; else the one that the caller says, that the file's name says, or that follows from
  /// bus bandwidth over bandwidth: 2(P-1)/P of an all-reduce, (P-1)/P of a reduce-scatter.
  [[nodiscard]] std::string operation_of_table() const {
    if (!operation_.empty()) return operation_;
    if (!assumed_.empty()) return std::string(assumed_);
    const std::string_view name = source_.substr(source_.find_last_of('/') + 1);
    if (const std::string test = test_named_in(name, ""); !test.empty()) return test;
    if (!sums_)
      throw InputError(first_row_, "a log that names its test, such as 'all_gather_perf'",
                       "a table without a reduction", "say it by --operation all_gather");
    return ranks_ > 1 && bus_over_rate() < 0.999 ? "reduce_scatter" : "all_reduce";
  }

  /// Of the last row, whose numbers have the most digits.
  [[nodiscard]] double bus_over_rate() const {
    const double rate = number_of(rate_, first_row_), bus = number_of(bus_rate_, first_row_);
    return rate > 0 ? bus / rate : 1;
  }

  static constexpr std::string_view source_of_head = "the head of the log";
  std::string_view source_, assumed_;
  std::int64_t workers_ = 0;  ///< that somebody said
  std::string operation_, first_row_;
  std::string rate_{"0"}, bus_rate_{"0"};  ///< of the last row
  bool sums_ = true;
  std::string_view program_ = "nccl-tests";
  double seconds_per_unit_ = 1e-6, bytes_per_second_ = 0;  ///< bytes_per_second_: 0 where the column is one of times
  std::vector<std::pair<double, double>> rates_;           ///< size and bytes a second
  std::int64_t ranks_ = 0, per_process_ = 1, parts_ = 1;   ///< parts_: of the buffer, of which a size is one
  std::set<std::string, std::less<>> hosts_;
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
  std::size_t size = none, time = none, operation = none, workers = none, nodes = none;
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
    } else if (any_of(words, {"nodes", "hosts", "machines"}) && words.size() == 1) {
      c.nodes = i;
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

std::vector<MeasuredCollective> collectives_of_nccl_tests(std::string_view text, std::string_view source,
                                                          std::string_view assumed, std::int64_t workers) {
  return NcclTestsReader(source, assumed, workers).read(text);
}

double bus_factor_of(Operation op, std::int64_t workers) {
  const double others = static_cast<double>(workers - 1) / static_cast<double>(workers);
  switch (op) {
    case Operation::all_reduce:
      return 2 * others;
    case Operation::all_to_all:
    case Operation::reduce_scatter:
    case Operation::all_gather:
      return others;
    default:
      return 1;
  }
}

bool measures_the_link(const MeasuredCollective& table) {
  const std::string& by = table.provenance;
  return table.operation == "send" &&
         (by.starts_with("perftest log ") || by.starts_with("OSU log ") || by.starts_with("IMB log "));
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
    if (columns->operation != Columns::none) row.operation = operation_of_cell(fields[columns->operation]);
    if (!operation_of(row.operation))
      throw InputError(column(columns->operation), "an operation, such as all_reduce or all_gather",
                       in_quotes(row.operation), "leave such rows out");
    if (columns->workers != Columns::none) {
      row.workers = integer_of(fields[columns->workers], column(columns->workers), 1, 100'000'000);
    }
    if (columns->nodes != Columns::none) {
      row.nodes = integer_of(fields[columns->nodes], column(columns->nodes), 1, 100'000'000);
      if (row.workers > 0 && row.workers % row.nodes != 0)
        throw InputError(column(columns->nodes), "machines of equally many workers", fields[columns->nodes]);
    }
    std::string settings;
    for (const std::size_t i : columns->setting) { settings += ", " + columns->names[i] + " " + fields[i]; }
    const std::string key =
        row.operation + "\n" + std::to_string(row.workers) + "\n" + std::to_string(row.nodes) + "\n" + settings;
    const auto [group, fresh] = groups.try_emplace(key, tables.size(), Points());
    if (fresh) {
      row.provenance = std::string(source) + settings;
      tables.emplace_back(key, row);
    }
    group->second.second.add(positive_number(fields[columns->size], column(columns->size)) * columns->size_unit,
                             positive_number(fields[columns->time], column(columns->time)) * columns->time_unit, where);
  }
  if (tables.empty()) {
    throw InputError(std::string(source), "a CSV table with a header and at least one row",
                     text.empty() ? "an empty file" : (columns ? "a header only" : "comments only"));
  }
  std::vector<MeasuredCollective> result;
  for (auto& [key, table] : tables) {
    groups.at(key).second.move_to(table, std::string(source));
    result.push_back(std::move(table));
  }
  return result;
}

}  // namespace stepcast
