#include <stepcast/base/words.hpp>
#include <stepcast/encodings/csv.hpp>

#include <algorithm>
#include <cctype>
#include <span>
#include <utility>

namespace stepcast {
namespace {

struct Unit {
  std::string_view word;
  double factor;
};
constexpr Unit time_units[] = {{"ns", 1e-9},   {"us", 1e-6},           {"usec", 1e-6},        {"ms", 1e-3},
                               {"msec", 1e-3}, {"microseconds", 1e-6}, {"nanoseconds", 1e-9}, {"s", 1},
                               {"sec", 1},     {"seconds", 1},         {"milliseconds", 1e-3}};
constexpr Unit size_units[] = {{"bytes", 1}, {"byte", 1},   {"b", 1},         {"kb", 1e3},        {"mb", 1e6},
                               {"gb", 1e9},  {"kib", 1024}, {"mib", 1048576}, {"gib", 1073741824}};

std::optional<double> factor_of(std::string_view word, std::span<const Unit> units) {
  const auto found = std::ranges::find(units, word, &Unit::word);
  return found == units.end() ? std::nullopt : std::optional(found->factor);
}

constexpr std::string_view no_break_space = "\xc2\xa0";

bool is_beyond_ascii(char c) { return static_cast<unsigned char>(c) >= 0x80; }

/// The micro sign, the Greek letter, and the sign in Latin-1 stand for "u"; goes to the last byte of it. As gaps they
/// would leave the "s" of microseconds.
bool micro_at(std::string_view text, std::size_t& at) {
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("\xc2\xb5") || rest.starts_with("\xce\xbc")) {
    ++at;
    return true;
  }
  return rest.front() == '\xb5' && (at == 0 || !is_beyond_ascii(text[at - 1]));
}

}  // namespace

char separator_of(std::string_view header) {
  char best = ',';
  for (const char c : {',', ';', '\t'})
    if (std::ranges::count(header, c) > std::ranges::count(header, best)) best = c;
  return best;
}

std::vector<std::string> cells_of(std::string_view line, char separator) {
  std::vector<std::string> cells;
  for (std::size_t at = 0;;) {
    while (at < line.size() && (line[at] == ' ' || (line[at] == '\t' && separator != '\t'))) ++at;
    std::string cell;
    if (at < line.size() && line[at] == '"') {
      for (++at; at < line.size(); ++at) {
        if (line[at] != '"') cell += line[at];
        else if (at + 1 < line.size() && line[at + 1] == '"') cell += line[++at];
        else break;
      }
      at = std::min(line.find(separator, at), line.size());
    } else {
      const std::size_t end = std::min(line.find(separator, at), line.size());
      cell = trimmed(line.substr(at, end - at));
      at = end;
    }
    cells.push_back(std::move(cell));
    if (at >= line.size()) return cells;
    ++at;
  }
}

std::string words_of_header(std::string_view cell) {
  std::string words;
  bool gap = false;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    const char c = micro_at(cell, i) ? 'u' : cell[i];
    const bool letter = std::isalnum(static_cast<unsigned char>(c)) || is_beyond_ascii(c);
    if (!letter || cell.substr(i).starts_with(no_break_space)) {
      if (letter) ++i;
      gap = !words.empty();
      continue;
    }
    if (std::exchange(gap, false)) words += ' ';
    words += lower_case(c);
  }
  return words;
}

std::vector<std::string> title_words(std::string_view cell) {
  const std::string words = words_of_header(cell);
  return words.empty() ? std::vector<std::string>() : cells_of(words, ' ');
}

std::optional<double> seconds_per_unit(std::string_view word) { return factor_of(word, time_units); }
std::optional<double> bytes_per_unit(std::string_view word) { return factor_of(word, size_units); }

std::optional<double> step_time_unit(const std::vector<std::string>& words) {
  const auto has = [&](std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  if (!has("time") && !has("step") && !has("iteration")) return {};
  for (const std::string& word : words)
    if (const std::optional<double> seconds = seconds_per_unit(word)) return seconds;
  return {};
}

std::vector<CsvLine> lines_of_csv(std::string_view text) {
  std::vector<CsvLine> lines;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const bool header = lines.empty() && line.find(',') != std::string_view::npos;
    if (!line.empty() && (line.front() != '#' || header)) lines.push_back({line, number});
  }
  return lines;
}

}  // namespace stepcast
