#pragma once
// StepSplit: where the time of a measured step goes, moment by moment.
//
// Each moment of a step belongs to one part, the first of this list that is going on:
//
//   compute         kernels, by what limits them; of a trace without a device operators, by their phase
//   communication   a collective runs and no kernel does: exposed, by what it is for (collective_roles.hpp)
//   late ranks      so does the part of it in which the last rank had not come, where several ranks are known
//   copies          only copies and fills run; by what they are between (SplitCopies)
//   input           the device has nothing to do, and the step waits for its next batch
//   host            the device has nothing to do, and the host runs an operator or a call
//   idle            no event: Python between operators, or a wait that leaves none
//
//   products 31.2 ms | memory 12.0 ms | other 8.1 ms | communication 3.9 ms | host 4.6 ms | idle 1.9 ms = 61.7 ms
//
// Where the device sets the pace (StepTimes::pace), a step is as long as that, from its first device work. Nothing is
// needed but events: a trace without steps is split as a whole. Invariant: the parts add up to the step. Not modelled:
// how much sooner a step would end without a part, which is at most that part; devices of a trace besides the busiest.
#include <stepcast/base/units.hpp>
#include <stepcast/profile/collective_role.hpp>
#include <stepcast/trace/trace.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

enum class SplitPart : std::uint8_t {
  products,      ///< kernels: matrix products and convolutions
  other,         ///< kernels of no known class
  memory_bound,  ///< kernels that only move data
  backward,      ///< operators of the host, where it computes
  forward,
  update,
  operators,  ///< in none of these phases
  communication,
  late_ranks,
  copies,
  input,
  host,
  idle,
};
inline constexpr std::size_t split_parts = std::size_t(SplitPart::idle) + 1;
/// "products", "memory_bound", ...
[[nodiscard]] std::string_view name_of(SplitPart);
/// "matrix products", "exposed communication", ...: for people.
[[nodiscard]] std::string_view words_of(SplitPart);
[[nodiscard]] constexpr bool is_compute(SplitPart part) { return part < SplitPart::communication; }

/// The collectives of a step that serve one purpose by one operation; of those that run at the same time each moment
/// belongs to the one that began first.
struct SplitCommunication {
  CollectiveRole role = CollectiveRole::unknown;
  std::string operation;
  double count = 0;  ///< a step
  Bytes size;        ///< of all of them; 0: not known
  Seconds exposed;   ///< `waiting` included
  Seconds hidden;    ///< beside compute
  Seconds waiting;   ///< for ranks that came later
};

/// The device over the whole recording, from its first work to its last, as HolisticTraceAnalysis' temporal breakdown
/// has it.
struct RecordedDeviceTime {
  Seconds span;
  Seconds compute;        ///< some kernel runs that is no collective
  Seconds non_compute;    ///< only collectives and copies run
  Seconds communication;  ///< some collective runs
  Seconds overlapped;     ///< of that, beside compute

  [[nodiscard]] Seconds idle() const { return span - compute - non_compute; }
};

/// Of the copies, by what they are between; the rest does not say. Of those that run at the same time a moment belongs
/// to those on the device, which loading ahead does not spare.
struct SplitCopies {
  Seconds on_device;     ///< within the device, fills included
  Seconds for_sharding;  ///< of which FSDP's own, around its messages or, on one device, in place of them
  Seconds from_host;
  Seconds to_host;
};

struct StepSplit {
  std::string source, device;  ///< device: empty where the host computes
  std::int64_t rank = -1;
  bool of_steps = false;     ///< false: `step` is the whole recording
  std::size_t steps = 0;     ///< how many were split
  std::size_t measured = 0;  ///< of how many `step` is the median: of distorted ones, too, where too few are not
  std::string recognised;    ///< how they were found
  std::string assumed;       ///< may be empty
  Seconds step;
  std::array<Seconds, split_parts> parts{};
  SplitCopies copies{};
  std::vector<SplitCommunication> communication{};           ///< by time, the longest first
  std::vector<Seconds> durations{};                          ///< of the steps that were split
  std::vector<std::array<Seconds, split_parts>> parts_of{};  ///< the parts of each
  std::optional<RecordedDeviceTime> recording{};             ///< nothing without a device

  [[nodiscard]] Seconds operator[](SplitPart part) const { return parts[std::size_t(part)]; }
  [[nodiscard]] Seconds compute() const;
  /// Communication that nothing hides, waiting for late ranks included.
  [[nodiscard]] Seconds exposed() const;
  [[nodiscard]] Seconds hidden() const;
  /// Copies whose names do not say what they are between.
  [[nodiscard]] Seconds other_copies() const;
  /// Interquartile range of the steps over their median; 0 for fewer than three.
  [[nodiscard]] double noise() const;
};

/// Throws InputError for a trace without events of any duration.
[[nodiscard]] StepSplit split_of(const Trace&);
/// One for each rank of a run; with several of them waiting is told from communication.
[[nodiscard]] std::vector<StepSplit> splits_of(std::span<const Trace>);

}  // namespace stepcast
