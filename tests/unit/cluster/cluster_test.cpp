#include <stepcast/base/embedded.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/collective.hpp>

#include <doctest/doctest.h>

#include <array>
#include <set>
#include <string>

using namespace stepcast;
using doctest::Approx;

namespace {

std::string document(const std::string& extra = "", const std::string& nodes = "2",
                     const std::string& bandwidth = "25 Gb/s") {
  return R"({"schema": "stepcast.cluster/1", "name": "test", "nodes": )" + nodes + R"(, "devices_per_node": 4,
             "inside": {"latency": "5 us", "bandwidth": "6.8 GB/s"},
             "network": {"latency": "10 us", "bandwidth": ")" +
         bandwidth + R"("},
             "provenance": ["made up"])" +
         (extra.empty() ? "" : ", " + extra) + "}";
}

Cluster read(const std::string& text) { return cluster_of_json(text, "c.json"); }

/// The message with which `text` is refused.
std::string refusal(const std::string& text) {
  try {
    (void)read(text);
  } catch (const InputError& error) { return error.what(); }
  FAIL_CHECK("accepted: " << text);
  return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("clusters: JSON with unit strings") {
  const Cluster c = read(document(R"("nics_per_node": 2, "servers": 3, "message_overhead": "57 us", "device": "X",
      "device_memory": "40 GiB", "server_link": {"latency": "0 s", "bandwidth": "0.7 GB/s"}, "all_reduce": "hierarchical",
      "server_sum_rate": "10 GB/s", "relative_error": 0.05,
      "tables": [{"workers": 8, "sizes_bytes": [1, 2e3], "times_s": [1e-5, 2e-5], "provenance": "p"}],
      "contention": {"inside_under_compute": 1.5})"));
  CHECK(c.workers() == 8);
  CHECK(c.inside.bandwidth.value() == 6.8e9);
  CHECK(c.network.bandwidth.value() == 3.125e9);
  CHECK(c.network.latency.value() == Approx(1e-5));
  CHECK(c.nics_per_node == 2);
  CHECK(c.servers == 3);
  CHECK(c.server_link.bandwidth.value() == 0.7e9);
  CHECK(c.server_sum_rate.value() == 1e10);
  CHECK(c.message_overhead.value() == Approx(57e-6));
  CHECK(c.device_memory.value() == 40 * 1073741824.0);
  CHECK(c.all_reduce == "hierarchical");
  REQUIRE(c.tables.size() == 1);
  CHECK(c.tables[0].operation == "all_reduce");
  CHECK(c.tables[0].times[1].value() == 2e-5);
  CHECK(c.contention.inside_under_compute == 1.5);
  CHECK(c.contention.compute_under_communication == 1);
}

TEST_CASE("clusters: what is written reads back, to the last bit and byte") {
  for (const Cluster& c : shipped_clusters()) {
    CAPTURE(c.name);
    const std::string text = json_of(c);
    const Cluster again = read(text);
    CHECK(json_of(again) == text);
    CHECK(again.network.bandwidth == c.network.bandwidth);
    CHECK(again.inside.latency == c.inside.latency);
    CHECK(again.message_overhead == c.message_overhead);
    CHECK(again.tables.size() == c.tables.size());
    CHECK(again.provenance == c.provenance);
  }
}

TEST_CASE("clusters: bad documents are refused with the place and what to do") {
  CHECK(contains(refusal(document(R"("nic_per_node": 2)")), "#/nic_per_node"));
  CHECK(contains(refusal(document(R"("nic_per_node": 2)")), "did you mean 'nics_per_node'?"));
  CHECK(contains(refusal(document(R"("contention": {"compute_under_comunication": 2})")),
                 "did you mean 'compute_under_communication'?"));
  CHECK(contains(refusal(document("", "2", "25")), "#/network/bandwidth"));
  CHECK(contains(refusal(document("", "2", "25")), "add the unit"));
  CHECK(contains(refusal(document("", "2", "0 B/s")), "nothing ever arrives"));
  CHECK(contains(refusal(document("", "0")), "#/nodes"));
  CHECK(contains(refusal(document("", "-1")), "#/nodes"));
  CHECK(contains(refusal(document("", "1.5")), "a whole number"));
  CHECK(contains(refusal(document("", "\"2\"")), "a whole number"));
  CHECK(contains(refusal(document("", "1000000000000000000")), "#/nodes"));
  CHECK(contains(refusal(document("", "18446744073709551615")), "#/nodes"));
  CHECK(contains(refusal(document("", "90000000")), "devices in all"));
  CHECK(contains(refusal(document(R"("servers": -1)")), "#/servers"));
  CHECK(contains(refusal(document(R"("name": "again")")), "twice"));
  CHECK(contains(refusal(document(R"("message_overhead": 5)")), "'5 us'"));
  CHECK(contains(refusal(document(R"("all_reduce": "rign")")), "did you mean 'ring'?"));
  CHECK(contains(refusal(document(R"("relative_error": -0.1)")), "#/relative_error"));
  CHECK(contains(refusal(document(R"("contention": {"network_under_compute": 0.5})")), "/contention/"));
  CHECK(contains(refusal("{\"schema\": \"stepcast.cluster/2\"}"), "#/schema"));
  CHECK(
      contains(refusal("{}"), "expected the keys schema, name, nodes, devices_per_node, inside, network, provenance"));
  for (const char* text : {"", "[]", "null", "3", "{\"schema\": ", "\xff\xfe", "{\"schema\": \"\xff\"}"}) refusal(text);
  refusal(std::string(1'000'000, '['));
  refusal(std::string(100, '[') + std::string(100, ']'));
  std::string no_provenance = document();
  no_provenance.replace(no_provenance.find("[\"made up\"]"), 11, "[]");
  CHECK(contains(refusal(no_provenance), "where the numbers come from"));
}

TEST_CASE("clusters: a switch that adds up, and stragglers") {
  const Cluster plain = read(document());
  CHECK(!plain.aggregation);
  CHECK(plain.stragglers.none());
  CHECK(json_of(plain).find("stragglers") == std::string::npos);
  const Cluster standard = read(document(R"("aggregation": {})"));
  REQUIRE(standard.aggregation);
  CHECK(standard.aggregation->program == "switchml");
  CHECK(standard.aggregation->packets_outstanding == 256);
  const Cluster c = read(document(R"("aggregation": {"program": "atp", "payload": "248 B", "header": "60 B",
      "packets_outstanding": 64, "round_trip": "12 us", "line_rate": "100 Gb/s", "host_rate": "20 GB/s",
      "hit_fraction": 0.75, "racks": 4, "absorbed_share": 0.25},
      "stragglers": {"slow": [{"workers": 2, "compute_factor": 1.25, "delay": "3 ms", "link_share": 0.5}, {}],
                     "jitter": {"distribution": "exponential", "relative": 0.125}})"));
  REQUIRE(c.aggregation);
  CHECK(c.aggregation->round_trip.value() == Approx(12e-6));
  CHECK(c.aggregation->line_rate.value() == 1.25e10);
  CHECK(c.aggregation->hit_fraction == 0.75);
  REQUIRE(c.stragglers.slow.size() == 2);
  CHECK(c.stragglers.slow[0].delay.value() == Approx(3e-3));
  CHECK(c.stragglers.slow[1].compute_factor == 1);
  CHECK(c.stragglers.least_link_share() == 0.5);
  CHECK(c.stragglers.jitter.distribution == Jitter::Distribution::exponential);
  const std::string text = json_of(c);
  CHECK(json_of(read(text)) == text);

  const auto refused = [](const std::string& key, const std::string& value, const std::string& place) {
    CAPTURE(value);
    CHECK(contains(refusal(document("\"" + key + "\": " + value)), place));
  };
  refused("aggregation", R"({"program": "sharp"})", "#/aggregation/program");
  refused("aggregation", R"({"hit_fraction": 1.5})", "#/aggregation/hit_fraction");
  refused("aggregation", R"({"packets_outstanding": 0})", "#/aggregation/packets_outstanding");
  refused("aggregation", R"({"header": "52 B"})", "#/aggregation/payload");
  refused("aggregation", R"({"hitfraction": 1})", "did you mean 'hit_fraction'?");
  refused("stragglers", R"({"slow": [{"compute_factor": 0.5}]})", "#/stragglers/slow/0/compute_factor");
  refused("stragglers", R"({"slow": [{"link_share": 0}]})", "#/stragglers/slow/0/link_share");
  refused("stragglers", R"({"slow": [{"workers": 9}]})", "#/stragglers/slow");
  refused("stragglers", R"({"jitter": {"distribution": "normal"}})", "#/stragglers/jitter");
  refused("stragglers", R"({"jitter": {"distribution": "uniform", "relative": 0.1}})", "normal or exponential");
  refused("stragglers", R"({"jitter": {"distribution": "normal", "relative": 0.9}})", "at most 0.5");

  // A part of a cluster keeps the stragglers that fit in.
  CHECK(resized(c, 8)->stragglers.slow.size() == 2);
  CHECK(resized(c, 1)->stragglers.slow.size() == 1);
  CHECK(resized(c, 1)->stragglers.slow[0].workers == 1);
}

TEST_CASE("clusters: bad tables are refused") {
  const auto with_table = [](const std::string& table) { return document("\"tables\": [" + table + "]"); };
  for (const char* table : {
           R"({"workers": 0, "sizes_bytes": [1], "times_s": [1]})",
           R"({"workers": 2, "sizes_bytes": [], "times_s": []})",
           R"({"workers": 2, "sizes_bytes": [1, 2], "times_s": [1]})",
           R"({"workers": 2, "sizes_bytes": [2, 1], "times_s": [1, 2]})",
           R"({"workers": 2, "sizes_bytes": [1, 1], "times_s": [1, 2]})",
           R"({"workers": 2, "sizes_bytes": [0], "times_s": [1]})",
           R"({"workers": 2, "sizes_bytes": [1], "times_s": [0]})",
           R"({"workers": 2, "sizes_bytes": [1], "times_s": ["1"]})",
           R"({"workers": 2, "sizes_bytes": [1], "times_s": [1], "operation": "all_reduced"})",
           R"({"sizes_bytes": [1], "times_s": [1]})",
           "3",
       }) {
    CAPTURE(table);
    CHECK(contains(refusal(with_table(table)), "#/tables/0"));
  }
}

TEST_CASE("clusters: a million ranks are fine") {
  Cluster c = read(document("", "250000"));
  CHECK(c.workers() == 1000000);
  const auto cost = communication_cost(c);
  REQUIRE(cost);
  CHECK((*cost)(Operation::all_reduce, mebibytes(1)).value() > 0);
}

TEST_CASE("clusters: resized in whole machines, or to part of one") {
  const Cluster c = read(document(R"("servers": 2)"));
  CHECK(resized(c, 8)->nodes == 2);
  CHECK(resized(c, 64)->nodes == 16);
  CHECK(resized(c, 64)->devices_per_node == 4);
  CHECK(resized(c, 64)->servers == 16);
  CHECK(resized(c, 4)->nodes == 1);
  CHECK(resized(c, 3)->devices_per_node == 3);
  CHECK(resized(c, 1)->workers() == 1);
  CHECK(contains(resized(c, 6).reason(), "no whole number of machines"));
  CHECK(!resized(c, 0));
  // A rack that is one machine is used in equal parts.
  const Cluster& rack = *shipped_cluster("gb200-nvl72");
  for (const auto& [workers, machines, devices] :
       {std::array<std::int64_t, 3>{72, 1, 72}, {64, 1, 64}, {144, 2, 72}, {256, 4, 64}, {1024, 16, 64}}) {
    const Answer<Cluster> part = resized(rack, workers);
    REQUIRE(part);
    CHECK(part->nodes == machines);
    CHECK(part->devices_per_node == devices);
    CHECK(part->nics_per_node == (workers < 72 ? 72 : devices));
  }
  CHECK(contains(resized(rack, 73).reason(), "no whole number of machines with 72 devices"));
  CHECK(!resized(c, 1'000'000'000'000));
}

TEST_CASE("clusters: from flags, with what was assumed") {
  const Cluster c = cluster_of_flags(64, 4, "25 Gb/s");
  CHECK(c.nodes == 16);
  CHECK(c.devices_per_node == 4);
  CHECK(c.network.bandwidth.value() == Approx(0.94 * 25e9 / 8));
  bool assumed = false;
  for (const std::string& line : c.provenance) assumed = assumed || contains(line, "assumed");
  CHECK(assumed);
  CHECK(cluster_of_flags(8, 1, "10GbE").network.latency > cluster_of_flags(8, 1, "100GbE").network.latency);
  CHECK(cluster_of_flags(2, 8, "10GbE").nodes == 1);
  const Cluster named = cluster_of_flags(16, 4, "8x4-pcie-10gbe");
  CHECK(named.nodes == 4);
  CHECK(named.network.bandwidth == shipped_cluster("8x4-pcie-10gbe")->network.bandwidth);
  CHECK_THROWS_AS((void)cluster_of_flags(6, 4, "10GbE"), InputError);
  CHECK_THROWS_AS((void)cluster_of_flags(0, 4, "10GbE"), InputError);
  CHECK_THROWS_AS((void)cluster_of_flags(4, 0, "10GbE"), InputError);
  CHECK_THROWS_AS((void)cluster_of_flags(8, 4, "25"), InputError);
  CHECK_THROWS_AS((void)cluster_of_flags(8, 4, ""), InputError);
  CHECK_THROWS_AS((void)cluster_of_flags(8, 4, "0GbE"), InputError);
  try {
    (void)cluster_of_flags(8, 4, "lab-1000mbits");
    FAIL_CHECK("accepted");
  } catch (const InputError& error) { CHECK(contains(error.what(), "did you mean 'lab-1000mbit'?")); }
}

TEST_CASE("clusters: the shipped ones are named like their files, explained and usable") {
  std::set<std::string> names;
  for (const Cluster& c : shipped_clusters()) {
    CAPTURE(c.name);
    CHECK(names.insert(c.name).second);
    CHECK(shipped_cluster(c.name) == &c);
    CHECK(c.provenance.size() >= 2);
    for (const MeasuredCollective& table : c.tables) CHECK(!table.provenance.empty());
    const auto cost = communication_cost(c);
    REQUIRE(cost);
    for (const Operation op : {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather}) {
      REQUIRE(cost->defines(op));
      CHECK((*cost)(op, mebibytes(25)).value() > 0);
    }
  }
  std::set<std::string> files;
  for (const EmbeddedFile& file : shipped_cluster_texts()) files.insert(std::string(file.name));
  CHECK(files == names);
  for (const char* name : {"8x4-pcie-10gbe", "8x4-pcie-100gbib", "8x4-pcie-100gbe", "16x4-pcie-10gbe",
                           "8x8-a100-200gbib", "16x4-a100-100gbe", "lab-300mbit", "lab-1000mbit", "lab-3000mbit"}) {
    CAPTURE(name);
    CHECK(shipped_cluster(name) != nullptr);
  }
  CHECK(shipped_cluster("none") == nullptr);
  // What people rent, by the machine's kind.
  for (const char* name : {"dgx-a100",
                           "dgx-h100",
                           "dgx-h200",
                           "dgx-b200",
                           "gb200-nvl72",
                           "dgx-b300",
                           "gb300-nvl72",
                           "p4d",
                           "p5",
                           "a3-mega",
                           "ndv4",
                           "ndv5",
                           "mi300x",
                           "polaris",
                           "gh200-slingshot",
                           "l40s-100gbe",
                           "rtx-pro-6000-100gbe",
                           "hgx-h100-roce",
                           "l40s-10gbe",
                           "l40s-25gbe",
                           "rtx-4090-10gbe",
                           "rtx-4090-25gbe",
                           "rtx-4090-100gbe"}) {
    CAPTURE(name);
    const Cluster* kind = shipped_cluster(name);
    REQUIRE(kind != nullptr);
    CHECK(kind->all_reduce == "nccl");
    const Cluster four = cluster_of({.cluster = "4x" + std::string(name)});
    CHECK(four.nodes == 4);
    CHECK(four.devices_per_node == kind->devices_per_node);
    CHECK(cluster_of({.cluster = name, .workers = std::to_string(four.workers())}).nodes == 4);
    CHECK_THROWS_AS((void)cluster_of({.cluster = "4x" + std::string(name), .workers = "64"}), InputError);
    // Between machines no more than a card of today carries, and inside no more than any link of today.
    const double cards = kind->network.bandwidth.value() * static_cast<double>(kind->nics_per_node);
    CHECK(cards >= 1e9);
    CHECK(kind->nodes == 1);  // the name alone is one machine
    CHECK(kind->network.bandwidth.value() <= 100e9);
    CHECK(kind->inside.bandwidth.value() <= 900e9);
    const Bytes large = mebibytes(1024);
    const Seconds time = (*communication_cost(four))(Operation::all_reduce, large);
    CHECK(2 * large / time <= BytesPerSecond(kind->inside.bandwidth.value() * 2));
  }
}

TEST_CASE("clusters: the survey's BSP-A2A overheads on 10GbE, not used for the fitted latency") {
  // arXiv 2005.13247, ResNet-50, 102.2 MB: 146.4 / 159.2 / 163.3 ms at 8 / 16 / 32 GPUs.
  const Cluster* c = shipped_cluster("8x4-pcie-10gbe");
  REQUIRE(c);
  const double measured[] = {0.1464, 0.1592, 0.1633};
  for (int i = 0; i < 3; ++i) {
    const auto cost = communication_cost(*resized(*c, 8 << i));
    CHECK((*cost)(Operation::all_reduce, Bytes(4 * 25557032.0)).value() == Approx(measured[i]).epsilon(0.05));
  }
}
