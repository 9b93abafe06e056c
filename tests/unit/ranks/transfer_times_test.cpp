// Transfer times: where groups lie, by the devices of a machine and the ranks of a group.
#include <stepcast/ranks/transfer_times.hpp>

#include "helpers/ranks_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

/// One rank of a run of so many, whose all-reduces are among `ranks` (all of them: empty).
Trace of_group(std::int64_t world, std::int64_t devices, const std::vector<std::int64_t>& ranks) {
  Trace trace = test::traces_of({.ranks = 1, .steps = 2}).front();
  trace.world_size = world;
  trace.machine_devices = devices;
  const auto text = [&](const char* word) {
    trace.strings.emplace_back(word);
    return StringId(trace.strings.size() - 1);
  };
  CollectiveArguments arguments;
  arguments.dtype = text("Float"), arguments.name = text("allreduce"), arguments.group = text("mesh");
  arguments.group_size = ranks.empty() ? world : std::ssize(ranks);
  arguments.in_elements = arguments.out_elements = 1'000'000;
  if (!ranks.empty()) trace.groups.push_back({"mesh", "", ranks});
  for (Event& e : trace.events) {
    if (e.kind != EventKind::kernel || trace.text(e.name).find("AllReduce") == std::string_view::npos) continue;
    e.collective = std::uint32_t(trace.collectives.size());
    trace.collectives.push_back(arguments);
  }
  return trace;
}

std::int64_t per_machine(const Trace& trace) {
  const std::vector<TransferTimes> times = transfer_times_of(TraceIndex(trace));
  REQUIRE(times.size() == 1);
  CHECK(times[0].operation == "all_reduce");
  CHECK(times[0].sizes == std::vector<Bytes>{Bytes(4e6)});
  return times[0].per_machine;
}

}  // namespace

TEST_CASE("transfer times: a group lies where its ranks do") {
  CHECK(per_machine(of_group(8, 8, {})) == 8);
  CHECK(per_machine(of_group(4, 8, {})) == 4);
  CHECK(per_machine(of_group(4, 8, {0, 2})) == 2);   // all of the run are on one machine
  CHECK(per_machine(of_group(16, 8, {})) == 8);      // two machines
  CHECK(per_machine(of_group(16, 8, {0, 8})) == 1);  // data parallel beside tensor parallel
  CHECK(per_machine(of_group(16, 8, {8, 9, 10, 11})) == 4);
  CHECK(per_machine(of_group(32, 8, {0, 1, 8, 9})) == 2);
  CHECK(per_machine(of_group(16, 8, {0, 1, 2, 8})) == -1);  // uneven
  CHECK(per_machine(of_group(12, 8, {})) == -1);
  CHECK(per_machine(of_group(8, 1, {})) == -1);  // one device is seen of many, perhaps
  CHECK(per_machine(of_group(8, -1, {})) == -1);
}

TEST_CASE("transfer times: of one rank the least of each size, and none longer than a larger one") {
  const Trace trace = of_group(8, 8, {});
  const TransferTimes times = transfer_times_of(TraceIndex(trace)).front();
  double least = 1;
  for (const Event& e : trace.events)
    if (e.kind == EventKind::kernel && trace.text(e.name).find("AllReduce") != std::string_view::npos)
      least = std::min(least, double(e.duration_ns) * 1e-9);
  CHECK(times.times.front().value() == doctest::Approx(least));
}

TEST_CASE("transfer times: messages in flight together share their links, and sum to the time in which any is") {
  Trace trace = of_group(8, -1, {});
  std::vector<Event*> sent;
  for (Event& e : trace.events)
    if (e.kind == EventKind::kernel && e.collective != no_index) sent.push_back(&e);
  REQUIRE(sent.size() >= 3);
  // 100 us alone, 100 us of two, 100 us of three, 100 us of two again, and a last one by itself.
  const std::int64_t start = sent[0]->start_ns;
  const std::pair<std::int64_t, std::int64_t> times[] = {{0, 300'000}, {100'000, 400'000}, {200'000, 400'000}};
  for (std::size_t i = 0; i < 3; ++i) {
    sent[i]->start_ns = start + times[i].first;
    sent[i]->duration_ns = times[i].second - times[i].first;
    trace.collectives[sent[i]->collective].in_elements = trace.collectives[sent[i]->collective].out_elements =
        1'000 * (std::int64_t(i) + 1);
  }
  for (std::size_t i = 3; i < sent.size(); ++i) sent[i]->collective = no_index, sent[i]->kind = EventKind::other;
  const std::vector<TransferTimes> found = transfer_times_of(TraceIndex(trace));
  REQUIRE(found.size() == 1);
  REQUIRE(found[0].times.size() == 3);
  const double third = 100e-6 / 3, half = 50e-6;
  // The largest message bounds the smaller ones.
  CHECK(found[0].times[2].value() == doctest::Approx(third + half));
  CHECK(found[0].times[1].value() == doctest::Approx(std::min(third + half, half + third + half)));
  CHECK(found[0].times[0].value() == doctest::Approx(std::min(third + half, 100e-6 + half + third)));
}

}  // namespace stepcast
