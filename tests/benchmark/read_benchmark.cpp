// How long reading takes, against a bare walk of the same bytes by the same parser, and against other readers.
//
//   read_benchmark [--size BYTES] [--program stepcast] [--runs N] TRACE [MODEL]
//
// Makes one large trace of TRACE (1 GB unless --size says otherwise), plain and gzipped, in a temporary folder that it
// removes: the events are repeated with later times, other ids and higher step numbers. Then, in turns, N times (5):
// the bare walk of the file (file -> sums, windows of 256 KiB, one thread), trace_of, and `stepcast profile` as a
// program of its own if --program is given (MODEL for its --model). Shown are medians, their ratios to the bare walk,
// and the peak memory of a process that does nothing else. The bare walk looks at ph, name, ts and dur and at every key
// of args, keeps nothing, and is what no reader on this parser and one core can beat. Slower readers (Python's json,
// nlohmann::json, HolisticTraceAnalysis where it is installed) read TRACE itself, and their time is scaled by size.
#include <stepcast/base/error.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/encodings/inflate.hpp>

#include <simdjson.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t window = 1u << 18;

// ---- the large file ----

std::string plain_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string stored{std::istreambuf_iterator<char>(file), {}};
  stepcast::PlainText plain(std::as_bytes(std::span(stored)));
  std::string text;
  for (std::size_t size = 0;; size = text.size()) {
    text.resize(size + window);
    const std::size_t got = plain.read(std::span(text.data() + size, window));
    text.resize(size + got);
    if (got < window) return text;
  }
}

// A number in the text that differs from copy to copy.
struct Counter {
  std::size_t at = 0, size = 0;
  std::int64_t value = 0, step = 0;
};

std::vector<Counter> counters_of(std::string_view text) {
  struct Kind {
    std::string_view before;
    std::int64_t step;
  };
  const Kind kinds[] = {{"\"ts\":", 0},
                        {"\"correlation\":", 1 << 20},
                        {"\"External id\":", 1 << 20},
                        {"\"Sequence number\":", 1 << 16},
                        {"\"id\":", 1 << 20},
                        {"ProfilerStep#", 0}};
  std::vector<Counter> counters;
  std::int64_t first = INT64_MAX, last = 0, lowest = INT64_MAX, highest = 0;
  for (const Kind& kind : kinds)
    for (std::size_t at = text.find(kind.before); at != std::string_view::npos; at = text.find(kind.before, at + 1)) {
      const std::size_t behind = at + kind.before.size();
      const std::size_t begin = behind + (text.substr(behind, 1) == " ");
      const std::size_t end = text.find_first_not_of("0123456789", begin);
      if (end == begin || end == std::string_view::npos || end - begin > 18) continue;
      const std::int64_t value = std::stoll(std::string(text.substr(begin, end - begin)));
      const bool is_time = &kind == &kinds[0], is_step = &kind == &kinds[5];
      if (is_time && value > 0) first = std::min(first, value), last = std::max(last, value);
      if (is_step) lowest = std::min(lowest, value), highest = std::max(highest, value);
      if (!is_time || value > 0)
        counters.push_back({begin, end - begin, value, is_time ? -1 : is_step ? -2 : kind.step});
    }
  // Copies follow one another with half a second between them.
  for (Counter& c : counters)
    c.step = c.step == -1 ? last - first + 500'000 : c.step == -2 ? highest - lowest + 1 : c.step;
  std::ranges::sort(counters, {}, &Counter::at);
  return counters;
}

void write_large(const std::string& text, std::size_t size, const std::string& path) {
  const std::size_t begin = text.find('[', text.find("\"traceEvents\"")) + 1,
                    end = text.rfind('}', text.rfind(']')) + 1;
  if (begin == 0 || end <= begin) throw std::runtime_error("the trace holds no traceEvents");
  const std::string_view events = std::string_view(text).substr(begin, end - begin);
  const std::vector<Counter> counters = counters_of(events);
  std::ofstream out(path, std::ios::binary);
  out << std::string_view(text).substr(0, begin);
  const auto copies = static_cast<std::int64_t>(std::max<std::size_t>(1, size / events.size()));
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    if (copy > 0) out << ',';
    std::size_t done = 0;
    for (const Counter& c : counters) {
      out << events.substr(done, c.at - done) << c.value + copy * c.step;
      done = c.at + c.size;
    }
    out << events.substr(done);
  }
  out << std::string_view(text).substr(end);
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

// ---- readers ----

/// A file in memory, as the command line maps it.
class Mapped {
 public:
  explicit Mapped(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY);
    struct stat status {};
    if (file < 0 || ::fstat(file, &status) != 0) throw std::runtime_error("cannot read " + path);
    size_ = static_cast<std::size_t>(status.st_size);
    data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    ::close(file);
    if (data_ == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() { ::munmap(data_, size_); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  void release(std::size_t count) const { ::madvise(data_, count & ~std::size_t{4095}, MADV_DONTNEED); }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// Sum of what was looked at, so that the compiler keeps the walk.
std::size_t walk_window(simdjson::ondemand::parser& parser, const char* text, std::size_t size, std::size_t room) {
  std::size_t seen = 0;
  auto document = parser.iterate(text, size, room);
  for (auto element : document.get_array()) {
    for (auto field : element.get_object()) {
      const char* const key = field.key().value().raw();
      if (std::memcmp(key, "args\"", 5) == 0) {
        for (auto argument : field.value().get_object())
          seen += static_cast<unsigned char>(*argument.key().value().raw());
      } else if (std::memcmp(key, "ph\"", 3) == 0 || std::memcmp(key, "name\"", 5) == 0 ||
                 std::memcmp(key, "ts\"", 3) == 0 || std::memcmp(key, "dur\"", 4) == 0) {
        seen += field.value().raw_json_token().value().size();
      }
    }
    ++seen;
  }
  return seen;
}

// The comma behind the last event in the text: "}" <white space> "," <white space> "{".
std::size_t last_comma(std::string_view text) {
  const char* const space = " \t\r\n";
  for (std::size_t brace = text.rfind('}'); brace != std::string_view::npos && brace > 0;
       brace = text.rfind('}', brace - 1)) {
    const std::size_t comma = text.find_first_not_of(space, brace + 1);
    if (comma == std::string_view::npos || text[comma] != ',') continue;
    const std::size_t next = text.find_first_not_of(space, comma + 1);
    if (next != std::string_view::npos && text[next] == '{') return comma;
  }
  return std::string_view::npos;
}

std::size_t bare_walk(const std::string& path) {
  const Mapped file(path);
  stepcast::PlainText plain(file.bytes(), [&](std::size_t count) { file.release(count); });
  simdjson::ondemand::parser parser;
  std::vector<char> text(2 * window + simdjson::SIMDJSON_PADDING);
  std::size_t seen = 0, have = 1;
  bool in_events = false;
  for (bool ended = false; !ended;) {
    const std::size_t wanted = window + 1 - std::min(have, window);
    const std::size_t got = plain.read(std::span(text.data() + have, wanted));
    ended = got < wanted;
    have += got;
    std::size_t begin = 1;
    if (!in_events) {
      const std::string_view head(text.data(), have);
      begin = head.find('[', head.find("\"traceEvents\"")) + 1;
      if (begin == 0) throw std::runtime_error("no events at the beginning");
      in_events = true;
    }
    const std::string_view events(text.data() + begin, have - begin);
    const std::size_t comma = ended ? events.rfind(']') : last_comma(events);
    if (comma == std::string_view::npos) throw std::runtime_error("an event that is longer than a window");
    const char kept = text[begin + comma];
    text[begin - 1] = '[';
    text[begin + comma] = ']';
    seen += walk_window(parser, text.data() + begin - 1, comma + 2, comma + 2 + simdjson::SIMDJSON_PADDING);
    text[begin + comma] = kept;
    if (ended) break;
    const std::size_t rest = have - (begin + comma + 1);
    std::memmove(text.data() + 1, text.data() + begin + comma + 1, rest);
    have = 1 + rest;
  }
  return seen;
}

std::size_t trace_of(const std::string& path) {
  const Mapped file(path);
  const auto release = [&](std::size_t count) { file.release(count); };
  return stepcast::trace_of({path, file.bytes(), release}).events.size();
}

// ---- measuring ----

struct Run {
  double seconds = 0;
  double peak_megabytes = 0;
  bool answered = false;
};

// Time and peak memory of `work` in a process of its own.
Run run_of(const std::function<bool()>& work) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    bool answered = false;
    try {
      answered = work();
    } catch (const std::exception& error) { std::fprintf(stderr, "%s\n", error.what()); }
    std::_Exit(answered ? 0 : 1);
  }
  int status = 0;
  struct rusage used {};
  ::wait4(child, &status, 0, &used);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return {time.count(), static_cast<double>(used.ru_maxrss) / 1024, WIFEXITED(status) && WEXITSTATUS(status) == 0};
}

Run median_of(std::vector<Run> runs) {
  std::ranges::sort(runs, {}, &Run::seconds);
  Run out = runs[runs.size() / 2];
  for (const Run& run : runs) out.peak_megabytes = std::max(out.peak_megabytes, run.peak_megabytes);
  out.answered = std::ranges::all_of(runs, &Run::answered);
  return out;
}

bool run_program(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  ::execvp(arguments[0], arguments.data());
  return false;
}

struct Options {
  std::size_t size = 1'000'000'000;
  int runs = 5;
  std::string program, trace, model;
};

struct Contender {
  std::string name;
  std::function<bool()> work;
  std::vector<Run> runs;
};

void compare(const std::string& what, const std::string& path, double megabytes, const Options& options) {
  std::vector<Contender> all;
  all.push_back({"bare walk", [&] { return bare_walk(path) > 0; }, {}});
  all.push_back({"trace_of", [&] { return trace_of(path) > 0; }, {}});
  if (!options.program.empty())
    all.push_back({"stepcast profile",
                   [&] {
                     std::vector<std::string> words{options.program, "profile", path, "-o", "/dev/null"};
                     if (!options.model.empty()) words.insert(words.end(), {"--model", options.model});
                     return run_program(words);
                   },
                   {}});
  for (int run = 0; run < options.runs; ++run)
    for (Contender& one : all) one.runs.push_back(run_of(one.work));
  const double walk = median_of(all[0].runs).seconds;
  for (const Contender& one : all) {
    const Run run = median_of(one.runs);
    std::printf("%-6s %-18s %8.3f s  %6.0f MB/s  ratio %5.2f  peak %5.0f MB%s\n", what.c_str(), one.name.c_str(),
                run.seconds, megabytes / run.seconds, run.seconds / walk, run.peak_megabytes,
                run.answered ? "" : "  (failed)");
  }
}

void compare_slow(const std::string& small, double small_megabytes, double megabytes, double walk) {
  const auto show = [&](const char* name, const Run& run) {
    const double scaled = run.seconds * megabytes / small_megabytes;
    if (run.answered)
      std::printf("       %-18s %8.1f s  scaled from %.0f MB; %.0f times the bare walk\n", name, scaled,
                  small_megabytes, scaled / walk);
    else std::printf("       %-18s not installed\n", name);
  };
  show("nlohmann::json", run_of([&] {
         std::ifstream file(small, std::ios::binary);
         return nlohmann::json::parse(file).size() > 0;
       }));
  show("Python json", run_of([&] {
         return run_program({"python3", "-c", "import json, sys; json.load(open(sys.argv[1]))", small});
       }));
  show("HTA", run_of([&] {
         return run_program({"python3", "-c",
                             "import sys\nfrom hta.common.trace import Trace\n"
                             "t = Trace(trace_files={0: sys.argv[1]}, trace_dir='')\nt.parse_traces()",
                             small});
       }));
}

Options options_of(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    const bool has_value = i + 1 < count;
    if (word == "--size" && has_value) options.size = std::stoull(arguments[++i]);
    else if (word == "--runs" && has_value) options.runs = std::max(1, std::stoi(arguments[++i]));
    else if (word == "--program" && has_value) options.program = arguments[++i];
    else if (options.trace.empty()) options.trace = word;
    else options.model = word;
  }
  return options;
}

void measure(const Options& options, const std::filesystem::path& folder) {
  const std::string small = folder / "small.json", large = folder / "large.json", zipped = folder / "large.json.gz";
  {
    const std::string text = plain_text(options.trace);
    std::ofstream(small, std::ios::binary) << text;
    write_large(text, options.size, large);
  }
  if (std::system(("gzip -6 -c '" + large + "' > '" + zipped + "'").c_str()) != 0) throw std::runtime_error("gzip");
  const double megabytes = static_cast<double>(std::filesystem::file_size(large)) / 1e6;
  std::printf("%.0f MB plain, %.0f MB gzipped; medians of %d runs in turns\n", megabytes,
              static_cast<double>(std::filesystem::file_size(zipped)) / 1e6, options.runs);
  compare("plain", large, megabytes, options);
  compare("gzip", zipped, megabytes, options);
  compare_slow(small, static_cast<double>(std::filesystem::file_size(small)) / 1e6, megabytes,
               run_of([&] { return bare_walk(large) > 0; }).seconds);
}

}  // namespace

int main(int count, char** arguments) {
  std::string name = (std::filesystem::temp_directory_path() / "read_benchmark.XXXXXX").string();
  int code = 0;
  try {
    const Options options = options_of(count, arguments);
    if (options.trace.empty()) {
      std::fprintf(stderr, "usage: read_benchmark [--size BYTES] [--program stepcast] [--runs N] TRACE [MODEL]\n");
      return 2;
    }
    if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make a temporary folder");
    measure(options, name);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    code = 2;
  }
  std::filesystem::remove_all(name);
  return code;
}
