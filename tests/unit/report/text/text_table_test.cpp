// Text tables: nothing is lost, nothing is wider than the page.
#include <stepcast/report/text/table.hpp>

#include <doctest/doctest.h>

#include <sstream>

using namespace stepcast;

namespace {

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("wrapped text keeps every character and every width") {
  const std::string text =
      "dear(bucket=10514689 B, first=1 MiB) beats ddp by a lot, a/very/long/path/without/spaces too";
  for (std::size_t width = 24; width < 100; ++width) {
    std::string joined;
    for (const std::string& line : wrapped(text, width)) {
      CHECK(line.size() <= width);
      joined += line;
    }
    CHECK(without_spaces(joined) == without_spaces(text));
  }
}

TEST_CASE("wrapped breaks at spaces first, then after a mark") {
  CHECK(wrapped("", 10) == std::vector<std::string>{""});
  CHECK(wrapped("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(wrapped("horovod(cycle=0.1)", 16) == std::vector<std::string>{"horovod(cycle=", "0.1)"});
  CHECK(wrapped("bsp+randomk@switchml", 16) == std::vector<std::string>{"bsp+randomk@", "switchml"});
  CHECK(wrapped("unbreakable", 4) == std::vector<std::string>{"unbreakable"});
}

TEST_CASE("a table whose flexible column is long fits the page") {
  TextTable table({{"plan", TextTable::Align::flexible}, {"step", TextTable::Align::right}});
  table.add_row({"ddp", "9.5 ms"});
  std::string plan = "bytescheduler(partition=4 MiB";
  for (int i = 0; i < 10; ++i) plan += ", option" + std::to_string(i) + "=25 MiB";
  table.add_row({plan + ")", "1234.5 ms"});
  std::ostringstream out;
  table.write(out);
  const std::vector<std::string> lines = lines_of(out.str());
  REQUIRE(lines.size() > 3);
  for (const std::string& line : lines) CHECK(line.size() <= page_width);
  CHECK(lines[1].ends_with("   9.5 ms"));
  CHECK(lines[0].size() == lines[1].size());
  std::string column;
  for (std::size_t l = 2; l < lines.size(); ++l) column += lines[l];
  CHECK(without_spaces(column).find("option9=25MiB)") != std::string::npos);
}

TEST_CASE("a labelled paragraph hangs beside its label") {
  std::ostringstream out;
  write_labelled(out, "note", std::string(60, 'a') + " " + std::string(60, 'b'));
  CHECK(out.str() == "note        " + std::string(60, 'a') + "\n            " + std::string(60, 'b') + "\n");
}
