#pragma once
// Files for tests: the shared folder of measurements beside the checkout, if it is there, and tiny readers.
#include <stepcast/encodings/source.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace stepcast::test {

/// ../shared/<name> beside the checkout; says "skipped" and returns nothing when it is absent.
inline std::optional<std::filesystem::path> shared_folder(const std::string& name) {
  const auto path = std::filesystem::path(STEPCAST_SOURCE_DIR) / ".." / "shared" / name;
  if (std::filesystem::is_directory(path)) return path;
  MESSAGE("skipped: no shared/" << name << " beside the checkout");
  return std::nullopt;
}

inline std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in, "cannot open " << path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A file's bytes, kept alive for a Source.
class File {
 public:
  explicit File(const std::filesystem::path& path) : name_(path.filename().string()), text_(text_of_file(path)) {}
  Source source() const { return {name_, std::as_bytes(std::span(text_))}; }

 private:
  std::string name_, text_;
};

/// Rows of a simple CSV (no quoting); lines that start with # are comments, the first other line is the header.
inline std::vector<std::map<std::string, std::string>> csv_rows(const std::string& text) {
  std::vector<std::map<std::string, std::string>> rows;
  std::vector<std::string> header;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line.back() == '\r') line.pop_back();
    std::vector<std::string> cells;
    std::istringstream fields(line);
    for (std::string cell; std::getline(fields, cell, ',');) cells.push_back(cell);
    if (header.empty()) {
      header = cells;
      continue;
    }
    cells.resize(header.size());
    auto& row = rows.emplace_back();
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = cells[i];
  }
  return rows;
}

}  // namespace stepcast::test
