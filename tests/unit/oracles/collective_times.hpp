#pragma once
// Collective times: the textbook forms of collectives written once more, on the links of a cluster. Oracle for
// CommunicationCost, of which it shares no line.
//
//   CollectiveTimes(cluster, "ring").seconds(Operation::all_reduce, 1e6)
//
// Not covered: measured tables.
#include <stepcast/cluster/collective.hpp>

#include <optional>
#include <string>

namespace stepcast::test {

class CollectiveTimes {
 public:
  CollectiveTimes(const Cluster&, std::string algorithm);
  [[nodiscard]] bool has(Operation) const;
  /// Of one operation on `bytes`, with the message's overhead.
  [[nodiscard]] double seconds(Operation, double bytes) const;
  /// The same over what it takes where nothing computes.
  [[nodiscard]] double slow_down(Operation, double bytes) const;
  /// The share of a link between machines that losses and crowded paths leave.
  [[nodiscard]] double usable() const { return usable_; }
  /// Packets on the links of all machines.
  [[nodiscard]] double packets(Operation, double bytes) const;
  /// Mean seconds until every packet that is lost has been sent again, one round trip after the other.
  [[nodiscard]] double repairs(double packets) const;
  /// Start-up and seconds a byte of an all-reduce, as MG-WFBP's rule takes them.
  struct Line {
    double start = 0, byte = 0;
    [[nodiscard]] double operator()(double m) const { return start + byte * m; }
  };
  [[nodiscard]] Line line() const;

 private:
  struct Wire {
    double latency, rate;
  };
  [[nodiscard]] std::optional<Line> form(Operation) const;
  [[nodiscard]] std::optional<Line> all_reduce(const std::string& algorithm) const;
  [[nodiscard]] Line half_of_ring(double ranks, Wire, double share = 1) const;
  [[nodiscard]] Line in_switch() const;
  [[nodiscard]] double time(Operation, double bytes) const;

  Cluster cluster_;
  std::string algorithm_;
  double usable_;                           // share of a link that losses and crowded paths leave
  double n_, g_, p_;                        // machines, devices of one, devices
  Wire in_, card_, cards_, device_, flat_;  // inside; one card; all of a machine; a device's share of them; a flat ring
};

}  // namespace stepcast::test
