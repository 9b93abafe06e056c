// From exceptions and refusals to status codes, without ever failing on the way.
#include <stepcast/c/handles.hpp>

#include <exception>
#include <new>
#include <sstream>

namespace stepcast {
namespace {

/// Fills `error`, if there is one, without ever failing itself.
template <class Words>
void tell(stepcast_error* error, const Words& words) noexcept {
  if (!error) return;
  try {
    *error = words();
  } catch (...) {
    for (std::string* text : {&error->message, &error->where, &error->expected, &error->found, &error->hint})
      text->clear();
    error->no_memory = true;
  }
}

}  // namespace

stepcast_status c_refused(stepcast_error* error, const Inapplicable& refusal) noexcept {
  tell(error, [&] { return stepcast_error{.message = refusal.reason}; });
  return STEPCAST_INAPPLICABLE;
}

stepcast_status c_failed(stepcast_error* error) noexcept {
  try {
    throw;
  } catch (const InputError& e) {
    tell(error, [&] { return stepcast_error{e.what(), e.where, e.expected, e.found, e.hint}; });
    return STEPCAST_INPUT_ERROR;
  } catch (const std::bad_alloc&) {
    tell(error, [] { return stepcast_error{.message = "out of memory"}; });
  } catch (const std::exception& e) {
    const char* what = e.what();
    tell(error, [&] {
      return stepcast_error{.message = "internal error: " + std::string(what) + "; please report it with the input"};
    });
  } catch (...) {
    tell(error, [] { return stepcast_error{.message = "internal error; please report it with the input"}; });
  }
  return STEPCAST_INTERNAL_ERROR;
}

stepcast_text c_text_of(const std::function<void(std::ostream&)>& write) {
  std::ostringstream out;
  write(out);
  return {std::move(out).str()};
}

}  // namespace stepcast
