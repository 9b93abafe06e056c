// Library of a trace: what is slower than a ring on the traced links stays so elsewhere; what was measured does not.
#include <stepcast/cluster/closed_forms.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/links_of_trace.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace stepcast {
namespace {

const Link ethernet{microseconds(100), BytesPerSecond(120e6)};

/// Times of rings between hosts of an unknown place, `times_as_long` as long.
TransferTimes ring_times(const std::string& operation, double times_as_long, const std::string& library = "gloo") {
  constexpr std::int64_t workers = 2;
  TransferTimes t{operation, workers, -1, {Bytes(2048), mebibytes(2), mebibytes(20)}, {}, library};
  const CostLine half = ring_half(workers, ethernet);
  for (const Bytes size : t.sizes)
    t.times.push_back(half(size) * ((operation == "all_reduce" ? 2 : 1) * times_as_long));
  return t;
}

Profile traced(std::vector<TransferTimes> transfers) {
  Profile p;
  p.layers.resize(1);
  p.layers[0].forward.host = Seconds(0.1);
  p.transfers = std::move(transfers);
  p.ranks.resize(2);
  return p;
}

/// Four machines whose messages cost nothing but their transfer.
Cluster machines(const std::string& network = "10 Gb/s") {
  Cluster cluster = cluster_of({.workers = "4", .network = network});
  cluster.message_overhead = Seconds(0);
  return cluster;
}

Cluster linked(const Profile& profile, const std::string& network = "") {
  return with_links_of(machines(network), profile);
}

Seconds time_of(const Cluster& cluster, Operation op) { return (*communication_cost(cluster))(op, mebibytes(20)); }

}  // namespace

TEST_CASE("library of a trace: a slower gather is slower on other links and other numbers of workers") {
  const Profile profile = traced({ring_times("all_reduce", 1, "mpi"), ring_times("all_gather", 1.5, "mpi")});
  const Profile rings = traced({ring_times("all_reduce", 1, "mpi"), ring_times("all_gather", 1, "mpi")});
  for (const std::string network : {"", "10 Gb/s"}) {
    const Cluster slower = linked(profile, network), ring = linked(rings, network);
    CHECK(ring.library.empty());
    CHECK(time_of(slower, Operation::all_gather) / time_of(ring, Operation::all_gather) == doctest::Approx(1.5));
    CHECK(time_of(slower, Operation::all_reduce) == time_of(ring, Operation::all_reduce));
    CHECK(time_of(slower, Operation::reduce_scatter) == time_of(ring, Operation::reduce_scatter));
  }
  CHECK(library_in_words(linked(profile)) ==
        "all_gather 1.50 (mpi, as traced) times as long as by " + linked(profile).all_reduce);
}

TEST_CASE("library of a trace: gloo reduces and scatters by an all-reduce") {
  const Cluster gloo = linked(traced({ring_times("all_reduce", 1)}));
  CHECK(time_of(gloo, Operation::reduce_scatter).value() ==
        doctest::Approx(time_of(gloo, Operation::all_reduce).value()));
  Profile alone = traced({ring_times("all_reduce", 1)});
  alone.ranks.clear();  // whom it waited for is not known, what its library does is
  REQUIRE(linked(alone).library.size() == 1);
  CHECK(linked(alone).library.front().provenance == "gloo does it as an all-reduce");
  alone.transfers.push_back(ring_times("all_gather", 1.5));
  CHECK(linked(alone).library.size() == 1);
  const Cluster told = linked(traced({ring_times("all_reduce", 1), ring_times("reduce_scatter", 1)}));
  CHECK(told.library.empty());
}

TEST_CASE("library of a trace: nothing is said of what was measured, of other devices or of what latencies govern") {
  const Profile profile = traced({ring_times("all_reduce", 1), ring_times("all_gather", 1.5)});
  Cluster measured = machines();
  measured.tables.push_back({"all_gather", 4, {mebibytes(20)}, {Seconds(0.1)}, "a benchmark"});
  CHECK(with_library_of(measured, profile).library.size() == 1);  // the scatter
  Cluster device = machines();
  device.device = "NVIDIA H100 80GB HBM3";
  CHECK(with_library_of(device, profile).library.empty());
  Cluster nccl = machines();
  nccl.all_reduce = "nccl";
  CHECK(with_library_of(nccl, profile).library.empty());
  TransferTimes small = ring_times("all_gather", 3, "mpi");
  small.sizes.resize(1), small.times.resize(1);
  CHECK(with_library_of(machines(), traced({ring_times("all_reduce", 1, "mpi"), small})).library.empty());
}

TEST_CASE("library of a trace: what is not plausible is not taken for the library, and what was said comes first") {
  for (const double times : {1e-3, 0.5, 20.0, 1e6})
    CHECK(linked(traced({ring_times("all_reduce", 1, "mpi"), ring_times("all_gather", times, "mpi")})).library.empty());
  const Profile profile = traced({ring_times("all_reduce", 1), ring_times("all_gather", 1.5)});
  Cluster said = machines();
  said.library = {{"all_gather", 3, "measured by hand"}};
  said = with_library_of(said, profile);
  REQUIRE(said.library.size() == 2);
  CHECK(said.library.front().times_as_long == 3);
  // It is said of the cluster's own algorithm, not of one that a plan names.
  Cluster plain = said;
  plain.library.clear();
  const auto gather = [](const Cluster& cluster, std::string_view algorithm) {
    return (*communication_cost(cluster, algorithm))(Operation::all_gather, mebibytes(20)).value();
  };
  CHECK(gather(said, "recursive_doubling") == gather(plain, "recursive_doubling"));
  CHECK(gather(said, said.all_reduce) == doctest::Approx(3 * gather(plain, said.all_reduce)));
}

TEST_CASE("library of a trace: a cluster keeps it as JSON, and is asked once") {
  const Profile profile = traced({ring_times("all_reduce", 1), ring_times("all_gather", 1.5)});
  const Cluster once = linked(profile);
  REQUIRE(once.library.size() == 2);
  const Cluster back = cluster_of_json(json_of(once), "c"), twice = with_library_of(once, profile);
  for (const Cluster* cluster : {&back, &twice}) {
    REQUIRE(cluster->library.size() == 2);
    for (const Operation op : {Operation::all_gather, Operation::reduce_scatter, Operation::all_reduce})
      CHECK(time_of(*cluster, op) == time_of(once, op));
  }
  CHECK_THROWS_WITH_AS((void)cluster_of_json(R"({"schema": "stepcast.cluster/1", "name": "c", "nodes": 2,
    "devices_per_node": 1, "inside": {"latency": "5 us", "bandwidth": "20 GB/s"},
    "network": {"latency": "5 us", "bandwidth": "20 GB/s"}, "provenance": ["x"],
    "library": [{"operation": "all_gather", "times_as_long": 0, "provenance": "x"}]})",
                                             "c.json"),
                       doctest::Contains("/library/0/times_as_long: expected a factor from 0.001 to 1000"), InputError);
}

}  // namespace stepcast
