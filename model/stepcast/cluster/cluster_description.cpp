// Cluster description: the words of each field, turned into the numbers of a cluster.
#include <stepcast/base/error.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/carried.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/cluster/transport.hpp>

#include <algorithm>
#include <cctype>
#include <tuple>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

constexpr std::int64_t most_machines = 1'000'000;

double number_within(const std::string& text, const char* where, double low, double high, const char* expected) {
  const double value = number_of(text, where);
  if (!(value >= low && value <= high)) throw InputError(where, expected, in_quotes(text));
  return value;
}

/// "0.05" or "exponential:0.05".
Jitter jitter_of(std::string text) {
  Jitter jitter{Jitter::Distribution::normal, 0};
  if (const auto colon = text.find(':'); colon != std::string::npos) {
    const std::string name = text.substr(0, colon);
    if (name == "exponential") jitter.distribution = Jitter::Distribution::exponential;
    else if (name != "normal") throw InputError("--jitter", "normal or exponential", in_quotes(name));
    text.erase(0, colon + 1);
  }
  jitter.relative = number_within(text, "--jitter", 1e-9, 0.5, "a spread relative to compute above 0, at most 0.5");
  return jitter;
}

/// "switchml", "atp", or "sa_atp:0.3" with the share that leaders take over.
Aggregation aggregation_of(std::string text, Aggregation a) {
  constexpr const char* share = "the share of a straggler's traffic that leaders take over, as in 'sa_atp:0.3'";
  const auto colon = text.find(':');
  if (colon != std::string::npos) {
    const std::string number = text.substr(colon + 1);
    if (text.substr(0, colon) != "sa_atp")
      throw InputError("--switch", "a share with sa_atp only", in_quotes(text), "leave out ':" + number + "'");
    a.absorbed_share = number_within(number, "--switch", 1e-9, 1, "a share above 0, at most 1");
    text.erase(colon);
  }
  a.program = text;
  if (a.program == "sa_atp" && a.absorbed_share == 0)
    throw InputError("--switch", share, in_quotes(text), "it is not published; without it sa_atp is atp");
  return a;
}

/// The parts of a text between separators, without the spaces around them.
std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.emplace_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// "4 x 25Gb/s": so many, each with something; of something alone how many is not said (0).
struct Several {
  std::int64_t count = 0;
  std::string each;
};
Several several_of(std::string_view text, const char* where) {
  const auto by = text.find('x');
  if (by == std::string_view::npos || trimmed(text.substr(0, by)).find_first_not_of("0123456789") != std::string::npos)
    return {0, std::string(trimmed(text))};
  return {integer_of(std::string(trimmed(text.substr(0, by))), where, 1, most_machines),
          std::string(trimmed(text.substr(by + 1)))};
}

/// "30%" or "0.3", of what others take.
double background_of(std::string_view text, const char* where) {
  const double share = share_of(trimmed(text), where);
  if (!(share >= 0 && share <= 0.99))
    throw InputError(where, "a share that others take, from 0 to 0.99 or 99 %", in_quotes_or_nothing(trimmed(text)),
                     "such as '30%'");
  return share;
}

/// What somebody says of one level: "spine:16 x 400Gb/s, oversubscribed=2".
struct LevelText {
  std::string name, bandwidth, latency;
  std::int64_t units = 1;
  double oversubscription = 1, background = 0;
  std::vector<TorusSide> torus{};
};

constexpr const char* level_form =
    "NAME:UNITS [x BANDWIDTH] [, latency=TIME] [, oversubscribed=FACTOR] [, background=SHARE], such as "
    "'spine:16 x 400Gb/s, oversubscribed=2'; the first one may be 'pod:torus 4x4x4 x 100GB/s'";

/// "torus 4x4x4 x 100GB/s" or "mesh 16x16", with the units along each dimension.
bool read_torus(std::string_view text, LevelText& level) {
  const bool closed = text.starts_with("torus"), open = text.starts_with("mesh");
  if (!closed && !open) return false;
  for (const std::string& part : parts_of(text.substr(closed ? 5 : 4), 'x')) {
    if (!level.bandwidth.empty() || part.empty())
      throw InputError("--level", "units along each dimension and a bandwidth, as in 'torus 4x4x4 x 100GB/s'",
                       in_quotes(text));
    if (part.find_first_not_of("0123456789") != std::string::npos) level.bandwidth = part;
    else level.torus.push_back({integer_of(part, "--level", 1, most_machines), closed});
  }
  if (level.torus.empty() || level.torus.size() > most_torus_sides)
    throw InputError("--level", "one to " + std::to_string(most_torus_sides) + " dimensions, as in 'torus 4x4x4'",
                     in_quotes(text));
  for (const TorusSide& side : level.torus) level.units = std::min(most_machines + 1, level.units * side.units);
  if (level.units > most_machines)
    throw InputError("--level", "at most " + std::to_string(most_machines) + " machines", in_quotes(text));
  return true;
}

LevelText level_text_of(std::string_view text) {
  const auto refuse = [&](const std::string& expected, std::string_view found) {
    throw InputError("--level", expected, in_quotes(found), std::string("a level is ") + level_form);
  };
  LevelText level;
  const std::vector<std::string> parts = parts_of(text, ',');
  const std::string_view head = parts.front();
  const auto colon = head.find(':');
  if (colon == std::string_view::npos || trimmed(head.substr(0, colon)).empty())
    refuse("a name and how many units it joins, as in 'spine:16'", head);
  level.name = trimmed(head.substr(0, colon));
  std::string_view units = trimmed(head.substr(colon + 1));
  if (!read_torus(units, level)) {
    if (const auto by = units.find('x'); by != std::string_view::npos) {
      level.bandwidth = trimmed(units.substr(by + 1));
      if (several_of(level.bandwidth, "--level").count > 0 ||
          level.bandwidth.find_first_not_of("0123456789") == std::string::npos)
        refuse("one number of units, or a torus of several, as in 'pod:torus 4x4x4'", head);
      units = trimmed(units.substr(0, by));
    }
    level.units = integer_of(std::string(units), "--level", 1, most_machines);
  }
  if (!level.bandwidth.empty()) static_cast<void>(bandwidth_of(level.bandwidth, "--level"));
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string_view part = parts[i];
    const auto equals = part.find('=');
    const std::string key(trimmed(part.substr(0, equals)));
    const std::string value(equals == std::string_view::npos ? std::string_view{} : trimmed(part.substr(equals + 1)));
    if (key == "latency") {
      static_cast<void>(seconds_of(value, "--level"));
      level.latency = value;
    } else if (key == "oversubscribed") {
      level.oversubscription = number_within(value, "--level", 1, 1000, "an oversubscription from 1 to 1000");
    } else if (key == "background") {
      level.background = background_of(value, "--level");
    } else {
      const std::vector<std::string> known{"latency", "oversubscribed", "background"};
      throw InputError("--level", "one of " + listed(known), in_quotes(part),
                       did_you_mean(key, known, std::string("a level is ") + level_form));
    }
  }
  return level;
}

std::vector<LevelText> level_texts_of(const std::vector<std::string>& said) {
  std::vector<LevelText> levels;
  for (const std::string& texts : said)
    for (const std::string& text : parts_of(texts, ';'))
      if (!text.empty()) levels.push_back(level_text_of(text));
  return levels;
}

/// Machines in a torus have no switch between them, and rings of their own.
void lay_as_torus(Cluster& cluster, const LevelText& said) {
  if (said.torus.empty()) return;
  const CollectiveAlgorithm* algorithm = collective_algorithm(cluster.all_reduce);
  if (algorithm && algorithm->on_torus) return;
  std::erase_if(cluster.provenance, [](const std::string& line) { return line.starts_with("all-reduce: "); });
  cluster.provenance.emplace_back(
      "all-reduce: assumed rings along all dimensions of the torus at once, both ways where it is closed");
  cluster.all_reduce = "torus";
}

/// The levels of the network between the machines of `cluster`.
Cluster with_levels(Cluster cluster, const std::vector<LevelText>& said) {
  if (said.empty()) return cluster;
  if (cluster.nodes == 1)
    throw InputError("--level", "several machines, which levels join", "one", "give --per-node and more --workers");
  constexpr Seconds more_switches = microseconds(1);  // there and back through one more layer of them
  cluster.levels.clear();
  // What was measured between machines was measured over other levels.
  const auto between = [&](const MeasuredCollective& table) { return nodes_of(table, cluster) > 1; };
  if (std::erase_if(cluster.tables, between) > 0) {
    if (cluster.all_reduce == "table") cluster.all_reduce = "ring";
    cluster.provenance.push_back("between machines: by the forms of " + cluster.all_reduce +
                                 ", since what was measured there was measured without these levels");
  }
  Link below = cluster.network;
  std::string unit = "machine";
  for (const LevelText& text : said) {
    const bool first = cluster.levels.empty();
    Level level{text.name, text.units, {}, {}, 1, 0, text.torus};
    std::string told = text.name + ": joins " + counted(text.units, unit) + " as given";
    if (first && text.oversubscription != 1)
      throw InputError("--level", "no oversubscription of the first level", in_quotes(text.name),
                       "it joins machines over their own cards; a level above it can be oversubscribed");
    if (!first && !text.torus.empty())
      throw InputError("--level", "a torus at the first level alone, of machines", in_quotes(text.name),
                       "its units would be linked by switches of their own; with one device a machine (--per-node 1) "
                       "the torus is of devices");
    if (first) {
      if (!text.latency.empty()) cluster.network.latency = seconds_of(text.latency, "--level");
      if (text.background > 0) cluster.transport.background = text.background;
      lay_as_torus(cluster, text);
      below = cluster.network;
    } else {
      level.latency = text.latency.empty() ? below.latency + more_switches : seconds_of(text.latency, "--level");
      level.bandwidth = text.bandwidth.empty() ? below.bandwidth
                                               : bandwidth_of(text.bandwidth, "--level") *
                                                     (goodput_of_tcp / static_cast<double>(cluster.nics_per_node));
      level.oversubscription = text.oversubscription;
      level.background = text.background;
      if (!text.bandwidth.empty()) told += ", goodput assumed 94 % of " + text.bandwidth + " a machine";
      if (text.latency.empty()) told += "; assumed: 1 us a step more than below";
      below = {level.latency, level.bandwidth};
    }
    cluster.provenance.push_back(std::move(told));
    unit = level.name;
    cluster.levels.push_back(std::move(level));
  }
  if (const std::int64_t most = most_machines_of(cluster.levels); cluster.nodes > most)
    throw InputError("--level", "levels that join all " + std::to_string(cluster.nodes) + " machines",
                     counted(most, "machine") + " at most",
                     "let the outermost one join more units, or name another one above it");
  return cluster;
}

/// "0.5": a worker's link has that share of what a healthy one has. "2 x 100Gb/s", "2 x 0.25": the links of so many
/// machines do, or of so many devices of a single one; a rate is nominal as that of the network is.
void degrade_link(const std::string& text, Cluster& cluster, SlowWorkers& slow) {
  const auto [count, each] = several_of(text, "--degraded-link");
  constexpr const char* expected = "a share above 0, at most 1, or a rate, alone or of several as in '2 x 100Gb/s'";
  const Link& healthy = cluster.nodes > 1 ? cluster.network : cluster.inside;
  double share = 0;
  if (!each.empty() && each.find_first_not_of("0123456789.eE+-") == std::string::npos) {
    share = number_within(each, "--degraded-link", 1e-6, 1, expected);
  } else {
    const double cards = cluster.nodes > 1 ? static_cast<double>(cluster.nics_per_node) : 1;
    const double goodput = cluster.nodes > 1 ? goodput_of_tcp : 1;
    if (each.empty()) throw InputError("--degraded-link", expected, in_quotes(text));
    share = bandwidth_of(each, "--degraded-link") * goodput / (healthy.bandwidth * cards);
    if (share > 1 && share < 1.01) share = 1;
    if (!(share >= 1e-6 && share <= 1))
      throw InputError("--degraded-link", "less than the link has, " + text_of(healthy.bandwidth * cards),
                       in_quotes(text));
  }
  slow.link_share = share;
  if (count == 0) return;
  const std::int64_t workers = count * (cluster.nodes > 1 ? cluster.devices_per_node : 1);
  if (workers > cluster.workers())
    throw InputError(
        "--degraded-link",
        "at most the " +
            counted(cluster.nodes > 1 ? cluster.nodes : cluster.workers(), cluster.nodes > 1 ? "machine" : "device") +
            " that there are",
        in_quotes(text));
  if (slow.compute_factor == 1 && slow.delay == Seconds(0)) slow.workers = workers;
  else cluster.stragglers.slow.push_back({workers, 1, Seconds(0), std::exchange(slow.link_share, 1.0)});
}

/// What other jobs take of the machines' cards and of the levels above them.
void take_background(const std::string& text, Cluster& cluster) {
  for (const std::string& part : parts_of(text, ',')) {
    const auto equals = part.find('=');
    const std::string name(trimmed(std::string_view(part).substr(0, equals == std::string::npos ? 0 : equals)));
    if (equals != std::string::npos && name.empty())
      throw InputError("--background", "the name of a level in front of '='", in_quotes(part));
    const std::size_t level = shared_level(cluster, name, "--background");
    background_at(cluster, level) =
        background_of(std::string_view(part).substr(equals == std::string::npos ? 0 : equals + 1), "--background");
  }
}

/// "10Gb/s", or "4 x 10Gb/s" of as many connections at the same time over each card.
void limit_connections(const std::string& text, Cluster& cluster) {
  if (cluster.nodes == 1)
    throw InputError("--connection", "a network between machines", "one machine", "give --per-node");
  const auto [count, each] = several_of(text, "--connection");
  if (count > 1000) throw InputError("--connection", "at most 1000 connections a card", in_quotes(text));
  cluster.transport.flow_rate = bandwidth_of(each, "--connection");
  if (count > 0) cluster.transport.flows = count;
}

/// The cluster with what is out of the ordinary, on top of what it says itself.
Cluster with_disturbances(Cluster cluster, const ClusterDescription& said) {
  SlowWorkers slow;  // the same one has all faults
  if (!said.slow_worker.empty())
    slow.compute_factor = number_within(said.slow_worker, "--slow-worker", 1, 1000, "a factor from 1 to 1000");
  if (!said.late_worker.empty()) slow.delay = seconds_of(said.late_worker, "--late-worker");
  if (!said.degraded_link.empty()) degrade_link(said.degraded_link, cluster, slow);
  if (slow.compute_factor != 1 || slow.delay != Seconds(0) || slow.link_share != 1)
    cluster.stragglers.slow.push_back(slow);
  if (!said.jitter.empty()) cluster.stragglers.jitter = jitter_of(said.jitter);
  Transport& transport = cluster.transport;
  constexpr const char* share = "a share of the packets, 0 to 0.9";
  if (!said.loss.empty()) transport.loss = number_within(said.loss, "--loss", 0, 0.9, share);
  if (!said.stalls.empty()) transport.stalls = number_within(said.stalls, "--stalls", 0, 0.9, share);
  if (!said.rto.empty()) {
    transport.timeout = seconds_of(said.rto, "--rto");
    if (transport.stalls == 0 && said.stalls.empty())
      throw InputError("--rto", "a network on which packets wait for it", in_quotes(said.rto),
                       "give --stalls, the time-outs per packet sent");
  }
  if (transport != Transport{} && cluster.nodes == 1 && !(said.loss + said.stalls).empty())
    throw InputError(said.loss.empty() ? "--stalls" : "--loss", "a network between machines", "one machine",
                     "packets are lost between machines; give --per-node");
  if (!said.background.empty()) take_background(said.background, cluster);
  if (!said.connection.empty()) limit_connections(said.connection, cluster);
  if (!said.aggregation.empty())
    cluster.aggregation = aggregation_of(said.aggregation, cluster.aggregation.value_or(Aggregation{}));
  return checked(std::move(cluster), "flags");
}

/// "8xp5": so many machines of a kind; 0 where a name does not begin so.
std::int64_t machines_in_name(std::string_view& name) {
  const auto end = name.find_first_not_of("0123456789");
  if (end == 0 || end == std::string_view::npos || end > 7 || name[end] != 'x') return 0;
  const std::int64_t machines = integer_of(name.substr(0, end), "--cluster", 1, most_machines);
  name.remove_prefix(end + 1);
  return machines;
}

Cluster cluster_named(const std::string& name) {
  if (const Cluster* shipped = shipped_cluster(name)) return *shipped;
  std::vector<std::string> names;
  std::string_view kind = name;
  const std::int64_t machines = machines_in_name(kind);
  if (machines > 0)
    if (const Cluster* shipped = shipped_cluster(kind)) {
      Answer<Cluster> several = resized(*shipped, machines * shipped->devices_per_node);
      if (!several)
        throw InputError("--cluster", "a number of machines that it can have", in_quotes(name), several.reason());
      several->name = name;
      return *std::move(several);
    }
  // "64xh100": who names a device means machines that have it, so many of them or with so many devices in all.
  std::vector<std::string> with_device;
  const auto suggest = [&](std::int64_t count, const Cluster& shipped) {
    with_device.push_back(in_quotes((machines > 0 ? std::to_string(count) + "x" : "") + shipped.name) + " (" +
                          counted(count > 0 ? count * shipped.devices_per_node : shipped.workers(), "device") + ")");
  };
  for (const Cluster& shipped : shipped_clusters()) {
    names.push_back(shipped.name);
    if (kind.size() <= 3 || shipped.name.find(kind) == std::string::npos) continue;
    if (machines > 0 && shipped.nodes > 1) continue;  // its name says how many machines there are
    suggest(machines, shipped);
    if (machines > shipped.devices_per_node && machines % shipped.devices_per_node == 0)
      suggest(machines / shipped.devices_per_node, shipped);
  }
  throw InputError("--cluster", "a shipped cluster or a JSON file", in_quotes(name),
                   with_device.empty() ? did_you_mean(name, names, "'stepcast list clusters' names the shipped ones")
                                       : "did you mean " + listed(with_device) + "?");
}

/// A cluster that somebody has described in full, with other numbers of machines.
Cluster cluster_of_name(const ClusterDescription& said, const std::optional<Cluster>& base) {
  if (!said.inside.empty()) throw InputError("--inside", "either --cluster or the flags of its links", "both");
  if (!said.network.empty() || !said.per_node.empty())
    throw InputError(said.network.empty() ? "--per-node" : "--network", "either --cluster or the flags of a network",
                     "both",
                     "other links between such machines: --device a100 --workers 16 --per-node 8 --network 25GbE");
  if (const std::vector<LevelText> levels = level_texts_of(said.level);
      !levels.empty() && !levels.front().bandwidth.empty())
    throw InputError("--level", "either --cluster or a bandwidth of the first level, which is that of its network",
                     "both");
  Cluster cluster = base ? *base : cluster_named(said.cluster);
  if (said.workers.empty()) return cluster;
  if (!base && !shipped_cluster(said.cluster))
    throw InputError("--workers", "either that, or a number of machines in the cluster's name", "both");
  const std::string name = said.cluster.empty() ? cluster.name : said.cluster;
  const std::int64_t workers = integer_of(said.workers, "--workers", 1, most_machines);
  Answer<Cluster> answer = resized(std::move(cluster), workers);
  if (!answer) throw InputError("--workers", "a size that cluster '" + name + "' can have", answer.reason());
  return *std::move(answer);
}

/// Machines and the links between them.
Cluster cluster_of_links(const ClusterDescription& said) {
  if (said.workers.empty())
    throw InputError("", "a cluster", "none",
                     "give --cluster NAME, or --workers N --per-node G --network 25GbE; --workers 1 is one device");
  const std::int64_t workers = integer_of(said.workers, "--workers", 1, most_machines);
  const std::int64_t per_node = said.per_node.empty() ? 1 : integer_of(said.per_node, "--per-node", 1, most_machines);
  const auto forget = [](Cluster& cluster, std::string_view link) {
    std::erase_if(cluster.provenance, [&](const std::string& line) { return line.starts_with(link); });
  };
  const bool one_machine = workers <= per_node;
  const std::vector<LevelText> levels = level_texts_of(said.level);
  const std::string of_level = levels.empty() ? std::string() : levels.front().bandwidth;
  if (!of_level.empty() && !said.network.empty())
    throw InputError("--level", "either --network or a bandwidth of the first level, which is the same", "both");
  const std::string& network = of_level.empty() ? said.network : of_level;
  const auto [cards, rate] = several_of(network, "--network");
  constexpr std::int64_t most_cards = 64;
  if (cards > most_cards || (cards > 0 && (rate.empty() || shipped_cluster(rate))))
    throw InputError("--network", "the rate of a machine, or its cards and the rate of each, as in '8 x 400Gb/s'",
                     in_quotes(network));
  Cluster cluster = cluster_of_flags(workers, per_node, network.empty() ? "10GbE" : cards > 0 ? rate : network);
  if (cards > 0) {
    cluster.nics_per_node = cards;
    cluster.name = cluster.name.substr(0, cluster.name.find(rate)) + std::to_string(cards) + " x " + rate;
    forget(cluster, "network cards: ");
    cluster.provenance.push_back("network cards: " + std::to_string(cards) + " a machine as given");
  }
  if (network.empty()) {  // nothing goes over it, or a trace tells it
    forget(cluster, "network: ");
    cluster.name = counted(workers, "device");
    if (one_machine) forget(cluster, "network cards: ");
    else cluster.provenance.emplace_back(unsaid_network);
  }
  if (said.inside.empty()) return cluster;
  if (const std::optional<ShownLink> named = inside_named(said.inside)) {
    cluster.inside = named->link;
    forget(cluster, "inside: ");
    cluster.provenance.push_back("inside: " + said.inside + " as given; " + named->source);
    return cluster;
  }
  if (const std::string_view words = trimmed(said.inside);
      !words.empty() && std::isalpha(static_cast<unsigned char>(words.front())) != 0)
    throw InputError("--inside", "a bandwidth such as '250GB/s', or a link: " + listed(inside_names()),
                     in_quotes(said.inside), did_you_mean(said.inside, inside_names()));
  cluster.inside.bandwidth = bandwidth_of(said.inside, "--inside");
  forget(cluster, "inside: ");
  cluster.provenance.push_back("inside: " + said.inside + " as given; assumed: " + text_of(cluster.inside.latency) +
                               " a step");
  return cluster;
}

void set_collective(Cluster& cluster, const std::string& name) {
  if (name != "table" && !collective_algorithm(name)) {
    std::vector<std::string> names{"table"};
    for (const CollectiveAlgorithm& algorithm : collective_algorithms()) names.emplace_back(algorithm.name);
    throw InputError("--collective", "one of " + listed(names), in_quotes(name), did_you_mean(name, names));
  }
  cluster.all_reduce = name;
  const Answer<CommunicationCost> cost = communication_cost(cluster);
  if (!cost) throw InputError("--collective", "an algorithm for this cluster", in_quotes(name), cost.reason());
}

/// What NCCL's environment variables would force.
void force_nccl(Cluster& cluster, const ClusterDescription& said) {
  for (const auto& [flag, text, list] : {std::tuple{"--nccl-algo", &said.nccl_algo, &NcclTuning::algo},
                                         std::tuple{"--nccl-proto", &said.nccl_proto, &NcclTuning::proto}}) {
    if (text->empty()) continue;
    if (cluster.all_reduce != "nccl")
      throw InputError(flag, "the algorithm nccl, which it is about", in_quotes(cluster.all_reduce),
                       "give --collective nccl");
    static_cast<void>(list == &NcclTuning::algo ? nccl_algorithms_of(*text, flag) : nccl_protocols_of(*text, flag));
    cluster.nccl.*list = *text;
    // What was measured ran by the library's own choice.
    cluster.tables.clear();
  }
  if ((said.nccl_algo + said.nccl_proto).empty()) return;
  if (const Answer<CommunicationCost> cost = communication_cost(cluster); !cost)
    throw InputError(said.nccl_algo.empty() ? "--nccl-proto" : "--nccl-algo", "something that runs here",
                     in_quotes(said.nccl_algo.empty() ? said.nccl_proto : said.nccl_algo), cost.reason());
}

/// With the messages of the command line.
Cluster described_cluster(const ClusterDescription& said, const std::optional<Cluster>& base) {
  Cluster cluster = base || !said.cluster.empty() ? cluster_of_name(said, base) : cluster_of_links(said);
  if (!said.servers.empty()) {
    const auto [count, each] = several_of(said.servers, "--servers");
    cluster.servers = count > 0 ? count : integer_of(said.servers, "--servers", 0, most_machines);
    cluster.servers_stay = true;
    if (count > 0) {
      cluster.server_rate = bandwidth_of(each, "--servers") * goodput_of_tcp;
      std::erase_if(cluster.provenance, [](const std::string& line) { return line.starts_with("server_rate: "); });
      cluster.provenance.push_back("server_rate: " + each + " a server as given; goodput assumed 94 % of it");
    }
  }
  if (!said.device_memory.empty()) cluster.device_memory = memory_of(said.device_memory, "--device-memory");
  cluster = with_disturbances(with_levels(std::move(cluster), level_texts_of(said.level)), said);
  if (!said.collective.empty()) set_collective(cluster, said.collective);
  force_nccl(cluster, said);
  return cluster;
}

/// "--per-node" with another prefix, wherever a flag is named.
std::string with_prefix(std::string_view prefix, std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const bool flag = text.size() > 2 && text.starts_with("--") && std::islower(static_cast<unsigned char>(text[2]));
    out += flag ? prefix : text.substr(0, 1);
    text.remove_prefix(flag ? 2 : 1);
  }
  return out;
}

}  // namespace

Cluster cluster_of(const ClusterDescription& said, const std::optional<Cluster>& base, std::string_view prefix) {
  try {
    return described_cluster(said, base);
  } catch (const InputError& error) {
    if (prefix == "--") throw;
    throw InputError(with_prefix(prefix, error.where), with_prefix(prefix, error.expected), error.found,
                     with_prefix(prefix, error.hint));
  }
}

std::size_t shared_level(const Cluster& cluster, std::string_view name, const char* where) {
  if (cluster.nodes == 1)
    throw InputError(where, "a network between machines, which others use", "one machine", "give --per-node");
  if (name.empty()) return cluster.levels.empty() ? 0 : cluster.levels.size() - 1;
  std::vector<std::string> names;
  for (const Level& level : cluster.levels) names.push_back(level.name);
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    throw InputError(
        where, names.empty() ? "no level in front: this network has none" : "a level of this network: " + listed(names),
        in_quotes(name), did_you_mean(name, names, names.empty() ? "--level names one" : ""));
  return static_cast<std::size_t>(found - names.begin());
}

Bytes memory_of(std::string_view text, std::string_view where) {
  const Bytes memory = bytes_of(text, where);
  if (memory == Bytes(0)) throw InputError(std::string(where), "a positive size", in_quotes(text));
  return memory;
}

}  // namespace stepcast
