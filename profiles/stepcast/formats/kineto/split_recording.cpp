// Parts of one recording are told from ranks by the events that they share.
#include <stepcast/formats/kineto/split_recording.hpp>
#include <stepcast/trace/steps.hpp>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <vector>

namespace stepcast {
namespace {

bool same_event(const Trace& a, const Event& x, const Trace& b, const Event& y) {
  const Track &s = a.tracks[x.track], &t = b.tracks[y.track];
  return x.start_ns == y.start_ns && x.duration_ns == y.duration_ns && x.kind == y.kind && s.process == t.process &&
         s.thread == t.thread && a.text(x.name) == b.text(y.name);
}

/// More events are in both than coarse clocks make alike within one; both are sorted by time.
bool overlap(const Trace& a, const Trace& b) {
  constexpr std::size_t rare = 10;
  std::size_t common = 0;
  auto from = b.events.begin();
  for (const Event& x : a.events) {
    while (from != b.events.end() && from->start_ns < x.start_ns) ++from;
    for (auto y = from; y != b.events.end() && y->start_ns == x.start_ns; ++y)
      if (same_event(a, x, b, *y)) {
        ++common;
        break;
      }
  }
  return rare * common > std::min(a.events.size(), b.events.size());
}

std::unordered_set<std::int64_t> launches_of(const Trace& trace) {
  std::unordered_set<std::int64_t> ids;
  for (const Event& event : trace.events)
    if (event.kind == EventKind::runtime_call && event.correlation >= 0) ids.insert(event.correlation);
  return ids;
}

/// Most of the device work of `work` that has no launch of its own has one in `host`. Numbers start alike in every
/// process: a part that has its own launches is no evidence.
bool launched_in(const Trace& work, const Trace& host) {
  const std::unordered_set<std::int64_t> own = launches_of(work), other = launches_of(host);
  std::size_t loose = 0, found = 0, all = 0;
  for (const Event& event : work.events) {
    if (!is_device_work(event.kind) || event.correlation < 0) continue;
    ++all;
    if (own.contains(event.correlation)) continue;
    ++loose;
    found += other.contains(event.correlation);
  }
  return all > 0 && 2 * loose > all && 10 * found >= 9 * loose;
}

/// Host events of one thread of both traces, in the order of their starts.
struct Slice {
  std::int64_t start = 0, end = 0;
  bool of_second = false;
};

std::vector<Slice> slices_of(const Trace& trace, const Track& thread, bool second) {
  std::vector<Slice> slices;
  for (const Event& event : trace.events) {
    const Track& track = trace.tracks[event.track];
    if (!track.on_device && track.process == thread.process && track.thread == thread.thread)
      slices.push_back({event.start_ns, event.end_ns(), second});
  }
  return slices;
}

/// A thread runs one thing within another: where slices of two files cross time and again, two threads of the same
/// number wrote them.
bool is_one_thread(const Trace& a, const Trace& b, const Track& thread) {
  constexpr std::size_t rare = 100;  // one in so many crosses in intact files, too
  constexpr std::int64_t rounding_ns = 2000;
  std::vector<Slice> slices = slices_of(a, thread, false);
  const std::vector<Slice> more = slices_of(b, thread, true);
  const auto middle = static_cast<std::ptrdiff_t>(slices.size());
  slices.insert(slices.end(), more.begin(), more.end());
  std::inplace_merge(slices.begin(), slices.begin() + middle, slices.end(),
                     [](const Slice& x, const Slice& y) { return x.start < y.start; });
  std::vector<Slice> open;
  std::size_t crossings = 0;
  for (const Slice& slice : slices) {
    while (!open.empty() && open.back().end <= slice.start + rounding_ns) open.pop_back();
    crossings += !open.empty() && open.back().of_second != slice.of_second && slice.end > open.back().end + rounding_ns;
    open.push_back(slice);
  }
  return rare * crossings <= slices.size();
}

/// Some host thread is in both, and all that are may be one and the same.
bool share_threads(const Trace& a, const Trace& b) {
  bool shared = false;
  for (const Track& s : a.tracks) {
    const bool common = !s.on_device && std::ranges::any_of(b.tracks, [&](const Track& t) {
      return !t.on_device && s.process == t.process && s.thread == t.thread;
    });
    if (!common) continue;
    if (!is_one_thread(a, b, s)) return false;
    shared = true;
  }
  return shared;
}

/// A step that both say they hold, at other times: recordings of two ranks. (One step may be marked twice.)
bool share_steps(const Trace& a, const Trace& b) {
  const std::vector<Step> ours = steps_of(a), theirs = steps_of(b);
  return std::ranges::any_of(ours, [&](const Step& x) {
    return std::ranges::any_of(theirs, [&](const Step& y) { return x.number == y.number && x.start_ns != y.start_ns; });
  });
}

}  // namespace

bool are_parts_of_one_recording(const Trace& a, const Trace& b) {
  if (a.report.format != "kineto" || b.report.format != "kineto") return false;
  const bool known = a.rank >= 0 && b.rank >= 0;
  if (known && (a.rank != b.rank || a.world_size != b.world_size)) return false;
  if (share_steps(a, b) || overlap(a, b)) return false;
  return launched_in(a, b) || launched_in(b, a) || share_threads(a, b);
}

}  // namespace stepcast
