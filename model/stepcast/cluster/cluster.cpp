// The invariants of a cluster, the shipped clusters, and clusters of another size.
#include <stepcast/base/embedded.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/carried.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/cluster/transport.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace stepcast {
namespace {

/// No machine room is larger; a count beyond it is a slip of the pen, and products stay far from overflow.
constexpr std::int64_t most_workers = 100'000'000;

/// Where an invariant is checked: the source and the JSON pointer of the value, which is only spelled out to refuse it.
/// A place refers to the one that it was made from.
class Place {
 public:
  explicit Place(std::string_view source) : source_(source) {}

  [[nodiscard]] Place at(std::string_view key) const { return {*this, key, 0}; }
  [[nodiscard]] Place at(std::size_t index) const { return {*this, {}, index}; }
  /// "cluster.json#/network/latency"
  [[nodiscard]] std::string text() const {
    if (!outer_) return std::string(source_) + "#";
    return outer_->text() + "/" + (key_.empty() ? std::to_string(index_) : std::string(key_));
  }
  [[noreturn]] void refuse(std::string expected, std::string found, std::string hint = {}) const {
    throw InputError(text(), std::move(expected), std::move(found), std::move(hint));
  }

 private:
  Place(const Place& outer, std::string_view key, std::size_t index) : outer_(&outer), key_(key), index_(index) {}
  const Place* outer_ = nullptr;
  std::string_view source_, key_;
  std::size_t index_ = 0;
};

void check_count(const Place& place, std::int64_t value, std::int64_t low) {
  if (value < low || value > most_workers) {
    place.refuse("a whole number from " + std::to_string(low) + " to " + std::to_string(most_workers),
                 std::to_string(value));
  }
}

template <class T>
void check_not_negative(const Place& place, T value, std::string_view what) {
  if (!std::isfinite(value.value()) || value.value() < 0) {
    place.refuse(std::string(what) + " of at least zero", std::to_string(value.value()));
  }
}

void check_link(const Place& place, const Link& link, bool optional) {
  check_not_negative(place.at("latency"), link.latency, "a latency");
  const double rate = link.bandwidth.value();
  if (optional && rate == 0) return;
  if (!std::isfinite(rate) || rate <= 0) {
    place.at("bandwidth")
        .refuse("a bandwidth above zero", rate == 0 ? "0 B/s" : std::to_string(rate) + " B/s",
                "nothing ever arrives over such a link");
  }
  constexpr double most = 1e18;  // no link of a thousand years is faster, and sums of such times stay numbers
  if (rate > most) place.at("bandwidth").refuse("a bandwidth of at most 1 EB/s", "more");
}

void check_factor(const Place& place, double factor) {
  if (!std::isfinite(factor) || factor < 1 || factor > 1000) {
    place.refuse("a factor from 1 (not at all) to 1000", std::to_string(factor));
  }
}

void check_share(const Place& place, double share, double low) {
  if (!(share >= low && share <= 1))
    place.refuse("a share from " + std::to_string(low) + " to 1", std::to_string(share));
}

void check_aggregation(const Place& place, const Aggregation& a) {
  const std::string_view programs[] = {"switchml", "atp", "sa_atp"};
  if (std::find(std::begin(programs), std::end(programs), a.program) == std::end(programs))
    place.at("program").refuse("switchml, atp or sa_atp", in_quotes(a.program));
  check_not_negative(place.at("payload"), a.payload, "a size");
  check_not_negative(place.at("header"), a.header, "a size");
  if (a.payload.value() == 0 && a.header.value() > 0)
    place.at("payload").refuse("the payload of packets with that header", "nothing");
  check_count(place.at("packets_outstanding"), a.packets_outstanding, 1);
  check_not_negative(place.at("round_trip"), a.round_trip, "a time");
  check_not_negative(place.at("line_rate"), a.line_rate, "a rate");
  check_not_negative(place.at("host_rate"), a.host_rate, "a rate");
  check_share(place.at("hit_fraction"), a.hit_fraction, 0);
  check_count(place.at("racks"), a.racks, 1);
  check_share(place.at("absorbed_share"), a.absorbed_share, 0);
}

void check_stragglers(const Place& place, const Stragglers& s, std::int64_t workers) {
  std::int64_t slow = 0;
  const Place all = place.at("slow");
  for (std::size_t i = 0; i < s.slow.size(); ++i) {
    const Place at = all.at(i);
    check_count(at.at("workers"), s.slow[i].workers, 1);
    check_factor(at.at("compute_factor"), s.slow[i].compute_factor);
    check_not_negative(at.at("delay"), s.slow[i].delay, "a time");
    check_share(at.at("link_share"), s.slow[i].link_share, 1e-6);
    slow += s.slow[i].workers;
  }
  if (slow > workers)
    all.refuse("at most as many slow workers as there are: " + std::to_string(workers), std::to_string(slow));
  const bool random = s.jitter.distribution != Jitter::Distribution::none;
  // More than that is no jitter: a normal distribution would make times negative.
  if (!(s.jitter.relative >= 0 && s.jitter.relative <= 0.5) || random != (s.jitter.relative > 0))
    place.at("jitter").refuse("a relative spread above 0, at most 0.5", std::to_string(s.jitter.relative));
}

void check_host(const Place& place, const Host& h) {
  check_not_negative(place.at("memory"), h.memory, "a size");
  check_not_negative(place.at("copies"), h.copies, "a rate");
  check_count(place.at("devices"), h.devices, 0);
  constexpr double least = 1e3, most = 1e15;
  if (h.copies.value() > 0 && h.copies.value() < least)
    place.at("copies").refuse("a rate of at least 1 kB/s", exact_text_of(h.copies));
  if (h.updates != 0 && !(h.updates >= least && h.updates <= most))
    place.at("updates").refuse("parameters a second, from 1e3 to 1e15", large_number_text(h.updates));
}

void check_transport(const Place& place, const Transport& t) {
  constexpr double most = 0.9;  // beyond it no transport makes progress
  for (const auto& [key, share] : {std::pair{"loss", t.loss}, std::pair{"stalls", t.stalls}})
    if (!(share >= 0 && share <= most)) place.at(key).refuse("a share from 0 to 0.9", std::to_string(share));
  if (!(t.timeout > Seconds(0) && t.timeout <= Seconds(3600)))
    place.at("rto").refuse("a time above zero, at most an hour", text_of(t.timeout));
  if (!(t.packet.value() >= 64 && t.packet.value() <= 1e6))
    place.at("packet").refuse("a size from 64 B to 1 MB", std::to_string(t.packet.value()));
  if (!(t.oversubscription >= 0.01 && t.oversubscription <= 1000))
    place.at("oversubscription").refuse("a factor from 0.01 to 1000", std::to_string(t.oversubscription));
  for (const auto& [key, count] : {std::pair{"flows", t.flows}, std::pair{"paths", t.paths}})
    if (count < 1 || count > 1000) place.at(key).refuse("a whole number from 1 to 1000", std::to_string(count));
  check_not_negative(place.at("flow_rate"), t.flow_rate, "a rate");
  if (!(t.background >= 0 && t.background <= 0.99))
    place.at("background").refuse("a share from 0 to 0.99", std::to_string(t.background));
}

void check_nccl(const Place& place, const NcclTuning& t) {
  const std::pair<const char*, double> factors[] = {{"launch", t.launch},
                                                    {"simple_hop", t.simple_hop},
                                                    {"ll", t.ll},
                                                    {"ll_between", t.ll_between},
                                                    {"ll128", t.ll128},
                                                    {"tree", t.tree},
                                                    {"all_to_all", t.all_to_all},
                                                    {"send", t.send}};
  for (const auto& [key, factor] : factors)
    if (!(factor >= 1e-3 && factor <= 1e3)) place.at(key).refuse("a factor from 0.001 to 1000", std::to_string(factor));
  for (const auto& [key, share] :
       {std::pair{"nvls", t.nvls}, std::pair{"collnet", t.collnet}, std::pair{"pair", t.pair}})
    if (!(share >= 0 && share <= 100)) place.at(key).refuse("a share from 0 (none) to 100", std::to_string(share));
  check_not_negative(place.at("peer"), t.peer, "a time");
  if (!t.algo.empty()) static_cast<void>(nccl_algorithms_of(t.algo, place.at("NCCL_ALGO").text()));
  if (!t.proto.empty()) static_cast<void>(nccl_protocols_of(t.proto, place.at("NCCL_PROTO").text()));
}

void check_torus(const Place& place, const Level& level) {
  if (level.torus.empty()) return;
  if (level.torus.size() > most_torus_sides)
    place.refuse("at most " + std::to_string(most_torus_sides) + " dimensions", std::to_string(level.torus.size()));
  std::int64_t units = 1;
  for (std::size_t i = 0; i < level.torus.size(); ++i) {
    check_count(place.at(i), level.torus[i].units, 1);
    units = std::min(most_workers, units * level.torus[i].units);
  }
  if (units != level.units)
    place.refuse("dimensions whose product is its units, " + std::to_string(level.units), std::to_string(units));
}

void check_levels(const Place& place, const Cluster& c) {
  if (c.levels.size() > most_levels)
    place.refuse("at most " + std::to_string(most_levels) + " levels", std::to_string(c.levels.size()));
  for (std::size_t i = 0; i < c.levels.size(); ++i) {
    const Level& level = c.levels[i];
    const Place at = place.at(i);
    if (level.name.empty()) at.at("name").refuse("a name such as 'spine'", "none");
    for (std::size_t k = 0; k < i; ++k)
      if (c.levels[k].name == level.name)
        at.at("name").refuse("a name of its own for each level", in_quotes(level.name));
    check_count(at.at("units"), level.units, 1);
    if (i == 0) {
      if (level != Level{level.name, level.units, {}, {}, 1, 0, level.torus})
        at.refuse(
            "name, units and torus alone: the first level joins machines over their own cards, which 'network' "
            "describes",
            "more than that",
            "a level above it can be slower or oversubscribed; what others take of the cards is transport.background");
      check_torus(at.at("torus"), level);
      continue;
    }
    if (!level.torus.empty()) at.at("torus").refuse("a torus at the first level alone", "one above it");
    check_link(at, {level.latency, level.bandwidth}, false);
    check_factor(at.at("oversubscription"), level.oversubscription);
    if (!(level.background >= 0 && level.background <= 0.99))
      at.at("background").refuse("a share from 0 to 0.99", std::to_string(level.background));
  }
  if (c.nodes > most_machines_of(c.levels))
    place.refuse("levels that join all " + std::to_string(c.nodes) + " machines",
                 std::to_string(most_machines_of(c.levels)) + " machines at most",
                 "the outermost level joins more units, or there is another one above it");
}

void check_table(const Place& place, const MeasuredCollective& table) {
  if (!operation_of(table.operation))
    place.at("operation").refuse("an operation such as 'all_reduce'", in_quotes(table.operation));
  check_count(place.at("workers"), table.workers, 1);
  check_count(place.at("devices_per_process"), table.devices_per_process, 1);
  if (table.nodes != 0) check_count(place.at("nodes"), table.nodes, 1);
  if (table.nodes > table.workers || (table.nodes > 0 && table.workers % table.nodes != 0))
    place.at("nodes").refuse("machines of equally many devices, " + std::to_string(table.workers) + " in all",
                             std::to_string(table.nodes));
  if (table.sizes.empty()) place.at("sizes_bytes").refuse("at least one size", "none");
  if (table.sizes.size() != table.times.size()) {
    place.at("times_s").refuse(std::to_string(table.sizes.size()) + " times, one for each size",
                               std::to_string(table.times.size()));
  }
  for (std::size_t i = 0; i < table.sizes.size(); ++i) {
    const double size = table.sizes[i].value(), time = table.times[i].value();
    if (!std::isfinite(size) || size <= 0 || (i > 0 && size <= table.sizes[i - 1].value())) {
      place.at("sizes_bytes").at(i).refuse("positive sizes in increasing order", std::to_string(size));
    }
    if (!std::isfinite(time) || time <= 0) place.at("times_s").at(i).refuse("a time above zero", std::to_string(time));
  }
}

void check_library(const Place& place, const std::vector<LibraryOperation>& library) {
  for (std::size_t i = 0; i < library.size(); ++i) {
    const std::string& operation = library[i].operation;
    if (!operation_of(operation))
      place.at(i).at("operation").refuse("an operation such as 'reduce_scatter'", in_quotes(operation));
    for (std::size_t k = 0; k < i; ++k)
      if (library[k].operation == operation)
        place.at(i).at("operation").refuse("each operation once", in_quotes(operation) + " again");
    const double factor = library[i].times_as_long;
    if (!(factor >= 1e-3 && factor <= 1e3))
      place.at(i).at("times_as_long").refuse("a factor from 0.001 to 1000", std::to_string(factor));
  }
}

void check_algorithm(const Place& place, const std::string& name) {
  if (name == "table" || collective_algorithm(name)) return;
  std::vector<std::string> known{"table"};
  for (const CollectiveAlgorithm& a : collective_algorithms()) known.emplace_back(a.name);
  place.refuse("a collective algorithm (" + listed(known) + ")", in_quotes(name), did_you_mean(name, known));
}

}  // namespace

Cluster checked(Cluster cluster, std::string_view source) {
  const Place top(source);
  check_count(top.at("nodes"), cluster.nodes, 1);
  check_count(top.at("devices_per_node"), cluster.devices_per_node, 1);
  if (cluster.workers() > most_workers) {
    top.refuse("at most " + std::to_string(most_workers) + " devices in all", std::to_string(cluster.workers()));
  }
  check_count(top.at("nics_per_node"), cluster.nics_per_node, 1);
  check_count(top.at("servers"), cluster.servers, 0);
  check_not_negative(top.at("device_memory"), cluster.device_memory, "a size");
  check_link(top.at("inside"), cluster.inside, false);
  if (cluster.inside_mesh != 0 && (cluster.inside_mesh < 2 || cluster.inside_mesh < cluster.devices_per_node))
    top.at("inside_mesh").refuse("2 devices or more, and all of a machine", std::to_string(cluster.inside_mesh));
  check_link(top.at("network"), cluster.network, false);
  check_levels(top.at("levels"), cluster);
  check_link(top.at("server_link"), cluster.server_link, true);
  check_not_negative(top.at("server_local_rate"), cluster.server_local_rate, "a rate");
  check_not_negative(top.at("server_staging_rate"), cluster.server_staging_rate, "a rate");
  check_not_negative(top.at("server_sum_rate"), cluster.server_sum_rate, "a rate");
  check_not_negative(top.at("server_rate"), cluster.server_rate, "a rate");
  check_not_negative(top.at("message_overhead"), cluster.message_overhead, "a time");
  check_algorithm(top.at("all_reduce"), cluster.all_reduce);
  for (std::size_t i = 0; i < cluster.tables.size(); ++i) check_table(top.at("tables").at(i), cluster.tables[i]);
  check_library(top.at("library"), cluster.library);
  check_nccl(top.at("nccl"), cluster.nccl);
  const Place contention = top.at("contention");
  check_factor(contention.at("inside_under_compute"), cluster.contention.inside_under_compute);
  check_factor(contention.at("network_under_compute"), cluster.contention.network_under_compute);
  check_factor(contention.at("latency_under_compute"), cluster.contention.latency_under_compute);
  check_factor(contention.at("compute_under_communication"), cluster.contention.compute_under_communication);
  if (cluster.aggregation) check_aggregation(top.at("aggregation"), *cluster.aggregation);
  if (cluster.overlay) {
    cluster.overlay = checked(*std::move(cluster.overlay), std::string(source) + "#/overlay");
    const auto agents = static_cast<std::int64_t>(cluster.overlay->agents.size());
    if (agents != cluster.workers())
      top.at("overlay").at("agents").refuse("one agent for each worker (" + std::to_string(cluster.workers()) + ")",
                                            std::to_string(agents));
  }
  check_stragglers(top.at("stragglers"), cluster.stragglers, cluster.workers());
  check_transport(top.at("transport"), cluster.transport);
  check_host(top.at("host"), cluster.host);
  if (!std::isfinite(cluster.relative_error) || cluster.relative_error < 0) {
    top.at("relative_error").refuse("a relative error of at least zero", std::to_string(cluster.relative_error));
  }
  return cluster;
}

double& background_at(Cluster& c, std::size_t level) {
  return level == 0 ? c.transport.background : c.levels[level].background;
}
double background_at(const Cluster& c, std::size_t level) {
  return level == 0 ? c.transport.background : c.levels[level].background;
}

std::int64_t most_machines_of(const std::vector<Level>& levels) {
  if (levels.empty()) return most_workers;
  std::int64_t machines = 1;
  for (const Level& level : levels) machines = std::min(most_workers, machines * std::min(level.units, most_workers));
  return machines;
}

double Stragglers::least_link_share() const {
  double least = 1;
  for (const SlowWorkers& s : slow) least = std::min(least, s.link_share);
  return least;
}

const std::vector<Cluster>& shipped_clusters() {
  static const std::vector<Cluster> clusters = [] {
    std::vector<Cluster> all;
    for (const EmbeddedFile& file : shipped_cluster_texts()) {
      all.push_back(cluster_of_json(file.text, std::string(file.name) + ".json"));
    }
    return all;
  }();
  return clusters;
}

const Cluster* shipped_cluster(std::string_view name) {
  const auto& all = shipped_clusters();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Cluster& c) { return c.name == name; });
  return found == all.end() ? nullptr : &*found;
}

/// Devices of each machine that a job of several machines takes, 0: they do not go up. Racks that are one machine
/// (NVL72) are used in part, all alike and most of each; of smaller machines all devices are.
static std::int64_t devices_taken(std::int64_t workers, std::int64_t per_node) {
  constexpr std::int64_t small = 8;
  if (workers % per_node == 0) return per_node;
  if (per_node <= small) return 0;
  for (std::int64_t machines = workers / per_node + 1; 2 * workers > machines * per_node; ++machines)
    if (workers % machines == 0) return workers / machines;
  return 0;
}

Host host_of(const Cluster& c) {
  Host h = c.host;
  if (h.copies == BytesPerSecond(0)) h.copies = usual_host.copies;
  if (h.updates == 0) h.updates = usual_host.updates;
  return h;
}

std::int64_t devices_of_host(const Cluster& c) {
  const std::int64_t of_machine = std::min(c.devices_per_node, c.workers());
  return c.host.devices > 0 ? std::min(c.host.devices, of_machine) : of_machine;
}

Link inside_of(const Cluster& cluster, std::int64_t devices) {
  const std::int64_t mesh = cluster.inside_mesh;
  if (mesh < 2 || devices < 2 || devices >= mesh) return cluster.inside;
  return {cluster.inside.latency,
          cluster.inside.bandwidth * (static_cast<double>(devices - 1) / static_cast<double>(mesh - 1))};
}

Answer<Cluster> resized(Cluster cluster, std::int64_t workers) {
  if (workers < 1 || workers > most_workers) {
    return Inapplicable{"a cluster has between 1 and " + std::to_string(most_workers) + " workers, not " +
                        std::to_string(workers)};
  }
  if (workers == cluster.workers()) return cluster;
  if (cluster.overlay)
    return Inapplicable{"its overlay connects " + counted(cluster.workers(), "agent") + ", which no other number of " +
                        "workers fits"};
  const std::int64_t all = cluster.devices_per_node, per_node = workers > all ? devices_taken(workers, all) : all;
  if (per_node == 0) {
    return Inapplicable{std::to_string(workers) + " workers are no whole number of machines with " +
                        std::to_string(all) + " devices each"};
  }
  if (const std::int64_t most = most_machines_of(cluster.levels); workers / std::min(workers, per_node) > most)
    return Inapplicable{"its levels join at most " + counted(most, "machine") + ", not " +
                        std::to_string(workers / per_node)};
  const std::int64_t nodes_before = cluster.nodes;
  // Tables keep the machines that they were measured on.
  for (MeasuredCollective& table : cluster.tables) table.nodes = nodes_of(table, cluster);
  cluster.devices_per_node = std::min(workers, per_node);
  cluster.nodes = workers / cluster.devices_per_node;
  if (per_node < all) {
    cluster.nics_per_node = std::max<std::int64_t>(1, cluster.nics_per_node * per_node / all);
    cluster.provenance.push_back("of each machine " + std::to_string(per_node) + " of its " + std::to_string(all) +
                                 " devices are used");
  }
  // A smaller cluster keeps the stragglers that fit in.
  std::int64_t left = workers;
  for (SlowWorkers& s : cluster.stragglers.slow) {
    s.workers = std::min(s.workers, left);
    left -= s.workers;
  }
  std::erase_if(cluster.stragglers.slow, [](const SlowWorkers& s) { return s.workers == 0; });
  // Extra server machines come per worker machine, as in the deployments that have them, unless somebody counted them.
  if (cluster.servers > 0 && !cluster.servers_stay) {
    const double per_machine = static_cast<double>(cluster.servers) / static_cast<double>(nodes_before);
    cluster.servers = std::max<std::int64_t>(1, std::llround(per_machine * static_cast<double>(cluster.nodes)));
  }
  return cluster;
}

Cluster cluster_of_flags(std::int64_t workers, std::int64_t per_node, std::string_view network) {
  const Place flags("flags");
  if (workers < 1 || workers > most_workers) {
    throw InputError("--workers", "a whole number from 1 to " + std::to_string(most_workers), std::to_string(workers));
  }
  if (per_node < 1) throw InputError("--per-node", "a whole number of at least 1", std::to_string(per_node));
  if (workers > per_node && workers % per_node != 0) {
    throw InputError("--workers", "a multiple of the devices per machine (" + std::to_string(per_node) + ")",
                     std::to_string(workers));
  }
  Cluster cluster;
  if (const Cluster* shipped = shipped_cluster(network)) {
    cluster = *shipped;
    cluster.servers = 0;
    cluster.provenance.push_back("links of the shipped cluster '" + shipped->name + "'; machines from flags");
  } else {
    // A name that is neither is most likely a misspelt cluster.
    const bool quantity =
        names_bandwidth(network) ||
        (!network.empty() && (network.front() == '.' || network.front() == '+' || network.front() == '-' ||
                              std::isdigit(static_cast<unsigned char>(network.front()))));
    if (!quantity) {
      std::vector<std::string> names;
      for (const Cluster& c : shipped_clusters()) names.push_back(c.name);
      for (const char* generation : {"EDR", "HDR", "NDR", "XDR"}) names.emplace_back(generation);
      throw InputError("--network", "a bandwidth such as '25 Gb/s', '10GbE' or 'NDR', or the name of a shipped cluster",
                       in_quotes_or_nothing(network), did_you_mean(network, names));
    }
    const BytesPerSecond nominal = bandwidth_of(network, "--network");
    const bool fast = nominal >= gigabits_per_second(100);
    cluster.network = {microseconds(fast ? 5 : 10), nominal * goodput_of_tcp};
    cluster.inside = {microseconds(5), BytesPerSecond(20e9)};
    cluster.message_overhead = microseconds(20);
    cluster.server_sum_rate = BytesPerSecond(33e9);
    cluster.all_reduce = "ring_or_tree";
    cluster.provenance = {"network: " + std::string(network) +
                              " as given; assumed: goodput 94 % of nominal (TCP over 1500-byte frames), " +
                              (fast ? "5 us a step (RDMA)" : "10 us a step (TCP)"),
                          "network cards: assumed one a machine",
                          std::string(unsaid_inside),
                          "message overhead: assumed 20 us a collective (launch)",
                          "server_sum_rate: assumed 33 GB/s (two reads and a write at 100 GB/s of a socket's memory)",
                          "all-reduce: assumed the faster of ring and tree at each size",
                          "relative error: assumed 15 %, for links that nobody measured",
                          std::string(unsaid_contention)};
    cluster.relative_error = 0.15;
  }
  cluster.devices_per_node = std::min(workers, per_node);
  cluster.nodes = workers / cluster.devices_per_node;
  cluster.name =
      std::to_string(cluster.nodes) + "x" + std::to_string(cluster.devices_per_node) + " over " + std::string(network);
  return checked(std::move(cluster), "flags");
}

}  // namespace stepcast
