#pragma once
// Threads that help the caller with work that it would do alone if it had to (internal to the library).
#include <algorithm>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace stepcast {

/// The number of threads that is asked for; for 0 as many as the machine has cores.
[[nodiscard]] inline unsigned threads_or_all(unsigned asked) {
  return asked > 0 ? asked : std::max(1u, std::thread::hardware_concurrency());
}

/// Runs `work(i)` for i in [1, count), each on a thread of its own; fewer where the system has no more threads. They
/// are joined when the result is destroyed. The caller is worker 0.
template <class Work>
std::vector<std::jthread> helping_threads(std::size_t count, const Work& work) {
  std::vector<std::jthread> helpers;
  try {
    for (std::size_t i = 1; i < count; ++i) helpers.emplace_back([&work, i] { work(i); });
  } catch (const std::system_error&) {  // who is there does the work
  }
  return helpers;
}

}  // namespace stepcast
