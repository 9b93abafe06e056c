#pragma once
// Room cluster: machines, links and stragglers, and how long a collective takes on them.
//
//   machine 0: device = device = device = device       = the link inside
//                   |  network card
//               the network
//                   |
//   machine 1: device = device = device = device
//
// and beyond, where it has levels: machines under a leaf or on a rail, leaves under a spine, pods, sites.
//
// It may include base, encodings, profile, roofline and overlay.
//
// Cluster: the machines, their links, and what is known of the collectives that run on them.
//
// A cluster is homogeneous: `nodes` machines with `devices_per_node` devices each, one link class inside a machine and
// one between machines. A link is a start-up latency per step and a bandwidth per direction; a link of the network is
// shared by all devices of its node unless `nics_per_node` says that there are several. `levels` says how the network
// between machines is built, from the inside out; without it all machines reach one another alike. Machines fill one
// unit of a level after the other. Measured size -> time tables,
// if present, take precedence over closed forms. Invariants: counts >= 1, bandwidths > 0, latencies >= 0; every number
// says where it comes from (`provenance`). What some workers do worse than the others is said by `stragglers`; a switch
// that adds up gradients is there only if `aggregation` says so; packets are lost if `transport` says so. Not modelled:
// routing (but for the strategy overlay: overlay/overlay.hpp; uplinks are used evenly), congestion between jobs beyond
// the share that they take (`Transport::background` of the cards, `Level::background` of uplinks; of a second job
// whose plan is known `beside` says what it is), machines with different numbers of devices; of unequal links of a
// level, that a job could lie on the fast ones alone.
//
// Clusters as JSON are read and written in json.cpp.
#include <stepcast/base/error.hpp>
#include <stepcast/base/units.hpp>
#include <stepcast/cluster/nccl_tuning.hpp>
#include <stepcast/overlay/overlay.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct Link {
  Seconds latency;           ///< start-up time of one communication step
  BytesPerSecond bandwidth;  ///< per direction, as reached by the transport (goodput)
};

/// One dimension of a torus. A dimension of two has one link, the same in both directions.
struct TorusSide {
  std::int64_t units = 1;
  bool closed = true;  ///< the last is linked with the first; false: a line, as in a mesh
  bool operator==(const TorusSide&) const = default;
};
inline constexpr std::size_t most_torus_sides = 8;

/// One level of the network between machines: it joins `units` of what is below, which are machines at the first level.
/// Each of these units has its uplinks, which carry what leaves it: of every network card below `bandwidth`, divided by
/// `oversubscription`. So the uplinks of 32 machines with one card of 50 GB/s at a spine with oversubscription 2 carry
/// 800 GB/s. Of the first level only name and units count: what leaves a machine is `Cluster::network`. Its machines
/// may form a torus without switches, each with a link of that bandwidth to both neighbours along every dimension, one
/// `Cluster::network` latency a hop; ranks fill the first dimension first.
struct Level {
  std::string name;  ///< "rail", "leaf", "spine", "pod"
  std::int64_t units = 1;
  Seconds latency;                 ///< start-up time of a step that crosses it, instead of that of the levels below
  BytesPerSecond bandwidth;        ///< of one network card of a machine into this level, as reached by the transport
  double oversubscription = 1;     ///< bandwidth of all cards below over that of the uplinks
  double background = 0;           ///< share of the uplinks that other jobs take
  std::vector<TorusSide> torus{};  ///< of the first level, product `units`; empty: a switch
  bool operator==(const Level&) const = default;
};
inline constexpr std::size_t most_levels = 8;

/// A measured collective on `workers` devices: time against size, sizes strictly increasing.
struct MeasuredCollective {
  std::string operation = "all_reduce";
  std::int64_t workers = 0;
  std::vector<Bytes> sizes;  ///< full buffer per worker
  std::vector<Seconds> times;
  std::string provenance;
  std::int64_t nodes = 0;  ///< machines that they were on; 0: as many as the cluster has for so many workers
  std::int64_t devices_per_process = 1;  ///< of the benchmark: several are launched on one after the other
};

/// An operation that a communication library carries out in another time than the form of an algorithm says, on the
/// same links: gloo reduces and scatters by an all-reduce. It holds for all sizes, and not where the operation was
/// measured.
struct LibraryOperation {
  std::string operation;     ///< "reduce_scatter"
  double times_as_long = 1;  ///< as the form says
  std::string provenance;
};

/// How much tasks slow one another down while they overlap; 1 = not at all. Calibrated, not universal.
struct Contention {
  double inside_under_compute = 1;         ///< factor on the time per byte of links inside a machine while it computes
  double network_under_compute = 1;        ///< the same for links between machines
  double latency_under_compute = 1;        ///< factor on the start-up time of a step: launches wait for busy devices
  double compute_under_communication = 1;  ///< factor on compute time while a transfer runs
};

/// A programmable switch that connects the machines and adds up gradients while they pass (collectives switchml, atp,
/// sa_atp). What a program fixes is zero here, unless the cluster's own differs.
struct Aggregation {
  std::string program = "switchml";        ///< the collective that it runs; a plan may name another one
  Bytes payload, header;                   ///< values and all else of a packet; both 0: as the program's sources say
  std::int64_t packets_outstanding = 256;  ///< the most that a worker has under way (switchml: one a slot)
  Seconds round_trip;                      ///< from worker to switch and back; 0: twice the latency of `network`
  /// What a machine's cards carry of such packets, headers included; 0: the goodput of `network`. Transports that
  /// reach less than the cards can (NCCL over TCP at 100 Gb/s) do not slow the packets of a switch.
  BytesPerSecond line_rate;
  BytesPerSecond host_rate;   ///< at which a machine scales floats to integers and back; 0: never the bottleneck
  double hit_fraction = 1;    ///< atp: share of the packets that find an aggregator; the others go on to the server
  std::int64_t racks = 1;     ///< whose own switches add up first
  double absorbed_share = 0;  ///< sa_atp: share of a straggler's remaining traffic that leaders take over
  /// sa_atp: what a machine sends, in units of its own gradients, where helpers are predicted apart from the one that
  /// they help (prediction/leaders.hpp): below 1 of the latter, above 1 of a leader. Never read from a file.
  double carried = 1;
};

/// Workers that are slower than the others, all in the same way.
struct SlowWorkers {
  std::int64_t workers = 1;
  double compute_factor = 1;  ///< on every compute time
  Seconds delay{};            ///< how much later each step starts
  double link_share = 1;      ///< the share of a healthy link's bandwidth: between machines, or inside the only one
};

/// How packets fare between machines. Nothing is lost by default. A machine's own counters tell the first two
/// (`nstat`): TcpRetransSegs and TcpExtTCPTimeouts, each over TcpOutSegs.
struct Transport {
  double loss = 0;              ///< share of the packets that are lost and sent again
  double stalls = 0;            ///< time-outs per packet sent: losses that nothing but the sender's clock repairs
  Seconds timeout{0.2};         ///< the wait for the first of them (Linux: at least 200 ms); doubles each time
  Bytes packet{1500};           ///< as the network carries it
  double oversubscription = 1;  ///< bandwidth of all hosts over that of all uplinks
  std::int64_t flows = 1;       ///< that carry one message of a machine at the same time, over each of its cards
  std::int64_t paths = 1;       ///< equal uplinks among which flows are spread
  bool spraying = false;        ///< packet by packet over all paths; false: each flow is hashed to one
  /// What one flow reaches at most, such as one TCP connection on one core or under a cloud's limit; 0: what there is.
  BytesPerSecond flow_rate{};
  double background = 0;  ///< share of every machine's cards that other jobs take
  bool operator==(const Transport&) const = default;
};

/// Another job that shares a level of the network, whose share of it stands in `background` (sharing/second_job.hpp).
/// Never read from a file.
struct SecondJob {
  std::string model, plan;
  std::string level;    ///< that both share; "network" where it has no levels
  Seconds step, sends;  ///< alone: its step, and of that the time for which its messages take all of the level
  double share = 0;     ///< of what others leave of the level: what it takes while this job sends
  /// Of one plan of this job: its step without the second one, and if both always sent at the same time; and what the
  /// step of the second job becomes beside it. 0: of no plan in particular, or not known.
  Seconds alone{}, at_most{}, slowed{};
};

/// Random slowness of every worker in every step, independent of one another.
struct Jitter {
  enum class Distribution : std::uint8_t { none, normal, exponential };
  Distribution distribution = Distribution::none;
  double relative = 0;  ///< to the compute time: standard deviation (normal) or mean of what is added (exponential)
};

struct Stragglers {
  std::vector<SlowWorkers> slow;
  Jitter jitter;
  [[nodiscard]] bool none() const { return slow.empty() && jitter.distribution == Jitter::Distribution::none; }
  /// The smallest share of a healthy link that a worker has.
  [[nodiscard]] double least_link_share() const;
};

/// What a machine's own processors and memory do for its devices, where a layout leaves state with them. A rack that is
/// one machine to its links (NVL72) has several hosts, each with so many `devices`.
struct Host {
  Bytes memory;              ///< of a host; 0: not known
  BytesPerSecond copies;     ///< between it and one device while all copy, in either direction
  double updates = 0;        ///< parameters a second that a host's processors update with Adam
  std::int64_t devices = 0;  ///< that share it; 0: all of a machine
  bool operator==(const Host&) const = default;
};
/// Where nobody says more: pinned memory over sixteen lanes of PCIe 4.0 (A100 and RTX 4090: 24 to 26 GB/s), and the
/// geometric mean of ten published rates of whole machines (validation/README.md, "Hosts").
inline constexpr Host usual_host{Bytes(0), BytesPerSecond(25e9), 1.8e9};

struct Cluster {
  std::string name;
  std::int64_t nodes = 1;
  std::int64_t devices_per_node = 1;
  std::string device;   ///< "" = the traced device
  Bytes device_memory;  ///< 0 = unknown
  Link inside;          ///< between devices of one node
  /// So many devices of a node have a link to each other one, and `inside` is that of all links of one (MI300X: 7 of
  /// 64 GB/s each); a group of fewer has those among itself. 0: any two reach all of `inside`, through switches.
  std::int64_t inside_mesh = 0;
  Link network;  ///< between nodes, per network card
  std::int64_t nics_per_node = 1;
  std::vector<Level> levels;  ///< how the network joins the machines, from the inside out; none: all alike
  Link server_link;           ///< goodput of a parameter-server connection; bandwidth 0 = as `network`
  std::int64_t servers = 0;   ///< extra server machines that may be used; 0 = none
  bool servers_stay = false;  ///< as many for any number of machines; else so many for each
  /// Bus bandwidth of the reduction (and broadcast) inside a machine before a push (after a pull); 0 = that of
  /// `inside`.
  BytesPerSecond server_local_rate;
  BytesPerSecond server_staging_rate;  ///< copies between device and host memory, on the same links; 0 = free
  BytesPerSecond server_sum_rate;      ///< bytes that one server adds up per second; 0 = never the bottleneck
  BytesPerSecond server_rate;          ///< of all connections of one server together; 0 = as a worker machine's cards
  Seconds message_overhead;            ///< host cost of launching (and negotiating) one collective or message
  std::string all_reduce = "ring";     ///< where no table fits: a name of collectives.inc, or "table"
  std::vector<MeasuredCollective> tables;
  std::vector<LibraryOperation> library;  ///< what differs from the forms of `all_reduce`; no operation twice
  NcclTuning nccl;                        ///< what the algorithm `nccl` reaches of its links
  Contention contention;
  std::optional<Aggregation> aggregation;  ///< nothing: the switches only forward
  std::optional<OverlayNetwork> overlay;   ///< who mixes models with whom, over which network (strategy overlay)
  Stragglers stragglers;
  Host host;                                  ///< 0: not known (`host_of`)
  Transport transport;                        ///< what the network does to the packets of every plan (transport.hpp)
  std::shared_ptr<const SecondJob> beside{};  ///< whose share is in a `background`; null: it is as somebody said
  double relative_error = 0;            ///< rms residual of the fit behind the numbers, 0 = unknown; widens intervals
  std::vector<std::string> provenance;  ///< one line per source

  [[nodiscard]] constexpr std::int64_t workers() const { return nodes * devices_per_node; }
};

/// Returns `cluster` if it satisfies the invariants above, else throws InputError.
[[nodiscard]] Cluster checked(Cluster cluster, std::string_view source);
/// JSON with schema "stepcast.cluster/1"; quantities are unit strings ("25 Gb/s"). Reads back to the same value.
[[nodiscard]] std::string json_of(const Cluster&);
/// Throws InputError (JSON pointer, suggestion for unknown keys).
[[nodiscard]] Cluster cluster_of_json(std::string_view text, std::string_view source);

/// Clusters that the program carries (profiles/clusters/*.json).
[[nodiscard]] const std::vector<Cluster>& shipped_clusters();
[[nodiscard]] const Cluster* shipped_cluster(std::string_view name);
/// With the rates of `usual_host` where the cluster says none.
[[nodiscard]] Host host_of(const Cluster&);
/// Devices that share a host.
[[nodiscard]] std::int64_t devices_of_host(const Cluster&);
/// The same cluster with another number of devices: whole nodes when `workers` > devices_per_node (else Inapplicable
/// unless divisible; of racks that are one machine, NVL72, an equal part of each), part of one node below. Tables of
/// other world sizes stay and are used where they match, or where the algorithm carries them on.
[[nodiscard]] Answer<Cluster> resized(Cluster cluster, std::int64_t workers);
/// What other jobs take of a level, an index into `levels`: of the first one, and of a network without levels, what
/// they take of the machines' cards.
[[nodiscard]] double& background_at(Cluster&, std::size_t level);
[[nodiscard]] double background_at(const Cluster&, std::size_t level);
/// Machines that the levels can join: as many as one likes without levels.
[[nodiscard]] std::int64_t most_machines_of(const std::vector<Level>&);
/// The link inside a node as a group of so many of its devices reaches it: two of a mesh of eight have a seventh of the
/// rate. Not modelled: other paths than the direct link.
[[nodiscard]] Link inside_of(const Cluster&, std::int64_t devices);
/// A cluster from flags: `network` is a bandwidth ("25 Gb/s", "10GbE") or the name of a shipped cluster's network.
[[nodiscard]] Cluster cluster_of_flags(std::int64_t workers, std::int64_t per_node, std::string_view network);

}  // namespace stepcast
