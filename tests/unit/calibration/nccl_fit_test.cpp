// The fit of `nccl`: machines that made the tables are found again, odd rows do not bend it.
#include <stepcast/calibration/benchmark_logs.hpp>
#include <stepcast/calibration/calibration.hpp>
#include <stepcast/cluster/collective.hpp>

#include <doctest/doctest.h>

#include <cmath>

using namespace stepcast;
using doctest::Approx;

namespace {

Cluster machines() {
  Cluster c;
  c.name = "made";
  c.nodes = 8;
  c.devices_per_node = 8;
  c.nics_per_node = 8;
  c.inside = {microseconds(4), BytesPerSecond(230e9)};
  c.network = {microseconds(12), BytesPerSecond(18e9)};
  c.nccl.tree = 0.8;
  c.nccl.ll = 0.4;
  c.all_reduce = "nccl";
  c.provenance = {"test"};
  return c;
}

std::vector<MeasuredCollective> tables_of(const Cluster& c, std::initializer_list<std::int64_t> counts) {
  std::vector<MeasuredCollective> tables;
  for (const std::int64_t workers : counts) {
    for (const Operation op : {Operation::all_reduce, Operation::all_gather}) {
      MeasuredCollective& table = tables.emplace_back();
      table.operation = name_of(op);
      table.workers = workers;
      const Answer<CommunicationCost> cost = communication_cost(*resized(c, workers), "nccl");
      REQUIRE(cost);
      for (double m = 1024; m <= 0x1p32; m *= 2) {
        table.sizes.emplace_back(m);
        table.times.push_back((*cost)(op, Bytes(m)));
      }
    }
  }
  return tables;
}

/// The largest relative error of `found` over the sizes and operations of `truth` on a count.
double worst_error(const Cluster& found, const std::vector<MeasuredCollective>& truth) {
  double worst = 0;
  for (const MeasuredCollective& table : truth) {
    const Answer<CommunicationCost> cost = communication_cost(*resized(found, table.workers));
    REQUIRE(cost);
    for (std::size_t i = 0; i < table.sizes.size(); ++i)
      worst = std::max(worst, std::fabs((*cost)(*operation_of(table.operation), table.sizes[i]) / table.times[i] - 1));
  }
  return worst;
}

/// Where a calibration starts: the shape of the machines alone.
Cluster shape() {
  Cluster c = machines();
  c.inside = {microseconds(5), BytesPerSecond(20e9)};
  c.network = {microseconds(5), BytesPerSecond(1e9)};
  c.nccl = {};
  return c;
}

}  // namespace

TEST_CASE("nccl fit: machines that made the tables are found again, and counts that were not measured") {
  const Calibration found = calibrated(shape(), tables_of(machines(), {4, 8, 16, 32}));
  CHECK(found.cluster.network.bandwidth.value() == Approx(18e9).epsilon(0.05));
  CHECK(found.cluster.inside.bandwidth.value() == Approx(230e9).epsilon(0.05));
  CHECK(found.cluster.nccl.nvls == 0);
  CHECK(worst_error(found.cluster, tables_of(machines(), {8, 16, 32})) < 1e-9);
  CHECK(worst_error(found.cluster, tables_of(machines(), {64, 128})) < 0.15);
  CHECK(found.cluster.tables.size() == 8);
}

TEST_CASE("nccl fit: a wild row, repeated tables and missing all-reduces") {
  std::vector<MeasuredCollective> tables = tables_of(machines(), {8, 16});
  const Calibration clean = calibrated(shape(), tables);
  tables[2].times[3] *= 20;
  const Calibration wild = calibrated(shape(), tables);
  CHECK(wild.cluster.network.bandwidth.value() == Approx(clean.cluster.network.bandwidth.value()).epsilon(0.03));
  // Three logs of one count: the median of each size.
  std::vector<MeasuredCollective> repeated = {tables[2], tables_of(machines(), {16})[0],
                                              tables_of(machines(), {16})[0]};
  CHECK(calibrated(shape(), repeated).entries.size() == 1);
  CHECK(worst_error(calibrated(shape(), repeated).cluster, {tables_of(machines(), {16})[0]}) < 1e-9);
  const std::vector<MeasuredCollective> gathers = {tables[1], tables[3]};
  const Calibration without = calibrated(shape(), gathers);
  CHECK(without.cluster.network.bandwidth.value() == Approx(18e9).epsilon(0.1));
  CHECK(without.notes.empty());
}

TEST_CASE("nccl fit: what is fitted reads back, and old clusters read as before") {
  const Calibration found = calibrated(shape(), tables_of(machines(), {8, 16}));
  const Cluster back = cluster_of_json(json_of(found.cluster), "back");
  CHECK(back.nccl == found.cluster.nccl);
  CHECK(json_of(back) == json_of(found.cluster));
  CHECK(json_of(*shipped_cluster("8x8-a100-200gbib")).find("nccl\"") == std::string::npos);
}

TEST_CASE("nccl fit: a benchmark of the link itself gives the link, not what a pair under NCCL would need") {
  // 98.9 Gb/s: perftest's megabytes are 2^20 bytes.
  const char* perftest =
      "                    RDMA_Write BW Test\n"
      " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
      " 2          5000             8.10               7.90               3.95\n"
      " 65536      5000             11700.00            11690.00          0.18\n"
      " 1048576    5000             11800.00            11795.00          0.01\n";
  const char* osu =
      "# OSU MPI Bandwidth Test v5.9\n# Size      Bandwidth (MB/s)\n"
      "1024 1800.00\n65536 10100.00\n1048576 11800.00\n4194304 11900.00\n";
  const char* by_nccl =
      "# OSU NCCL-CUDA Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n"
      "65536 10100.00\n1048576 11800.00\n4194304 11900.00\n";
  Cluster base = shape();
  base.devices_per_node = base.nics_per_node = 1;
  base.nodes = 16;
  const auto rate = [&](const char* text) {
    const std::vector<MeasuredCollective> tables = collectives_of_nccl_tests(text, "a.log");
    const Calibration found = calibrated(base, tables);
    return found.cluster.network.bandwidth.value();
  };
  CHECK(rate(perftest) == Approx(98.9e9 / 8).epsilon(0.01));
  CHECK(rate(osu) == Approx(95.2e9 / 8).epsilon(0.01));
  CHECK(rate(by_nccl) > 1.2 * rate(osu));  // NCCL's pair reaches a share
  // Nothing was measured of what a pair reaches under NCCL.
  CHECK(calibrated(base, collectives_of_nccl_tests(perftest, "a.log")).cluster.tables.empty());
  CHECK(calibrated(base, collectives_of_nccl_tests(by_nccl, "a.log")).cluster.tables.size() == 1);
}

TEST_CASE("nccl fit: measurements that no one cluster makes are refused, with the row that is furthest off") {
  std::vector<MeasuredCollective> tables = tables_of(machines(), {8, 16});
  CHECK(calibrated(shape(), tables).residual_of_links < 0.1);
  for (MeasuredCollective& table : tables) table.provenance = "good.log";
  Cluster ring = shape();
  ring.all_reduce = "ring";
  // Another cluster's log among them, in another unit.
  MeasuredCollective other = tables[2];
  other.provenance = "other.log";
  for (Seconds& time : other.times) time *= 1e-3;
  tables.push_back(other);
  try {
    static_cast<void>(calibrated(ring, tables));
    FAIL("accepted");
  } catch (const InputError& refusal) {
    CHECK((refusal.where == "other.log" || refusal.where == "good.log"));
    CHECK(refusal.found.find("rms") != std::string::npos);
    CHECK(refusal.found.find("all_reduce of ") != std::string::npos);
    CHECK(refusal.found.find(" on 16 workers took ") != std::string::npos);
  }
}
