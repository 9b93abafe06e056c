// A window is given to the next free thread; results come back in the order of the text.
#include <stepcast/formats/kineto/trace_builder.hpp>
#include <stepcast/formats/kineto/window_workers.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

namespace stepcast {

WindowWorkers::WindowWorkers(std::size_t threads, bool one_by_one, TraceBuilder& builder)
    : threads_(std::max<std::size_t>(1, threads)) {
  for (std::size_t i = 0; i < threads_; ++i) workers_.emplace_back(one_by_one, builder.new_shard());
}

WindowWorkers::~WindowWorkers() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  given_.notify_all();
  for (std::thread& thread : running_) thread.join();
}

void WindowWorkers::start_threads() {
  try {
    for (Worker& worker : workers_) running_.emplace_back([this, &worker] { work(worker); });
  } catch (const std::system_error&) {  // who is there does the work: with none, the caller of `next`
  }
}

void WindowWorkers::work(Worker& worker) {
  std::unique_lock lock(mutex_);
  for (;;) {
    given_.wait(lock, [&] { return closing_ || claimed_ < tasks_.size(); });
    if (closing_) return;
    WindowTask& task = *tasks_[claimed_++];
    task.state = WindowTask::State::running;
    lock.unlock();
    read(task, worker);
    lock.lock();
    task.state = WindowTask::State::done;
    done_.notify_one();
  }
}

void WindowWorkers::read(WindowTask& task, Worker& worker) {
  try {
    task.reading = worker.reader.read(task.piece.text, task.last, task.give_up, worker.shard);
  } catch (...) { task.error = std::current_exception(); }
  task.block = worker.shard.taken();
}

void WindowWorkers::give(std::unique_ptr<WindowTask> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  if (threads_ == 1) return;
  // Most files are small: a second window is what makes threads worth starting.
  if (running_.empty() && tasks_.size() > 1) start_threads();
  given_.notify_one();
}

std::unique_ptr<WindowTask> WindowWorkers::next() {
  std::unique_lock lock(mutex_);
  WindowTask& task = *tasks_.front();
  if (running_.empty()) {
    if (task.state == WindowTask::State::waiting) read(task, workers_.front());
    claimed_ = 1;
  } else {
    done_.wait(lock, [&] { return task.state == WindowTask::State::done; });
  }
  std::unique_ptr<WindowTask> first = std::move(tasks_.front());
  tasks_.pop_front();
  --claimed_;
  return first;
}

std::vector<std::unique_ptr<WindowTask>> WindowWorkers::recalled() {
  std::unique_lock lock(mutex_);
  std::vector<std::unique_ptr<WindowTask>> all;
  for (std::size_t i = claimed_; i < tasks_.size(); ++i) tasks_[i]->state = WindowTask::State::done;
  const auto is_done = [](const std::unique_ptr<WindowTask>& task) { return task->state == WindowTask::State::done; };
  claimed_ = tasks_.size();
  done_.wait(lock, [&] { return std::ranges::all_of(tasks_, is_done); });
  for (std::unique_ptr<WindowTask>& task : tasks_) all.push_back(std::move(task));
  tasks_.clear();
  claimed_ = 0;
  return all;
}

}  // namespace stepcast
