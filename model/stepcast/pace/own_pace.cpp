// Rates of workers that nobody holds add up; workers that are held are simulated, step by step.
#include <stepcast/pace/own_pace.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace stepcast {
namespace {

std::vector<WorkerKind> kinds_of(const Cluster& c) {
  std::vector<WorkerKind> kinds;
  std::int64_t left = c.workers();
  for (const SlowWorkers& s : c.stragglers.slow) {
    const std::int64_t count = std::min(left, s.workers);
    if (count > 0) kinds.push_back({static_cast<double>(count), s, Seconds(0), s.compute_factor});
    left -= count;
  }
  if (left > 0) kinds.push_back({.workers = static_cast<double>(left)});
  return kinds;
}
class Draws {
 public:
  double operator()() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return (static_cast<double>((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
  }

 private:
  std::uint64_t state_ = 1;
};

double drawn_factor(const Jitter& jitter, Draws& draws) {
  const double u = draws();
  if (jitter.distribution == Jitter::Distribution::exponential) return 1 - jitter.relative * std::log(u);
  const double z = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * draws());
  return std::max(0.0, 1 + jitter.relative * z);
}

// Steps of one kind of workers as a function of their compute factor: a line between a few that were asked for.
class StepsOfKind {
 public:
  StepsOfKind(const WorkerKind& kind, const Jitter& jitter, const StepOfWorker& step_of) {
    const bool normal = jitter.distribution == Jitter::Distribution::normal;
    const double low = normal ? std::max(0.0, 1 - 5 * jitter.relative) : 1;
    const double high = 1 + (normal ? 5 : 14) * jitter.relative;
    first_ = low, width_ = (high - low) / (points - 1);
    for (int i = 0; i < points; ++i)
      steps_.push_back(step_of(kind.fault, kind.fault.compute_factor * (low + i * width_)).value());
  }
  double operator()(double factor) const {
    const double at = std::clamp((factor - first_) / width_, 0.0, static_cast<double>(points - 1));
    const int i = std::min(points - 2, static_cast<int>(at));
    return steps_[i] + (at - i) * (steps_[i + 1] - steps_[i]);
  }

 private:
  static constexpr int points = 13;
  double first_ = 1, width_ = 1;
  std::vector<double> steps_;
};

// When all workers have ended a number of steps, of which none may begin one that is more than `lead` ahead. Their
// draws are the same for every lead.
double end_of_run(const std::vector<const StepsOfKind*>& workers, const Jitter& jitter, std::size_t lead) {
  constexpr std::size_t steps = 1000;
  Draws draws;
  std::vector<double> end(workers.size(), 0);
  std::vector<double> last(steps, 0);  // of each step, over all workers
  for (std::size_t i = 0; i < steps; ++i) {
    const double held = i > lead ? last[i - lead - 1] : 0;
    for (std::size_t w = 0; w < workers.size(); ++w) {
      end[w] = std::max(end[w], held) + (*workers[w])(drawn_factor(jitter, draws));
      last[i] = std::max(last[i], end[w]);
    }
  }
  return last.back();
}

// The step of workers that hold one another, relative to that of workers that go together.
double held_share(const std::vector<WorkerKind>& kinds, const Jitter& jitter, double lead,
                  const StepOfWorker& step_of) {
  constexpr double most = 1000;
  double all = 0;
  for (const WorkerKind& k : kinds) all += k.workers;
  std::vector<StepsOfKind> steps;
  for (const WorkerKind& k : kinds) steps.emplace_back(k, jitter, step_of);
  std::vector<const StepsOfKind*> workers;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const double count = all <= most ? kinds[k].workers : std::max(1.0, std::floor(kinds[k].workers / all * most));
    workers.insert(workers.end(), static_cast<std::size_t>(count), &steps[k]);
  }
  return end_of_run(workers, jitter, static_cast<std::size_t>(lead)) / end_of_run(workers, jitter, 0);
}

}  // namespace

Cluster cluster_of_kind(Cluster cluster, const SlowWorkers& fault) {
  cluster.stragglers = {};
  if (fault.link_share != 1) cluster.stragglers.slow = {{.link_share = fault.link_share}};
  return cluster;
}

JobPace job_pace(const Cluster& cluster, double lead, const StepOfWorker& step_of,
                 const std::function<Seconds()>& together) {
  const Jitter& jitter = cluster.stragglers.jitter;
  const bool irregular = jitter.distribution != Jitter::Distribution::none;
  JobPace pace;
  pace.kinds = kinds_of(cluster);
  double workers = 0, rate = 0;
  Seconds slowest_kind;
  for (WorkerKind& kind : pace.kinds) {
    const double factor = kind.fault.compute_factor;
    if (irregular) {
      const Stragglers alone{{{.workers = 1, .compute_factor = factor}}, jitter};
      const StepDistribution steps =
          step_distribution(LargestFactor(alone, 1), [&](double f) { return step_of(kind.fault, f); });
      kind.step = steps.mean, kind.typical_factor = steps.typical_factor;
    } else {
      kind.step = step_of(kind.fault, factor), kind.typical_factor = factor;
    }
    workers += kind.workers, rate += kind.workers / kind.step.value();
    slowest_kind = std::max(slowest_kind, kind.step);
  }
  pace.step = Seconds(workers / rate);
  if (std::isinf(lead)) return pace;
  const Seconds bound = together();
  const double share = irregular ? held_share(pace.kinds, jitter, lead, step_of) : 1;
  pace.step = std::max(slowest_kind, std::min(bound, bound * share));
  return pace;
}

}  // namespace stepcast
