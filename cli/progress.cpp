// A line of progress on a terminal.
#include "progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace stepcast::cli {

Progress::Progress(std::string label) : label_(std::move(label)), terminal_(::isatty(STDERR_FILENO) == 1) {}

void Progress::show(double share) {
  // Work that ends within this time needs no bar.
  constexpr std::chrono::milliseconds patience(500);
  const int percent = static_cast<int>(100 * std::clamp(share, 0.0, 1.0));
  if (!terminal_ || percent == shown_ || std::chrono::steady_clock::now() - start_ < patience) return;
  shown_ = percent;
  constexpr int width = 30;
  const int filled = width * percent / 100;
  std::fprintf(stderr, "\r%s [%s%s] %3d %%", label_.c_str(), std::string(filled, '#').c_str(),
               std::string(width - filled, '.').c_str(), percent);
  std::fflush(stderr);
}

Progress::~Progress() {
  if (shown_ >= 0) std::fprintf(stderr, "\r\033[K");
}

}  // namespace stepcast::cli
