// Interruptions are a Poisson process: what is done between two checkpoints is repeated until it succeeds.
#include <stepcast/run/whole_run.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {

Seconds best_checkpoint_interval(Seconds between, Seconds cost) {
  if (cost >= between * 2) return between;
  const double m = between.value(), d = cost.value(), share = d / (2 * m);
  return Seconds(std::sqrt(2 * d * m) * (1 + std::sqrt(share) / 3 + share / 9) - d);
}

WholeRun whole_run(const RunRequest& asked, const StepInterval& interval, double tokens_a_step, std::int64_t devices) {
  const Seconds step = interval.step;
  WholeRun run;
  run.tokens = asked.tokens;
  run.steps = std::ceil(asked.tokens / tokens_a_step);
  run.duration = run.expected = step * run.steps;
  if (asked.between_failures > Seconds(0)) {
    const Seconds between = asked.between_failures / static_cast<double>(devices);
    // Never shorter than a step; where checkpoints are free, after every one.
    const Seconds every = std::max(step, best_checkpoint_interval(between, asked.checkpoint));
    run.checkpoint_every = std::min(every, run.duration);
    const double m = between.value();
    const double part = std::expm1((run.checkpoint_every + asked.checkpoint).value() / m);
    run.expected = Seconds(m * std::exp(asked.restart.value() / m) * part) * (run.duration / run.checkpoint_every);
    run.interruptions = run.expected / between;
  }
  run.low = run.expected * (interval.low / step);
  run.high = run.expected * (interval.high / step);
  run.device_hours = static_cast<double>(devices) * run.expected.value() / 3600;
  run.cost = run.device_hours * asked.price_per_device_hour;
  run.kilowatt_hours = run.device_hours * asked.watts / 1000;
  return run;
}

Seconds longest_step(const RunRequest& asked, double tokens_a_step) {
  return asked.within / std::ceil(asked.tokens / tokens_a_step);
}

}  // namespace stepcast
