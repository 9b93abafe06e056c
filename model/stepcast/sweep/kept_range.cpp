#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/sweep/kept_range.hpp>
#include <stepcast/sweep/line.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

namespace stepcast {
namespace {

/// Walks from the best point of one plan to both sides for as long as what is asked for is kept.
class Walk {
 public:
  Walk(const SweepLine& line, std::size_t plan, const Kept& kept) : line_(line), plan_(plan), kept_(kept) {}

  KeptRange range() {
    KeptRange out{.plan = line_.name(plan_), .others = line_.others()};
    std::size_t best = 0;
    for (std::size_t k = 0; k < line_.points(); ++k)
      if (better(k, best)) best = k;
    if (!line_.row(best, plan_).prediction) return out;
    out.runs = true;
    out.best = line_.x(best), out.best_step = Seconds(line_.time(best, plan_));
    least_rate_ = kept_.share * line_.rate(best, plan_);
    if (!keeps(line_.time(best, plan_), line_.rate(best, plan_))) return out;
    out.any = true;
    std::size_t first = best, last = best;
    while (first > 0 && keeps_at(first - 1)) --first;
    while (last + 1 < line_.points() && keeps_at(last + 1)) ++last;
    out.to_first = first == 0, out.to_last = last + 1 == line_.points();
    std::tie(out.low, out.low_step) =
        out.to_first ? end_at(first) : between(first - 1, line_.x(first), line_.x(first - 1));
    std::tie(out.high, out.high_step) = out.to_last ? end_at(last) : between(last, line_.x(last), line_.x(last + 1));
    return out;
  }

 private:
  [[nodiscard]] bool better(std::size_t k, std::size_t than) const {
    return kept_.share > 0 ? line_.rate(k, plan_) > line_.rate(than, plan_)
                           : line_.time(k, plan_) < line_.time(than, plan_);
  }
  [[nodiscard]] bool keeps(double time, double rate) const {
    return kept_.share > 0 ? rate >= least_rate_ : time <= kept_.step.value();
  }
  [[nodiscard]] bool keeps_at(std::size_t k) const { return keeps(line_.time(k, plan_), line_.rate(k, plan_)); }
  [[nodiscard]] std::pair<double, Seconds> end_at(std::size_t k) const {
    return {line_.x(k), Seconds(line_.time(k, plan_))};
  }
  /// The last value that keeps it, on the way from `from` to `to`, both between `point` and the next one.
  [[nodiscard]] std::pair<double, Seconds> between(std::size_t point, double from, double to) const {
    const auto kept_at = [&](double at) {
      const SweepLine::Taken taken = line_.at(point, at, plan_);
      return keeps(taken.time, taken.rate);
    };
    const double last = line_.edge(from, to, kept_at).first;
    return {last, Seconds(line_.at(point, last, plan_).time)};
  }

  const SweepLine& line_;
  const std::size_t plan_;
  const Kept& kept_;
  double least_rate_ = 0;
};

}  // namespace

Kept kept_of(std::string_view text, const char* where) {
  constexpr const char* expected = "a share of the best rate such as '90%', or a step time such as '350 ms'";
  if (text.ends_with('s')) {
    const Seconds step = seconds_of(text, where);
    if (step <= Seconds(0)) throw InputError(where, expected, in_quotes(text));
    return {.step = step};
  }
  const double share = share_of(text, where);
  if (!(share > 0 && share <= 1)) throw InputError(where, expected, in_quotes(text), "a share is above 0, up to 100 %");
  return {.share = share};
}

std::vector<KeptRange> kept_ranges_of(const SweepQuestion& question, std::span<const SweepRow> rows, const Kept& kept) {
  const SweepGrid grid(question);
  const SweepAxis& axis = question.axes.front();
  if (axis.option && axis.option->kind == OptionKind::choice)
    throw InputError("axis '" + axis.name + "'", "an axis whose values have an order, of which a range can be kept",
                     "one of choices");
  std::vector<KeptRange> out;
  for (const SweepLine& line : lines_of(grid, rows))
    for (std::size_t plan = 0; plan < line.plans(); ++plan) out.push_back(Walk(line, plan, kept).range());
  return out;
}

}  // namespace stepcast
