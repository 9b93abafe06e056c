#pragma once
// CSV: the cells of a line, and what the title of a column says: its words, and the unit of its numbers.
//
// Cells are separated by what the header uses: commas, semicolons or tabs. Example:
//   cells_of("7, \"a, b\"", ',') is 7 and a, b;   words_of_header("Forward_Time (us)") is "forward time us".
// Not modelled: cells that go on in the next line. Internal to the library.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

/// A line of a table and its number in the file, from 1.
struct CsvLine {
  std::string_view text;
  std::size_t number = 1;
};
/// The lines that say something, header first: neither empty nor comments. A first line that starts with '#' is the
/// header if it has commas: "# GPUs,global batch,...".
[[nodiscard]] std::vector<CsvLine> lines_of_csv(std::string_view text);
/// The character that separates the cells of a header: comma, semicolon or tab, whichever occurs most.
[[nodiscard]] char separator_of(std::string_view header);
/// Trimmed cells; a cell in double quotes may hold the separator, and "" for a quote.
[[nodiscard]] std::vector<std::string> cells_of(std::string_view line, char separator);
/// "Forward Time (ms)" -> "forward time ms": words in lower case, joined by single spaces.
[[nodiscard]] std::string words_of_header(std::string_view cell);
/// The same, one by one.
[[nodiscard]] std::vector<std::string> title_words(std::string_view cell);
/// How many seconds one "us", "ms", "sec" ... is, bytes one "mib" or "kb"; nothing for a word that is no such unit.
[[nodiscard]] std::optional<double> seconds_per_unit(std::string_view word);
[[nodiscard]] std::optional<double> bytes_per_unit(std::string_view word);
/// Of the title words of a column of step times how many seconds its unit is: "iteration time (ms)", "step_s"; nothing
/// for another column.
[[nodiscard]] std::optional<double> step_time_unit(const std::vector<std::string>& words);

}  // namespace stepcast
