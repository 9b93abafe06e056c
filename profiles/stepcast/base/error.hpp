#pragma once
// Errors: what is wrong with an input, and questions that have no answer.
//
// Bad input throws `InputError`, the only exception that the library throws: where it is, what was expected, what was
// found, and what to do. A question that makes no sense for its (valid) inputs, such as "DeAR with a tree all-reduce",
// is answered by the value `Inapplicable`. Our own bugs hit an assertion and are neither of the two.
#include <exception>
#include <string>
#include <utility>
#include <variant>

namespace [[gnu::visibility("default")]] stepcast {

/// Input that cannot be used. `what()` is one line: "where: expected X, found Y; hint".
class InputError : public std::exception {
 public:
  /// `where` is file:line:column, file@byte offset, a JSON pointer, or the name of a flag; parts may be empty.
  InputError(std::string where, std::string expected, std::string found, std::string hint = {});
  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }

  std::string where, expected, found, hint;

 private:
  std::string message_;
};

/// A question without an answer, with the reason in words for the user.
struct Inapplicable {
  std::string reason;
};

/// Either a value or the reason why there is none.
template <class T>
class Answer {
 public:
  Answer(T value) : held_(std::move(value)) {}
  Answer(Inapplicable why) : held_(std::move(why)) {}
  [[nodiscard]] explicit operator bool() const { return held_.index() == 0; }
  /// Requires that the answer holds a value.
  [[nodiscard]] T& operator*() { return *std::get_if<0>(&held_); }
  [[nodiscard]] const T& operator*() const { return *std::get_if<0>(&held_); }
  [[nodiscard]] T* operator->() { return std::get_if<0>(&held_); }
  [[nodiscard]] const T* operator->() const { return std::get_if<0>(&held_); }
  /// Requires that the answer holds no value.
  [[nodiscard]] const std::string& reason() const { return std::get_if<1>(&held_)->reason; }

 private:
  std::variant<T, Inapplicable> held_;
};

}  // namespace stepcast
