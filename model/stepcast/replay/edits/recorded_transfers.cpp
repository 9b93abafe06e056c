// The least time of every kind of collective, and of its small messages.
#include <stepcast/replay/edits/recorded_transfers.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace stepcast {
namespace {

/// Messages of up to so many bytes are start-up, unless they take longer than any start-up: then they wait for others.
constexpr Bytes small(65536);
constexpr double longest_start_up_s = 1e-3;

/// Operation and group; then the bytes, or where they are not known the number of the call in its step.
using Group = std::tuple<std::string, std::int64_t>;
using Key = std::tuple<Group, bool, double>;

struct Sorted {
  std::vector<Key> keys;  ///< one for each collective
  std::map<Key, double> least;
  std::map<Group, double> start_up;
};

Sorted sorted(const std::vector<TracedCollective>& collectives, std::span<const Step> steps) {
  Sorted out;
  std::map<Group, double> calls;
  std::size_t step = 0;
  for (const TracedCollective& c : collectives) {
    for (; step < steps.size() && c.start_ns >= steps[step].end_ns; ++step) calls.clear();
    const Group group{c.operation, c.group_size};
    const double call = calls[group]++;
    const bool sized = c.size > Bytes(0);
    const Key& key = out.keys.emplace_back(group, sized, sized ? c.size.value() : call);
    const double seconds = c.duration.value();
    const auto [entry, is_new] = out.least.try_emplace(key, seconds);
    if (!is_new) entry->second = std::min(entry->second, seconds);
    if (!sized || c.size > small) continue;
    const auto [fastest, first] = out.start_up.try_emplace(group, seconds);
    if (!first) fastest->second = std::min(fastest->second, seconds);
  }
  return out;
}

}  // namespace

RecordedTransfers::RecordedTransfers(const TraceIndex& index, std::span<const Step> steps) {
  const std::vector<TracedCollective> collectives = collectives_of(index);
  const Sorted by_kind = sorted(collectives, steps);
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    const TracedCollective& c = collectives[i];
    if (!(c.duration > Seconds(0))) continue;
    const auto start_up = by_kind.start_up.find(std::get<0>(by_kind.keys[i]));
    const double least = by_kind.least.at(by_kind.keys[i]);
    const double first_byte = start_up == by_kind.start_up.end() ? 0 : std::min(start_up->second, longest_start_up_s);
    transfers_[c.event] = {c.operation, c.size,         c.group_size,
                           c.duration,  Seconds(least), Seconds(std::max(0.0, least - first_byte))};
  }
}

const RecordedTransfer* RecordedTransfers::of(std::uint32_t event) const {
  const auto transfer = transfers_.find(event);
  return transfer == transfers_.end() ? nullptr : &transfer->second;
}

std::optional<double> RecordedTransfers::left(std::uint32_t event, double by) const {
  const RecordedTransfer* transfer = of(event);
  if (transfer == nullptr) return std::nullopt;
  return 1 - transfer->sent / transfer->duration * (1 - 1 / by);
}

}  // namespace stepcast
