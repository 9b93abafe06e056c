// The family of formats as a whole: over every real file that is at hand, exactly one format claims it, or none and the
// refusal says what it is.
#include <stepcast/base/error.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/encodings/archive.hpp>
#include <stepcast/encodings/inflate.hpp>

#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace stepcast;

namespace {

std::string head_of(const Source& source) {
  PlainText plain(source.bytes);
  std::string head(1u << 16, '\0');
  head.resize(plain.read(head));
  return head;
}

std::vector<std::string> claims_of(const Source& source) {
  const std::string head = head_of(source);
  std::vector<std::string> names;
  for (const Format& format : formats())
    if (format.recognises(head)) names.emplace_back(format.name);
  return names;
}

std::string joined_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

TEST_CASE("formats have names of their own") {
  std::vector<std::string_view> names;
  for (const Format& format : formats()) {
    names.push_back(format.name);
    CHECK(!format.summary.empty());
    CHECK(!format.reference.empty());
  }
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
}

TEST_CASE("a byte order mark before the text is no part of it") {
  const std::string text =
      "\xEF\xBB\xBF"
      R"({"schemaVersion": 1, "traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 5, "args": {}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 20, "dur": 5, "args": {}}]})";
  const Trace trace = trace_of({"marked.json", std::as_bytes(std::span(text))});
  CHECK(trace.events.size() == 2);
}

TEST_CASE("real files: exactly one format claims each, or none and it is refused by name") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  std::size_t claimed = 0, refused = 0;
  const auto look_at = [&](const Source& source) {
    const std::vector<std::string> claims = claims_of(source);
    CAPTURE(source.name);
    CAPTURE(joined_names(claims));
    CHECK(claims.size() <= 1);
    claimed += claims.size() == 1;
    if (!claims.empty()) return;
    ++refused;
    std::string message;
    try {
      (void)reading_of(source);
    } catch (const InputError& error) { message = error.what(); }
    CHECK(message.find(", found ") != std::string::npos);
  };
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*folder)) {
    if (!entry.is_regular_file()) continue;
    const test::File file(entry.path());
    if (!is_archive(head_of(file.source()))) {
      look_at(file.source());
      continue;
    }
    for (const ArchiveMember& member : members_of(file.source())) look_at({member.name, member.bytes});
  }
  MESSAGE(claimed << " files are claimed by one format, " << refused << " by none");
  CHECK(claimed > 100);
}
