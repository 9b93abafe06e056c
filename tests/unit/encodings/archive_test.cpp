// Archives: the files of a tar, their names and bytes, and what damage does to them.
#include "helpers/shared_data.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/encodings/archive.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <string_view>

using namespace stepcast;

namespace {

std::string octal(std::uint64_t value, int width) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*llo", width, static_cast<unsigned long long>(value));
  return text;
}

std::string member(const std::string& name, const std::string& content, char type = '0',
                   const std::string& prefix = {}) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(124, octal(content.size(), 11));
  put(136, "00000000000");
  put(148, "        ");
  header[156] = type;
  put(257, std::string("ustar\0", 6) + "00");
  put(345, prefix);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, octal(sum, 6) + '\0');
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

const std::string end_of_archive(1024, '\0');

std::vector<ArchiveMember> members(const std::string& bytes) {
  return members_of({"run.tar", std::as_bytes(std::span(bytes))});
}

std::string text_of(const ArchiveMember& m) { return {reinterpret_cast<const char*>(m.bytes.data()), m.bytes.size()}; }

const std::string tiny_trace = R"({"schemaVersion": 1, "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]})";

}  // namespace

TEST_CASE("an archive gives its files in order, folders and links left out") {
  const std::string archive = member("ranks/", "", '5') + member("ranks/0.json", "zero") +
                              member("ranks/latest", "", '2') + member("1.json", std::string(700, 'x'), '0', "ranks") +
                              end_of_archive;
  CHECK(is_archive(archive));
  const auto files = members(archive);
  REQUIRE(files.size() == 2);
  CHECK(files[0].name == "ranks/0.json");
  CHECK(text_of(files[0]) == "zero");
  CHECK(files[1].name == "ranks/1.json");
  CHECK(text_of(files[1]) == std::string(700, 'x'));
}

TEST_CASE("long names of GNU and of pax reach the file that they are for") {
  const std::string name(150, 'n');
  const std::string record = "path=" + name + "\n";
  const std::string pax = std::to_string(record.size() + 4) + " " + record;
  const auto files = members(member("././@LongLink", name + '\0', 'L') + member(name, "gnu") + member("pax", pax, 'x') +
                             member("short", "pax") + member("plain", "none") + end_of_archive);
  REQUIRE(files.size() == 3);
  CHECK(files[0].name == name);
  CHECK(files[1].name == name);
  CHECK(files[2].name == "plain");
}

TEST_CASE("an archive without its end is read as far as it goes") {
  const std::string archive = member("a", "alpha") + member("b", std::string(2000, 'b'));
  CHECK(members(archive).size() == 2);
  const auto cut = members(archive.substr(0, archive.size() - 1000));
  REQUIRE(cut.size() == 2);
  CHECK(cut[1].bytes.size() < 2000);
}

TEST_CASE("a damaged header is refused where it stands") {
  std::string archive = member("a", "alpha") + member("b", "beta") + end_of_archive;
  archive[1024 + 3] = '!';
  CHECK_THROWS_WITH_AS(members(archive), doctest::Contains("run.tar@1024"), InputError);
  CHECK_FALSE(is_archive(archive.substr(1024)));
  CHECK_FALSE(is_archive(std::string(2048, '\0')));
  CHECK_FALSE(is_archive(tiny_trace));
}

TEST_CASE("a size that the archive does not hold asks for no memory") {
  std::string header = member("huge", "").substr(0, 512);
  header.replace(124, 12, std::string("77777777777\0", 12));
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, octal(sum, 6) + '\0');
  const auto files = members(header + "little");
  REQUIRE(files.size() == 1);
  CHECK(text_of(files[0]) == "little");
}

TEST_CASE("every trace of an archive is read; what cannot be is named and, when strict, refused") {
  const std::string archive =
      member("0.json", tiny_trace) + member("notes.txt", "hello") + member("1.json", tiny_trace) + end_of_archive;
  const Source source{"run.tar", std::as_bytes(std::span(archive))};
  const Reading reading = reading_of(source);
  REQUIRE(reading.traces.size() == 2);
  CHECK(reading.traces[1].source == "run.tar/1.json");
  REQUIRE(reading.refused.size() == 1);
  CHECK(reading.refused[0].find("run.tar/notes.txt") != std::string::npos);
  ReadOptions strict;
  strict.strict = true;
  CHECK_THROWS_AS((void)reading_of(source, strict), InputError);
  CHECK_THROWS_WITH_AS((void)trace_of(source), doctest::Contains("2 traces"), InputError);
  const std::string none = member("notes.txt", "hello") + end_of_archive;
  CHECK_THROWS_WITH_AS((void)reading_of({"run.tar", std::as_bytes(std::span(none))}), doctest::Contains("notes.txt"),
                       InputError);
}

TEST_CASE("the ranks of a public run come out of their archive") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  const test::File file(*folder / "facebookresearch__param/dlrm_kineto.tar.gz");
  const Reading reading = reading_of(file.source());
  CHECK(reading.traces.size() == 8);
  CHECK(reading.refused.empty());
}

TEST_CASE("an archive behind the end of another is read, other bytes there are not") {
  const std::string one = member("a", "1") + end_of_archive, two = member("b", "2") + end_of_archive;
  CHECK(members(one + two).size() == 2);
  CHECK(members(one + "garbage").size() == 1);
  CHECK(members(one + std::string(10'000, '\0')).size() == 1);
}

TEST_CASE("sparse members and archives within an archive are refused by name, a byte order mark is none") {
  const auto refusal = [](const std::string& bytes) -> std::string {
    try {
      (void)reading_of({"run.tar", std::as_bytes(std::span(bytes))});
    } catch (const InputError& error) { return error.what(); }
    return "read";
  };
  const std::string inner = member("name,fwd_ms,bwd_ms,bytes\na,1,2,4\n", tiny_trace) + end_of_archive;
  CHECK(refusal(member("inner.tar", inner) + end_of_archive).find("an archive within an archive") != std::string::npos);
  const std::string attributes("\0\5\x16\7\0\2\0\0Mac OS X", 16);
  CHECK(members(member("run/._0.json", attributes) + member("run/0.json", tiny_trace)).size() == 1);
  CHECK(members(member("run/._0.json", tiny_trace)).size() == 1);
  CHECK(refusal(member("0.json", tiny_trace, 'S') + end_of_archive).find("without --sparse") != std::string::npos);
  CHECK(refusal(member("./GNUSparseFile.7/0.json", "1\n0\n") + end_of_archive).find("--sparse") != std::string::npos);
  CHECK(refusal(member("0.json", "\xef\xbb\xbf" + tiny_trace) + end_of_archive) == "read");
}
