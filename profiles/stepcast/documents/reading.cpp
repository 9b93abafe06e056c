// Reading: the table of formats, and the choice by content.
#include <stepcast/base/error.hpp>
#include <stepcast/documents/foreign_files.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/encodings/archive.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/encodings/json_text.hpp>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <utility>

namespace stepcast {

#define STEPCAST_MEMBER(name) \
  namespace format::name {    \
  Format record();            \
  }
#include <stepcast/formats/formats.inc>
#undef STEPCAST_MEMBER

std::span<const Format> formats() {
  static const Format table[] = {
#define STEPCAST_MEMBER(name) format::name::record(),
#include <stepcast/formats/formats.inc>
#undef STEPCAST_MEMBER
  };
  return table;
}

namespace {

// The beginning of a text, on one line.
std::string quoted(std::string_view text, std::size_t most) {
  std::string out(text.substr(0, most));
  if (out.size() < text.size())  // no half of a character at the cut
    while (!out.empty() && (out.back() & 0x80) != 0) out.pop_back();
  (void)repair_utf8(out.data(), out.size());
  for (char& c : out)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  out.erase(out.find_last_not_of(' ') + 1);
  return '"' + out + '"';
}

// Texts hold no control characters but white space and colours.
bool is_binary(std::string_view head) {
  return std::ranges::any_of(head.substr(0, 64), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < ' ' && !(byte >= '\t' && byte <= '\r') && byte != 0x1b;
  });
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [name](std::string_view ending) { return name.ends_with(ending); });
}

// With its mark, or two characters of ASCII in sixteen bits each.
bool is_utf16(std::string_view head) {
  const auto prints = [head](std::size_t i) { return head[i] > ' ' && head[i] < 0x7f; };
  if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff")) return true;
  if (head.size() < 4) return false;
  return (prints(0) && prints(2) && head[1] == '\0' && head[3] == '\0') ||
         (prints(1) && prints(3) && head[0] == '\0' && head[2] == '\0');
}

// What a file that no reader recognises seems to be, and what to do about it.
InputError unrecognised(const Source& source, std::string_view head) {
  const std::string expected = "a profiler trace (see `stepcast list formats`)";
  const auto holds = [head](std::string_view text) { return head.find(text) != std::string_view::npos; };
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {source.name, expected, "an empty file"};
  if (is_utf16(head)) return {source.name, expected, "text in UTF-16", "convert it to UTF-8"};
  if (head.starts_with("SQLite format 3")) return {source.name, expected, "an SQLite file"};
  if (const auto foreign = foreign_file(head))
    return {source.name, expected, std::string(foreign->found), std::string(foreign->hint)};
  if (ends_with_any(source.name, {".nsys-rep", ".qdrep", ".qdstrm"}))
    return {source.name, expected, "a report of Nsight Systems", "export it: nsys export --type sqlite"};
  if (head.starts_with("\xef\xbb\xbf"))
    return {source.name, expected, "text with a byte order mark inside gzip", "save it as UTF-8 without the mark"};
  if (is_binary(head)) return {source.name, expected, "binary data that no format begins with"};
  if (head[first] != '{' && head[first] != '[')
    return {source.name, expected, "something that is not JSON, beginning " + quoted(head, 24)};
  if (holds("\"stepcast."))
    return {source.name, expected, "a stepcast document", "give it where a profile is expected"};
  if (holds("\"nodes\"") && holds("\"schema\""))
    return {source.name, expected, "an execution trace, which holds no times",
            "give the profiler's trace of the same run"};
  return {source.name, expected, "JSON of another kind, beginning " + quoted(head.substr(first), 40)};
}

std::string head_of(const Source& source) {
  if (source.bytes.empty()) throw InputError(source.name, "a profiler trace", "an empty file");
  constexpr std::size_t head_size = 1u << 16;
  std::string head(head_size, '\0');
  PlainText plain(source.bytes);
  head.resize(plain.read(head));
  if (head.empty()) {
    throw InputError(source.name, "a profiler trace",
                     "gzip without content" + (plain.damage().empty() ? "" : ": " + plain.damage()));
  }
  return head;
}

// Without the mark that editors put before UTF-8.
Source unmarked(Source source) {
  constexpr std::array mark{std::byte{0xEF}, std::byte{0xBB}, std::byte{0xBF}};
  if (source.bytes.size() > mark.size() && std::ranges::equal(source.bytes.first(mark.size()), mark))
    source.bytes = source.bytes.subspan(mark.size());
  return source;
}

Reading reading_of_file(const Source& source, std::string_view head, const ReadOptions& options) {
  if (is_archive(head))
    throw InputError(source.name, "a trace", "an archive within an archive", "unpack it and give the files");
  for (const Format& format : formats())
    if (format.recognises(head)) return format.read(source, options);
  throw unrecognised(source, head);
}

template <class T>
void append(std::vector<T>& all, std::vector<T>&& more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

Reading reading_of_archive(const Source& source, const ReadOptions& options) {
  const std::vector<ArchiveMember> members = members_of(source);
  Reading all;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Source member = unmarked({source.name + "/" + members[i].name, members[i].bytes});
    ReadOptions member_options = options;
    if (options.progress)
      member_options.progress = [&, i](double share) {
        options.progress((static_cast<double>(i) + share) / static_cast<double>(members.size()));
      };
    try {
      Reading one = reading_of_file(member, head_of(member), member_options);
      append(all.traces, std::move(one.traces));
      append(all.profiles, std::move(one.profiles));
      append(all.executions, std::move(one.executions));
    } catch (const InputError& error) {
      if (options.strict) throw;
      all.refused.push_back(error.what());
    }
  }
  if (!all.traces.empty() || !all.profiles.empty() || !all.executions.empty()) return all;
  if (all.refused.empty()) throw InputError(source.name, "an archive of traces", "an archive without files");
  throw InputError(source.name, "an archive of traces",
                   "no readable one among its " + std::to_string(members.size()) +
                       (members.size() == 1 ? " file: " : " files; the first: ") + all.refused.front());
}

}  // namespace

Reading reading_of(const Source& given, const ReadOptions& options) {
  const Source source = unmarked(given);
  const std::string head = head_of(source);
  return is_archive(head) ? reading_of_archive(source, options) : reading_of_file(source, head, options);
}

Trace trace_of(const Source& source, const ReadOptions& options) {
  Reading reading = reading_of(source, options);
  if (reading.traces.size() == 1) return std::move(reading.traces.front());
  std::string found = std::to_string(reading.traces.size()) + " traces";
  if (reading.traces.empty()) {
    found = reading.profiles.empty() ? "an execution trace, which holds no times" : "a table of layers";
  }
  throw InputError(source.name, "one trace", found);
}

}  // namespace stepcast
