#pragma once
// Process group: the devices that one dimension of a layout brings together, as a cluster of its own.
//
// Ranks are numbered along the layout's order, innermost dimension first, and machines are filled in that order. The
// group of a dimension with degree d and stride q (product of the inner degrees) has its members q ranks apart: so
// many of them share a machine, and so many other groups of the same dimension use the machine's network cards at the
// same time, which leaves a part of the bandwidth to each. The same holds of every level of the network and its
// uplinks: which groups cross a spine follows from the order of the ranks. On a torus a group along whole dimensions
// has their links for itself, part of a dimension is a line, and groups that are strided within a dimension share its
// links. Invariant: a group of one sends nothing. Not modelled: groups that are cut unevenly by machines (the widest is
// taken, with as many members on each machine as divide it), congestion beyond the cards.
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/layout/layout.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// A group at one level of the network (Cluster::levels).
struct GroupLevel {
  std::int64_t units = 1;    ///< units of what is below that it has within a unit of this level
  std::int64_t sharing = 1;  ///< groups of the same dimension that use the uplinks of such a unit below together
  bool operator==(const GroupLevel&) const = default;
};
struct GroupShape {
  std::int64_t members = 1;
  std::int64_t per_node = 1;         ///< members on one machine
  std::int64_t nodes = 1;            ///< machines that it reaches over
  std::int64_t sharing_network = 1;  ///< groups of the same dimension that use one machine's cards together
  std::vector<GroupLevel> levels;    ///< as many as the cluster has; product of their units: `nodes`
  std::vector<TorusSide> torus{};    ///< its part of the first level's; product: units of that level
  std::int64_t sharing_torus = 1;    ///< groups of the same dimension that use one link of it together
};
/// Whether its members can write into one another's memory: they share a machine, or are on a torus.
[[nodiscard]] inline bool reach_each_other(const GroupShape& group) { return group.nodes == 1 || !group.torus.empty(); }
/// Members of a group along one dimension: `degree` ranks, `stride` apart.
struct RankAxis {
  std::int64_t stride = 1, degree = 1;
};
[[nodiscard]] RankAxis rank_axis(const Layout& resolved, Dimension);
/// Whether every group has the ranks that it has in another order: such orders differ in degrees of one alone.
[[nodiscard]] bool same_ranks(const Layout& resolved, const std::array<Dimension, dimension_count>& order);
/// The ranks over which experts are spread: neighbours that hold the same stage, or where the order puts others
/// between them, those of data.
[[nodiscard]] RankAxis expert_axis(const Layout& resolved);
/// The ranks that hold the same part of the same experts, inner ones first.
[[nodiscard]] std::vector<RankAxis> expert_replica_axes(const Layout& resolved);
/// A group along one or several axes (inner ones first) of a job of `devices` that fills machine after machine.
[[nodiscard]] GroupShape group_shape(const Cluster&, std::int64_t devices, std::span<const RankAxis>);
/// Of a resolved layout on a cluster whose machines it fills.
[[nodiscard]] GroupShape group_shape(const Cluster&, const Layout&, Dimension);
/// Data-parallel ranks of a layout that share a machine: neighbours, at least one.
[[nodiscard]] std::int64_t ranks_of_machine(const Layout&, const Cluster&);
/// Whether qgz=on has gradients summed in codes: inside one machine they are summed as they are
/// (DeepSpeed's stage3.py).
[[nodiscard]] bool sums_codes(const Layout&, const Cluster&);
/// With "shard=machine" and "hpz=machine" as that number; 0 where those are all. Any other layout as it is.
[[nodiscard]] Layout with_machine_shard(Layout, const Cluster&);
/// Leaves a cluster what one of so many groups that send at the same time has of each machine's cards: whole ones where
/// there are enough of them, else a part of one. Returns the factor on the bandwidth of those that are left.
double share_cards(Cluster&, double groups);
/// The cluster that the members of such a group see; tables of other group sizes are left out.
[[nodiscard]] Cluster group_cluster(const Cluster&, const GroupShape&);
/// The link from one stage to the next: whether neighbours in the pipeline share a machine, and how many pairs of
/// stages share the card where not.
[[nodiscard]] Link stage_link(const Cluster&, const Layout&);

}  // namespace stepcast
