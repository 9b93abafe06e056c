#pragma once
// What a timeline of the report page shows: the tasks of one step as bars in lanes (internal to the library).
//
// A lane is a resource, or a part of one that does several things at once. Of a step in the steady state everything
// that overlaps it is shown, what belongs to its neighbours included. Where there are too many bars, short neighbours
// of one kind become one that says so. Not modelled: arrows between tasks (`predict --timeline` has them).
#include <stepcast/page/report_page.hpp>

#include <optional>
#include <string>
#include <vector>

namespace stepcast {

/// What is drawn for a task, or for several short ones.
struct TimelineBar {
  std::size_t lane = 0;
  Picoseconds start = 0, end = 0;  ///< from the start of the step that is shown
  TaskKind kind = TaskKind::other;
  int step = 0;  ///< -1: the one before, 1: one after
  std::string name;
  Bytes size;
  std::size_t tasks = 1;
  std::string last;  ///< the name of the last task, where the bar stands for several
};

struct TimelineDrawing {
  std::vector<std::string> lanes;
  std::vector<TimelineBar> bars;
  std::vector<Picoseconds> step_ends;
  Picoseconds period = 0;  ///< the duration of one step
  bool merged = false;
  bool ends_early = false;  ///< nothing was scheduled for the rest of the picture
};

/// The timeline of a plan, long enough to be drawn beside one that is several times as slow; nothing where it cannot
/// run.
[[nodiscard]] std::optional<PageTimeline> page_timeline_of(const Profile&, const Cluster&, const PlanSpec&);
/// The longest of the steps, and a little more.
[[nodiscard]] Picoseconds timeline_span(const ReportPage&);
/// The traced step: of every thread the outermost operators and calls, and what the streams did.
[[nodiscard]] TimelineDrawing recorded_drawing(const ReplayTimeline&, Picoseconds span);
/// What lies within `span` from the start of a step on.
[[nodiscard]] TimelineDrawing timeline_drawing(const PageTimeline&, const Profile&, Picoseconds span);

}  // namespace stepcast
