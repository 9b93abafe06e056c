#pragma once
// Room base: quantities, errors, words and statistics, on which all other rooms stand.
//
// Example: `Bytes(25e6) / BytesPerSecond(1.25e9)` is `Seconds(0.02)`; a sum of the two does not compile.
//
// It includes no other room.
//
// Units: seconds, bytes and bytes per second as three distinct types, one double each.
//
// Invariant: only dimensionally legal operators exist, so that a size can never be added to a time and a bandwidth can
// never be mistaken for its inverse. At the edges of the program a quantity is text with its unit ("25 Gb/s"; see
// text.hpp); in JSON, CSV and Python it is a plain SI number whose key ends in `_s`, `_bytes` or `_bytes_per_s`.
// Not modelled: currency, energy, and operation counts, which are plain doubles where they occur.
#include <compare>

namespace [[gnu::visibility("default")]] stepcast {

/// One physical quantity; `Tag` only keeps the dimensions apart.
template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double si) : si_(si) {}
  /// The number in SI units: seconds, bytes, or bytes per second.
  [[nodiscard]] constexpr double value() const { return si_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator-() const { return Quantity(-si_); }
  constexpr Quantity& operator+=(Quantity o) {
    si_ += o.si_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity o) {
    si_ -= o.si_;
    return *this;
  }
  constexpr Quantity& operator*=(double k) {
    si_ *= k;
    return *this;
  }
  constexpr Quantity& operator/=(double k) {
    si_ /= k;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.si_ + b.si_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.si_ - b.si_); }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity(a.si_ * k); }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity(a.si_ * k); }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity(a.si_ / k); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.si_ / b.si_; }

 private:
  double si_ = 0;
};

using Seconds = Quantity<struct SecondsTag>;
using Bytes = Quantity<struct BytesTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;

/// Time to move `size` at `rate`; zero for an empty transfer at any rate, infinite for a positive size at rate 0.
constexpr Seconds operator/(Bytes size, BytesPerSecond rate) {
  return Seconds(size.value() == 0 ? 0 : size.value() / rate.value());
}
constexpr BytesPerSecond operator/(Bytes size, Seconds time) { return BytesPerSecond(size.value() / time.value()); }
constexpr Bytes operator*(BytesPerSecond rate, Seconds time) { return Bytes(rate.value() * time.value()); }
constexpr Bytes operator*(Seconds time, BytesPerSecond rate) { return rate * time; }

constexpr Seconds milliseconds(double ms) { return Seconds(ms * 1e-3); }
constexpr Seconds microseconds(double us) { return Seconds(us * 1e-6); }
constexpr Bytes mebibytes(double mib) { return Bytes(mib * 1048576.0); }
constexpr BytesPerSecond gigabits_per_second(double gbit) { return BytesPerSecond(gbit * 1.25e8); }

}  // namespace stepcast
