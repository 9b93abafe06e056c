#pragma once
// Room report/timeline: results as timelines for trace viewers.
//
// Example: {"ph": "X", "name": "forward conv1", "pid": 1, "tid": 2, "ts": 0, "dur": 412.5}.
//
// It may include base, schedule, replay/pipelined and report.
//
// ChromeTrace: a file for ui.perfetto.dev, line by line (internal to the reports).
//
// Slices of one track may only nest; whoever adds them sees to it. Lines are written in order of time, the longer slice
// first, slices before the arrows that bind to them. Format: "Trace Event Format", Google 2016: phases X (complete), M
// (metadata), s and f (flow); times in microseconds. Numbers are whole picoseconds, so that equal input gives equal
// files.
#include <stepcast/schedule/task_graph.hpp>

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

/// Quoted; bytes that are no UTF-8 are replaced.
[[nodiscard]] std::string json_string(std::string_view text);

class ChromeTrace {
 public:
  struct Place {
    int process = 0;
    std::size_t track = 0;
  };
  /// Processes and tracks are shown in the order of their numbers.
  void name_process(int process, std::string_view name);
  void name_track(Place, std::string_view name);
  /// `quoted_name` and `args` ("\"iteration\":1" or empty) are JSON already.
  void add_slice(Place, std::string_view quoted_name, std::string_view category, Picoseconds start,
                 Picoseconds duration, std::string_view args);
  /// From inside one slice, as late as possible, to the start of another.
  void add_arrow(Place from, Picoseconds from_start, Picoseconds from_end, Place to, Picoseconds to_start);
  /// `other_data`: JSON of what the file says of itself.
  void write(std::ostream&, std::string_view other_data);

 private:
  struct Line {
    Picoseconds at = 0;
    int rank = 0;                  ///< slices before the arrows that bind to them
    Picoseconds longer_first = 0;  ///< negated duration
    std::size_t number = 0;
    std::string text;
  };
  void name(std::string_view what, Place, std::string_view key, const std::string& value);
  void add_arrow_end(std::string_view phase, Place, Picoseconds at);

  std::string metadata_;
  std::vector<Line> lines_;
  std::size_t arrows_ = 0;
};

}  // namespace stepcast
