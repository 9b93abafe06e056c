// Traced links: transfers of a hand-written run, with a late rank, read together and one alone.
#include <stepcast/calibration/calibration.hpp>
#include <stepcast/calibration/traced_links.hpp>

#include "helpers/ranks_run.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace stepcast {
namespace {

/// Ranks whose first all-reduce of each step carries a million numbers, and its last one two millions.
std::vector<Trace> sized_run() {
  std::vector<Trace> ranks = test::traces_of({.ranks = 4, .steps = 4, .late_rank = 2, .late_us = 5000});
  for (Trace& trace : ranks) {
    CollectiveArguments arguments;
    trace.strings.emplace_back("Float");
    arguments.dtype = StringId(trace.strings.size() - 1);
    trace.strings.emplace_back("allreduce");
    arguments.name = StringId(trace.strings.size() - 1);
    arguments.group_size = 4;
    int number = 0;
    for (Event& e : trace.events) {
      if (e.kind != EventKind::kernel || trace.text(e.name).find("AllReduce") == std::string_view::npos) continue;
      arguments.in_elements = arguments.out_elements = number++ % 2 == 0 ? 1'000'000 : 2'000'000;
      e.collective = std::uint32_t(trace.collectives.size());
      trace.collectives.push_back(arguments);
    }
  }
  return ranks;
}

}  // namespace

TEST_CASE("traced links: of several ranks the waiting is left out, of one the least counts") {
  const std::vector<Trace> ranks = sized_run();
  const std::vector<MeasuredCollective> all = collectives_of_traces(ranks);
  REQUIRE(all.size() == 1);
  CHECK(all[0].operation == "all_reduce");
  CHECK(all[0].workers == 4);
  REQUIRE(all[0].sizes.size() == 2);
  CHECK(all[0].sizes[0] == Bytes(4e6));
  CHECK(all[0].sizes[1] == Bytes(8e6));
  CHECK(all[0].times[0].value() == doctest::Approx(50e-6).epsilon(0.03));
  CHECK(all[0].times[1].value() == doctest::Approx(50e-6).epsilon(0.03));
  const std::vector<MeasuredCollective> alone = collectives_of_traces(std::span(ranks).first(1));
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].times[0] <= alone[0].times[1]);
  CHECK(alone[0].times[0].value() >= 49e-6);
  CHECK(alone[0].times[1].value() < 200e-6);  // computing varies by 40 us
  CHECK(alone[0].provenance.find("others may have been late") != std::string::npos);

  Cluster base;
  base.nodes = 4;
  base.inside = base.network = {microseconds(5), BytesPerSecond(1e9)};
  const Calibration links = calibrated(base, all);
  CHECK(links.cluster.tables.size() == 1);
  CHECK(links.cluster.network.bandwidth > BytesPerSecond(1e11));  // twice the bytes in the same time
}

TEST_CASE("traced links: traces without sizes are refused") {
  const std::vector<Trace> ranks = test::traces_of({});
  CHECK_THROWS_WITH_AS((void)collectives_of_traces(ranks),
                       doctest::Contains("expected collectives whose size and group the trace tells, found none"),
                       InputError);
}

}  // namespace stepcast
