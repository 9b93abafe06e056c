// ChromeTrace: lines of JSON, sorted by time.
#include <stepcast/report/timeline/chrome_trace.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <ostream>
#include <tuple>

namespace stepcast {
namespace {

/// Microseconds with all six decimals that a picosecond needs.
std::string microseconds_text(Picoseconds ps) {
  char text[40];
  const Picoseconds size = ps < 0 ? -ps : ps;
  std::snprintf(text, sizeof text, "%s%lld.%06lld", ps < 0 ? "-" : "", static_cast<long long>(size / 1'000'000),
                static_cast<long long>(size % 1'000'000));
  return text;
}

std::string text_of(ChromeTrace::Place place) {
  return "\"pid\":" + std::to_string(place.process) + ",\"tid\":" + std::to_string(place.track);
}

}  // namespace

std::string json_string(std::string_view text) {
  using Json = nlohmann::ordered_json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void ChromeTrace::name(std::string_view what, Place place, std::string_view key, const std::string& value) {
  metadata_ += "{\"ph\":\"M\",\"name\":\"" + std::string(what) + "\"," + text_of(place) + ",\"args\":{\"" +
               std::string(key) + "\":" + value + "}},\n";
}

void ChromeTrace::name_process(int process, std::string_view process_name) {
  name("process_name", {process, 0}, "name", json_string(process_name));
  name("process_sort_index", {process, 0}, "sort_index", std::to_string(process));
}

void ChromeTrace::name_track(Place place, std::string_view track_name) {
  name("thread_name", place, "name", json_string(track_name));
  name("thread_sort_index", place, "sort_index", std::to_string(place.track));
}

void ChromeTrace::add_slice(Place place, std::string_view quoted_name, std::string_view category, Picoseconds start,
                            Picoseconds duration, std::string_view args) {
  lines_.push_back({start, 0, -duration, lines_.size(),
                    "{\"ph\":\"X\",\"name\":" + std::string(quoted_name) + ",\"cat\":" + json_string(category) + "," +
                        text_of(place) + ",\"ts\":" + microseconds_text(start) +
                        ",\"dur\":" + microseconds_text(duration) + ",\"args\":{" + std::string(args) + "}}"});
}

void ChromeTrace::add_arrow(Place from, Picoseconds from_start, Picoseconds from_end, Place to, Picoseconds to_start) {
  ++arrows_;
  // An arrow binds to the slice that encloses its time: the last instant that lies inside the sender.
  add_arrow_end("\"ph\":\"s\"", from, std::max(from_start, from_end - 1000));
  add_arrow_end("\"ph\":\"f\",\"bp\":\"e\"", to, to_start);
}

void ChromeTrace::add_arrow_end(std::string_view phase, Place place, Picoseconds at) {
  lines_.push_back({at, 1, 0, lines_.size(),
                    "{" + std::string(phase) + ",\"name\":\"waits for\",\"cat\":\"dependency\",\"id\":" +
                        std::to_string(arrows_) + "," + text_of(place) + ",\"ts\":" + microseconds_text(at) + "}"});
}

void ChromeTrace::write(std::ostream& out, std::string_view other_data) {
  out << "{\"displayTimeUnit\":\"ms\",\n\"otherData\":" << other_data << ",\n\"traceEvents\":[\n" << metadata_;
  std::sort(lines_.begin(), lines_.end(), [](const Line& a, const Line& b) {
    return std::tie(a.at, a.rank, a.longer_first, a.number) < std::tie(b.at, b.rank, b.longer_first, b.number);
  });
  for (std::size_t i = 0; i < lines_.size(); ++i) out << lines_[i].text << (i + 1 < lines_.size() ? ",\n" : "\n");
  out << "]}\n";
}

}  // namespace stepcast
