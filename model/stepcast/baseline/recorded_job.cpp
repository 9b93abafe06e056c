// Every collective of the recorded step is a free task of its blocks, and is priced on the cluster.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/recorded_job.hpp>
#include <stepcast/baseline/recorded_meetings.hpp>
#include <stepcast/baseline/recorded_prices.hpp>
#include <stepcast/baseline/recorded_step.hpp>
#include <stepcast/cluster/carried.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/prediction/alike.hpp>
#include <stepcast/ranks/ranks.hpp>
#include <stepcast/ranks/transfer_times.hpp>
#include <stepcast/replay/calibration.hpp>
#include <stepcast/schedule/lockstep.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace stepcast {
namespace {

/// A step moves by what it is predicted to move, more or less this share of it (one standard deviation): links, groups
/// and waiting are known less well than the step that was recorded. Of 12 changes of rate of the laboratory's tensor
/// parallel and divided embeddings 80 % came within 0.7 of the predicted change.
constexpr double residual_of_change = 0.5;

/// Those of the parts of collectives.
std::vector<Picoseconds> times_of(const RecordedRank& rank, std::span<const double> factors) {
  std::vector<Picoseconds> times;
  times.reserve(rank.parts.size() + (rank.exchange ? rank.exchange->free_tasks() : 0));
  for (const RecordedRank::Part& part : rank.parts)
    times.push_back(std::llround(static_cast<double>(part.recorded) * factors[part.collective]));
  return times;
}

/// What a rank sends: how many times as long as recorded its collectives take, and other messages of its gradients in
/// place of the recorded ones, if any.
struct Sending {
  const RecordedRank* rank = nullptr;
  std::vector<double> factors{};
  const std::vector<GradientMessage>* messages = nullptr;
  std::span<const Picoseconds> slowed{};  ///< GradientExchange::append_times
};
/// Ranks that run in lockstep, or one.
std::vector<RankInStep> ranks_of(std::span<const Sending> team) {
  std::vector<RankInStep> ranks;
  ranks.reserve(team.size());
  for (const Sending& s : team) {
    RankInStep& rank = ranks.emplace_back(RankInStep{&s.rank->blocks, times_of(*s.rank, s.factors)});
    if (s.messages != nullptr) s.rank->exchange->append_times(*s.messages, rank.times, s.slowed);
    else if (s.rank->exchange) s.rank->exchange->append_recorded_times(rank.times);
    if (team.size() > 1) rank.meetings = meetings_of(*s.rank, s.messages);
  }
  return ranks;
}
Seconds step_of(std::span<const RankInStep> ranks) {
  return seconds_of(ranks.size() > 1 ? period_in_lockstep(ranks) : ranks.front().blocks->period(ranks.front().times));
}
Seconds step_of(std::span<const Sending> team) { return step_of(ranks_of(team)); }

/// Ranks on a cluster: all that run in lockstep, or one.
struct Moved {
  Seconds step, without;  ///< with their collectives, and if they took no time
  Seconds sent;           ///< all of those of the rank that sends most
  std::size_t messages = 0;
  std::vector<RankInStep> ranks{};  ///< whose step that is
};
constexpr Seconds longest_sending(1e4);

/// What the collectives that stay take on the cluster; those that are exchanged take nothing.
struct Staying {
  std::vector<double> factors;  ///< on the recorded durations
  Seconds sent;
  std::size_t messages = 0;
};
Staying staying(const RecordedRank& rank, bool exchanges, RecordedPrices& prices) {
  std::vector<bool> is_exchanged(rank.collectives.size(), false);
  if (exchanges)
    for (const GradientExchange::Recorded& r : rank.exchange->recorded) is_exchanged[r.collective] = true;
  Staying out;
  out.factors.reserve(rank.collectives.size());
  for (std::size_t i = 0; i < rank.collectives.size(); ++i) {
    const RecordedCollective& c = rank.collectives[i];
    const Seconds time = is_exchanged[i] ? Seconds(0) : prices.time_of(c);
    out.factors.push_back(time / c.duration);
    out.sent += time;
    if (!is_exchanged[i]) ++out.messages;
  }
  return out;
}

/// The ranks of a job that are looked at together, and what each of them finds there.
struct Team {
  const RecordedJob& job;
  std::span<const RecordedRank> ranks;
  std::vector<RecordedPrices> prices;
};

/// Inapplicable where picoseconds do not fit into 64 bits.
Answer<Moved> moved(Team& team) {
  Moved out;
  std::vector<Sending> sending, nothing;
  for (std::size_t r = 0; r < team.ranks.size(); ++r) {
    Staying all = staying(team.ranks[r], false, team.prices[r]);
    if (!(all.sent < longest_sending)) return Inapplicable{"a step of it could take hours"};
    out.sent = std::max(out.sent, all.sent), out.messages = std::max(out.messages, all.messages);
    nothing.push_back({&team.ranks[r], std::vector<double>(all.factors.size(), 0)});
    sending.push_back({&team.ranks[r], std::move(all.factors)});
  }
  out.ranks = ranks_of(sending);
  out.step = step_of(out.ranks), out.without = step_of(nothing);
  return out;
}

/// The recorded messages of a rank's gradients are sent as they were, or not at all.
std::vector<double> recorded_factors(const RecordedJob& job, const RecordedRank& rank, bool with_messages) {
  std::vector<double> factors;
  for (const RecordedCollective& c : rank.collectives) factors.push_back((c.duration - job.told_by(c)) / c.duration);
  if (!with_messages)
    for (const GradientExchange::Recorded& r : rank.exchange->recorded) factors[r.collective] = 0;
  return factors;
}

/// The same with other messages of gradients, for which others are as late as for the recorded one behind them, where
/// the ranks do not tell that themselves. Compute and messages slow one another down where they run side by side
/// (Contention), as far as they did not do so in the trace. Inapplicable, too, where nobody knows what a message costs.
Answer<Moved> moved(Team& team, std::vector<std::vector<GradientMessage>> messages, RecordedPrices& prices_of_messages,
                    const Contention& contention) {
  Moved out;
  Seconds recorded, sent;  // of messages, by the rank that sends most
  std::vector<Sending> sending, silent, as_recorded, without_recorded, nothing;
  std::vector<std::vector<GradientMessage>> empty;
  for (std::size_t r = 0; r < team.ranks.size(); ++r) {
    const RecordedRank& rank = team.ranks[r];
    RecordedPrices& prices = team.prices[r];
    const GradientExchange& exchange = *rank.exchange;
    Staying others = staying(rank, true, prices);
    Seconds its_recorded, its_sent;
    for (const GradientExchange::Recorded& x : exchange.recorded)
      its_recorded += rank.collectives[x.collective].duration - rank.collectives[x.collective].late;
    RecordedCollective all_reduce = rank.collectives[exchange.recorded.front().collective];
    auto behind = exchange.recorded.begin();
    for (GradientMessage& m : messages[r]) {
      all_reduce.size = m.size;
      const std::optional<Seconds> price = prices_of_messages.of(all_reduce);
      if (!price) return Inapplicable{"a message of its gradients: " + prices_of_messages.kept.begin()->first};
      while (behind + 1 != exchange.recorded.end() && behind->last < m.last) ++behind;
      const RecordedCollective& one = rank.collectives[behind->collective];
      if (!prices.alone()) m.late = picoseconds_of(std::min(longest_sending, one.late - team.job.told_by(one)));
      m.time = picoseconds_of(std::min(longest_sending, *price));
      its_sent += *price;
    }
    if (!(others.sent + its_sent < longest_sending)) return Inapplicable{"a step of it could take hours"};
    out.sent = std::max(out.sent, others.sent + its_sent);
    out.messages = std::max(out.messages, others.messages + messages[r].size());
    recorded = std::max(recorded, its_recorded), sent = std::max(sent, its_sent);
    empty.push_back(messages[r]);
    for (GradientMessage& m : empty.back()) m.late = m.time = 0;
    as_recorded.push_back({&rank, recorded_factors(team.job, rank, true)});
    without_recorded.push_back({&rank, recorded_factors(team.job, rank, false)});
    nothing.push_back({&rank, std::vector<double>(others.factors.size(), 0)});
    silent.push_back({&rank, others.factors});
    sending.push_back({&rank, std::move(others.factors)});
  }
  for (std::size_t r = 0; r < team.ranks.size(); ++r)
    sending[r].messages = &messages[r], silent[r].messages = nothing[r].messages = &empty[r];
  out.ranks = ranks_of(sending);
  out.step = step_of(out.ranks);
  const double network = contention.network_under_compute, compute = contention.compute_under_communication;
  if (sent > Seconds(0) && (network != 1 || compute != 1)) {
    const auto hidden = [](Seconds all, Seconds step, Seconds without) {
      return std::clamp(all - (step - without), Seconds(0), all);
    };
    const Seconds before = hidden(recorded, step_of(as_recorded), step_of(without_recorded));
    const double beside = hidden(sent, out.step, step_of(silent)) / sent;
    // Beside a message run the hooks behind it; what was beside recorded messages may have been anywhere.
    const double more = (beside - before / sent) * (1 - 1 / compute);
    std::vector<std::vector<Picoseconds>> slowed;
    for (std::size_t r = 0; r < team.ranks.size(); ++r) {
      std::vector<Picoseconds>& each = slowed.emplace_back(team.ranks[r].exchange->sizes.size(), 0);
      for (GradientMessage& m : messages[r]) {
        m.time = std::llround(static_cast<double>(m.time) * (1 + beside * (network - 1)));
        const Picoseconds time = std::llround(static_cast<double>(m.time) * more);
        if (more > 0) each[std::min<std::size_t>(m.last + 1, each.size() - 1)] += time;
        else
          for (Picoseconds& one : each) one += time / std::ssize(each);
      }
    }
    for (std::size_t r = 0; r < team.ranks.size(); ++r) sending[r].slowed = slowed[r];
    out.ranks = ranks_of(sending);
    out.step = step_of(out.ranks);
  }
  out.without = step_of(nothing);
  return out;
}

/// The calibration step as it was recorded.
Seconds calibration_step(const RecordedJob& job) {
  std::vector<std::vector<double>> factors;
  for (const RecordedRank& rank : job.ranks) factors.push_back(recorded_factors(job, rank, true));
  return job.step(factors);
}

/// The links inside a machine, where it holds the traced job and they contradict what its collectives took there.
std::string doubt_about_links(const RecordedJob& job, const Cluster& cluster) {
  if (job.workers > cluster.devices_per_node || job.workers < 2) return {};
  if (!told_of(cluster, "inside: ").empty()) return {};  // they are the trace's own, or said to be assumed
  const Answer<Cluster> there = resized(cluster, job.workers);
  if (!there) return {};
  RecordedPrices prices(*there, job);
  Seconds recorded, priced;
  for (const RecordedCollective& c : job.ranks.front().collectives)
    if (const std::optional<Seconds> price = prices.of(c))
      recorded += prices.here_of(c).value_or(c.least), priced += *price;
  constexpr double far_off = 1.5;  // beyond what settings of one and the same link change; decides on a note alone
  if (!(recorded > Seconds(0)) || (priced < far_off * recorded && recorded < far_off * priced)) return {};
  return "in the trace its collectives took " + text_of(recorded) + " a step on " + counted(job.workers, "worker") +
         ", over the links that the cluster has inside a machine (" + text_of(cluster.inside.bandwidth) +
         ") they would take " + text_of(priced) + ": --inside or --cluster says which links these are";
}

void add_notes(const RecordedJob& job, const Cluster& cluster, const RecordedPrices& prices, Prediction& out) {
  out.warnings.push_back("the job as it was recorded on " + counted(job.workers, "worker") + ", " +
                         text_of(job.step()) +
                         " a step there as rebuilt: only the time of its collectives is that of the cluster");
  for (const auto& [why, count] : prices.kept)
    out.warnings.push_back(counted(count, "of its collectives takes", "of its collectives take") +
                           " as long as recorded: " + why);
  if (const std::string doubt = doubt_about_links(job, cluster); !doubt.empty()) out.warnings.push_back(doubt);
  if (prices.beyond > Seconds(0))
    out.warnings.push_back("what its collectives took beyond the links that the trace shows stays, " +
                           text_of(prices.beyond) + " a step: the trace of one rank does not tell who was late");
  if (prices.neighbours > 0)
    out.warnings.push_back(
        counted(prices.neighbours, "of its collectives is", "of its collectives are") +
        " among some of the workers, which are taken to be neighbours, within a machine if they fit");
  if (relative_error_of(cluster) == 0 && cluster.workers() > 1)
    out.warnings.push_back("cluster '" + cluster.name +
                           "' has no fitted error: the interval does not include that of its links");
  if (std::string missing = missing_log_text(cluster); !missing.empty()) out.warnings.push_back(std::move(missing));
}

/// Slow workers, jitter and time-outs change the compute that a recorded step holds as it was.
bool is_irregular(const Cluster& cluster) {
  const auto computes_slower = [](const SlowWorkers& w) { return w.compute_factor != 1 || w.delay > Seconds(0); };
  return cluster.stragglers.jitter.distribution != Jitter::Distribution::none || cluster.transport.stalls > 0 ||
         std::ranges::any_of(cluster.stragglers.slow, computes_slower);
}

/// The recorded messages of a rank's gradients.
std::vector<GradientMessage> own_messages(const RecordedRank& rank) {
  std::vector<GradientMessage> messages;
  std::uint32_t first = 0;
  for (const GradientExchange::Recorded& r : rank.exchange->recorded) {
    Bytes carried;
    for (; first <= r.last; ++first) carried += rank.exchange->sizes[first];
    const Bytes sent = rank.collectives[r.collective].size;
    messages.push_back({r.last, sent > Bytes(0) ? sent : carried});
  }
  return messages;
}

/// The slowest rank decides, or all of them in lockstep. `move` is a function from a team to what it takes;
/// `may_keep_all`: collectives of which nothing is known there stay as they were, even if these are all.
template <class Move>
Answer<Prediction> slowest_on(const RecordedJob& job, const Cluster& cluster, PlanSpec plan, bool may_keep_all,
                              const Move& move) {
  const Answer<CommunicationCost> whole = communication_cost(cluster);
  if (!whole) return Inapplicable{whole.reason()};
  if (is_irregular(cluster))
    return Inapplicable{"slow workers, jitter and time-outs change the compute, which a recorded step holds as it was"};
  std::optional<Moved> slowest;
  std::optional<RecordedPrices> its_prices;
  const std::span<const RecordedRank> ranks = job.ranks;
  const std::size_t together = job.in_lockstep ? ranks.size() : 1;
  for (std::size_t first = 0; first < ranks.size(); first += together) {
    Team team{job, ranks.subspan(first, together), std::vector<RecordedPrices>(together, RecordedPrices(cluster, job))};
    const Answer<Moved> here = move(team);
    if (!here) return Inapplicable{here.reason()};
    for (std::size_t r = 0; r < together && !may_keep_all; ++r)
      if (team.prices[r].count_of_kept() == std::ssize(team.ranks[r].collectives))
        return Inapplicable{"nothing is known of its collectives there: " + team.prices[r].kept.begin()->first};
    if (slowest && here->step <= slowest->step) continue;
    slowest = *here;
    its_prices.emplace(std::move(team.prices.front()));
  }
  Prediction out;
  out.plan = std::move(plan);
  const Seconds more = job.step() - calibration_step(job);
  out.iteration = std::max(Seconds(0), slowest->step + more);
  out.breakdown.compute = std::max(Seconds(0), slowest->without + more);
  out.breakdown.exposed_communication = out.iteration - out.breakdown.compute;
  out.breakdown.hidden_communication = std::max(Seconds(0), slowest->sent - out.breakdown.exposed_communication);
  const double exposed = out.breakdown.exposed_communication.value(), all = out.iteration.value();
  const double of_links = relative_error_of(cluster) * exposed;
  const double of_change = residual_of_change * std::abs((out.iteration - job.step()).value());
  const double of_model = std::hypot(residual_of_model, job.replay_error) * all;
  const LinksMargin links = margin_of_links(cluster, exposed);
  const auto half = [&](double from_links) {
    return Seconds(std::hypot(from_links, normal_p90 * of_change, normal_p90 * of_model));
  };
  out.interval_low = std::max(Seconds(0), out.iteration - half(links.below));
  out.interval_high = out.iteration + half(links.above);
  out.error_of_links = Seconds(of_links);
  constexpr double quartiles_of_normal = 1.349;
  out.step_spread = job.step() * (job.noise / quartiles_of_normal);
  out.step_p50 = out.iteration;
  out.step_p99 = out.iteration + normal_p99 * out.step_spread;
  if (job.batch_samples > 0)
    out.throughput_samples_per_s = job.batch_samples * static_cast<double>(cluster.workers()) / all;
  const double share = all > 0 ? exposed / all : 0;
  out.bound = share > 0.5 ? "communication bandwidth (" + percent(share) + " of the step is exposed)"
                          : "compute (" + percent(1 - share) + " of the step, with what hosts and devices wait for)";
  out.messages = slowest->messages;
  add_notes(job, cluster, *its_prices, out);
  return out;
}

/// "the recorded step with 5 messages of gradients in place of 3 (172.8 MiB, 1.0 MiB, 16.9 MiB), all else as it was".
std::string exchanged_note(const RecordedRank& rank, const std::vector<GradientMessage>& messages) {
  constexpr std::size_t shown = 4;
  std::string sizes;
  for (const GradientExchange::Recorded& r : rank.exchange->recorded) {
    const Bytes size = rank.collectives[r.collective].size;
    if (rank.exchange->recorded.size() <= shown && size > Bytes(0)) add_to_list(sizes, text_of(size));
  }
  return "the recorded step with " + counted(std::ssize(messages), "message") + " of gradients in place of " +
         std::to_string(rank.exchange->recorded.size()) + (sizes.empty() ? "" : " (" + sizes + ")") +
         ", all else as it was";
}

}  // namespace

Seconds RecordedRank::step(std::span<const double> factors) const {
  const Sending sending{this, {factors.begin(), factors.end()}};
  return step_of(std::span(&sending, 1));
}

Seconds RecordedRank::step(std::span<const double> factors, const std::vector<GradientMessage>& messages) const {
  const Sending sending{this, {factors.begin(), factors.end()}, &messages};
  return step_of(std::span(&sending, 1));
}

Seconds RecordedJob::step(std::span<const std::vector<double>> factors) const {
  Seconds slowest;
  std::vector<Sending> team;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    team.push_back({&ranks[r], factors[r]});
    if (!in_lockstep) slowest = std::max(slowest, step_of(std::span(&team.back(), 1)));
  }
  return in_lockstep ? step_of(team) : slowest;
}

Seconds RecordedJob::told_by(const RecordedCollective& c) const {
  return in_lockstep && c.meeting != no_meeting ? c.late : Seconds(0);
}

Seconds RecordedJob::step() const { return usual > Seconds(0) ? usual : calibration_step(*this); }

Answer<Prediction> RecordedJob::on(const Cluster& cluster, bool where_it_ran) const {
  // Where its messages can be exchanged they are sent as those of any plan are, so that it compares with these.
  const bool exchanges = fixed().empty();
  return slowest_on(*this, cluster, spec_named(name, {}), where_it_ran, [&](Team& team) {
    if (!exchanges) return moved(team);
    std::vector<std::vector<GradientMessage>> messages;
    for (const RecordedRank& rank : team.ranks) messages.push_back(own_messages(rank));
    return moved(team, std::move(messages), team.prices.front(), cluster.contention);
  });
}

bool RecordedJob::knows_a_size() const {
  const auto sized = [](const RecordedCollective& c) { return c.size > Bytes(0); };
  return std::ranges::any_of(ranks,
                             [&](const RecordedRank& rank) { return std::ranges::any_of(rank.collectives, sized); });
}

std::string RecordedJob::fixed() const {
  for (const RecordedRank& rank : ranks)
    if (!rank.exchange) return rank.fixed;
  return {};
}

namespace {

/// The messages of a plan for the gradients of a job, and the cluster as they find it.
struct Exchanged {
  std::vector<GradientMessage> messages;
  Cluster cluster;
};
Answer<Exchanged> exchanged_for(const RecordedJob& job, const PlanSpec& spec, const Profile& profile,
                                const Cluster& given) {
  if (std::string why = job.fixed(); !why.empty()) return Inapplicable{std::move(why)};
  const std::vector<Bytes>& sizes = job.ranks.front().exchange->sizes;
  for (const RecordedRank& rank : job.ranks)
    if (rank.exchange->sizes != sizes || sizes.size() > profile.tensors.size())
      return Inapplicable{"its ranks do not send the same gradients"};
  if (sizes.size() < profile.tensors.size()) {
    Profile sent = profile;
    sent.tensors.resize(sizes.size());
    return exchanged_for(job, spec, sent, given);
  }
  Exchanged out{{}, given};
  if (const std::string_view collective = collective_of(spec); !collective.empty()) out.cluster.all_reduce = collective;
  const Answer<CommunicationCost> cost = communication_cost(out.cluster);
  if (!cost) return Inapplicable{cost.reason()};
  const Answer<CommPlan> plan = comm_plan_of(spec, profile, out.cluster, *cost);
  if (!plan) return Inapplicable{plan.reason()};
  Answer<std::vector<GradientMessage>> messages = messages_of(*plan, profile);
  if (!messages) return Inapplicable{messages.reason()};
  out.messages = *std::move(messages);
  return out;
}
Answer<Moved> moved(Team& team, const Exchanged& exchanged) {
  RecordedPrices of_messages(exchanged.cluster, team.job);
  return moved(team, std::vector(team.ranks.size(), exchanged.messages), of_messages, exchanged.cluster.contention);
}

}  // namespace

Answer<Prediction> RecordedJob::with(const PlanSpec& spec, const Profile& profile, const Cluster& cluster) const {
  const Answer<Exchanged> exchanged = exchanged_for(*this, spec, profile, cluster);
  if (!exchanged) return Inapplicable{exchanged.reason()};
  Answer<Prediction> out = slowest_on(*this, cluster, spec, false, [&](Team& team) { return moved(team, *exchanged); });
  if (!out) return out;
  out->of_recorded_step = true;
  out->warnings.insert(out->warnings.begin(), exchanged_note(ranks.front(), exchanged->messages));
  add_memory(profile, cluster, *out);
  return out;
}

Answer<std::vector<RecordedJob::Laid>> RecordedJob::laid_out(const PlanSpec& spec, const Profile& profile,
                                                             const Cluster& cluster) const {
  std::optional<Exchanged> exchanged;
  if (fixed().empty()) {
    Answer<Exchanged> known = exchanged_for(*this, spec, profile, cluster);
    if (!known) return Inapplicable{known.reason()};
    exchanged = *std::move(known);
  }
  std::vector<Laid> out;
  const std::size_t together = in_lockstep ? ranks.size() : 1;
  for (std::size_t first = 0; first < ranks.size(); first += together) {
    Team team{*this, std::span(ranks).subspan(first, together),
              std::vector<RecordedPrices>(together, RecordedPrices(cluster, *this))};
    Answer<Moved> here = exchanged ? moved(team, *exchanged) : moved(team);
    if (!here) return Inapplicable{here.reason()};
    std::vector<std::vector<Picoseconds>> waits(together);
    if (together > 1) waits = waits_in_lockstep(here->ranks);
    for (std::size_t r = 0; r < together; ++r)
      out.push_back({std::move(here->ranks[r].times), std::move(waits[r]),
                     exchanged ? exchanged->messages : std::vector<GradientMessage>()});
  }
  return out;
}

Answer<RecordedJob> recorded_job_of(std::span<const Trace> traces, const Profile* profile) {
  RecordedJob job;
  job.workers = std::ssize(traces);
  std::optional<RunOfRanks> run;
  if (traces.size() > 1) run = run_of(traces);
  for (const Trace& trace : traces) {
    const Answer<std::unique_ptr<replaying::Calibration>> calibration = replaying::calibration_of(trace);
    if (!calibration) return Inapplicable{calibration.reason()};
    if (!works_in_program_order((*calibration)->taken_apart.graph))
      return Inapplicable{trace.source + " has a step whose work does not follow program order"};
    std::optional<std::unordered_map<std::uint32_t, Seconds>> waiting;
    if (run) waiting = run->waiting_of(job.ranks.size());
    const std::int64_t world = std::max(trace.world_size, std::ssize(traces));
    RecordedRank rank = recorded_step_of(trace, **calibration, profile, waiting ? &*waiting : nullptr, world).rank;
    if (rank.collectives.empty())
      return Inapplicable{trace.source + " has no collectives beside the host's own work in the step that is rebuilt"};
    job.workers = std::max(job.workers, trace.world_size);
    for (const RecordedCollective& c : rank.collectives) job.workers = std::max(job.workers, c.group_size);
    job.ranks.push_back(std::move(rank));
  }
  if (job.ranks.empty()) return Inapplicable{"no trace"};
  if (run) let_meet(job, *run);
  Profile timed;
  timed.device = profile != nullptr ? profile->device : traces.front().device_name;
  timed.transfers = profile != nullptr ? profile->transfers : transfer_times_of(traces);
  if (traces.size() > 1) timed.ranks.resize(traces.size());
  const auto link_in = [](const std::optional<ShownLink>& shown) {
    return shown ? std::optional(shown->link) : std::nullopt;
  };
  job.inside = link_in(shown_inside(timed)), job.network = link_in(shown_network(timed));
  job.anywhere = link_in(shown_anywhere(timed));
  job.timed = std::move(timed);
  return job;
}

double fingerprint_of(const Profile& profile) {
  double sum = 0, weight = 1;
  const auto add = [&](double value) { sum += value * (weight += 0.01); };
  const auto add_cost = [&](const PassCost& cost) { add(cost.host.value()), add(cost.device.value()); };
  for_each_cost(profile, [&](const PassCost& cost) {
    add_cost(&cost == &profile.optimizer && profile.update_of_shard ? *profile.update_of_shard : cost);
  });
  for_each_communication_cost(profile, add_cost);
  for (const Tensor& tensor : profile.tensors) add(tensor.size.value() * 1e-9);
  for (const Seconds time : {profile.communication.message, profile.input, profile.input_period, profile.late})
    add(time.value());
  add(profile.batch_samples);
  return sum;
}

bool RecordedJob::is_of(const Profile& profile) const { return fingerprint_of(profile) == work; }

bool is_whole(const RecordedJob& job) {
  std::size_t most = 0;  // meetings
  for (const RecordedRank& rank : job.ranks) most += rank.collectives.size();
  return !job.ranks.empty() && std::ranges::all_of(job.ranks, [most](const RecordedRank& rank) {
    return is_whole(rank.blocks, rank.parts.size() + (rank.exchange ? rank.exchange->free_tasks() : 0)) &&
           (!rank.exchange || is_whole(*rank.exchange, rank.collectives.size())) &&
           std::ranges::all_of(rank.parts,
                               [&](const auto& part) { return part.collective < rank.collectives.size(); }) &&
           std::ranges::all_of(rank.collectives, [most](const auto& c) {
             return c.duration > Seconds(0) && (c.meeting == no_meeting || c.meeting < most);
           });
  });
}

}  // namespace stepcast
