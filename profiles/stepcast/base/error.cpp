// The one line that an error shows.
#include <stepcast/base/error.hpp>
#include <stepcast/base/printable.hpp>

namespace stepcast {
namespace {

// Quoted input may hold anything; a message stays one printable line of bounded length, cut between two characters.
std::string one_line(const std::string& text) {
  constexpr std::size_t longest = 300;
  std::string out = printable(text);
  if (out.size() <= longest) return out;
  std::size_t end = 0;
  while (end < longest) end += utf8_length(std::string_view(out).substr(end));
  return out.replace(end, std::string::npos, "...");
}

}  // namespace

InputError::InputError(std::string w, std::string e, std::string f, std::string h)
    : where(one_line(w)), expected(one_line(e)), found(one_line(f)), hint(one_line(h)) {
  message_ = where;
  if (!expected.empty()) message_ += (message_.empty() ? "expected " : ": expected ") + expected;
  if (!found.empty()) message_ += (expected.empty() ? (message_.empty() ? "" : ": ") : ", found ") + found;
  if (!hint.empty()) message_ += "; " + hint;
}

}  // namespace stepcast
