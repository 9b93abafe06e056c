#pragma once
// TraceIndex: who belongs to whom in a trace, found once for all steps.
//
// Every host event gets its *operator*: the outermost event around it on its thread that is not a mere container such
// as ProfilerStep. Every operator gets the device work that it launched, the time in which it waited for the device,
// and the part of it that only serves communication. Not modelled: work launched from one thread on behalf of another.
#include <stepcast/trace/event_names.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <vector>

namespace stepcast {

/// Summed device time in nanoseconds, how much of it is of which class, and the number of kernels and copies.
struct DeviceWork {
  std::int64_t total = 0;
  ByKernelClass<std::int64_t> part{};
  std::int64_t pieces = 0;

  /// One more kernel or copy.
  void add(KernelClass kind, std::int64_t duration_ns) {
    total += duration_ns;
    if (is_apart(kind)) part[kind] += duration_ns;
    ++pieces;
  }
  DeviceWork& operator+=(const DeviceWork& more) {
    total += more.total;
    part += more.part;
    pieces += more.pieces;
    return *this;
  }
};

struct TraceIndex {
  explicit TraceIndex(const Trace&);

  [[nodiscard]] const naming::NameFacts& facts(std::uint32_t event) const { return names[trace.events[event].name]; }
  /// The class of a kernel; copies and fills are memory-bound.
  [[nodiscard]] KernelClass work(std::uint32_t event) const {
    return trace.events[event].kind == EventKind::kernel ? facts(event).work : KernelClass::memory;
  }
  /// Part of what FSDP does around its collectives.
  [[nodiscard]] bool within_sharding(std::uint32_t event) const;
  /// A copy that FSDP makes itself: not part of another copy, nor of a collective.
  [[nodiscard]] bool copies_for_sharding(std::uint32_t event) const;
  [[nodiscard]] bool is_operator(std::uint32_t event) const { return operator_of[event] == event; }
  const Trace& trace;
  std::vector<naming::NameFacts> names;  ///< one for each StringId
  std::vector<std::uint32_t> parent;     ///< the innermost host event around each event
  std::vector<std::uint32_t>
      operator_of;  ///< the operator of each event; `no_index` for device events and for bare containers
  std::vector<std::uint8_t>
      serves_communication;                    ///< whether an event is a collective, its packing, or a gradient hook
  std::vector<DeviceWork> device_work;         ///< the work of each operator, communication excluded
  std::vector<std::int64_t> waiting_ns;        ///< for each operator, host time in calls that wait for the device
  std::vector<std::int64_t> stalled_ns;        ///< for each operator, host time in launches that found the queue full
  std::vector<std::int64_t> communication_ns;  ///< for each operator, host time of communication nested inside
  std::vector<std::int64_t> held_up_ns;        ///< for each operator, host time of communication spent waiting
  std::vector<std::int64_t> sharding_ns;       ///< for each operator, the part of it that is FSDP's, its waits included
  std::vector<std::int64_t> sharding_copies_ns;  ///< for each operator, the part of `sharding_ns` in copies
  std::vector<std::int64_t> issuing_ns;          ///< for each operator, the part of it in calls that issue collectives
  std::vector<std::uint32_t> issued;             ///< for each operator, the number of those calls
  std::vector<DeviceWork> packing_work;          ///< of each operator, copies that serve communication
  std::vector<std::int64_t> accumulate_ns;  ///< for each operator, host time of AccumulateGrad itself, hooks excluded
  std::vector<std::uint32_t> launcher;      ///< the host event that launched each device event, else `no_index`
  bool distributed = false;                 ///< some event communicates
  bool has_device_work = false;
  std::int64_t unlinked_device_ns = 0;  ///< device work of which nobody knows who launched it
  std::int64_t linked_device_ns = 0;
};

}  // namespace stepcast
