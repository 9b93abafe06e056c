// Links of a trace: a latency and a bandwidth from times of rings, the links of boards by name, and the forms of the
// cluster's algorithm on the traced links beside the traced times.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/carried.hpp>
#include <stepcast/cluster/closed_forms.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/cluster/links_of_trace.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

/// A measured time of a pattern that takes `steps` latencies, and `bytes` over the link.
struct TimedRing {
  double steps = 0, bytes = 0, seconds = 0;
};

/// The terms of an operation on links of one kind: a ring's, or those of pairs (closed_forms.hpp). Of machines with
/// `devices` of which only some belong to the group, the others send over the same cards in groups of their own.
TimedRing ring_terms(const TransferTimes& t, Bytes size, std::int64_t devices) {
  const double p = static_cast<double>(t.workers), g = static_cast<double>(t.per_machine), m = size.value();
  const bool between = t.per_machine > 0 && !t.within_machine();
  const double sharing = between ? static_cast<double>(devices) / g : 1;
  if (t.operation == "all_to_all" && between) return {p - g, (p - g) / p * g * m * sharing, 0};
  const double rounds = t.operation == "all_reduce" ? 2 : 1;
  return {rounds * (p - 1), rounds * (p - 1) / p * m * sharing, 0};
}

struct RingLine {
  double latency = 0, seconds_per_byte = 0;
  [[nodiscard]] double operator()(const TimedRing& t) const { return t.steps * latency + t.bytes * seconds_per_byte; }
};

/// The least relative errors (linear, neither term below 0).
RingLine nearest_ring(const std::vector<TimedRing>& times) {
  double ll = 0, lb = 0, bb = 0, l = 0, b = 0;
  for (const TimedRing& t : times) {
    const double steps = t.steps / t.seconds, bytes = t.bytes / t.seconds;
    ll += steps * steps, lb += steps * bytes, bb += bytes * bytes, l += steps, b += bytes;
  }
  const double determinant = ll * bb - lb * lb;
  if (determinant > 1e-9 * ll * bb) {
    const RingLine line{(l * bb - b * lb) / determinant, (b * ll - l * lb) / determinant};
    if (line.latency >= 0 && line.seconds_per_byte >= 0) return line;
  }
  return {0, b / bb};
}

/// Below all times, and in sum, relative to them, as near to them as can be: a linear programme in two variables, whose
/// optimum lies where two bounds meet. No latency is above `most_latency`.
RingLine ring_below_all(const std::vector<TimedRing>& times, double most_latency) {
  RingLine best;
  double most = 0;
  const auto try_at = [&](const RingLine& line) {
    if (!(line.latency >= 0 && line.seconds_per_byte >= 0) || line.latency > most_latency) return;
    double sum = 0;
    for (const TimedRing& t : times) {
      if (line(t) > t.seconds * (1 + 1e-9)) return;
      sum += line(t) / t.seconds;
    }
    if (sum > most) most = sum, best = line;
  };
  for (const TimedRing& a : times) {
    try_at({0, a.seconds / a.bytes});
    try_at({most_latency, (a.seconds - a.steps * most_latency) / a.bytes});
    for (const TimedRing& b : times) {
      const double determinant = a.steps * b.bytes - b.steps * a.bytes;
      if (std::abs(determinant) > 1e-12 * a.steps * b.bytes)
        try_at({(a.seconds * b.bytes - b.seconds * a.bytes) / determinant,
                (b.seconds * a.steps - a.seconds * b.steps) / determinant});
    }
  }
  return best;
}

/// Where a link lies, and what is plausible there.
struct LinkPlace {
  enum class Where : std::uint8_t { inside, between, anywhere } where = Where::inside;
  double most_latency = 20e-6, usual_latency = 2.5e-6;  ///< of a step: what is beyond that was no link's
  double most_bandwidth = 4e12;                         ///< beyond that sizes are wrong
  bool of_hosts = false;                                ///< that compute themselves, and send by TCP
};
constexpr LinkPlace inside_a_machine{}, between_machines{LinkPlace::Where::between, 100e-6, 10e-6, 1e12},
    unknown_place{LinkPlace::Where::anywhere, 1e-3, 10e-6, 4e12};
/// Hosts that compute send by TCP, whose steps took 110 to 140 us in the laboratory (gloo, 300 to 3000 Mb/s).
constexpr double usual_latency_of_hosts = 120e-6, most_latency_of_hosts = 1e-3;
LinkPlace as_of(const Profile& p, LinkPlace place) {
  if (p.has_device()) return place;
  place.usual_latency = usual_latency_of_hosts, place.most_latency = most_latency_of_hosts;
  place.of_hosts = true;
  return place;
}

bool lies_in(const TransferTimes& t, const LinkPlace& place) {
  if (t.per_machine < 1) return place.where == LinkPlace::Where::anywhere;
  return place.where == (t.within_machine() ? LinkPlace::Where::inside : LinkPlace::Where::between);
}

std::vector<TimedRing> ring_times(const Profile& p, const LinkPlace& place,
                                  std::span<const std::string_view> operations) {
  std::int64_t devices = 1;
  for (const TransferTimes& t : p.transfers) devices = std::max(devices, t.per_machine);
  std::vector<TimedRing> times;
  for (const TransferTimes& t : p.transfers) {
    if (!lies_in(t, place)) continue;
    if (std::ranges::find(operations, t.operation) == operations.end()) continue;
    for (std::size_t i = 0; i < t.sizes.size(); ++i) {
      TimedRing timed = ring_terms(t, t.sizes[i], devices);
      timed.seconds = t.times[i].value();
      times.push_back(timed);
    }
  }
  return times;
}

struct FittedLink {
  Link link;
  bool latency_assumed = false;  ///< large messages alone do not tell it
};

std::optional<FittedLink> link_of_rings(std::vector<TimedRing> times, bool together, const LinkPlace& place) {
  // All pairs are looked at; the largest messages tell most.
  constexpr std::size_t most_times = 100;
  std::ranges::stable_sort(times, {}, [](const TimedRing& t) { return -t.bytes; });
  if (times.size() > most_times) times.resize(most_times);
  RingLine line = together ? nearest_ring(times) : ring_below_all(times, place.most_latency);
  const auto mostly_bytes = [&](const TimedRing& t) { return 2 * t.bytes * line.seconds_per_byte > t.seconds; };
  const auto tells_latency = [&](const TimedRing& t) { return 5 * t.steps * line.latency > t.seconds; };
  const bool assumed = line.latency > place.most_latency || std::ranges::none_of(times, tells_latency);
  if (assumed) {
    // Of hosts, whose latencies differ more, the largest message says that it is not more than a part of that.
    constexpr double part = 0.25;
    line.latency = place.usual_latency;
    if (place.of_hosts) line.latency = std::min(line.latency, part * times.front().seconds / times.front().steps);
    double rate = 0, seconds = 0, bytes = 0;
    for (const TimedRing& t : times) {
      const double left = t.seconds - t.steps * line.latency;
      if (2 * left < t.seconds) continue;
      rate = std::max(rate, t.bytes / left);
      seconds += left, bytes += t.bytes;
    }
    if (!(bytes > 0)) return std::nullopt;
    line.seconds_per_byte = together ? seconds / bytes : 1 / rate;
  }
  if (std::ranges::none_of(times, mostly_bytes) || !(line.seconds_per_byte * place.most_bandwidth > 1))
    return std::nullopt;
  return FittedLink{{Seconds(line.latency), BytesPerSecond(1 / line.seconds_per_byte)}, assumed};
}

std::optional<ShownLink> shown_link(const Profile& p, const LinkPlace& place) {
  const bool together = !p.ranks.empty();
  // What every rank sends as much of as any other tells most. No library slows an all-reduce down; but of one rank
  // alone any operation may be the one for which nobody was late.
  using Names = std::span<const std::string_view>;
  constexpr std::string_view sums[] = {"all_reduce"}, even[] = {"all_reduce", "reduce_scatter", "all_gather"},
                             uneven[] = {"all_to_all"};
  for (const Names operations : {together ? Names(sums) : Names(even), Names(even), Names(uneven)}) {
    const std::vector<TimedRing> times = ring_times(p, place, operations);
    if (times.empty()) continue;
    const std::optional<FittedLink> link = link_of_rings(times, together, place);
    if (!link) continue;
    std::string names;
    for (const TransferTimes& t : p.transfers)
      if (lies_in(t, place) && std::ranges::find(operations, t.operation) != operations.end() &&
          names.find(t.operation) == names.npos)
        add_to_list(names, t.operation);
    return ShownLink{link->link, counted(std::ssize(times), "size") + " of " + names +
                                     (together ? ", waiting left out" : ", one rank: or faster") +
                                     (link->latency_assumed ? "; latency assumed" : "")};
  }
  return std::nullopt;
}

// ---- boards ----

/// Ring links that fit collectives (all-reduce, all-gather, reduce-scatter) of 256 KiB to 512 MiB on the 8 devices of a
/// machine: nccl-tests of ai-dynamo/aiconfigurator (commit 095f58a, Apache-2.0), half precision, NCCL 2.27 and 2.29,
/// root mean square error 17 % (B200 22 %, RTX PRO 6000 11 %). Where nobody measured, data sheets' rates in one
/// direction at the share of them that A100 reaches (185 of 300 GB/s).
struct Board {
  std::string_view words;   ///< of the name, all of them
  std::string_view unlike;  ///< none of these
  double gigabytes_per_second, microseconds;
  std::string_view link;
  std::int64_t mesh = 0;  ///< Cluster::inside_mesh
};
constexpr std::int64_t mesh_of_boards = 8;
constexpr std::string_view pcie_cards = "pcie nvl";
constexpr double share_reached = 185.0 / 300.0;
constexpr Board known_boards[] = {
    {"gb300", "", 565, 2.5, "NVLink 5; measured on B200"},
    {"gb200", "", 565, 2.5, "NVLink 5; measured on B200"},
    {"b300", "", 565, 2.5, "NVLink 5; measured on B200"},
    {"b200", "", 565, 2.5, "NVLink 5; measured"},
    {"gh200", "", 335, 1.7, "NVLink 4; measured on H100"},
    {"h200", pcie_cards, 340, 1.7, "NVLink 4; measured"},
    {"h100", pcie_cards, 335, 1.7, "NVLink 4; measured"},
    {"h20", pcie_cards, 335, 1.7, "NVLink 4; measured on H100"},
    {"h800", pcie_cards, 200 * share_reached, 2.5, "NVLink 4 of 200 GB/s by the data sheet"},
    {"a100", pcie_cards, 185, 2.5, "NVLink 3; measured"},
    {"a800", pcie_cards, 200 * share_reached, 2.5, "NVLink 3 of 200 GB/s by the data sheet"},
    {"v100 sxm2", "", 150 * share_reached, 2.5, "NVLink 2 of 150 GB/s by the data sheet"},
    {"v100 sxm3", "", 150 * share_reached, 2.5, "NVLink 2 of 150 GB/s by the data sheet"},
    {"v100 dgxs", "", 100 * share_reached, 2.5, "NVLink 2 of 100 GB/s to neighbours by the data sheet"},
    {"p100 sxm2", "", 80 * share_reached, 2.5, "NVLink 1 of 80 GB/s by the data sheet"},
    {"mi355x", "", 537.6 * share_reached, 2.5, "Infinity Fabric of 7 x 76.8 GB/s by the data sheet", mesh_of_boards},
    {"mi350x", "", 537.6 * share_reached, 2.5, "Infinity Fabric of 7 x 76.8 GB/s by the data sheet", mesh_of_boards},
    {"mi325x", "", 448 * share_reached, 2.5, "Infinity Fabric of 7 x 64 GB/s by the data sheet", mesh_of_boards},
    {"mi300x", "", 448 * share_reached, 2.5, "Infinity Fabric of 7 x 64 GB/s by the data sheet", mesh_of_boards},
    {"h200 nvl", "", 24, 5.5, "PCIe 5.0 x16, without bridges; measured on RTX PRO 6000"},
    {"h100 nvl", "", 24, 5.5, "PCIe 5.0 x16, without bridges; measured on RTX PRO 6000"},
    {"h100 pcie", "", 24, 5.5, "PCIe 5.0 x16, without bridges; measured on RTX PRO 6000"},
    {"rtx pro 6000", "", 24, 5.5, "PCIe 5.0 x16; measured"},
};

/// The same links by their own names, as the boards above reach them.
struct NamedLink {
  std::string_view name;
  double gigabytes_per_second, microseconds;
  std::string_view link;
};
constexpr NamedLink named_links[] = {
    {"pcie3", 10, 5, "PCIe 3.0 x16; half of what is assumed of PCIe 4.0"},
    {"pcie4", 20, 5, "PCIe 4.0 x16; assumed"},
    {"pcie5", 24, 5.5, "PCIe 5.0 x16; measured on RTX PRO 6000"},
    {"nvlink1", 80 * share_reached, 2.5, "NVLink 1 of 80 GB/s by the data sheet"},
    {"nvlink2", 150 * share_reached, 2.5, "NVLink 2 of 150 GB/s by the data sheet"},
    {"nvlink3", 185, 2.5, "NVLink 3; measured on A100"},
    {"nvlink4", 335, 1.7, "NVLink 4; measured on H100"},
    {"nvlink5", 565, 2.5, "NVLink 5; measured on B200"},
};

bool has_word(const std::vector<std::string>& name, const std::string& word) {
  return std::ranges::find(name, word) != name.end();
}

void forget_line(Cluster& cluster, std::string_view line) {
  std::erase_if(cluster.provenance, [&](const std::string& other) { return other == line; });
}

std::string link_in_words(const Link& link) {
  return text_of(link.bandwidth) + " and " + text_of(link.latency) + " a step";
}

}  // namespace

bool is_unsaid(const Cluster& cluster, std::string_view line) {
  return std::ranges::find(cluster.provenance, line) != cluster.provenance.end();
}

std::optional<ShownLink> shown_inside(const Profile& profile) { return shown_link(profile, inside_a_machine); }
std::optional<ShownLink> shown_network(const Profile& profile) {
  return shown_link(profile, as_of(profile, between_machines));
}
std::optional<ShownLink> shown_anywhere(const Profile& profile) {
  return shown_link(profile, as_of(profile, unknown_place));
}

std::optional<ShownLink> usual_inside(std::string_view device) {
  const std::vector<std::string> name = lower_words(device);
  for (const Board& board : known_boards) {
    const std::vector<std::string> words = lower_words(board.words), unlike = lower_words(board.unlike);
    if (!std::ranges::all_of(words, [&](const std::string& word) { return has_word(name, word); }) ||
        std::ranges::any_of(unlike, [&](const std::string& word) { return has_word(name, word); }))
      continue;
    return ShownLink{{microseconds(board.microseconds), BytesPerSecond(board.gigabytes_per_second * 1e9)},
                     std::string(board.link),
                     board.mesh};
  }
  return std::nullopt;
}

std::optional<ShownLink> inside_named(std::string_view name) {
  // "PCIe 4.0 x16", "pcie-gen4" and "pcie4" are one.
  std::string word;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.') word += lower_case(c);
  if (word.starts_with("pcie") && word.ends_with("x16")) word.erase(word.size() - 3);
  if (word.ends_with(".0")) word.erase(word.size() - 2);
  if (const auto gen = word.find("gen"); gen != std::string::npos) word.erase(gen, 3);
  for (const NamedLink& link : named_links)
    if (word == link.name)
      return ShownLink{{microseconds(link.microseconds), BytesPerSecond(link.gigabytes_per_second * 1e9)},
                       std::string(link.link)};
  return std::nullopt;
}

std::vector<std::string> inside_names() {
  std::vector<std::string> names;
  for (const NamedLink& link : named_links) names.emplace_back(link.name);
  return names;
}

std::string told_of(const Cluster& cluster, std::string_view link) {
  for (const std::string& line : cluster.provenance) {
    if (!line.starts_with(link)) continue;
    for (const std::string_view told : {links_from_trace, links_assumed_of})
      if (const auto at = line.find(", " + std::string(told)); at != line.npos) return line.substr(at + 2);
  }
  return {};
}

void refuse_unsaid_network(const Cluster& cluster, std::string_view prefix) {
  if (cluster.nodes > 1 && is_unsaid(cluster, unsaid_network))
    throw InputError(
        std::string(prefix) + "network",
        "the link between " + counted(cluster.nodes, "machine") + ", such as '400Gb/s' or '25GbE'", "nothing",
        (cluster.devices_per_node == 1 ? std::string(prefix) + (prefix.empty() ? "per_node=8" : "per-node 8") +
                                             " where eight devices are one machine; "
                                       : "") +
            "a trace tells it where its job ran on several machines");
}

// ---- the library ----

namespace {

/// Factors nearer to 1 are within what times of one trace vary by, and what a fit of its links misses. Below 1 no
/// library is, since forms are the least that links allow, and none is as slow as beyond the second: there links or
/// sizes are something else than they are taken for. Both are judgement.
constexpr double told_apart = 1.1, most_plausible = 10;

/// PyTorch's ProcessGroupGloo all-reduces the whole buffer and keeps its part: twice the bytes of a reduce-scatter.
constexpr std::string_view without_scatter = "gloo";
constexpr double all_reduce_over_scatter = 2;

/// What groups of the traced job that lie as all workers of the cluster do went over.
std::optional<Link> traced_link(const Profile& profile, bool between) {
  std::optional<ShownLink> shown = between ? shown_network(profile) : shown_inside(profile);
  if (!shown && between) shown = shown_anywhere(profile);
  return shown ? std::optional(shown->link) : std::nullopt;
}

/// Traced and predicted seconds of the messages whose bytes govern.
struct Compared {
  double traced = 0, by_form = 0;
};

/// By operation, for the groups that lie between machines, or inside one, on links like `link`.
std::map<std::string, Compared> compared(const Cluster& cluster, const Profile& profile, const Link& link,
                                         bool between) {
  std::map<std::string, Compared> all;
  for (const TransferTimes& t : profile.transfers) {
    if ((between && t.within_machine()) || (!between && !t.within_machine())) continue;
    const std::optional<Operation> operation = operation_of(t.operation);
    const std::int64_t machines = between ? t.workers / std::max<std::int64_t>(1, t.per_machine) : 1;
    Cluster traced = bare_machines(cluster, t.workers, machines);
    traced.all_reduce = cluster.all_reduce;
    (between ? traced.network : traced.inside) = link;
    if (!between) traced.inside_mesh = 0;  // the link is as these groups reached it
    const Answer<CommunicationCost> cost = communication_cost(traced);
    if (!operation || !cost || !cost->defines(*operation)) continue;
    for (std::size_t i = 0; i < t.sizes.size(); ++i) {
      const Seconds by_form = (*cost)(*operation, t.sizes[i]);
      if (2 * cost->line(*operation).start_up > by_form) continue;
      Compared& sum = all[t.operation];
      sum.traced += t.times[i].value(), sum.by_form += by_form.value();
    }
  }
  return all;
}

/// By tables that the cluster reads for so many workers.
bool is_measured(const Cluster& cluster, std::string_view operation) {
  return std::ranges::any_of(cluster.tables, [&](const MeasuredCollective& t) {
    return t.operation == operation && t.workers == cluster.workers();
  });
}

bool runs(const Profile& profile, std::string_view library) {
  return std::ranges::any_of(profile.transfers, [&](const TransferTimes& t) { return t.library == library; });
}

}  // namespace

Cluster with_library_of(Cluster cluster, const Profile& profile) {
  const bool same = cluster.device.empty() || (profile.has_device() && same_device(cluster.device, profile.device));
  const CollectiveAlgorithm* algorithm = collective_algorithm(cluster.all_reduce);
  if (!same || !algorithm || algorithm->carries) return cluster;
  const auto is_said = [&](const std::string& operation) {
    return std::ranges::find(cluster.library, operation, &LibraryOperation::operation) != cluster.library.end();
  };
  const bool between = cluster.nodes > 1;
  const std::optional<Link> link = profile.ranks.empty() ? std::nullopt : traced_link(profile, between);
  std::map<std::string, Compared> all;
  if (link) all = compared(cluster, profile, *link, between);
  const auto factor_of = [&](const std::string& operation) {
    const auto found = all.find(operation);
    return found == all.end() ? 1.0 : found->second.traced / found->second.by_form;
  };
  std::map<std::string, double> factors;
  for (const auto& entry : all) factors[entry.first] = factor_of(entry.first);
  const bool scatters = !runs(profile, without_scatter) || factors.contains("reduce_scatter");
  if (!scatters) factors["reduce_scatter"] = all_reduce_over_scatter * factor_of("all_reduce");
  const auto named = std::ranges::find_if(profile.transfers, [](const TransferTimes& t) { return !t.library.empty(); });
  const std::string as_traced = (named == profile.transfers.end() ? "" : named->library + ", ") + "as traced";
  for (const auto& [operation, factor] : factors) {
    if (is_measured(cluster, operation) || is_said(operation)) continue;
    if (!(factor >= told_apart && factor <= most_plausible)) continue;
    const bool known = !scatters && operation == "reduce_scatter";
    cluster.library.push_back(
        {operation, factor, known ? std::string(without_scatter) + " does it as an all-reduce" : as_traced});
  }
  return cluster;
}

std::string library_in_words(const Cluster& cluster) {
  std::vector<LibraryOperation> library = cluster.library;
  std::erase_if(library, [&](const LibraryOperation& l) { return is_measured(cluster, l.operation); });
  if (library.empty() || cluster.workers() == 1) return {};
  const auto text = [](const LibraryOperation& l) {
    return l.operation + " " + fixed(l.times_as_long, 2) + " (" + l.provenance + ")";
  };
  return listed(library, text) + " times as long as by " + cluster.all_reduce;
}

Cluster with_workers_as_machines(Cluster cluster, const Profile& profile) {
  const std::optional<ShownLink> shown = shown_anywhere(profile);
  if (!shown) return cluster;
  forget_line(cluster, unsaid_network);
  cluster.network = shown->link;
  cluster.provenance.push_back("network: as if each worker were a machine, " + std::string(links_from_trace) + " (" +
                               shown->source + ")");
  return cluster;
}

Cluster with_links_of(Cluster cluster, const Profile& profile, std::string_view prefix) {
  cluster = with_library_of(std::move(cluster), profile);
  const bool same = cluster.device.empty() || !profile.has_device() || same_device(cluster.device, profile.device);
  if (is_unsaid(cluster, unsaid_inside)) {
    const std::string& device = cluster.device.empty() ? profile.device : cluster.device;
    const std::optional<ShownLink> shown = same ? shown_inside(profile) : std::nullopt;
    const std::optional<ShownLink> usual = shown ? std::nullopt : usual_inside(device);
    if (shown || usual) {
      forget_line(cluster, unsaid_inside);
      cluster.inside = (shown ? shown : usual)->link;
      cluster.inside_mesh = usual && cluster.devices_per_node <= usual->mesh ? usual->mesh : 0;
      cluster.provenance.push_back("inside: " + link_in_words(cluster.inside) + ", " +
                                   (shown ? std::string(links_from_trace) + " (" + shown->source + ")"
                                          : std::string(links_assumed_of) + device + " (" + usual->source + ")"));
    }
  }
  if (!is_unsaid(cluster, unsaid_network)) return cluster;
  if (const std::optional<ShownLink> shown = shown_network(profile)) {
    forget_line(cluster, unsaid_network);
    cluster.network = shown->link;
    cluster.provenance.push_back("network: " + link_in_words(cluster.network) + ", " + std::string(links_from_trace) +
                                 " (" + shown->source + ")");
    return cluster;
  }
  if (cluster.devices_per_node == 1 && !profile.has_device())
    cluster = with_workers_as_machines(std::move(cluster), profile);
  refuse_unsaid_network(cluster, prefix);
  return cluster;
}

}  // namespace stepcast
