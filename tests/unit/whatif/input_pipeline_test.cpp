// Input pipelines: closed forms against simulated caches and loaders, the laws of data stalls, and JSON.
#include "helpers/random_input.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/whatif/input_pipeline.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <numeric>
#include <random>
#include <vector>

using namespace stepcast;

namespace {

/// ImageNet-1k on an SSD: 146 GB, 1,281,167 images.
InputPipeline imagenet() {
  InputPipeline p;
  p.name = "imagenet";
  p.data_set = Bytes(146e9);
  p.samples = 1281167;
  p.storage = BytesPerSecond(530e6);
  p.prep_samples_per_s = 245;
  p.workers = 24;
  p.provenance = {"test"};
  return p;
}

InputPipeline random_pipeline(test::Draw& draw) {
  InputPipeline p = imagenet();
  p.data_set = Bytes(draw.log_uniform(1e8, 1e13));
  p.samples = std::floor(draw.log_uniform(1e3, 1e9));
  p.cached_share = draw.whole(0, 10) / 10.0;
  p.cache = static_cast<CachePolicy>(draw.whole(0, 2));
  p.storage = BytesPerSecond(draw.log_uniform(1e7, 1e10));
  if (draw.coin()) p.storage_per_worker = p.storage / draw.log_uniform(1, 50);
  if (draw.coin()) p.memory = BytesPerSecond(draw.log_uniform(1e9, 1e11));
  p.network = BytesPerSecond(draw.log_uniform(1e8, 1e11));
  p.prep_samples_per_s = draw.coin() ? 0 : draw.log_uniform(1, 1e5);
  p.workers = draw.whole(0, 64);
  p.loader = draw.coin() ? LoaderLaw::serial : LoaderLaw::pipelined;
  p.jobs = draw.whole(1, 4);
  p.coordinated = draw.coin();
  return p;
}

/// An LRU cache of samples: the most recently used first.
class LruCache {
 public:
  LruCache(std::size_t samples, std::size_t capacity) : where_(samples, order_.end()), capacity_(capacity) {}
  bool hit(std::size_t sample) {
    const bool hit = where_[sample] != order_.end();
    if (hit) order_.erase(where_[sample]);
    else if (order_.size() == capacity_) {
      where_[order_.back()] = order_.end();
      order_.pop_back();
    }
    order_.push_front(sample);
    where_[sample] = order_.begin();
    return hit;
  }

 private:
  std::list<std::size_t> order_;
  std::vector<std::list<std::size_t>::iterator> where_;
  std::size_t capacity_;
};

/// The share of hits in the cache of the first of `servers`, when every epoch is a fresh permutation that is dealt out.
double simulated_hit_share(double share, std::size_t servers, int epochs) {
  constexpr std::size_t samples = 20000;
  const auto capacity = static_cast<std::size_t>(share * samples);
  LruCache cache(samples, capacity);
  std::mt19937 random(7);
  std::vector<std::size_t> order(samples);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::size_t hits = 0, reads = 0;
  const int warm_up = epochs / 2;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i = 0; i < samples / servers; ++i) {
      const bool hit = cache.hit(order[i]);
      if (epoch < warm_up) continue;
      hits += hit;
      ++reads;
    }
  }
  return static_cast<double>(hits) / static_cast<double>(reads);
}

/// Batches from `workers` that each prepare whole batches, round robin, at most two each ahead of a step that takes
/// `step`: the mean time between the last half of the steps.
double simulated_step(double per_batch, std::size_t workers, double step, int steps) {
  std::vector<double> consumed;  // when each batch was taken
  std::vector<double> worker_free(workers, 0);
  double now = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(steps); ++i) {
    const std::size_t ahead = 2 * workers;
    const double may_start = i >= ahead ? consumed[i - ahead] : 0;
    double& free = worker_free[i % workers];
    free = std::max(free, may_start) + per_batch;
    now = std::max(now, free);
    consumed.push_back(now);
    now += step;
  }
  const std::size_t half = consumed.size() / 2;
  return (consumed.back() - consumed[half]) / static_cast<double>(consumed.size() - 1 - half);
}

}  // namespace

TEST_CASE("the page cache under a fresh order per epoch") {
  CHECK(lru_hit_share(0.22) == doctest::Approx(0.0262).epsilon(0.002));
  CHECK(lru_hit_share(0.35) == doctest::Approx(0.0700).epsilon(0.002));
  CHECK(lru_hit_share(0.5) == doctest::Approx(0.1534).epsilon(0.0005));
  CHECK(lru_hit_share(0.81) == doctest::Approx(0.4945).epsilon(0.0005));
  CHECK(lru_hit_share(0) == 0);
  CHECK(lru_hit_share(1) == 1);
  for (const double x : {0.22, 0.35, 0.5, 0.81}) {
    CHECK(lru_hit_share(x) == doctest::Approx(x + (1 - x) * std::log(1 - x)).epsilon(1e-12));
    CHECK(std::abs(lru_hit_share(x) - simulated_hit_share(x, 1, 12)) < 0.005);
  }
}

TEST_CASE("the page cache of one server among several") {
  for (const std::size_t servers : {2, 3, 8})
    for (const double x : {0.1, 0.35, 0.81})
      CHECK(std::abs(lru_hit_share(x, static_cast<std::int64_t>(servers)) -
                     simulated_hit_share(x, servers, static_cast<int>(40 * servers))) < 0.005);
  // More servers: a sample comes back after more epochs, but less is read in each.
  for (int percent = 1; percent < 100; ++percent) {
    const double x = percent / 100.0;
    double before = 0;
    for (const std::int64_t servers : {1, 2, 4, 16, 256, 1000, 1001}) {
      const double hits = lru_hit_share(x, servers);
      CHECK(hits <= x + 1e-12);
      CHECK(hits >= before - 1e-9);
      before = hits;
    }
    CHECK(lru_hit_share(x, 1000) == doctest::Approx(x).epsilon(0.002));
  }
}

TEST_CASE("shares add up, and hits grow with the cache") {
  test::Draw draw(11);
  for (int i = 0; i < 300; ++i) {
    InputPipeline p = random_pipeline(draw);
    const std::int64_t servers = draw.whole(1, 64);
    double before = -1;
    for (int tenth = 0; tenth <= 10; ++tenth) {
      p.cached_share = tenth / 10.0;
      const FetchShares s = fetch_shares(p, servers);
      CHECK(s.memory + s.network + s.storage == doctest::Approx(1));
      CHECK(s.storage >= 0);
      CHECK(s.memory + s.network >= before);
      before = s.memory + s.network;
    }
    CHECK(fetch_shares(p, servers).storage == 0);
  }
}

TEST_CASE("misses of caches that never evict, alone and together") {
  InputPipeline p = imagenet();
  p.cache = CachePolicy::never_evict;
  p.cached_share = 0.35;
  CHECK(fetch_time(p).value() == doctest::Approx(0.65 * 146e9 / 530e6));
  p.cache = CachePolicy::partitioned;
  p.network = BytesPerSecond(5e9);
  p.memory = BytesPerSecond(2e10);
  // Two servers: 0.3 of the data set is in neither, 0.35 in either one.
  CHECK(fetch_time(p, 2).value() == doctest::Approx((0.35 / 2e10 + 0.35 / 5e9 + 0.30 / 530e6) * 146e9 / 2));
  // Three hold all of it.
  CHECK(fetch_shares(p, 3).storage == 0);
  CHECK(fetch_time(p, 3).value() == doctest::Approx((1 / 2e10 + 2 / 5e9) / 3 * 146e9 / 3));
}

TEST_CASE("everything in memory that takes no time: no fetch") {
  InputPipeline p = imagenet();
  p.cached_share = 1;
  for (const CachePolicy policy : {CachePolicy::lru, CachePolicy::never_evict}) {
    p.cache = policy;
    CHECK(fetch_time(p) == Seconds(0));
    CHECK(std::isinf(input_rates(p).fetch));
    CHECK(input_rates(p).total == doctest::Approx(24 * 245));
  }
}

TEST_CASE("laws of the loader") {
  InputPipeline p = imagenet();
  p.workers = 1;
  const double fetch = p.samples / (146e9 / 530e6), prep = 245;
  CHECK(input_rates(p).fetch == doctest::Approx(fetch));
  CHECK(input_rates(p).total == doctest::Approx(1 / (1 / fetch + 1 / prep)));
  p.loader = LoaderLaw::pipelined;
  CHECK(input_rates(p).total == doctest::Approx(std::min(fetch, prep)));
  p.workers = 24;
  CHECK(input_rates(p).total == doctest::Approx(fetch));
  p.loader = LoaderLaw::serial;
  CHECK(input_rates(p).total == doctest::Approx(std::min(fetch, 24 / (1 / fetch + 1 / prep))));
  // A worker that reads file by file gets less out of the storage than all together.
  p.storage_per_worker = BytesPerSecond(60e6);
  const double alone = p.samples / (146e9 / 60e6);
  CHECK(input_rates(p).total == doctest::Approx(24 / (1 / alone + 1 / prep)));
}

TEST_CASE("jobs on one server, apart and coordinated") {
  InputPipeline p = imagenet();
  const InputRates alone = input_rates(p);
  p.jobs = 8;
  CHECK(input_rates(p).total == doctest::Approx(alone.total / 8));
  CHECK(input_rates(p).prep == doctest::Approx(alone.prep / 8));
  p.coordinated = true;
  CHECK(input_rates(p).total == doctest::Approx(alone.total));
  CHECK(input_rates(p).fetch == doctest::Approx(alone.fetch));
}

TEST_CASE("rates never fall with workers, cache or storage, and a serial loader is never faster") {
  test::Draw draw(3);
  for (int i = 0; i < 500; ++i) {
    const InputPipeline p = checked(random_pipeline(draw), "random");
    const std::int64_t servers = draw.whole(1, 16);
    const auto rate = [&](auto change) {
      InputPipeline changed = p;
      change(changed);
      return input_rates(changed, servers).total;
    };
    const double least = input_rates(p, servers).total * (1 - 1e-12);
    CHECK(rate([](InputPipeline& q) { ++q.workers; }) >= least);
    CHECK(rate([](InputPipeline& q) { q.storage *= 1.5; }) >= least);
    CHECK(rate([](InputPipeline& q) { q.prep_samples_per_s *= 1.5; }) >= least);
    CHECK(rate([](InputPipeline& q) { q.loader = LoaderLaw::pipelined; }) >= least);
    CHECK(rate([](InputPipeline& q) { q.coordinated = true; }) >= least);
    // A cache helps where memory is faster than storage.
    CHECK(rate([](InputPipeline& q) {
            q.memory = q.network = BytesPerSecond(1e12);
            q.cached_share = std::min(1.0, q.cached_share + 0.1);
          }) >= rate([](InputPipeline& q) { q.memory = q.network = BytesPerSecond(1e12); }) * (1 - 1e-12));
  }
}

TEST_CASE("the optimal cache: fetching is as fast as the slower of preparing and training") {
  InputPipeline p = imagenet();
  p.loader = LoaderLaw::pipelined;
  p.memory = BytesPerSecond(20e9);
  for (const double demand : {4700.0, 5500.0, 1e6}) {
    p.cache = CachePolicy::never_evict;
    const double slower = std::min(24 * 245.0, demand);
    const double from_storage = 146e9 / 530e6, from_memory = 146e9 / 20e9;
    const double x = optimal_cached_share(p, demand);
    CHECK(x == doctest::Approx((from_storage - p.samples / slower) / (from_storage - from_memory)));
    for (const CachePolicy policy : {CachePolicy::never_evict, CachePolicy::lru}) {
      p.cache = policy;
      p.cached_share = optimal_cached_share(p, demand);
      CHECK(input_rates(p).fetch == doctest::Approx(slower));
    }
  }
  CHECK(optimal_cached_share(p, 100) == 0);
  // A serial loader that has too few workers gains from every cached byte.
  p = imagenet();
  p.workers = 2;
  CHECK(optimal_cached_share(p, 1e6) == doctest::Approx(1));
}

TEST_CASE("the number of workers that suffices") {
  test::Draw draw(5);
  for (int i = 0; i < 200; ++i) {
    InputPipeline p = random_pipeline(draw);
    const double demand = draw.log_uniform(10, 1e5);
    p.workers = sufficient_workers(p, demand);
    const double enough = input_rates(p).total;
    REQUIRE(p.workers >= 1);
    InputPipeline more = p, fewer = p;
    more.workers = p.workers * 2;
    CHECK(std::min(demand, input_rates(more).total) <= enough * (1 + 1e-9));
    if (p.workers == 1) continue;
    --fewer.workers;
    CHECK(input_rates(fewer).total < std::min(demand, enough));
  }
  InputPipeline p = imagenet();
  p.cached_share = 1;
  CHECK(sufficient_workers(p, 735) == 3);
}

TEST_CASE("the step is the larger of loader and step, as a simulated loader has it") {
  for (const std::size_t workers : {1, 2, 3, 6, 12, 24})
    for (const double step : {0.3, 0.53, 1.2, 3.3}) {
      InputPipeline p = imagenet();
      p.cached_share = 1;
      p.workers = static_cast<std::int64_t>(workers);
      p.prep_samples_per_s = 256 / 1.917;  // a batch of 256 per 1.917 s
      const Seconds closed = step_with_input(p, Seconds(step), 256);
      CHECK(closed.value() == doctest::Approx(std::max(1.917 / double(workers), step)));
      CHECK(simulated_step(1.917, workers, step, 4800) == doctest::Approx(closed.value()).epsilon(0.005));
    }
  InputPipeline p = imagenet();
  p.workers = 0;
  CHECK(step_with_input(p, Seconds(0.5), 256) == Seconds(0.5) + batch_period(p, 256));
}

TEST_CASE("differential profiling") {
  InputPipeline p = imagenet();
  p.storage_per_worker = BytesPerSecond(60e6);
  p.cached_share = 0.4;
  const InputStalls stalls = input_stalls(p, Seconds(0.03), 256);
  CHECK(stalls.synthetic == Seconds(0.03));
  CHECK(stalls.prep_stall().value() == doctest::Approx(256 / (24 * 245.0) - 0.03));
  CHECK(stalls.fetch_stall().value() > 0);
  CHECK((stalls.synthetic + stalls.prep_stall() + stalls.fetch_stall()).value() ==
        doctest::Approx(step_with_input(p, Seconds(0.03), 256).value()));
  const InputStalls none = input_stalls(p, Seconds(10), 256);
  CHECK(none.prep_stall() == Seconds(0));
  CHECK(none.fetch_stall() == Seconds(0));
}

TEST_CASE("every plan waits for a loader that is slower than the rest of it") {
  test::Draw draw(31);
  for (int i = 0; i < 40; ++i) {
    const Profile profile = test::random_profile(draw, {.device = draw.coin()});
    const Cluster cluster = test::random_cluster(draw);
    for (const std::string plan : {"bsp", "wfbp", "ddp", "dear", "horovod", "bytescheduler"}) {
      const Answer<Prediction> without = predicted(profile, cluster, plan_spec_of(plan));
      if (!without || without->iteration == Seconds(0)) continue;
      CAPTURE(plan);
      for (const double slower : {0.3, 0.9, 1.1, 3.0}) {
        Profile fed = profile;
        fed.input_period = slower * without->iteration;
        const Answer<Prediction> with = predicted(fed, cluster, plan_spec_of(plan));
        REQUIRE(with);
        const Breakdown& b = with->breakdown;
        CHECK((b.compute + b.exposed_communication + b.codec + b.input_stall + b.bubble + b.idle).value() ==
              doctest::Approx(with->iteration.value()).epsilon(1e-6));
        if (slower > 2) CHECK(b.input_stall > 0.3 * with->iteration);
        const Seconds limit = std::max(without->iteration, fed.input_period);
        if (plan == "horovod") {
          // Its step is a mean over the phases of a timer; the loader is slower in some of them only.
          CHECK(with->iteration > (1 - 1e-6) * limit);
          CHECK(with->iteration < 1.1 * limit);
          continue;
        }
        CHECK(with->iteration.value() == doctest::Approx(limit.value()).epsilon(1e-6));
        CHECK((with->bound.find("input") != std::string::npos) == (slower > 1));
        if (slower < 1) CHECK(b.input_stall == Seconds(0));
      }
    }
  }
}

TEST_CASE("a pipeline in the place of the traced wait") {
  test::Draw draw(41);
  Profile profile = test::random_profile(draw, {.device = true});
  Cluster cluster = test::random_cluster(draw);
  cluster.nodes = 2;
  cluster.devices_per_node = 4;
  InputPipeline p = imagenet();
  CHECK_THROWS_AS(static_cast<void>(with_input_pipeline(profile, p, cluster)), InputError);
  profile.batch_samples = 32;
  profile.input = milliseconds(7);
  const Profile fed = with_input_pipeline(profile, p, cluster);
  CHECK(fed.input == Seconds(0));
  CHECK(fed.input_period == batch_period(p, 4 * 32, 2));
  CHECK(fed.assumed.size() == profile.assumed.size() + 1);
  CHECK(lone_step_time(fed) >= fed.input_period);
  p.workers = 0;
  const Profile alone = with_input_pipeline(profile, p, cluster);
  CHECK(alone.input == batch_period(p, 4 * 32, 2));
  CHECK(alone.input_period == Seconds(0));
  // A step that waits says for what, and how far a change is worth while; one that does not wait does not.
  p.workers = 1;
  p.prep_samples_per_s = 1;
  CHECK(with_input_pipeline(profile, p, cluster).assumed.back().find(" for preparing; a cache helps up to ") !=
        std::string::npos);
  p.storage = BytesPerSecond(1e21);
  p.prep_samples_per_s = 0;
  CHECK(with_input_pipeline(profile, p, cluster).assumed.back().find("waits") == std::string::npos);
}

TEST_CASE("JSON of input pipelines reads back, and says what is wrong") {
  test::Draw draw(23);
  for (int i = 0; i < 50; ++i) {
    const InputPipeline p = random_pipeline(draw);
    const InputPipeline q = input_pipeline_of_json(json_of(p), "again");
    CHECK(json_of(q) == json_of(p));
    CHECK(input_rates(q, 3).total == input_rates(p, 3).total);
  }
  const std::string head = R"({"schema": "stepcast.input/1", "name": "n", "samples": 100, "workers": 2, )"
                           R"("provenance": ["p"], "data_set": "10 GB", )";
  CHECK(input_pipeline_of_json(head + R"("storage": "1 GB/s", "cache": "4 GB"})", "f").cached_share == 0.4);
  CHECK(input_pipeline_of_json(head + R"("storage": "1 GB/s", "cache": "40 GB"})", "f").cached_share == 1);
  const auto message = [&](const std::string& rest) -> std::string {
    try {
      static_cast<void>(input_pipeline_of_json(head + rest, "f"));
    } catch (const InputError& error) { return error.what(); }
    return "accepted";
  };
  CHECK(message(R"("storage": 5})") ==
        "f#/storage: expected a string with number and unit, such as '25 Gb/s', found 5");
  CHECK(message(R"("storage": "1 GB/s", "cached_share": 1.5})") ==
        "f#/cached_share: expected a share from 0 to 1, found 1.5");
  CHECK(message(R"("storage": "1 GB/s", "cache": "1 GB", "cached_share": 0.5})") ==
        "f#/cache: expected either the size of the cache or cached_share, found '1 GB'");
  CHECK(message(R"("storage": "1 GB/s", "cache_policy": "LRU"})").find("did you mean 'lru'") != std::string::npos);
  CHECK(message(R"("storage": "1 GB/s", "cache_policy": "partitioned"})") ==
        "f#/network: expected a value, found nothing; the key is required");
  CHECK(message(R"("storage": "1 GB/s", "loaders": 3})").find("did you mean 'loader'") != std::string::npos);
  CHECK(message(R"("storage": "1 GB/s", "jobs": 0})") == "f#/jobs: expected a number from 1 to 1000000, found 0");
}
