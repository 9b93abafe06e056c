// Events go to ranks by tags or by processes; tracks and ids are made anew for each.
#include <stepcast/base/error.hpp>
#include <stepcast/formats/kineto/kineto_ranks.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace stepcast {
namespace {

/// What all ranks share: everything but the events and what refers to them. Those are never copied as a whole, which
/// would take the memory of the file for each rank.
Trace common_of(Trace& whole, std::size_t ranks) {
  constexpr std::size_t most_ranks = 4096;  // each gets a trace, for which all events are looked at
  if (ranks > most_ranks)
    throw InputError(whole.source, "at most " + std::to_string(most_ranks) + " ranks in one file",
                     std::to_string(ranks), "give the file of each rank by itself");
  Trace apart;
  const auto exchange = [&](auto... lists) { (std::swap(whole.*lists, apart.*lists), ...); };
  const auto exchange_all = [&] {
    exchange(&Trace::events, &Trace::tracks, &Trace::collectives, &Trace::forward_backward, &Trace::dependencies,
             &Trace::allocations);
  };
  exchange_all();
  Trace common = whole;
  exchange_all();
  return common;
}

/// The events of `whole` that `parts` gives to `part`, with their tracks.
Trace part_of(const Trace& whole, const Trace& common, std::span<const std::int64_t> parts, std::int64_t part) {
  Trace out = common;
  std::vector<std::uint32_t> track(whole.tracks.size(), no_index), place(whole.events.size(), no_index);
  std::vector<bool> used(whole.tracks.size(), false);
  for (std::size_t i = 0; i < whole.events.size(); ++i)
    if (parts[i] == part) used[whole.events[i].track] = true;
  for (std::size_t i = 0; i < whole.tracks.size(); ++i) {
    if (!used[i]) continue;
    track[i] = static_cast<std::uint32_t>(out.tracks.size());
    out.tracks.push_back(whole.tracks[i]);
  }
  for (std::size_t i = 0; i < whole.events.size(); ++i) {
    if (parts[i] != part) continue;
    Event event = whole.events[i];
    place[i] = static_cast<std::uint32_t>(out.events.size());
    event.track = track[event.track];
    if (event.collective != no_index) {
      out.collectives.push_back(whole.collectives[event.collective]);
      event.collective = static_cast<std::uint32_t>(out.collectives.size() - 1);
    }
    out.events.push_back(event);
  }
  for (const ForwardBackwardLink& link : whole.forward_backward)
    if (place[link.forward] != no_index && place[link.backward] != no_index)
      out.forward_backward.push_back({place[link.forward], place[link.backward]});
  return out;
}

bool is_step(const Trace& trace, const Event& event) {
  return event.kind == EventKind::annotation && trace.text(event.name).starts_with("ProfilerStep#");
}

/// The host process of each event, found by correlation ids for those of devices; -1: nobody's.
class Processes {
 public:
  explicit Processes(const Trace& trace) : trace_(trace) {
    std::set<std::int64_t> with_work;
    std::map<std::pair<std::int64_t, StringId>, std::int64_t> starts;  // of steps
    bool repeats_steps = false;
    for (const Event& event : trace.events) {
      const Track& track = trace.tracks[event.track];
      has_device_work_ = has_device_work_ || is_device_work(event.kind);
      if (track.on_device) continue;
      if (is_step(trace, event)) {
        with_steps_.insert(track.process);
        const auto [step, is_new] = starts.try_emplace({track.process, event.name}, event.start_ns);
        repeats_steps = repeats_steps || (!is_new && step->second != event.start_ns);
      }
      if (event.kind == EventKind::host_op) with_work.insert(track.process);
    }
    with_work.insert(with_steps_.begin(), with_steps_.end());
    // A device's own record of its calls is no second process. In containers all ranks may have one and the same
    // number.
    if (with_work.size() < 2 && !repeats_steps) return;
    for (const Event& event : trace.events) {
      const Track& track = trace.tracks[event.track];
      if (event.kind != EventKind::runtime_call || event.correlation < 0 || !with_work.contains(track.process))
        continue;
      const auto [entry, is_new] = caller_.emplace(event.correlation, track.process);
      shared_ += !is_new && (repeats_steps || entry->second != track.process);
    }
  }
  [[nodiscard]] const std::set<std::int64_t>& with_steps() const { return with_steps_; }
  /// More than a stray id belongs to two processes.
  [[nodiscard]] bool reuse_ids() const { return has_device_work_ && shared_ >= 8 && shared_ * 100 >= caller_.size(); }

  [[nodiscard]] std::vector<std::int64_t> of_events() const {
    std::vector<std::map<std::int64_t, std::size_t>> votes(trace_.tracks.size());
    std::vector<std::int64_t> owners(trace_.events.size(), -1);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      const Event& event = trace_.events[i];
      const Track& track = trace_.tracks[event.track];
      if (!track.on_device) owners[i] = track.process;
      else if (const auto found = caller_.find(event.correlation); event.correlation >= 0 && found != caller_.end())
        ++votes[event.track][owners[i] = found->second];
    }
    // What no call is known of belongs to whom most of its stream does.
    for (std::size_t i = 0; i < owners.size(); ++i) {
      const auto& on_track = votes[trace_.events[i].track];
      if (owners[i] >= 0 || on_track.empty()) continue;
      owners[i] = std::ranges::max_element(on_track, {}, &std::pair<const std::int64_t, std::size_t>::second)->first;
    }
    return owners;
  }

 private:
  const Trace& trace_;
  std::set<std::int64_t> with_steps_;
  std::unordered_map<std::int64_t, std::int64_t> caller_;  ///< process by correlation
  std::size_t shared_ = 0;
  bool has_device_work_ = false;
};

std::vector<Trace> by_tags(Trace& whole, std::span<const std::int64_t> ranks, std::span<const SyncRecord> syncs) {
  const std::set<std::int64_t> all(ranks.begin(), ranks.end());
  const Trace common = common_of(whole, all.size());
  std::vector<std::int64_t> rank_of_event(whole.events.size());
  std::ranges::transform(whole.events, rank_of_event.begin(), [&](const Event& e) { return ranks[e.track]; });
  std::vector<Trace> out;
  for (const std::int64_t rank : all) {
    if (rank < 0) continue;
    Trace part = part_of(whole, common, rank_of_event, rank);
    if (part.events.empty()) continue;
    std::vector<SyncRecord> own;
    std::ranges::copy_if(syncs, std::back_inserter(own), [rank](const SyncRecord& s) { return s.rank == rank; });
    part.rank = rank;
    part.dependencies = dependencies_of(part, own);
    out.push_back(std::move(part));
  }
  const auto untold = std::ranges::count_if(whole.events, [&](const Event& e) { return ranks[e.track] < 0; });
  for (Trace& part : out) {
    if (all.size() > 1)
      part.report.assumed.push_back("one of " + std::to_string(out.size()) +
                                    " ranks in the file; what is counted here is of the whole file");
    if (untold > 0)
      part.report.repaired.push_back(std::to_string(untold) + " events dropped: of no rank, in a file of several");
  }
  return out;
}

/// Where only a few events have an argument "rank", it is the user's: what it set apart goes back onto its thread.
void join_tracks(Trace& trace) {
  std::map<std::tuple<std::int64_t, std::int64_t, bool, StringId>, std::uint32_t> places;
  std::vector<Track> tracks;
  std::vector<std::uint32_t> joined;
  for (const Track& track : trace.tracks) {
    const bool by_text = track.process < 0 || track.thread < 0;
    const auto place = places.try_emplace({track.process, track.thread, track.on_device, by_text ? track.label : 0},
                                          static_cast<std::uint32_t>(tracks.size()));
    if (place.second) tracks.push_back(track);
    joined.push_back(place.first->second);
  }
  for (Event& event : trace.events) event.track = joined[event.track];
  trace.tracks = std::move(tracks);
}

std::vector<Trace> by_processes(Trace& whole, const Processes& processes, std::span<const SyncRecord> syncs) {
  const std::vector<std::int64_t> owners = processes.of_events();
  const Trace common = common_of(whole, processes.with_steps().size());
  std::vector<Trace> out;
  for (const std::int64_t process : processes.with_steps()) {
    Trace part = part_of(whole, common, owners, process);
    part.rank = -1;
    part.dependencies = dependencies_of(part, syncs);
    part.report.assumed.push_back("process " + std::to_string(process) + ", one of " +
                                  std::to_string(processes.with_steps().size()) +
                                  " with steps of their own in the file, is a rank; which one is not said");
    out.push_back(std::move(part));
  }
  return out;
}

}  // namespace

std::vector<Trace> traces_by_rank(Trace whole, std::span<const std::int64_t> rank_of_track,
                                  std::span<const SyncRecord> syncs) {
  const auto tagged = std::ranges::count_if(whole.events, [&](const Event& e) { return rank_of_track[e.track] >= 0; });
  if (tagged > 0 && 2 * tagged >= std::ssize(whole.events)) return by_tags(whole, rank_of_track, syncs);
  if (tagged > 0) join_tracks(whole);
  const Processes processes(whole);
  if (processes.reuse_ids())
    throw InputError(whole.source, "the events of one process, or of ranks that are told apart (args.rank)",
                     "several ones that reuse correlation ids: whose the device work is cannot be told",
                     "give the file of each rank by itself");
  if (processes.with_steps().size() > 1) return by_processes(whole, processes, syncs);
  std::vector<Trace> one;
  one.push_back(std::move(whole));
  return one;
}

}  // namespace stepcast
