// A message is put on one card at either end.
#include "oracles/card_traffic.hpp"

#include <algorithm>
#include <cstddef>

namespace stepcast::test {

double& CardTraffic::at(std::vector<double>& cards, std::int64_t device) {
  const auto card = static_cast<std::size_t>(device / devices_ * cards_ + device % devices_ % cards_);
  if (cards.size() <= card) cards.resize(card + 1, 0);
  return cards[card];
}

void CardTraffic::send(std::int64_t from, std::int64_t to, double bytes) {
  if (from / devices_ == to / devices_) return;
  at(out_, from) += bytes;
  at(in_, to) += bytes;
}

double CardTraffic::fullest() const {
  double most = 0;
  for (const std::vector<double>* cards : {&in_, &out_})
    for (const double bytes : *cards) most = std::max(most, bytes);
  return most;
}

}  // namespace stepcast::test
