// A coarse grid decides the valley, golden section polishes; two options are also looked at together; or a search as a
// run-time tuner makes it (bayesian.hpp).
#include <stepcast/prediction/bayesian.hpp>
#include <stepcast/prediction/hot_loop.hpp>
#include <stepcast/prediction/tuning.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

double value_at(double log_value, const OptionSpec& option) {
  const double value = std::exp(log_value);
  const bool whole = option.kind == OptionKind::size || option.kind == OptionKind::count;
  return std::clamp(whole ? std::round(value) : value, option.low, option.high);
}

/// Within a sixteenth of `value`: a multiple of the power of two below it, over 8.
double to_write_down(double value, const OptionSpec& option) {
  if (option.kind != OptionKind::size || !(value > 1024)) return value;
  const double grain = std::exp2(std::floor(std::log2(value)) - 3);
  return std::clamp(std::round(value / grain) * grain, option.low, option.high);
}

// The roundest value near `exact` that is as good (to a tenth of a per cent): what somebody would write down.
// Never one that is slower than `most`, the time at the default.
double roundest(const OptionSpec& option, double exact, double time, double most,
                const std::function<double(double)>& time_of) {
  std::vector<double> grains;
  if (option.kind == OptionKind::size) {
    for (double grain = 0x1p24; grain >= 1024; grain /= 4) grains.push_back(grain);
  } else if (option.kind == OptionKind::duration) {
    for (double grain = 1e6; grain >= 1e2; grain /= 10) grains.push_back(grain);  // nanoseconds
  }
  const double unit = option.kind == OptionKind::duration ? 1e9 : 1, slowest = std::min(time * (1 + 1e-3), most);
  for (const double grain : grains)
    for (const double n : {std::floor(exact * unit / grain), std::ceil(exact * unit / grain)}) {
      const double value = n * grain / unit;
      if (n >= 1 && value >= option.low && value <= option.high && time_of(value) <= slowest) return value;
    }
  return exact;
}

/// What is searched, as logarithms.
struct LogRange {
  double low, high;
  explicit LogRange(const OptionSpec& option) {
    const bool own_range = option.tune_high > 0;
    const double highest = own_range ? option.tune_high : option.high;
    low = std::log(std::max(own_range ? option.tune_low : option.low, highest * 1e-9));
    high = std::log(highest);
  }
};

// Best value of one option on a log scale: a coarse grid, then golden section around its best point. Step times are not
// unimodal in a bucket size, so the grid decides the valley and the section only polishes it.
double best_value(const OptionSpec& option, double start, int grid, const std::function<double(double)>& time_of) {
  constexpr int polish = 8;
  const auto [low, high] = LogRange(option);
  const double start_time = time_of(start);
  double best = start, best_time = start_time;
  const auto consider = [&](double log_value) {
    const double value = value_at(log_value, option);
    const double time = time_of(value);
    // Of equal times the first one stays, the default before all: nothing is changed without a gain.
    if (time < best_time * (1 - 1e-9)) best_time = time, best = value;
    return time;
  };
  const double step = (high - low) / (grid - 1);
  for (int i = 0; i < grid; ++i) consider(low + step * i);
  constexpr double golden = 0.6180339887498949;
  const double centre = std::log(std::max(best, std::exp(low)));
  double a = std::max(low, centre - step), b = std::min(high, centre + step);
  double c = b - golden * (b - a), d = a + golden * (b - a);
  double at_c = consider(c), at_d = consider(d);
  for (int i = 0; i < polish; ++i) {
    if (at_c <= at_d) {
      b = d, d = c, at_d = at_c;
      at_c = consider(c = b - golden * (b - a));
    } else {
      a = c, c = d, at_c = at_d;
      at_d = consider(d = a + golden * (b - a));
    }
  }
  return best == start ? start : roundest(option, best, best_time, start_time, time_of);
}

}  // namespace

std::optional<AsGoodOptions> as_good_options(const std::function<Seconds(const PlanSpec&)>& time_of,
                                             const PlanSpec& plan, double tolerance) {
  const std::span<const OptionSpec> options = plan.strategy->options;
  const OptionValues standard = standard_options(*plan.strategy);
  std::size_t changed = 0;
  while (changed < options.size() && !(options[changed].tuned && plan.options[changed] != standard[changed])) ++changed;
  if (changed == options.size()) return std::nullopt;
  const OptionSpec& option = options[changed];
  const LogRange range(option);
  const double slowest = time_of(plan).value() * (1 + tolerance);
  const auto end = [&](double factor) {
    PlanSpec last = plan, next = plan;
    for (;;) {
      const double log_value = std::log(last.options[changed] * factor);
      if (log_value < range.low || log_value > range.high) return last;
      next.options[changed] = to_write_down(value_at(log_value, option), option);
      if (next.options[changed] == last.options[changed] || time_of(next).value() > slowest) return last;
      last = next;
    }
  };
  AsGoodOptions found{end(1 / 1.5), end(1.5)};
  if (found.low.options[changed] == found.high.options[changed]) return std::nullopt;
  return found;
}

PlanSpec tuned(const Profile& profile, const Cluster& cluster, const PlanSpec& spec, Search search) {
  const PreparedJob job(std::make_shared<const PreparedProfile>(updating_all(profile)), cluster);
  HotLoop loop;
  const auto time_of = [&](const PlanSpec& plan) {
    const Answer<Seconds> time = loop.iteration(job, plan);
    return time ? *time : Seconds(HUGE_VAL);
  };
  return tuned(time_of, spec, search);
}

namespace {

/// A search of some options of one plan, on a grid and one after the other.
class GridSearch {
 public:
  GridSearch(const std::function<Seconds(const PlanSpec&)>& time_of, PlanSpec start, std::vector<std::size_t> wanted)
      : time_of_(time_of), best_(std::move(start)), wanted_(std::move(wanted)) {}

  PlanSpec best() {
    constexpr int fine = 32, coarse = 16, rounds = 2;
    descend(best_, fine, rounds);
    if (wanted_.size() < 2) return best_;
    // One after the other they may rest where only a change of both is better: deep prefetching needs small buckets.
    const double found = time_of_(best_).value();
    PlanSpec other = best_of_pair();
    if (!(time_of_(other).value() < found * (1 - 1e-9))) return best_;
    descend(other, coarse, 1);
    return other;
  }

 private:
  /// Makes the plan faster, option by option; one is searched again only where another one changed since.
  void descend(PlanSpec& plan, int grid, int rounds) const {
    std::size_t settled = 0;
    const std::size_t turns = wanted_.size() > 1 ? wanted_.size() * static_cast<std::size_t>(rounds) : wanted_.size();
    for (std::size_t turn = 0; turn < turns && settled < wanted_.size(); ++turn) {
      const std::size_t i = wanted_[turn % wanted_.size()];
      PlanSpec trial = plan;
      const double start = plan.options[i];
      plan.options[i] = best_value(plan.strategy->options[i], start, grid, [&](double value) {
        trial.options[i] = value;
        return time_of_(trial).value();
      });
      settled = plan.options[i] == start ? settled + 1 : 1;
    }
  }

  /// The fastest on a coarse grid of the first two options.
  [[nodiscard]] PlanSpec best_of_pair() const {
    constexpr int points = 6;
    PlanSpec fastest = best_, trial = best_;
    double least = HUGE_VAL;
    const auto value = [&](std::size_t option, int k) {
      const OptionSpec& spec = best_.strategy->options[option];
      const auto [low, high] = LogRange(spec);
      return to_write_down(value_at(low + (high - low) * k / (points - 1), spec), spec);
    };
    for (int k = 0; k < points * points; ++k) {
      trial.options[wanted_[0]] = value(wanted_[0], k / points);
      trial.options[wanted_[1]] = value(wanted_[1], k % points);
      const double time = time_of_(trial).value();
      if (time < least) least = time, fastest = trial;
    }
    return fastest;
  }

  const std::function<Seconds(const PlanSpec&)>& time_of_;
  PlanSpec best_;
  std::vector<std::size_t> wanted_;
};

}  // namespace

PlanSpec tuned(const std::function<Seconds(const PlanSpec&)>& time_of, const PlanSpec& spec, Search search) {
  PlanSpec best = spec;
  const OptionValues standard = standard_options(*spec.strategy);
  const auto options = spec.strategy->options;
  for (std::size_t i = 0; i < options.size(); ++i)
    if (std::isnan(best.options[i])) best.options[i] = standard[i];
  const RunTimeTuner& tuner = spec.strategy->tuner;
  const auto wanted = [&](std::size_t i) {
    const bool any = std::any_of(spec.options.begin(), spec.options.end(), [](double v) { return std::isnan(v); });
    if (any) return std::isnan(spec.options[i]);
    return options[i].tuned && (search == Search::grid || tuner.option.empty() || tuner.option == options[i].name);
  };
  if (search == Search::grid) {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < options.size(); ++i)
      if (wanted(i)) all.push_back(i);
    return GridSearch(time_of, std::move(best), std::move(all)).best();
  }
  const auto count = std::count_if(options.begin(), options.end(), [](const OptionSpec& o) { return o.tuned; });
  for (int round = 0; round < (count > 1 ? 2 : 1); ++round)
    for (std::size_t i = 0; i < options.size(); ++i) {
      if (!wanted(i)) continue;
      PlanSpec trial = best;
      const auto time_at = [&](double value) {
        trial.options[i] = value;
        return time_of(trial).value();
      };
      const double start = best.options[i];
      best.options[i] = tuned_option(options[i], start, [&](double v) { return Seconds(time_at(v)); },
                                     {.evaluations = tuner.trials, .linear = tuner.linear})
                            .best.value;
    }
  return best;
}

}  // namespace stepcast
