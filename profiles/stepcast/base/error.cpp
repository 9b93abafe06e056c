// The one line that an error shows.
#include <stepcast/base/error.hpp>

namespace stepcast {
namespace {

// Quoted input may hold anything; a message stays one printable line of bounded length.
std::string one_line(const std::string& text) {
  constexpr std::size_t longest = 300;
  std::string out;
  for (const char c : text) {
    if (out.size() >= longest) {
      out += "...";
      break;
    }
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return out;
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
