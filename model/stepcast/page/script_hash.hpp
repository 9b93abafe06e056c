#pragma once
// Script hash: the hash by which a page's policy allows its own script and no other (FIPS 180-4, SHA-256; RFC 4648,
// base64).
#include <string>
#include <string_view>

namespace stepcast {

/// The source expression of a Content-Security-Policy that allows exactly this script: "'sha256-...'".
[[nodiscard]] std::string script_hash(std::string_view script);

}  // namespace stepcast
