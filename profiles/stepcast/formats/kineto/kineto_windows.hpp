#pragma once
// KinetoWindows: the array of events, a window at a time that stays in cache, several windows at a time.
//
// A window is cut where one event ends and the next begins. The cut is guessed from the text alone ("}", a comma, "{"),
// and windows are given to the threads in this hope. They are taken back in the order of the text: a window that was
// not read to its end shows that the guess was wrong or that an event is damaged; then what was read behind it is
// thrown away, and windows are cut anew from the event in question. So the result is that of reading the events one
// after the other, however many threads there are.
#include <stepcast/encodings/json_text.hpp>
#include <stepcast/formats/kineto/kineto_window.hpp>
#include <stepcast/formats/kineto/trace_builder.hpp>

#include <cstddef>
#include <functional>
#include <string>

namespace stepcast {

struct WindowSizes {
  std::size_t window = 1u << 18;
  std::size_t largest_event = 1u << 24;
  bool one_by_one = false;  ///< take the slower path for every event
  std::size_t threads = 1;  ///< next to the calling one if there are several
};

/// Reads the events from the cursor, which stands behind the opening bracket, to behind the closing one. `progress` is
/// called once a window, from this thread. Throws InputError for an event that is too large or text that is too
/// damaged.
[[nodiscard]] TextDamage read_events(JsonText& text, TraceBuilder& builder, const std::string& source,
                                     const std::function<void()>& progress, WindowSizes sizes = {});

}  // namespace stepcast
