// Matched collectives of the calibration steps, less those to which ranks come crosswise.
#include <stepcast/baseline/recorded_meetings.hpp>
#include <stepcast/ranks/ranks.hpp>
#include <stepcast/schedule/lockstep.hpp>

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

namespace stepcast {
namespace {

/// Which of some places to keep so that those that are kept increase, as many as possible; those without one are kept.
std::vector<bool> kept_increasing(std::span<const std::uint32_t> places) {
  std::vector<std::uint32_t> before(places.size(), no_index), tails;  // of the best chain of each length, the last one
  for (std::uint32_t i = 0; i < places.size(); ++i) {
    if (places[i] == no_index) continue;
    const auto place = [&](std::uint32_t tail) { return places[tail]; };
    const auto at = std::ranges::lower_bound(tails, places[i], {}, place);
    if (at != tails.begin()) before[i] = *(at - 1);
    if (at == tails.end()) tails.push_back(i);
    else *at = i;
  }
  std::vector<bool> keeps(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) keeps[i] = places[i] == no_index;
  for (std::uint32_t i = tails.empty() ? no_index : tails.back(); i != no_index; i = before[i]) keeps[i] = true;
  return keeps;
}

}  // namespace

std::vector<std::uint32_t> meetings_of(const RecordedRank& rank, const std::vector<GradientMessage>* messages) {
  std::vector<std::uint32_t> of_collective;
  std::uint32_t next = 0;  // behind those of collectives
  for (const RecordedCollective& c : rank.collectives) of_collective.push_back(c.meeting);
  for (const std::uint32_t meeting : of_collective)
    if (meeting != no_meeting) next = std::max(next, meeting + 1);
  if (messages != nullptr)
    for (const GradientExchange::Recorded& r : rank.exchange->recorded) of_collective[r.collective] = no_meeting;
  std::vector<std::uint32_t> meetings;
  for (const RecordedRank::Part& part : rank.parts)
    meetings.push_back(std::exchange(of_collective[part.collective], no_meeting));
  if (!rank.exchange) return meetings;
  const std::size_t gates = meetings.size() + rank.exchange->hosts.size();
  meetings.resize(meetings.size() + rank.exchange->free_tasks(), no_meeting);
  if (messages != nullptr)
    for (const GradientMessage& m : *messages) meetings[gates + 3 * m.last + 1] = next + m.last;
  return meetings;
}

void let_meet(RecordedJob& job, const RunOfRanks& run) {
  std::vector<std::unordered_map<std::uint32_t, std::uint32_t>> shown(job.ranks.size());  // collectives by event
  for (std::size_t r = 0; r < job.ranks.size(); ++r)
    for (std::uint32_t c = 0; c < job.ranks[r].collectives.size(); ++c)
      shown[r].emplace(job.ranks[r].collectives[c].event, c);
  std::vector<std::vector<std::uint32_t>> together;  // the collective of each rank, or no_index
  for (const MatchedCollective& matched : run.collectives) {
    if (!matched.synchronising) continue;
    std::vector<std::uint32_t> here(job.ranks.size(), no_index);
    std::size_t seen = 0, found = 0;
    for (std::size_t r = 0; r < job.ranks.size(); ++r) {
      if (matched.ranks[r].event == no_index) continue;
      ++seen;
      if (const auto c = shown[r].find(matched.ranks[r].event); c != shown[r].end()) here[r] = c->second, ++found;
    }
    if (found >= 2 && found == seen) together.push_back(std::move(here));  // else some were in another step
  }
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const RecordedRank& rank = job.ranks[r];
    std::vector<std::uint32_t> place(rank.collectives.size(), no_index), places;  // among the blocks, of the first part
    for (std::uint32_t b = static_cast<std::uint32_t>(rank.blocks.order.size()); b-- > 0;)
      if (const std::uint32_t part = rank.blocks.order[b]; part < rank.parts.size())
        place[rank.parts[part].collective] = b;
    for (const std::vector<std::uint32_t>& each : together)
      places.push_back(each[r] == no_index ? no_index : place[each[r]]);
    const std::vector<bool> keeps = kept_increasing(places);
    std::size_t next = 0;
    std::erase_if(together, [&](const auto&) { return !keeps[next++]; });
  }
  for (std::uint32_t meeting = 0; meeting < together.size(); ++meeting)
    for (std::size_t r = 0; r < job.ranks.size(); ++r)
      if (together[meeting][r] != no_index) job.ranks[r].collectives[together[meeting][r]].meeting = meeting;
  // With the recorded messages of gradients, and with one behind each gradient: fewer of them ask for less.
  std::vector<RankInStep> recorded, exchanged;
  for (const RecordedRank& rank : job.ranks) {
    std::vector<GradientMessage> each;
    for (std::uint32_t g = 0; rank.exchange && g < rank.exchange->sizes.size(); ++g) each.push_back({g, Bytes(0)});
    recorded.push_back({&rank.blocks, {}, meetings_of(rank, nullptr)});
    exchanged.push_back({&rank.blocks, {}, meetings_of(rank, rank.exchange ? &each : nullptr)});
    recorded.back().times.resize(recorded.back().meetings.size(), 0);
    exchanged.back().times = recorded.back().times;
  }
  job.in_lockstep = !together.empty() && can_meet(recorded) && can_meet(exchanged);
}

}  // namespace stepcast
