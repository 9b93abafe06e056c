// PhaseProfile: marked ranges -> phases of each step -> pieces of the backward pass -> median step -> profile.
#include <stepcast/anatomy/step_windows.hpp>
#include <stepcast/anatomy/traced_collectives.hpp>
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/extraction/half_precision.hpp>
#include <stepcast/extraction/phase_profile.hpp>
#include <stepcast/extraction/profile_closing.hpp>
#include <stepcast/extraction/profile_of.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace stepcast {
namespace {

enum class Part : std::uint8_t { forward, backward, optimizer };

std::optional<Part> part_of(std::string_view name) {
  std::string word;
  for (const char c : name) word += c == '_' || c == '.' ? ' ' : lower_case(c);
  const auto is_any = [&](std::initializer_list<std::string_view> known) {
    return std::ranges::find(known, word) != known.end();
  };
  if (is_any({"forward", "fwd", "forward pass", "model forward"})) return Part::forward;
  if (is_any({"backward", "bwd", "backward pass", "loss backward"})) return Part::backward;
  if (is_any({"optimizer", "optimizer step", "opt", "opt step", "update", "optim step"})) return Part::optimizer;
  return std::nullopt;
}

struct Range {
  std::int64_t start_ns = 0, end_ns = 0;
  Part part = Part::forward;
};

/// What a step spends in one part of itself.
struct Spent {
  std::int64_t host_ns = 0;
  DeviceWork device;
};

struct PhasedStep {
  Spent forward, optimizer, other;
  std::vector<Spent> backward;  ///< pieces in order
  std::int64_t waiting_ns = 0;
  std::int64_t left_out_ns = 0;  ///< device work of other streams
  [[nodiscard]] std::int64_t device_ns() const {
    std::int64_t sum = forward.device.total + optimizer.device.total + other.device.total;
    for (const Spent& piece : backward) sum += piece.device.total;
    return sum;
  }
};

class Phases {
 public:
  explicit Phases(const TraceIndex& index) : index_(index), trace_(index.trace) {
    std::map<std::uint32_t, std::size_t> marks;
    for (const Event& e : trace_.events)
      if (e.kind == EventKind::annotation && part_of(trace_.text(e.name)) == Part::forward) ++marks[e.track];
    std::size_t most = 0;
    for (const auto& [track, n] : marks)
      if (n > most) most = n, thread_ = track;
    for (const Event& e : trace_.events) {
      const std::optional<Part> part = e.track == thread_ ? part_of(trace_.text(e.name)) : std::nullopt;
      const bool nested = !ranges_.empty() && e.start_ns < ranges_.back().end_ns;
      if (part && !nested && e.kind == EventKind::annotation) ranges_.push_back({e.start_ns, e.end_ns(), *part});
      marks_backward_ = marks_backward_ || part == Part::backward;
    }
    find_calls();
    find_stream();
  }

  [[nodiscard]] bool marks_backward() const { return marks_backward_; }

  /// What is reduced in the backward pass of such a trace are gradients, which it is cut behind; more nobody can tell.
  [[nodiscard]] CollectiveRole role_of(const TracedCollective& c, const StepWindow& window) const {
    const std::vector<Range> ranges = ranges_in(window);
    const Range* at = naming::is_reduction(c.operation) ? range_at(ranges, c.issued_ns) : nullptr;
    if (c.issuer == no_index || at == nullptr || at->part != Part::backward) return CollectiveRole::unknown;
    return c.operation == "reducescatter" ? CollectiveRole::gradient_scatter : CollectiveRole::gradient_bucket;
  }

  /// Nothing when the window holds no forward pass with something behind it.
  [[nodiscard]] std::optional<PhasedStep> step(const StepWindow& window) const {
    const std::vector<Range> ranges = ranges_in(window);
    const auto count = [&](Part p) { return std::ranges::count(ranges, p, &Range::part); };
    if (count(Part::forward) == 0 || count(Part::backward) == 0) return std::nullopt;
    std::vector<std::int64_t> cuts;
    for (const Launch& launch : within(launches_, window)) {
      const Range* at = is_reduction_kernel(launch.event) ? range_at(ranges, launch.host_ns) : nullptr;
      if (at != nullptr && at->part == Part::backward) cuts.push_back(launch.host_ns);
    }
    PhasedStep out;
    out.backward.resize(std::max<std::size_t>(1, cuts.size()));
    add_host_time(out, ranges, cuts, window);
    add_device_work(out, ranges, cuts, window);
    return out;
  }

 private:
  /// An event and when the host called for it.
  struct Launch {
    std::int64_t host_ns = 0;
    std::uint32_t event = no_index;
  };
  static std::span<const Launch> within(const std::vector<Launch>& calls, const StepWindow& window) {
    const auto from = std::ranges::lower_bound(calls, window.start_ns, {}, &Launch::host_ns);
    return {from, std::ranges::lower_bound(from, calls.end(), window.end_ns, {}, &Launch::host_ns)};
  }
  void find_calls() {
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i) {
      const Event& e = trace_.events[i];
      if (is_device_work(e.kind) && index_.launcher[i] != no_index)
        launches_.push_back({trace_.events[index_.launcher[i]].start_ns, i});
      if (e.kind == EventKind::runtime_call && e.track == thread_ &&
          index_.facts(i).role == naming::Role::blocking_call)
        waits_.push_back({e.start_ns, i});
    }
    std::ranges::stable_sort(launches_, {}, &Launch::host_ns);
  }
  [[nodiscard]] bool communicates(std::uint32_t i) const { return index_.facts(i).work == KernelClass::collective; }
  [[nodiscard]] bool is_reduction_kernel(std::uint32_t i) const {
    const Event& e = trace_.events[i];
    return e.kind == EventKind::kernel && communicates(i) &&
           naming::is_reduction(naming::collective_operation(trace_.text(e.name)));
  }
  static const Range* range_at(const std::vector<Range>& ranges, std::int64_t time) {
    for (const Range& r : ranges)
      if (time >= r.start_ns && time < r.end_ns) return &r;
    return nullptr;
  }
  static std::size_t piece_at(const std::vector<std::int64_t>& cuts, std::int64_t time) {
    const auto behind = static_cast<std::size_t>(std::ranges::upper_bound(cuts, time) - cuts.begin());
    return cuts.empty() ? 0 : std::min(behind, cuts.size() - 1);
  }

  /// The stream on which the forward pass computes.
  void find_stream() {
    std::map<std::uint32_t, std::int64_t> busy;
    for (const Launch& launch : launches_) {
      if (communicates(launch.event) || trace_.events[index_.launcher[launch.event]].track != thread_) continue;
      const auto after = std::ranges::upper_bound(ranges_, launch.host_ns, {}, &Range::start_ns);
      if (after == ranges_.begin()) continue;
      const Range& range = *(after - 1);
      if (range.part == Part::forward && launch.host_ns < range.end_ns)
        busy[trace_.events[launch.event].track] += trace_.events[launch.event].duration_ns;
    }
    std::int64_t most = 0;
    for (const auto& [track, ns] : busy)
      if (ns > most) most = ns, stream_ = track;
  }

  /// The marked ranges of the window and, unless the backward pass is marked, what lies behind each forward pass.
  [[nodiscard]] std::vector<Range> ranges_in(const StepWindow& window) const {
    std::vector<Range> out;
    for (const Range& r : ranges_)
      if (r.start_ns >= window.start_ns && r.start_ns < window.end_ns) out.push_back(r);
    if (marks_backward_) return out;
    const std::size_t marked = out.size();
    for (std::size_t i = 0; i < marked; ++i) {
      const std::int64_t until = i + 1 < marked ? out[i + 1].start_ns : window.end_ns;
      if (out[i].part == Part::forward && until > out[i].end_ns) out.push_back({out[i].end_ns, until, Part::backward});
    }
    return out;
  }

  void add_host_time(PhasedStep& out, const std::vector<Range>& ranges, const std::vector<std::int64_t>& cuts,
                     const StepWindow& window) const {
    std::int64_t inside = 0;
    for (const Range& r : ranges) {
      const std::int64_t end = std::min(r.end_ns, window.end_ns);
      inside += end - r.start_ns;
      if (r.part == Part::forward) out.forward.host_ns += end - r.start_ns;
      if (r.part == Part::optimizer) out.optimizer.host_ns += end - r.start_ns;
      if (r.part != Part::backward) continue;
      for (std::int64_t from = r.start_ns; from < end;) {
        const auto cut = std::ranges::upper_bound(cuts, from);
        const std::int64_t to = cut == cuts.end() ? end : std::min(*cut, end);
        out.backward[piece_at(cuts, from)].host_ns += to - from;
        from = to;
      }
    }
    out.other.host_ns = window.end_ns - window.start_ns - inside;
    for (const Launch& wait : within(waits_, window)) {
      const Event& e = trace_.events[wait.event];
      Spent& spent = part(out, ranges, cuts, e.start_ns);
      const std::int64_t waited = std::min(e.duration_ns, spent.host_ns);
      spent.host_ns -= waited;
      out.waiting_ns += waited;
    }
  }

  void add_device_work(PhasedStep& out, const std::vector<Range>& ranges, const std::vector<std::int64_t>& cuts,
                       const StepWindow& window) const {
    for (const Launch& launch : within(launches_, window)) {
      const std::uint32_t i = launch.event;
      const Event& e = trace_.events[i];
      if (communicates(i)) continue;
      if (e.track != stream_) {
        out.left_out_ns += e.duration_ns;
        continue;
      }
      part(out, ranges, cuts, launch.host_ns).device.add(index_.work(i), e.duration_ns);
    }
  }

  static Spent& part(PhasedStep& out, const std::vector<Range>& ranges, const std::vector<std::int64_t>& cuts,
                     std::int64_t time) {
    const Range* range = range_at(ranges, time);
    if (range == nullptr) return out.other;
    if (range->part == Part::forward) return out.forward;
    return range->part == Part::optimizer ? out.optimizer : out.backward[piece_at(cuts, time)];
  }

  const TraceIndex& index_;
  const Trace& trace_;
  std::uint32_t thread_ = no_index, stream_ = no_index;
  std::vector<Range> ranges_;             ///< of that thread, in order
  std::vector<Launch> launches_, waits_;  ///< of device work by anyone, of that thread for the device; in order
  bool marks_backward_ = false;
};

// ---- from steps to a profile ----

Seconds median_seconds(const std::vector<PhasedStep>& steps, const std::function<std::int64_t(const PhasedStep&)>& f) {
  std::vector<double> values;
  for (const PhasedStep& step : steps) values.push_back(double(f(step)) * 1e-9);
  return Seconds(median(std::move(values)));
}

PassCost median_cost(const std::vector<PhasedStep>& steps, const std::function<const Spent&(const PhasedStep&)>& part) {
  const auto of = [&](auto time) { return median_seconds(steps, [&](const PhasedStep& s) { return time(part(s)); }); };
  PassCost cost{of([](const Spent& s) { return s.host_ns; }), of([](const Spent& s) { return s.device.total; })};
  for (const KernelClass kind : classes_apart)
    cost.part[kind] = of([kind](const Spent& s) { return s.device.part[kind]; });
  cost.device = std::max(cost.device, cost.part.sum());
  return cost;
}

/// Piece of the backward pass of each parameter, last parameter first, as DDP fills its buckets: the first up to 1 MiB,
/// the others up to 25 MiB. Empty when that gives another number of pieces.
std::vector<std::size_t> ddp_pieces(const std::vector<Tensor>& parameters, std::size_t pieces) {
  constexpr double first_limit = 1 << 20, limit = 25 << 20;
  std::vector<std::size_t> out;
  std::size_t bucket = 0;
  double filled = 0;
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    out.push_back(bucket);
    filled += p->size.value();
    if (filled < (bucket == 0 ? first_limit : limit)) continue;
    ++bucket;
    filled = 0;
  }
  return bucket + (filled > 0 ? 1 : 0) == pieces ? out : std::vector<std::size_t>();
}

std::vector<std::size_t> even_pieces(const std::vector<Tensor>& parameters, std::size_t pieces) {
  double total = 0, before = 0;
  for (const Tensor& p : parameters) total += p.size.value();
  std::vector<std::size_t> out;
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    out.push_back(std::min(pieces - 1, std::size_t(before / std::max(total, 1.0) * double(pieces))));
    before += p->size.value();
  }
  return out;
}

class PhaseAssembly {
 public:
  PhaseAssembly(const TraceIndex& index, const ProfileOptions& options)
      : index_(index), trace_(index.trace), options_(options), phases_(index) {}

  Profile result() {
    if (options_.parameters.empty() && !(options_.parameter_count > 0))
      throw InputError(trace_.source, "a trace that tells the sizes of the gradients, or --model",
                       "kernels between marked phases, without operators and shapes",
                       "name the model with --model, say how many parameters it has with --parameters 350M, or record "
                       "with emit_nvtx(record_shapes=True) or torch.profiler");
    find_steps();
    p_.model = options_.model.empty() ? trace_.source : options_.model;
    p_.device = device_of(trace_);
    p_.traced_workers = std::max<std::int64_t>(1, trace_.world_size);
    p_.half_precision_share = half_precision_share(trace_);
    p_.tf32_share = tf32_share(index_);
    p_.provenance = "trace " + trace_.source + (trace_.report.producer.empty() ? "" : ", " + trace_.report.producer);
    p_.batch_samples = options_.batch_samples;
    take_costs();
    deal_gradients();
    std::vector<std::vector<TracedCollective>> collectives = collectives_in(index_, windows_);
    for (std::size_t s = 0; s < windows_.size(); ++s)
      for (TracedCollective& c : collectives[s]) c.role = phases_.role_of(c, windows_[s]);
    p_.collectives = observed_collectives(collectives);
    describe();
    sum_to_measured_step(p_, index_.distributed, Seconds(0), trace_.source);
    round_times(p_);
    return checked(std::move(p_), trace_.source);
  }

 private:
  void find_steps() {
    const StepWindows windows = step_windows(index_);
    std::vector<std::pair<PhasedStep, MeasuredWindow>> found;
    for (const MeasuredWindow& w : windows.steps)
      if (std::optional<PhasedStep> step = phases_.step(w.window)) found.emplace_back(std::move(*step), w);
    if (found.empty())
      throw InputError(trace_.source, "training steps with a forward pass and something behind it",
                       "none among " + std::to_string(windows.steps.size()) + " marked steps");
    if (!windows.recognised.empty()) p_.recognised.push_back(windows.recognised);
    if (!windows.assumed.empty()) p_.assumed.push_back(windows.assumed);
    // Steps of another structure, and those of which the recording lost device work, are no measure of the others.
    std::map<std::size_t, std::size_t> with_pieces;
    std::vector<double> device;
    for (const auto& [step, window] : found) {
      ++with_pieces[step.backward.size()];
      device.push_back(double(step.device_ns()));
    }
    const std::size_t pieces = std::ranges::max_element(with_pieces, {}, [](const auto& e) { return e.second; })->first;
    const double most = quantile(device, 0.9);
    for (auto& [step, window] : found) {
      if (step.backward.size() != pieces || double(step.device_ns()) < most / 2) continue;
      if (window.duration.value() > 0 && !window.distorted) p_.step_times.push_back(window.duration);
      windows_.push_back(window.window);
      steps_.push_back(std::move(step));
    }
    if (steps_.size() < found.size())
      p_.assumed.push_back(
          std::to_string(found.size() - steps_.size()) + " of " + std::to_string(found.size()) +
          " steps left out: they have another number of reductions, or less than half the device work");
  }

  void take_costs() {
    const std::size_t pieces = steps_.front().backward.size();
    const PassCost forward = median_cost(steps_, [](const PhasedStep& s) -> const Spent& { return s.forward; });
    std::vector<PassCost> backward;
    double total = 0;
    const auto weight = [&](const PassCost& c) { return (p_.has_device() ? c.device : c.host).value(); };
    for (std::size_t k = 0; k < pieces; ++k) {
      backward.push_back(median_cost(steps_, [k](const PhasedStep& s) -> const Spent& { return s.backward[k]; }));
      total += weight(backward.back());
    }
    // The first piece of the backward pass is the last of the forward pass.
    for (std::size_t l = 0; l < pieces; ++l) {
      const PassCost& b = backward[pieces - 1 - l];
      const double share = total > 0 ? weight(b) / total : 1 / double(pieces);
      p_.layers.push_back({"piece " + std::to_string(l + 1), forward * share, b});
      p_.backward_order.push_back(static_cast<std::uint32_t>(pieces - 1 - l));
    }
    p_.optimizer = median_cost(steps_, [](const PhasedStep& s) -> const Spent& { return s.optimizer; });
    p_.other = median_cost(steps_, [](const PhasedStep& s) -> const Spent& { return s.other; });
    const Seconds waiting = median_seconds(steps_, [](const PhasedStep& s) { return s.waiting_ns; });
    p_.host_waits_for_device = p_.has_device() && waiting.value() > 0.005 * p_.measured_step().value();
  }

  void deal_gradients() {
    const std::size_t pieces = p_.layers.size();
    if (options_.parameters.empty()) {
      const Bytes each(options_.parameter_count * size_of(DataType::f32) / double(pieces));
      for (std::size_t l = pieces; l-- > 0;) {
        Tensor tensor;
        tensor.name = p_.layers[l].name;
        tensor.size = each;
        tensor.layer = static_cast<std::uint32_t>(l);
        p_.tensors.push_back(std::move(tensor));
      }
      p_.assumed.push_back("gradient sizes: " + text_of(each * double(pieces)) + " of parameters, as their number " +
                           "says, shared out evenly among " + counted(std::ssize(p_.layers), "piece"));
      return;
    }
    std::vector<std::size_t> of = ddp_pieces(options_.parameters, pieces);
    p_.assumed.push_back(of.empty() ? "gradients are dealt to the " + std::to_string(pieces) +
                                          " pieces of the backward pass by equal bytes, last parameters first"
                                    : "each reduction is one of DDP's buckets (1 MiB, then 25 MiB), which holds the "
                                      "gradients that fill it");
    if (of.empty()) of = even_pieces(options_.parameters, pieces);
    for (std::size_t i = 0; i < of.size(); ++i) {
      p_.tensors.push_back(options_.parameters[of.size() - 1 - i]);
      p_.tensors.back().layer = static_cast<std::uint32_t>(pieces - 1 - of[i]);
    }
  }

  void describe() {
    p_.recognised.push_back("phases that the program marks, and " +
                            counted(std::ssize(p_.layers), "piece", "pieces, one for each reduction,") +
                            " of the backward pass");
    p_.missing.insert(p_.missing.end(), trace_.report.missing.begin(), trace_.report.missing.end());
    p_.assumed.insert(p_.assumed.end(), trace_.report.assumed.begin(), trace_.report.assumed.end());
    p_.missing.push_back("layers: a piece of the backward pass stands for one");
    p_.missing.push_back("activation memory");
    if (p_.batch_samples == 0) p_.missing.push_back("batch size");
    p_.assumed.push_back("the forward pass divides like the backward pass");
    if (!phases_.marks_backward())
      p_.assumed.push_back("what lies between the forward pass and the next marked phase is the backward pass");
    const Seconds left_out = median_seconds(steps_, [](const PhasedStep& s) { return s.left_out_ns; });
    if (left_out.value() > 0)
      p_.assumed.push_back("work on other streams (" + text_of(left_out) +
                           " of device time a step: loaders, copies) runs beside the step and is left out");
    if (index_.distributed)
      p_.assumed.push_back(
          "compute is as long without communication as it was next to it; the host time of its calls "
          "counts as that of the backward pass");
  }

  const TraceIndex& index_;
  const Trace& trace_;
  const ProfileOptions& options_;
  const Phases phases_;
  std::vector<PhasedStep> steps_;
  std::vector<StepWindow> windows_;
  Profile p_;
};

}  // namespace

bool has_phases_only(const TraceIndex& index) {
  bool marks = false;
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i) {
    const Event& e = index.trace.events[i];
    if (e.kind == EventKind::host_op) return false;
    marks = marks || (e.kind == EventKind::annotation && part_of(index.trace.text(e.name)) == Part::forward);
  }
  return marks;
}

Profile phase_profile_of(const TraceIndex& index, const ProfileOptions& options) {
  return PhaseAssembly(index, options).result();
}

}  // namespace stepcast
