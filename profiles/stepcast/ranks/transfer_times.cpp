// Transfer times: grouped by kind and size; then the transfer among the times of each size.
#include <stepcast/base/statistics.hpp>
#include <stepcast/ranks/transfer_times.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
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

/// A transfer of one rank, without waiting for others.
struct Sent {
  RunTransfers::Kind kind;
  double bytes = 0;  ///< 0: not known
  std::int64_t start_ns = 0, end_ns = 0;
};

/// What each of them took of links that they share with those in flight beside them: of a moment in which three are, a
/// third. `sent` lie at the same place, in the order of their starts.
std::vector<double> own_seconds(std::span<const Sent> sent) {
  std::vector<double> own(sent.size(), 0);
  std::vector<std::size_t> flying;
  std::int64_t now = 0;
  const auto advance = [&](std::int64_t to) {
    while (!flying.empty()) {
      const auto first = std::ranges::min_element(flying, {}, [&](std::size_t i) { return sent[i].end_ns; });
      const std::int64_t until = std::min(to, sent[*first].end_ns);
      for (const std::size_t i : flying) own[i] += static_cast<double>(until - now) * 1e-9 / double(flying.size());
      now = until;
      if (sent[*first].end_ns > to) return;
      flying.erase(first);
    }
  };
  for (std::size_t i = 0; i < sent.size(); ++i) {
    advance(sent[i].start_ns);
    now = sent[i].start_ns;
    flying.push_back(i);
  }
  advance(std::numeric_limits<std::int64_t>::max());
  return own;
}

bool is_sized(const TracedCollective& c) { return c.source != BytesSource::unknown && c.size > Bytes(0) && c.whole; }

}  // namespace

std::int64_t per_machine_of(const Trace& trace, const TracedCollective& c, std::int64_t world) {
  const std::int64_t workers = c.group_size > 0 ? c.group_size : world;
  const std::int64_t devices = trace.machine_devices;
  if (devices < 2 || world < workers) return -1;  // a process that sees one device tells nothing of its machine
  if (world <= devices) return workers;
  if (workers == world) return world % devices == 0 ? devices : -1;
  if (c.arguments == nullptr) return -1;
  const std::string_view name = trace.text(c.arguments->group);
  const auto group = std::ranges::find(trace.groups, name, &ProcessGroup::name);
  if (group == trace.groups.end() || std::ssize(group->ranks) != workers) return -1;
  std::map<std::int64_t, std::int64_t> on_machine;
  for (const std::int64_t rank : group->ranks) ++on_machine[rank / devices];
  const std::int64_t first = on_machine.begin()->second;
  const bool even = std::ranges::all_of(on_machine, [&](const auto& machine) { return machine.second == first; });
  return even ? first : -1;
}

void RunTransfers::add(const TraceIndex& index, std::int64_t world,
                       const std::unordered_map<std::uint32_t, Seconds>* waiting) {
  // By where they lie and who sends them: these share links.
  std::map<std::tuple<std::int64_t, std::int64_t, std::string>, std::vector<Sent>> by_place;
  for (const TracedCollective& c : collectives_of(index)) {
    const std::string_view table = table_name_of(c.operation);
    const std::int64_t workers = c.group_size > 0 ? c.group_size : world;
    if (table.empty() || workers < 2 || !is_sized(c)) continue;
    Seconds waited;
    if (waiting != nullptr) {
      const auto found = waiting->find(c.event);
      if (found == waiting->end()) continue;  // nobody else was seen in it
      waited = found->second;
    }
    const Event& e = index.trace.events[c.event];
    const std::int64_t start = e.end_ns() - std::llround((c.duration - waited).value() * 1e9);
    if (start >= e.end_ns()) continue;
    const std::int64_t per_machine = per_machine_of(index.trace, c, world);
    const Kind kind{std::string(table), workers, per_machine, std::string(library_of(index, c))};
    by_place[{workers, per_machine, std::get<3>(kind)}].push_back({kind, c.size.value(), start, e.end_ns()});
  }
  for (auto& [place, sent] : by_place) {
    std::ranges::stable_sort(sent, {}, &Sent::start_ns);
    const std::vector<double> own = own_seconds(sent);
    for (std::size_t i = 0; i < sent.size(); ++i)
      if (own[i] > 0) seconds_[sent[i].kind][sent[i].bytes].push_back(own[i]);
  }
}

void RunTransfers::add_alone(const TraceIndex& index) { add(index, index.trace.world_size, nullptr); }

void RunTransfers::add(const TraceIndex& index, const RunOfRanks& run, std::size_t rank) {
  together_ = true;
  const std::unordered_map<std::uint32_t, Seconds> waiting = run.waiting_of(rank);
  add(index, std::max(run.world_size, std::ssize(run.ranks)), &waiting);
}

std::vector<TransferTimes> transfer_times_of(std::span<const Trace> ranks) {
  RunTransfers transfers;
  if (ranks.size() == 1) transfers.add_alone(TraceIndex(ranks.front()));
  if (ranks.size() < 2) return transfers.times();
  const RunOfRanks run = run_of(ranks);
  if (!run.cautions.empty()) return {};
  for (std::size_t r = 0; r < ranks.size(); ++r) transfers.add(TraceIndex(ranks[r]), run, r);
  return transfers.times();
}

std::vector<TransferTimes> RunTransfers::times() const {
  std::vector<TransferTimes> all;
  for (const auto& [kind, by_size] : seconds_) {
    TransferTimes t{std::get<0>(kind), std::get<1>(kind), std::get<2>(kind), {}, {}, std::get<3>(kind)};
    for (const auto& [bytes, seconds] : by_size) {
      t.sizes.emplace_back(bytes);
      t.times.emplace_back(together_ ? median(seconds) : *std::ranges::min_element(seconds));
    }
    for (std::size_t i = t.times.size(); i-- > 1;) t.times[i - 1] = std::min(t.times[i - 1], t.times[i]);
    all.push_back(std::move(t));
  }
  return all;
}

}  // namespace stepcast
