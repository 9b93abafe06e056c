// XPlane: the complete record of TensorFlow's and JAX's profiler (<host>.xplane.pb), of which trace.json is a part.
//
//   XSpace  { planes = 1; errors = 2; warnings = 3; hostnames = 4 }
//   XPlane  { id = 1; name = 2; lines = 3; event_metadata = 4 (map); stat_metadata = 5 (map); stats = 6 }
//   XLine   { id = 1; display_id = 10; name = 2; display_name = 11; timestamp_ns = 3; events = 4 }
//   XEvent  { metadata_id = 1; offset_ps = 2 or num_occurrences = 5; duration_ps = 3; stats = 4 }
//   XStat   { metadata_id = 1; double = 2, uint64 = 3, int64 = 4, str = 5, bytes = 6 or ref = 7 }
//
// Names are in the metadata of a plane, which come behind its lines: planes are read one at a time, in two passes.
// Picoseconds from the start of a line; rounded to nanoseconds at both ends, so that what did not overlap still does
// not. Written by tsl/profiler (xplane.proto).
#include <stepcast/base/error.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/encodings/json_text.hpp>
#include <stepcast/encodings/wire_format.hpp>
#include <stepcast/formats/shared/chrome_events.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/xla/xla_planes.hpp>

#include <unordered_map>

namespace stepcast::format::xplane {
namespace {

// The first message of a space is a plane, and the first fields of a plane are its id and its name.
bool recognises(std::string_view head) {
  if (head.size() < 8 || head[0] != '\x0a') return false;
  std::size_t at = 1;
  while (at < head.size() && at < 11 && (static_cast<unsigned char>(head[at]) & 0x80u)) ++at;
  WireFields plane(head.substr(std::min(at + 1, head.size())));
  for (int i = 0; i < 2 && plane.next(); ++i)
    if (plane.number() == 2)
      return plane.bytes().starts_with("/host:") || plane.bytes().starts_with("/device:") ||
             plane.bytes().starts_with("Task Environment") || plane.bytes().starts_with("#Chip");
  return false;
}

// Text in a trace is UTF-8.
std::string clean(std::string_view bytes) {
  std::string text(bytes);
  repair_utf8(text.data(), text.size());
  return text;
}

class XPlaneReader {
 public:
  XPlaneReader(const Source& source, const ReadOptions& options)
      : source_(source), options_(options), repairs_(source, options), plain_(source.bytes) {}

  std::vector<Trace> read() {
    while (read_field()) {
      if (options_.progress) options_.progress(plain_.share_read());
    }
    if (!plain_.damage().empty()) repairs_.say("truncated: " + plain_.damage());
    if (cut_) repairs_.say("truncated tail: the bytes end inside a plane, which is read up to there");
    repairs_.count(damaged_, "message cut short", "messages cut short", "not protobuf from there on");
    repairs_.count(negative_, "event dropped", "events dropped", "no time that a profiler could mean");
    if (planes_.size() == 0)
      throw InputError(source_.name, "events on a host or a device", "planes without events",
                       "the profiler ran while nothing was executed");
    ReadReport report;
    report.repaired = repairs_.take();
    report.format = "xplane";
    report.good_for = "steps, kernels and collectives of TensorFlow and JAX; gradients are not marked in it";
    report.producer = "TensorFlow or JAX profiler (xplane.pb)";
    report.bytes = bytes_;
    report.events_seen = events_;
    report.events_left_out = planes_.left_out();
    for (const std::string& warning : warnings_) report.missing.push_back("the profiler says: " + warning);
    return planes_.traces(source_.name, report);
  }

 private:
  // One field of the space, which may be a plane of many megabytes.
  bool read_field() {
    std::uint64_t tag = 0, size = 0;
    if (!read_varint(tag)) return false;
    if ((tag & 7) == 0) return read_varint(size);
    if ((tag & 7) != 2 || !read_varint(size) || size > largest_plane) {
      ++damaged_;
      return false;
    }
    buffer_.resize(0);
    // Grows with what is there: a damaged size must not ask for memory.
    while (buffer_.size() < size) {
      const std::size_t have = buffer_.size(), piece = std::min<std::size_t>(size - have, 1u << 22);
      buffer_.resize(have + piece);
      const std::size_t got = plain_.read(std::span(buffer_.data() + have, piece));
      bytes_ += got;
      buffer_.resize(have + got);
      if (got < piece) {
        cut_ = true;
        break;
      }
    }
    if (tag >> 3 == 1) read_plane(buffer_);
    if ((tag >> 3 == 2 || tag >> 3 == 3) && warnings_.size() < 8) warnings_.push_back(clean(buffer_).substr(0, 200));
    return !cut_;
  }

  bool read_varint(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      char byte = 0;
      if (plain_.read(std::span(&byte, 1)) == 0) {
        cut_ |= shift > 0;
        return false;
      }
      ++bytes_;
      value |= std::uint64_t{static_cast<unsigned char>(byte) & 0x7fu} << shift;
      if (static_cast<unsigned char>(byte) < 0x80) return true;
    }
    ++damaged_;
    return false;
  }

  struct Metadata {
    std::string_view name, display;
  };

  void read_plane(std::string_view plane) {
    event_names_.clear();
    stat_names_.clear();
    std::string_view name;
    const std::int64_t id = plane_count_++;
    WireFields first(plane);
    while (first.next()) {
      if (first.number() == 2) name = first.bytes();
      if (first.number() == 4) add_event_metadata(first.bytes());
      if (first.number() == 5) add_stat_metadata(first.bytes());
    }
    damaged_ += first.damaged() && !cut_;
    planes_.name_plane(id, clean(name));
    find_stats();
    WireFields second(plane);
    std::string vendor, type;
    std::int64_t memory = -1, lines = 0;
    while (second.next()) {
      if (second.number() == 3) read_line(second.bytes(), id, lines++);
      if (second.number() != 6) continue;
      const Stat stat = stat_of(second.bytes());
      if (stat.name == "memory_size") memory = stat.integer;
      if (stat.name == "device_type_string") type = clean(stat.text);
      if (stat.name == "device_vendor") vendor = clean(stat.text) + " GPU";
    }
    planes_.describe_plane(id, !type.empty() ? type : vendor, memory);
  }

  void add_event_metadata(std::string_view entry) {
    std::int64_t key = 0;
    Metadata metadata;
    for (WireFields pair(entry); pair.next();) {
      if (pair.number() == 1) key = pair.integer();
      if (pair.number() != 2) continue;
      for (WireFields fields(pair.bytes()); fields.next();) {
        if (fields.number() == 2) metadata.name = fields.bytes();
        if (fields.number() == 4) metadata.display = fields.bytes();
      }
    }
    event_names_[key] = metadata;
  }

  void add_stat_metadata(std::string_view entry) {
    std::int64_t key = 0;
    std::string_view name;
    for (WireFields pair(entry); pair.next();) {
      if (pair.number() == 1) key = pair.integer();
      if (pair.number() != 2) continue;
      for (WireFields fields(pair.bytes()); fields.next();)
        if (fields.number() == 2) name = fields.bytes();
    }
    stat_names_[key] = name;
  }

  struct Stat {
    std::string_view name, text;
    std::int64_t id = 0, integer = -1;
  };
  Stat stat_of(std::string_view message) const {
    Stat stat;
    for (WireFields fields(message); fields.next();) {
      switch (fields.number()) {
        case 1:
          stat.id = fields.integer();
          break;
        case 3:
        case 4:
          stat.integer = fields.integer();
          break;
        case 5:
          stat.text = fields.bytes();
          break;
        case 7:
          if (const auto name = stat_names_.find(fields.integer()); name != stat_names_.end()) stat.text = name->second;
          break;
        default:
          break;
      }
    }
    if (const auto name = stat_names_.find(stat.id); name != stat_names_.end()) stat.name = name->second;
    return stat;
  }

  // The stats that matter, by their numbers in this plane.
  void find_stats() {
    correlation_ = step_ = operation_ = -1;
    for (const auto& [id, name] : stat_names_) {
      if (name == "correlation_id") correlation_ = id;
      if (name == "step_num") step_ = id;
      if (name == "hlo_op") operation_ = id;
    }
  }

  void read_line(std::string_view message, std::int64_t plane, std::int64_t index) {
    std::string_view name, display;
    std::int64_t start_ns = 0;
    for (WireFields fields(message); fields.next();) {
      if (fields.number() == 2) name = fields.bytes();
      if (fields.number() == 11) display = fields.bytes();
      if (fields.number() == 3) start_ns = fields.integer();
    }
    const std::uint32_t line = planes_.line(plane, index);
    planes_.name_line(line, clean(name.empty() ? display : name));
    if (start_ns < 0 || start_ns > latest_ns) start_ns = 0;
    known_names_.clear();
    WireFields fields(message);
    while (fields.next())
      if (fields.number() == 4) read_event(fields.bytes(), line, start_ns);
    damaged_ += fields.damaged() && !cut_;
  }

  void read_event(std::string_view message, std::uint32_t line, std::int64_t line_start_ns) {
    ++events_;
    XlaEvent event;
    std::int64_t metadata = 0, offset_ps = 0, duration_ps = 0;
    bool aggregated = false;
    for (WireFields fields(message); fields.next();) {
      switch (fields.number()) {
        case 1:
          metadata = fields.integer();
          break;
        case 2:
          offset_ps = fields.integer();
          break;
        case 3:
          duration_ps = fields.integer();
          break;
        case 4:
          read_stat(fields.bytes(), event);
          break;
        case 5:
          aggregated = true;
          break;
        default:
          break;
      }
    }
    constexpr std::int64_t longest_ps = std::int64_t{1} << 61;
    if (aggregated) return;  // a sum over many occurrences, without times
    if (offset_ps < 0 || offset_ps > longest_ps || duration_ps < 0 || duration_ps > longest_ps) {
      ++negative_;
      return;
    }
    const auto nanoseconds = [](std::int64_t ps) { return (ps + 500) / 1000; };
    event.start_ns = line_start_ns + nanoseconds(offset_ps);
    event.duration_ns = line_start_ns + nanoseconds(offset_ps + duration_ps) - event.start_ns;
    event.line = line;
    name_event(metadata, event);
    planes_.add(event);
  }

  // On a TPU the name is the whole instruction and the display name what people call it.
  void name_event(std::int64_t metadata, XlaEvent& event) {
    const auto [known, is_new] = known_names_.try_emplace(metadata);
    if (is_new) {
      const Metadata& names = event_names_[metadata];
      const bool instruction = names.name.starts_with('%');
      std::string_view shown = names.name;
      if (instruction) {
        const std::size_t end = names.name.find(" = ");
        shown = names.name.substr(1, end == std::string_view::npos ? end : end - 1);
        known->second.second = planes_.text(clean(names.name));
      }
      known->second.first = planes_.text(clean(shown.empty() ? names.display : shown));
    }
    event.name = known->second.first;
    event.text = known->second.second;
  }

  void read_stat(std::string_view message, XlaEvent& event) {
    WireFields id(message);
    if (!id.next() || id.number() != 1) return;
    if (id.integer() == correlation_) event.correlation = stat_of(message).integer;
    else if (id.integer() == step_) event.step = stat_of(message).integer;
    else if (id.integer() == operation_) event.operation = planes_.text(clean(stat_of(message).text));
  }

  static constexpr std::uint64_t largest_plane = WireFields::longest_message;
  static constexpr std::int64_t latest_ns = std::int64_t{1} << 61;
  const Source& source_;
  const ReadOptions& options_;
  Repairs repairs_;
  PlainText plain_;
  XlaPlanes planes_;
  std::string buffer_;
  std::unordered_map<std::int64_t, Metadata> event_names_;
  std::unordered_map<std::int64_t, std::string_view> stat_names_;
  std::unordered_map<std::int64_t, std::pair<StringId, StringId>> known_names_;
  std::vector<std::string> warnings_;
  std::int64_t correlation_ = -1, step_ = -1, operation_ = -1, plane_count_ = 0;
  std::uint64_t bytes_ = 0, events_ = 0, damaged_ = 0, negative_ = 0;
  bool cut_ = false;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.traces = XPlaneReader(source, options).read();
  return reading;
}

}  // namespace

Format record() {
  return {"xplane", "TensorFlow and JAX profiler: xplane.pb", "tsl/profiler/protobuf/xplane.proto", recognises, read};
}

}  // namespace stepcast::format::xplane
