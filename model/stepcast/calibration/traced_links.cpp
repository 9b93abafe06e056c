// Traced links: times by operation, group and size; then the transfer among them.
#include <stepcast/anatomy/traced_collectives.hpp>
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/traced_links.hpp>
#include <stepcast/ranks/ranks.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace stepcast {
namespace {

/// As clusters name it; empty: no table of it is of use.
std::string_view table_name_of(std::string_view operation) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {{"allreduce", "all_reduce"},
                                                                     {"reducescatter", "reduce_scatter"},
                                                                     {"allgather", "all_gather"},
                                                                     {"broadcast", "broadcast"},
                                                                     {"alltoall", "all_to_all"}};
  for (const auto& [traced, table] : names)
    if (operation == traced) return table;
  return {};
}

/// Of a gather whose size comes from the shapes around it, what goes in may be all that is known.
bool is_sized(const TracedCollective& c) {
  if (c.source == BytesSource::unknown || !(c.size > Bytes(0))) return false;
  return c.operation != "allgather" || c.source != BytesSource::shapes;
}

/// Seconds of all that were recorded, by operation and group, and by bytes.
using Times = std::map<std::pair<std::string_view, std::int64_t>, std::map<double, std::vector<double>>>;

Times times_in(std::span<const Trace> ranks) {
  Times times;
  const bool together = ranks.size() > 1;
  const RunOfRanks run = together ? run_of(ranks) : RunOfRanks{};
  if (!run.cautions.empty()) throw InputError(ranks.front().source, "the ranks of one run", run.cautions.front());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const TraceIndex index(ranks[r]);
    const std::unordered_map<std::uint32_t, Seconds> waiting =
        together ? run.waiting_of(r) : std::unordered_map<std::uint32_t, Seconds>{};
    for (const TracedCollective& c : collectives_of(index)) {
      const std::string_view table = table_name_of(c.operation);
      const std::int64_t world =
          together ? std::max(run.world_size, static_cast<std::int64_t>(ranks.size())) : ranks[r].world_size;
      const std::int64_t workers = c.group_size > 0 ? c.group_size : world;
      if (table.empty() || workers < 2 || !is_sized(c)) continue;
      const auto waited = waiting.find(c.event);
      if (together && waited == waiting.end()) continue;  // nobody else was seen in it
      const Seconds transfer = together ? c.duration - waited->second : c.duration;
      if (transfer > Seconds(0)) times[{table, workers}][c.size.value()].push_back(transfer.value());
    }
  }
  return times;
}

}  // namespace

std::vector<MeasuredCollective> collectives_of_traces(std::span<const Trace> ranks) {
  if (ranks.empty()) throw InputError("", "at least one trace", "none");
  const bool together = ranks.size() > 1;
  std::vector<MeasuredCollective> tables;
  for (auto& [of, by_size] : times_in(ranks)) {
    MeasuredCollective table;
    table.operation = of.first;
    table.workers = of.second;
    table.provenance = ranks.front().source + ": " +
                       (together ? "transfers of " + counted(std::ssize(ranks), "rank") + ", medians"
                                 : "one rank, the least of each size: others may have been late in all");
    for (auto& [bytes, seconds] : by_size) {
      table.sizes.emplace_back(bytes);
      table.times.emplace_back(together ? median(std::move(seconds)) : *std::ranges::min_element(seconds));
    }
    for (std::size_t i = table.times.size(); i-- > 1;)
      table.times[i - 1] = std::min(table.times[i - 1], table.times[i]);
    tables.push_back(std::move(table));
  }
  if (tables.empty())
    throw InputError(ranks.front().source, "collectives whose size and group the trace tells", "none",
                     "record a distributed job with today's PyTorch, or with record_shapes=True");
  return tables;
}

}  // namespace stepcast
