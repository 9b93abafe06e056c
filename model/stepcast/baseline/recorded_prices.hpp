#pragma once
// RecordedPrices: what the recorded collectives of a job take on another cluster (internal to the library).
//
// A collective belongs to a group of workers, of which some share a machine. By its role the group grows with the
// number of workers or keeps its size, and lies as close together as it did:
//
//   all-reduce of gradients, 8 of 8 workers, on 16 workers -> a group of 16;  all-to-all of experts, 4 -> 4
//
// Closed forms know links and nothing else, so that only what they say of the difference to the links that the trace
// shows counts; a measured time is what it takes. Not modelled: groups that do not lie as neighbours do on the cluster.
#include <stepcast/baseline/recorded_job.hpp>
#include <stepcast/cluster/collective.hpp>

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace stepcast {

/// A group of workers, and how many of them share a machine.
struct RecordedGroup {
  std::int64_t workers = 1, per_machine = 1;
  auto operator<=>(const RecordedGroup&) const = default;
};

/// Costs among groups of the devices of a cluster. The other devices of a machine send at the same time, in groups of
/// their own, over the same cards.
class GroupCosts {
 public:
  explicit GroupCosts(Cluster cluster) : cluster_(std::move(cluster)) {}

  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  const Answer<CommunicationCost>& of(RecordedGroup shape);
  /// The nearest neighbours of a group of so many.
  [[nodiscard]] RecordedGroup neighbours(std::int64_t workers) const;

 private:
  [[nodiscard]] Answer<CommunicationCost> cost_of(RecordedGroup shape) const;

  Cluster cluster_;
  std::map<RecordedGroup, Answer<CommunicationCost>> costs_;
};

/// What the recorded collectives of a job take on a cluster. The job has to outlive it.
class RecordedPrices {
 public:
  RecordedPrices(const Cluster& cluster, const RecordedJob& job) : job_(job), there_(cluster) {}

  /// As sent by all of its group at once. Nothing where it is not known, with the reason among `kept`.
  std::optional<Seconds> of(const RecordedCollective& c);
  /// What it takes with what it waits for; as long as recorded where nothing is known.
  Seconds time_of(const RecordedCollective& c);
  /// What the links that the trace shows take for it, in the traced job.
  std::optional<Seconds> here_of(const RecordedCollective& c);
  /// How many collectives keep their recorded time.
  [[nodiscard]] std::int64_t count_of_kept() const;
  /// One worker, which sends nothing and waits for nobody.
  [[nodiscard]] bool alone() const { return there_.cluster().workers() == 1; }

  std::map<std::string, std::int64_t> kept;  ///< reason and how many
  std::int64_t neighbours = 0;
  Seconds beyond;  ///< that one rank's collectives took at least, more than the links that the trace shows

 private:
  [[nodiscard]] Cluster traced(std::int64_t devices_per_node, const Link& inside, const Link& network) const;
  [[nodiscard]] std::int64_t devices() const;
  [[nodiscard]] bool is_whole(const RecordedCollective& c) const;
  [[nodiscard]] RecordedGroup group_there(const RecordedCollective& c) const;
  [[nodiscard]] bool has_table(std::string_view operation, RecordedGroup group) const;
  [[nodiscard]] bool scattered(const RecordedCollective& c, RecordedGroup group) const;
  [[nodiscard]] bool is_measured(const RecordedCollective& c);

  const RecordedJob& job_;
  GroupCosts there_;
  std::optional<GroupCosts> inside_, between_, anywhere_;
};

}  // namespace stepcast
