#pragma once
// Links of a trace: what a traced job shows of the links of its machines, taken where nobody says which links a cluster
// has.
//
//   8 devices of one machine, all-reduces of 181 MB in 1.58 ms -> 202 GB/s inside a machine, "from this trace"
//
// Flags and files come first; then the trace's own collectives (Profile::transfers), on the same devices; then what is
// known of such devices by their name (NVLink of SXM boards, PCIe of cards), which is told as assumed. The links of a
// ring over the group are given: of several ranks those that come nearest to all times, of one rank alone the fastest
// that no time contradicts, because whoever waited for others took longer than its links. Invariant: numbers that
// somebody gave stay. Not modelled: that collectives are slower beside kernels than alone (the trace's are); several
// network cards of a machine, which together are one here.
//
// Its communication library, too, is known by the trace: what it takes for an operation, over what the algorithm of the
// cluster would take on the links that the trace shows.
//
//   gloo between 2 hosts, links of 967 Mb/s: an all-gather of 2.3 MB in 12.0 ms, by a ring 9.8 ms -> 1.22 times as long
//   gloo reduces and scatters by an all-reduce                                                    -> 2 times as long
//
// A library that is slower at an operation stays so on other links and on more workers, so that the factor goes with
// the job to whatever cluster it is asked about: those that lie as the traced groups did (between machines, or inside
// one), of the same kind of device, whose own collectives nobody measured. Only several ranks tell it: of one
// alone nobody knows what it waited for. Invariant: times are those of sizes that the links' bandwidth governs, not
// their latency. Not modelled: that the factor changes with the size, or with the number of workers.
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/profile/profile.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// Lines of Cluster::provenance that say that nobody said which links there are.
inline constexpr std::string_view unsaid_inside = "inside: assumed 20 GB/s and 5 us a step (PCIe 4.0 x16)";
inline constexpr std::string_view unsaid_network = "network: not said";
inline constexpr std::string_view unsaid_contention = "contention: not said";
[[nodiscard]] bool is_unsaid(const Cluster&, std::string_view line);

struct ShownLink {
  Link link;
  std::string source;     ///< in words
  std::int64_t mesh = 0;  ///< Cluster::inside_mesh
};
/// The link inside a machine, or that between machines, that the collectives of a traced run show. Nothing where none
/// of them stayed inside (went between) machines, or none was large enough to tell a bandwidth.
[[nodiscard]] std::optional<ShownLink> shown_inside(const Profile&);
[[nodiscard]] std::optional<ShownLink> shown_network(const Profile&);
/// The same of groups of which nobody knows where they lie, as one ring over equal links.
[[nodiscard]] std::optional<ShownLink> shown_anywhere(const Profile&);
/// The link between devices of this name inside a machine: that of their boards. Nothing for names that are not known.
[[nodiscard]] std::optional<ShownLink> usual_inside(std::string_view device);

/// The link inside a machine that goes by a name: "pcie4", "PCIe 5.0 x16", "nvlink4", as the boards that have it reach
/// it. Nothing for other words.
[[nodiscard]] std::optional<ShownLink> inside_named(std::string_view name);
/// Names as `inside_named` knows them, for suggestions.
[[nodiscard]] std::vector<std::string> inside_names();

/// Throws InputError, naming `prefix` and "network", for several machines whose links nobody said.
void refuse_unsaid_network(const Cluster&, std::string_view prefix = "--");
/// What `with_links_of` says of a link ("inside: " or "network: "): "from this trace (...)" or "assumed of ..."; empty
/// where it was given.
[[nodiscard]] std::string told_of(const Cluster&, std::string_view link);
inline constexpr std::string_view links_from_trace = "from this trace", links_assumed_of = "assumed of ";
/// The cluster with what Cluster::library does not say of an operation already, as the trace tells it.
[[nodiscard]] Cluster with_library_of(Cluster, const Profile&);
/// "all_gather 1.22 (gloo, as traced), reduce_scatter 2.00 (gloo does it as an all-reduce) times as long as by ring";
/// empty where nothing is said, or nothing is sent.
[[nodiscard]] std::string library_in_words(const Cluster&);
/// The cluster with the network that collectives show of which nobody knows where they lie, as if each worker were a
/// machine; unchanged where they show none.
[[nodiscard]] Cluster with_workers_as_machines(Cluster, const Profile&);
/// The cluster with the links that nobody said as far as the profile's trace, or its device's name, tells them, and
/// with what its library takes for operations. Workers that computed on hosts, of which nobody
/// knows where they lay, are taken for machines. Throws InputError as above where nothing tells the links between
/// several machines.
[[nodiscard]] Cluster with_links_of(Cluster, const Profile&, std::string_view prefix = "--");

}  // namespace stepcast
