// Fast path: walk the window at once. Slow path: one event at a time, with a new start at the next event that looks
// like one.
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/json_text.hpp>
#include <stepcast/formats/kineto/kineto_window.hpp>

namespace stepcast {
namespace {

// The comma of "}, {" whose brace is text[brace], or npos.
std::size_t comma_behind(std::string_view text, std::size_t brace) {
  std::size_t at = brace + 1;
  while (at < text.size() && is_space(text[at])) ++at;
  if (at == text.size() || text[at] != ',') return std::string_view::npos;
  const std::size_t comma = at++;
  while (at < text.size() && is_space(text[at])) ++at;
  return at < text.size() && text[at] == '{' ? comma : std::string_view::npos;
}

// Searching for the end of damaged events may take this much text in all.
constexpr std::uint64_t most_scanned_in_vain = std::uint64_t{1} << 30;

}  // namespace

TextDamage& TextDamage::operator+=(const TextDamage& more) {
  unreadable_events += more.unreadable_events;
  utf8 += more.utf8;
  control_characters += more.control_characters;
  no_closing_bracket |= more.no_closing_bracket;
  cut_event |= more.cut_event;
  return *this;
}

std::size_t last_cut(std::string_view text) {
  for (std::size_t end = text.size(); end > 0;) {
    const std::size_t brace = text.rfind('}', end - 1);
    if (brace == std::string_view::npos) break;
    const std::size_t comma = comma_behind(text, brace);
    if (comma != std::string_view::npos) return comma;
    end = brace;
  }
  return std::string_view::npos;
}

std::size_t first_cut(std::string_view text) {
  for (std::size_t brace = text.find('}'); brace != std::string_view::npos; brace = text.find('}', brace + 1)) {
    const std::size_t comma = comma_behind(text, brace);
    if (comma != std::string_view::npos) return comma;
  }
  return std::string_view::npos;
}

WindowReading WindowReader::read(std::string_view window, bool last, bool give_up, KinetoSink& sink) {
  window_ = window;
  last_ = last;
  give_up_ = give_up;
  sink_ = &sink;
  reading_ = WindowReading();
  if (one_by_one_) {
    read_singly();
  } else {
    read_at_once();
  }
  if (reading_.end == WindowEnd::whole && last_) reading_.damage.no_closing_bracket = true;
  if (reading_.end == WindowEnd::unfinished && !any_read()) reading_.read = 0;
  return reading_;
}

// True when more than space was dealt with.
bool WindowReader::any_read() const { return window_.find_first_not_of(" \t\r\n,") < reading_.read; }

// Walks what is left; after each damaged event again.
void WindowReader::read_at_once() {
  for (;;) {
    std::string_view rest = window_.substr(reading_.read);
    while (!rest.empty() && (is_space(rest.back()) || (rest.back() == ',' && !last_))) rest.remove_suffix(1);
    if (rest.empty()) {
      reading_.read = window_.size();
      return;
    }
    Walk walk = walker_.walk(rest, *sink_);
    if (walk.end == WalkEnd::invalid) walk = walk_repaired(rest, false);
    switch (walk.end) {
      case WalkEnd::window:
        reading_.read = window_.size();
        return;
      case WalkEnd::closed:
        reading_.read += walk.next;
        reading_.end = WindowEnd::closed;
        return;
      case WalkEnd::broken:
        reading_.read += walk.next;
        break;
      case WalkEnd::invalid:  // a string without an end, or control characters in one, somewhere
        return read_singly();
    }
    while (reading_.read < window_.size() && is_space(window_[reading_.read])) ++reading_.read;
    if (reading_.read == window_.size()) return;
    const char next = window_[reading_.read];
    if (next == ',' || next == ']') {
      ++reading_.read;
      if (next == ',') continue;
      reading_.end = WindowEnd::closed;
      return;
    }
    if (!read_one(window_.substr(reading_.read))) return;
  }
}

// Walks the text with what is not UTF-8 replaced, and counts the replacements in what was read.
Walk WindowReader::walk_repaired(std::string_view text, bool control_characters) {
  repaired_ = text;
  const std::uint64_t bytes = repair_utf8(repaired_.data(), repaired_.size());
  const std::uint64_t characters =
      control_characters ? repair_control_characters(repaired_.data(), repaired_.size()) : 0;
  if (bytes == 0 && characters == 0) return {WalkEnd::invalid, 0};
  const Walk walk = walker_.walk(repaired_, *sink_);
  if (walk.end == WalkEnd::invalid) return walk;
  std::string read(text.substr(0, walk.end == WalkEnd::window ? text.size() : walk.next));
  reading_.damage.utf8 += repair_utf8(read.data(), read.size());
  // Where a stray quote turns strings inside out, this only changed white space: it counts when it helped.
  if (walk.end == WalkEnd::window) reading_.damage.control_characters += characters;
  return walk;
}

void WindowReader::read_singly() {
  while (reading_.read < window_.size()) {
    const char next = window_[reading_.read];
    if (is_space(next) || next == ',') {
      ++reading_.read;
    } else if (next == ']') {
      ++reading_.read;
      reading_.end = WindowEnd::closed;
      return;
    } else if (!read_one(window_.substr(reading_.read))) {
      return;
    }
  }
}

// Reads the event at the beginning of `rest` by itself, or drops it. False when that cannot be decided here.
bool WindowReader::read_one(std::string_view rest) {
  const std::size_t length = rest[0] == '{' ? bracketed_size(rest) : 0;
  if (length == 0 && rest[0] == '{') {
    if (!last_ && !(give_up_ && !any_read())) {
      reading_.end = WindowEnd::unfinished;
      return false;
    }
    scanned_in_vain_ += rest.size();
    if (scanned_in_vain_ > most_scanned_in_vain) {
      reading_.end = WindowEnd::hopeless;
      return false;
    }
  }
  if (length == 0) return drop(rest);
  Walk walk = walker_.walk(rest.substr(0, length), *sink_);
  if (walk.end == WalkEnd::invalid) walk = walk_repaired(rest.substr(0, length), true);
  if (walk.end != WalkEnd::window) return drop(rest);
  reading_.read += length;
  return true;
}

// Goes on at the next place that looks like the beginning of an event.
bool WindowReader::drop(std::string_view rest) {
  if (const std::size_t cut = first_cut(rest); cut != std::string_view::npos) {
    ++reading_.damage.unreadable_events;
    reading_.read += cut;
    return true;
  }
  if (!last_) {
    reading_.end = WindowEnd::unfinished;
    return false;
  }
  reading_.damage.cut_event = true;
  reading_.read = window_.size();
  return true;
}

}  // namespace stepcast
