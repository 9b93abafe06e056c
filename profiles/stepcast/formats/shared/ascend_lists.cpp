// Lists between semicolons become JSON lists.
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/string_table.hpp>
#include <stepcast/formats/shared/ascend_lists.hpp>

#include <algorithm>

namespace stepcast {
namespace {

/// Each part of a text with semicolons between `before` and `after`.
std::string listed(std::string_view raw, std::string_view before, std::string_view after) {
  if (raw.empty() || raw.front() == '[') return std::string(raw);
  const std::string text = unescaped(raw);
  std::string out = "[";
  for (std::string_view rest = text;;) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    if (out.size() > 1) out += ',';
    ((out += before) += trimmed(rest.substr(0, end))) += after;
    if (end == rest.size()) return out + "]";
    rest.remove_prefix(end + 1);
  }
}

}  // namespace

std::string shapes_of_ascend(std::string_view raw) { return listed(raw, "[", "]"); }
std::string types_of_ascend(std::string_view raw) { return listed(raw, "\"", "\""); }

}  // namespace stepcast
