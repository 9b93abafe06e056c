// Fuzzing one reader, `format_fuzz --format=horovod CORPUS`, or without --format all of them behind the choice by
// content and the archives: any bytes give a reading that keeps its invariants, and what is made of a trace keeps its
// own, or InputError is thrown. A profile that a reader gives must be good as it stands.
#include "invariants.hpp"

#include <stepcast/error.hpp>
#include <stepcast/profile_of.hpp>
#include <stepcast/ranks.hpp>
#include <stepcast/replay.hpp>
#include <stepcast/trace_summary.hpp>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <span>
#include <string_view>

namespace {

using namespace stepcast;

const Format* only = nullptr;  // set once, before the first run; null: all formats

Reading reading_in_format(const Source& source, const ReadOptions& options) {
  return only ? only->read(source, options) : reading_of(source, options);
}

template <class Use>
void answers_or_refuses(const Use& use) {
  try {
    use();
  } catch (const InputError&) {}
}

void read(const std::uint8_t* data, std::size_t size, bool strict) {
  answers_or_refuses([&] {
    ReadOptions options;
    options.strict = strict;
    const Reading reading = reading_in_format({"fuzz", std::as_bytes(std::span(data, size))}, options);
    fuzz::check(reading);
    for (const Trace& trace : reading.traces) {
      (void)summary_of(trace);
      (void)replay_of(trace);
      answers_or_refuses([&] { (void)checked(profile_of(trace), "fuzz"); });
    }
    if (reading.traces.size() > 1) answers_or_refuses([&] { (void)run_of(reading.traces); });
    if (!reading.executions.empty() && !reading.traces.empty())
      answers_or_refuses([&] {
        for (const Trace& trace : joined(reading.traces, reading.executions)) fuzz::check(trace);
      });
  });
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  constexpr std::string_view flag = "--format=";
  for (int i = 1; i < *count; ++i) {
    const std::string_view argument = (*arguments)[i];
    if (!argument.starts_with(flag)) continue;
    for (const Format& format : formats())
      if (format.name == argument.substr(flag.size())) only = &format;
    if (!only) {
      std::cerr << "no such format: " << argument << '\n';
      std::exit(2);
    }
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read(data, size, false);
  read(data, size, true);
  return 0;
}
