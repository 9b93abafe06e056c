// Links of a trace: rings that were timed give back their links, waiting does not slow them, and what was said stays.
#include <stepcast/base/error.hpp>
#include <stepcast/cluster/closed_forms.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/links_of_trace.hpp>

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

namespace stepcast {
namespace {

const std::vector<Bytes> sizes{Bytes(64e3), Bytes(1e6), Bytes(25e6), Bytes(200e6)};

/// Times of rings on such a link, by the closed forms that predictions use.
TransferTimes ring_times_on(Link link, const std::string& operation, std::int64_t workers, std::int64_t per_machine) {
  TransferTimes t{operation, workers, per_machine, sizes, {}};
  const CostLine half = ring_half(workers, link);
  for (const Bytes size : sizes) t.times.push_back(operation == "all_reduce" ? half(size) * 2 : half(size));
  return t;
}

Profile traced(std::vector<TransferTimes> transfers) {
  Profile p;
  p.device = "NVIDIA A100-SXM4-80GB";
  p.transfers = std::move(transfers);
  return p;
}

const Link nvlink{microseconds(3), BytesPerSecond(210e9)}, fabric{microseconds(12), BytesPerSecond(40e9)};

void check_same(const std::optional<ShownLink>& shown, const Link& link) {
  REQUIRE(shown);
  CHECK(shown->link.latency.value() == doctest::Approx(link.latency.value()).epsilon(1e-6));
  CHECK(shown->link.bandwidth.value() == doctest::Approx(link.bandwidth.value()).epsilon(1e-6));
}

}  // namespace

TEST_CASE("links of a trace: rings give back the link that they were timed on, each place its own") {
  const Profile alone = traced({ring_times_on(nvlink, "all_reduce", 8, 8), ring_times_on(nvlink, "all_gather", 4, 4),
                                ring_times_on(fabric, "all_reduce", 16, 8)});
  check_same(shown_inside(alone), nvlink);
  check_same(shown_network(alone), fabric);
  Profile together = alone;
  together.ranks.resize(2);
  check_same(shown_inside(together), nvlink);
  check_same(shown_network(together), fabric);
}

TEST_CASE("links of a trace: whoever waited does not make the link of one rank slower") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> late(0, 5e-3);
  for (int round = 0; round < 20; ++round) {
    Profile p = traced({ring_times_on(nvlink, "all_reduce", 8, 8), ring_times_on(nvlink, "reduce_scatter", 8, 8)});
    for (Seconds& time : p.transfers[0].times) time += Seconds(late(random));
    p.transfers[0].times[1] = ring_times_on(nvlink, "all_reduce", 8, 8).times[1];
    check_same(shown_inside(p), nvlink);
  }
}

TEST_CASE("links of a trace: hosts of an unknown place are machines, devices are not") {
  Profile hosts;
  hosts.layers.resize(1);
  hosts.layers[0].forward.host = Seconds(0.1);
  TransferTimes t;
  t.operation = "all_reduce";
  t.workers = 2;
  t.sizes = {mebibytes(1), mebibytes(20)};
  t.times = {Seconds(0.01), Seconds(0.18)};
  hosts.transfers = {t};
  hosts.ranks.resize(2);
  REQUIRE(shown_anywhere(hosts));
  REQUIRE_FALSE(shown_network(hosts));
  ClusterDescription four{.workers = "4"};
  const Cluster linked = with_links_of(cluster_of(four), hosts);
  CHECK(linked.network.bandwidth.value() == doctest::Approx(shown_anywhere(hosts)->link.bandwidth.value()));
  CHECK(told_of(linked, "network: ").starts_with("from this trace"));
  Profile devices = hosts;
  devices.device = "NVIDIA A100-SXM4-80GB";
  CHECK_THROWS_AS((void)with_links_of(cluster_of(four), devices), InputError);
}

TEST_CASE("links of a trace: small messages, unknown places and traces without sizes tell nothing") {
  TransferTimes small = ring_times_on(nvlink, "all_reduce", 8, 8);
  small.sizes.resize(1), small.times.resize(1);  // 64 kB: nothing but latency
  CHECK(!shown_inside(traced({small})));
  CHECK(!shown_inside(traced({ring_times_on(nvlink, "all_reduce", 8, -1)})));
  CHECK(!shown_inside(traced({})));
  CHECK(!shown_network(traced({ring_times_on(nvlink, "all_reduce", 8, 8)})));
  CHECK(!shown_inside(traced({ring_times_on(nvlink, "broadcast", 8, 8)})));
}

TEST_CASE("links of a trace: large messages alone leave the latency as it usually is") {
  TransferTimes large = ring_times_on({microseconds(2.5), BytesPerSecond(200e9)}, "all_reduce", 8, 8);
  large.sizes.erase(large.sizes.begin(), large.sizes.begin() + 3);
  large.times.erase(large.times.begin(), large.times.begin() + 3);
  check_same(shown_inside(traced({large})), {microseconds(2.5), BytesPerSecond(200e9)});
}

TEST_CASE("links of a trace: flags come first, then the trace, then the device's name") {
  const Profile profile =
      traced({ring_times_on(nvlink, "all_reduce", 8, 8), ring_times_on(fabric, "all_reduce", 16, 8)});
  const ClusterDescription said{.workers = "16", .per_node = "8", .network = "100 Gb/s", .inside = "50GB/s"};
  const Cluster given = with_links_of(cluster_of(said), profile);
  CHECK(given.inside.bandwidth == BytesPerSecond(50e9));
  CHECK(told_of(given, "inside: ").empty());

  const Cluster from_trace = with_links_of(cluster_of({.workers = "16", .per_node = "8"}), profile);
  CHECK(from_trace.inside.bandwidth.value() == doctest::Approx(210e9));
  CHECK(from_trace.network.bandwidth.value() == doctest::Approx(40e9));
  CHECK(told_of(from_trace, "inside: ").starts_with("from this trace (4 sizes of all_reduce"));
  CHECK(told_of(from_trace, "network: ").starts_with(links_from_trace));
  CHECK(with_links_of(from_trace, traced({})).inside.bandwidth == from_trace.inside.bandwidth);  // once is enough
  CHECK(cluster_of_json(json_of(from_trace), "c").provenance == from_trace.provenance);

  const Cluster by_name = with_links_of(cluster_of({.workers = "8", .per_node = "8"}), traced({}));
  CHECK(by_name.inside.bandwidth == BytesPerSecond(185e9));
  CHECK(told_of(by_name, "inside: ") == "assumed of NVIDIA A100-SXM4-80GB (NVLink 3; measured)");

  Profile host = traced({});
  host.device.clear();
  const Cluster unsaid = with_links_of(cluster_of({.workers = "8", .per_node = "8"}), host);
  CHECK(is_unsaid(unsaid, unsaid_inside));
  CHECK(unsaid.inside.bandwidth == BytesPerSecond(20e9));
}

TEST_CASE("links of a trace: another device than the traced one has its own links") {
  Cluster cluster = cluster_of({.workers = "8", .per_node = "8"});
  cluster.device = "NVIDIA H100 80GB HBM3";
  const Profile a100 = traced({ring_times_on(nvlink, "all_reduce", 8, 8)});
  CHECK(with_links_of(cluster, a100).inside.bandwidth == BytesPerSecond(335e9));
}

TEST_CASE("links of a trace: several machines whose links nobody said are refused") {
  const Cluster cluster = cluster_of({.workers = "16", .per_node = "8"});
  CHECK_THROWS_WITH_AS((void)with_links_of(cluster, traced({})),
                       doctest::Contains("--network: expected the link between 2 machines"), InputError);
  CHECK_THROWS_WITH_AS((void)with_links_of(cluster, traced({}), ""),
                       doctest::Contains("network: expected the link between 2 machines"), InputError);
}

TEST_CASE("links of a trace: boards by name, never PCIe for one that is soldered down") {
  const auto rate = [](std::string_view name) {
    const std::optional<ShownLink> link = usual_inside(name);
    return link ? link->link.bandwidth.value() : 0;
  };
  for (const char* name :
       {"NVIDIA A100-SXM4-40GB", "NVIDIA A100-PG509-200", "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA B200",
        "NVIDIA GB200", "NVIDIA GH200 480GB", "AMD Instinct MI300X", "Tesla V100-SXM2-16GB", "a100-sxm4-80gb"})
    CHECK_MESSAGE(rate(name) > 80e9, name);
  for (const char* name : {"NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA RTX PRO 6000 Blackwell"})
    CHECK_MESSAGE((rate(name) > 20e9 && rate(name) < 30e9), name);
  for (const char* name : {"NVIDIA A100-PCIE-40GB", "Tesla V100-PCIE-16GB", "NVIDIA L40S", "", "unknown device"})
    CHECK_MESSAGE(rate(name) == 0, name);
}

}  // namespace stepcast
