// Traced links: the transfer times of a run as tables of a cluster.
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/traced_links.hpp>
#include <stepcast/ranks/transfer_times.hpp>

#include <algorithm>
#include <utility>

namespace stepcast {

std::vector<MeasuredCollective> collectives_of_traces(std::span<const Trace> ranks) {
  if (ranks.empty()) throw InputError("", "at least one trace", "none");
  const bool together = ranks.size() > 1;
  if (together)
    if (const RunOfRanks run = run_of(ranks); !run.cautions.empty())
      throw InputError(ranks.front().source, "the ranks of one run", run.cautions.front());
  const std::string provenance = ranks.front().source + ": " +
                                 (together ? "transfers of " + counted(std::ssize(ranks), "rank") + ", medians"
                                           : "one rank, the least of each size: others may have been late in all");
  std::vector<MeasuredCollective> tables;
  for (TransferTimes& t : transfer_times_of(ranks)) {
    MeasuredCollective table{t.operation, t.workers, std::move(t.sizes), std::move(t.times), provenance};
    // Kinds of groups of one size follow one another, those with most ranks on a machine last.
    const bool again = !tables.empty() && tables.back().operation == t.operation && tables.back().workers == t.workers;
    if (again) tables.back() = std::move(table);
    else tables.push_back(std::move(table));
  }
  if (tables.empty())
    throw InputError(ranks.front().source, "collectives whose size and group the trace tells", "none",
                     "record a distributed job with today's PyTorch, or with record_shapes=True");
  return tables;
}

}  // namespace stepcast
