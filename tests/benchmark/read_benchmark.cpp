// How long the reader takes, against a bare walk of the same bytes by the same parser in windows of the same size.
//
//   read_benchmark TRACE...
//
// The bare walk looks at ph, name, ts and dur and at every key of args, keeps nothing, and is what no reader on this
// parser can beat. Both start from plain text in memory; reading a gzip file is shown next to inflating it only. Each
// figure is the processor time of the fastest of several interleaved runs in one process.
#include <stepcast/error.hpp>
#include <stepcast/format.hpp>
#include <stepcast/inflate.hpp>

#include <simdjson.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

constexpr std::size_t window = 1u << 18;

// Processor time of one call: other programs on the machine lengthen it less than they lengthen the time of day.
template <class Work>
double milliseconds_of(Work work) {
  const std::clock_t start = std::clock();
  work();
  return 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

std::string plain_text(const std::string& stored) {
  stepcast::PlainText plain(std::as_bytes(std::span(stored)));
  std::string text;
  for (std::size_t size = 0;; size = text.size()) {
    text.resize(size + window);
    const std::size_t got = plain.read(std::span(text.data() + size, window));
    text.resize(size + got);
    if (got < window) return text;
  }
}

// Sum of what was looked at, so that the compiler keeps the walk.
std::size_t walk_window(simdjson::ondemand::parser& parser, const std::string& padded, std::size_t size) {
  std::size_t seen = 0;
  auto document = parser.iterate(padded.data(), size, padded.size());
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

// Behind the last "}" <white space> "," <white space> "{" before `end`: where an event begins.
std::size_t event_begin_before(const std::string& text, std::size_t begin, std::size_t end) {
  const char* const space = " \t\r\n";
  for (std::size_t brace = text.rfind('}', end); brace != std::string::npos && brace > begin;
       brace = text.rfind('}', brace - 1)) {
    const std::size_t comma = text.find_first_not_of(space, brace + 1);
    if (comma == std::string::npos || text[comma] != ',') continue;
    const std::size_t next = text.find_first_not_of(space, comma + 1);
    if (next != std::string::npos && text[next] == '{') return next;
  }
  return text.size();
}

std::size_t bare_walk(const std::string& text) {
  simdjson::ondemand::parser parser;
  std::size_t seen = 0, key = text.find("\"traceEvents\"");
  std::size_t begin = text.find('[', key == std::string::npos ? 0 : key) + 1;
  std::string padded;
  while (begin < text.size()) {
    const std::size_t end =
        begin + window < text.size() ? event_begin_before(text, begin, begin + window) : text.size();
    padded.assign(1, '[');
    padded.append(text, begin, end - begin);
    if (end < text.size()) padded.erase(padded.rfind(','));
    padded += ']';
    const std::size_t size = padded.size();
    padded.append(simdjson::SIMDJSON_PADDING, ' ');
    seen += walk_window(parser, padded, size);
    begin = end;
  }
  return seen;
}

void compare(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string stored{std::istreambuf_iterator<char>(file), {}};
  const std::string text = plain_text(stored);
  const std::string name = path.substr(path.rfind('/') + 1);
  const stepcast::Source plain{name, std::as_bytes(std::span(text))}, source{name, std::as_bytes(std::span(stored))};
  std::size_t kept = 0, seen = 0;
  double walk = 1e300, read = 1e300, inflate = 1e300, both = 1e300;
  const bool gzip = stepcast::PlainText::is_gzip(source.bytes);
  for (int run = 0; run < 11; ++run) {
    walk = std::min(walk, milliseconds_of([&] { seen = bare_walk(text); }));
    read = std::min(read, milliseconds_of([&] { kept = stepcast::trace_of(plain).events.size(); }));
    if (!gzip) continue;
    inflate = std::min(inflate, milliseconds_of([&] { seen += plain_text(stored).size(); }));
    both = std::min(both, milliseconds_of([&] { kept = stepcast::trace_of(source).events.size(); }));
  }
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  std::printf("%-64s %7.1f MB  walk %7.2f ms  read %7.2f ms (%5.0f MB/s)  ratio %.2f  %zu events", name.c_str(),
              megabytes, walk, read, megabytes / read * 1e3, read / walk, kept);
  if (gzip) std::printf("  gzip: inflate %7.2f ms, read %7.2f ms", inflate, both);
  std::printf("%s\n", seen == 0 ? " (nothing walked)" : "");
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: read_benchmark TRACE...\n");
    return 2;
  }
  try {
    for (int i = 1; i < count; ++i) compare(arguments[i]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
