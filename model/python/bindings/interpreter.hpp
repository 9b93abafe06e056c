#pragma once
// Interpreter: how calls let go of it while they compute, and what happens when it is interrupted or ends meanwhile.
//
// Invariant: a thread that comes back after the interpreter has ended touches it no more: it sleeps until the process
// is gone, as Python itself has it from 3.14 on. Before, Python unwinds such a thread, which ends the process where a
// destructor is in the way. And no thread computes any more when the process destroys its constants: Python's end waits
// for those that do, which stop where they would heed a signal.
#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace stepcast::python {

/// On its way to Python, which knows what happened: a handler of a signal has raised (KeyboardInterrupt).
struct Interrupted {};

/// While it lives, this thread computes without the interpreter.
class WithoutGil {
 public:
  WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil();

  /// Lets the handlers of signals run, a few times a second; throws `Interrupted` where one raised. Other threads than
  /// the one that made this only learn of that.
  void heed_signals();

 private:
  void take_back();

  PyThreadState* state_;
  std::thread::id thread_;
  std::chrono::steady_clock::time_point heeded_;
  std::atomic<bool> raised_ = false;
};

/// Python's functions that compute and touch no Python object meanwhile.
using Free = pybind11::call_guard<WithoutGil>;

/// Makes Python's end wait, a few seconds at most, until no other thread computes.
void end_after_computing();

/// Gives all classes of the module what pybind11 leaves out: pickles of every protocol, and objects that were made by
/// `__new__` alone are refused by their methods.
void guard_classes(pybind11::module_&);

}  // namespace stepcast::python
