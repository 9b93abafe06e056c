// Text tables: wrapping and column widths.
#include <stepcast/base/printable.hpp>
#include <stepcast/report/text/table.hpp>

#include <algorithm>
#include <ostream>

namespace stepcast {
namespace {

constexpr std::string_view gap = "  ";

// Where to break `rest` so that the first part fits in `width`: at the last space, else after the last mark that may
// end a part of a plan or a path, else behind the first word.
std::size_t break_of(std::string_view rest, std::size_t width) {
  if (rest.size() <= width) return rest.size();
  if (const auto space = rest.rfind(' ', width); space != std::string_view::npos && space > 0) return space;
  if (const auto mark = rest.find_last_of(",/(=_+@", width - 1); mark != std::string_view::npos && mark > 0)
    return mark + 1;
  return std::min(rest.find(' '), rest.size());
}

void write_line(std::ostream& out, const std::string& line) {
  const auto end = line.find_last_not_of(' ');
  out << line.substr(0, end == std::string::npos ? 0 : end + 1) << '\n';
}

void append_cell(std::string& line, std::string_view text, std::size_t width, bool right) {
  const std::string padding(width > text.size() ? width - text.size() : 0, ' ');
  if (right) line += padding;
  line += text;
  if (!right) line += padding;
}

}  // namespace

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  std::string_view rest = text;
  do {
    const std::size_t at = break_of(rest, std::max<std::size_t>(width, 1));
    lines.emplace_back(rest.substr(0, at));
    rest.remove_prefix(at);
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  } while (!rest.empty());
  return lines;
}

void write_labelled(std::ostream& out, std::string_view label, std::string_view text, std::size_t label_width) {
  std::string margin = printable(label);
  margin.resize(std::max(label_width, margin.size() + 1), ' ');
  for (const std::string& line : wrapped(printable(text), page_width - margin.size())) {
    write_line(out, margin + line);
    margin.assign(margin.size(), ' ');
  }
}

void TextTable::add_row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(column.header.size());
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::size_t total = gap.size() * (columns_.size() - 1);
  for (const std::size_t w : widths) total += w;
  for (std::size_t c = 0; c < columns_.size() && total > page_width; ++c) {
    if (columns_[c].align != Align::flexible) continue;
    const std::size_t others = total - widths[c];
    // A column narrower than this is unreadable; then the page is exceeded after all.
    constexpr std::size_t narrowest = 16;
    widths[c] = std::max(narrowest, page_width > others ? page_width - others : 0);
  }
  return widths;
}

void TextTable::write(std::ostream& out) const {
  const std::vector<std::size_t> width = widths();
  const auto write_row = [&](const std::vector<std::string>& cells) {
    std::vector<std::vector<std::string>> lines;
    std::size_t height = 1;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const bool wraps = columns_[c].align == Align::flexible;
      lines.push_back(wraps ? wrapped(cells[c], width[c]) : std::vector<std::string>{cells[c]});
      height = std::max(height, lines.back().size());
    }
    for (std::size_t l = 0; l < height; ++l) {
      std::string line;
      for (std::size_t c = 0; c < cells.size(); ++c) {
        if (c > 0) line += gap;
        append_cell(line, l < lines[c].size() ? lines[c][l] : "", width[c], columns_[c].align == Align::right);
      }
      write_line(out, line);
    }
  };
  std::vector<std::string> headers;
  for (const Column& column : columns_) headers.push_back(column.header);
  write_row(headers);
  for (const auto& row : rows_) write_row(row);
}

}  // namespace stepcast
