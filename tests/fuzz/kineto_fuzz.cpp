// Fuzzing the trace reader and what is made of a trace: any bytes either give a trace that keeps its invariants, a
// profile that keeps its own, and a replay, or throw InputError.
#include <stepcast/error.hpp>
#include <stepcast/format.hpp>
#include <stepcast/profile_of.hpp>
#include <stepcast/replay.hpp>

#include <cstdint>
#include <cstdlib>

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const stepcast::Trace& trace) {
  require(!trace.events.empty());
  require(!trace.strings.empty() && trace.strings[0].empty());
  const stepcast::Event* previous = nullptr;
  for (const stepcast::Event& event : trace.events) {
    require(event.duration_ns >= 0 && event.end_ns() >= event.start_ns);
    require(event.track < trace.tracks.size());
    require(event.name < trace.strings.size());
    require(event.shapes < trace.strings.size() && event.types < trace.strings.size());
    require(event.collective == stepcast::no_index || event.collective < trace.collectives.size());
    if (previous)
      require(previous->start_ns < event.start_ns ||
              (previous->start_ns == event.start_ns && previous->duration_ns >= event.duration_ns));
    previous = &event;
  }
  for (const stepcast::Track& track : trace.tracks) require(track.label < trace.strings.size());
  for (const auto& link : trace.forward_backward)
    require(link.forward < trace.events.size() && link.backward < trace.events.size());
}

void read(const std::uint8_t* data, std::size_t size, bool strict) {
  try {
    const stepcast::Trace trace =
        stepcast::trace_of({"fuzz", std::as_bytes(std::span(data, size))}, {.strict = strict, .progress = {}});
    check(trace);
    (void)stepcast::replay_of(trace);
    (void)stepcast::checked(stepcast::profile_of(trace), "fuzz");
  } catch (const stepcast::InputError&) {}
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read(data, size, false);
  read(data, size, true);
  return 0;
}
