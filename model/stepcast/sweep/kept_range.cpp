// Kept ranges: from the best value to both sides over the points, then between two of them.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/sweep/kept_range.hpp>
#include <stepcast/sweep/line.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace stepcast {
namespace {

/// Walks from the best value of one plan to both sides for as long as what is asked for is kept.
class Walk {
 public:
  Walk(const SweepLine& line, std::size_t plan, const Kept& kept) : line_(line), plan_(plan), kept_(kept) {}

  KeptRange range() {
    KeptRange out{.plan = line_.name(plan_), .others = line_.others()};
    for (std::size_t k = 0; k < line_.points(); ++k)
      if (runs(k)) {
        consider(line_.x(k), {line_.time(k, plan_), line_.rate(k, plan_)});
        first_running_ = std::min(first_running_, k), last_running_ = k;
      }
    if (best_.time == HUGE_VAL) out.inapplicable = line_.row(0, plan_).inapplicable;
    if (best_.time == HUGE_VAL) return out;
    out.runs = true;
    // On the way to the ends a better value may be met, which the points of the grid left out.
    constexpr int most_looks = 4;
    for (int look = 0; look < most_looks; ++look) {
      const double best = at_;
      around(out);
      if (at_ == best) break;
    }
    return out;
  }

 private:
  using Taken = SweepLine::Taken;
  using Holds = SweepLine::Holds;

  [[nodiscard]] bool runs(std::size_t k) const { return std::isfinite(line_.time(k, plan_)); }
  void consider(double at, Taken taken) {
    if (kept_.share > 0 ? taken.rate > best_.rate : taken.time < best_.time) at_ = at, best_ = taken;
  }
  [[nodiscard]] bool keeps(Taken taken, const Taken& best) const {
    return kept_.share > 0 ? taken.rate >= kept_.share * best.rate : taken.time <= kept_.step.value();
  }

  void around(KeptRange& out) {
    const Taken best = best_;
    const double from = at_;
    out.best = from, out.best_step = Seconds(best.time);
    out.any = keeps(best, best);
    if (!out.any) return;
    std::size_t above = 0;
    while (above < line_.points() && line_.x(above) <= from) ++above;
    out.to_first = out.to_last = true;
    out.low = out.high = from, out.low_step = out.high_step = out.best_step;
    for (std::size_t k = above; k-- > 0 && out.to_first;) out.to_first = step_to(k, k, best, out.low, out.low_step);
    for (std::size_t k = above; k < line_.points() && out.to_last; ++k)
      out.to_last = step_to(k, k - 1, best, out.high, out.high_step);
  }

  /// From the last value that keeps it to a point, or as far towards it as it is kept; false: not to the point. Values
  /// in between are those behind point `between`.
  bool step_to(std::size_t k, std::size_t between, const Taken& best, double& last, Seconds& step) {
    // A point that cannot run says nothing of what lies behind it, where something does.
    if (!runs(k) && k > first_running_ && k < last_running_) return true;
    const Taken there{line_.time(k, plan_), line_.rate(k, plan_)};
    if (runs(k) && keeps(there, best)) {
      last = line_.x(k), step = Seconds(there.time);
      return true;
    }
    const auto kept_at = [&](double at) {
      const Taken taken = line_.at(between, at, plan_);
      if (!std::isfinite(taken.time)) return Holds::cannot_run;
      consider(at, taken);
      return keeps(taken, best) ? Holds::yes : Holds::no;
    };
    const double before = last;
    last = line_.edge(last, line_.x(k), kept_at).first;
    if (last != before) step = Seconds(line_.at(between, last, plan_).time);
    return false;
  }

  const SweepLine& line_;
  const std::size_t plan_;
  const Kept& kept_;
  std::size_t first_running_ = SIZE_MAX, last_running_ = 0;
  double at_ = 0;
  Taken best_;
};

}  // namespace

Kept kept_of(std::string_view text, const char* where) {
  const auto refuse = [&]() -> Kept {
    throw InputError(where, "a share of the best rate such as '90%', up to 100%, or a step time such as '350 ms'",
                     in_quotes_or_nothing(text));
  };
  const std::string_view said = trimmed(text);
  const bool letter = !said.empty() && std::isalpha(static_cast<unsigned char>(said.back())) != 0;
  try {
    Kept kept;
    (letter ? void(kept.step = seconds_of(said, where)) : void(kept.share = share_of(said, where)));
    return kept.step > Seconds(0) || (kept.share > 0 && kept.share <= 1) ? kept : refuse();
  } catch (const InputError&) { return refuse(); }
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
