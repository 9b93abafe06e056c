#pragma once
// Suggestions: the ends of messages about a word that is not among those that are known.
//
// Internal to the library and its program.
#include <span>
#include <string>
#include <string_view>

namespace stepcast {

/// "a, b, c".
[[nodiscard]] std::string listed(std::span<const std::string> names);
/// What name is near to `word`, as a hint: "did you mean 'x'?", else `otherwise`.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> names,
                                       std::string_view otherwise = {});

}  // namespace stepcast
