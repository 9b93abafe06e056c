#pragma once
// KinetoEvents: the array of events, a window at a time that stays in cache.
//
// A window is cut where one event ends and the next begins. The cut is guessed from the text alone ("}", a comma, "{")
// and the parser proves it: a wrong guess shows as an unfinished last event, which is then read on its own. The same
// slower path, a scan that knows strings, reads damaged stretches event by event.
#include <stepcast/json_text.hpp>
#include <stepcast/kineto_event.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace stepcast {

/// What was wrong in the text of the events; all zero for an intact file.
struct TextDamage {
  std::uint64_t unreadable_events = 0, utf8 = 0, control_characters = 0;
  bool no_closing_bracket = false;
  bool cut_event = false;  ///< the text ends inside an event
};

struct WindowSizes {
  std::size_t window = 1u << 18;
  std::size_t largest_event = 1u << 24;
  bool one_by_one = false;  ///< take the slower path for every event
};

/// Reads the events from the cursor, which stands behind the opening bracket, to behind the closing one. `progress` is
/// called once a window. Throws InputError for an event that is too large or text that is too damaged.
[[nodiscard]] TextDamage read_events(JsonText& text, KinetoSink& sink, const std::string& source,
                                     const std::function<void()>& progress, WindowSizes sizes = {});

}  // namespace stepcast
