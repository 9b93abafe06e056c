// Reading collectives off a trace, rank numbers, keys.
#include <stepcast/anatomy/traced_collectives.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/ranks/shown.hpp>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace stepcast {
namespace {

/// "gloo:send 0->1": who sends to whom, when the arguments do not say.
void take_peers_from_name(std::string_view name, ShownCollective& c) {
  const std::size_t arrow = name.find("->");
  if (arrow == std::string_view::npos) return;
  const std::size_t from = name.find_last_not_of("0123456789", arrow - 1) + 1;
  std::from_chars(name.data() + from, name.data() + arrow, c.source_rank);
  std::from_chars(name.data() + arrow + 2, name.data() + name.size(), c.destination_rank);
}

ShownCollective shown(const TraceIndex& index, const TracedCollective& traced) {
  const Event& event = index.trace.events[traced.event];
  ShownCollective c;
  c.event = traced.event;
  c.start_ns = event.start_ns;
  c.end_ns = event.end_ns();
  c.issued_ns = traced.issued_ns;
  c.operation = traced.operation;
  c.kind = naming::collective_operation(index.trace.text(event.name));
  if (c.kind.empty()) c.kind = c.operation;
  c.size = traced.size;
  take_peers_from_name(index.trace.text(event.name), c);
  if (traced.arguments == nullptr) return c;
  c.group = index.trace.text(traced.arguments->group);
  // Groups of other ranks may have the same name.
  if (traced.arguments->ranks != 0) c.group += " " + std::string(index.trace.text(traced.arguments->ranks));
  c.sequence = traced.arguments->sequence;
  if (traced.arguments->source_rank >= 0) c.source_rank = traced.arguments->source_rank;
  if (traced.arguments->destination_rank >= 0) c.destination_rank = traced.arguments->destination_rank;
  return c;
}

ShownRank shown(const Trace& trace) {
  ShownRank out;
  out.rank.source = trace.source;
  out.rank.rank = out.rank.written = trace.rank;
  out.rank.steps = steps_of(trace);
  StepTimes times = step_times_of(trace, out.rank.steps);
  out.rank.durations = std::move(times.durations);
  out.rank.measured = std::move(times.measured);
  out.world_size = trace.world_size;
  const TraceIndex index(trace);
  for (const TracedCollective& traced : collectives_of(index)) out.collectives.push_back(shown(index, traced));
  std::ranges::stable_sort(out.collectives, {}, &ShownCollective::end_ns);
  out.rank.collectives = out.collectives.size();
  return out;
}

/// "worker3_step_12.json", "sampled_rank-0.json": the number after the last "rank" or "worker"; -1 without one.
std::int64_t rank_in_name(std::string name) {
  name = lower_case(name);
  name.erase(0, name.rfind('/') + 1);  // npos + 1 = 0
  for (const std::string_view word : {"rank", "worker"}) {
    std::size_t at = name.rfind(word);
    if (at == std::string::npos) continue;
    at += word.size();
    if (at < name.size() && (name[at] == '-' || name[at] == '_')) ++at;
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(name.data() + at, name.data() + name.size(), number);
    if (error == std::errc() && number >= 0) return number;
  }
  return -1;
}

/// Some source of rank numbers that gives each trace one of its own.
bool number_by(std::vector<ShownRank>& ranks, const std::vector<std::int64_t>& numbers) {
  const std::set<std::int64_t> different(numbers.begin(), numbers.end());
  if (different.size() < ranks.size() || different.contains(-1)) return false;
  for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r].rank.rank = numbers[r];
  return true;
}

void number_ranks(std::vector<ShownRank>& ranks, std::vector<std::string>& assumed) {
  std::vector<std::int64_t> written, named, given;
  for (const ShownRank& r : ranks) {
    written.push_back(r.rank.rank);
    named.push_back(rank_in_name(r.rank.source));
    given.push_back(std::ssize(given));
  }
  if (ranks.size() == 1 || number_by(ranks, written)) return;
  const bool said = std::ranges::any_of(written, [](std::int64_t n) { return n >= 0; });
  const std::string why = said ? "the traces do not tell one rank each" : "the traces do not tell their ranks";
  if (number_by(ranks, named)) assumed.push_back(why + ": ranks are numbered by their file names");
  else if (number_by(ranks, given)) assumed.push_back(why + ": ranks are numbered in the order given");
}

/// In these a rank may leave before others have come; sends and receives are of two ranks only.
bool synchronises(std::string_view operation) {
  for (const std::string_view free : {"broadcast", "reduce", "gather", "scatter", "send", "recv"})
    if (operation == free) return false;
  return true;
}

/// Sizes are the same on every rank for these; an all-to-all may be uneven.
bool equal_sizes(std::string_view operation) { return operation == "allreduce" || operation == "broadcast"; }

/// True when all ranks with collectives say `what` of most of them (of those that `of` selects).
template <class Of, class What>
bool everywhere(const std::vector<ShownRank>& ranks, Of of, What what) {
  for (const ShownRank& r : ranks) {
    const auto all = std::ranges::count_if(r.collectives, of);
    const auto with = std::ranges::count_if(r.collectives, [&](const auto& c) { return of(c) && what(c); });
    if (2 * with < all) return false;
  }
  return true;
}

bool is_peer_to_peer(const ShownCollective& c) {
  const bool operation = c.operation == "send" || c.operation == "recv" || c.operation == "sendrecv";
  return operation && c.source_rank >= 0 && c.destination_rank >= 0;
}

/// True when every collective that names a group has a sequence number too.
bool numbered(const std::vector<ShownRank>& ranks) {
  bool any = false;
  for (const ShownRank& r : ranks)
    for (const ShownCollective& c : r.collectives) {
      if (!c.group.empty() && c.sequence < 0) return false;
      any |= c.sequence >= 0;
    }
  return any;
}

}  // namespace

std::vector<ShownRank> shown_ranks(std::span<const Trace> traces, std::vector<std::string>& assumed) {
  std::vector<ShownRank> ranks;
  for (const Trace& trace : traces) ranks.push_back(shown(trace));
  number_ranks(ranks, assumed);
  return ranks;
}

Keys keys_of(const std::vector<ShownRank>& ranks, bool detailed) {
  const auto any = [](const ShownCollective&) { return true; };
  const bool groups = everywhere(ranks, any, [](const ShownCollective& c) { return !c.group.empty(); });
  const bool sequences = detailed && numbered(ranks);
  const bool sizes = detailed && everywhere(
                                     ranks, [](const ShownCollective& c) { return equal_sizes(c.operation); },
                                     [](const ShownCollective& c) { return c.size > Bytes(0); });
  Keys keys;
  std::unordered_map<std::string, std::uint32_t> known;
  for (const ShownRank& r : ranks) {
    std::vector<std::uint32_t>& of = keys.of.emplace_back();
    for (const ShownCollective& c : r.collectives) {
      const bool peers = is_peer_to_peer(c);
      std::string key =
          peers ? "from " + std::to_string(c.source_rank) + " to " + std::to_string(c.destination_rank) : c.operation;
      if (groups) key += "|" + c.group;
      if (sequences && c.sequence >= 0) key += "#" + std::to_string(c.sequence);
      if (sizes && equal_sizes(c.operation)) key += "*" + std::to_string(std::int64_t(c.size.value()));
      const auto [at, added] = known.try_emplace(std::move(key), std::uint32_t(known.size()));
      if (added) keys.synchronising.push_back(true);
      if (peers || !synchronises(c.operation)) keys.synchronising[at->second] = false;
      of.push_back(at->second);
    }
  }
  return keys;
}

}  // namespace stepcast
