// The largest of many random factors as a distribution, and the mean step over it by quadrature.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/stragglers.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace stepcast {
namespace {

// Logarithm of the probability that one worker's relative slowness (factor - 1, in units of its spread) is below `z`.
// In logarithms, so that the power of thousands of workers keeps its digits.
double log_probability(Jitter::Distribution distribution, double z) {
  switch (distribution) {
    case Jitter::Distribution::none:
      return z >= 0 ? 0 : -HUGE_VAL;
    case Jitter::Distribution::normal:
      return z > 0 ? std::log1p(-0.5 * std::erfc(z / std::numbers::sqrt2))
                   : std::log(0.5 * std::erfc(-z / std::numbers::sqrt2));
    case Jitter::Distribution::exponential:
      return z > 0 ? std::log(-std::expm1(-z)) : -HUGE_VAL;
  }
  return 0;
}

std::string times(double factor) {
  char text[32];
  std::snprintf(text, sizeof text, "%g x", factor);
  return text;
}

// A monotone function between points.
class Interpolation {
 public:
  Interpolation(std::vector<double> x, std::vector<double> y) : x_(std::move(x)), y_(std::move(y)) {}
  double operator()(double at) const {
    const auto above = std::clamp(std::upper_bound(x_.begin(), x_.end(), at), x_.begin() + 1, x_.end() - 1);
    const auto i = static_cast<std::size_t>(above - x_.begin());
    const double width = x_[i] - x_[i - 1];
    return width > 0 ? y_[i - 1] + (at - x_[i - 1]) / width * (y_[i] - y_[i - 1]) : y_[i];
  }
  /// The smallest place with that value.
  double place_of(double value) const {
    std::size_t i = 1;
    while (i + 1 < y_.size() && y_[i] < value) ++i;
    const double height = y_[i] - y_[i - 1];
    return height > 0 ? x_[i - 1] + std::clamp((value - y_[i - 1]) / height, 0.0, 1.0) * (x_[i] - x_[i - 1]) : x_[i];
  }

 private:
  std::vector<double> x_, y_;
};

}  // namespace

Profile slowed(Profile profile, double factor, Seconds delay) {
  scale_work(profile, factor);
  for (Seconds& step : profile.step_times) step *= factor;
  profile.late += delay;
  return profile;
}

Slowness slowest(const Stragglers& stragglers) {
  Slowness worst;
  for (const SlowWorkers& s : stragglers.slow) {
    worst.factor = std::max(worst.factor, s.compute_factor);
    worst.delay = std::max(worst.delay, s.delay);
  }
  return worst;
}

bool one_is_slowest(const Stragglers& stragglers) {
  if (stragglers.slow.empty()) return true;
  const Slowness worst = slowest(stragglers);
  const double share = stragglers.least_link_share();
  return std::any_of(stragglers.slow.begin(), stragglers.slow.end(), [&](const SlowWorkers& s) {
    return s.compute_factor == worst.factor && s.delay == worst.delay && s.link_share == share;
  });
}

std::string text_of(const Stragglers& stragglers) {
  std::string text;
  for (const SlowWorkers& s : stragglers.slow) {
    std::string faults;
    const auto add = [&](const std::string& fault) { add_to_list(faults, fault); };
    if (s.compute_factor != 1) add("compute " + times(s.compute_factor));
    if (s.delay > Seconds(0)) add(text_of(s.delay) + " late");
    if (s.link_share != 1) add("link " + times(s.link_share));
    add_to_list(text, counted(s.workers, "slow worker") + (faults.empty() ? "" : " (" + faults + ")"));
  }
  if (stragglers.jitter.distribution == Jitter::Distribution::none) return text;
  const bool normal = stragglers.jitter.distribution == Jitter::Distribution::normal;
  char percent[32];
  std::snprintf(percent, sizeof percent, "%g %%", 100 * stragglers.jitter.relative);
  return text + (text.empty() ? "" : ", ") + (normal ? "normal" : "exponential") + " jitter of " + percent;
}

LargestFactor::LargestFactor(const Stragglers& stragglers, std::int64_t workers) : jitter_(stragglers.jitter) {
  for (const SlowWorkers& s : stragglers.slow) {
    const std::int64_t count = std::min(workers, s.workers);
    kinds_.push_back({static_cast<double>(count), s.compute_factor});
    workers -= count;
  }
  if (workers > 0) kinds_.push_back({static_cast<double>(workers), 1});
}

double LargestFactor::probability_up_to(double factor) const {
  const double spread = jitter_.distribution == Jitter::Distribution::none ? 1 : jitter_.relative;
  double sum = 0;
  for (const Alike& k : kinds_)
    sum += k.workers * log_probability(jitter_.distribution, (factor / k.factor - 1) / spread);
  return std::exp(sum);
}

double LargestFactor::quantile(double p) const {
  // No worker computes in less than no time, which a wide normal distribution would allow.
  double low = 0, high = 1;
  while (probability_up_to(high) < p) high *= 2;
  for (int i = 0; i < 60 && high - low > 1e-12 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (probability_up_to(middle) < p ? low : high) = middle;
  }
  return high;
}

StepDistribution step_distribution(const LargestFactor& largest, const std::function<Seconds(double)>& step_at) {
  // Denser towards both ends, where few steps are and the function is far from its mean.
  constexpr int points = 17, cells = 2000;
  constexpr double tail = 1e-9;
  std::vector<double> factors, steps;
  for (int k = 0; k < points; ++k) {
    const double p = 0.5 * (1 - std::cos(std::numbers::pi * k / (points - 1)));
    factors.push_back(largest.quantile(std::clamp(p, tail, 1 - tail)));
    steps.push_back(step_at(factors.back()).value());
  }
  const Interpolation step(factors, steps);
  double mean = 0, square = 0, all = 0, below = largest.probability_up_to(factors.front());
  const double width = (factors.back() - factors.front()) / cells;
  for (int i = 0; i < cells; ++i) {
    const double at = factors.front() + width * i;
    const double next = largest.probability_up_to(at + width), share = next - below;
    const double value = step(at + 0.5 * width);
    mean += share * value, square += share * value * value, all += share;
    below = next;
  }
  StepDistribution out;
  // Without jitter all probability lies in one point.
  out.mean = Seconds(all > 0 ? mean / all : steps.back());
  out.deviation = Seconds(all > 0 ? std::sqrt(std::max(0.0, square / all - mean / all * mean / all)) : 0);
  out.p10 = Seconds(step(largest.quantile(0.1)));
  out.p90 = Seconds(step(largest.quantile(0.9)));
  constexpr int samples = 200;
  for (int i = 0; i < samples; ++i) out.equally_likely.emplace_back(step(largest.quantile((i + 0.5) / samples)));
  out.typical_factor = step.place_of(out.mean.value());
  return out;
}

Profile slowest_worker(Profile profile, const Cluster& cluster) {
  if (cluster.stragglers.none()) return profile;
  const Slowness worst = slowest(cluster.stragglers);
  if (cluster.stragglers.jitter.distribution == Jitter::Distribution::none)
    return slowed(std::move(profile), worst.factor, worst.delay);
  const LargestFactor largest(cluster.stragglers, cluster.workers());
  const double mean = step_distribution(largest, [](double factor) { return Seconds(factor); }).mean.value();
  return slowed(std::move(profile), mean, worst.delay);
}

}  // namespace stepcast
