#include <stepcast/kineto_parts.hpp>

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

/// Some event is in both; both are sorted by time.
bool overlap(const Trace& a, const Trace& b) {
  auto from = b.events.begin();
  for (const Event& x : a.events) {
    while (from != b.events.end() && from->start_ns < x.start_ns) ++from;
    for (auto y = from; y != b.events.end() && y->start_ns == x.start_ns; ++y)
      if (same_event(a, x, b, *y)) return true;
  }
  return false;
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

}  // namespace

bool are_parts_of_one_recording(const Trace& a, const Trace& b) {
  if (a.report.format != "kineto" || b.report.format != "kineto" || overlap(a, b)) return false;
  if (a.rank >= 0 && b.rank >= 0) return a.rank == b.rank && a.world_size == b.world_size;
  return launched_in(a, b) || launched_in(b, a);
}

}  // namespace stepcast
