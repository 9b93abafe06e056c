#pragma once
// The tables of tests/data: comment lines start with '#', one header line, no quoted fields.
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace stepcast::test {

using Row = std::map<std::string, std::string>;

inline std::vector<Row> table_of(const std::string& name) {
  std::ifstream file(std::filesystem::path(STEPCAST_SOURCE_DIR) / "tests" / "data" / name);
  if (!file) throw std::runtime_error("no table " + name);
  const auto fields = [](const std::string& line) {
    std::vector<std::string> out;
    std::istringstream in(line);
    for (std::string field; std::getline(in, field, ',');) out.push_back(field);
    return out;
  };
  std::vector<Row> rows;
  std::vector<std::string> header;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> values = fields(line);
    if (header.empty()) {
      header = values;
      continue;
    }
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = i < values.size() ? values[i] : "";
  }
  return rows;
}
inline double number(const Row& row, const std::string& column) { return std::stod(row.at(column)); }

}  // namespace stepcast::test
