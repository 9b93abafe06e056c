// PipelineJob, its dependencies: what each operation waits for, and what ends together.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/replay/pipelined/job.hpp>
#include <stepcast/replay/pipelined/waits.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace stepcast::pipelined {
namespace {

// Clocks of different recorders agree to a tenth of a millisecond: less is no overlap.
constexpr double clock_noise = 2e-4;
// Beyond what any worker does at once: arcs grow with its square.
constexpr std::size_t most_side_by_side = 64;
// Parts of one call carry the same times up to how they were rounded.
constexpr double same_time = 1e-6;

/// How far two operations may overlap and still follow each other; points in time (garbage collection) have no half.
double tolerance(const JobOperation& a, const JobOperation& b) {
  const double shorter = std::min(a.duration(), b.duration());
  return shorter > 0 ? std::min(clock_noise, 0.5 * shorter) : clock_noise;
}

// Types.

/// Types of communication that run beside computation in more than one of twenty cases are out of order.
void find_order(PipelineJob& job) {
  std::vector<std::uint64_t> all(job.types.size()), beside(job.types.size());
  std::vector<const JobOperation*> computation;
  for (const JobStep& step : job.steps) {
    for (std::size_t w = 0; w < job.workers.size(); ++w) {
      const std::span<const JobOperation> operations(step.operations.data() + step.first_of[w],
                                                     step.first_of[w + 1] - step.first_of[w]);
      computation.clear();
      for (const JobOperation& o : operations)
        if (computes(job.types[o.type].role) && o.end > o.start) computation.push_back(&o);
      for (const JobOperation& o : operations) {
        if (computes(job.types[o.type].role)) continue;
        ++all[o.type];
        // The last one that starts before its end, and the one before that: a worker computes one thing at a time.
        auto c = std::ranges::lower_bound(computation, o.end, {}, &JobOperation::start);
        bool together = false;
        for (int back = 0; back < 2 && c != computation.begin(); ++back) {
          const double spare = tolerance(**--c, o);
          together |= (*c)->end > o.start + spare && (*c)->start < o.end - spare;
        }
        beside[o.type] += together;
      }
    }
  }
  for (std::size_t t = 0; t < job.types.size(); ++t) job.types[t].in_order = beside[t] * 20 <= all[t];
}

/// Computation for which workers are ready at different times and that ends at one everywhere is a meeting of all.
void find_meetings(PipelineJob& job) {
  if (job.workers.size() < 2) return;
  constexpr double far = std::numeric_limits<double>::infinity();
  struct Spread {
    double first = far, last = -far;
    void add(double t) { first = std::min(first, t), last = std::max(last, t); }
    [[nodiscard]] double width() const { return last - first; }
  };
  for (std::uint32_t t = 0; t < job.types.size(); ++t) {
    if (job.types[t].role != Role::computation) continue;
    std::vector<double> ready, done;
    bool one_each = true;
    for (const JobStep& step : job.steps) {
      Spread before, after;
      std::size_t count = 0;
      for (std::size_t o = 0; o < step.operations.size(); ++o) {
        const JobOperation& operation = step.operations[o];
        if (operation.type != t) continue;
        const bool first = o == step.first_of[operation.worker];
        before.add(first ? operation.start : std::min(operation.start, step.operations[o - 1].end));
        after.add(operation.end);
        one_each &= operation.nth == 0;
        ++count;
      }
      one_each &= count == job.workers.size();
      ready.push_back(before.width()), done.push_back(after.width());
    }
    const double spread = one_each ? median(std::move(ready)) : 0;
    if (spread > 5 * clock_noise && median(std::move(done)) < 0.25 * spread) job.types[t].together = Together::job;
  }
}

// Steps.

class Groups {
 public:
  explicit Groups(std::size_t operations) : parent_(operations) { std::iota(parent_.begin(), parent_.end(), 0u); }
  std::uint32_t of(std::uint32_t o) {
    while (parent_[o] != o) o = parent_[o] = parent_[parent_[o]];
    return o;
  }
  void join(std::uint32_t a, std::uint32_t b) { parent_[std::max(of(a), of(b))] = std::min(of(a), of(b)); }

 private:
  std::vector<std::uint32_t> parent_;
};

using LagNumbers = std::map<LagKind, std::uint32_t>;

class StepWaits {
 public:
  StepWaits(PipelineJob& job, JobStep& step, LagNumbers& lags)
      : job_(job), step_(step), lags_(lags), waits_(step.operations.size()), groups_(step.operations.size()) {}

  std::string add() {
    for (std::uint32_t w = 0; w < job_.workers.size(); ++w) {
      add_program_order(w);
      add_data_waits(w);
    }
    if (!job_.sends_recorded) add_neighbours();
    group_messages();
    group_collectives();
    pack_waits();
    if (!order_groups())
      return "in step " + std::to_string(step_.number) +
             " operations wait for one another in a circle: some are lost, or written twice";
    find_work();
    return {};
  }

 private:
  [[nodiscard]] const JobOperation& operation(std::uint32_t o) const { return step_.operations[o]; }
  [[nodiscard]] const OperationType& type(std::uint32_t o) const { return job_.types[operation(o).type]; }
  [[nodiscard]] const JobWorker& worker(std::uint32_t o) const { return job_.workers[operation(o).worker]; }

  void wait_for(std::uint32_t o, std::uint32_t on) {
    const bool remote = on != no_index && operation(on).worker != operation(o).worker;
    const LagKind kind{operation(o).type, on == no_index ? no_index : operation(on).type, remote};
    const auto [entry, is_new] = lags_.try_emplace(kind, static_cast<std::uint32_t>(job_.lags.size()));
    if (is_new) job_.lags.push_back(kind);
    waits_[o].push_back({on, entry->second});
  }

  [[nodiscard]] bool both_compute(std::uint32_t a, std::uint32_t b) const {
    return computes(type(a).role) && computes(type(b).role);
  }

  /// Operations side by side wait for all of the ones side by side before them.
  void add_program_order(std::uint32_t w) {
    std::vector<std::uint32_t> before, now;
    std::uint32_t first_to_end = no_index;
    for (std::uint32_t o = step_.first_of[w]; o < step_.first_of[w + 1]; ++o) {
      if (!type(o).in_order) continue;
      const bool beside =
          first_to_end != no_index && !both_compute(o, first_to_end) && now.size() < most_side_by_side &&
          operation(o).start < operation(first_to_end).end - tolerance(operation(o), operation(first_to_end));
      if (!beside) {
        before = std::exchange(now, {});
        first_to_end = o;
      } else if (operation(o).end < operation(first_to_end).end) {
        first_to_end = o;
      }
      now.push_back(o);
      for (const std::uint32_t earlier : before) wait_for(o, earlier);
      if (before.empty()) wait_for(o, no_index);
    }
  }

  /// What runs beside computation waits for its own data, and those who need it wait for it.
  void add_data_waits(std::uint32_t w) {
    const Beside beside = beside_of(w);
    if (beside.operations.empty()) return;
    std::vector<std::uint32_t> last_of(job_.types.size(), no_index);
    for (const std::uint32_t o : beside.operations) {
      const Role role = type(o).role;
      const std::uint32_t source = role == Role::send ? pass_of(o, beside) : last_pass_before(o, beside);
      const std::uint32_t earlier = std::exchange(last_of[operation(o).type], o);
      if (source != no_index && role != Role::receive) wait_for(o, source);
      if (earlier != no_index) wait_for(o, earlier);
      if (waits_[o].empty()) wait_for(o, no_index);
      const std::uint32_t user = role == Role::receive ? pass_of(o, beside) : user_of(o, source, beside);
      if (user != no_index) wait_for(user, o);
    }
  }

  /// Of one worker, by start: what runs beside computation, its passes, those of them that have a neighbour to send to
  /// or to receive from, and what follows passes in order.
  struct Beside {
    std::vector<std::uint32_t> operations, passes, others;
    std::vector<std::uint32_t> with_neighbour[2][2];  // backward, towards the end of the model
  };
  [[nodiscard]] Beside beside_of(std::uint32_t w) const {
    Beside beside;
    const std::int64_t last = job_.stages * job_.chunks - 1;
    for (std::uint32_t o = step_.first_of[w]; o < step_.first_of[w + 1]; ++o) {
      if (!type(o).in_order) beside.operations.push_back(o);
      else if (!is_pass(type(o).role) && type(o).peer_stage == 0) beside.others.push_back(o);
      if (!is_pass(type(o).role)) continue;
      beside.passes.push_back(o);
      const std::int64_t part = operation(o).chunk * job_.stages + job_.workers[w].stage;
      const bool backward = type(o).role == Role::backward;
      if (part > 0) beside.with_neighbour[backward][0].push_back(o);
      if (part < last) beside.with_neighbour[backward][1].push_back(o);
    }
    return beside;
  }
  /// The pass whose result is sent, or that needs what is received: the nth of those that have such a neighbour.
  [[nodiscard]] std::uint32_t pass_of(std::uint32_t message, const Beside& beside) const {
    const bool towards_end = (type(message).role == Role::send) != type(message).backward;
    const std::vector<std::uint32_t>& passes = beside.with_neighbour[type(message).backward][towards_end];
    return operation(message).nth < passes.size() ? passes[operation(message).nth] : no_index;
  }
  [[nodiscard]] std::uint32_t last_pass_before(std::uint32_t o, const Beside& beside) const {
    auto pass = std::ranges::upper_bound(beside.passes, o);
    while (pass != beside.passes.begin())
      if (operation(*--pass).end <= operation(o).start + tolerance(operation(*pass), operation(o))) return *pass;
    return no_index;
  }
  /// Parameters that come before the first pass are needed by the first forward pass of their part; what follows
  /// passes (sums of gradients) by what comes behind all passes.
  [[nodiscard]] std::uint32_t user_of(std::uint32_t o, std::uint32_t source, const Beside& beside) const {
    const std::vector<std::uint32_t>& users = source == no_index ? beside.passes : beside.others;
    auto user = std::ranges::lower_bound(users, operation(o).end - clock_noise, {},
                                         [this](std::uint32_t u) { return operation(u).start; });
    for (; user != users.end(); ++user) {
      if (*user <= o || operation(*user).start < operation(o).end - tolerance(operation(o), operation(*user))) continue;
      if (source != no_index || (type(*user).role == Role::forward && operation(*user).chunk == operation(o).chunk))
        return *user;
    }
    return no_index;
  }

  /// Without recorded sends: forward passes wait for the part of the model before, backward passes for the next.
  void add_neighbours() {
    std::map<std::tuple<std::int64_t, std::int64_t, std::int32_t, bool>, std::uint32_t> pass_at;
    const auto key = [&](std::uint32_t o, std::int64_t shift) {
      const std::int64_t part = operation(o).chunk * job_.stages + worker(o).stage + shift;
      return std::tuple(worker(o).replica, part, operation(o).micro_batch, type(o).role == Role::backward);
    };
    for (std::uint32_t o = 0; o < step_.operations.size(); ++o)
      if (is_pass(type(o).role)) pass_at.emplace(key(o, 0), o);
    for (std::uint32_t o = 0; o < step_.operations.size(); ++o) {
      if (!is_pass(type(o).role) || operation(o).micro_batch < 0) continue;
      const auto found = pass_at.find(key(o, type(o).role == Role::backward ? 1 : -1));
      if (found != pass_at.end()) wait_for(o, found->second);
    }
  }

  /// The nth send between two stages feeds the nth receive; sends and receives with the same times are one call.
  void group_messages() {
    using Ends = std::tuple<std::int64_t, bool, std::int64_t, std::int64_t>;  // replica, direction, from, to
    std::map<Ends, std::pair<std::vector<std::uint32_t>, std::vector<std::uint32_t>>> messages;
    const auto is_message = [&](std::uint32_t o) { return type(o).together == Together::peer; };
    for (std::uint32_t o = 0; o < step_.operations.size(); ++o) {
      if (!is_message(o)) continue;
      const std::int64_t here = worker(o).stage;
      const std::int64_t there = (here + type(o).peer_stage + job_.stages) % job_.stages;
      if (type(o).role == Role::send) messages[{worker(o).replica, type(o).backward, here, there}].first.push_back(o);
      else messages[{worker(o).replica, type(o).backward, there, here}].second.push_back(o);
      const bool one_call = o > 0 && is_message(o - 1) && operation(o - 1).worker == operation(o).worker &&
                            std::abs(operation(o - 1).start - operation(o).start) <= same_time &&
                            std::abs(operation(o - 1).end - operation(o).end) <= same_time;
      if (one_call) groups_.join(o - 1, o);
    }
    for (const auto& [ends, both] : messages) {
      const auto& [sends, receives] = both;
      const std::size_t pairs = std::min(sends.size(), receives.size());
      for (std::size_t i = 0; i < pairs; ++i) groups_.join(sends[i], receives[i]);
      job_.unmatched += sends.size() + receives.size() - 2 * pairs;
    }
  }

  void group_collectives() {
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::int64_t>, std::uint32_t> first;
    for (std::uint32_t o = 0; o < step_.operations.size(); ++o) {
      const Together together = type(o).together;
      if (together == Together::alone || together == Together::peer) continue;
      const std::int64_t who = together == Together::replicas           ? worker(o).stage
                               : together == Together::ends_of_pipeline ? worker(o).replica
                                                                        : 0;
      const auto [entry, is_new] = first.try_emplace({operation(o).type, operation(o).nth, who}, o);
      if (!is_new) groups_.join(entry->second, o);
    }
  }

  void pack_waits() {
    for (const std::vector<Wait>& of_one : waits_) {
      step_.first_wait.push_back(static_cast<std::uint32_t>(step_.waits.size()));
      step_.waits.insert(step_.waits.end(), of_one.begin(), of_one.end());
    }
    step_.first_wait.push_back(static_cast<std::uint32_t>(step_.waits.size()));
  }

  /// Kahn's algorithm over groups; false when some wait for one another in a circle.
  bool order_groups() {
    const auto count = static_cast<std::uint32_t>(step_.operations.size());
    std::vector<std::vector<std::uint32_t>> members(count), later(count);
    std::vector<std::uint32_t> open(count, 0);
    std::size_t groups = 0;
    for (std::uint32_t o = 0; o < count; ++o) {
      members[groups_.of(o)].push_back(o);
      for (const Wait& wait : waits_[o]) {
        if (wait.on == no_index) continue;
        later[groups_.of(wait.on)].push_back(groups_.of(o));
        ++open[groups_.of(o)];
      }
    }
    std::vector<std::uint32_t> ready;
    for (std::uint32_t g = 0; g < count; ++g)
      if (!members[g].empty() && ++groups && open[g] == 0) ready.push_back(g);
    for (std::size_t next = 0; next < ready.size(); ++next) {
      step_.first_member.push_back(static_cast<std::uint32_t>(step_.members.size()));
      step_.members.insert(step_.members.end(), members[ready[next]].begin(), members[ready[next]].end());
      for (const std::uint32_t g : later[ready[next]])
        if (--open[g] == 0) ready.push_back(g);
    }
    step_.first_member.push_back(static_cast<std::uint32_t>(step_.members.size()));
    return ready.size() == groups;
  }

  void find_work() {
    step_.work.resize(step_.operations.size());
    for (std::size_t g = 0; g + 1 < step_.first_member.size(); ++g) {
      const std::span<const std::uint32_t> members(step_.members.data() + step_.first_member[g],
                                                   step_.first_member[g + 1] - step_.first_member[g]);
      double last_start = -std::numeric_limits<double>::infinity();
      for (const std::uint32_t o : members) last_start = std::max(last_start, operation(o).start);
      for (const std::uint32_t o : members) step_.work[o] = std::max(0.0, operation(o).end - last_start);
    }
  }

  PipelineJob& job_;
  JobStep& step_;
  LagNumbers& lags_;
  std::vector<std::vector<Wait>> waits_;
  Groups groups_;
};

}  // namespace

std::string add_waits(PipelineJob& job) {
  find_order(job);
  find_meetings(job);
  job.sends_recorded = std::ranges::any_of(job.types, [](const OperationType& t) { return t.peer_stage != 0; });
  LagNumbers lags;
  std::string flaw;
  std::vector<JobStep> sound;
  for (JobStep& step : job.steps) {
    const std::uint64_t unmatched = job.unmatched;
    if (std::string found = StepWaits(job, step, lags).add(); found.empty()) {
      sound.push_back(std::move(step));
    } else {
      job.unmatched = unmatched;
      if (flaw.empty()) flaw = std::move(found);
    }
  }
  if (sound.empty()) return flaw;
  if (const std::size_t left_out = job.steps.size() - sound.size(); left_out > 0)
    job.notes.push_back(counted(std::int64_t(left_out), "step") + " left out: " + flaw);
  job.steps = std::move(sound);
  return {};
}

}  // namespace stepcast::pipelined
