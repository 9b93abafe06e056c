// A Gaussian process over the logarithm of the option, its next trial where the expected improvement is largest.
#include <stepcast/prediction/bayesian.hpp>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace stepcast {
namespace {

/// Matern 5/2 with unit variance: twice differentiable, rougher than a Gaussian kernel.
double kernel(double x, double y, double length) {
  const double r = std::sqrt(5.0) * std::abs(x - y) / length;
  return (1 + r + r * r / 3) * std::exp(-r);
}

/// A Gaussian process through points (x, y), y with mean 0 and variance 1.
class GaussianProcess {
 public:
  GaussianProcess(const std::vector<double>& x, const Eigen::VectorXd& y, double length) : x_(x), length_(length) {
    const auto n = static_cast<Eigen::Index>(x.size());
    Eigen::MatrixXd covariance(n, n);
    for (Eigen::Index i = 0; i < n; ++i)
      for (Eigen::Index j = 0; j < n; ++j)
        covariance(i, j) = kernel(x[static_cast<std::size_t>(i)], x[static_cast<std::size_t>(j)], length);
    covariance.diagonal().array() += jitter;
    cholesky_.compute(covariance);
    weights_ = cholesky_.solve(y);
    const Eigen::MatrixXd factor = cholesky_.matrixL();
    log_likelihood_ = -0.5 * y.dot(weights_) - factor.diagonal().array().log().sum();
  }

  /// Up to a constant.
  [[nodiscard]] double log_likelihood() const { return log_likelihood_; }

  struct Belief {
    double mean, deviation;
  };
  [[nodiscard]] Belief at(double x) const {
    Eigen::VectorXd k(static_cast<Eigen::Index>(x_.size()));
    for (Eigen::Index i = 0; i < k.size(); ++i) k[i] = kernel(x, x_[static_cast<std::size_t>(i)], length_);
    const double variance = 1 + jitter - k.dot(cholesky_.solve(k));
    return {k.dot(weights_), std::sqrt(std::max(0.0, variance))};
  }

 private:
  // The step time jumps where a tensor changes buckets: points may lie a little off a smooth curve.
  static constexpr double jitter = 1e-4;
  std::vector<double> x_;
  double length_;
  Eigen::LLT<Eigen::MatrixXd> cholesky_;
  Eigen::VectorXd weights_;
  double log_likelihood_ = 0;
};

// Of a few length scales the most likely one.
GaussianProcess fitted(const std::vector<double>& x, const Eigen::VectorXd& y) {
  GaussianProcess best(x, y, 0.1);
  for (const double length : {0.2, 0.4, 0.8})
    if (GaussianProcess other(x, y, length); other.log_likelihood() > best.log_likelihood()) best = std::move(other);
  return best;
}

// E[max(0, best - xi - Y)] for Y ~ N(mean, deviation).
double expected_improvement(const GaussianProcess::Belief& b, double best, double exploration) {
  const double gain = best - exploration - b.mean;
  if (b.deviation < 1e-9) return std::max(0.0, gain);
  const double z = gain / b.deviation;
  const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
  return gain * 0.5 * std::erfc(-z / std::numbers::sqrt2) + b.deviation * density;
}

/// The trials made so far, with values on the unit interval.
class GaussianSearch {
 public:
  GaussianSearch(const std::function<Seconds(double)>& time_of, double low, double high, bool linear)
      : time_of_(time_of), linear_(linear), low_(scaled(low)), range_(scaled(high) - low_) {}

  void try_value(double value) {
    out_.trials.push_back({value, time_of_(value)});
    if (out_.trials.size() == 1 || out_.trials.back().time < out_.best.time) out_.best = out_.trials.back();
    x_.push_back(is_point() ? 0 : (scaled(value) - low_) / range_);
  }
  void try_place(double x) { try_value(linear_ ? low_ + x * range_ : std::exp(low_ + x * range_)); }

  /// The place with the largest expected improvement.
  [[nodiscard]] double promising(double exploration) const {
    const Eigen::VectorXd y = normalised_times();
    const GaussianProcess process = fitted(x_, y);
    constexpr int places = 256;
    double best_place = 0.5, best_improvement = -1;
    for (int i = 0; i <= places; ++i) {
      const double x = static_cast<double>(i) / places;
      if (seen(x)) continue;
      const double improvement = expected_improvement(process.at(x), y.minCoeff(), exploration);
      if (improvement > best_improvement) best_improvement = improvement, best_place = x;
    }
    return best_place;
  }
  Tuned take() { return std::move(out_); }
  [[nodiscard]] std::size_t trials() const { return x_.size(); }
  [[nodiscard]] bool is_point() const { return !(range_ > 0); }

 private:
  [[nodiscard]] double scaled(double value) const { return linear_ ? value : std::log(std::max(value, 1e-300)); }
  [[nodiscard]] bool seen(double x) const {
    return std::any_of(x_.begin(), x_.end(), [&](double other) { return std::abs(x - other) < 1e-4; });
  }
  // Mean 0, variance 1; what is inapplicable counts as the worst applicable time.
  [[nodiscard]] Eigen::VectorXd normalised_times() const {
    double worst = 0;
    for (const Trial& t : out_.trials)
      if (std::isfinite(t.time.value())) worst = std::max(worst, t.time.value());
    Eigen::VectorXd y(static_cast<Eigen::Index>(out_.trials.size()));
    for (Eigen::Index i = 0; i < y.size(); ++i) {
      const double time = out_.trials[static_cast<std::size_t>(i)].time.value();
      y[i] = std::isfinite(time) ? time : worst;
    }
    const double mean = y.mean();
    const double deviation = std::sqrt((y.array() - mean).square().mean());
    return (y.array() - mean) / (deviation > 0 ? deviation : 1);
  }

  const std::function<Seconds(double)>& time_of_;
  bool linear_;
  double low_, range_;
  std::vector<double> x_;
  Tuned out_;
};

/// The k-th point of van der Corput's sequence: every prefix is spread evenly.
double spread_place(std::uint32_t k) {
  double x = 0, digit = 0.5;
  for (; k > 0; k /= 2, digit /= 2) x += digit * (k % 2);
  return x;
}

}  // namespace

Tuned bayesian_minimum(const std::function<Seconds(double)>& time_of, double start, double low, double high,
                       const TunerOptions& options) {
  GaussianSearch search(time_of, low, high, options.linear);
  search.try_value(start);
  if (search.is_point()) return search.take();
  for (std::uint32_t k = 1; k <= options.spread && search.trials() < options.evaluations; ++k)
    search.try_place(spread_place(k));
  while (search.trials() < options.evaluations) search.try_place(search.promising(options.exploration));
  return search.take();
}

Tuned tuned_option(const OptionSpec& option, double start, const std::function<Seconds(double)>& time_of,
                   const TunerOptions& options) {
  const bool own_range = option.tune_high > 0;
  const double high = own_range ? option.tune_high : option.high;
  const double low = own_range ? option.tune_low : std::max(option.low, high * 1e-9);
  const bool whole = option.kind == OptionKind::size || option.kind == OptionKind::count;
  const auto proper = [&](double value) {
    return std::clamp(whole ? std::round(value) : value, option.low, option.high);
  };
  Tuned out = bayesian_minimum([&](double value) { return time_of(proper(value)); }, start, low, high, options);
  for (Trial& t : out.trials) t.value = proper(t.value);
  out.best.value = proper(out.best.value);
  return out;
}

}  // namespace stepcast
