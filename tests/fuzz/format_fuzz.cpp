// Fuzzing one reader, `format_fuzz --format=horovod CORPUS`, or without --format all of them behind the choice by
// content and the archives: any bytes give a reading that keeps its invariants, and what is made of a trace keeps its
// own, or InputError is thrown. A profile that a reader gives must be good as it stands; a trace that is written as a
// Chakra execution trace can be read again; and what is read strictly is read the same without.
#include "invariants.hpp"

#include <stepcast/anatomy/trace_summary.hpp>
#include <stepcast/base/error.hpp>
#include <stepcast/documents/chakra_export.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/ranks/ranks.hpp>
#include <stepcast/replay/replay.hpp>
#include <stepcast/replay/timeline.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <span>
#include <string_view>

namespace {

using namespace stepcast;

constexpr std::size_t most_traces = 8;  // of a file that are looked at: ever more of them are slow and nothing new
const Format* only = nullptr;           // set once, before the first run; null: all formats

const Format* format_named(std::string_view name) {
  const auto found = std::ranges::find(formats(), name, &Format::name);
  return found == formats().end() ? nullptr : &*found;
}

/// Nothing where the bytes are refused.
std::optional<Reading> reading_in_format(std::span<const std::byte> bytes, bool strict) {
  ReadOptions options;
  options.strict = strict;
  options.threads = 1;  // starting more would take longer than all the rest
  const Source source{"fuzz", bytes};
  try {
    return only ? only->read(source, options) : reading_of(source, options);
  } catch (const InputError&) { return std::nullopt; }
}

template <class Use>
void answers_or_refuses(const Use& use) {
  try {
    use();
  } catch (const InputError&) {}
}

void export_and_read(const Trace& trace) {
  static const Format* const chakra = format_named("chakra");
  std::string bytes;
  answers_or_refuses([&] { bytes = chakra_export_of(trace).bytes; });
  if (bytes.empty()) return;
  const Reading again = chakra->read({"written", std::as_bytes(std::span(bytes))}, {});
  fuzz::require(again.traces.size() == 1);
  fuzz::check(again);
}

void use(const Trace& trace) {
  (void)summary_of(trace);
  (void)replay_of(trace);
  (void)replay_timeline_of(trace);
  answers_or_refuses([&] { (void)checked(profile_of(trace), "fuzz"); });
  export_and_read(trace);
}

void use(const Reading& reading) {
  const auto traces = std::span(reading.traces).first(std::min(most_traces, reading.traces.size()));
  for (const Trace& trace : traces) use(trace);
  if (traces.size() > 1) {
    answers_or_refuses([&] { (void)figures_of(run_of(traces)); });
    answers_or_refuses([&] { (void)checked(profile_of(traces), "fuzz"); });
  }
  if (!reading.executions.empty() && !reading.traces.empty())
    answers_or_refuses([&] {
      for (const Trace& trace : joined(reading.traces, reading.executions)) fuzz::check(trace);
    });
}

void require_same(const Reading& strict, const Reading& reading) {
  fuzz::require(strict.traces.size() == reading.traces.size() && strict.profiles.size() == reading.profiles.size() &&
                strict.executions.size() == reading.executions.size());
  for (std::size_t i = 0; i < strict.traces.size(); ++i)
    fuzz::require(strict.traces[i].events.size() == reading.traces[i].events.size());
}

}  // namespace

// Allocations are most of the work: what the sanitizer keeps of each costs as much as all the rest.
extern "C" const char* __asan_default_options() { return "malloc_context_size=2:quarantine_size_mb=16"; }

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  constexpr std::string_view flag = "--format=";
  for (int i = 1; i < *count; ++i) {
    const std::string_view argument = (*arguments)[i];
    if (!argument.starts_with(flag)) continue;
    only = format_named(argument.substr(flag.size()));
    if (only) continue;
    std::cerr << "no such format: " << argument << '\n';
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const std::optional<Reading> reading = reading_in_format(bytes, false);
  const std::optional<Reading> strict = reading_in_format(bytes, true);
  if (strict) {
    fuzz::require(reading.has_value());
    fuzz::check(*strict);
    require_same(*strict, *reading);
  }
  if (reading) {
    fuzz::check(*reading);
    use(*reading);
  }
  return 0;
}
