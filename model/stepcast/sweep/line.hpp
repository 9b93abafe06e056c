#pragma once
// Sweep line: what the plans of a sweep take along its first axis, for one choice of the other axes' values; on the
// points of the grid from its rows, between them by predictions (internal to the library).
//
//   bandwidth   1 Gb/s      2 Gb/s            4 Gb/s
//   ddp         0.61 s      0.48 s   0.42 s   0.40 s
//               point 0     point 1     ^     point 2        at 3.1 Gb/s, between points 1 and 2
//
// Invariant: points ascend. Not modelled: axes without an order (choices).
#include <stepcast/sweep/grid.hpp>
#include <stepcast/sweep/sweep.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace stepcast {

class SweepLine {
 public:
  /// Of one point after the other, all plans. Keeps references to the grid and the rows.
  SweepLine(const SweepGrid&, std::vector<const SweepRow*> rows);

  [[nodiscard]] std::size_t points() const { return positions_.size(); }
  [[nodiscard]] std::size_t plans() const { return grid_.plans().size(); }
  /// The value of the first axis at a point.
  [[nodiscard]] double x(std::size_t point) const { return value(positions_[point]); }
  [[nodiscard]] const SweepRow& row(std::size_t point, std::size_t plan) const {
    return *rows_[positions_[point] + plan];
  }
  /// Seconds of a step; infinite where the plan cannot run.
  [[nodiscard]] double time(std::size_t point, std::size_t plan) const;
  /// Samples that a worker does in a second; of a profile without a batch its steps. 0 where the plan cannot run.
  [[nodiscard]] double rate(std::size_t point, std::size_t plan) const;
  /// Both at a value between a point and the next one. With `tune`, options are as tuned at either of the two,
  /// whichever is faster.
  struct Taken {
    double time = HUGE_VAL, rate = 0;
  };
  [[nodiscard]] Taken at(std::size_t point, double value, std::size_t plan) const;

  enum class Holds : std::uint8_t { no, yes, cannot_run };
  /// The last value from a on at which something holds, and the first at which it does not; they are as close as the
  /// axis allows: a thousandth, one machine, a byte, or one of what is counted. It holds at a and not at b, in either
  /// order. Of whole numbers those that cannot run are passed over.
  template <class Asks>
  [[nodiscard]] std::pair<double, double> edge(double a, double b, const Asks& holds) const {
    const double least = std::max(a, b) * smallest;
    while (double middle = between(a, b, least)) {
      Holds there = holds(middle);
      for (double away = 1; there == Holds::cannot_run && step(middle) > 0 && away <= most_passed_over; ++away) {
        const double low = middle - away * step(middle), high = middle + away * step(middle);
        if (low <= std::min(a, b) && high >= std::max(a, b)) return {a, b};
        for (const double at : {low, high}) {
          if (there != Holds::cannot_run || at <= std::min(a, b) || at >= std::max(a, b)) continue;
          there = holds(at);
          if (there != Holds::cannot_run) middle = at;
        }
      }
      (there == Holds::yes ? a : b) = middle;
    }
    return {a, b};
  }

  [[nodiscard]] std::string name(std::size_t plan) const { return text_of(grid_.plans()[plan]); }
  /// The values of the other axes.
  [[nodiscard]] std::vector<double> others() const;
  /// The first axis takes whole numbers only, of machines, bytes or things.
  [[nodiscard]] bool whole() const { return grain_ > 0 || bytes_; }

 private:
  static constexpr double precision = 1e-3;        ///< of a value, relative
  static constexpr double smallest = 1e-9;         ///< of what lies beside zero, as a share of the other end
  static constexpr double most_passed_over = 1e3;  ///< to each side, so that a search ends where nothing runs
  [[nodiscard]] double value(std::size_t position) const { return rows_[position]->values.front(); }
  [[nodiscard]] Taken taken(const Prediction&, std::span<const double> values) const;
  /// A value between two others that are not as close as they can be, else 0; beside zero they are at `least`.
  [[nodiscard]] double between(double a, double b, double least) const;
  /// The plan with the options that it has at a point, and the value of the axis if that is an option.
  [[nodiscard]] Answer<Plan> spec_between(std::size_t point, std::span<const double> values, std::size_t plan) const;

  const SweepGrid& grid_;
  std::vector<const SweepRow*> rows_;
  std::vector<std::size_t> positions_;  ///< of points in `rows_`, by ascending value
  /// How far the next value of the first axis is: one machine (one device within the first), or one thing; 0: any can
  /// be.
  [[nodiscard]] double step(double at) const { return at < grain_ ? std::min(grain_, 1.0) : grain_; }
  double grain_;  ///< its largest step
  bool bytes_;    ///< it takes whole bytes
};

/// The rows of a whole grid as lines, one for each choice of the other axes' values; points that no row stands for are
/// left out.
[[nodiscard]] std::vector<SweepLine> lines_of(const SweepGrid&, std::span<const SweepRow>);

}  // namespace stepcast
