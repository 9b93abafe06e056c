// Formats: the table, and the choice by content.
#include <stepcast/error.hpp>
#include <stepcast/format.hpp>
#include <stepcast/inflate.hpp>

namespace stepcast {

#define STEPCAST_MEMBER(name) Format name();
#include <stepcast/formats/formats.inc>
#undef STEPCAST_MEMBER

std::span<const Format> formats() {
  static const Format table[] = {
#define STEPCAST_MEMBER(name) name(),
#include <stepcast/formats/formats.inc>
#undef STEPCAST_MEMBER
  };
  return table;
}

namespace {

// What a file that no reader recognises seems to be, and what to do about it.
InputError unrecognised(const Source& source, std::string_view head) {
  const std::string expected = "a profiler trace (see `stepcast list formats`)";
  const auto holds = [head](std::string_view text) { return head.find(text) != std::string_view::npos; };
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {source.name, expected, "an empty file"};
  if (head.starts_with("SQLite format 3")) return {source.name, expected, "an SQLite file"};
  if (head[first] != '{' && head[first] != '[')
    return {source.name, expected, "something that is not JSON, beginning \"" + std::string(head.substr(0, 24)) + "\""};
  if (holds("\"stepcast."))
    return {source.name, expected, "a stepcast document", "give it where a profile is expected"};
  if (holds("\"nodes\"") && holds("\"schema\""))
    return {source.name, expected, "an execution trace, which holds no times",
            "give the profiler's trace of the same run"};
  if (holds("\"ph\"")) return {source.name, expected, "a Chrome trace that PyTorch did not write"};
  return {source.name, expected, "JSON of another kind, beginning \"" + std::string(head.substr(first, 40)) + "\""};
}

}  // namespace

Trace trace_of(const Source& source, const ReadOptions& options) {
  if (source.bytes.empty()) throw InputError(source.name, "a profiler trace", "an empty file");
  constexpr std::size_t head_size = 1u << 16;
  std::string head(head_size, '\0');
  PlainText plain(source.bytes);
  head.resize(plain.read(head));
  if (head.empty()) {
    throw InputError(source.name, "a profiler trace",
                     "gzip without content" + (plain.damage().empty() ? "" : ": " + plain.damage()));
  }
  for (const Format& format : formats())
    if (format.recognises(head)) return format.read(source, options);
  throw unrecognised(source, head);
}

}  // namespace stepcast
