// What CPython and pybind11 do to threads and objects that they did not expect.
#include "interpreter.hpp"

#include <algorithm>
#include <string>

namespace py = pybind11;

namespace stepcast::python {

WithoutGil::WithoutGil()
    : state_(PyEval_SaveThread()), thread_(std::this_thread::get_id()), heeded_(std::chrono::steady_clock::now()) {}

WithoutGil::~WithoutGil() {
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

}  // namespace

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
