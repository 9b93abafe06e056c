// The module stepcast._stepcast: errors, and what the other files of this folder bind.
#include "bindings.hpp"

#include <stepcast/base/printable.hpp>

namespace stepcast::python {
namespace {

/// Exceptions are classes of stepcast.errors, written in Python so that they pickle and read well.
void raise(const char* name, const py::tuple& parts) {
  const py::object kind = py::module_::import("stepcast.errors").attr(name);
  PyErr_SetObject(kind.ptr(), kind(*parts).ptr());
}

void translate(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const InputError& e) {
    raise("InputError", py::make_tuple(e.where, e.expected, e.found, e.hint));
  } catch (const NoAnswer& e) {
    raise("Inapplicable", py::make_tuple(printable(e.reason)));
  } catch (const py::cast_error&) {  // of pybind11, whose text is for those who compile
    PyErr_SetString(PyExc_TypeError, "an argument or a part of one has a type that does not belong there");
  } catch (const Interrupted&) {  // Python's exception is set
  }
}

}  // namespace
}  // namespace stepcast::python

PYBIND11_MODULE(_stepcast, module) {
  using namespace stepcast::python;
  py::options options;
  options.disable_function_signatures();  // the stubs have them
  py::register_exception_translator(translate);
  module.attr("__version__") = STEPCAST_VERSION;
  module.def("input_error_text", [](const std::string& where, const std::string& expected, const std::string& found,
                                    const std::string& hint) {
    return std::string(stepcast::InputError(where, expected, found, hint).what());
  });
  bind_profile(module);
  bind_cluster(module);
  bind_prediction(module);
  bind_comm_plan(module);
  bind_ranking(module);
  bind_sweep(module);
  bind_whatif(module);
  bind_model(module);
  bind_reports(module);
  bind_page(module);
  bind_search(module);
  guard_classes(module);
  end_after_computing();
}
