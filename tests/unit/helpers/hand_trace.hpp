#pragma once
// HandTrace: a trace written by hand, event by event, in microseconds; for tests of what reads a trace.
#include <stepcast/trace/trace.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace stepcast::test {

class HandTrace {
 public:
  /// Shifts all that is added from now on.
  void shift(double us) { shift_ns_ = nanoseconds(us); }

  void op(int thread, std::string_view name, double begin, double end) {
    add(EventKind::host_op, host(thread), name, begin, end);
  }
  void annotation(int thread, std::string_view name, double begin, double end) {
    add(EventKind::annotation, host(thread), name, begin, end);
  }
  void step(int number, double begin, double end) {
    annotation(0, "ProfilerStep#" + std::to_string(number), begin, end);
  }
  void call(int thread, std::string_view name, double begin, double end) {
    add(EventKind::runtime_call, host(thread), name, begin, end);
  }
  /// A call and the device work that it launches.
  void kernel(int thread, double call_begin, double call_end, int stream, std::string_view name, double begin,
              double end) {
    launched(thread, "cudaLaunchKernel", call_begin, call_end, EventKind::kernel, stream, name, begin, end);
  }
  void copy(int thread, double call_begin, double call_end, int stream, std::string_view name, double begin,
            double end) {
    launched(thread, "cudaMemcpyAsync", call_begin, call_end, EventKind::copy, stream, name, begin, end);
  }
  /// Further device work of the call before.
  void also(int stream, std::string_view name, double begin, double end) {
    add(EventKind::kernel, device(stream), name, begin, end, correlation_);
  }
  void add(EventKind kind, std::uint32_t track, std::string_view name, double begin, double end,
           std::int64_t correlation = -1) {
    Event event;
    event.kind = kind;
    event.track = track;
    event.name = string(name);
    event.start_ns = shift_ns_ + nanoseconds(begin);
    event.duration_ns = nanoseconds(end) - nanoseconds(begin);
    event.correlation = correlation;
    trace_.events.push_back(event);
  }
  std::uint32_t host(int thread) { return track(thread, false); }
  std::uint32_t device(int stream) { return track(stream, true); }

  Trace trace() const {
    Trace sorted = trace_;
    std::stable_sort(sorted.events.begin(), sorted.events.end(), [](const Event& a, const Event& b) {
      return std::tuple(a.start_ns, -a.duration_ns) < std::tuple(b.start_ns, -b.duration_ns);
    });
    return sorted;
  }

 private:
  static std::int64_t nanoseconds(double us) { return static_cast<std::int64_t>(us * 1000 + (us < 0 ? -0.5 : 0.5)); }
  void launched(int thread, std::string_view call_name, double call_begin, double call_end, EventKind kind, int stream,
                std::string_view name, double begin, double end) {
    ++correlation_;
    add(EventKind::runtime_call, host(thread), call_name, call_begin, call_end, correlation_);
    add(kind, device(stream), name, begin, end, correlation_);
  }
  StringId string(std::string_view text) {
    const auto at = std::ranges::find(trace_.strings, text);
    if (at == trace_.strings.end()) trace_.strings.emplace_back(text);
    return static_cast<StringId>(std::ranges::find(trace_.strings, text) - trace_.strings.begin());
  }
  std::uint32_t track(int number, bool on_device) {
    for (std::uint32_t t = 0; t < trace_.tracks.size(); ++t)
      if (trace_.tracks[t].thread == number && trace_.tracks[t].on_device == on_device) return t;
    Track made;
    made.thread = number;
    made.on_device = on_device;
    trace_.tracks.push_back(made);
    return static_cast<std::uint32_t>(trace_.tracks.size() - 1);
  }

  Trace trace_;
  std::int64_t shift_ns_ = 0, correlation_ = 0;
};

/// Five equal steps, `period` us apart; `write` writes one whose times start at 0.
template <class Write>
Trace repeated(double period, double length, Write write, int count = 5) {
  HandTrace hand;
  for (int i = 0; i < count; ++i) {
    hand.shift(period * i);
    hand.step(i, 0, length);
    write(hand);
  }
  return hand.trace();
}

}  // namespace stepcast::test
