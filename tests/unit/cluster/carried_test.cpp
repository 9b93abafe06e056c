// Carried tables: on a measured count the table, between counts between them, far away the forms.
#include <stepcast/cluster/carried.hpp>

#include <doctest/doctest.h>

#include <cmath>

using namespace stepcast;
using doctest::Approx;

namespace {

Cluster machines(std::int64_t nodes) {
  Cluster c;
  c.name = "measured";
  c.nodes = nodes;
  c.devices_per_node = 8;
  c.nics_per_node = 8;
  c.inside = {microseconds(3), BytesPerSecond(200e9)};
  c.network = {microseconds(8), BytesPerSecond(20e9)};
  c.all_reduce = "nccl";
  c.provenance = {"test"};
  return c;
}

Cluster on(const Cluster& c, std::int64_t workers) {
  Answer<Cluster> sized = resized(c, workers);
  REQUIRE(sized);
  return *sized;
}

Seconds time_of(const Cluster& c, Operation op, Bytes m, const char* algorithm = "") {
  const Answer<CommunicationCost> cost = communication_cost(c, algorithm);
  REQUIRE(cost);
  return (*cost)(op, m);
}

/// The forms of `workers`, times a factor, as if they had been measured.
MeasuredCollective table_of(const Cluster& c, Operation op, std::int64_t workers, double factor) {
  MeasuredCollective table;
  table.operation = name_of(op);
  table.workers = workers;
  for (double m = 1024; m <= 0x1p30; m *= 2) {
    table.sizes.emplace_back(m);
    table.times.push_back(time_of(on(c, workers), op, Bytes(m), "nccl") * factor);
  }
  return table;
}

}  // namespace

TEST_CASE("carried: a factor that all counts share is found on every count") {
  for (const Operation op : {Operation::all_reduce, Operation::all_gather, Operation::all_to_all}) {
    Cluster c = machines(8);
    c.tables = {table_of(c, op, 16, 1.3), table_of(c, op, 64, 1.3)};
    for (const std::int64_t workers : {16, 32, 64, 128, 256})
      for (const double m : {64.0, 1e4, 1e6, 1e8, 1e11})
        CHECK(time_of(on(c, workers), op, Bytes(m)).value() ==
              Approx(1.3 * time_of(on(c, workers), op, Bytes(m), "nccl").value()).epsilon(0.08));
  }
}

TEST_CASE("carried: the table on its own count, between two counts between them, nothing sixteen times beyond") {
  Cluster c = machines(8);
  c.tables = {table_of(c, Operation::all_reduce, 16, 1.5), table_of(c, Operation::all_reduce, 64, 0.9)};
  const Bytes m = mebibytes(1);
  const auto factor = [&](std::int64_t workers) {
    return time_of(on(c, workers), Operation::all_reduce, m) /
           time_of(on(c, workers), Operation::all_reduce, m, "nccl");
  };
  CHECK(factor(16) == Approx(1.5));
  CHECK(factor(64) == Approx(0.9));
  CHECK(factor(32) == Approx(std::sqrt(1.5 * 0.9)));
  CHECK(factor(256) == Approx(0.9));
  CHECK(factor(512) == Approx(std::sqrt(0.9)));
  CHECK(factor(1024) == Approx(1));
  // What several machines do says nothing of one.
  CHECK(factor(8) == Approx(1));
}

TEST_CASE("carried: two devices exchange without a ring, and launches of one process bound nothing elsewhere") {
  Cluster c = machines(1);
  c.tables = {table_of(c, Operation::all_reduce, 2, 1.5)};
  const Bytes m = mebibytes(1);
  CHECK(time_of(on(c, 8), Operation::all_reduce, m) == time_of(on(c, 8), Operation::all_reduce, m, "nccl"));
  CHECK(time_of(on(c, 2), Operation::all_reduce, m).value() ==
        Approx(1.5 * time_of(on(c, 2), Operation::all_reduce, m, "nccl").value()));
  // 8 devices launched one after the other: 400 us whatever the size.
  MeasuredCollective bound = table_of(c, Operation::all_reduce, 8, 1);
  bound.devices_per_process = 8;
  for (Seconds& time : bound.times) time = std::max(time, microseconds(400));
  c.tables = {bound};
  CHECK(time_of(on(c, 8), Operation::all_reduce, Bytes(1024)).value() == Approx(400e-6));
  CHECK(time_of(on(c, 4), Operation::all_reduce, Bytes(1024)) < microseconds(100));
}

TEST_CASE("carried: stragglers slow what was measured down as they do the forms") {
  Cluster c = machines(8);
  c.tables = {table_of(c, Operation::all_reduce, 64, 1.2)};
  Cluster slow = c;
  slow.stragglers.slow = {{.link_share = 0.25}};
  CHECK(time_of(slow, Operation::all_reduce, mebibytes(1024)) / time_of(c, Operation::all_reduce, mebibytes(1024)) ==
        Approx(time_of(slow, Operation::all_reduce, mebibytes(1024), "nccl") /
               time_of(c, Operation::all_reduce, mebibytes(1024), "nccl")));
}

TEST_CASE("spread: what it is taken from has a name") {
  Cluster c = machines(8);
  CHECK(what_was_measured(on(c, 64), Operation::all_reduce) == "nothing");
  c.tables = {table_of(c, Operation::all_reduce, 16, 1)};
  CHECK(what_was_measured(on(c, 64), Operation::all_reduce) == "one count");
  CHECK(what_was_measured(on(c, 64), Operation::all_to_all) == "nothing");
  CHECK(what_was_measured(on(c, 16), Operation::all_reduce) == "this count");
  c.tables.push_back(table_of(c, Operation::all_reduce, 128, 1));
  CHECK(what_was_measured(on(c, 64), Operation::all_reduce) == "counts around");
  c.all_reduce = "ring";
  CHECK(what_was_measured(c, Operation::all_reduce) == "one error");
}

TEST_CASE("spread: the more was measured around a count, the less it is in doubt") {
  Cluster c = machines(8);
  const auto spread = [&](std::int64_t workers, Bytes m) {
    return spread_of(on(c, workers), Operation::all_reduce, m);
  };
  for (const Bytes m : {Bytes(1024), Bytes(1e5), Bytes(1e7), Bytes(1e9)}) {
    c.tables.clear();
    const double named = spread(64, m);
    c.tables = {table_of(c, Operation::all_reduce, 16, 1)};
    const double beyond = spread(64, m), far = spread(512, m);
    c.tables.push_back(table_of(c, Operation::all_reduce, 128, 1));
    const double between = spread(64, m), measured = spread(128, m);
    CHECK(named >= far);
    CHECK(far >= beyond);
    CHECK(beyond > between);
    CHECK(between > measured);
    CHECK(measured >= 1);
  }
  CHECK(spread_of(c, Operation::all_reduce, Bytes(1024)) > 1);
  // Clusters whose algorithm carries nothing have one error for all sizes.
  c.all_reduce = "ring";
  c.relative_error = 0.1;
  CHECK(relative_error_of(c) == 0.1);
  CHECK(spread(64, Bytes(1)) == spread(64, Bytes(1e9)));
}
