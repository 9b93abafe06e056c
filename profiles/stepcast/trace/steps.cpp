// Steps: where one training step ends and the next begins, and how long each took.
//
// Steps are the ProfilerStep#N annotations of one host thread, or, without any, numbered ranges such as "step 3" and
// "Iteration_12", which users of NVTX write, or the ranges that frameworks put around each batch: those seldom enclose
// the wait for the next batch, so that such a step lasts until the next one begins. The first and the last of a
// recording are distorted: the profiler starts inside the one and stops (or drains the device) inside the other. A step
// in between counts as distorted only where the trace says what disturbed it: the buffer flushes that the profiler
// recorded, or what the allocator asked of the device beyond the step that asks least, fill more than
// `disturbing_share` of the step. Nothing else is left out: a slow step is a measurement, not an error.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/trace/steps.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

constexpr std::string_view step_prefix = "ProfilerStep#";
constexpr double disturbing_share = 0.01;  ///< below it a disturbance is lost in the step-to-step noise

std::optional<std::int64_t> step_number(std::string_view name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  name.remove_prefix(step_prefix.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

/// The number of a range that a user calls a step: "step 3", "Iteration_12", "train_step#7".
std::optional<std::int64_t> user_step_number(std::string_view name) {
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits == 0 || digits == name.size() || name.size() - digits > 12) return std::nullopt;
  std::string word(name.substr(0, digits));
  while (!word.empty() && std::string_view(" _#:=-.").find(word.back()) != std::string_view::npos) word.pop_back();
  for (char& c : word) c = c == ' ' ? '_' : lower_case(c);
  for (const std::string_view known : {"step", "iteration", "iter", "train_step", "training_step", "train_iteration",
                                       "training_iteration", "train_iter", "global_step"})
    if (word == known) {
      std::int64_t number = 0;
      std::from_chars(name.data() + digits, name.data() + name.size(), number);
      return number;
    }
  return std::nullopt;
}

/// Ranges that frameworks put around one training step without counting: Lightning's "[pl][profile]run_training_batch",
/// DeepSpeed's "train_batch", "TrainStep". All are number 0 here. (Lightning's "training_step" is the forward pass.)
std::optional<std::int64_t> uncounted_step(std::string_view name) {
  std::string word;
  for (const char c : name.substr(name.find_last_of("].: ") + 1))  // npos + 1 = 0
    if (c != '_') word += lower_case(c);
  for (const std::string_view known :
       {"runtrainingbatch", "trainbatch", "trainstep", "trainiteration", "trainingiteration"})
    if (word == known) return 0;
  return std::nullopt;
}

/// Host annotations by name; old writers file them under operators.
bool may_mark_a_step(const Trace& trace, const Event& event) {
  return (event.kind == EventKind::annotation || event.kind == EventKind::host_op) &&
         !trace.tracks[event.track].on_device;
}

struct MarkedStep {
  Step step;
  std::uint32_t track;
};

using NumberOfName = std::optional<std::int64_t> (*)(std::string_view);

std::vector<MarkedStep> marked_steps(const Trace& trace, NumberOfName number_in) {
  std::vector<std::int64_t> number_of(trace.strings.size(), -1);
  for (std::size_t id = 0; id < trace.strings.size(); ++id) number_of[id] = number_in(trace.strings[id]).value_or(-1);
  std::vector<MarkedStep> marked;
  for (const Event& event : trace.events) {
    if (number_of[event.name] < 0 || !may_mark_a_step(trace, event)) continue;
    marked.push_back({{number_of[event.name], event.start_ns, event.end_ns(), false}, event.track});
  }
  return marked;
}

/// Time of these events, which do not overlap, within the step.
std::int64_t time_within(const Trace& trace, const std::vector<std::uint32_t>& events, const Step& step) {
  std::int64_t sum = 0;
  for (const std::uint32_t e : events) {
    const std::int64_t from = std::max(trace.events[e].start_ns, step.start_ns);
    sum += std::max<std::int64_t>(0, std::min(trace.events[e].end_ns(), step.end_ns) - from);
  }
  return sum;
}

/// Calls that get memory from the device or give it back. A caching allocator makes none in a step like the one before.
bool asks_device_for_memory(std::string_view call) {
  for (const std::string_view known :
       {"cudaMalloc", "cudaFree", "hipMalloc", "hipFree", "cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemRelease"})
    if (call == known) return true;
  return false;
}

void mark_distorted(const Trace& trace, std::vector<Step>& steps) {
  std::vector<bool> allocates(trace.strings.size(), false);
  for (std::size_t id = 0; id < trace.strings.size(); ++id) allocates[id] = asks_device_for_memory(trace.strings[id]);
  std::vector<std::uint32_t> flushes, allocations;
  for (std::uint32_t e = 0; e < trace.events.size(); ++e) {
    const Event& event = trace.events[e];
    if (event.kind == EventKind::other && trace.text(event.name) == "Buffer Flush") flushes.push_back(e);
    if (event.kind == EventKind::runtime_call && allocates[event.name]) allocations.push_back(e);
  }
  std::vector<std::int64_t> stall_ns;
  for (const Step& step : steps) stall_ns.push_back(time_within(trace, allocations, step));
  const std::int64_t usual_ns = steps.empty() ? 0 : *std::ranges::min_element(stall_ns);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Step& step = steps[i];
    const double enough = disturbing_share * static_cast<double>(step.end_ns - step.start_ns);
    step.stalled = static_cast<double>(stall_ns[i] - usual_ns) > enough;
    step.distorted = step.stalled || static_cast<double>(time_within(trace, flushes, step)) > enough;
  }
  if (!steps.empty()) steps.front().distorted = steps.back().distorted = true;
}

/// Step whose annotation holds `time`, or its end; -1 if there is none.
std::int32_t step_at(std::span<const Step> steps, std::int64_t time) {
  const auto after = std::ranges::upper_bound(steps, time, {}, &Step::start_ns);
  const std::ptrdiff_t i = after - steps.begin() - 1;
  return i >= 0 && time < steps[static_cast<std::size_t>(i)].end_ns ? static_cast<std::int32_t>(i) : -1;
}

/// One occurrence of a kernel, and the step that launched it; -1: launched outside all steps, or nobody knows where.
struct Occurrence {
  std::int32_t step;
  std::int64_t start_ns;
};

/// What a step put on the device: joined with the launch by correlation, so it may run after the step has ended.
struct StepDeviceWork {
  std::int64_t total_ns = 0;    ///< summed durations
  std::int64_t longest_ns = 0;  ///< summed durations of the busiest stream, which runs one after the other
  std::int64_t late_ns = 0;     ///< of which started after the host annotation ended
  std::int64_t first_start_ns = -1;
};

struct StepWork {
  std::vector<StepDeviceWork> steps;
  std::vector<std::vector<Occurrence>> kernels;  ///< by distinct name, in time order
};

StepWork device_work_of(const Trace& trace, std::span<const Step> steps) {
  std::unordered_map<std::int64_t, std::int32_t> step_of_launch;
  for (const Event& event : trace.events) {
    if (event.kind != EventKind::runtime_call || event.correlation <= 0) continue;
    if (const std::int32_t step = step_at(steps, event.start_ns); step >= 0)
      step_of_launch.try_emplace(event.correlation, step);
  }
  StepWork work{std::vector<StepDeviceWork>(steps.size()), {}};
  std::unordered_map<std::uint64_t, std::int64_t> busy_ns;  // by step and stream
  std::vector<std::uint32_t> slot(trace.strings.size(), no_index);
  for (const Event& event : trace.events) {
    if (!is_device_work(event.kind)) continue;
    const auto launch = step_of_launch.find(event.correlation);
    const std::int32_t step = launch == step_of_launch.end() ? -1 : launch->second;
    if (slot[event.name] == no_index) {
      slot[event.name] = static_cast<std::uint32_t>(work.kernels.size());
      work.kernels.emplace_back();
    }
    work.kernels[slot[event.name]].push_back({step, event.start_ns});
    if (step < 0) continue;
    StepDeviceWork& w = work.steps[static_cast<std::size_t>(step)];
    w.total_ns += event.duration_ns;
    std::int64_t& stream_ns = busy_ns[static_cast<std::uint64_t>(step) << 32 | event.track];
    stream_ns += event.duration_ns;
    w.longest_ns = std::max(w.longest_ns, stream_ns);
    if (event.start_ns > steps[static_cast<std::size_t>(step)].end_ns) w.late_ns += event.duration_ns;
    if (w.first_start_ns < 0) w.first_start_ns = event.start_ns;
  }
  return work;
}

/// The host runs ahead where most of the device work starts only after the annotation of the step that launched it has
/// ended: then the annotation is the time to *issue* a step.
bool host_runs_ahead(std::span<const Step> steps, const std::vector<StepDeviceWork>& work) {
  std::vector<double> late_shares;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].distorted && steps.size() > 2) continue;
    if (work[i].total_ns > 0)
      late_shares.push_back(static_cast<double>(work[i].late_ns) / static_cast<double>(work[i].total_ns));
  }
  return !late_shares.empty() && median(std::move(late_shares)) > 0.5;
}

/// Which steps follow directly on the one before. Numbers left out say that steps were not recorded, or lost; but where
/// all numbers lie apart and nothing of that length fits between, they only count otherwise: Keras counts the batches
/// that it runs as one step.
class Succession {
 public:
  explicit Succession(std::span<const Step> steps) : steps_(steps) {
    for (std::size_t i = 1; i < steps.size(); ++i)
      if (const std::int64_t apart = steps[i].number - steps[i - 1].number; apart > 0) least_ = std::min(least_, apart);
  }
  [[nodiscard]] bool follows(std::size_t i) const {
    const Step &step = steps_[i], &before = steps_[i - 1];
    const std::int64_t apart = step.number - before.number;
    if (apart <= 1 || apart != least_) return apart <= 1;
    const auto left_out = static_cast<double>(apart - 1) * static_cast<double>(before.end_ns - before.start_ns);
    return static_cast<double>(step.start_ns - before.end_ns) < 0.5 * left_out;
  }

 private:
  std::span<const Step> steps_;
  std::int64_t least_ = std::numeric_limits<std::int64_t>::max();  ///< by which numbers of neighbours differ
};

struct Periods {
  std::vector<Seconds> of_step;
  std::vector<bool> by_kernels;  ///< told by kernels that occur once a step
};
/// For each step the median, over the kernels that occur once in it and once in the next, of their start-to-start time;
/// where there is no such kernel, that of the first device work of the two steps; 0 where there is none, or no next.
Periods periods_of(const StepWork& work, std::span<const Step> steps) {
  const std::size_t count = work.steps.size();
  std::vector<std::vector<double>> samples(count);
  std::vector<std::pair<int, std::int64_t>> seen(count);  // occurrences of a kernel in each step, first start
  for (const std::vector<Occurrence>& kernel : work.kernels) {
    std::ranges::fill(seen, std::pair<int, std::int64_t>(0, 0));
    for (const Occurrence& o : kernel) {
      if (o.step < 0) continue;
      auto& [times, start] = seen[static_cast<std::size_t>(o.step)];
      if (times++ == 0) start = o.start_ns;
    }
    for (std::size_t i = 0; i + 1 < count; ++i)
      if (seen[i].first == 1 && seen[i + 1].first == 1)
        samples[i].push_back(static_cast<double>(seen[i + 1].second - seen[i].second));
  }
  Periods periods{std::vector<Seconds>(count), std::vector<bool>(count, false)};
  const Succession succession(steps);
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const std::int64_t here = work.steps[i].first_start_ns, next = work.steps[i + 1].first_start_ns;
    if (here < 0 || next < 0 || !succession.follows(i + 1)) continue;
    periods.by_kernels[i] = !samples[i].empty();
    if (samples[i].empty()) samples[i].push_back(static_cast<double>(next - here));
    periods.of_step[i] = Seconds(median(std::move(samples[i])) * 1e-9);
  }
  return periods;
}

/// True when every step that has work on the device launched this kernel exactly once. The occurrence of a step before
/// the recording may lead; where nobody knows what launched the kernels, their number has to do.
bool occurs_once_a_step(const std::vector<Occurrence>& kernel, std::size_t steps, std::size_t working_steps) {
  if (working_steps == 0) return kernel.size() == steps;
  std::size_t known = 0;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    if (kernel[i].step < 0 && i > 0) return false;
    if (i > 0 && kernel[i - 1].step >= 0 && kernel[i].step != kernel[i - 1].step + 1) return false;
    known += kernel[i].step >= 0;
  }
  return known == working_steps && known > 0 && kernel.back().step + 1 >= static_cast<std::int32_t>(known);
}

/// Median over the steps of the median over the kernels that occur once a step of their start-to-start time.
Seconds usual_period(const StepWork& work, std::span<const Step> steps) {
  const auto working = static_cast<std::size_t>(
      std::ranges::count_if(work.steps, [](const StepDeviceWork& w) { return w.first_start_ns >= 0; }));
  if (working == 1) return Seconds(0);  // what a single step launched once tells of no period
  const Succession succession(steps);
  std::vector<std::vector<double>> samples(work.steps.size() + 1);
  for (const std::vector<Occurrence>& kernel : work.kernels) {
    if (!occurs_once_a_step(kernel, work.steps.size(), working)) continue;
    for (std::size_t i = 1; i < kernel.size(); ++i) {
      const std::size_t step = working == 0 ? i : static_cast<std::size_t>(kernel[i].step);
      if (step > 0 && !succession.follows(step)) continue;
      samples[step].push_back(static_cast<double>(kernel[i].start_ns - kernel[i - 1].start_ns));
    }
  }
  // A step that few of the kernels tell of, such as the one before the recording, is left out.
  std::size_t most = 0;
  for (const std::vector<double>& of_step : samples) most = std::max(most, of_step.size());
  std::vector<double> periods;
  for (std::vector<double>& of_step : samples)
    if (!of_step.empty() && 2 * of_step.size() >= most) periods.push_back(median(std::move(of_step)));
  return Seconds(median(std::move(periods)) * 1e-9);
}

Seconds median_of(std::span<const Seconds> times) {
  std::vector<double> values;
  for (const Seconds t : times)
    if (t > Seconds(0)) values.push_back(t.value());
  return Seconds(median(std::move(values)));
}

/// Interquartile range over median of the undistorted steps that `known` tells of; nothing for fewer than three.
std::optional<double> scatter_of(std::span<const Seconds> times, std::span<const Step> steps,
                                 const std::vector<bool>& known) {
  std::vector<double> values;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (!steps[i].distorted && known[i] && times[i] > Seconds(0)) values.push_back(times[i].value());
  if (values.size() < 3) return std::nullopt;
  return (quantile(values, 0.75) - quantile(values, 0.25)) / median(values);
}

/// Where the device sets the pace, marks of the host come early or late by what its queue holds. What really changes
/// from step to step (a loader that is late, say) shows in both alike.
bool tell_better(const Periods& periods, std::span<const Seconds> marks, std::span<const Step> steps) {
  const std::optional<double> by_device = scatter_of(periods.of_step, steps, periods.by_kernels);
  const std::optional<double> by_host = scatter_of(marks, steps, periods.by_kernels);
  return by_device && by_host && *by_device < 0.5 * *by_host;
}

/// The profiler closes its last annotation at once when nothing follows: such a stub is no step.
void drop_stubs(std::vector<Seconds>& durations) {
  constexpr double stub_share = 0.01;
  if (durations.empty()) return;
  const Seconds longest = *std::ranges::max_element(durations);
  for (Seconds& d : durations)
    if (d < longest * stub_share) d = Seconds(0);
}

}  // namespace

std::string step_annotation_of(const Trace& trace) {
  const std::vector<Step> steps = steps_of(trace);
  if (steps.empty()) return {};
  for (const NumberOfName number_in : {step_number, user_step_number, uncounted_step})
    for (const Event& event : trace.events) {
      const std::string_view name = trace.text(event.name);
      if (event.start_ns != steps.front().start_ns || number_in(name) != steps.front().number) continue;
      if (number_in == uncounted_step) return std::string(name);
      return std::string(name.substr(0, name.find_last_not_of("0123456789") + 1)) + "N";
    }
  return {};
}

std::vector<Step> steps_of(const Trace& trace) {
  std::vector<MarkedStep> marked = marked_steps(trace, step_number);
  const bool by_user = marked.empty();
  if (by_user) marked = marked_steps(trace, user_step_number);
  const bool uncounted = marked.empty();
  if (uncounted) marked = marked_steps(trace, uncounted_step);
  if (uncounted && marked.size() < 2) return {};  // one range may be anything
  std::unordered_map<std::uint32_t, std::size_t> marks_of_track;
  for (const MarkedStep& m : marked) ++marks_of_track[m.track];
  // Several threads may carry marks (several processes in one file): the one with most, the first in time among equals.
  std::uint32_t track = 0;
  std::size_t most = 0;
  for (const MarkedStep& m : marked)
    if (marks_of_track[m.track] > most) most = marks_of_track[m.track], track = m.track;
  std::vector<Step> steps;
  for (const MarkedStep& m : marked) {
    if (m.track != track) continue;
    if (!steps.empty() && m.step.start_ns < steps.back().end_ns) {
      const std::int64_t shared = std::min(steps.back().end_ns, m.step.end_ns) - m.step.start_ns;
      if (2 * shared >= m.step.end_ns - m.step.start_ns) continue;  // nested, but for rounding
      steps.back().end_ns = m.step.start_ns;                        // a later step begins: the end is rounded, or wrong
    }
    steps.push_back(m.step);
  }
  for (std::size_t i = 0; uncounted && i < steps.size(); ++i) steps[i].number = static_cast<std::int64_t>(i);
  for (std::size_t i = 0; by_user && i + 1 < steps.size(); ++i)
    if (steps[i + 1].number == steps[i].number + 1) steps[i].end_ns = steps[i + 1].start_ns;
  mark_distorted(trace, steps);
  return steps;
}

StepTimes step_times_of(const Trace& trace, std::span<const Step> steps) {
  StepTimes times;
  times.durations.resize(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i)
    times.durations[i] = Seconds(static_cast<double>(steps[i].end_ns - steps[i].start_ns) * 1e-9);
  times.host = median_of(times.durations);
  drop_stubs(times.durations);
  const StepWork work = device_work_of(trace, steps);
  times.device_period = usual_period(work, steps);
  Periods periods = periods_of(work, steps);
  // The only period of two steps is that of a queue which still fills: no better than their annotations.
  const bool told = steps.size() > 2 && std::ranges::any_of(periods.of_step, [](Seconds p) { return p > Seconds(0); });
  times.host_runs_ahead = host_runs_ahead(steps, work.steps);
  if (told && (times.host_runs_ahead || tell_better(periods, times.durations, steps))) {
    times.durations = std::move(periods.of_step);
    times.pace = Pace::periods;
  }
  for (std::size_t i = 0; !told && i < steps.size(); ++i) {
    const Seconds busy(static_cast<double>(work.steps[i].longest_ns) * 1e-9);
    if (times.durations[i] <= Seconds(0) || times.durations[i] >= busy) continue;
    times.durations[i] = busy;
    times.pace = Pace::device_work;
  }
  const auto good = std::ranges::count_if(steps, [](const Step& s) { return !s.distorted; });
  const bool all = times.pace != Pace::periods && (steps.size() >= StepTimes::enough_for_all || good < 2);
  for (const bool distorted : {false, true}) {
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (times.durations[i] > Seconds(0) && (all || steps[i].distorted == distorted))
        times.measured.push_back(times.durations[i]);
    if (!times.measured.empty()) break;
  }
  return times;
}

Seconds StepTimes::step() const { return median_of(measured); }

std::vector<Seconds> step_durations(const Trace& trace, std::span<const Step> steps) {
  return step_times_of(trace, steps).durations;
}

}  // namespace stepcast
