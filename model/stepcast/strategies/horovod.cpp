// Horovod fusion: whatever is ready at a tick of the background loop is packed and all-reduced. Sergeev, Del Balso
// 2018.
//
//   compute |  F1 F2 F3 F4  B4 B3  B2 B1        | U | F1 ...
//   ticks   |    '      '      '      '      '    every `cycle`
//   net     |                  [ 4 ]  [ 3+2 ][ 1 ]|
//
// At a tick the loop takes the tensors that are ready, packs the first one and every further one of the same data type
// that still fits `threshold` into a buffer, and repeats until none is left. One all-reduce per buffer, first-in
// first-out, then the barrier. What travels together depends on timing, not on the model.
//
//   ready time of a buffer: phase + c * ceil((last member ready - phase) / c), then the recurrence of WFBP
//   threshold 0 and cycle 0 give WFBP; threshold >= M and cycle >= t_G one buffer; a tick adds at most c to a buffer
//
// The loop runs freely, so its phase is unknown: predictions are averaged over eight phases. `loop=blocking` lets a
// tick wait for the transfers of the one before. `loop=gap` is the idealised loop of Zhang et al. 2020 ("Is network the
// bottleneck of distributed training?"): no ticks; a buffer closes when the gaps between its gradients add up to
// `cycle` or its bytes reach `threshold`, the crossing tensor included. Defaults are those from version 0.21 on (128
// MiB, 1 ms; before: 64 MiB, 5 ms). Membership comes from profiled times, so what contention delays is not re-packed.
// Not modelled: the negotiation, which the cluster's message overhead has to cover.
#include <stepcast/base/text.hpp>
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace stepcast::strategy::horovod {
namespace {

enum Loop { non_blocking, blocking, gap };

constexpr OptionSpec options[] = {{.name = "threshold",
                                   .kind = OptionKind::size,
                                   .standard = 128 * 0x1p20,
                                   .low = 0,
                                   .high = 0x1p40,
                                   .summary = "fusion buffer (HOROVOD_FUSION_THRESHOLD); 0: no fusion",
                                   .tuned = true,
                                   .tune_low = 0x1p18,
                                   .tune_high = 0x1p28},
                                  {.name = "cycle",
                                   .kind = OptionKind::duration,
                                   .standard = 1e-3,
                                   .low = 0,
                                   .high = 10,
                                   .summary = "period of the loop (HOROVOD_CYCLE_TIME)",
                                   .tuned = true,
                                   .tune_low = 1e-4,
                                   .tune_high = 0.1},
                                  {.name = "loop",
                                   .kind = OptionKind::choice,
                                   .standard = non_blocking,
                                   .low = 0,
                                   .high = 2,
                                   .summary = "whether a tick waits for running transfers",
                                   .choices = {"free", "blocking", "gap"}}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Loop loop_of(const StrategyInput& in) { return static_cast<Loop>(static_cast<int>(in.options[named("loop")])); }

/// Follows the loop through one iteration and writes what it sends.
class LoopWriter {
 public:
  explicit LoopWriter(const StrategyInput& in)
      : in_(in),
        profile_(in.profile),
        ready_(ready_times(in)),
        threshold_(in.options[named("threshold")]),
        cycle_(in.cluster.workers() == 1 ? 0 : in.options[named("cycle")]),
        open_(in.memory),
        plan_(in.blank()) {
    const std::size_t n = profile_.tensors.size();
    plan_.channels.push_back({"net", Discipline::fifo, Bytes(0)});
    plan_.channels.push_back({"timer", Discipline::parallel, Bytes(0)});
    plan_.transfers.reserve(2 * n);
    plan_.edges.reserve(4 * n);
    plan_.order.reserve(n);
    open_.reserve(n);
  }

  CommPlan written() {
    const auto n = static_cast<std::uint32_t>(profile_.tensors.size());
    Seconds tick = in_.phase * cycle_;
    for (std::uint32_t first = 0; first < n;) {
      tick = std::max(tick, tick_after(ready_[first], tick));
      std::uint32_t end = first + 1;
      while (end < n && ready_[end] <= tick) ++end;
      const Seconds busy = send(first, end, tick);
      first = end;
      if (loop_of(in_) == blocking) tick = std::max(tick + cycle_, tick + busy);
    }
    return std::move(plan_);
  }

 private:
  /// The first tick at or after `time`; ticks are a whole number of cycles after `origin`.
  [[nodiscard]] Seconds tick_after(Seconds time, Seconds origin) const {
    if (cycle_ <= Seconds(0)) return time;
    return origin + cycle_ * std::max(0.0, std::ceil((time - origin) / cycle_));
  }

  // Packs the tensors [first, end) that are ready at `tick`; returns the time that the transfers take.
  Seconds send(std::uint32_t first, std::uint32_t end, Seconds tick) {
    Node released = gradient(profile_, end - 1);
    if (tick > ready_[end - 1]) {
      Transfer wait;
      wait.channel = 1;
      wait.carries_gradient = false;
      wait.delay = tick - ready_[end - 1];
      plan_.transfers.push_back(wait);
      plan_.edges.push_back({released, transfer(plan_.transfers.size() - 1)});
      released = transfer(plan_.transfers.size() - 1);
    }
    open_.resize(end - first);
    std::iota(open_.begin(), open_.end(), first);
    Seconds busy;
    while (!open_.empty()) busy += send_buffer(released);
    return busy;
  }

  // Packs the first tensor that is open, and those after it that fit in.
  Seconds send_buffer(Node released) {
    const std::uint32_t first = open_.front();
    Transfer buffer;
    buffer.first_tensor = static_cast<std::uint32_t>(plan_.order.size());
    buffer.priority = static_cast<std::int32_t>(plan_.transfers.size());
    const auto stays_open = [&](std::uint32_t t) {
      const Tensor& tensor = profile_.tensors[t];
      if (tensor.dtype != profile_.tensors[first].dtype) return true;
      if (t != first && buffer.size + tensor.size > threshold_) return true;
      buffer.size += tensor.size;
      plan_.order.push_back(t);
      return false;
    };
    std::size_t open = 0;
    for (const std::uint32_t t : open_)
      if (stays_open(t)) open_[open++] = t;
    open_.resize(open);
    buffer.tensors = static_cast<std::uint32_t>(plan_.order.size()) - buffer.first_tensor;
    const Node node = transfer(plan_.transfers.size());
    plan_.transfers.push_back(buffer);
    plan_.edges.push_back({released, node});
    plan_.edges.push_back({node, common_update});
    return in_.cost(Operation::all_reduce, buffer.size);
  }

  const StrategyInput& in_;
  const Profile& profile_;
  std::pmr::vector<Seconds> ready_;
  Bytes threshold_;
  Seconds cycle_;
  std::pmr::vector<std::uint32_t> open_;  // ready at the tick and not packed yet
  CommPlan plan_;
};

Answer<CommPlan> plan(const StrategyInput& in) {
  if (loop_of(in) != gap) return LoopWriter(in).written();
  return all_reduced(in,
                     closed_at(in.profile, Bytes(in.options[named("threshold")]), Seconds(in.options[named("cycle")]),
                               ready_times(in), forward_time(in.profile), in.memory));
}

std::string settings(const OptionValues& v) {
  char text[100];
  std::snprintf(text, sizeof text, "HOROVOD_FUSION_THRESHOLD=%.0f HOROVOD_CYCLE_TIME=%.4g", v[named("threshold")],
                v[named("cycle")] * 1e3);
  return text;
}

}  // namespace

extern constinit const Strategy record{
    .name = "horovod",
    .title = "Horovod fusion",
    .summary = "tensors that are ready at a tick of a loop are packed up to a threshold",
    .reference = "Sergeev, Del Balso, arXiv 1802.05799; horovod/horovod documentation",
    .fidelity = Fidelity::exact,
    .needs = "Horovod",
    .options = options,
    .phases = 8,
    .plan = plan,
    .settings = settings,
};

}  // namespace stepcast::strategy::horovod
