// A device from the kernels of a trace: products by the shapes of the operators that launched them, memory-bound
// kernels by the bytes that their operators read and write, the shortest kernels, and the host's time per kernel.
//
// Shapes are those of mm, addmm, bmm, baddbmm and linear ("Input Dims"); an operator's device time is that of the
// matrix kernels it launched itself. Products that take less than twice the shortest kernel say nothing of the rate.
// Only element-wise operators, whose inputs are all read once and whose result is as large as the largest of them,
// count as traffic. The data type of a device's peak is that of the operands.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/device_of_trace.hpp>
#include <stepcast/trace/kernel_table.hpp>
#include <stepcast/trace/tensor_shapes.hpp>
#include <stepcast/trace/trace_index.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>

namespace stepcast {
namespace {

struct ProductSample {
  MatrixProduct product;
  DataType type;
  double seconds;
};
struct TrafficSample {
  double bytes, seconds;
};

MatrixProduct product_of(const TensorShape& a, const TensorShape& b) {
  const bool batched = a.size() == 3;
  const auto at = [](const TensorShape& s, std::size_t i) { return double(s[i]); };
  return {batched ? at(a, 0) : 1, at(a, a.size() - 2), at(b, b.size() - 1), at(a, a.size() - 1)};
}

/// Empty for operators that are no product, or whose shapes do not fit together.
std::optional<MatrixProduct> product_of(std::string_view name, const std::vector<TensorShape>& shapes) {
  const bool added = name == "aten::addmm" || name == "aten::baddbmm",
             plain = name == "aten::mm" || name == "aten::bmm";
  const std::size_t first = added ? 1 : 0;
  if ((!added && !plain) || shapes.size() < first + 2) return {};
  const TensorShape &a = shapes[first], &b = shapes[first + 1];
  const std::size_t rank = name == "aten::mm" || name == "aten::addmm" ? 2 : 3;
  if (a.size() != rank || b.size() != rank || a[rank - 1] != b[rank - 2]) return {};
  const MatrixProduct p = product_of(a, b);
  return p.operations() > 0 ? std::optional(p) : std::nullopt;
}

bool is_elementwise(std::string_view name) {
  constexpr std::string_view names[] = {"aten::add",  "aten::add_",  "aten::mul",     "aten::mul_",
                                        "aten::sub",  "aten::relu",  "aten::relu_",   "aten::gelu",
                                        "aten::silu", "aten::copy_", "aten::sigmoid", "aten::threshold_backward",
                                        "aten::tanh", "aten::div",   "aten::div_",    "aten::gelu_backward"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

/// What the operators of a trace launched, by the innermost operator that says its shapes.
class Samples {
 public:
  Samples(const Trace& trace, bool on_host) : index_(trace), trace_(trace) {
    if (on_host) add_operators();
    else add_kernels();
  }

  [[nodiscard]] const std::vector<ProductSample>& products() const { return products_; }
  [[nodiscard]] const std::vector<TrafficSample>& traffic() const { return traffic_; }
  [[nodiscard]] const std::vector<double>& durations() const { return durations_; }
  /// Host time per kernel: of the operators that launched, less what they waited for the device.
  [[nodiscard]] std::optional<double> issue() const {
    double busy = 0, kernels = 0;
    for (std::uint32_t e = 0; e < trace_.events.size(); ++e) {
      if (!index_.is_operator(e) || index_.device_work[e].pieces == 0) continue;
      busy += double(trace_.events[e].duration_ns - index_.waiting_ns[e] - index_.stalled_ns[e]) * 1e-9;
      kernels += double(index_.device_work[e].pieces);
    }
    return kernels > 0 && busy > 0 ? std::optional(busy / kernels) : std::nullopt;
  }

 private:
  struct Launched {
    double gemm = 0, rest = 0;
    int kernels = 0;
  };

  [[nodiscard]] std::uint32_t shaped_operator(std::uint32_t kernel) const {
    std::uint32_t at = index_.launcher[kernel];
    while (at != no_index && (trace_.events[at].kind != EventKind::host_op || trace_.events[at].shapes == 0))
      at = index_.parent[at];
    return at;
  }

  void add_kernels() {
    const KernelTable& table = trace_.kernels ? *trace_.kernels : shipped_kernel_table();
    for (std::uint32_t e = 0; e < trace_.events.size(); ++e) {
      const Event& event = trace_.events[e];
      if (event.kind != EventKind::kernel || event.collective != no_index) continue;
      const KernelRule* rule = table.rule_of(trace_.text(event.name));
      const KernelClass kind = rule != nullptr ? rule->kind : KernelClass::other;
      if (kind == KernelClass::collective) continue;
      durations_.push_back(double(event.duration_ns) * 1e-9);
      if (const std::uint32_t host = shaped_operator(e); host != no_index) {
        Launched& l = launched_[host];
        (kind == KernelClass::gemm ? l.gemm : l.rest) += double(event.duration_ns) * 1e-9;
        ++l.kernels;
      }
    }
    for (const auto& [host, launched] : launched_) add(host, launched);
  }

  /// Operators of a host that computes: each is its own kernel.
  void add_operators() {
    for (std::uint32_t e = 0; e < trace_.events.size(); ++e) {
      const Event& event = trace_.events[e];
      if (event.kind != EventKind::host_op || event.shapes == 0 || event.duration_ns <= 0) continue;
      const double seconds = double(event.duration_ns) * 1e-9;
      if (product_of(trace_.text(event.name), shapes_of(trace_.text(event.shapes)))) add(e, {seconds, 0, 1});
      else if (is_elementwise(trace_.text(event.name))) add(e, {0, seconds, 1});
    }
  }

  void add(std::uint32_t host, const Launched& launched) {
    const Event& event = trace_.events[host];
    const std::string_view name = trace_.text(event.name);
    const std::vector<TensorShape> shapes = shapes_of(trace_.text(event.shapes));
    const DataType type = first_type_of(trace_.text(event.types));
    if (const auto product = product_of(name, shapes); product && launched.gemm > 0)
      products_.push_back({*product, type, launched.gemm});
    if (!is_elementwise(name) || launched.kernels != 1 || launched.rest <= 0) return;
    double read = 0, largest = 0;
    for (const TensorShape& shape : shapes) {
      if (shape.empty()) continue;
      read += elements_of(shape);
      largest = std::max(largest, elements_of(shape));
    }
    // copy_ names its destination as well, which it only writes.
    if (name == "aten::copy_") read = largest;
    if (largest > 0) traffic_.push_back({(read + largest) * size_of(type), launched.rest});
  }

  TraceIndex index_;
  const Trace& trace_;
  std::map<std::uint32_t, Launched> launched_;
  std::vector<ProductSample> products_;
  std::vector<TrafficSample> traffic_;
  std::vector<double> durations_;
};

/// Bytes per second that large memory-bound kernels reach: the median over the upper half of the traffic.
std::optional<double> bandwidth_of(std::vector<TrafficSample> samples, double floor) {
  std::erase_if(samples, [&](const TrafficSample& s) { return s.seconds < 4 * floor; });
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::vector<double> rates;
  for (std::size_t i = 0; i < (samples.size() + 1) / 2; ++i) rates.push_back(samples[i].bytes / samples[i].seconds);
  return median(rates);
}

/// ln(predicted / measured) of all products.
std::vector<double> product_errors(const Device& d, const std::vector<ProductSample>& products) {
  std::vector<double> errors;
  for (const ProductSample& s : products)
    errors.push_back(std::log(matrix_time(d, s.type, s.product).value() / s.seconds));
  return errors;
}

double absolute_sum(const std::vector<double>& errors) {
  double sum = 0;
  for (const double e : errors) sum += std::abs(e);
  return sum;
}

/// The efficiency curve of least absolute error: a grid over where it halves; for each the peak share is then the one
/// that makes the median error vanish.
void fit_curve(Device& d, const std::vector<ProductSample>& products) {
  Device best = d;
  double least = INFINITY;
  for (int output = -1; output <= 16; ++output)
    for (int k = -1; k <= 10; ++k) {
      Device trial = d;
      trial.half_m = trial.half_n = 0;
      trial.half_output = output < 0 ? 0 : 1024 * std::exp2(output);
      trial.half_k = k < 0 ? 0 : 4 * std::exp2(k);
      for (int round = 0; round < 4; ++round) {
        const double shift = std::exp(median(product_errors(trial, products)));
        trial.matrix_efficiency = std::clamp(trial.matrix_efficiency * shift, 0.01, 1.0);
      }
      const double error = absolute_sum(product_errors(trial, products));
      if (error < least * (1 - 1e-9)) least = error, best = trial;
    }
  d = best;
}

/// Why no product can be fitted to.
std::string nothing_to_fit(const Samples& samples, const Device& d) {
  if (d.on_host && samples.products().empty())
    return "none of the trace's operators is a matrix product that names its shapes (record_shapes=True)";
  const std::size_t count = samples.products().size(), kernels = samples.durations().size();
  if (!d.on_host && kernels == 0)
    return "the trace has no kernels: it was recorded without the activities of the device";
  if (!d.on_host && count == 0)
    return "none of the trace's " + std::to_string(kernels) +
           " kernels belongs to a matrix product that names its shapes (record_shapes=True)";
  std::string types;
  for (const ProductSample& s : samples.products()) {
    const std::string name(name_of(s.type));
    if (d.matrix_rate[std::size_t(s.type)] > 0)
      return "all " + std::to_string(count) +
             " matrix products of the trace take less than twice the shortest kernel (" + text_of(d.kernel_floor) +
             "), which says nothing of the rate";
    if (types.find(name) == std::string::npos) add_to_list(types, name);
  }
  return "the trace's matrix products are of " + types + ", whose peak rate the start does not state";
}

/// What the fit rests on too little for.
void note_what_is_thin(const Samples& samples, const std::vector<ProductSample>& products, DeviceFit& fit) {
  std::set<std::array<double, 4>> shapes;
  for (const ProductSample& s : products) shapes.insert({s.product.batch, s.product.m, s.product.n, s.product.k});
  constexpr std::size_t enough = 4;  // one more than the curve's numbers
  if (shapes.size() < enough)
    fit.notes.push_back("efficiency: " + counted(std::ssize(shapes), "shape", "different shapes") +
                        " of products cannot tell the peak's share from where small products lose it");
  if (fit.device.on_host) fit.notes.emplace_back("host issue and attention: as in the start");
  else if (!samples.issue()) fit.notes.emplace_back("host issue: no operators that launched kernels; as in the start");
}

}  // namespace

Answer<DeviceFit> device_of_trace(const Device& start, const Trace& trace) {
  const bool has_kernels =
      std::any_of(trace.events.begin(), trace.events.end(), [](const Event& e) { return e.kind == EventKind::kernel; });
  if (start.on_host && has_kernels)
    return Inapplicable{"its operators launch kernels of a device, and the start is the host's own processor"};
  const Samples samples(trace, start.on_host);
  std::vector<ProductSample> products = samples.products();
  DeviceFit fit;
  Device& d = fit.device = start;
  if (!trace.device_name.empty()) d.name = trace.device_name;
  if (trace.device_memory_bytes > 0) d.memory = Bytes(double(trace.device_memory_bytes));
  if (!samples.durations().empty()) d.kernel_floor = Seconds(quantile(samples.durations(), 0.05));
  std::erase_if(products, [&](const ProductSample& s) {
    return !(d.matrix_rate[std::size_t(s.type)] > 0) || s.seconds < 2 * d.kernel_floor.value();
  });
  if (products.empty()) return Inapplicable{nothing_to_fit(samples, d)};
  if (const auto rate = bandwidth_of(samples.traffic(), d.kernel_floor.value()))
    d.memory_bandwidth = BytesPerSecond(*rate);
  else fit.notes.emplace_back("memory bandwidth: no large element-wise kernels with shapes; as in the start");
  if (const auto issue = samples.issue(); issue && !d.on_host) d.issue = Seconds(*issue);
  note_what_is_thin(samples, products, fit);
  fit_curve(d, products);
  if (d.matrix_efficiency >= 0.999)
    fit.notes.emplace_back(
        "products are faster than the start's peak for their data type: another device's start, or "
        "4-byte numbers that were multiplied as tf32");
  double squares = 0;
  for (const double e : product_errors(d, products)) {
    fit.residuals.push_back(std::exp(e) - 1);
    squares += e * e;
  }
  d.relative_error = std::sqrt(squares / double(products.size()));
  d.provenance.push_back("efficiency, half output, half k: least absolute error over " +
                         std::to_string(products.size()) + " matrix products of " +
                         (trace.source.empty() ? "a trace" : trace.source) + ", rms " + percent(d.relative_error) +
                         (d.on_host ? "; bandwidth from its element-wise operators"
                                    : "; bandwidth, kernel floor and host issue from the same kernels"));
  fit.device = checked(std::move(d), "fitted device");
  return fit;
}

}  // namespace stepcast
