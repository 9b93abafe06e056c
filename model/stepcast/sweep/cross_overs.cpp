// Cross-overs: rows say between which points the best plan changes, bisection with real predictions says where.
#include <stepcast/base/statistics.hpp>
#include <stepcast/sweep/cross_overs.hpp>
#include <stepcast/sweep/line.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>

namespace stepcast {
namespace {

constexpr std::size_t none = SIZE_MAX;

/// The changes of the best plan along one line.
class Changes {
 public:
  explicit Changes(const SweepLine& line) : line_(line) {}

  std::vector<CrossOver> found() {
    std::size_t champion = none;
    for (std::size_t k = 0; k < line_.points(); ++k) {
      const std::size_t best = best_at(k);
      if (best == none) continue;
      if (champion != none && line_.time(k, champion) > line_.time(k, best) * (1 + indifference))
        find(k, champion, best);
      // Where the champion cannot run at all there is no value at which both take the same time.
      if (champion == none || line_.time(k, champion) > line_.time(k, best) * (1 + indifference)) champion = best;
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] std::size_t best_at(std::size_t k) const {
    std::size_t best = none;
    for (std::size_t p = 0; p < line_.plans(); ++p)
      if (line_.row(k, p).prediction && (best == none || line_.time(k, p) < line_.time(k, best))) best = p;
    return best;
  }

  void add(double at, std::size_t from, std::size_t to) {
    found_.push_back({at, line_.name(from), line_.name(to), line_.others()});
  }

  /// `to` is faster than `from` at k; back to where it was not.
  void find(std::size_t k, std::size_t from, std::size_t to) {
    std::size_t before = k;
    while (before > 0 && !(line_.time(before, from) <= line_.time(before, to))) --before;
    // One of them cannot run on one side: the change is at the first point where it is so.
    if (!std::isfinite(line_.time(before, from)) || before + 1 > k || !std::isfinite(line_.time(before + 1, from)))
      return add(line_.x(before == k ? k : before + 1), from, to);
    split(before, line_.x(before), line_.x(before + 1), from, to, 0);
  }

  /// `from` is no slower than `to` at a, and slower at b.
  void split(std::size_t k, double a, double b, std::size_t from, std::size_t to, int depth) {
    const double at = equal_time(k, a, b, from, to);
    std::size_t third = none;
    double least = std::min(line_.at(k, at, from).time, line_.at(k, at, to).time) / (1 + indifference);
    for (std::size_t p = 0; depth < 4 && p < line_.plans(); ++p)
      if (const double t = p == from || p == to ? HUGE_VAL : line_.at(k, at, p).time; t < least) third = p, least = t;
    if (third == none || !(line_.at(k, a, from).time <= line_.at(k, a, third).time) ||
        !(line_.at(k, b, to).time <= line_.at(k, b, third).time))
      return add(at, from, to);
    split(k, a, at, from, third, depth + 1);
    split(k, at, b, third, to, depth + 1);
  }

  [[nodiscard]] double equal_time(std::size_t k, double a, double b, std::size_t from, std::size_t to) const {
    std::tie(a, b) = line_.edge(a, b, [&](double at) {
      return line_.at(k, at, from).time <= line_.at(k, at, to).time ? SweepLine::Holds::yes : SweepLine::Holds::no;
    });
    return line_.whole() || a <= 0 ? b : std::sqrt(a * b);
  }

  const SweepLine& line_;
  std::vector<CrossOver> found_;
};

}  // namespace

std::vector<CrossOver> cross_overs_of(const SweepQuestion& question, std::span<const SweepRow> rows) {
  const SweepGrid grid(question);
  const SweepAxis& axis = question.axes.front();
  if (axis.option && axis.option->kind == OptionKind::choice) return {};
  std::vector<CrossOver> found;
  for (const SweepLine& line : lines_of(grid, rows)) {
    std::vector<CrossOver> changes = Changes(line).found();
    found.insert(found.end(), std::make_move_iterator(changes.begin()), std::make_move_iterator(changes.end()));
  }
  return found;
}

}  // namespace stepcast
