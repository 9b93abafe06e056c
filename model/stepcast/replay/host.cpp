// The host side of a replay: every thread of one step as a row of spans, and the collectives that ran on the host.
#include <stepcast/replay/host.hpp>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace stepcast::replaying {
namespace {

/// Old writers file the step marks under operators.
bool is_step_mark(const Trace& trace, const Event& event) {
  return trace.text(event.name).starts_with("ProfilerStep#");
}

/// How the libraries that run collectives on threads of their own name them: "gloo:all_reduce".
constexpr std::string_view host_backends[] = {"gloo:", "mpi:", "ucc:", "ccl:"};

bool is_of_library(const Trace& trace, const Event& event) {
  if (event.kind != EventKind::annotation || trace.tracks[event.track].on_device) return false;
  const std::string_view name = trace.text(event.name);
  return std::ranges::any_of(host_backends, [&](std::string_view backend) { return name.starts_with(backend); });
}

/// A call in which a thread waits for a functional collective.
bool is_wait(const Trace& trace, const Event& event) {
  return trace.text(event.name).ends_with("c10d_functional::wait_tensor");
}

/// One pass with a stack of the running events. An event that outlasts the one around it (rounded times) extends it.
class SpanSweep {
 public:
  SpanSweep(const Trace& trace, const Step& step, HostThread& thread, std::vector<bool>& has_parts)
      : trace_(trace), step_(step), thread_(thread), has_parts_(has_parts), cursor_(step.start_ns) {}

  void run() {
    for (const std::uint32_t e : thread_.events) {
      close_until(trace_.events[e].start_ns);
      advance(trace_.events[e].start_ns);
      if (!open_.empty()) has_parts_[open_.back()] = true;
      open_.push_back(e);
    }
    close_until(step_.end_ns);
    advance(step_.end_ns);
    for (HostSpan& span : thread_.spans) {
      const bool has_parts = span.event != no_index && has_parts_[span.event];
      span.quiet = span.event == no_index || (has_parts && trace_.events[span.event].kind == EventKind::host_op) ||
                   is_wait(trace_, trace_.events[span.event]);
    }
  }

 private:
  void close_until(std::int64_t time) {
    for (; !open_.empty() && trace_.events[open_.back()].end_ns() <= time; open_.pop_back())
      advance(trace_.events[open_.back()].end_ns());
  }
  void advance(std::int64_t time) {
    time = std::min(time, step_.end_ns);
    if (time <= cursor_) return;
    HostSpan span{cursor_, time};
    if (!open_.empty()) span.event = open_.back(), span.outermost = open_.front();
    thread_.spans.push_back(span);
    cursor_ = time;
  }

  const Trace& trace_;
  const Step& step_;
  HostThread& thread_;
  std::vector<bool>& has_parts_;  // by event
  std::int64_t cursor_;
  std::vector<std::uint32_t> open_;
};

/// The host thread whose annotation begins with the step: the longest one, because parts may begin with it.
std::uint32_t track_of_marks(const TraceLinks& links, const Step& step) {
  const auto [first, end] = links.events_within(step.start_ns, step.start_ns + 1);
  for (std::uint32_t e = first; e < end; ++e) {
    const Event& event = links.event(e);
    const bool marks = event.kind == EventKind::annotation || is_step_mark(links.trace, event);
    if (marks && !links.trace.tracks[event.track].on_device) return event.track;  // longer events come first
  }
  return no_index;
}

std::ptrdiff_t quiet_span_around(const HostThread& thread, const HostSpan& other) {
  const auto after = std::ranges::upper_bound(thread.spans, other.begin, {}, &HostSpan::begin);
  if (after == thread.spans.begin()) return -1;
  const HostSpan& span = *(after - 1);
  return span.quiet && other.end <= span.end ? after - thread.spans.begin() - 1 : -1;
}

/// A thread that waited for a collective goes on at most this long before or after the collective's recorded end, which
/// the library's thread writes when it gets a processor; after a long wait up to a share of it.
constexpr std::int64_t wake_up_ns = 500'000, waits_per_wake_up = 50;
/// Shorter waits are lost in the host's own time.
constexpr std::int64_t shortest_wait_ns = 100'000;

/// Number of the collective whose end is nearest to the end of the span, if it is near; else the number of all.
std::size_t awaited_in(const Trace& trace, const HostSpan& span, std::span<const std::uint32_t> collectives) {
  const std::int64_t waited = span.end - span.begin;
  std::int64_t nearest = std::min(std::max(wake_up_ns, waited / waits_per_wake_up), waited / 2);
  std::size_t awaited = collectives.size();
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    const Event& collective = trace.events[collectives[i]];
    const std::int64_t distance = std::abs(collective.end_ns() - span.end);
    if (collective.start_ns < span.end && distance <= nearest) nearest = distance, awaited = i;
  }
  return awaited;
}

}  // namespace

std::vector<HostThread> host_threads_of(const TraceLinks& links, const Step& step, const DeviceSide& device) {
  const Trace& trace = links.trace;
  std::vector<HostThread> by_track(trace.tracks.size());
  std::vector<bool> matters(trace.tracks.size(), false), of_library(trace.tracks.size(), false);
  const auto [first, end] = links.events_within(step.start_ns, step.end_ns);
  for (std::uint32_t e = first; e < end; ++e) {
    const Event& event = trace.events[e];
    const bool call = event.kind == EventKind::runtime_call;
    if (is_of_library(trace, event)) of_library[event.track] = true;
    if ((!call && event.kind != EventKind::host_op) || is_step_mark(trace, event)) continue;
    by_track[event.track].events.push_back(e);
    if (!call || device.launched_by(e) != no_index) matters[event.track] = true;
  }
  std::uint32_t main = track_of_marks(links, step);
  std::vector<HostThread> threads;
  const auto take = [&](std::uint32_t track) {
    threads.push_back(std::move(by_track[track]));
    threads.back().track = track;
  };
  if (main == no_index) main = 0;  // damage: any thread that is there
  take(main);
  for (std::uint32_t track = 0; track < by_track.size(); ++track)
    if (track != main && matters[track] && !of_library[track]) take(track);
  std::vector<bool> has_parts(trace.events.size(), false);
  for (HostThread& thread : threads) SpanSweep(trace, step, thread, has_parts).run();
  return threads;
}

std::vector<std::uint32_t> host_collectives_of(const TraceLinks& links, const Step& step,
                                               std::span<const HostThread> threads) {
  const Trace& trace = links.trace;
  std::vector<bool> computes(trace.tracks.size(), false);
  for (const HostThread& thread : threads) computes[thread.track] = true;
  std::vector<std::uint32_t> collectives;
  const auto [first, end] = links.events_within(step.start_ns, step.end_ns);
  for (std::uint32_t e = first; e < end; ++e) {
    const Event& event = trace.events[e];
    if (!computes[event.track] && is_of_library(trace, event)) collectives.push_back(e);
  }
  return collectives;
}

std::vector<CollectiveIssue> collective_issues_of(const Trace& trace, std::span<const HostThread> threads) {
  std::vector<CollectiveIssue> issues;
  for (std::size_t t = 0; t < threads.size(); ++t)
    for (const std::uint32_t e : threads[t].events) {
      const std::string_view name = trace.text(trace.events[e].name);
      if (name.starts_with("c10d::") && name.find("wait") == std::string_view::npos) issues.push_back({t, e});
    }
  std::ranges::sort(issues, {}, &CollectiveIssue::event);
  return issues;
}

std::vector<CollectiveWait> collective_waits_of(const Trace& trace, std::span<const HostThread> threads,
                                                std::span<const std::uint32_t> collectives) {
  std::vector<CollectiveWait> waits;
  for (std::size_t t = 0; t < threads.size(); ++t)
    for (const HostSpan& span : threads[t].spans) {
      if (!span.quiet || span.end - span.begin < shortest_wait_ns) continue;
      const std::size_t awaited = awaited_in(trace, span, collectives);
      if (awaited == collectives.size()) continue;
      waits.push_back({t, awaited, span.begin, std::min(trace.events[collectives[awaited]].end_ns(), span.end)});
    }
  return waits;
}

std::vector<Burst> bursts_of(const HostThread& main, const HostThread& thread) {
  std::vector<Burst> bursts;
  for (const HostSpan& span : thread.spans) {
    if (span.event == no_index) continue;
    const std::ptrdiff_t quiet = quiet_span_around(main, span);
    if (!bursts.empty() && bursts.back().quiet == quiet) bursts.back().end = span.end;
    else bursts.push_back({span.begin, span.end, quiet, span.event});
  }
  // The main thread waited for a burst only if the burst fills most of the time in which it was quiet.
  std::vector<Burst> merged;
  for (Burst& burst : bursts) {
    if (burst.quiet >= 0) {
      const HostSpan& span = main.spans[static_cast<std::size_t>(burst.quiet)];
      if (2 * (burst.end - burst.begin) < span.end - span.begin) burst.quiet = -1;
    }
    if (burst.quiet < 0 && !merged.empty() && merged.back().quiet < 0) merged.back().end = burst.end;
    else merged.push_back(burst);
  }
  return merged;
}

}  // namespace stepcast::replaying
