// A coarse grid decides the valley, golden section polishes; or a search as a run-time tuner makes it (bayesian.hpp).
#include <stepcast/prediction/bayesian.hpp>
#include <stepcast/prediction/hot_loop.hpp>
#include <stepcast/prediction/tuning.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

namespace stepcast {
namespace {

double value_at(double log_value, const OptionSpec& option) {
  const double value = std::exp(log_value);
  const bool whole = option.kind == OptionKind::size || option.kind == OptionKind::count;
  return std::clamp(whole ? std::round(value) : value, option.low, option.high);
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

// Best value of one option on a log scale: a coarse grid, then golden section around its best point. Step times are not
// unimodal in a bucket size, so the grid decides the valley and the section only polishes it.
double best_value(const OptionSpec& option, double start, const std::function<double(double)>& time_of) {
  constexpr int grid = 32, polish = 8;
  const bool own_range = option.tune_high > 0;
  const double highest = own_range ? option.tune_high : option.high;
  const double low = std::log(std::max(own_range ? option.tune_low : option.low, highest * 1e-9)),
               high = std::log(highest);
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

PlanSpec tuned(const Profile& profile, const Cluster& cluster, const PlanSpec& spec, Search search) {
  const PreparedJob job(std::make_shared<const PreparedProfile>(profile), cluster);
  HotLoop loop;
  const auto time_of = [&](const PlanSpec& plan) {
    const Answer<Seconds> time = loop.iteration(job, plan);
    return time ? *time : Seconds(HUGE_VAL);
  };
  return tuned(time_of, spec, search);
}

PlanSpec tuned(const std::function<Seconds(const PlanSpec&)>& time_of, const PlanSpec& spec, Search search) {
  PlanSpec best = spec;
  const OptionValues standard = standard_options(*spec.strategy);
  const auto options = spec.strategy->options;
  for (std::size_t i = 0; i < options.size(); ++i)
    if (std::isnan(best.options[i])) best.options[i] = standard[i];
  // With several options, one after the other, twice: they interact (partition and credit).
  const auto wanted = [&](std::size_t i) {
    const bool any = std::any_of(spec.options.begin(), spec.options.end(), [](double v) { return std::isnan(v); });
    return any ? std::isnan(spec.options[i]) : options[i].tuned;
  };
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
      best.options[i] = search == Search::grid
                            ? best_value(options[i], start, time_at)
                            : tuned_option(options[i], start, [&](double v) { return Seconds(time_at(v)); }).best.value;
    }
  return best;
}

}  // namespace stepcast
