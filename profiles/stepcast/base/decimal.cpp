// Digits are gathered into 64 bits with the place of the point kept apart, and shifted by decimal places at the end.
#include <stepcast/base/decimal.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

namespace stepcast {
namespace {

constexpr std::uint64_t largest = std::uint64_t{1} << 62;

// digits x 10^exponent, less than one unit cut off (`first_cut` is the first digit that was not kept).
struct Decimal {
  std::uint64_t digits = 0;
  int exponent = 0;
  int first_cut = 0;
  bool cut = false;
  bool negative = false;
};

// Eight digits at once: pairs, then fours, then all eight are joined by multiplications inside one 64-bit word
// (Lemire, "Quickly parsing eight digits", 2018). False when the eight bytes are not all digits.
bool read_eight(const char* text, std::uint64_t& value) {
  if constexpr (std::endian::native != std::endian::little) return false;
  std::uint64_t word;
  std::memcpy(&word, text, sizeof word);
  const std::uint64_t high = word & 0xf0f0f0f0f0f0f0f0u;
  const std::uint64_t carry = (word + 0x0606060606060606u) & 0xf0f0f0f0f0f0f0f0u;
  if (high != 0x3030303030303030u || carry != 0x3030303030303030u) return false;
  word -= 0x3030303030303030u;
  word = word * 10 + (word >> 8);
  value = (((word & 0x000000ff000000ffu) * 0x000f424000000064u) +
           (((word >> 16) & 0x000000ff000000ffu) * 0x0000271000000001u)) >>
          32;
  return true;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads a run of digits; beyond 18 significant ones they only move the exponent.
std::size_t add_digits(std::string_view text, std::size_t at, bool fraction, Decimal& number) {
  constexpr std::uint64_t full = 100'000'000'000'000'000u;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    const int digit = text[at] - '0';
    if (!number.cut && number.digits < full * 10) {
      number.digits = number.digits * 10 + static_cast<std::uint64_t>(digit);
      if (fraction) --number.exponent;
    } else {
      if (!number.cut) number.first_cut = digit;
      number.cut = true;
      if (!fraction) ++number.exponent;
    }
  }
  return at;
}

bool read_exponent(std::string_view text, std::size_t at, Decimal& number) {
  bool negative = false;
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) negative = text[at++] == '-';
  if (at == text.size()) return false;
  int exponent = 0;
  for (; at < text.size(); ++at) {
    if (!is_digit(text[at])) return false;
    if (exponent < 10'000) exponent = exponent * 10 + (text[at] - '0');
  }
  number.exponent += negative ? -exponent : exponent;
  return true;
}

bool read_decimal(std::string_view text, Decimal& number) {
  std::size_t at = 0;
  if (!text.empty() && text[0] == '-') number.negative = at++ == 0;
  const std::size_t first = at;
  at = add_digits(text, at, false, number);
  std::size_t count = at - first;
  if (at < text.size() && text[at] == '.') {
    const std::size_t point = ++at;
    at = add_digits(text, at, true, number);
    count += at - point;
  }
  if (count == 0) return false;
  if (at == text.size()) return true;
  return (text[at] == 'e' || text[at] == 'E') && read_exponent(text, at + 1, number);
}

// Reads at most `most` digits at `at` and returns the index behind them.
inline std::size_t read_digits(std::string_view text, std::size_t at, std::size_t most, std::uint64_t& number) {
  const std::size_t end = std::min(text.size(), at + most);
  for (std::uint64_t eight = 0; at + 8 <= end && read_eight(text.data() + at, eight); at += 8)
    number = number * 100'000'000 + eight;
  for (; at < end && is_digit(text[at]); ++at) number = number * 10 + static_cast<std::uint64_t>(text[at] - '0');
  return at;
}

// The number times 10^shift, rounded half away from zero.
Parsed scaled(Decimal number, int shift, std::int64_t& value) {
  int exponent = number.exponent + shift;
  std::uint64_t digits = number.digits;
  int cut = number.first_cut;
  for (; exponent < 0 && (digits != 0 || cut != 0); ++exponent) {
    cut = static_cast<int>(digits % 10);
    digits /= 10;
  }
  if (cut >= 5) ++digits;
  for (; exponent > 0 && digits != 0; --exponent) {
    if (digits > largest / 10) return Parsed::out_of_range;
    digits *= 10;
  }
  if (digits > largest) return Parsed::out_of_range;
  value = static_cast<std::int64_t>(digits);
  if (number.negative) value = -value;
  return Parsed::fine;
}

}  // namespace

Parsed read_integer(std::string_view text, std::int64_t& value) {
  // The usual case: up to 18 digits and nothing else.
  std::size_t at = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) ++at;
  if (std::uint64_t number = 0; at < text.size() && read_digits(text, at, 18, number) == text.size()) {
    value = static_cast<std::int64_t>(number);
    if (negative) value = -value;
    return Parsed::fine;
  }
  // Ids may use all 64 bits (hashes of thread handles); they keep their bits.
  if (text.size() - at >= 19 && text.size() - at <= 20) {
    std::uint64_t number = 0;
    std::size_t i = at;
    bool fits = true;
    for (; i < text.size() && is_digit(text[i]); ++i)
      fits = fits && !__builtin_mul_overflow(number, 10u, &number) &&
             !__builtin_add_overflow(number, static_cast<std::uint64_t>(text[i] - '0'), &number);
    if (i == text.size()) {
      if (!fits || (negative && number > std::uint64_t{1} << 63)) return Parsed::out_of_range;
      value = static_cast<std::int64_t>(negative ? 0 - number : number);
      return Parsed::fine;
    }
  }
  Decimal number;
  if (!read_decimal(text, number)) return Parsed::unreadable;
  std::int64_t thousandths = 0;
  const Parsed reading = scaled(number, 3, thousandths);
  if (reading != Parsed::fine) return reading;
  if (thousandths % 1000 != 0) return Parsed::unreadable;
  value = thousandths / 1000;
  return Parsed::fine;
}

Parsed read_microseconds(std::string_view text, std::int64_t& nanoseconds) {
  // The usual case: up to 16 digits (microseconds since 1970), a point, up to three digits.
  const bool negative = !text.empty() && text[0] == '-';
  const std::size_t first = negative ? 1 : 0;
  std::uint64_t number = 0;
  std::size_t at = read_digits(text, first, 16, number);
  if (at > first && number < 4'000'000'000'000'000) {
    constexpr std::uint64_t scale[] = {1000, 100, 10, 1};
    std::size_t places = 0;
    if (at < text.size() && text[at] == '.') {
      const std::size_t point = ++at;
      at = read_digits(text, point, 3, number);
      places = at - point;
    }
    if (at == text.size()) {
      nanoseconds = static_cast<std::int64_t>(number * scale[places]);
      if (negative) nanoseconds = -nanoseconds;
      return Parsed::fine;
    }
  }
  Decimal decimal;
  if (!read_decimal(text, decimal)) return Parsed::unreadable;
  return scaled(decimal, 3, nanoseconds);
}

}  // namespace stepcast
