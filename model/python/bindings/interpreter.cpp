// What CPython and pybind11 do to threads and objects that they did not expect.
#include "interpreter.hpp"

#include <pthread.h>

#include <algorithm>
#include <string>

namespace py = pybind11;

namespace stepcast::python {

namespace {

std::atomic<int> computing = 0;          // threads within a WithoutGil
std::atomic<bool> ending = false;        // Python has begun to end
std::atomic<std::thread::id> ending_in;  // the thread that ends it, which still computes what others ask at exit

/// Whether a computation that a thread began is one that Python's end waits for.
bool too_late(std::thread::id thread) { return ending && thread != ending_in.load(); }

[[noreturn]] void sleep_to_the_end() {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

WithoutGil::WithoutGil()
    : state_(PyEval_SaveThread()), thread_(std::this_thread::get_id()), heeded_(std::chrono::steady_clock::now()) {
  ++computing;
  if (!too_late(thread_)) return;
  --computing;
  sleep_to_the_end();
}

WithoutGil::~WithoutGil() {
  --computing;
  if (too_late(thread_)) sleep_to_the_end();
  if (state_) take_back();
}

void WithoutGil::take_back() {
  // Where the interpreter has ended, PyEval_RestoreThread ends this thread by unwinding it.
  struct AsleepUnlessBack {
    bool back = false;
    ~AsleepUnlessBack() {
      while (!back) std::this_thread::sleep_for(std::chrono::hours(1));
    }
  } thread;
  PyEval_RestoreThread(state_);
  thread.back = true;
  state_ = nullptr;
}

void WithoutGil::heed_signals() {
  constexpr std::chrono::milliseconds often(50);
  if (too_late(thread_)) throw Interrupted{};  // no further than the destructor
  const auto now = std::chrono::steady_clock::now();
  if (std::this_thread::get_id() == thread_ && !raised_ && now - heeded_ >= often) {
    heeded_ = now;
    take_back();
    raised_ = PyErr_CheckSignals() != 0;
    state_ = PyEval_SaveThread();
  }
  if (raised_) throw Interrupted{};
}

namespace {

newfunc made_before = nullptr;

/// pybind11's, which throws into the interpreter for the class from which all others inherit.
PyObject* made(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  if (!py::detail::all_type_info(type).empty()) return made_before(type, args, kwargs);
  PyErr_Format(PyExc_TypeError, "cannot create '%s' instances", type->tp_name);
  return nullptr;
}

/// A class makes instances as its base does, or Python refuses to unpickle them.
void guard_instances(PyTypeObject* type) {
  if (type->tp_new == made_before) type->tp_new = &made;
  for (const py::handle derived :
       py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(type)).attr("__subclasses__")())
    guard_instances(reinterpret_cast<PyTypeObject*>(derived.ptr()));
}

[[noreturn]] void* refuse_unmade(std::size_t) { throw py::type_error("the object was made without its __init__"); }

py::object reduced(const py::object& self, int protocol) {
  return py::module_::import("builtins").attr("object").attr("__reduce_ex__")(self, std::max(protocol, 2));
}

/// Lets the others finish or stop.
void wait_for_the_others() {
  ending_in = std::this_thread::get_id();
  ending = true;
  PyThreadState* state = PyEval_SaveThread();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (computing > 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(state);
}

}  // namespace

void end_after_computing() {
  // A process that was forked has none of the threads that computed.
  pthread_atfork(nullptr, nullptr, [] { computing = 0; });
  py::module_::import("atexit").attr("register")(py::cpp_function(&wait_for_the_others));
}

void guard_classes(py::module_& module) {
  auto* base = reinterpret_cast<PyTypeObject*>(py::detail::get_internals().instance_base);
  made_before = base->tp_new;
  guard_instances(base);
  for (const auto& [name, value] : module.attr("__dict__").cast<py::dict>()) {
    if (!py::isinstance<py::type>(value)) continue;
    py::detail::get_type_info(reinterpret_cast<PyTypeObject*>(value.ptr()))->operator_new = &refuse_unmade;
    value.attr("__reduce_ex__") =
        py::cpp_function(&reduced, py::name("__reduce_ex__"), py::is_method(value), py::arg("protocol"));
    value.attr("__module__") = "stepcast";  // where they are imported from: in reprs and pickles
  }
}

}  // namespace stepcast::python
