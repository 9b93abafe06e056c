#pragma once
// Delivery: when one message arrives over a transport, told without any plan.
//
// A message of which every byte has to arrive waits for its slowest flow; one that may lose a share does not. DLCP
// publishes the ratio of the two, mean and tail.
#include <stepcast/modifiers/shared/transport.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast::test {

struct Delivery {
  Seconds mean;
  Seconds tail;     ///< 99th percentile
  double lost = 0;  ///< share of the bytes that never arrive
  int repair_rounds = 0;
};

/// Quantile `p` of the time for which the flow of a message that stalls longest does so: each of the flows stalls k
/// times in a row with the probability q^k.
inline Seconds stall_quantile(const Transport& t, double p) {
  double units = 0;
  for (int k = 1; k <= 2000 && std::pow(1 - std::pow(t.stall_probability, k), t.flows) < p; ++k)
    units += std::exp2(std::min(k - 1, 6));
  return t.timeout * units;
}

/// A message of which the share `tolerated` may be lost.
inline Delivery bounded_loss_delivery(Bytes message, BytesPerSecond link, const Transport& t, double tolerated) {
  Delivery delivery;
  delivery.repair_rounds = repair_rounds(message, t, tolerated);
  delivery.lost = std::min(t.loss, tolerated);
  const Bytes sent = message * ((1 - tolerated) / (1 - t.loss));
  // What is sent at most once costs no more than the message.
  delivery.mean = sent / link * path_factor(t) + t.round_trip * delivery.repair_rounds;
  delivery.tail = delivery.mean;
  return delivery;
}

/// A message of which every byte has to arrive.
inline Delivery reliable_delivery(Bytes message, BytesPerSecond link, const Transport& t) {
  Delivery delivery = bounded_loss_delivery(message, link, t, 0);
  delivery.tail += stall_quantile(t, 0.99);
  delivery.mean += expected_stall(t);
  return delivery;
}

}  // namespace stepcast::test
