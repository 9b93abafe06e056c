#pragma once
// Beside: a second job on the same network, as flags say it, and what it takes of the level that both share.
#include "asked.hpp"

#include <CLI/CLI.hpp>

namespace stepcast::cli {

/// --beside, --beside-model and --beside-batch, of verbs that ask about one cluster.
void add_beside_flags(CLI::App&, ClusterFlags&);
/// Throws InputError for what is wrong with them whatever is read; they may be absent.
void check_beside_flags(const ClusterFlags&);
/// Puts the second job beside the one that is asked about: its share into the cluster of the question. Throws
/// InputError where its plan cannot run there.
void put_beside(Asked&, const InputFlags&, const ClusterFlags&);
/// Tells the second job of one plan of the first: what both lose, in `question`. `answer`: that of the first job's
/// plan. Nothing where there is no second job.
void tell_of_both(Asked&, const std::function<Answer<Prediction>(const PreparedQuestion&)>& answer);

}  // namespace stepcast::cli
