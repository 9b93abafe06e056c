#pragma once
// Recorded transfers: what of a recorded collective is sent, and what is waiting.
//
// The time of a collective in the trace of one rank is start-up, transfer, and waiting for whoever comes last. What it
// takes at least over all steps, of the same operation, group and bytes, holds no waiting but what every step has; the
// start-up is the least time of a small message of the operation, where there is one, up to 1 ms (messages that queue
// take longer, and go by the bandwidth). Where the bytes are not known the
// same call of every step is compared. Not modelled: a network that is shared, so that a faster one helps less.
#include <stepcast/anatomy/traced_collectives.hpp>
#include <stepcast/trace/steps.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

namespace stepcast {

/// One recorded collective: `duration` = waiting for others + `least`, of which all but the start-up is `sent`.
struct RecordedTransfer {
  std::string operation;  ///< as TracedCollective::operation
  Bytes size;             ///< 0: not known
  std::int64_t group_size = -1;
  Seconds duration, least, sent;
};

class RecordedTransfers {
 public:
  RecordedTransfers(const TraceIndex&, std::span<const Step>);

  /// That of an event; null where it is no collective, or took no time.
  [[nodiscard]] const RecordedTransfer* of(std::uint32_t event) const;
  /// The share of an event's time that is left with `by` times the bandwidth; nothing where it is no collective.
  [[nodiscard]] std::optional<double> left(std::uint32_t event, double by) const;

 private:
  std::unordered_map<std::uint32_t, RecordedTransfer> transfers_;  // by event
};

}  // namespace stepcast
