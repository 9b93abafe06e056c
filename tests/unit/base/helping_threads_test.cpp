#include <stepcast/base/helping_threads.hpp>

#include <doctest/doctest.h>

#include <mutex>
#include <set>

namespace stepcast {
namespace {

TEST_CASE("each helper works once, under a number of its own, and the caller is number 0") {
  std::set<std::size_t> numbers;
  std::mutex change;
  const auto work = [&](std::size_t i) {
    const std::lock_guard lock(change);
    numbers.insert(i);
  };
  { const auto helpers = helping_threads(4, work); }
  CHECK(numbers == std::set<std::size_t>{1, 2, 3});
  CHECK(helping_threads(0, work).empty());
  CHECK(helping_threads(1, work).empty());
}

}  // namespace
}  // namespace stepcast
