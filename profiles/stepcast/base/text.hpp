#pragma once
// Text of quantities: "25 Gb/s", "64 MiB", "5 us" in; short human-readable numbers out; and spelling suggestions.
//
// Invariant: a quantity in text always carries its unit; a bare number is an error that says what was expected. "MB"
// and "GB" are decimal, "MiB" and "GiB" binary, a small b is a bit and a capital B a byte. Whitespace between number
// and unit is optional. Not modelled: locales; numbers use a point.
#include <stepcast/base/units.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

/// "5 us", "0.3ms", "2 s". Throws InputError naming `where` for anything else, negative and non-finite values included.
[[nodiscard]] Seconds seconds_of(std::string_view text, std::string_view where);
/// "64 MiB", "25MB", "4096 B".
[[nodiscard]] Bytes bytes_of(std::string_view text, std::string_view where);
/// "25 Gb/s", "1.2 GB/s", "800Mbit/s", "10GbE" and "10G" (= 10 Gb/s), "NDR" (InfiniBand's port of 400 Gb/s). Zero is
/// refused: nothing ever arrives over such a link.
[[nodiscard]] BytesPerSecond bandwidth_of(std::string_view text, std::string_view where);
/// True of "NDR" and its like, which are bandwidths without a number.
[[nodiscard]] bool names_bandwidth(std::string_view text);
/// A plain number, finite; `where` names it in the error.
[[nodiscard]] double number_of(std::string_view text, std::string_view where);
/// A share: "30%", "30 %" and "0.3" are the same. Its range is the caller's to say.
[[nodiscard]] double share_of(std::string_view text, std::string_view where);
/// A whole number in [low, high].
[[nodiscard]] std::int64_t integer_of(std::string_view text, std::string_view where, std::int64_t low,
                                      std::int64_t high);

/// A large number, with a unit of thousands or without: "350M", "1.5B" (10^9, as models are named), "25557032".
[[nodiscard]] double large_number_of(std::string_view text, std::string_view where);

/// "1.234 ms": four significant digits in the unit that keeps the number between 1 and 1000.
[[nodiscard]] std::string text_of(Seconds);
/// "25.0 MiB" with binary prefixes; "97.5 MiB".
[[nodiscard]] std::string text_of(Bytes);
/// "10 Gb/s", decimal bits per second, as links are sold.
[[nodiscard]] std::string text_of(BytesPerSecond);
/// The exact text of a quantity that reads back to the same value ("0.005 s", "26214400 B", "1250000000 B/s").
[[nodiscard]] std::string exact_text_of(Seconds);
[[nodiscard]] std::string exact_text_of(Bytes);
[[nodiscard]] std::string exact_text_of(BytesPerSecond);
/// The shortest decimal that reads back to the same number, without an exponent from 1e-7 to 1e16: "0.25".
[[nodiscard]] std::string exact_text_of(double);
/// The shortest of the exact texts in all units: "3.5 ms", "0.5 GB/s".
[[nodiscard]] std::string exact_text_in_best_unit(Seconds);
[[nodiscard]] std::string exact_text_in_best_unit(BytesPerSecond);
/// In the largest binary unit that gives a whole number: "1536 MiB".
[[nodiscard]] std::string exact_text_in_best_unit(Bytes);

/// The word of `known` nearest to `word` ("did you mean 'bucket'?"), or empty if none is close.
[[nodiscard]] std::string suggestion_for(std::string_view word, std::span<const std::string> known);

}  // namespace stepcast
