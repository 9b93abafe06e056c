// StepSplit: stretches of every kind within a window -> one sweep over their ends -> shares of the measured step.
#include <stepcast/anatomy/collective_roles.hpp>
#include <stepcast/anatomy/step_anatomy.hpp>
#include <stepcast/anatomy/step_windows.hpp>
#include <stepcast/anatomy/traced_collectives.hpp>
#include <stepcast/base/error.hpp>
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/stretches.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/extraction/gradient_tensors.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/extraction/step_split.hpp>
#include <stepcast/ranks/ranks.hpp>
#include <stepcast/trace/event_names.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace stepcast {
namespace {

Seconds seconds_of_ns(double ns) { return Seconds(ns * 1e-9); }

/// What a moment may belong to, in the order of precedence; `calls`: collectives that only the host of a device shows.
enum class Layer : std::uint8_t {
  products,
  other,
  memory_bound,
  backward,
  forward,
  update,
  operators,
  communication,
  late_ranks,
  copies_for_sharding,
  copies_on_device,
  copies_from_host,
  copies_to_host,
  other_copies,
  calls,
  input,
  host,
  count
};
constexpr auto layers = static_cast<std::size_t>(Layer::count);

SplitPart part_of(Layer layer) {
  switch (layer) {
    case Layer::copies_for_sharding:
    case Layer::copies_on_device:
    case Layer::copies_from_host:
    case Layer::copies_to_host:
    case Layer::other_copies:
      return SplitPart::copies;
    case Layer::calls:
      return SplitPart::communication;
    case Layer::input:
      return SplitPart::input;
    case Layer::host:
      return SplitPart::host;
    case Layer::count:
      return SplitPart::idle;
    default:
      return SplitPart(layer);
  }
}

struct Stretch {
  std::int64_t from = 0, to = 0;
  Layer layer = Layer::host;
  std::uint32_t collective = no_index;  ///< position among all collectives
};

/// Stretches in the order of their starts, and how far to look back for those that reach into a window.
class SortedStretches {
 public:
  void add(const Stretch& stretch) {
    if (stretch.to <= stretch.from) return;
    longest_ = std::max(longest_, stretch.to - stretch.from);
    list_.push_back(stretch);
  }
  void sort() { std::ranges::stable_sort(list_, {}, &Stretch::from); }
  [[nodiscard]] std::vector<Stretch> within(const StepWindow& window) const {
    std::vector<Stretch> found;
    auto at = std::ranges::lower_bound(list_, window.start_ns - longest_, {}, &Stretch::from);
    for (; at != list_.end() && at->from < window.end_ns; ++at) {
      Stretch cut = *at;
      cut.from = std::max(cut.from, window.start_ns);
      cut.to = std::min(cut.to, window.end_ns);
      if (cut.from < cut.to) found.push_back(cut);
    }
    return found;
  }

 private:
  std::vector<Stretch> list_;
  std::int64_t longest_ = 0;
};

/// Nanoseconds of one window.
struct WindowSplit {
  std::array<std::int64_t, split_parts> parts{};
  std::array<std::int64_t, layers + 1> layer{};
  std::unordered_map<std::uint32_t, std::int64_t> exposed, hidden, waiting;  ///< by position of the collective
};

/// Every moment of the window to the first layer that is going on.
WindowSplit swept(const SortedStretches& all, const StepWindow& window) {
  struct Change {
    std::int64_t time;
    Layer layer;
    int by;
    std::uint32_t collective;
  };
  std::vector<Change> changes;
  for (const Stretch& s : all.within(window)) {
    changes.push_back({s.from, s.layer, 1, s.collective});
    changes.push_back({s.to, s.layer, -1, s.collective});
  }
  std::ranges::stable_sort(changes, {}, &Change::time);
  WindowSplit out;
  std::array<int, layers> running{};
  std::vector<std::uint32_t> collectives;  // that run, in the order in which they began
  std::int64_t now = window.start_ns;
  const auto pass = [&](std::int64_t until) {
    if (until <= now) return;
    const auto first = std::ranges::find_if(running, [](int n) { return n > 0; });
    const auto layer = Layer(first - running.begin());
    const SplitPart part = part_of(layer);
    out.parts[std::size_t(part)] += until - now;
    out.layer[std::size_t(layer)] += until - now;
    if (!collectives.empty()) {
      if (is_compute(part)) out.hidden[collectives.front()] += until - now;
      else if (part == SplitPart::communication || part == SplitPart::late_ranks)
        out.exposed[collectives.front()] += until - now;
      if (part == SplitPart::late_ranks) out.waiting[collectives.front()] += until - now;
    }
    now = until;
  };
  for (const Change& change : changes) {
    pass(change.time);
    running[std::size_t(change.layer)] += change.by;
    if (change.collective == no_index) continue;
    if (change.by > 0) collectives.push_back(change.collective);
    else collectives.erase(std::ranges::find(collectives, change.collective));
  }
  pass(window.end_ns);
  return out;
}

/// The device of a trace that works most, by its process; -1: there is none.
std::int64_t busiest_device(const Trace& trace) {
  std::map<std::int64_t, std::int64_t> busy;
  for (const Event& e : trace.events)
    if (is_device_work(e.kind) && trace.tracks[e.track].on_device) busy[trace.tracks[e.track].process] += e.duration_ns;
  const auto most = std::ranges::max_element(busy, {}, [](const auto& device) { return device.second; });
  return most == busy.end() ? -1 : most->first;
}

class Splitter {
 public:
  Splitter(const Trace& trace, const std::unordered_map<std::uint32_t, Seconds>* waiting)
      : index_(trace), trace_(trace), device_(busiest_device(trace)), waiting_(waiting) {}

  StepSplit result() {
    out_.source = trace_.source;
    out_.rank = trace_.rank;
    out_.device = device_of(trace_);
    find_windows();
    take_phases_and_roles();
    add_device_stretches();
    add_collectives();
    add_host_stretches();
    stretches_.sort();
    add_up();
    if (by_device()) out_.recording = recorded_device_time();
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool by_device() const { return device_ >= 0; }
  [[nodiscard]] bool is_of_device(const Event& e) const {
    return is_device_work(e.kind) && trace_.tracks[e.track].on_device && trace_.tracks[e.track].process == device_;
  }

  /// The recording from its first event to its last: of the device's work where there is some.
  [[nodiscard]] StepWindow whole_recording() const {
    StepWindow whole{0, -1};
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i) {
      const Event& e = trace_.events[i];
      if (by_device() ? !is_of_device(e) : e.duration_ns == 0) continue;
      if (whole.end_ns < whole.start_ns) whole = {e.start_ns, e.end_ns()};
      whole.end_ns = std::max(whole.end_ns, e.end_ns());
    }
    return whole;
  }

  void find_windows() {
    const StepWindows found = step_windows(index_);
    const bool good = std::ranges::any_of(
        found.steps, [](const MeasuredWindow& w) { return !w.distorted && w.duration > Seconds(0); });
    std::vector<double> measured;
    for (const MeasuredWindow& w : found.steps) {
      if (!(w.duration > Seconds(0)) || (good && w.distorted)) continue;
      marked_.push_back(w.window);
      windows_.push_back(as_long_as(w));
      measured.push_back(w.duration.value());
    }
    if (!found.measured.empty()) {
      measured.clear();
      for (const Seconds s : found.measured) measured.push_back(s.value());
    }
    out_.steps = windows_.size();
    out_.measured = measured.size();
    out_.of_steps = !windows_.empty();
    out_.recognised = found.recognised;
    out_.assumed = found.assumed;
    out_.step = Seconds(median(std::move(measured)));
    if (out_.of_steps) return;
    const StepWindow whole = whole_recording();
    if (whole.end_ns <= whole.start_ns)
      throw InputError(trace_.source, "a trace with timed events", "none that lasts any time",
                       "'stepcast inspect --long' says what the file holds");
    for (const MeasuredWindow& w : found.steps) marked_.push_back(w.window);
    windows_ = {whole};
    out_.step = seconds_of_ns(double(whole.end_ns - whole.start_ns));
    out_.assumed = "no steps that repeat: the whole recording is split";
  }

  /// The annotation, or, where the device sets the pace, as much time from the first device work of the step on.
  [[nodiscard]] StepWindow as_long_as(const MeasuredWindow& w) const {
    const std::int64_t length = std::llround(w.duration.value() * 1e9);
    if (std::abs(length - (w.window.end_ns - w.window.start_ns)) < 2) return w.window;
    std::int64_t start = -1;
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i) {
      const Event& e = trace_.events[i];
      if (!is_of_device(e) || index_.launcher[i] == no_index) continue;
      const std::int64_t launched = trace_.events[index_.launcher[i]].start_ns;
      if (launched < w.window.start_ns || launched >= w.window.end_ns) continue;
      start = e.start_ns;
      break;
    }
    if (start < 0) start = w.window.start_ns;
    return {start, start + length};
  }

  /// Phases of the operators, and what the collectives that each step issued are for.
  void take_phases_and_roles() {
    phase_.assign(trace_.events.size(), Layer::operators);
    wanted_.assign(trace_.tracks.size(), false);
    const std::vector<std::vector<TracedCollective>> issued = collectives_in(index_, marked_);
    for (std::size_t s = 0; s < marked_.size(); ++s) {
      for (const StepOperator& o : step_operators(index_, marked_[s]).list) {
        wanted_[trace_.events[o.event].track] = true;
        if (o.phase == Phase::forward) phase_[o.event] = Layer::forward;
        if (o.phase == Phase::backward) phase_[o.event] = Layer::backward;
      }
      take_roles(issued[s], anatomy_of(index_, marked_[s]));
    }
    if (std::ranges::none_of(wanted_, [](bool w) { return w; })) wanted_.assign(trace_.tracks.size(), true);
  }

  void take_roles(std::vector<TracedCollective> issued, const StepAnatomy& step) {
    if (issued.empty()) return;
    std::vector<Tensor> gradients;
    if (!step.layers.empty() && !step.gradients.empty()) try {
        gradients = gradient_tensors(index_, step, ProfileOptions{}, issued).tensors;
        size_by_gradients(issued, step, gradients);
      } catch (const InputError&) {
        // Nobody says how large they are: then roles rest on the other evidence.
      }
    const std::vector<CollectiveRole> roles = roles_of(issued, index_, step, gradients);
    for (std::size_t c = 0; c < issued.size(); ++c) roles_[issued[c].event] = {roles[c], issued[c].size};
  }

  [[nodiscard]] Layer layer_of_copy(std::uint32_t i) const {
    using naming::CopyWay;
    const Event& e = trace_.events[i];
    const CopyWay way = e.kind == EventKind::fill ? CopyWay::on_device : naming::copy_way(trace_.text(e.name));
    if (way == CopyWay::from_host) return Layer::copies_from_host;
    if (way == CopyWay::to_host) return Layer::copies_to_host;
    if (way == CopyWay::unknown) return Layer::other_copies;
    const std::uint32_t from = index_.launcher[i];
    return from != no_index && index_.within_sharding(from) ? Layer::copies_for_sharding : Layer::copies_on_device;
  }

  void add_device_stretches() {
    if (!by_device()) return;
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i) {
      const Event& e = trace_.events[i];
      if (!is_of_device(e)) continue;
      Layer layer = layer_of_copy(i);
      if (e.kind == EventKind::kernel) {
        const KernelClass kind = index_.work(i);
        if (kind == KernelClass::collective || e.collective != no_index) continue;
        layer = kind == KernelClass::gemm     ? Layer::products
                : kind == KernelClass::memory ? Layer::memory_bound
                                              : Layer::other;
      }
      stretches_.add({e.start_ns, e.end_ns(), layer});
    }
  }

  void add_collectives() {
    collectives_ = collectives_of(index_);
    for (std::uint32_t c = 0; c < collectives_.size(); ++c) {
      TracedCollective& collective = collectives_[c];
      const Event& e = trace_.events[collective.event];
      if (const auto known = roles_.find(collective.event); known != roles_.end())
        std::tie(collective.role, collective.size) = known->second;
      const bool on_device = is_device_work(e.kind);
      if (on_device && !is_of_device(e)) continue;
      std::int64_t late_ns = 0;
      if (waiting_ != nullptr)
        if (const auto at = waiting_->find(collective.event); at != waiting_->end())
          late_ns = std::min(e.duration_ns, std::int64_t{std::llround(at->second.value() * 1e9)});
      // Whoever waits, waits first.
      stretches_.add({e.start_ns, e.start_ns + late_ns, Layer::late_ranks, c});
      stretches_.add(
          {e.start_ns + late_ns, e.end_ns(), by_device() && !on_device ? Layer::calls : Layer::communication, c});
    }
    roles_by_kind();
  }

  /// What was issued before the first step is for the same as what is like it.
  void roles_by_kind() {
    std::map<std::pair<std::string, double>, CollectiveRole> usual;
    for (const TracedCollective& c : collectives_)
      if (c.role != CollectiveRole::unknown) usual.try_emplace({c.operation, c.size.value()}, c.role);
    for (TracedCollective& c : collectives_)
      if (c.role == CollectiveRole::unknown)
        if (const auto at = usual.find({c.operation, c.size.value()}); at != usual.end()) c.role = at->second;
  }

  /// Nothing, or what a host event is part of.
  enum class Activity : std::uint8_t { none, computes, communicates, loads };
  struct Doing {
    std::int64_t end_ns = 0;
    Activity activity = Activity::none;
    Layer phase = Layer::operators;
  };

  [[nodiscard]] Doing doing(std::uint32_t i, const Doing& around) const {
    const Event& e = trace_.events[i];
    Doing now = around;
    now.end_ns = e.end_ns();
    switch (index_.facts(i).role) {
      case naming::Role::container:
        return now;
      case naming::Role::loader:
        now.activity = Activity::loads;
        return now;
      case naming::Role::communication:
        now.activity = Activity::communicates;
        return now;
      case naming::Role::sharding:
        now.activity = index_.copies_for_sharding(i) ? Activity::computes : Activity::communicates;
        return now;
      case naming::Role::optimizer:
      case naming::Role::zero_grad:
        now.phase = Layer::update;
        break;
      case naming::Role::backward_node:
      case naming::Role::accumulate_node:
      case naming::Role::accumulate:
        now.phase = Layer::backward;
        break;
      default:
        if (around.activity != Activity::none) {
          if (around.activity == Activity::communicates && index_.copies_for_sharding(i))
            now.activity = Activity::computes;
          return now;
        }
        now.phase = phase_[i];
    }
    now.activity = Activity::computes;
    return now;
  }

  void add_host(std::int64_t from, std::int64_t to, const Doing& doing) {
    if (doing.activity == Activity::none) return;
    Layer layer = Layer::host;
    if (doing.activity == Activity::loads) layer = Layer::input;
    else if (doing.activity == Activity::computes && !by_device()) layer = doing.phase;
    stretches_.add({from, to, layer});
  }

  /// Each moment of a thread by the innermost event that says what it is for.
  void add_host_stretches() {
    std::vector<std::vector<std::uint32_t>> of_track(trace_.tracks.size());
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i) {
      const Event& e = trace_.events[i];
      const bool is_host =
          e.kind == EventKind::host_op || e.kind == EventKind::runtime_call || e.kind == EventKind::annotation;
      if (is_host && wanted_[e.track] && !trace_.tracks[e.track].on_device) of_track[e.track].push_back(i);
    }
    for (const std::vector<std::uint32_t>& events : of_track) {
      std::vector<Doing> stack;
      std::int64_t now = 0;
      const auto pass = [&](std::int64_t until) {
        while (!stack.empty() && now < until) {
          const std::int64_t to = std::min(until, stack.back().end_ns);
          if (to > now) add_host(now, to, stack.back()), now = to;
          if (stack.back().end_ns > until) break;
          stack.pop_back();
        }
        now = std::max(now, until);
      };
      for (const std::uint32_t i : events) {
        pass(trace_.events[i].start_ns);
        while (!stack.empty() && stack.back().end_ns <= now) stack.pop_back();
        stack.push_back(doing(i, stack.empty() ? Doing{} : stack.back()));
      }
      while (!stack.empty()) pass(stack.front().end_ns), stack.clear();
    }
  }

  void add_up() {
    std::array<double, split_parts> parts{};
    std::map<std::pair<CollectiveRole, std::string>, SplitCommunication> by_role;
    std::array<double, layers> by_layer{};
    double all = 0;
    for (const StepWindow& window : windows_) {
      const WindowSplit split = swept(stretches_, window);
      for (std::size_t p = 0; p < split_parts; ++p) parts[p] += double(split.parts[p]);
      for (std::size_t l = 0; l < layers; ++l) by_layer[l] += double(split.layer[l]);
      all += double(window.end_ns - window.start_ns);
      out_.durations.push_back(seconds_of_ns(double(window.end_ns - window.start_ns)));
      std::ranges::transform(split.parts, out_.parts_of.emplace_back().begin(),
                             [](std::int64_t ns) { return seconds_of_ns(double(ns)); });
      for (const auto& [times, member] : {std::pair{&split.exposed, &SplitCommunication::exposed},
                                          std::pair{&split.hidden, &SplitCommunication::hidden},
                                          std::pair{&split.waiting, &SplitCommunication::waiting}})
        for (const auto& [c, ns] : *times) {
          const TracedCollective& collective = collectives_[c];
          by_role[{collective.role, collective.operation}].*member += seconds_of_ns(double(ns));
        }
    }
    count_collectives(by_role);
    const double scale = out_.step.value() * 1e9 / all;  // from all windows to the measured step
    for (std::size_t p = 0; p < split_parts; ++p) out_.parts[p] = seconds_of_ns(parts[p] * scale);
    const auto in = [&](Layer layer) { return seconds_of_ns(by_layer[std::size_t(layer)] * scale); };
    out_.copies = {.on_device = in(Layer::copies_on_device) + in(Layer::copies_for_sharding),
                   .for_sharding = in(Layer::copies_for_sharding),
                   .from_host = in(Layer::copies_from_host),
                   .to_host = in(Layer::copies_to_host)};
    for (auto& [kind, sum] : by_role) {
      sum.role = kind.first, sum.operation = kind.second;
      sum.exposed = sum.exposed * scale, sum.hidden = sum.hidden * scale, sum.waiting = sum.waiting * scale;
      out_.communication.push_back(sum);
    }
    std::ranges::stable_sort(out_.communication, std::greater{}, [](const SplitCommunication& c) {
      return std::pair(c.exposed.value(), c.hidden.value());
    });
  }

  void count_collectives(std::map<std::pair<CollectiveRole, std::string>, SplitCommunication>& by_role) const {
    for (const TracedCollective& c : collectives_) {
      const Event& e = trace_.events[c.event];
      const auto at = by_role.find({c.role, c.operation});
      const bool counts = std::ranges::any_of(
          windows_, [&](const StepWindow& w) { return e.start_ns >= w.start_ns && e.start_ns < w.end_ns; });
      if (at == by_role.end() || !counts) continue;
      at->second.count += 1 / double(windows_.size());
      at->second.size += c.size / double(windows_.size());
    }
  }

  [[nodiscard]] RecordedDeviceTime recorded_device_time() const {
    const StepWindow whole = whole_recording();
    Stretches compute, communication, busy;
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i) {
      const Event& e = trace_.events[i];
      if (!is_of_device(e)) continue;
      busy.add(e.start_ns, e.end_ns());
      if (e.kind != EventKind::kernel) continue;
      const bool is_collective = index_.work(i) == KernelClass::collective || e.collective != no_index;
      (is_collective ? communication : compute).add(e.start_ns, e.end_ns());
    }
    RecordedDeviceTime time;
    time.span = seconds_of_ns(double(whole.end_ns - whole.start_ns));
    time.compute = seconds_of_ns(double(compute.length()));
    time.non_compute = seconds_of_ns(double(busy.length())) - time.compute;
    time.communication = seconds_of_ns(double(communication.length()));
    time.overlapped = seconds_of_ns(double(communication.shared_with(compute)));
    return time;
  }

  const TraceIndex index_;
  const Trace& trace_;
  const std::int64_t device_;
  const std::unordered_map<std::uint32_t, Seconds>* waiting_;
  StepSplit out_;
  std::vector<StepWindow> marked_, windows_;  ///< as the host has the steps, and as they are split
  std::vector<Layer> phase_;                  ///< of each operator
  std::vector<bool> wanted_;                  ///< tracks that run the step
  std::unordered_map<std::uint32_t, std::pair<CollectiveRole, Bytes>> roles_;
  std::vector<TracedCollective> collectives_;
  SortedStretches stretches_;
};

constexpr std::string_view names[] = {"products", "other",     "memory_bound",  "backward",   "forward",
                                      "update",   "operators", "communication", "late_ranks", "copies",
                                      "input",    "host",      "idle"};
constexpr std::string_view words[] = {"matrix products",
                                      "other kernels",
                                      "memory-bound kernels",
                                      "backward pass",
                                      "forward pass",
                                      "update",
                                      "other operators",
                                      "exposed communication",
                                      "waiting for late ranks",
                                      "copies",
                                      "waiting for input",
                                      "host",
                                      "idle"};
static_assert(std::size(names) == split_parts && std::size(words) == split_parts);

}  // namespace

std::string_view name_of(SplitPart part) { return names[std::size_t(part)]; }
std::string_view words_of(SplitPart part) { return words[std::size_t(part)]; }

Seconds StepSplit::compute() const {
  Seconds sum;
  for (std::size_t p = 0; p < split_parts; ++p)
    if (is_compute(SplitPart(p))) sum += parts[p];
  return sum;
}

Seconds StepSplit::exposed() const { return (*this)[SplitPart::communication] + (*this)[SplitPart::late_ranks]; }

Seconds StepSplit::hidden() const {
  Seconds sum;
  for (const SplitCommunication& c : communication) sum += c.hidden;
  return sum;
}

Seconds StepSplit::other_copies() const {
  const Seconds rest = (*this)[SplitPart::copies] - copies.on_device - copies.from_host - copies.to_host;
  return rest.value() > 1e-12 ? rest : Seconds(0);  // what rounding leaves is none
}

double StepSplit::noise() const {
  if (durations.size() < 3) return 0;
  std::vector<double> values;
  for (const Seconds s : durations) values.push_back(s.value());
  return (quantile(values, 0.75) - quantile(values, 0.25)) / median(values);
}

StepSplit split_of(const Trace& trace) { return Splitter(trace, nullptr).result(); }

std::vector<StepSplit> splits_of(std::span<const Trace> traces) {
  std::vector<StepSplit> splits;
  if (traces.size() < 2) {
    for (const Trace& trace : traces) splits.push_back(split_of(trace));
    return splits;
  }
  const RunOfRanks run = run_of(traces);
  for (std::size_t r = 0; r < traces.size(); ++r) {
    const std::unordered_map<std::uint32_t, Seconds> waiting = run.waiting_of(r);
    splits.push_back(Splitter(traces[r], &waiting).result());
    splits.back().rank = run.ranks[r].rank;
  }
  return splits;
}

}  // namespace stepcast
