#pragma once
// Archive: the members of a tar file, plain or gzip, in which the ranks of a run often travel together.
//
// Reads what POSIX (ustar, pax) and GNU tar write; links, folders, what macOS puts beside its files ("._name") and
// other special members are left out. Not modelled: sparse files, other archives (zip).
#include <stepcast/encodings/source.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

struct ArchiveMember {
  std::string name;  ///< path within the archive
  std::vector<std::byte> bytes;
};

/// True when the first decompressed bytes are the header of a tar member.
[[nodiscard]] bool is_archive(std::string_view head);
/// The files of the archive in its order. Throws InputError for damage that hides where a member ends.
[[nodiscard]] std::vector<ArchiveMember> members_of(const Source&);

}  // namespace stepcast
