// The scan of one event, a character at a time where it must and in leaps where it can; the walk from event to event.
#include <stepcast/base/decimal.hpp>
#include <stepcast/base/error.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/encodings/json_text.hpp>
#include <stepcast/formats/shared/chrome_events.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace stepcast {
namespace {

enum class Scanned { complete, unfinished, broken };

// The members of one JSON object, in order. Knows strings and brackets, nothing else.
class ObjectScan {
 public:
  explicit ObjectScan(std::string_view text) : at_(text.data()), end_(text.data() + text.size()), begin_(at_) {}

  // Calls `found(key, value)` for each member; both raw, the key without its quotes.
  template <class Found>
  Scanned members(Found found) {
    if (at_ == end_) return Scanned::unfinished;
    if (*at_++ != '{') return Scanned::broken;
    for (bool first = true;; first = false) {
      if (!skip_space()) return Scanned::unfinished;
      if (*at_ == '}') {
        ++at_;
        return Scanned::complete;
      }
      if (!first) {
        if (*at_++ != ',') return Scanned::broken;
        if (!skip_space()) return Scanned::unfinished;
      }
      if (*at_ != '"') return Scanned::broken;
      const char* const key = at_ + 1;
      if (!skip_string()) return Scanned::unfinished;
      const std::string_view name(key, static_cast<std::size_t>(at_ - 1 - key));
      if (!skip_space()) return Scanned::unfinished;
      if (*at_++ != ':') return Scanned::broken;
      if (!skip_space()) return Scanned::unfinished;
      const char* const value = at_;
      if (const Scanned end = skip_value(); end != Scanned::complete) return end;
      found(name, std::string_view(value, static_cast<std::size_t>(at_ - value)));
    }
  }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(at_ - begin_); }

 private:
  bool skip_space() {
    while (at_ < end_ && is_space(*at_)) ++at_;
    return at_ < end_;
  }

  // From the opening quote to behind the closing one.
  bool skip_string() {
    for (++at_; at_ < end_;) {
      const auto* quote = static_cast<const char*>(std::memchr(at_, '"', static_cast<std::size_t>(end_ - at_)));
      if (!quote) break;
      const char* escape = quote;
      while (escape > at_ && escape[-1] == '\\') --escape;
      at_ = quote + 1;
      if ((quote - escape) % 2 == 0) return true;
    }
    at_ = end_;
    return false;
  }

  Scanned skip_value() {
    if (*at_ == '"') return skip_string() ? Scanned::complete : Scanned::unfinished;
    if (*at_ != '{' && *at_ != '[') {
      const char* const first = at_;
      while (at_ < end_ && *at_ != ',' && *at_ != '}' && *at_ != ']' && !is_space(*at_)) ++at_;
      if (at_ == end_) return Scanned::unfinished;
      return at_ == first ? Scanned::broken : Scanned::complete;
    }
    std::size_t depth = 0;
    while (at_ < end_) {
      const char c = *at_;
      if (c == '"') {
        if (!skip_string()) return Scanned::unfinished;
        continue;
      }
      ++at_;
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) return Scanned::complete;
    }
    return Scanned::unfinished;
  }

  const char* at_;
  const char* end_;
  const char* begin_;
};

void assign(ChromeEvent& event, std::string_view key, std::string_view value) {
  if (key == "ph") event.phase = value;
  else if (key == "ts") event.start = value;
  else if (key == "pid") event.process = value;
  else if (key == "tid") event.thread = value;
  else if (key == "name") event.name = value;
  else if (key == "dur") event.duration = value;
  else if (key == "args") event.arguments = value;
  else if (key == "cat") event.category = value;
  else if (key == "id") event.id = value;
}

// Bytes that a valid event seldom holds: beyond ASCII, or control characters (which pretty-printing also writes).
bool looks_clean(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) - 0x20u >= 0x60u; });
}

class Walker {
 public:
  Walker(const Source& source, const ReadOptions& options, Repairs& repairs, const ChromeVisitor& visitor)
      : source_(source), options_(options), repairs_(repairs), visitor_(visitor), plain_(source.bytes), text_(plain_) {}

  ChromeWalk walk() {
    if (text_.take('[')) {
      walk_.bare_array = true;
      read_array();
      if (walk_.closed && text_.peek() != '\0') repairs_.say("text behind the end of the array left out");
    } else if (text_.take('{')) {
      read_object();
    } else {
      throw InputError(source_.name, "JSON: an object or an array of events", "something else");
    }
    report();
    walk_.bytes = text_.offset();
    return std::move(walk_);
  }

 private:
  void read_object() {
    for (;;) {
      if (text_.take('}')) return;
      if (text_.take(',')) continue;
      std::string key;
      if (text_.peek() != '"' || !text_.value(&key, longest_value) || !text_.take(':')) {
        if (text_.peek() != '\0')
          throw InputError(source_.name + "@" + std::to_string(text_.offset()), "a key and a value", "something else",
                           "the file is not JSON from here on");
        open_object_ = true;
        return;
      }
      const std::string name(content_of(key));
      if (name == "traceEvents" && text_.take('[')) {
        read_array();
        if (!walk_.closed) return;
        continue;
      }
      std::string value;
      if (!text_.value(&value, longest_value)) open_object_ = true;
      walk_.keys.push_back(name);
      if (visitor_.member) visitor_.member(name, value);
    }
  }

  void read_array() {
    walk_.saw_events = true;
    for (;;) {
      const char next = text_.peek();
      if (next == '\0') return;
      if (next == ']') {
        text_.advance(1);
        walk_.closed = true;
        return;
      }
      if (next == ',') {
        text_.advance(1);
        continue;
      }
      if (options_.progress && text_.offset() >= next_progress_) {
        options_.progress(plain_.share_read());
        next_progress_ = text_.offset() + progress_step;
      }
      if (!read_event() && !drop()) return;
    }
  }

  // Reads the event at the cursor. False when it cannot be read.
  bool read_event() {
    std::size_t have = text_.available(1);
    for (;;) {
      ChromeEvent event;
      ObjectScan scan({text_.here(), have});
      const Scanned end =
          scan.members([&](std::string_view key, std::string_view value) { assign(event, key, value); });
      if (end == Scanned::broken) return false;
      if (end == Scanned::complete) {
        clean(scan.size());
        ++walk_.events;
        visitor_.event(event);
        text_.advance(scan.size());
        return true;
      }
      if (text_.at_last_part() || have >= largest_event) {
        scanned_in_vain_ += have;
        if (scanned_in_vain_ > most_scanned_in_vain)
          throw InputError(source_.name + "@" + std::to_string(text_.offset()), "readable events",
                           "too many damaged ones");
        return false;
      }
      have = text_.available(std::max(window, 2 * have));
    }
  }

  // Repairs the text of an event in place: views into it stay valid.
  void clean(std::size_t size) {
    if (looks_clean({text_.here(), size})) return;
    utf8_ += repair_utf8(text_.here(), size);
    control_ += repair_control_characters(text_.here(), size);
  }

  // Goes on at the next place that looks like the beginning of an event; false when there is none.
  bool drop() {
    for (std::size_t have = text_.available(1);; have = text_.available(std::max(window, 2 * have))) {
      const std::string_view rest(text_.here(), have);
      for (std::size_t brace = rest.find('}'); brace != std::string_view::npos; brace = rest.find('}', brace + 1)) {
        std::size_t at = brace + 1;
        while (at < have && (is_space(rest[at]) || rest[at] == ',')) ++at;
        if (at == have || rest[at] != '{' || rest.substr(brace, at - brace).find(',') == std::string_view::npos)
          continue;
        ++unreadable_;
        text_.advance(at);
        return true;
      }
      if (text_.at_last_part()) break;
      if (have >= largest_event)
        throw InputError(source_.name + "@" + std::to_string(text_.offset()), "events of at most 16 MiB",
                         "a larger one, or none at all");
    }
    cut_event_ = true;
    text_.advance(text_.available(1));
    return false;
  }

  void report() {
    if (!plain_.damage().empty()) repairs_.say("truncated: " + plain_.damage());
    if (cut_event_) repairs_.say("truncated tail: the text ends inside an event, 1 event dropped");
    repairs_.count(unreadable_, "event dropped", "events dropped", "their text is not JSON (unescaped quotes?)");
    repairs_.count(utf8_, "byte replaced", "bytes replaced", "not UTF-8");
    repairs_.count(control_, "unescaped control character replaced", "unescaped control characters replaced");
    if (walk_.closed && open_object_) repairs_.say("truncated tail: the text ends behind the events");
    if (unreadable_ > walk_.events)
      throw InputError(
          source_.name, "mostly readable events",
          std::to_string(unreadable_) + " unreadable ones of " + std::to_string(unreadable_ + walk_.events));
  }

  static constexpr std::size_t window = 1u << 18, largest_event = 1u << 24, longest_value = 1u << 20;
  static constexpr std::uint64_t progress_step = 1u << 20, most_scanned_in_vain = std::uint64_t{1} << 30;
  const Source& source_;
  const ReadOptions& options_;
  Repairs& repairs_;
  const ChromeVisitor& visitor_;
  PlainText plain_;
  JsonText text_;
  ChromeWalk walk_;
  std::uint64_t unreadable_ = 0, utf8_ = 0, control_ = 0, next_progress_ = 0, scanned_in_vain_ = 0;
  bool cut_event_ = false, open_object_ = false;
};

}  // namespace

std::string_view member_of(std::string_view object, std::string_view key) {
  std::string_view out;
  if (object.empty() || object.front() != '{') return out;
  ObjectScan scan(object);
  (void)scan.members([&](std::string_view name, std::string_view value) {
    if (name == key) out = value;
  });
  return out;
}

std::string_view content_of_member(std::string_view object, std::string_view key) {
  return content_of(member_of(object, key));
}

std::int64_t integer_member(std::string_view object, std::string_view key) {
  std::int64_t value = -1;
  const std::string_view text = content_of_member(object, key);
  return !text.empty() && read_integer(text, value) == Parsed::fine ? value : -1;
}

bool read_id(std::string_view json, std::int64_t& id) {
  const std::string_view text = content_of(json);
  if (text.empty()) return false;
  const char* const end = text.data() + text.size();
  if (const auto [at, error] = std::from_chars(text.data(), end, id); at == end && error == std::errc()) return true;
  // Hashes of 64 bits are written without a sign.
  std::uint64_t bits = 0;
  if (const auto [at, error] = std::from_chars(text.data(), end, bits); at != end || error != std::errc()) return false;
  id = static_cast<std::int64_t>(bits);
  return true;
}

void Repairs::count(std::uint64_t count, std::string_view one, std::string_view many, std::string_view why) {
  if (count == 0) return;
  say(counted(std::int64_t(count), one, many) + (why.empty() ? "" : ": " + std::string(why)));
}

void Repairs::say(const std::string& what) {
  if (strict_) throw InputError(source_, "an undamaged file", what, "without --strict it is repaired and reported");
  repaired_.push_back(what);
}

ChromeWalk walk_chrome_trace(const Source& source, const ReadOptions& options, Repairs& repairs,
                             const ChromeVisitor& visitor) {
  return Walker(source, options, repairs, visitor).walk();
}

bool ChromeTimes::read(std::string_view json, std::int64_t limit, std::int64_t& ns) {
  const std::string_view text = content_of(json);
  if (text.empty()) return false;
  const Parsed reading = read_microseconds(text, ns);
  if (reading == Parsed::out_of_range || (reading == Parsed::fine && (ns > limit || ns < -limit)))
    throw InputError(source_, "times in microseconds", std::string(text.substr(0, 40)),
                     "no profiler runs that long: the file is damaged or its times are not us");
  return reading == Parsed::fine;
}

bool ChromeTimes::start(const ChromeEvent& event, std::int64_t& ns) {
  if (read(event.start, std::int64_t{1} << 61, ns)) return true;
  ++no_start_;
  return false;
}

bool ChromeTimes::duration(const ChromeEvent& event, std::int64_t& ns) {
  if (read(event.duration, longest_slice_ns, ns)) return true;
  ++no_duration_;
  return false;
}

void ChromeTimes::report(Repairs& repairs) const {
  repairs.count(no_start_, "event dropped", "events dropped", "no readable time stamp");
  repairs.count(no_duration_, "event dropped", "events dropped", "no readable duration");
}

OpenSlices::Slice& OpenSlices::begin(Track track, std::uint32_t name, std::int64_t start_ns) {
  std::vector<Slice>& open = open_[track];
  open.push_back({start_ns, name, static_cast<std::uint32_t>(open.size())});
  return open.back();
}

bool OpenSlices::end(Track track, std::uint32_t name, std::int64_t end_ns, Slice& slice) {
  const auto found = open_.find(track);
  if (found != open_.end()) {
    std::vector<Slice>& open = found->second;
    // Nobody nests deeper; slices that are never closed must not make every end search through all of them.
    constexpr std::size_t deepest = 4096;
    const std::size_t outermost = open.size() > deepest ? open.size() - deepest : 0;
    for (std::size_t i = open.size(); i-- > outermost;) {
      if (name != 0 && open[i].name != name) continue;
      slice = open[i];
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      if (end_ns < slice.start_ns) ++negative_;
      else if (end_ns - slice.start_ns > longest_slice_ns) ++too_long_;
      else return true;
      return false;
    }
  }
  ++without_beginning_;
  return false;
}

std::uint64_t OpenSlices::without_end() const {
  std::uint64_t sum = 0;
  for (const auto& [track, open] : open_) sum += open.size();
  return sum;
}

void OpenSlices::report(Repairs& repairs) const {
  repairs.count(negative_, "slice dropped", "slices dropped", "they end before they begin");
  repairs.count(too_long_, "slice dropped", "slices dropped", "they last for months");
}

void OpenSlices::report(std::vector<std::string>& missing) const {
  const auto say = [&](std::uint64_t count, const char* what, const char* why) {
    if (count > 0)
      missing.push_back("the " + std::string(what) + " of " + counted(std::int64_t(count), "slice") + " (" + why +
                        "): left out");
  };
  say(without_beginning_, "beginning", "the recording starts in the middle");
  say(without_end(), "end", "the recording stops in the middle");
}

void describe(ReadReport& report, const ChromeWalk& walk, Repairs& repairs, std::string_view format,
              std::string_view producer, std::string_view good_for) {
  report.format = format;
  report.producer = producer;
  report.good_for = good_for;
  report.bytes = walk.bytes;
  report.events_seen = walk.events;
  report.repaired = repairs.take();
}

}  // namespace stepcast
