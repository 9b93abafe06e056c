#pragma once
// KinetoWindow: the reading of one window of events, by itself, in whatever thread.
//
// A window begins where an event begins and was cut where one seems to end. The fast path walks it at once; where that
// fails, because of damage or because the cut was wrong, events are read one by one from there. What cannot be decided
// without the text behind the window is left to the caller, so that the outcome does not depend on where windows are
// cut. The text is not changed: repairs are done on copies.
#include <stepcast/formats/kineto/kineto_event.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stepcast {

/// What was wrong in the text of the events; all zero for an intact file.
struct TextDamage {
  std::uint64_t unreadable_events = 0, utf8 = 0, control_characters = 0;
  bool no_closing_bracket = false;
  bool cut_event = false;  ///< the text ends inside an event
  TextDamage& operator+=(const TextDamage&);
};

enum class WindowEnd {
  whole,       ///< all of it was read
  closed,      ///< the array ended in it
  unfinished,  ///< an event begins at `read` that does not end, or cannot be told from the next, within the window
  hopeless,    ///< too much text was searched in vain for the end of events
};
struct WindowReading {
  WindowEnd end = WindowEnd::whole;
  std::size_t read = 0;  ///< bytes of the window that were dealt with; 0 when there was no event in them
  TextDamage damage;
};

class WindowReader {
 public:
  explicit WindowReader(bool one_by_one = false) : one_by_one_(one_by_one) {}
  /// Reads the events in `window`, which ends with the comma behind the last of them or, if it is the `last` window,
  /// with the text. `give_up`: an event at its beginning that does not end in it is damaged, however long it may be.
  [[nodiscard]] WindowReading read(std::string_view window, bool last, bool give_up, KinetoSink&);

 private:
  void read_at_once();
  void read_singly();
  bool read_one(std::string_view rest);
  bool drop(std::string_view rest);
  [[nodiscard]] bool any_read() const;
  Walk walk_repaired(std::string_view text, bool control_characters);

  bool one_by_one_;
  KinetoWalker walker_;
  std::string repaired_;
  // Of the window that is being read.
  std::string_view window_;
  bool last_ = false, give_up_ = false;
  KinetoSink* sink_ = nullptr;
  WindowReading reading_;
  std::uint64_t scanned_in_vain_ = 0;
};

/// Offset of the last comma in `text` that looks like one between two events, or npos.
[[nodiscard]] std::size_t last_cut(std::string_view text);
/// Offset of the first such comma, or npos.
[[nodiscard]] std::size_t first_cut(std::string_view text);

}  // namespace stepcast
