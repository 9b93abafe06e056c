// Whole runs against a simulation of interruptions, and what follows from them.
#include <stepcast/run/whole_run.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace stepcast;
using doctest::Approx;

namespace {

/// Interruptions at random: what was done since the last checkpoint is lost, a restart can be interrupted, too.
double simulated(double work, double every, double checkpoint, double restart, double between,
                 std::mt19937_64& random) {
  std::exponential_distribution<double> until(1 / between);
  double time = 0, done = 0, left = until(random);
  while (done < work) {
    const double part = std::min(every, work - done), needed = part + checkpoint;
    if (left >= needed) {
      time += needed, left -= needed, done += part;
      continue;
    }
    time += left;
    for (left = until(random); left < restart; left = until(random)) time += left;
    time += restart, left -= restart;
  }
  return time;
}

RunRequest asked(double tokens, Seconds between, Seconds checkpoint = Seconds(60), Seconds restart = Seconds(600)) {
  RunRequest r;
  r.tokens = tokens;
  r.between_failures = between, r.checkpoint = checkpoint, r.restart = restart;
  return r;
}

StepInterval exactly(Seconds step) { return {step, step, step}; }

}  // namespace

TEST_CASE("a run without interruptions is its steps") {
  RunRequest r = asked(1e12, Seconds(0));
  r.price_per_device_hour = 2.5, r.watts = 1000;
  const WholeRun run = whole_run(r, exactly(Seconds(10)), 4e6, 64);
  CHECK(run.steps == 250'000);
  CHECK(run.expected == run.duration);
  CHECK(run.duration.value() == Approx(2.5e6));
  CHECK(run.checkpoint_every == Seconds(0));
  CHECK(run.interruptions == 0);
  CHECK(run.device_hours == Approx(2.5e6 * 64 / 3600));
  CHECK(run.cost == Approx(2.5 * run.device_hours));
  CHECK(run.kilowatt_hours == Approx(run.device_hours));
  // As much longer and dearer as the step at the ends of its interval.
  const WholeRun wide = whole_run(r, {Seconds(10), Seconds(9), Seconds(13)}, 4e6, 64);
  CHECK(wide.low == 0.9 * wide.expected);
  CHECK(wide.cost_of(wide.high) == Approx(1.3 * wide.cost));
  // A step begun is a step.
  CHECK(whole_run(asked(1e12 + 1, Seconds(0)), exactly(Seconds(10)), 4e6, 64).steps == 250'001);
}

TEST_CASE("interruptions cost what a simulation of them costs") {
  std::mt19937_64 random(7);
  for (const double between : {2e3, 2e4, 2e5})
    for (const double checkpoint : {20.0, 200.0}) {
      CAPTURE(between);
      CAPTURE(checkpoint);
      const WholeRun run =
          whole_run(asked(1e9, Seconds(between * 8), Seconds(checkpoint), Seconds(300)), exactly(Seconds(1)), 1e3, 8);
      double sum = 0;
      constexpr int runs = 60;
      for (int i = 0; i < runs; ++i)
        sum += simulated(run.duration.value(), run.checkpoint_every.value(), checkpoint, 300, between, random);
      CHECK(run.expected.value() == Approx(sum / runs).epsilon(0.02));
      CHECK(run.interruptions == Approx(run.expected.value() / between));
      // No other interval is better by more than the approximation misses.
      for (const double factor : {0.5, 0.8, 1.25, 2.0}) {
        const double every = run.checkpoint_every.value() * factor;
        const double other = between * std::exp(300 / between) * std::expm1((every + checkpoint) / between) *
                             run.duration.value() / every;
        CHECK(other > run.expected.value() * 0.999);
      }
    }
}

TEST_CASE("more devices are interrupted more often, and a run within a time has its longest step") {
  double before = 1;
  for (const std::int64_t devices : {8, 64, 512, 4096, 32768}) {
    const WholeRun run = whole_run(asked(1e12, usual_time_between_failures), exactly(Seconds(5)), 4e6, devices);
    const double longer = run.expected / run.duration;
    CHECK(longer > before);
    before = longer;
  }
  // Llama 3: 16,384 devices for 54 days were interrupted 419 times.
  RunRequest llama = asked(1, usual_time_between_failures, Seconds(1e-3), Seconds(0));
  llama.tokens = 54 * 86400;
  CHECK(whole_run(llama, exactly(Seconds(1)), 1, 16384).interruptions == Approx(419).epsilon(0.01));
  RunRequest r = asked(2e12, Seconds(0));
  r.within = Seconds(30 * 86400);
  const Seconds step = longest_step(r, 4e6);
  CHECK(whole_run(r, exactly(step), 4e6, 8).duration.value() == Approx(r.within.value()));
  CHECK(best_checkpoint_interval(Seconds(100), Seconds(300)) == Seconds(100));
}
