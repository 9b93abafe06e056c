#pragma once
// Text tables: columns that line up on a page of 80 characters, and paragraphs that are wrapped to it.
//
// A stream may be a terminal, whose page is as wide as that is, and shows labels and headers bold: set_page says so of
// the stream; files and pipes stay as they are.
//
// One column may be flexible: it takes the width that the others leave and wraps into further lines, so that no row
// is ever wider than the page and nothing is cut off. What steers a terminal does not get through (printable.hpp). Not
// modelled: wide characters; columns line up where cells are ASCII.
#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

inline constexpr std::size_t page_width = 80;
struct Page {
  std::size_t width = page_width;
  bool in_colour = false;
};
/// How text on this stream is laid out from now on; 80 characters without colours where nobody says.
void set_page(std::ostream&, Page);
[[nodiscard]] Page page_of(std::ostream&);

/// `text` broken at spaces into lines of at most `width` characters; a longer word is broken after one of ,/(=_ or
/// stays whole.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// "label    text text text" with the text wrapped beside a label of `label_width` characters.
void write_labelled(std::ostream&, std::string_view label, std::string_view text, std::size_t label_width = 12);

class TextTable {
 public:
  enum class Align : unsigned char { left, right, flexible };  ///< flexible: left, wrapped; at most one
  struct Column {
    std::string header;
    Align align = Align::left;
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// As many cells as columns.
  void add_row(std::vector<std::string> cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  void write(std::ostream&) const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths(std::size_t page) const;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace stepcast
