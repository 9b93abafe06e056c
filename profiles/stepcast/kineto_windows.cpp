// Fast path: cut, walk, next. Slow path: one event at a time, with a new start at the next event that looks like one.
#include <stepcast/error.hpp>
#include <stepcast/kineto_windows.hpp>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace stepcast {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// The comma of "}, {" whose brace is text[brace], or npos.
std::size_t comma_behind(std::string_view text, std::size_t brace) {
  std::size_t at = brace + 1;
  while (at < text.size() && is_space(text[at])) ++at;
  if (at == text.size() || text[at] != ',') return std::string_view::npos;
  const std::size_t comma = at++;
  while (at < text.size() && is_space(text[at])) ++at;
  return at < text.size() && text[at] == '{' ? comma : std::string_view::npos;
}

// Offset of the last comma that looks like one between two events, or npos.
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

// Offset of the first such comma, or npos.
std::size_t first_cut(std::string_view text) {
  for (std::size_t brace = text.find('}'); brace != std::string_view::npos; brace = text.find('}', brace + 1)) {
    const std::size_t comma = comma_behind(text, brace);
    if (comma != std::string_view::npos) return comma;
  }
  return std::string_view::npos;
}

class EventReader {
 public:
  EventReader(JsonText& text, KinetoSink& sink, const std::string& source, WindowSizes sizes)
      : text_(text), sink_(sink), source_(source), sizes_(sizes) {}

  TextDamage read(const std::function<void()>& progress) {
    while (!ended_) {
      const char next = text_.peek();
      if (next == ',' || next == ']' || next == '\0') {
        damage_.no_closing_bracket = next == '\0';
        ended_ = next != ',';
        if (next != '\0') text_.advance(1);
        continue;
      }
      if (sizes_.one_by_one) {
        read_one();
        continue;
      }
      if (progress) progress();
      read_window();
    }
    return damage_;
  }

 private:
  // Reads one window from the cursor and leaves the cursor behind what was read.
  void read_window() {
    std::size_t wanted = sizes_.window, size = 0;
    for (;; wanted *= 2) {
      size = text_.available(wanted);
      if (text_.at_last_part() && size <= wanted) break;
      size = last_cut({text_.here(), std::min(size, wanted)});
      if (size != std::string_view::npos) break;
      if (wanted >= sizes_.largest_event) refuse("events of at most 16 MiB", "a larger one, or none at all");
    }
    Walk walk = walker_.walk(text_.here(), size, sink_);
    if (walk.end == WalkEnd::invalid && repaired_utf8(size)) walk = walker_.walk(text_.here(), size, sink_);
    switch (walk.end) {
      case WalkEnd::window:
        text_.advance(size);
        return;
      case WalkEnd::closed:
        text_.advance(walk.next);
        ended_ = true;
        return;
      case WalkEnd::broken:
        text_.advance(walk.next);
        if (const char next = text_.peek(); next != ',' && next != ']' && next != '\0') read_one();
        return;
      case WalkEnd::invalid:  // a string without an end, or control characters in one, somewhere in the window
        read_singly(size);
        return;
    }
  }

  void read_singly(std::size_t size) {
    const std::uint64_t stop = text_.offset() + size;
    while (text_.offset() < stop && !ended_) {
      const char next = text_.peek();
      if (next == ']' || next == '\0') return;
      if (next == ',') {
        text_.advance(1);
      } else {
        read_one();
      }
    }
  }

  // Reads the event at the cursor by itself, or drops it.
  void read_one() {
    std::size_t length = 0;
    const std::size_t scanned = look_ahead([&](std::string_view rest) {
      length = rest[0] == '{' ? bracketed_size(rest) : 0;
      return length != 0 || rest[0] != '{';
    });
    if (length == 0) {
      scanned_in_vain_ += scanned;
      if (scanned_in_vain_ > most_scanned_in_vain) refuse("readable events", "too many damaged ones");
      return drop();
    }
    Walk walk = walker_.walk(text_.here(), length, sink_);
    if (walk.end == WalkEnd::invalid) {
      repaired_utf8(length);
      // Where a stray quote turns strings inside out, this only changes white space: count it when it helped.
      const std::uint64_t replaced = repair_control_characters(text_.here(), length);
      walk = walker_.walk(text_.here(), length, sink_);
      if (walk.end == WalkEnd::window) damage_.control_characters += replaced;
    }
    if (walk.end != WalkEnd::window) return drop();
    text_.advance(length);
  }

  // Goes on at the next place that looks like the beginning of an event.
  void drop() {
    std::size_t cut = std::string_view::npos;
    const std::size_t scanned = look_ahead([&](std::string_view rest) {
      cut = first_cut(rest);
      return cut != std::string_view::npos;
    });
    if (cut != std::string_view::npos) {
      ++damage_.unreadable_events;
      text_.advance(cut);
      return;
    }
    if (!text_.at_last_part()) refuse("events of at most 16 MiB", "a larger one, or none at all");
    damage_.cut_event = true;
    damage_.no_closing_bracket = true;
    ended_ = true;
    text_.advance(scanned);
  }

  // Shows `found` more and more of what follows the cursor until it says true; returns how much it saw last.
  template <class Found>
  std::size_t look_ahead(Found found) {
    constexpr std::size_t least = 1u << 16;
    for (std::size_t wanted = least;; wanted *= 4) {
      const std::size_t size = text_.available(wanted);
      const bool all = (text_.at_last_part() && size <= wanted) || wanted >= sizes_.largest_event;
      if (found(std::string_view(text_.here(), all ? size : wanted)) || all) return all ? size : wanted;
    }
  }

  bool repaired_utf8(std::size_t size) {
    const std::uint64_t count = repair_utf8(text_.here(), size);
    damage_.utf8 += count;
    return count > 0;
  }

  [[noreturn]] void refuse(const char* expected, const char* found) const {
    throw InputError(source_ + "@" + std::to_string(text_.offset()), expected, found);
  }

  static constexpr std::uint64_t most_scanned_in_vain = std::uint64_t{1} << 30;
  JsonText& text_;
  KinetoSink& sink_;
  const std::string& source_;
  WindowSizes sizes_;
  KinetoWalker walker_;
  TextDamage damage_;
  std::uint64_t scanned_in_vain_ = 0;
  bool ended_ = false;
};

}  // namespace

TextDamage read_events(JsonText& text, KinetoSink& sink, const std::string& source,
                       const std::function<void()>& progress, WindowSizes sizes) {
  return EventReader(text, sink, source, sizes).read(progress);
}

}  // namespace stepcast
