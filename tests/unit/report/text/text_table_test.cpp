// Text tables: nothing is lost, nothing is wider than the page.
#include <stepcast/report/text/table.hpp>

#include <doctest/doctest.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

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

TEST_CASE("a terminal's page is as wide as it is, and its labels and headers are in colour") {
  const auto written = [](std::optional<Page> page) {
    std::ostringstream out;
    if (page) set_page(out, *page);
    write_labelled(out, "note", std::string(60, 'a') + " " + std::string(60, 'b'));
    write_labelled(out, "CAUTION", "wrong");
    TextTable table({{"plan", TextTable::Align::flexible}, {"step", TextTable::Align::right}});
    table.add_row({std::string(40, 'c') + " " + std::string(40, 'd'), "9.5 ms"});
    table.write(out);
    return out.str();
  };
  const std::string plain = written(std::nullopt), wide = written(Page{.width = 150, .in_colour = false});
  CHECK(written(Page{}) == plain);
  CHECK(plain.find('\033') == std::string::npos);
  CHECK(lines_of(plain).size() == 6);
  CHECK(lines_of(wide).size() == 4);
  CHECK(wide.starts_with("note        " + std::string(60, 'a') + " " + std::string(60, 'b') + "\n"));
  const std::string coloured = written(Page{.width = 150, .in_colour = true});
  CHECK(coloured.find("\033[1mnote\033[0m        aaa") == 0);
  CHECK(coloured.find("\n\033[1;33mCAUTION\033[0m     wrong\n") != std::string::npos);
  CHECK(coloured.find("\n\033[1mplan") != std::string::npos);
  std::string bare = coloured;
  for (const std::string code : {"\033[1m", "\033[1;33m", "\033[0m"})
    for (std::size_t at; (at = bare.find(code)) != std::string::npos;) bare.erase(at, code.size());
  CHECK(bare == wide);
}
