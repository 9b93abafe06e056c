// The header of a member is a block of 512 bytes, numbers in octal text (POSIX.1-2017 pax, "ustar Interchange Format"):
//   name 0+100   size 124+12   checksum 148+8   type 156   magic 257 "ustar"   prefix 345+155
#include <stepcast/base/error.hpp>
#include <stepcast/encodings/archive.hpp>
#include <stepcast/encodings/inflate.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <span>
#include <utility>

namespace stepcast {
namespace {

constexpr std::size_t block = 512;
constexpr std::uint64_t largest_member = std::uint64_t{1} << 33;

std::string_view field(std::string_view header, std::size_t at, std::size_t size) {
  const std::string_view text = header.substr(at, size);
  return text.substr(0, std::min(text.find('\0'), text.size()));
}

/// Octal text, or GNU's big-endian binary for sizes of 8 GiB and more; false when it is neither.
bool read_number(std::string_view text, std::uint64_t& value) {
  value = 0;
  if (!text.empty() && (static_cast<unsigned char>(text[0]) & 0x80) != 0) {
    for (const char c : text.substr(1)) value = value << 8 | static_cast<unsigned char>(c);
    return true;
  }
  bool digits = false;
  for (const char c : text) {
    if (c == ' ' || c == '\0') {
      if (digits) break;
      continue;
    }
    if (c < '0' || c > '7') return false;
    value = value * 8 + static_cast<std::uint64_t>(c - '0');
    digits = true;
  }
  return digits;
}

bool is_header(std::string_view bytes) {
  if (bytes.size() < block || bytes[0] == '\0') return false;
  std::uint64_t recorded = 0;
  if (!read_number(bytes.substr(148, 8), recorded)) return false;
  std::uint64_t sum = 8 * ' ';  // the checksum counts its own field as blanks
  for (std::size_t i = 0; i < block; ++i)
    if (i < 148 || i >= 156) sum += static_cast<unsigned char>(bytes[i]);
  return sum == recorded;
}

/// The value of "path" in the records "LENGTH KEY=VALUE\n" of a pax header.
std::string pax_path(std::string_view records) {
  std::string path;
  while (!records.empty()) {
    std::size_t length = 0;
    const auto parsed = std::from_chars(records.data(), records.data() + records.size(), length);
    if (parsed.ec != std::errc() || length == 0 || length > records.size()) break;
    const std::string_view record = records.substr(0, length);
    const std::size_t key = record.find(' '), value = record.find('=');
    if (key != std::string_view::npos && value != std::string_view::npos &&
        record.substr(key + 1, value - key - 1) == "path")
      path = std::string(record.substr(value + 1, record.size() - value - 2));
    records.remove_prefix(length);
  }
  return path;
}

/// What tar of macOS keeps of a file's attributes, beside it: "._trace.json".
bool is_apple_double(std::string_view name, std::string_view content) {
  return name.substr(name.rfind('/') + 1).starts_with("._") && content.starts_with(std::string_view("\0\5\x16\7", 4));
}

}  // namespace

bool is_archive(std::string_view head) { return is_header(head); }

std::vector<ArchiveMember> members_of(const Source& source) {
  PlainText plain(source.bytes);
  std::vector<ArchiveMember> members;
  std::string long_name;
  std::uint64_t offset = 0;
  bool ended = false;
  const auto refuse = [&](const std::string& found) {
    const std::string reason = plain.damage().empty() ? "" : " (" + plain.damage() + ")";
    throw InputError(source.name + "@" + std::to_string(offset), "the header of a tar member", found + reason);
  };
  for (;;) {
    std::array<char, block> bytes{};
    const std::size_t got = plain.read(bytes);
    const std::string_view header(bytes.data(), got);
    if (got == 0) break;  // the end, marked or not
    if (header.find_first_not_of('\0') == std::string_view::npos) {
      ended = true;
      offset += got;
      continue;
    }
    if (ended && !is_header(header)) break;  // behind the end only another archive means anything
    ended = false;
    if (got < block) refuse("the end of the file");
    if (!is_header(header)) refuse("something else");
    std::uint64_t size = 0;
    if (!read_number(header.substr(124, 12), size) || size > largest_member) refuse("a size that cannot be");
    ArchiveMember member;
    const std::string_view prefix = header.substr(257, 5) == "ustar" ? field(header, 345, 155) : std::string_view();
    member.name = (prefix.empty() ? "" : std::string(prefix) + "/") + std::string(field(header, 0, 100));
    offset += block;
    // Grows with what is there, so that a damaged size cannot ask for more memory than the file is long.
    for (std::uint64_t left = size; left > 0;) {
      const std::size_t piece = static_cast<std::size_t>(std::min<std::uint64_t>(left, std::uint64_t{1} << 20));
      const std::size_t before = member.bytes.size();
      member.bytes.resize(before + piece);
      const std::size_t read = plain.read({reinterpret_cast<char*>(member.bytes.data()) + before, piece});
      member.bytes.resize(before + read);
      offset += read;
      left -= read;
      if (read < piece) break;
    }
    const bool cut = member.bytes.size() < size;
    std::array<char, block> padding{};
    const std::size_t rest = (block - size % block) % block;
    if (!cut && rest > 0) offset += plain.read(std::span(padding).first(rest));
    const char type = header[156];
    const std::string_view text(reinterpret_cast<const char*>(member.bytes.data()), member.bytes.size());
    if (type == 'L') {
      long_name = std::string(field(text, 0, text.size()));
    } else if (type == 'x') {
      long_name = pax_path(text);
    } else if (type == 'S' || member.name.find("/GNUSparseFile.") != std::string::npos) {
      throw InputError(source.name + "/" + member.name, "a plain file in the archive", "a sparse one",
                       "make the archive without --sparse, or unpack it and give the files");
    } else if (type == '0' || type == '\0' || type == '7') {
      if (!long_name.empty()) member.name = std::exchange(long_name, {});
      if (!is_apple_double(member.name, text)) members.push_back(std::move(member));
    } else if (type != 'g') {
      long_name.clear();
    }
    if (cut) break;  // the member's own reader says what its truncated text means
  }
  return members;
}

}  // namespace stepcast
