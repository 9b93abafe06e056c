// As traced: jobs by hand, whose plan and step are known, and the shipped traces of one job under several plans.
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/as_traced.hpp>
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>

#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"
#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace stepcast {
namespace {

constexpr double mebi = 0x1p20;

/// Four tensors of 10 MiB in four layers, each of which takes 1 ms forward and 2 ms backward; the update takes 1 ms.
Profile four_layers() {
  Profile p;
  p.model = "four layers";
  for (const char* name : {"a", "b", "c", "d"}) {
    p.layers.push_back({name, {milliseconds(1), {}}, {milliseconds(2), {}}});
    p.tensors.push_back({.name = name, .shape = {}, .dtype = DataType::f32, .size = mebibytes(10), .layer = 0});
  }
  p.backward_order = {3, 2, 1, 0};
  for (std::uint32_t t = 0; t < 4; ++t) p.tensors[t].layer = 3 - t;
  p.optimizer.host = milliseconds(1);
  p.traced_workers = 2;
  p.batch_samples = 8;
  p.step_times = {milliseconds(20), milliseconds(22), milliseconds(21)};
  return p;
}

ObservedCollective seen(const char* operation, std::int64_t count, double size, Seconds duration) {
  return {.operation = operation,
          .count = count,
          .size = Bytes(size),
          .duration = duration,
          .waiting = {},
          .group_size = 2,
          .source = BytesSource::metadata};
}

double milli(Seconds t) { return t.value() * 1e3; }

}  // namespace

TEST_CASE("as traced: buckets are recognised by what they carry, and take as long as they took") {
  Profile p = four_layers();
  // The first bucket is full with its first tensor, the second one with three: 25 MiB and more.
  p.collectives = {seen("allreduce", 2, 40 * mebi, milliseconds(13))};
  p.messages = {{mebibytes(10), milliseconds(1), 1}, {mebibytes(30), milliseconds(12), 3}};
  const AsTraced ddp = as_traced(p);
  CHECK(ddp.plan == "ddp");
  CHECK(milli(ddp.predicted) == doctest::Approx(4 + 8 + 12 + 1));
  CHECK(milli(ddp.measured) == doctest::Approx(21));
  CHECK(ddp.relative_error() == doctest::Approx(25.0 / 21 - 1));
  CHECK(ddp.caution().find("19.0 % too slow") != std::string::npos);

  p.messages = {{mebibytes(20), milliseconds(1), 2}, {mebibytes(20), milliseconds(8), 2}};
  CHECK(as_traced(p).plan == "ddp(bucket=16 MiB)");
  CHECK(milli(as_traced(p).predicted) == doctest::Approx(4 + 8 + 8 + 1));
  CHECK(as_traced(p).caution().empty());
  // Half the bytes on the wire.
  p.messages = {{mebibytes(10), milliseconds(1), 2}, {mebibytes(10), milliseconds(4), 2}};
  CHECK(as_traced(p).plan == "ddp(bucket=16 MiB), compressed");
  CHECK(milli(as_traced(p).predicted) == doctest::Approx(4 + 8 + 4 + 1));
  // Updated parameters that are sent round.
  p.collectives.push_back(seen("broadcast", 4, 40 * mebi, milliseconds(5)));
  CHECK(as_traced(p).plan.starts_with("layout(zero=1)/ddp"));
  CHECK(milli(as_traced(p).predicted) == doctest::Approx(4 + 8 + 4 + 1 + 5));
}

TEST_CASE("as traced: parameters that are gathered in every pass are ZeRO-3, of which a host hides nothing") {
  Profile p = four_layers();
  p.collectives = {seen("allgather", 8, 80 * mebi, milliseconds(16)),
                   seen("reducescatter", 4, 40 * mebi, milliseconds(8))};
  const AsTraced fsdp = as_traced(p);
  CHECK(fsdp.plan == "layout(zero=3)/ddp");
  CHECK(milli(fsdp.predicted) == doctest::Approx(4 + 8 + 16 + 8 + 0.5).epsilon(0.02));  // half the update each
  p.collectives[0].count = 4, p.collectives[0].size = Bytes(40 * mebi), p.collectives[0].duration = milliseconds(8);
  CHECK(as_traced(p).plan == "layout(zero=2)/ddp");
  // Without shapes nobody knows how much was gathered.
  p.collectives[0].size = Bytes(0);
  CHECK(as_traced(p).plan == "layout(zero=2)/ddp");
}

TEST_CASE("as traced: on the links that it shows a job takes what they tell, and says where that is another time") {
  // Two hosts over 1 GB/s: 20 MiB either way take 21 ms; what the messages were recorded to take is another matter.
  Profile p = four_layers();
  const auto at_rate = [](const char* operation, double rounds) {
    TransferTimes t{operation, 2, -1, {Bytes(10 * mebi), Bytes(40 * mebi)}, {}, "mpi"};
    for (const Bytes size : t.sizes) t.times.push_back(Seconds(rounds * size.value() / 2 / 1e9));
    return t;
  };
  p.transfers = {at_rate("all_reduce", 2), at_rate("reduce_scatter", 1), at_rate("all_gather", 1)};
  p.ranks.resize(2);
  const auto job = [&](double late) {
    p.collectives = {seen("allgather", 8, 80 * mebi, milliseconds(42 + late)),
                     seen("reducescatter", 4, 40 * mebi, milliseconds(21))};
    p.step_times = {milliseconds(4 + 8 + 63 + late + 0.5)};
    return with_links(as_traced(p), p, -1);
  };
  const AsTraced undisturbed = job(0), late = job(10), very_late = job(30);
  CHECK(undisturbed.predicted / undisturbed.on_links == doctest::Approx(1).epsilon(0.01));
  CHECK(undisturbed.caution_of_links().empty());
  CHECK(late.on_links == undisturbed.on_links);
  CHECK(std::abs(late.relative_error()) < 0.01);
  CHECK(late.error_on_links() < -AsTraced::telling_error);
  CHECK(late.caution_of_links().find(percent(late.error_on_links(), true)) != std::string::npos);
  for (const AsTraced& traced : {late, very_late}) {
    SelfCheck check;
    check.as_traced = traced;
    CHECK(check.has_other_links() == (traced.measured == very_late.measured));
    CHECK((check.has_other_links() ? check.caution() : check.reserve()) == traced.caution_of_links());
    CHECK((check.has_other_links() ? check.reserve() : check.caution()).empty());
    CHECK(check.for_recorded_step().reserve().empty());  // whose messages keep their own times
  }
  Profile unknown = p;
  unknown.transfers.clear();
  CHECK(with_links(as_traced(unknown), unknown, -1).on_links == Seconds(0));
}

TEST_CASE("as traced: roles tell what operations do not") {
  const auto with_role = [](ObservedCollective c, CollectiveRole role) {
    c.role = role;
    return c;
  };
  Profile p = four_layers();
  // As many gathers as for ZeRO-3, all of them before the forward pass.
  const ObservedCollective gathers = seen("allgather", 8, 80 * mebi, milliseconds(16)),
                           scatters = with_role(seen("reducescatter", 4, 40 * mebi, milliseconds(8)),
                                                CollectiveRole::gradient_scatter);
  p.collectives = {with_role(gathers, CollectiveRole::parameter_gather_forward), scatters};
  CHECK(as_traced(p).plan == "layout(zero=2)/ddp");
  p.collectives.push_back(
      with_role(seen("allgather", 8, 80 * mebi, milliseconds(16)), CollectiveRole::parameter_gather_backward));
  CHECK(as_traced(p).plan == "layout(zero=3)/ddp");
  // Of what was just updated.
  p.collectives = {with_role(seen("allgather", 4, 40 * mebi, milliseconds(8)), CollectiveRole::gather_after_update),
                   scatters};
  CHECK(as_traced(p).plan == "layout(zero=1)/ddp");
  // A model that is divided is no plan of gradients; statistics of its batches leave it one.
  p.collectives = {seen("allreduce", 2, 40 * mebi, milliseconds(13))};
  p.messages = {{mebibytes(10), milliseconds(1), 1}, {mebibytes(30), milliseconds(12), 3}};
  p.collectives.push_back(with_role(seen("allreduce", 9, 1e3, milliseconds(0.1)), CollectiveRole::within_layer));
  CHECK(as_traced(p).plan == "ddp");
  p.collectives.back().duration = milliseconds(5);
  CHECK(as_traced(p).missing.find("allreduce (within a layer) belongs to its model") != std::string::npos);
  // Of such a profile that was saved the messages are not known, which is no reason to trust it.
  Documents saved;
  saved.profile = p;
  saved.profile->messages.clear();
  CHECK(self_check_of(saved, *saved.profile).caution().find("belongs to its model") != std::string::npos);
  saved.profile->collectives.pop_back();
  CHECK(self_check_of(saved, *saved.profile).caution().empty());
}

TEST_CASE("as traced: on another cluster the job is what it was, by its name where it divides more than the batch") {
  Profile p = four_layers();
  p.collectives = {seen("allgather", 8, 80 * mebi, milliseconds(16)),
                   seen("reducescatter", 4, 40 * mebi, milliseconds(8))};
  SelfCheck check;
  const Cluster cluster = test::plain_cluster(4, BytesPerSecond(1e9));
  const PreparedQuestion question({.profile = p, .cluster = cluster});
  CHECK_FALSE(check.in_use(question));
  check.as_traced = as_traced(p);
  CHECK(check.traced_plan() == "layout(zero=3)/ddp");
  std::optional<Prediction> used = check.in_use(question);
  REQUIRE(used);
  CHECK(text_of(used->plan) == "layout(zero=3)/ddp");
  CHECK(used->iteration.value() == question.answer(plan_of("layout(zero=3)/ddp"))->iteration.value());
  CHECK(used->step_p99 > used->step_p50);
  // A question that names no plan is of this one, where it can be asked of it.
  CHECK(text_of(check.plan_in_use()) == "layout(zero=3)/ddp");
  // A layout has no jitter, which the others have.
  Cluster irregular = cluster;
  irregular.stragglers.jitter = {Jitter::Distribution::normal, 0.1};
  CHECK_FALSE(check.in_use(question.on(irregular)));
  p.collectives = {seen("allreduce", 2, 40 * mebi, milliseconds(13))};
  p.messages = {{mebibytes(20), milliseconds(1), 2}, {mebibytes(20), milliseconds(8), 2}};
  check.as_traced = as_traced(p);
  used = check.in_use(question);
  REQUIRE(used);
  CHECK(text_of(used->plan) == "ddp(bucket=16 MiB)");
  CHECK(text_of(check.plan_in_use()) == "ddp(bucket=16 MiB)");
  check.as_traced->plan += ", compressed";
  CHECK(text_of(check.plan_in_use()) == "ddp");
  CHECK(check.traced_plan().empty());
  CHECK_FALSE(check.in_use(question));
}

TEST_CASE("as traced: what no plan stands for is as it was recorded, and advice that leaves it out is not trusted") {
  Profile p = four_layers();
  p.collectives = {seen("alltoall", 2, 40 * mebi, milliseconds(13))};
  CHECK_FALSE(as_traced(p).known());
  CHECK(as_traced(p).relative_error() == 0);
  Replay replay;
  replay.measured = milliseconds(21), replay.replayed = milliseconds(20), replay.scored = true;
  SelfCheck check{.ranks = {replay}, .missing = {}, .as_traced = rebuilt(as_traced(p), replay)};
  CHECK(check.as_traced->plan == "recorded");
  CHECK(check.as_traced->left_out.find("alltoall") != std::string::npos);
  CHECK(milli(check.as_traced->predicted) == doctest::Approx(20));
  CHECK_FALSE(check.trusted());
  p.collectives.clear();
  p.step_times = {lone_step_time(p)};
  check.as_traced = rebuilt(as_traced(p), replay);
  CHECK(check.as_traced->plan == "one worker");
  CHECK(check.as_traced->relative_error() == doctest::Approx(0));
  check.ranks[0].relative_error = 0.01;
  CHECK(check.trusted());
  CHECK(check.caution().empty());
  p.collectives = {seen("allreduce", 1, 3, milliseconds(13))};
  CHECK(as_traced(p).missing.find("byte for byte") != std::string::npos);
  p.step_times.clear();
  CHECK(as_traced(p).missing == "the step was not measured");
}

TEST_CASE("as traced: without the profiler the host's work shrinks, and device and collectives stay") {
  Profile p = four_layers();
  p.collectives = {seen("allreduce", 2, 40 * mebi, milliseconds(13))};
  p.messages = {{mebibytes(10), milliseconds(1), 1}, {mebibytes(30), milliseconds(8), 3}};
  // 13 ms of host, 8 ms of the last message: predicted as measured.
  const Profile shorter = without_profiler(p, milliseconds(14.5));
  CHECK(milli(shorter.layers[0].forward.host) == doctest::Approx(0.5).epsilon(0.001));
  CHECK(milli(as_traced(shorter).predicted) == doctest::Approx(14.5).epsilon(0.001));
  CHECK(milli(as_traced(shorter).measured) == doctest::Approx(14.5).epsilon(0.001));
  CHECK(shorter.assumed.back().find("scaled to 50.0 %") != std::string::npos);
  CHECK_THROWS_WITH_AS((void)without_profiler(p, milliseconds(7), "--step"),
                       doctest::Contains("which the device and the collectives take without the host"), InputError);
  CHECK_THROWS_AS((void)without_profiler(p, milliseconds(43)), InputError);
  // As many bytes went in 1 ms: for 7 ms of the last message others were waited for, who are sooner, too.
  p.messages = {{mebibytes(20), milliseconds(1), 2}, {mebibytes(20), milliseconds(8), 2}};
  const Profile sooner = without_profiler(p, milliseconds(14.5));
  const double by = (14.5 - 1) / (13 + 7);
  CHECK(sooner.cautions.empty());
  CHECK(without_profiler(p, milliseconds(8)).cautions.size() == 1);
  CHECK(milli(sooner.layers[0].forward.host) == doctest::Approx(by).epsilon(0.001));
  CHECK(milli(sooner.messages[0].duration) == doctest::Approx(1));
  CHECK(milli(sooner.messages[1].duration) == doctest::Approx(1 + 7 * by).epsilon(0.001));
  p.collectives = {seen("alltoall", 2, 40 * mebi, milliseconds(13))};
  CHECK_THROWS_AS((void)without_profiler(p, milliseconds(14)), InputError);
  p.step_times.clear();
  CHECK_THROWS_AS((void)without_profiler(p, milliseconds(14)), InputError);
}

TEST_CASE("as traced: without the profiler a host that the device hides is no slower, and loading takes as long") {
  Profile p = four_layers();
  p.device = "device";
  p.traced_workers = 1;
  for (Layer& layer : p.layers) layer.forward.device = milliseconds(5);
  p.step_times = {milliseconds(20)};
  // 13 ms of host under 20 ms of device: a step that is 1 % longer tells nothing of the host.
  for (const double step : {19.8, 20.0, 20.2}) {
    const Profile same = without_profiler(p, milliseconds(step));
    CHECK(milli(lone_step_time(same)) == doctest::Approx(step));
    CHECK(milli(same.layers[0].forward.host) == doctest::Approx(step / 20));
    CHECK(same.without_profiler);
    CHECK(profile_of_json(json_of(same), "same").without_profiler);
  }
  CHECK_THROWS_AS((void)without_profiler(p, milliseconds(18)), InputError);
  // 26 ms of host, of which the device hides 20: no step below tells how many there are.
  for (Layer& layer : p.layers) layer.forward.host *= 2, layer.backward.host *= 2;
  p.optimizer.host *= 2;
  p.step_times = {milliseconds(26)};
  const Profile hidden = without_profiler(p, milliseconds(20));
  CHECK(milli(hidden.layers[0].forward.host) == doctest::Approx(2 * 20.0 / 26));
  CHECK(hidden.assumed.back().find("at most 76.9 %") != std::string::npos);
  CHECK(milli(without_profiler(p, milliseconds(23)).optimizer.host) == doctest::Approx(2 * 23.0 / 26));
  // What it loads in the training process is no work of many operators, each of which the profiler slows.
  p.input = milliseconds(10);
  p.step_times = {milliseconds(36)};
  const Profile loading = without_profiler(p, milliseconds(32));
  CHECK(milli(loading.input) == doctest::Approx(10));
  CHECK(milli(loading.optimizer.host) == doctest::Approx(2 * 22.0 / 26));
}

TEST_CASE("as traced: a longer step without the profiler is one of all work, whoever sets the pace, and cautioned") {
  Profile p = four_layers();
  p.device = "device";
  p.traced_workers = 1;
  const auto longer = [&](double step) { return without_profiler(p, milliseconds(step), "--step"); };
  // 13 ms of host and 20 ms of device, then 26 ms of host.
  for (const double host : {1.0, 2.0}) {
    for (Layer& layer : p.layers)
      layer.forward = {milliseconds(host), milliseconds(5)}, layer.backward.host = milliseconds(2 * host);
    p.optimizer.host = milliseconds(host);
    const double traced = std::max(20.0, 13 * host);
    p.step_times = {milliseconds(traced)};
    for (const double factor : {1.04, 1.049, 1.051, 1.06, 1.5, 2.0}) {
      CAPTURE(factor);
      const Profile q = longer(factor * traced);
      CHECK(milli(lone_step_time(q)) == doctest::Approx(factor * traced));
      CHECK(milli(q.layers[0].forward.host) == doctest::Approx(factor * host));
      CHECK(milli(q.layers[0].forward.device) == doctest::Approx(factor * 5));
      CHECK(q.assumed.back().find("all work is scaled to") != std::string::npos);
      CHECK(q.cautions.size() == (factor > 1.05 ? 1 : 0));
    }
    const std::string pace = host > 1
                                 ? "whose pace the host sets (the device's work takes 20.00 ms, the host's 26.00 ms)"
                                 : "whose pace the device sets (the device's work takes 20.00 ms, the host's 13.00 ms)";
    const std::string caution = longer(1.5 * traced).cautions.at(0);
    CHECK_MESSAGE(caution.find("50.0 % longer than the traced one") != std::string::npos, caution);
    CHECK_MESSAGE(caution.find(pace) != std::string::npos, caution);
    CHECK_MESSAGE(caution.find("taken to be 150.0 % of what was recorded") != std::string::npos, caution);
  }
  // Messages stay: 13 ms of host before 8 ms of the last one, then before 40 ms.
  p = four_layers();
  p.collectives = {seen("allreduce", 2, 40 * mebi, milliseconds(13))};
  p.messages = {{mebibytes(10), milliseconds(1), 1}, {mebibytes(30), milliseconds(8), 3}};
  CHECK(milli(longer(34).layers[0].forward.host) == doctest::Approx(2).epsilon(0.001));
  CHECK(longer(34).cautions.at(0).find("pace") == std::string::npos);
  p.messages[1].duration = milliseconds(40);
  p.step_times = {milliseconds(53)};
  CHECK_THROWS_WITH_AS((void)longer(106), doctest::Contains("at most 92.00 ms, with four times the work"), InputError);
}

TEST_CASE("as traced: the shipped jobs of several ranks") {
  struct Job {
    const char* name;
    const char* plan;
    double most;
  };
  const auto examples = std::filesystem::path(STEPCAST_SOURCE_DIR) / "profiles/examples";
  for (const Job& job : {Job{"ddp", "ddp(first=25 MiB)", 0.05}, Job{"fsdp2", "layout(zero=3)/ddp", 0.1}}) {
    CAPTURE(job.name);
    std::vector<Trace> ranks;
    for (const std::string rank : {"0", "1"}) {
      const test::File file(examples / ("gpt-cpu-" + std::string(job.name) + "-rank" + rank + ".pt.trace.json.gz"));
      ranks.push_back(trace_of(file.source()));
    }
    const AsTraced found = as_traced(profile_of(ranks));
    CHECK(found.plan == job.plan);
    CHECK(std::abs(found.relative_error()) < job.most);
    const AsTraced linked = with_links(found, profile_of(ranks), -1);
    CHECK(linked.on_links > Seconds(0));
    CHECK(std::abs(linked.error_on_links()) < job.most);
  }
}

TEST_CASE("as traced: public jobs of several GPUs") {
  const auto traces = test::shared_folder("traces/facebookresearch__HolisticTraceAnalysis");
  if (!traces) return;
  const auto found = [&](const char* name) {
    const test::File file(*traces / name);
    return as_traced(profile_of(trace_of(file.source())));
  };
  const AsTraced resnet = found("nccl_parser_config__nccl_data.json.gz");
  CHECK(resnet.plan == "ddp");
  CHECK(std::abs(resnet.relative_error()) < 0.03);
  CHECK_FALSE(found("trace_diff__control__control.json.gz").known());  // all-to-alls of embeddings
}

}  // namespace stepcast
