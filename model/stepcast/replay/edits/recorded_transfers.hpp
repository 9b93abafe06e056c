#pragma once
// Recorded transfers: what of a recorded collective a faster network would shorten (internal to the edits).
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
#include <unordered_map>

namespace stepcast {

class RecordedTransfers {
 public:
  RecordedTransfers(const Trace&, std::span<const Step>);

  /// The share of an event's time that is left with `by` times the bandwidth; nothing where it is no collective.
  [[nodiscard]] std::optional<double> left(std::uint32_t event, double by) const;

 private:
  std::unordered_map<std::uint32_t, double> share_;  // by event: of its time, what is sent
};

}  // namespace stepcast
