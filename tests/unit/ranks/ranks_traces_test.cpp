// Ranks of public traces and of the laboratory's: who is late, since when, and why; transfer without waiting.
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/ranks/ranks.hpp>

#include "helpers/ranks_run.hpp"
#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace stepcast {
namespace {

namespace fs = std::filesystem;

/// The traces of all files of ../shared/<folder> whose names begin like this.
std::vector<Trace> traces_in(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(prefix)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Trace> traces;
  for (const fs::path& file : files) {
    const test::File bytes(file);
    for (Trace& trace : reading_of(bytes.source()).traces) traces.push_back(std::move(trace));
  }
  return traces;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("ranks: torchrec's injected sleeps of one second: the rank, the steps and the gap") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  for (const char* prefix :
       {"sst_sleep_pl_dense_after_backward_2__", "sst_long_a2a_optimizer__", "sst_long_a2a_optimizer_2__240"}) {
    CAPTURE(prefix);
    const std::vector<Trace> traces = traces_in(*folder / "pytorch__torchrec", prefix);
    REQUIRE(traces.size() == 4);
    const RunOfRanks run = run_of(traces);
    REQUIRE(run.straggler);
    CHECK(run.ranks[run.straggler->index].rank == 2);
    CHECK(run.straggler->late.value() == doctest::Approx(1.02).epsilon(0.03));
    CHECK(run.straggler->steps == std::vector<std::int64_t>{4, 5, 6});
    CHECK(
        contains(run.straggler->cause, "1.001 s longer without a host event after aten::view, before _AlltoAllSingle"));
    CHECK(contains(run.straggler->cause, "# running sparse arch"));
    // The others wait for it for three seconds; what is left is transfer, equally long everywhere.
    for (const RankOfRun& rank : run.ranks) {
      CAPTURE(rank.rank);
      CHECK(rank.partnerless == 0);
      CHECK(rank.clock.residual < microseconds(20));  // one machine, one clock
      CHECK(std::abs(rank.clock.offset_ns) < 100'000);
      if (rank.rank == 2) CHECK(rank.waiting < milliseconds(20));
      else CHECK(rank.waiting.value() == doctest::Approx(3.08).epsilon(0.03));
      CHECK(rank.transfer < milliseconds(100));
    }
  }
}

TEST_CASE("ranks: torchrec's other runs: 30 ms of each step are lost within one backward node of rank 2") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  for (const char* prefix :
       {"sst_long_a2a_optimizer_2__26", "sst_long_a2a_optimizer_3__", "sst_long_a2a_optimizer_5__"}) {
    CAPTURE(prefix);
    const RunOfRanks run = run_of(traces_in(*folder / "pytorch__torchrec", prefix));
    REQUIRE(run.straggler);
    CHECK(run.ranks[run.straggler->index].rank == 2);
    CHECK(run.straggler->steps == std::vector<std::int64_t>{4, 5, 6});
    CHECK(contains(run.straggler->cause, "longer in _AlltoAllSingleBackward, within '## backward ##'"));
    CHECK(contains(run.straggler->cause, "30."));
  }
}

TEST_CASE("ranks: two ranks of resnet18, two of 128") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  const RunOfRanks resnet = run_of(traces_in(*folder / "pytorch__torchrec", "resnet18__"));
  CHECK(resnet.collectives.size() == 12);
  // 7.73 ms of rank 0 and 0.17 ms of rank 1 are in collectives: rank 0 waits for all but the latter.
  CHECK(resnet.ranks[0].waiting.value() == doctest::Approx(7.56e-3).epsilon(0.01));
  CHECK(resnet.ranks[0].transfer.value() == doctest::Approx(0.17e-3).epsilon(0.05));
  REQUIRE(resnet.straggler);
  CHECK(resnet.straggler->index == 1);

  std::vector<Trace> two;
  const fs::path hta = *folder / "facebookresearch__HolisticTraceAnalysis";
  for (const char* name : {"timeline_analysis__sampled_rank-0.json.gz", "trace_filter__sampled_rank-1.json.gz"})
    two.push_back(trace_of(test::File(hta / name).source()));
  const RunOfRanks run = run_of(two);
  CHECK(run.world_size == 128);
  CHECK(run.missing.size() == 126);
  // Sampled traces: only five collectives of each are in the other, too.
  CHECK(run.collectives.size() == 5);
  CHECK(run.ranks[0].partnerless == 5);
  CHECK(run.ranks[1].partnerless == 5);
  REQUIRE(!run.assumed.empty());
  CHECK(contains(run.assumed.back(), "126 of 128 ranks were not given"));
}

TEST_CASE("ranks: DLRM on eight ranks: transfer and waiting") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  const std::vector<Trace> traces = traces_in(*folder / "facebookresearch__param", "dlrm_kineto.tar.gz");
  REQUIRE(traces.size() == 8);
  const RunOfRanks run = run_of(traces);
  CHECK(run.missing.empty());
  REQUIRE(run.collectives.size() == 8);
  for (const MatchedCollective& c : run.collectives)
    CHECK(std::ranges::none_of(c.ranks, [](const Participation& p) { return p.event == no_index; }));
  for (const RankOfRun& rank : run.ranks) {
    CAPTURE(rank.rank);
    CHECK(rank.transfer.value() == doctest::Approx(217e-6).epsilon(0.01));  // sum of the shortest kernels
    CHECK(rank.clock.residual <= microseconds(2));
    if (rank.rank == 7) CHECK(rank.waiting.value() == doctest::Approx(1.53e-3).epsilon(0.01));
    if (rank.rank == 1) CHECK(rank.waiting.value() == doctest::Approx(11.1e-3).epsilon(0.01));
  }
  // Ranks 2, 6 and 7 come late, so that no one of them is the straggler.
  CHECK(!run.straggler);
  CHECK(contains(run.verdict(), "rank 7 for 40.4 %"));
}

TEST_CASE("ranks: a measured pair on other clocks is the same pair, and a delay put into one rank is named") {
  const auto folder = test::shared_folder("lab");
  if (!folder) return;
  const std::vector<Trace> pair = traces_in(*folder / "traces", "tfm4x256_w2_ddp25_1000mbit");
  REQUIRE(pair.size() == 2);
  const RunOfRanks run = run_of(pair);
  CHECK(contains(run.verdict(), "the ranks keep pace"));
  REQUIRE(run.collectives.size() == 6);
  for (const std::int64_t offset : {std::int64_t{-400'000'000}, std::int64_t{90'000'000'000}}) {
    const RunOfRanks moved = run_of(std::vector<Trace>{pair[0], test::shifted(pair[1], offset)});
    CHECK(moved.collectives.size() == 6);
    CHECK(moved.verdict() == run.verdict());
    CHECK(std::abs(moved.ranks[1].clock.offset_ns - run.ranks[1].clock.offset_ns - offset) < 1'000);
    for (std::size_t r = 0; r < 2; ++r)
      CHECK(moved.ranks[r].waiting.value() == doctest::Approx(run.ranks[r].waiting.value()));
  }
  // 150 ms more on one rank before it issues the first collective of the second step; there the other one waits.
  for (const std::size_t late : {0u, 1u}) {
    CAPTURE(late);
    constexpr std::int64_t delay = 150'000'000;
    const std::size_t other = 1 - late;
    const auto first = std::ranges::find_if(run.collectives, [&](const MatchedCollective& c) {
      return c.ranks[0].start_ns > run.ranks[0].steps[1].start_ns;
    });
    REQUIRE(first != run.collectives.end());
    const Event& issued = pair[late].events[first->ranks[late].event];
    const Event& waiting = pair[other].events[first->ranks[other].event];
    std::vector<Trace> traces(2);
    traces[late] = test::delayed(pair[late], issued.start_ns - 1'000'000, delay);
    traces[other] = test::delayed(pair[other], waiting.end_ns() - 1, delay);
    const RunOfRanks delayed = run_of(traces);
    REQUIRE(delayed.straggler);
    CHECK(delayed.straggler->index == late);
    CHECK(delayed.straggler->late.value() == doctest::Approx(0.15).epsilon(0.1));
    CHECK(delayed.straggler->steps == std::vector<std::int64_t>{run.ranks[late].steps[1].number});
    CHECK(!delayed.straggler->cause.empty());
  }
}

TEST_CASE("ranks: the profile of several ranks holds transfer and waiting apart, and survives JSON") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  const std::vector<Trace> traces = traces_in(*folder / "facebookresearch__param", "dlrm_kineto.tar.gz");
  const Profile profile = profile_of(traces);
  const Profile alone = profile_of(traces[5]);
  REQUIRE(profile.ranks.size() == 8);
  CHECK(alone.ranks.empty());
  CHECK(
      std::ranges::any_of(alone.assumed, [](const auto& text) { return contains(text, "one of 8 ranks stands for"); }));
  CHECK(std::ranges::none_of(profile.assumed, [](const auto& text) { return contains(text, "stands for all"); }));
  Seconds transfer, together;
  for (const ObservedCollective& c : profile.collectives) {
    CHECK(c.waiting > Seconds(0));
    transfer += c.duration;
    together += c.duration + c.waiting;
  }
  CHECK(transfer.value() == doctest::Approx(217e-6).epsilon(0.01));
  const auto with = [&](const TracedRank& r) { return std::abs((r.transfer + r.waiting - together).value()) < 1e-5; };
  CHECK(std::ranges::any_of(profile.ranks, with));
  CHECK(contains(profile.lateness, "rank 7 for 40.4 %"));
  const std::string json = json_of(profile);
  CHECK(json_of(profile_of_json(json, "profile.json")) == json);
}

TEST_CASE("ranks: one recording twice is refused, and what was not given or is of another run is said") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  const auto trace = [&](const std::string& begin) { return traces_in(*folder / "pytorch__torchrec", begin).at(0); };
  const Trace one = trace("sst_sleep_pl_dense_after_backward_2__19489");
  Trace copy = one;
  copy.source = "copy.json.gz";
  CHECK_THROWS_WITH_AS((void)run_of(std::vector{one, copy}), doctest::Contains("the same recording"), InputError);
  const Trace third = trace("sst_sleep_pl_dense_after_backward_2__19491");
  CHECK(run_of(std::vector{one, third}).verdict().ends_with("; only 2 of 4 ranks were given"));
  const Trace other = trace("sst_long_a2a_optimizer_3__29220");
  CHECK(run_of(std::vector{one, other}).verdict().ends_with("are these ranks of one run?"));
}

}  // namespace
}  // namespace stepcast
