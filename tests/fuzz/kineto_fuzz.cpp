// Fuzzing the Kineto reader and what is made of its traces: any bytes either give traces that keep their invariants,
// summaries, profiles that keep their own, and replays, or throw InputError.
#include "invariants.hpp"

#include <stepcast/error.hpp>
#include <stepcast/format.hpp>
#include <stepcast/profile_of.hpp>
#include <stepcast/replay.hpp>
#include <stepcast/trace_summary.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace {

using namespace stepcast;

void use(const Trace& trace) {
  fuzz::require(!trace.events.empty());
  fuzz::check(trace);
  (void)summary_of(trace);
  try {
    (void)replay_of(trace);
    (void)checked(profile_of(trace), "fuzz");
  } catch (const InputError&) {}
}

void read(const std::uint8_t* data, std::size_t size, bool strict) {
  static const Format kineto = *std::ranges::find(formats(), "kineto", &Format::name);
  try {
    ReadOptions options;
    options.strict = strict;
    const Reading reading = kineto.read({"fuzz", std::as_bytes(std::span(data, size))}, options);
    fuzz::require(!reading.traces.empty());
    for (const Trace& trace : reading.traces) use(trace);
  } catch (const InputError&) {}
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read(data, size, false);
  read(data, size, true);
  return 0;
}
