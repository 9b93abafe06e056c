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

/// The first `shown` characters in a colour of the terminal ("1": bold), if there is one.
void write_line(std::ostream& out, const std::string& line, std::string_view colour = {}, std::size_t shown = 0) {
  const auto end = line.find_last_not_of(' ');
  const std::string_view text = std::string_view(line).substr(0, end == std::string::npos ? 0 : end + 1);
  if (colour.empty()) {
    out << text << '\n';
    return;
  }
  out << "\033[" << colour << 'm' << text.substr(0, shown) << "\033[0m" << text.substr(std::min(shown, text.size()))
      << '\n';
}

/// Where streams keep their page: its width, or 0, and whether it has colours.
int width_slot() {
  static const int slot = std::ios_base::xalloc();
  return slot;
}
int colour_slot() {
  static const int slot = std::ios_base::xalloc();
  return slot;
}

void append_cell(std::string& line, std::string_view text, std::size_t width, bool right) {
  const std::string padding(width > text.size() ? width - text.size() : 0, ' ');
  if (right) line += padding;
  line += text;
  if (!right) line += padding;
}

}  // namespace

void set_page(std::ostream& out, Page page) {
  out.iword(width_slot()) = static_cast<long>(page.width);
  out.iword(colour_slot()) = page.in_colour ? 1 : 0;
}

Page page_of(std::ostream& out) {
  const long width = out.iword(width_slot());
  return {width > 0 ? static_cast<std::size_t>(width) : page_width, out.iword(colour_slot()) != 0};
}

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
  const Page page = page_of(out);
  const bool warns = label == "CAUTION" || label == "caution";
  std::string_view colour = !page.in_colour || label.empty() ? "" : warns ? "1;33" : "1";
  for (const std::string& line : wrapped(printable(text), page.width - std::min(page.width - 1, margin.size()))) {
    write_line(out, margin + line, colour, std::min(label.size(), margin.size()));
    margin.assign(margin.size(), ' ');
    colour = {};
  }
}

void TextTable::add_row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> TextTable::widths(std::size_t page) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(column.header.size());
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::size_t total = gap.size() * (columns_.size() - 1);
  for (const std::size_t w : widths) total += w;
  for (std::size_t c = 0; c < columns_.size() && total > page; ++c) {
    if (columns_[c].align != Align::flexible) continue;
    const std::size_t others = total - widths[c];
    // A column narrower than this is unreadable; then the page is exceeded after all.
    constexpr std::size_t narrowest = 16;
    widths[c] = std::max(narrowest, page > others ? page - others : 0);
  }
  return widths;
}

void TextTable::write(std::ostream& out) const {
  const Page page = page_of(out);
  const std::vector<std::size_t> width = widths(page.width);
  const auto write_row = [&](const std::vector<std::string>& cells, std::string_view colour = {}) {
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
      write_line(out, line, colour, line.size());
    }
  };
  std::vector<std::string> headers;
  for (const Column& column : columns_) headers.push_back(column.header);
  write_row(headers, page.in_colour ? "1" : "");
  for (const auto& row : rows_) write_row(row);
}

}  // namespace stepcast
