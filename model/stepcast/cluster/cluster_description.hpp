#pragma once
// Cluster description: what people say of a cluster in a few words, and the cluster that it stands for.
//
// Every field is text as on a command line, empty where nothing was said; a quantity has its unit. Invariant: either
// the result satisfies the invariants of Cluster, with each assumed number named in `provenance`, or it is an
// InputError whose `where` is `prefix` and the field's name with hyphens ("--per-node"; "per-node" from other
// languages). Not modelled: files; who reads them passes the cluster on as `base`.
#include <stepcast/cluster/cluster.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct ClusterDescription {
  std::string cluster{};  ///< a shipped name, "8xp5" for so many machines of it, or what `base` is called
  /// `network`: "400Gb/s" of a machine, "8 x 400Gb/s" of each of its cards.
  std::string workers{}, per_node{}, network{}, inside{}, servers{}, collective{}, device_memory{};
  /// What NCCL may use: "Tree", "^LL128"; of the algorithm `nccl`.
  std::string nccl_algo{}, nccl_proto{};
  /// What is out of the ordinary: "1.3", "5 ms", "0.5" or "2 x 100Gb/s" (of two machines), "0.05", "switchml".
  std::string slow_worker{}, late_worker{}, degraded_link{}, jitter{}, aggregation{};
  /// What the network does to packets: shares "0.001" and "1e-6", and "200 ms".
  std::string loss{}, stalls{}, rto{};
  /// What other jobs take of the outermost level, or of those that are named: "30%", "spine=30%, rail=10%".
  std::string background{};
  /// What one connection reaches, and how many carry a card's messages: "10Gb/s", "4 x 10Gb/s".
  std::string connection{};
  /// How the network joins the machines, from the inside out, one or several to a text with semicolons between them:
  /// "rail:32 x 400Gb/s", "spine:16, oversubscribed=2, latency=3us, background=30%". A bandwidth is of one machine, as
  /// in `network`, which the first level may say instead; what is not said of a level is as below. Machines of the
  /// first level may be a torus, "pod:torus 4x4x4 x 100GB/s" with the bandwidth of a link in each direction, or a mesh.
  std::vector<std::string> level{};
};

/// Throws InputError. `base`: the cluster itself, where it did not come with the program.
[[nodiscard]] Cluster cluster_of(const ClusterDescription&, const std::optional<Cluster>& base = std::nullopt,
                                 std::string_view prefix = "--");
/// The level that others share, as `background_at` counts: that of a name, or the outermost one for "". Throws
/// InputError (`where` says which flag) for a name that no level has, and where there is one machine.
[[nodiscard]] std::size_t shared_level(const Cluster&, std::string_view name, const char* where);
/// A positive size: "80GB". Throws InputError.
[[nodiscard]] Bytes memory_of(std::string_view text, std::string_view where);

}  // namespace stepcast
