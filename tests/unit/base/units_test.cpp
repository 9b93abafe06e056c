#include <stepcast/base/units.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <type_traits>

using namespace stepcast;

namespace {
template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Multipliable = requires(A a, B b) {
  a* b;
};
template <class A, class B>
concept Divisible = requires(A a, B b) {
  a / b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};
}  // namespace

TEST_CASE("units: only dimensionally legal operators exist") {
  static_assert(Addable<Seconds, Seconds>);
  static_assert(!Addable<Seconds, Bytes>);
  static_assert(!Addable<Seconds, double>);
  static_assert(!Comparable<Bytes, Seconds>);
  static_assert(!Multipliable<Seconds, Seconds>);
  static_assert(!Multipliable<Bytes, Bytes>);
  static_assert(!Divisible<Seconds, Bytes>);
  static_assert(!std::is_convertible_v<double, Seconds>);
  static_assert(std::is_same_v<decltype(Bytes(1) / BytesPerSecond(1)), Seconds>);
  static_assert(std::is_same_v<decltype(Bytes(1) / Seconds(1)), BytesPerSecond>);
  static_assert(std::is_same_v<decltype(BytesPerSecond(1) * Seconds(1)), Bytes>);
  static_assert(std::is_same_v<decltype(Seconds(1) / Seconds(2)), double>);
}

TEST_CASE("units: arithmetic is that of the numbers") {
  CHECK((Seconds(1) + Seconds(2) - Seconds(0.5)).value() == 2.5);
  CHECK((2.0 * Bytes(3)).value() == 6);
  CHECK((-Seconds(1)).value() == -1);
  CHECK(Seconds(1) < Seconds(2));
  CHECK(milliseconds(2) == Seconds(0.002));
  CHECK(mebibytes(1) == Bytes(1048576));
  CHECK(gigabits_per_second(10).value() == 1.25e9);
}

TEST_CASE("units: an empty transfer takes no time, at any rate") {
  CHECK((Bytes(0) / BytesPerSecond(0)).value() == 0);
  CHECK((Bytes(10) / BytesPerSecond(5)).value() == 2);
  CHECK(std::isinf((Bytes(1) / BytesPerSecond(0)).value()));
}
