// Cross-overs: rows say between which points the best plan changes, bisection with real predictions says where.
#include <stepcast/base/statistics.hpp>
#include <stepcast/sweep/axis_rules.hpp>
#include <stepcast/sweep/cross_overs.hpp>
#include <stepcast/sweep/grid.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stepcast {
namespace {

constexpr double precision = 1e-3;  // of a place, relative

/// The times along the first axis for one choice of the other axes' values.
class Line {
 public:
  Line(const SweepGrid& grid, std::vector<const SweepRow*> rows) : grid_(grid), rows_(std::move(rows)) {
    const std::size_t plans = grid.plans().size();
    for (std::size_t at = 0; at < rows_.size(); at += plans) positions_.push_back(at);
    std::stable_sort(positions_.begin(), positions_.end(),
                     [&](std::size_t a, std::size_t b) { return value(a) < value(b); });
  }

  std::vector<CrossOver> changes() {
    std::size_t champion = none;
    for (std::size_t k = 0; k < positions_.size(); ++k) {
      const std::size_t best = best_at(k);
      if (best == none) continue;
      if (champion != none && time(k, champion) > time(k, best) * (1 + indifference)) find(k, champion, best);
      // Where the champion cannot run at all there is no value at which both take the same time.
      if (champion == none || time(k, champion) > time(k, best) * (1 + indifference)) champion = best;
    }
    return std::move(found_);
  }

 private:
  static constexpr std::size_t none = SIZE_MAX;

  [[nodiscard]] double value(std::size_t position) const { return rows_[position]->values.front(); }
  [[nodiscard]] double x(std::size_t k) const { return value(positions_[k]); }
  [[nodiscard]] const SweepRow& row(std::size_t k, std::size_t plan) const { return *rows_[positions_[k] + plan]; }
  [[nodiscard]] double time(std::size_t k, std::size_t plan) const {
    const auto& p = row(k, plan).prediction;
    return p ? p->iteration.value() : HUGE_VAL;
  }
  [[nodiscard]] std::size_t best_at(std::size_t k) const {
    std::size_t best = none;
    for (std::size_t p = 0; p < grid_.plans().size(); ++p)
      if (row(k, p).prediction && (best == none || time(k, p) < time(k, best))) best = p;
    return best;
  }

  /// `to` is faster than `from` at k; back to where it was not.
  void find(std::size_t k, std::size_t from, std::size_t to) {
    std::size_t before = k;
    while (before > 0 && !(time(before, from) <= time(before, to))) --before;
    if (!std::isfinite(time(before, from)) || before + 1 > k || !std::isfinite(time(before + 1, from))) {
      // One of them cannot run on one side: the change is at the first point where it is so.
      found_.push_back({x(before == k ? k : before + 1), name(from), name(to), others()});
      return;
    }
    split(before, x(before), x(before + 1), from, to, 0);
  }

  /// `from` is no slower than `to` at a, and slower at b.
  void split(std::size_t k, double a, double b, std::size_t from, std::size_t to, int depth) {
    const double at = equal_time(k, a, b, from, to);
    std::size_t third = none;
    double least = std::min(time_at(k, at, from), time_at(k, at, to)) / (1 + indifference);
    for (std::size_t p = 0; depth < 4 && p < grid_.plans().size(); ++p)
      if (const double t = p == from || p == to ? HUGE_VAL : time_at(k, at, p); t < least) third = p, least = t;
    if (third == none || !(time_at(k, a, from) <= time_at(k, a, third)) ||
        !(time_at(k, b, to) <= time_at(k, b, third))) {
      found_.push_back({at, name(from), name(to), others()});
      return;
    }
    split(k, a, at, from, third, depth + 1);
    split(k, at, b, third, to, depth + 1);
  }

  double equal_time(std::size_t k, double a, double b, std::size_t from, std::size_t to) {
    const SweepAxis& axis = grid_.question().axes.front();
    const bool bytes = axis.option && axis.option->kind == OptionKind::size;
    const double grain = grain_of(grid_.question()), least = precision * b;
    while (grain > 0 ? b - a > grain : a > 0 ? b / a > 1 + precision : b > least) {
      double middle = a > 0 ? std::sqrt(a * b) : b / 2;  // from zero on, no ratio leads anywhere
      if (grain > 0) middle = std::round(middle / grain) * grain;
      if (bytes) middle = std::round(middle);
      if (!(middle > a && middle < b)) break;
      (time_at(k, middle, from) <= time_at(k, middle, to) ? a : b) = middle;
    }
    return grain > 0 || bytes || a <= 0 ? b : std::sqrt(a * b);
  }

  /// The smallest step of the first axis: whole machines, or none.
  [[nodiscard]] static double grain_of(const SweepQuestion& question) {
    const SweepAxis& axis = question.axes.front();
    if (axis.quantity == SweepQuantity::layout) return 1;
    if (axis.quantity == SweepQuantity::workers) return static_cast<double>(question.cluster.devices_per_node);
    return axis.option && axis.option->kind == OptionKind::count ? 1 : 0;
  }

  /// Between points k and k+1, at any value of the first axis.
  double time_at(std::size_t k, double at, std::size_t plan) {
    if (at == x(k)) return time(k, plan);
    if (at == x(k + 1)) return time(k + 1, plan);
    std::vector<double> values = rows_.front()->values;
    values.front() = at;
    const Answer<SweepPlace> place = grid_.place_at(values);
    if (!place) return HUGE_VAL;
    double least = HUGE_VAL;
    for (const std::size_t end : {k, k + 1}) {
      if (end == k + 1 && !grid_.question().tune) break;
      const Answer<Plan> spec = spec_between(end, values, plan);
      if (!spec) continue;
      const Answer<Prediction> p = grid_.prediction_at(*place, *spec);
      if (p) least = std::min(least, p->iteration.value());
    }
    return least;
  }

  /// The plan with the options that it has at the end `k`, and the value of the axis if that is an option.
  [[nodiscard]] Answer<Plan> spec_between(std::size_t k, std::span<const double> values, std::size_t plan) const {
    Answer<Plan> asked = grid_.plan_at(plan, values);
    if (!asked || !grid_.question().tune || !row(k, plan).prediction) return asked;
    Plan as_tuned = plan_of(*row(k, plan).prediction);
    const SweepAxis& axis = grid_.question().axes.front();
    double* const at = axis.quantity == SweepQuantity::option ? option_of(as_tuned.strategy, axis.name) : nullptr;
    if (at) *at = values.front();
    return as_tuned;
  }

  [[nodiscard]] std::string name(std::size_t plan) const { return text_of(grid_.plans()[plan]); }
  [[nodiscard]] std::vector<double> others() const {
    const std::vector<double>& values = rows_.front()->values;
    return {values.begin() + 1, values.end()};
  }

  const SweepGrid& grid_;
  std::vector<const SweepRow*> rows_;   // of one point after the other, all plans
  std::vector<std::size_t> positions_;  // of points in `rows_`, by ascending value
  std::vector<CrossOver> found_;
};

}  // namespace

std::vector<CrossOver> cross_overs_of(const SweepQuestion& question, std::span<const SweepRow> rows) {
  const SweepGrid grid(question);
  const SweepAxis& axis = question.axes.front();
  if (axis.option && axis.option->kind == OptionKind::choice) return {};
  const std::size_t plans = grid.plans().size(), lines = grid.points() / axis.values.size();
  std::vector<std::vector<const SweepRow*>> of_line(lines);
  for (std::size_t i = 0; i + plans <= rows.size(); i += plans)
    for (std::size_t p = 0; p < plans; ++p) of_line[rows[i].point % lines].push_back(&rows[i + p]);
  std::vector<CrossOver> found;
  for (std::vector<const SweepRow*>& line : of_line) {
    if (line.empty()) continue;
    std::vector<CrossOver> changes = Line(grid, std::move(line)).changes();
    found.insert(found.end(), std::make_move_iterator(changes.begin()), std::make_move_iterator(changes.end()));
  }
  return found;
}

}  // namespace stepcast
