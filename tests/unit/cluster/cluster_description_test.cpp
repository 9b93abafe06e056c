#include <doctest/doctest.h>
#include <stepcast/base/embedded.hpp>
#include <stepcast/base/error.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/trace/trace.hpp>

#include <span>
#include <string>

using namespace stepcast;

namespace {

InputError refusal_of(const ClusterDescription& said, std::string_view prefix) {
  try {
    (void)cluster_of(said, std::nullopt, prefix);
  } catch (const InputError& error) { return error; }
  FAIL("accepted");
  return {"", "", ""};
}

Source source_of(const std::string& name, const std::string& text) { return {name, std::as_bytes(std::span(text))}; }

}  // namespace

TEST_CASE("a cluster is what its description says") {
  ClusterDescription said{.workers = "16", .per_node = "4", .network = "10GbE", .inside = "100 GB/s"};
  said.device_memory = "80 GB";
  said.slow_worker = "1.5";
  const Cluster cluster = cluster_of(said);
  CHECK(cluster.nodes == 4);
  CHECK(cluster.devices_per_node == 4);
  CHECK(cluster.inside.bandwidth.value() == doctest::Approx(100e9));
  CHECK(cluster.device_memory.value() == doctest::Approx(80e9));
  REQUIRE(cluster.stragglers.slow.size() == 1);
  CHECK(cluster.stragglers.slow.front().compute_factor == doctest::Approx(1.5));
  const Cluster half = cluster_of({.workers = "8"}, cluster);
  CHECK(half.workers() == 8);
  CHECK(half.inside.bandwidth == cluster.inside.bandwidth);
}

TEST_CASE("a machine has as many cards as its network is said to have") {
  const Cluster one = cluster_of({.workers = "64", .per_node = "8", .network = "400Gb/s", .inside = "450GB/s"});
  const Cluster cards = cluster_of({.workers = "64", .per_node = "8", .network = "8 x 400Gb/s", .inside = "450GB/s"});
  CHECK(one.nics_per_node == 1);
  CHECK(cards.nics_per_node == 8);
  CHECK(cards.network.bandwidth == one.network.bandwidth);
  CHECK(cards.name == "8x8 over 8 x 400Gb/s");
  const Bytes large(1e9);
  const double faster = (*communication_cost(one))(Operation::all_reduce, large) /
                        (*communication_cost(cards))(Operation::all_reduce, large);
  CHECK(faster > 5);
  CHECK(faster <= 8);
  for (const char* wrong : {"0 x 400Gb/s", "65 x 400Gb/s", "8 x", "8 x p5", "8 x 4 x 400Gb/s"}) {
    CAPTURE(wrong);
    CHECK(refusal_of({.workers = "64", .per_node = "8", .network = wrong}, "--").where == "--network");
  }
}

TEST_CASE("a wrong field is named in the words of the caller") {
  const ClusterDescription three{.workers = "6", .per_node = "4", .network = "10GbE"};
  CHECK(refusal_of(three, "--").where == "--workers");
  CHECK(refusal_of(three, "").where == "workers");
  const InputError none = refusal_of({}, "");
  CHECK(none.hint == "give cluster NAME, or workers N per-node G network 25GbE; workers 1 is one device");
  ClusterDescription jitter{.workers = "2", .network = "--x"};
  CHECK(refusal_of(jitter, "").found.find("--x") != std::string::npos);
}

TEST_CASE("a device is named by some of its words; the plain one stands before those with a software beside it") {
  CHECK(device_named("a100").name == "NVIDIA A100-SXM4-80GB");
  CHECK(device_named("A100 Megatron-DeepSpeed").name == "NVIDIA A100-SXM4-80GB, Megatron-DeepSpeed");
  CHECK(device_named("h100").name == "NVIDIA H100 80GB HBM3");
  CHECK(device_named("b200").name == "NVIDIA B200");
  CHECK_FALSE(shipped_device_like("nvidia"));  // which one?
  CHECK(device_named("a100-sxm4-40gb").memory == Bytes(40.0 * (1 << 30)));
  CHECK(device_named("mi300x").name == "AMD Instinct MI300X");
  CHECK(device_named("h100-pcie").name == "NVIDIA H100 PCIe");
  CHECK(device_named("v100").memory == Bytes(32510.0 * 1024 * 1024));
  CHECK(device_named("tpu v5e").name == "Google TPU v5e");
  CHECK_FALSE(shipped_device_like("rtx"));
  // The names of their files name them, too.
  CHECK(device_named("h100-sxm5-80gb").name == "NVIDIA H100 80GB HBM3");
  CHECK(device_named("b200-sxm-180gb").name == "NVIDIA B200");
  CHECK(device_named("a100-sxm4-80gb-megatron-deepspeed").name == "NVIDIA A100-SXM4-80GB, Megatron-DeepSpeed");
  // On machines that name one of several it is theirs.
  Cluster machines;
  machines.device = "NVIDIA A100-SXM4-40GB";
  CHECK(device_of_cluster(machines, "a100")->name == "NVIDIA A100-SXM4-40GB");
  CHECK(device_of_cluster(machines, "")->name == "NVIDIA A100-SXM4-40GB");
  CHECK_FALSE(device_of_cluster(machines, "h100"));
  CHECK_FALSE(device_of_cluster(machines, "A100 Megatron-DeepSpeed"));
  CHECK_THROWS_AS(static_cast<void>(device_named("h900")), InputError);
}

TEST_CASE("every shipped cluster that names its devices names a shipped one, of no less memory") {
  int named = 0;
  for (const EmbeddedFile& file : shipped_cluster_texts()) {
    CAPTURE(file.name);
    const Cluster& cluster = *shipped_cluster(file.name);
    if (cluster.device.empty()) continue;
    ++named;
    const std::optional<Device> device = device_of_cluster(cluster, "");
    REQUIRE(device);
    CHECK(same_device(device->name, cluster.device));
    CHECK(cluster.device_memory < 1.1 * device->memory);
  }
  CHECK(named >= 20);
}

TEST_CASE("compute times are not carried to another device in silence") {
  CHECK(same_device("A100", "NVIDIA A100-SXM4-40GB"));
  CHECK_FALSE(same_device("A100", "NVIDIA H100"));
  CHECK_FALSE(same_device("", "A100"));
  CHECK(device_named("nvidia-a100-sxm4-80gb").name == "NVIDIA A100-SXM4-80GB");
  CHECK(device_named("h100-sxm").name == device_named("h100-sxm5-80gb").name);
  CHECK_THROWS_AS((void)device_named("h100-sxm4-80gb"), InputError);
  CHECK_THROWS_AS((void)device_named("b999"), InputError);
  Cluster cluster = cluster_of({.workers = "2", .network = "10GbE"});
  cluster.device = "H100";
  Profile profile;
  profile.device = "NVIDIA A100-SXM4-40GB";
  CHECK_THROWS_AS((void)profile_on(cluster, profile), InputError);
  CHECK_NOTHROW((void)profile_on(cluster, profile, {.same_device = true}));
  CHECK_THROWS_AS((void)profile_on(cluster, profile, {.same_device = true, .faster_compute = 2}), InputError);
  CHECK_THROWS_AS((void)profile_on(cluster, profile, {.faster_compute = -1}), InputError);
}

TEST_CASE("sources that do not belong together are refused") {
  CHECK_THROWS_AS((void)documents_of({}), InputError);
  const std::string text = "no trace";
  const Source twice[] = {source_of("a", text), source_of("a", text)};
  CHECK_THROWS_WITH_AS((void)documents_of(twice), "expected every input once, found 'a' twice", InputError);
  const std::string cluster = R"({"schema": "stepcast.cluster/1"})";
  CHECK_THROWS_WITH_AS((void)document_of(source_of("c.json", cluster)),
                       "c.json: expected a trace or a profile, found a stepcast cluster", InputError);
  CHECK_THROWS_AS((void)profile_options_of("resnet5", 0), InputError);
  CHECK_THROWS_AS((void)profile_options_of("", -1), InputError);
  CHECK_FALSE(profile_options_of("resnet50", 8).parameters.empty());
}

namespace {

double all_reduce_of(const Cluster& c, double bytes) {
  const Answer<CommunicationCost> cost = communication_cost(c);
  REQUIRE(cost);
  return (*cost)(Operation::all_reduce, Bytes(bytes)).value();
}

std::string place_of_refusal(const ClusterDescription& said) {
  try {
    static_cast<void>(cluster_of(said, std::nullopt, ""));
  } catch (const InputError& error) { return error.where; }
  return "taken";
}

}  // namespace

TEST_CASE("Background traffic takes its share of the outermost level, or of the one that is named") {
  const ClusterDescription flat{.workers = "16", .per_node = "4", .network = "25Gb/s", .collective = "ring"};
  ClusterDescription shared = flat;
  shared.background = "50%";
  CHECK(cluster_of(shared).transport.background == 0.5);
  constexpr double large = 1e10;
  CHECK(all_reduce_of(cluster_of(shared), large) ==
        doctest::Approx(2 * all_reduce_of(cluster_of(flat), large)).epsilon(1e-3));
  ClusterDescription tree = flat;
  tree.level = {"rail:2", "spine:2, oversubscribed=2"};
  tree.background = "0.3";
  CHECK(cluster_of(tree).levels[1].background == doctest::Approx(0.3));
  CHECK(cluster_of(tree).transport.background == 0);
  tree.background = "spine=20%, rail=10%";
  CHECK(cluster_of(tree).levels[1].background == doctest::Approx(0.2));
  CHECK(cluster_of(tree).transport.background == doctest::Approx(0.1));
  // Read back from JSON to the same.
  const Cluster again = cluster_of_json(json_of(cluster_of(tree)), "again");
  CHECK(again.transport == cluster_of(tree).transport);
  CHECK(again.levels == cluster_of(tree).levels);
  // Measured tables grow as the forms do.
  const double free = all_reduce_of(cluster_of({.cluster = "4xdgx-h100"}), 1e9);
  CHECK(all_reduce_of(cluster_of({.cluster = "4xdgx-h100", .background = "50%"}), 1e9) ==
        doctest::Approx(2 * free).epsilon(0.05));
  for (const char* bad : {"100%", "-1%", "1.5", "x", "leaf=30%", "=30%", "rail=", "30%,"}) {
    CAPTURE(bad);
    tree.background = bad;
    CHECK(place_of_refusal(tree) == "background");
  }
  CHECK(place_of_refusal({.workers = "4", .per_node = "4", .background = "30%"}) == "background");
  shared.background = "rail=30%";
  CHECK(place_of_refusal(shared) == "background");
}

TEST_CASE("A transport's connections bound what a card carries, but not many of them at once") {
  const ClusterDescription free{.workers = "4", .network = "100Gb/s", .collective = "ring"};
  ClusterDescription one = free, four = free, many = free;
  one.connection = "10Gb/s";
  four.connection = "4 x 10Gb/s";
  many.connection = "16 x 10Gb/s";
  constexpr double large = 1e10;
  const double by_one = all_reduce_of(cluster_of(one), large);
  CHECK(by_one == doctest::Approx(2 * 0.75 * large / 1.25e9).epsilon(1e-3));
  CHECK(all_reduce_of(cluster_of(four), large) == doctest::Approx(by_one / 4).epsilon(1e-3));
  CHECK(all_reduce_of(cluster_of(many), large) == all_reduce_of(cluster_of(free), large));
  CHECK(cluster_of_json(json_of(cluster_of(four)), "again").transport == cluster_of(four).transport);
  // A worker pushes to all servers at once, each over a connection of its own.
  one.servers = "2";
  const Answer<CommunicationCost> served = communication_cost(cluster_of(one));
  REQUIRE(served);
  CHECK(served->line(Operation::push).seconds_per_byte == doctest::Approx(2 / 2.5e9));
  for (const char* bad : {"0Gb/s", "10", "0 x 10Gb/s", "2000 x 10Gb/s", "x 10Gb/s", "4 x"}) {
    CAPTURE(bad);
    one.connection = bad;
    CHECK(place_of_refusal(one) == "connection");
  }
}

TEST_CASE("Servers with cards of their own, links that are slower than the others") {
  ClusterDescription said{.workers = "8", .network = "10Gb/s", .servers = "2 x 100Gb/s"};
  const Answer<CommunicationCost> cost = communication_cost(cluster_of(said));
  REQUIRE(cost);
  // Eight workers of 10 Gb/s through two servers of 100: the workers' own cards decide.
  CHECK(cost->line(Operation::push).seconds_per_byte == doctest::Approx(1 / (0.94 * 1.25e9)));
  said.servers = "2 x 10Gb/s";
  CHECK(communication_cost(cluster_of(said))->line(Operation::push).seconds_per_byte ==
        doctest::Approx(4 / (0.94 * 1.25e9)));
  CHECK(cluster_of_json(json_of(cluster_of(said)), "again").server_rate == cluster_of(said).server_rate);
  said.servers = "2 x";
  CHECK(place_of_refusal(said) == "servers");

  ClusterDescription uneven{
      .workers = "64", .per_node = "8", .network = "400Gb/s", .collective = "ring", .degraded_link = "2 x 100Gb/s"};
  const Cluster two = cluster_of(uneven);
  REQUIRE(two.stragglers.slow.size() == 1);
  CHECK(two.stragglers.slow[0].workers == 16);
  CHECK(two.stragglers.slow[0].link_share == doctest::Approx(0.25));
  const ClusterDescription slow{.workers = "64", .per_node = "8", .network = "100Gb/s", .collective = "ring"};
  // The slowest machine decides for a ring.
  CHECK(all_reduce_of(two, 1e10) == doctest::Approx(all_reduce_of(cluster_of(slow), 1e10)).epsilon(1e-6));
  for (const char* bad : {"9 x 100Gb/s", "2 x 500Gb/s", "2 x 2", "0 x 0.5", "2 x", "2 x 0"}) {
    CAPTURE(bad);
    uneven.degraded_link = bad;
    CHECK(place_of_refusal(uneven) == "degraded-link");
  }
}

TEST_CASE("Links by their names") {
  const auto inside = [](const char* name) {
    return cluster_of({.workers = "16", .per_node = "8", .network = "NDR", .inside = name}).inside.bandwidth.value();
  };
  CHECK(inside("nvlink4") == 335e9);
  CHECK(inside("NVLink 4") == 335e9);
  CHECK(inside("pcie4") == 20e9);
  CHECK(inside("PCIe 4.0 x16") == 20e9);
  CHECK(inside("PCIe Gen5") == 24e9);
  CHECK(inside("250GB/s") == 250e9);
  for (const char* name : {"NDR", "ndr", "NDR InfiniBand", "InfiniBand NDR", "IB NDR"})
    CHECK(cluster_of({.workers = "2", .network = name}).network.bandwidth.value() == doctest::Approx(0.94 * 50e9));
  CHECK(place_of_refusal({.workers = "8", .per_node = "8", .inside = "nvlink9"}) == "inside");
  CHECK(place_of_refusal({.workers = "8", .per_node = "8", .inside = "pcie4 x8"}) == "inside");
  CHECK(place_of_refusal({.workers = "8", .network = "NDX"}) == "network");
}
