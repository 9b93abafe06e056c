// Sweep lines: rows say what is taken at the points, predictions what is taken between them.
#include <stepcast/sweep/axis_rules.hpp>
#include <stepcast/sweep/line.hpp>

#include <algorithm>

namespace stepcast {
namespace {

/// Whole machines or things; 0 where values lie as close as one likes, or nearly so.
double grain_of(const SweepQuestion& question) {
  const SweepAxis& axis = question.axes.front();
  if (axis.quantity == SweepQuantity::layout) return 1;
  if (axis.quantity == SweepQuantity::workers) return static_cast<double>(question.cluster.devices_per_node);
  if (axis.quantity == SweepQuantity::batch)
    return std::ranges::all_of(axis.values, [](double value) { return value == std::floor(value); }) ? 1 : 0;
  return axis.option && axis.option->kind == OptionKind::count ? 1 : 0;
}

}  // namespace

SweepLine::SweepLine(const SweepGrid& grid, std::vector<const SweepRow*> rows)
    : grid_(grid), rows_(std::move(rows)), grain_(grain_of(grid.question())) {
  const OptionSpec* option = grid.question().axes.front().option;
  bytes_ = option && option->kind == OptionKind::size;
  for (std::size_t at = 0; at < rows_.size(); at += plans()) positions_.push_back(at);
  std::ranges::stable_sort(positions_, {}, [&](std::size_t position) { return value(position); });
}

SweepLine::Taken SweepLine::taken(const Prediction& p, std::span<const double> values) const {
  const double time = p.iteration.value();
  double workers = 1;  // the same at all points, so that their number does not matter
  for (std::size_t i = 0; i < values.size(); ++i)
    if (grid_.question().axes[i].quantity == SweepQuantity::workers) workers = values[i];
  return {time, p.throughput_samples_per_s > 0 ? p.throughput_samples_per_s / workers : 1 / time};
}

double SweepLine::time(std::size_t point, std::size_t plan) const {
  const SweepRow& row = this->row(point, plan);
  return row.prediction ? row.prediction->iteration.value() : HUGE_VAL;
}

double SweepLine::rate(std::size_t point, std::size_t plan) const {
  const SweepRow& row = this->row(point, plan);
  return row.prediction ? taken(*row.prediction, row.values).rate : 0;
}

SweepLine::Taken SweepLine::at(std::size_t point, double there, std::size_t plan) const {
  for (const std::size_t end : {point, point + 1})
    if (end < points() && there == x(end)) return {time(end, plan), rate(end, plan)};
  std::vector<double> values = rows_.front()->values;
  values.front() = there;
  const Answer<SweepPlace> place = grid_.place_at(values);
  Taken best;
  if (!place) return best;
  for (const std::size_t end : {point, point + 1}) {
    if (end == point + 1 && !grid_.question().tune) break;
    const Answer<Plan> spec = spec_between(end, values, plan);
    if (!spec) continue;
    const Answer<Prediction> p = grid_.prediction_at(*place, *spec);
    if (p && p->iteration.value() < best.time) best = taken(*p, values);
  }
  return best;
}

double SweepLine::between(double a, double b, double least) const {
  const double low = std::min(a, b), high = std::max(a, b);
  if (grain_ > 0 ? high - low <= step(low) : low > 0 ? high / low <= 1 + precision : high <= least) return 0;
  double middle = low > 0 ? std::sqrt(low * high) : high / 2;  // from zero on, no ratio leads anywhere
  if (grain_ > 0) middle = std::round(middle / step(middle)) * step(middle);
  if (bytes_) middle = std::round(middle);
  return middle > low && middle < high ? middle : 0;
}

Answer<Plan> SweepLine::spec_between(std::size_t point, std::span<const double> values, std::size_t plan) const {
  Answer<Plan> asked = grid_.plan_at(plan, values);
  if (!asked || !grid_.question().tune || !row(point, plan).prediction) return asked;
  Plan as_tuned = plan_of(*row(point, plan).prediction);
  const SweepAxis& axis = grid_.question().axes.front();
  double* const at = axis.quantity == SweepQuantity::option ? option_of(as_tuned.strategy, axis.name) : nullptr;
  if (at) *at = values.front();
  return as_tuned;
}

std::vector<double> SweepLine::others() const {
  const std::vector<double>& values = rows_.front()->values;
  return {values.begin() + 1, values.end()};
}

std::vector<SweepLine> lines_of(const SweepGrid& grid, std::span<const SweepRow> rows) {
  const std::size_t plans = grid.plans().size();
  const std::size_t lines = grid.points() / grid.question().axes.front().values.size();
  std::vector<std::vector<const SweepRow*>> of_line(lines);
  for (std::size_t i = 0; i + plans <= rows.size(); i += plans)
    for (std::size_t p = 0; p < plans; ++p) of_line[rows[i].point % lines].push_back(&rows[i + p]);
  std::vector<SweepLine> out;
  for (std::vector<const SweepRow*>& line : of_line)
    if (!line.empty()) out.emplace_back(grid, std::move(line));
  return out;
}

}  // namespace stepcast
