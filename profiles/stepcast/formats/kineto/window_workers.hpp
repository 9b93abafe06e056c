#pragma once
// WindowWorkers: the threads that read windows, each with a parser and a part of the trace of its own.
#include <stepcast/encodings/json_text.hpp>
#include <stepcast/formats/kineto/event_shard.hpp>
#include <stepcast/formats/kineto/kineto_window.hpp>

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace stepcast {

class TraceBuilder;

/// A window on its way: cut, read by some worker, then taken back.
struct WindowTask {
  JsonText::Piece piece;
  std::uint64_t offset = 0;  ///< where the window begins in the text
  std::size_t wanted = 0;    ///< how long it was meant to be at most
  bool last = false, give_up = false;
  WindowReading reading;
  EventBlock block;
  std::exception_ptr error;
  enum class State : std::uint8_t { waiting, running, done } state = State::waiting;
};

/// Reads windows in the order in which they are given, several at a time; with one thread, when they are asked for.
class WindowWorkers {
 public:
  WindowWorkers(std::size_t threads, bool one_by_one, TraceBuilder&);
  ~WindowWorkers();
  WindowWorkers(const WindowWorkers&) = delete;
  WindowWorkers& operator=(const WindowWorkers&) = delete;

  /// How many windows should be on their way.
  [[nodiscard]] std::size_t wanted() const { return threads_ == 1 ? 1 : 4 * threads_; }
  [[nodiscard]] std::size_t given() const { return tasks_.size(); }
  void give(std::unique_ptr<WindowTask>);
  /// The first window that was given and not yet taken back, when it has been read.
  [[nodiscard]] std::unique_ptr<WindowTask> next();
  /// All other windows, read or not, in their order.
  [[nodiscard]] std::vector<std::unique_ptr<WindowTask>> recalled();

 private:
  struct Worker {
    Worker(bool one_by_one, EventShard& own) : reader(one_by_one), shard(own) {}
    WindowReader reader;
    EventShard& shard;
  };
  void work(Worker&);
  static void read(WindowTask&, Worker&);
  void start_threads();

  std::size_t threads_;
  std::deque<Worker> workers_;
  std::vector<std::thread> running_;
  std::mutex mutex_;
  std::condition_variable given_, done_;
  std::deque<std::unique_ptr<WindowTask>> tasks_;
  std::size_t claimed_ = 0;  ///< tasks at the front of `tasks_` that some thread reads or has read
  bool closing_ = false;
};

}  // namespace stepcast
