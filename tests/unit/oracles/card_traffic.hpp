#pragma once
// Card traffic: messages on explicit machines whose devices are wired to network cards, with the bytes that go into and
// out of every card counted. Oracle for what senders leave one another where they share a card or aim at one receiver,
// of which it shares no line with the forms.
//
// Device i of a machine sends and receives by card i mod k of k; what stays on a machine loads no card. Not covered:
// time.
#include <cstdint>
#include <vector>

namespace stepcast::test {

class CardTraffic {
 public:
  CardTraffic(std::int64_t devices_per_node, std::int64_t cards) : devices_(devices_per_node), cards_(cards) {}
  void send(std::int64_t from, std::int64_t to, double bytes);
  /// The most that goes into, or out of, one card.
  [[nodiscard]] double fullest() const;

 private:
  double& at(std::vector<double>& cards, std::int64_t device);
  std::int64_t devices_, cards_;
  std::vector<double> in_, out_;
};

}  // namespace stepcast::test
