// Levenberg-Marquardt over seven numbers of a device, from several starts; leave-one-out errors to first order.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/device_fit.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>

#include <Eigen/Dense>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace stepcast {
namespace {

/// One free number of a device: within `low` and `high`, `otherwise` where the start does not say it. `spread`: by how
/// much, as a logarithm, it differs from what is known without measured steps: judgement, but for the level that
/// products sustain, which data sheets tell least of all (public steps of H100 and B200 came out 26 to 43 % too fast).
struct FreeNumber {
  const char* name;
  double low, high, otherwise, spread;
  double (*get)(const Device&);
  void (*set)(Device&, double);
  std::string (*text)(double) = [](double v) { return fixed(v, 3); };
};

/// Backward over forward of fused attention where the start does not say it: what is reached at best on A100 by
/// FlashAttention-2, 63 and 73 % of the peak (Dao 2023, arXiv 2307.08691, abstract and section 4.1).
constexpr double backward_of_attention = 0.63 / 0.73;
void set_attention(Device& d, double forward) {
  const double ratio = d.attention_forward > 0 && d.attention_backward > 0 ? d.attention_backward / d.attention_forward
                                                                           : backward_of_attention;
  // What steps sustain of one kernel's share they sustain of the others'.
  const double change = d.attention_forward > 0 ? forward / d.attention_forward : 1;
  for (AttentionRate& rate : d.attention_kernels)
    rate = {std::min(1.0, rate.forward * change), std::min(1.0, rate.backward * change)};
  d.attention_forward = forward, d.attention_backward = std::min(1.0, ratio * forward);
}

constexpr std::array<FreeNumber, 7> free_numbers{{
    {"matrix efficiency", 0.05, 1, 0.8, 0.5, [](const Device& d) { return d.matrix_efficiency; },
     [](Device& d, double v) { d.matrix_efficiency = v; }},
    {"half output", 1e3, 1e10, 1e6, 0.3, [](const Device& d) { return d.half_output; },
     [](Device& d, double v) { d.half_output = v; }, [](double v) { return fixed(v / 1e6, 2) + " M"; }},
    {"half k", 1, 1e5, 64, 0.3, [](const Device& d) { return d.half_k; }, [](Device& d, double v) { d.half_k = v; },
     [](double v) { return fixed(v, 0); }},
    {"memory bandwidth", 1e8, 1e14, 1e12, 0.2, [](const Device& d) { return d.memory_bandwidth.value(); },
     [](Device& d, double v) { d.memory_bandwidth = BytesPerSecond(v); },
     [](double v) { return fixed(v / 1e9, 0) + " GB/s"; }},
    {"kernel floor", 1e-7, 1e-3, 5e-6, 0.3, [](const Device& d) { return d.kernel_floor.value(); },
     [](Device& d, double v) { d.kernel_floor = Seconds(v); }, [](double v) { return text_of(Seconds(v)); }},
    {"host issue", 1e-7, 1e-2, 1e-5, 0.5, [](const Device& d) { return d.issue.value(); },
     [](Device& d, double v) { d.issue = Seconds(v); }, [](double v) { return text_of(Seconds(v)); }},
    {"attention", 0.02, 1, 0.5, 0.3, [](const Device& d) { return d.attention_forward; }, set_attention},
}};
constexpr Eigen::Index half_output = 1, half_k = 2, bandwidth = 3, host_issue = 5, attention = 6;  // of `free_numbers`
constexpr auto unknowns = static_cast<Eigen::Index>(free_numbers.size());
using Unknowns = Eigen::Matrix<double, unknowns, 1>;

// Residuals beyond this count linearly (Huber 1964).
constexpr double odd_row = 0.1;
// A free number that moves away from its start by a factor e costs as much as one row that is off by so much: numbers
// that the rows do not show stay where they are, the others hardly notice.
constexpr double pull = 0.02;
// Attention is a small part of most steps, and takes the blame for whatever else grows with the sequence: it is held
// five times as firmly.
const Unknowns loose = [] {
  Unknowns all = Unknowns::Constant(pull);
  all[attention] = 5 * pull;
  return all;
}();

// What a few steps leave open. One prediction of a fitted device differs from another by so much (80 % within 11 %:
// eight steps of other jobs); without a measured step it is `unmeasured_spread`.
constexpr double of_one_row = 0.086;

/// How firmly numbers are held that are known by their spread, beside rows that are off by `of_one_row`.
Unknowns pulls_of_spreads() {
  Unknowns all;
  for (Eigen::Index i = 0; i < unknowns; ++i) all[i] = of_one_row / free_numbers[static_cast<std::size_t>(i)].spread;
  return all;
}

/// A row with what does not depend on the device, and which of the rows asks the same first.
struct PreparedRow {
  const MeasuredStep* step;
  ModelShape shape;
  Cluster cluster;
  std::size_t same_as = 0;
  double repeats = 1;  ///< rows that ask the same, this one among them
};

Answer<Cluster> sized(const Cluster& cluster, const MeasuredStep& step) {
  Answer<Cluster> machines = resized(cluster, step.devices);
  if (!machines) return Inapplicable{step.source + ": " + machines.reason()};
  return machines;
}

Answer<LayoutEvaluator::Quick> quick_step(const Device& device, const PreparedRow& row) {
  const Workload workload = workload_of(row.shape, device);
  LayoutOptions options;
  options.global_batch = row.step->global_batch;
  LayoutEvaluator evaluator(workload, row.cluster, options);
  // What ran had memory enough: only the time is asked for.
  Answer<LayoutEvaluator::Quick> quick = evaluator.quick(row.step->plan);
  if (!quick) return Inapplicable{row.step->source + ": " + quick.reason()};
  return quick;
}

Answer<Seconds> predicted_step(const Device& device, const PreparedRow& row) {
  const Answer<LayoutEvaluator::Quick> quick = quick_step(device, row);
  if (!quick) return Inapplicable{quick.reason()};
  return quick->iteration;
}

/// The rows' residuals as a function of the logarithms of the free numbers.
class Problem {
 public:
  /// `repeats_are_one`: rows that ask the same count as one row together.
  Problem(const Device& start, std::vector<PreparedRow> rows, const Unknowns& held = loose, double odd = odd_row,
          bool repeats_are_one = false)
      : start_(start),
        rows_(std::move(rows)),
        repeats_are_one_(repeats_are_one),
        shows_attention_(std::ranges::any_of(rows_, has_fused_attention, &PreparedRow::shape)),
        pulls_(held),
        outlier_(odd) {
    for (Eigen::Index i = 0; i < unknowns; ++i) {
      const FreeNumber& f = free_numbers[static_cast<std::size_t>(i)];
      const double value = f.get(start);
      origin_[i] = std::log(std::clamp(value > 0 ? value : f.otherwise, f.low, f.high));
      low_[i] = std::log(f.low);
      // A data sheet's bandwidth is a peak: what kernels reach is below.
      high_[i] = std::log(i == bandwidth && value > 0 ? value : f.high);
    }
  }

  [[nodiscard]] const Unknowns& origin() const { return origin_; }
  [[nodiscard]] const Unknowns& pulls() const { return pulls_; }
  /// Residuals beyond this count linearly.
  [[nodiscard]] double outlier() const { return outlier_; }
  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  [[nodiscard]] double weight(Eigen::Index row) const {
    return repeats_are_one_ ? 1 / rows_[static_cast<std::size_t>(row)].repeats : 1;
  }
  [[nodiscard]] Unknowns bounded(const Unknowns& x) const { return x.cwiseMax(low_).cwiseMin(high_); }

  [[nodiscard]] Device device(const Unknowns& x) const {
    Device d = start_;
    for (Eigen::Index i = 0; i < unknowns; ++i)
      if (is_free(i)) free_numbers[static_cast<std::size_t>(i)].set(d, std::exp(x[i]));
    return d;
  }
  /// Without a row that has fused attention, what is known of it stays; so do the extents of products where the start
  /// has them along all dimensions, which is known from measured products alone.
  [[nodiscard]] bool is_free(Eigen::Index i) const {
    if (i == attention) return shows_attention_;
    const bool measured_extents = start_.half_m > 0 && start_.half_n > 0;
    return !measured_extents || (i != half_output && i != half_k);
  }
  [[nodiscard]] std::size_t free_count() const {
    std::size_t count = 0;
    for (Eigen::Index i = 0; i < unknowns; ++i) count += is_free(i);
    return count;
  }

  /// ln(predicted / measured) of each row; the reason where a row has no prediction.
  [[nodiscard]] Answer<Eigen::VectorXd> errors(const Unknowns& x) const {
    const Device d = device(x);
    Eigen::VectorXd out(static_cast<Eigen::Index>(rows_.size()));
    std::vector<Seconds> times(rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].same_as == i) {
        const Answer<Seconds> time = predicted_step(d, rows_[i]);
        if (!time) return Inapplicable{time.reason()};
        times[i] = *time;
      }
      out[static_cast<Eigen::Index>(i)] = std::log(times[rows_[i].same_as] / rows_[i].step->time);
    }
    return out;
  }

 private:
  const Device& start_;
  std::vector<PreparedRow> rows_;
  bool repeats_are_one_, shows_attention_;
  Unknowns pulls_, origin_, low_, high_;
  double outlier_;
};

/// Huber's weights of squared residuals.
Eigen::VectorXd weights_of(const Problem& problem, const Eigen::VectorXd& errors) {
  const double odd = problem.outlier();
  Eigen::VectorXd weights =
      errors.unaryExpr([odd](double r) { return std::min(1.0, odd / std::max(std::abs(r), 1e-12)); });
  for (Eigen::Index i = 0; i < weights.size(); ++i) weights[i] *= problem.weight(i);
  return weights;
}

double cost_of(const Problem& problem, const Eigen::VectorXd& errors, const Unknowns& x) {
  double sum = problem.pulls().cwiseProduct(x - problem.origin()).squaredNorm();
  const double odd = problem.outlier();
  for (Eigen::Index i = 0; i < errors.size(); ++i) {
    const double r = std::abs(errors[i]);
    sum += problem.weight(i) * (r <= odd ? r * r : odd * (2 * r - odd));
  }
  return sum;
}

using Slopes = Eigen::Matrix<double, Eigen::Dynamic, unknowns>;
using Normal = Eigen::Matrix<double, unknowns, unknowns>;

/// Derivatives of the errors, by differences that stay within the bounds.
Answer<Slopes> slopes_of(const Problem& problem, const Unknowns& x, const Eigen::VectorXd& errors) {
  constexpr double width = 1e-3;
  Slopes slopes(errors.size(), unknowns);
  for (Eigen::Index i = 0; i < unknowns; ++i) {
    Unknowns beside = x;
    beside[i] += problem.bounded(x + Unknowns::Unit(i) * width)[i] > x[i] ? width : -width;
    const Answer<Eigen::VectorXd> moved = problem.errors(beside);
    if (!moved) return Inapplicable{moved.reason()};
    slopes.col(i) = (*moved - errors) / (beside[i] - x[i]);
  }
  return slopes;
}

Normal normal_of(const Problem& problem, const Slopes& slopes, const Eigen::VectorXd& weights) {
  Normal normal = slopes.transpose() * weights.asDiagonal() * slopes;
  normal.diagonal() += problem.pulls().cwiseAbs2();
  return normal;
}

/// Where Levenberg-Marquardt ends, with Marquardt's scaling and steps cut off at the bounds.
struct Optimum {
  Unknowns x;
  Eigen::VectorXd errors;
  double cost = 0;
};
Answer<Optimum> least_squares(const Problem& problem, Unknowns x) {
  constexpr int most_steps = 60;
  Answer<Eigen::VectorXd> errors = problem.errors(x);
  if (!errors) return Inapplicable{errors.reason()};
  double cost = cost_of(problem, *errors, x), damping = 1e-2;
  for (int step = 0; step < most_steps; ++step) {
    const Answer<Slopes> slopes = slopes_of(problem, x, *errors);
    if (!slopes) return Inapplicable{slopes.reason()};
    const Eigen::VectorXd weights = weights_of(problem, *errors);
    const Normal normal = normal_of(problem, *slopes, weights);
    const Unknowns gradient = slopes->transpose() * weights.cwiseProduct(*errors) +
                              problem.pulls().cwiseAbs2().cwiseProduct(x - problem.origin());
    double gain = 0;
    for (; damping < 1e8; damping *= 4) {
      Normal damped = normal;
      damped.diagonal() *= 1 + damping;
      const Unknowns next = problem.bounded(x - damped.ldlt().solve(gradient));
      Answer<Eigen::VectorXd> moved = problem.errors(next);
      if (!moved) return Inapplicable{moved.reason()};
      const double there = cost_of(problem, *moved, next);
      if (!(there < cost)) continue;
      gain = cost - there;
      x = next, cost = there, errors = std::move(moved);
      damping = std::max(damping / 8, 1e-7);
      break;
    }
    if (gain <= 1e-8 * cost) break;
  }
  return Optimum{x, std::move(*errors), cost};
}

/// The best of several starts: where host and device change places as the larger of the two, the cost has kinks in
/// which a descent may end.
Answer<Optimum> best_optimum(const Problem& problem) {
  Answer<Optimum> best = least_squares(problem, problem.origin());
  for (const double issue : {0.25, 1.0, 4.0})
    for (const double output : {1.0, 8.0}) {
      if (!best || (issue == 1 && output == 1)) continue;
      Unknowns x = problem.origin();
      x[host_issue] += std::log(issue);
      x[half_output] += std::log(output);
      Answer<Optimum> next = least_squares(problem, problem.bounded(x));
      if (!next || next->cost < best->cost) best = std::move(next);
    }
  return best;
}

/// Each row's error in a fit without it, to first order (Allen 1974: r / (1 - h), h the row's leverage).
Answer<Eigen::VectorXd> left_out_errors(const Problem& problem, const Optimum& at) {
  const Answer<Slopes> slopes = slopes_of(problem, at.x, at.errors);
  if (!slopes) return Inapplicable{slopes.reason()};
  const Eigen::VectorXd weights = weights_of(problem, at.errors);
  const Normal inverse = normal_of(problem, *slopes, weights).inverse();
  Eigen::VectorXd out = at.errors;
  for (Eigen::Index i = 0; i < out.size(); ++i) {
    const double leverage = weights[i] * slopes->row(i) * inverse * slopes->row(i).transpose();
    out[i] /= 1 - std::min(leverage, 0.95);
  }
  return out;
}

/// Of a row's description, or the same refusal with where the row stands.
ModelShape shape_at(const MeasuredStep& step) {
  try {
    return model_shape_of(step.model);
  } catch (const InputError& error) {
    throw InputError(step.source + (error.where.empty() ? "" : ": " + error.where), error.expected, error.found,
                     error.hint);
  }
}

bool ask_the_same(const MeasuredStep& a, const MeasuredStep& b) {
  return a.devices == b.devices && a.global_batch == b.global_batch && a.model == b.model &&
         text_of(a.plan) == text_of(b.plan);
}

Answer<std::vector<PreparedRow>> prepared(const Cluster& cluster, std::span<const MeasuredStep> steps) {
  std::vector<PreparedRow> rows;
  for (const MeasuredStep& step : steps) {
    const auto same = std::ranges::find_if(rows, [&](const PreparedRow& r) { return ask_the_same(*r.step, step); });
    if (same != rows.end()) {
      PreparedRow repeat = *same;
      repeat.step = &step;
      rows.push_back(std::move(repeat));
      continue;
    }
    Answer<Cluster> machines = sized(cluster, step);
    if (!machines) return Inapplicable{machines.reason()};
    rows.push_back({&step, shape_at(step), std::move(*machines), rows.size()});
  }
  for (PreparedRow& row : rows)
    row.repeats = static_cast<double>(
        std::ranges::count_if(rows, [&](const PreparedRow& r) { return r.same_as == row.same_as; }));
  return rows;
}

double relative(double logarithm) { return std::exp(logarithm) - 1; }

}  // namespace

double root_mean_square(const std::vector<double>& values, std::size_t freedom) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum / static_cast<double>(std::max<std::size_t>(1, freedom)));
}

Answer<Seconds> predicted_step(const Device& device, const Cluster& cluster, const MeasuredStep& step) {
  Answer<std::vector<PreparedRow>> rows = prepared(cluster, std::span(&step, 1));
  if (!rows) return Inapplicable{rows.reason()};
  return predicted_step(device, rows->front());
}

Answer<DeviceFit> device_of_steps(const Device& start, const Cluster& cluster, std::span<const MeasuredStep> steps,
                                  bool leave_one_out) {
  Answer<std::vector<PreparedRow>> rows = prepared(cluster, steps);
  if (!rows) return Inapplicable{rows.reason()};
  const Problem problem(start, std::move(*rows));
  const std::size_t numbers = problem.free_count();
  if (steps.size() < numbers + (leave_one_out ? 1 : 0))
    return Inapplicable{"a device has " + std::to_string(numbers) + " free numbers, and there are " +
                        std::to_string(steps.size()) + " measured steps"};
  const Answer<Optimum> best = best_optimum(problem);
  if (!best) return Inapplicable{best.reason()};
  DeviceFit fit;
  fit.device = problem.device(best->x);
  for (const double r : best->errors) fit.residuals.push_back(relative(r));
  if (leave_one_out) {
    const Answer<Eigen::VectorXd> without = left_out_errors(problem, *best);
    if (!without) return Inapplicable{without.reason()};
    for (const double r : *without) fit.left_out.push_back(relative(r));
  }
  fit.device.relative_error = leave_one_out ? root_mean_square(fit.left_out, steps.size())
                                            : root_mean_square(fit.residuals, steps.size() - numbers + 1);
  std::string fitted;
  for (Eigen::Index i = 0; i < unknowns; ++i)
    if (problem.is_free(i)) add_to_list(fitted, free_numbers[static_cast<std::size_t>(i)].name);
  fit.device.provenance.push_back(fitted + ": fitted to " + std::to_string(steps.size()) + " measured steps, " +
                                  (leave_one_out ? "left out" : "residual") + " rms " +
                                  fixed(100 * fit.device.relative_error, 1) + " %");
  for (Eigen::Index i = 0; i < unknowns; ++i) {
    const FreeNumber& f = free_numbers[static_cast<std::size_t>(i)];
    const double value = f.get(fit.device);
    if (!problem.is_free(i)) continue;
    if (value <= f.low * 1.001 || value >= f.high * 0.999)
      fit.notes.push_back(std::string(f.name) + " ended at its bound: the rows do not determine it");
  }
  fit.device = checked(std::move(fit.device), "fitted device");
  return fit;
}

namespace {

/// Throws InputError where the step is shorter than its operations take at the peak of all devices.
void refuse_beyond_peak(const Device& device, const MeasuredStep& step) {
  const ModelShape shape = model_shape_of(step.model);
  const double rate = device.matrix_rate[static_cast<std::size_t>(shape.dtype)];
  if (!(rate > 0)) return;  // pricing the products refuses it
  const Seconds least(shape.operations() * step.global_batch / (rate * static_cast<double>(step.devices)));
  if (step.time < least)
    throw InputError(step.source,
                     "a step of " + text_of(least) + " or more, which " + fixed(step.global_batch, 0) +
                         " samples take at the peak of " + counted(step.devices, "device"),
                     text_of(step.time), "look for another unit, batch or number of devices");
}

/// The relative error that `steps` of another job leave of `before`: what all steps have in common is the less open the
/// more of them were seen, what tells one from another stays: `own` at least, as far as they are from one another.
double error_after(double before, double own, std::size_t steps) {
  const double expected = std::min(of_one_row, before), common = before * before - expected * expected;
  own = std::max(own, expected);
  if (!(common > 0)) return std::max(before, own);
  return std::sqrt(own * own + 1 / (1 / common + static_cast<double>(steps) / (own * own)));
}

std::vector<double> relative(const Eigen::VectorXd& logarithms) {
  std::vector<double> out;
  for (const double r : logarithms) out.push_back(relative(r));
  return out;
}

}  // namespace

double DeviceCorrection::residual() const { return root_mean_square(after, after.size()); }
double DeviceCorrection::disagreement() const {
  if (after.size() < 2) return 0;
  std::vector<double> logarithms;
  for (const double error : after) logarithms.push_back(std::log1p(error));
  return root_mean_square(logarithms, after.size() - 1);
}

namespace {

/// Of a row that is measured and would not fit; empty: it fits, or nothing is known of the memory.
std::string doubt_of(const MeasuredStep& step, Bytes needed, Bytes memory) {
  if (memory <= Bytes(0) || needed <= memory) return {};
  return step.source + ": it was measured, and by this model needs " + text_of(needed) + " of the " + text_of(memory) +
         " of a device: memory is overestimated there, or it was another layout, batch or device";
}

}  // namespace

DeviceCorrection corrected_device(const Device& start, const Cluster& cluster, std::vector<MeasuredStep> steps) {
  DeviceCorrection out;
  out.steps = std::move(steps);
  for (const MeasuredStep& step : out.steps) {
    (void)shape_at(step);
    refuse_beyond_peak(start, step);
  }
  Answer<std::vector<PreparedRow>> rows = prepared(cluster, out.steps);
  if (!rows) throw InputError(out.steps.front().source, "a measured step that can be predicted", rows.reason());
  constexpr std::size_t most = 48;  // a few seconds of fitting
  std::size_t questions = 0;
  std::vector<Seconds> told(rows->size());
  std::vector<std::int64_t> micro_batch(rows->size());
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const PreparedRow& row = (*rows)[i];
    if (row.same_as != i) {
      told[i] = told[row.same_as];
      micro_batch[i] = micro_batch[row.same_as];
      continue;
    }
    if (++questions > most)
      throw InputError(row.step->source, "at most " + std::to_string(most) + " measured steps, repeats aside",
                       "one more", "'stepcast calibrate --steps' fits a device to tables of any length");
    const Answer<LayoutEvaluator::Quick> quick = quick_step(start, row);
    if (!quick)
      throw InputError(row.step->source, "a measured step of a layout that the model and its devices can run",
                       quick.reason().substr(row.step->source.size() + 2));
    told[i] = quick->iteration;
    micro_batch[i] = quick->micro_batch;
    if (std::string doubt = doubt_of(*row.step, quick->memory, row.cluster.device_memory); !doubt.empty())
      out.doubts.push_back(std::move(doubt));
  }
  // The device is corrected by the step as it was told before.
  for (std::size_t i = 0; i < out.steps.size(); ++i) {
    std::int64_t& said = out.steps[i].plan.layout.micro_batch;
    out.micro_batch_assumed.push_back(said == 0);
    if (said == 0) said = micro_batch[i];
  }
  const Problem problem(start, std::move(*rows), pulls_of_spreads(), INFINITY, true);
  const Answer<Eigen::VectorXd> before = problem.errors(problem.origin());
  const Answer<Optimum> best = best_optimum(problem);
  if (!before || !best)
    throw InputError(out.steps.front().source, "a measured step that can be predicted",
                     before ? best.reason() : before.reason());
  out.before = relative(*before), out.after = relative(best->errors);
  constexpr double nowhere_near = 0.75;  // judgement: far beyond what words_of doubts
  for (std::size_t i = 0; i < out.steps.size(); ++i)
    if (std::abs(out.after[i]) > nowhere_near)
      throw InputError(out.steps[i].source, "a step that a device like this can take",
                       text_of(out.steps[i].time) + " where it is predicted to take " + text_of(told[i]),
                       "look for another unit, batch, layout or number of devices");
  out.device = problem.device(best->x);
  out.rates_before = rates_of(start);
  out.error_before = out.rates_before == RatesOf::steps      ? start.relative_error
                     : out.rates_before == RatesOf::products ? unmeasured_spread
                                                             : data_sheet_spread;
  out.device.relative_error = std::max(error_after(out.error_before, out.disagreement(), questions), out.residual());
  for (Eigen::Index i = 0; i < unknowns; ++i) {
    const FreeNumber& f = free_numbers[static_cast<std::size_t>(i)];
    const double was = std::exp(problem.origin()[i]), is = f.get(out.device);
    if (!problem.is_free(i) || std::abs(is / was - 1) < 0.01) continue;
    out.changed.push_back({f.name, std::string(f.name) + " " + f.text(was) + " -> " + f.text(is), was, is});
  }
  out.device.corrected_by = out.steps.size();
  out.device.provenance.push_back("corrected by " +
                                  counted(static_cast<std::int64_t>(out.steps.size()), "measured step") +
                                  ", residual " + percent(out.residual()));
  out.device = checked(std::move(out.device), "corrected device");
  return out;
}

std::vector<std::string> words_of(const DeviceCorrection& c) {
  const auto off = [](double error) { return (error < 0 ? "" : "+") + fixed(100 * error, 1) + " %"; };
  const auto half = [](double error) { return fixed(100 * normal_p90 * error, 0) + " %"; };
  std::vector<std::string> out;
  for (std::size_t i = 0; i < c.steps.size(); ++i)
    out.push_back(text_of(c.steps[i].plan) + " on " + counted(c.steps[i].devices, "device") + ", batch " +
                  fixed(c.steps[i].global_batch, 0) + ": " + text_of(c.steps[i].time) + "; predicted " +
                  text_of(c.steps[i].time * (1 + c.before[i])) + " before (" + off(c.before[i]) + "), " +
                  text_of(c.steps[i].time * (1 + c.after[i])) + " now (" + off(c.after[i]) + ")" +
                  (c.micro_batch_assumed[i] ? "; its micro-batch was not said, and mb=" +
                                                  std::to_string(c.steps[i].plan.layout.micro_batch) + " assumed"
                                            : ""));
  std::string changed;
  for (const ChangedNumber& n : c.changed) add_to_list(changed, n.words);
  out.push_back((changed.empty() ? "nothing changed" : changed) + ", from " +
                counted(static_cast<std::int64_t>(c.steps.size()), "measured step") + "; residual " +
                percent(c.residual()));
  const ComputeInterval sides = compute_interval(c.error_before, c.rates_before);
  const bool unmeasured = c.rates_before != RatesOf::steps;
  out.push_back("80 % interval of the compute: " +
                (unmeasured ? "from " + whole_percent(sides.below) + " less to " + whole_percent(sides.above) +
                                  " more before, no step having been measured, "
                            : half(c.error_before) + " either way before, ") +
                half(c.device.relative_error) + (unmeasured ? " either way now" : " now"));
  for (std::size_t i = 0; i < c.steps.size(); ++i) {
    constexpr double far = 2;  // times the interval: beyond it lies one step of a hundred
    const Seconds told = c.steps[i].time * (1 + c.before[i]);
    const Seconds low = told * (1 - far * sides.below), high = told * (1 + far * sides.above);
    if (c.steps[i].time < low || c.steps[i].time > high)
      out.push_back("CAUTION: the step of " + text_of(c.steps[i].time) + " lies far outside that interval before, " +
                    text_of(told * (1 - sides.below)) + " to " + text_of(told * (1 + sides.above)) +
                    ": is it of this precision (linear=), recomputation, batch and number of devices?");
  }
  for (const std::string& doubt : c.doubts) out.push_back("CAUTION: " + doubt);
  if (constexpr double twice = 2; c.disagreement() > twice * of_one_row)
    out.push_back("CAUTION: the steps contradict one another: no device brings them closer than " +
                  percent(c.disagreement()) + ", so that one of them may be of another unit, batch or layout");
  if (constexpr double far = 0.25; c.residual() > far)
    out.push_back(
        "CAUTION: no such device makes these steps: look for another unit, batch, layout or number of devices");
  return out;
}

}  // namespace stepcast
