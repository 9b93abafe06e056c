#pragma once
// Library of a trace: what the communication library of a traced job takes for an operation, over what the algorithm of
// the cluster would take on the links that the trace shows.
//
//   gloo between 2 hosts, links of 967 Mb/s: an all-gather of 2.3 MB in 12.0 ms, by a ring 9.8 ms -> 1.22 times as long
//   gloo reduces and scatters by an all-reduce                                                    -> 2 times as long
//
// A library that is slower at an operation stays so on other links and on more workers, so that the factor goes with
// the job to whatever cluster it is asked about: those that lie as the traced groups did (between machines, or inside
// one), of the same kind of device, whose own collectives nobody measured. Only several ranks tell it: of one alone
// nobody knows what it waited for. Invariants: times are those of sizes that the links' bandwidth governs, not their
// latency; with one operation alone, the one that the links were taken from, its factor is 1 but for what the fit
// misses. Not modelled: that the factor changes with the size, or with the number of workers.
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/profile/profile.hpp>

#include <string>

namespace [[gnu::visibility("default")]] stepcast {

/// The cluster with Cluster::library as the trace tells it; with what is said of it already where there is something.
[[nodiscard]] Cluster with_library_of(Cluster, const Profile&);
/// "gloo, as traced: all_gather 1.22 and reduce_scatter 2.00 times as long as by ring"; empty where nothing is said.
[[nodiscard]] std::string library_in_words(const Cluster&);

}  // namespace stepcast
