// Relative least squares in closed form; the breakpoints of pieces by dynamic programming over prefix sums.
#include <stepcast/base/text.hpp>
#include <stepcast/cluster/fit.hpp>

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <limits>

namespace stepcast {
namespace {

struct Point {
  double size, time;
};

std::vector<Point> sorted_points(std::span<const Bytes> sizes, std::span<const Seconds> times) {
  if (sizes.size() != times.size()) {
    throw InputError("fit", "as many times as sizes",
                     std::to_string(sizes.size()) + " sizes and " + std::to_string(times.size()) + " times");
  }
  if (sizes.size() < 2) throw InputError("fit", "at least 2 points", std::to_string(sizes.size()));
  std::vector<Point> points(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    points[i] = {sizes[i].value(), times[i].value()};
    if (!(std::isfinite(points[i].size) && points[i].size > 0 && std::isfinite(points[i].time) && points[i].time > 0)) {
      throw InputError("fit", "finite sizes and times above zero",
                       exact_text_of(sizes[i]) + " in " + exact_text_of(times[i]));
    }
  }
  std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.size < b.size; });
  return points;
}

double squared_error(std::span<const Point> points, const CostLine& line) {
  double sum = 0;
  for (const Point& p : points) {
    const double r = line(Bytes(p.size)).value() / p.time - 1;
    sum += r * r;
  }
  return sum;
}

/// Minimises sum ((a + b m) / T - 1)^2 over a, b >= 0. The problem is convex, so that if the free optimum leaves the
/// quadrant the constrained one lies on its border.
CostLine relative_least_squares(std::span<const Point> points) {
  const auto n = static_cast<Eigen::Index>(points.size());
  Eigen::MatrixX2d rows(n, 2);
  const double scale = points.back().size;  // keeps the two columns comparable
  for (Eigen::Index i = 0; i < n; ++i) rows.row(i) << 1 / points[i].time, points[i].size / scale / points[i].time;
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(n);
  const Eigen::Vector2d free = rows.colPivHouseholderQr().solve(ones);
  if (free[0] >= 0 && free[1] >= 0) return {Seconds(free[0]), free[1] / scale};
  const CostLine flat{Seconds(rows.col(0).sum() / rows.col(0).squaredNorm()), 0};
  const CostLine proportional{Seconds(0), rows.col(1).sum() / rows.col(1).squaredNorm() / scale};
  return squared_error(points, flat) < squared_error(points, proportional) ? flat : proportional;
}

FittedPiece piece_of(std::span<const Point> points) {
  FittedPiece piece{Bytes(points.front().size), Bytes(points.back().size), relative_least_squares(points), 0};
  for (const Point& p : points) {
    const double error = std::fabs(piece.line(Bytes(p.size)).value() / p.time - 1);
    piece.worst_relative_error = std::max(piece.worst_relative_error, error);
  }
  return piece;
}

void add_residuals(Fit& fit, std::span<const Bytes> sizes, std::span<const Seconds> times) {
  double sum = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double r = fit(sizes[i]) / times[i] - 1;
    fit.relative_residuals.push_back(r);
    sum += r * r;
  }
  fit.rms_relative_error = std::sqrt(sum / static_cast<double>(sizes.size()));
}

/// Sums of one piece that grows point by point; its least squared error by the normal equations. (Final lines come from
/// the QR solution above; here millions of pieces are only compared.)
class GrowingPiece {
 public:
  explicit GrowingPiece(double scale) : scale_(scale) {}
  void add(const Point& p) {
    const double u = 1 / p.time, v = p.size / scale_ / p.time;
    n_ += 1;
    u_ += u;
    v_ += v;
    uu_ += u * u;
    uv_ += u * v;
    vv_ += v * v;
  }
  [[nodiscard]] double least_error() const {
    const double determinant = uu_ * vv_ - uv_ * uv_;
    if (determinant > 1e-14 * uu_ * vv_) {
      const double a = (u_ * vv_ - v_ * uv_) / determinant, b = (v_ * uu_ - u_ * uv_) / determinant;
      if (a >= 0 && b >= 0) return error(a, b);
    }
    return std::min(error(u_ / uu_, 0), error(0, v_ / vv_));
  }

 private:
  [[nodiscard]] double error(double a, double b) const {
    return std::max(0.0, a * a * uu_ + 2 * a * b * uv_ + b * b * vv_ - 2 * a * u_ - 2 * b * v_ + n_);
  }
  double scale_, n_ = 0, u_ = 0, v_ = 0, uu_ = 0, uv_ = 0, vv_ = 0;
};

/// Least total squared error of the first j points in k pieces, by dynamic programming over the last breakpoint.
struct Segmentation {
  std::vector<std::vector<double>> error;            ///< [k][j]
  std::vector<std::vector<std::size_t>> last_start;  ///< [k][j]
};

/// A piece has at least three points: a line through two says nothing about its error.
constexpr std::size_t least_points = 3;

Segmentation segmentation_of(std::span<const Point> points, std::size_t most_pieces) {
  const std::size_t n = points.size();
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> one(n + 1, std::vector<double>(n + 1, never));  // error of a piece [i, j)
  for (std::size_t i = 0; i < n; ++i) {
    GrowingPiece piece(points[i].size);
    for (std::size_t j = i + 1; j <= n; ++j) {
      piece.add(points[j - 1]);
      if (j - i >= least_points) one[i][j] = piece.least_error();
    }
  }
  Segmentation s;
  s.error.assign(most_pieces + 1, std::vector<double>(n + 1, never));
  s.last_start.assign(most_pieces + 1, std::vector<std::size_t>(n + 1, 0));
  s.error[1] = one[0];
  for (std::size_t k = 2; k <= most_pieces; ++k) {
    for (std::size_t j = k * least_points; j <= n; ++j) {
      for (std::size_t i = (k - 1) * least_points; i + least_points <= j; ++i) {
        const double error = s.error[k - 1][i] + one[i][j];
        if (error < s.error[k][j]) {
          s.error[k][j] = error;
          s.last_start[k][j] = i;
        }
      }
    }
  }
  return s;
}

}  // namespace

Seconds Fit::operator()(Bytes m) const {
  // A size between two pieces belongs to the one whose end is nearer on a log scale.
  std::size_t i = 0;
  while (i + 1 < pieces.size() && m.value() * m.value() > pieces[i].to.value() * pieces[i + 1].from.value()) ++i;
  return pieces[i].line(m);
}

Fit line_fit(std::span<const Bytes> sizes, std::span<const Seconds> times) {
  Fit fit;
  fit.pieces.push_back(piece_of(sorted_points(sizes, times)));
  add_residuals(fit, sizes, times);
  return fit;
}

Fit piecewise_fit(std::span<const Bytes> sizes, std::span<const Seconds> times, std::size_t most_pieces) {
  const std::vector<Point> points = sorted_points(sizes, times);
  const std::size_t n = points.size();
  constexpr std::size_t most_points = 4000;  // work and memory are quadratic
  if (n > most_points) {
    throw InputError("fit", "at most " + std::to_string(most_points) + " points", std::to_string(n));
  }
  most_pieces = std::min(most_pieces, n / least_points);
  if (most_pieces <= 1) return line_fit(sizes, times);

  const Segmentation s = segmentation_of(points, most_pieces);
  // Schwarz: n ln(RSS/n) + parameters ln n, with two parameters a piece and one a breakpoint. The floor stands for the
  // resolution of the measurement; without it an exact line would be cut for the sake of rounding errors.
  constexpr double resolution = 1e-6;
  const auto criterion = [&](std::size_t k) {
    const double mean = s.error[k][n] / static_cast<double>(n) + resolution * resolution;
    return static_cast<double>(n) * std::log(mean) + static_cast<double>(3 * k - 1) * std::log(static_cast<double>(n));
  };
  std::size_t best = 1;
  for (std::size_t k = 2; k <= most_pieces; ++k) {
    if (criterion(k) < criterion(best)) best = k;
  }
  Fit fit;
  for (std::size_t k = best, end = n; k >= 1; --k) {
    const std::size_t start = k == 1 ? 0 : s.last_start[k][end];
    fit.pieces.push_back(piece_of(std::span(points).subspan(start, end - start)));
    end = start;
  }
  std::reverse(fit.pieces.begin(), fit.pieces.end());
  add_residuals(fit, sizes, times);
  return fit;
}

}  // namespace stepcast
