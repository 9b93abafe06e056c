// TraceSummary: counts in one pass, times from the union of intervals.
#include <stepcast/anatomy/trace_summary.hpp>
#include <stepcast/anatomy/traced_collectives.hpp>
#include <stepcast/base/stretches.hpp>
#include <stepcast/trace/steps.hpp>
#include <stepcast/trace/trace_index.hpp>

#include <algorithm>
#include <map>

namespace stepcast {
namespace {

Seconds seconds(std::int64_t ns) { return Seconds(double(ns) * 1e-9); }

void describe_steps(const Trace& trace, TraceSummary& out) {
  const std::vector<Step> steps = steps_of(trace);
  out.steps = steps.size();
  if (steps.empty()) return;
  out.first_step = steps.front().number;
  out.last_step = steps.back().number;
  out.step_annotation = step_annotation_of(trace);
  const StepTimes times = step_times_of(trace, steps);
  out.host_step = times.host;
  out.device_period = times.device_period;
  out.step = times.step();
}

void describe_events(const Trace& trace, TraceSummary& out) {
  out.events = trace.events.size();
  if (trace.events.empty()) return;
  std::int64_t end = trace.events.front().end_ns();
  for (const Event& e : trace.events) {
    end = std::max(end, e.end_ns());
    out.kernels += e.kind == EventKind::kernel;
  }
  // Of damaged times the difference may take all 64 bits.
  out.span = Seconds(double(std::uint64_t(end) - std::uint64_t(trace.events.front().start_ns)) * 1e-9);
}

void describe_kernels(const TraceIndex& index, TraceSummary& out) {
  std::int64_t all = 0, unknown = 0;
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i) {
    const Event& e = index.trace.events[i];
    if (e.kind != EventKind::kernel) continue;
    all += e.duration_ns;
    if (index.facts(i).rule != nullptr || e.collective != no_index) continue;
    unknown += e.duration_ns;
    ++out.unclassified_kernels;
  }
  out.kernel_time = seconds(all);
  out.unclassified_kernel_time = seconds(unknown);
}

void describe_collectives(const TraceIndex& index, TraceSummary& out) {
  const Trace& trace = index.trace;
  std::vector<bool> is_collective(trace.events.size(), false);
  bool by_host = false;
  for (const TracedCollective& c : collectives_of(index)) {
    is_collective[c.event] = true;
    by_host |= trace.events[c.event].kind != EventKind::kernel;
    ++out.collectives;
    ++out.collectives_by_source[static_cast<std::size_t>(c.source)];
    out.bytes_by_source[static_cast<std::size_t>(c.source)] += c.size;
  }
  // Collectives on the host have no device; they share one set.
  constexpr std::int64_t host = -1;
  std::map<std::int64_t, std::pair<Stretches, Stretches>> of_device;  // collective kernels, other kernels
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    const Event& e = trace.events[i];
    if (e.kind != EventKind::kernel && !is_collective[i]) continue;
    const Track& track = trace.tracks[e.track];
    auto& [collective, other] = of_device[track.on_device ? track.process : host];
    (is_collective[i] ? collective : other).add(e.start_ns, e.end_ns());
  }
  std::int64_t busy = 0, exposed = 0;
  for (auto& [device, unions] : of_device) {
    busy += unions.first.length();
    if (device != host) exposed += unions.first.length() - unions.first.shared_with(unions.second);
  }
  out.collective_time = seconds(busy);
  out.exposed = by_host && out.kernels > 0 ? Seconds(-1) : seconds(exposed);
}

}  // namespace

double unclassified_share(const Trace& trace) {
  double all = 0, unknown = 0;
  for (const Event& e : trace.events) all += double(e.duration_ns);
  unknown = double(trace.report.unclassified_ns);
  return all > 0 ? std::min(1.0, unknown / all) : 0;
}

TraceSummary summary_of(const Trace& trace) {
  TraceSummary out;
  out.source = trace.source;
  out.format = trace.report.format;
  out.producer = trace.report.producer;
  out.device = trace.device_name;
  out.rank = trace.rank;
  out.world_size = trace.world_size;
  out.unclassified_share = unclassified_share(trace);
  describe_events(trace, out);
  describe_steps(trace, out);
  const TraceIndex index(trace);
  describe_kernels(index, out);
  describe_collectives(index, out);
  return out;
}

}  // namespace stepcast
