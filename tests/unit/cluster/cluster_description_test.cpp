#include <doctest/doctest.h>
#include <stepcast/base/error.hpp>
#include <stepcast/cluster/cluster_description.hpp>
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

TEST_CASE("a wrong field is named in the words of the caller") {
  const ClusterDescription three{.workers = "6", .per_node = "4", .network = "10GbE"};
  CHECK(refusal_of(three, "--").where == "--workers");
  CHECK(refusal_of(three, "").where == "workers");
  const InputError none = refusal_of({}, "");
  CHECK(none.hint == "give cluster NAME, or workers N per-node G network 25GbE");
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
  // On machines that name one of several it is theirs.
  Cluster machines;
  machines.device = "NVIDIA A100-SXM4-40GB";
  CHECK(device_of_cluster(machines, "a100")->name == "NVIDIA A100-SXM4-40GB");
  CHECK(device_of_cluster(machines, "")->name == "NVIDIA A100-SXM4-40GB");
  CHECK_FALSE(device_of_cluster(machines, "h100"));
  CHECK_FALSE(device_of_cluster(machines, "A100 Megatron-DeepSpeed"));
  CHECK_THROWS_AS(static_cast<void>(device_named("h900")), InputError);
}

TEST_CASE("compute times are not carried to another device in silence") {
  CHECK(same_device("A100", "NVIDIA A100-SXM4-40GB"));
  CHECK_FALSE(same_device("A100", "NVIDIA H100"));
  CHECK_FALSE(same_device("", "A100"));
  CHECK(device_named("nvidia-a100-sxm4-80gb").name == "NVIDIA A100-SXM4-80GB");
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
