#pragma once
// Progress: a bar on stderr for work that takes a while; silent for short work and when stderr is no terminal.
#include <chrono>
#include <string>

namespace stepcast::cli {

class Progress {
 public:
  explicit Progress(std::string label);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Wipes the bar.
  ~Progress();
  /// The share that is done, 0..1.
  void show(double share);

 private:
  std::string label_;
  bool terminal_ = false;
  int shown_ = -1;  ///< per cent on the screen; -1: nothing yet
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace stepcast::cli
