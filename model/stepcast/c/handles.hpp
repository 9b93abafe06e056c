#pragma once
// Room c: what stands behind stepcast.h.
//
//   stepcast_profile_of_sources(...) -> c_made -> Answer<stepcast_profile> -> a handle and STEPCAST_ANSWERED
//
// It may include base, documents, extraction, cluster, launch, layout, parallelism, question, prediction, replay,
// baseline and report.
//
// C handles: what stands behind the opaque types of stepcast.h, and the way from exceptions and answers to status codes
// (internal to the library).
//
// interface.cpp: errors, texts, profiles and clusters of stepcast.h; recordings.cpp: what is asked of traces alone;
// model.cpp: models and predictions.
#include <stepcast/stepcast.h>
#include <stepcast/base/error.hpp>
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/prediction/model.hpp>
#include <stepcast/question/question.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

struct stepcast_error {
  std::string message{}, where{}, expected{}, found{}, hint{};
  bool no_memory = false;  ///< not even for the message
};
struct stepcast_text {
  std::string text;
};
struct stepcast_profile {
  stepcast::Profile profile;
  std::shared_ptr<const stepcast::SelfCheck> check;
  std::string caution, notes;
};
struct stepcast_cluster {
  stepcast::Cluster cluster;
};
struct stepcast_model {
  stepcast::PreparedQuestion question;               ///< answers every plan
  stepcast::Model model;                             ///< its profile after the changes, for the hot loop
  std::shared_ptr<const stepcast::SelfCheck> check;  ///< of the profile before them
  stepcast::SelfCheck::Model recorded;               ///< for the hot loop, where answers are of the recorded step
};
struct stepcast_scratch {
  stepcast::Model::Scratch scratch;
};

namespace stepcast {

/// Of a call that has no answer, the reason; else nothing.
using CRefusal = std::optional<Inapplicable>;

/// A status, with its reason in `error` unless that is null: of a refusal, and of the exception in flight.
[[nodiscard]] stepcast_status c_refused(stepcast_error* error, const Inapplicable& refusal) noexcept;
[[nodiscard]] stepcast_status c_failed(stepcast_error* error) noexcept;

/// Runs `call`, which returns a CRefusal, and tells what became of it.
template <class Call>
[[nodiscard]] stepcast_status c_status_of(stepcast_error* error, const Call& call) noexcept {
  try {
    if (error) *error = {};
    const CRefusal refusal = call();
    return refusal ? c_refused(error, *refusal) : STEPCAST_ANSWERED;
  } catch (...) { return c_failed(error); }
}

/// The value behind a pointer that callers have to give.
template <class T>
T& c_needed(T* pointer, const char* name) {
  if (!pointer) throw InputError(name, "a value", "a null pointer");
  return *pointer;
}

/// Puts the handle that `make` answers into `*place`; a null pointer when there is none.
template <class Handle, class Make>
[[nodiscard]] stepcast_status c_made(Handle** place, const char* name, stepcast_error* error,
                                     const Make& make) noexcept {
  if (place) *place = nullptr;
  return c_status_of(error, [&]() -> CRefusal {
    Handle*& made = c_needed(place, name);
    Answer<Handle> answer = make();
    if (!answer) return Inapplicable{answer.reason()};
    made = new Handle(*std::move(answer));
    return std::nullopt;
  });
}

/// What callers give to be read. Throws InputError where there is none, naming `name`.
[[nodiscard]] std::vector<Source> c_sources(const stepcast_source* given, std::size_t count,
                                            const char* name = "sources");

/// What `write` writes.
[[nodiscard]] stepcast_text c_text_of(const std::function<void(std::ostream&)>& write);

}  // namespace stepcast
