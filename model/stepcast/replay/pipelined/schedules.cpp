// Pipeline replay, schedules: the job's passes as the pipeline model has them, in the recorded order and in others.
#include <stepcast/base/statistics.hpp>
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/replay/pipelined/schedules.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace stepcast::pipelined {
namespace {

class Reordering {
 public:
  Reordering(const PipelineJob& job, const std::vector<bool>& use) : job_(job), use_(use), lags_(lags_of(job, use)) {}

  /// Nothing where stages or micro-batches are missing.
  void add_to(PipelineReplay& out) {
    if (!has_all_passes() || !find_chunks() || !find_rest()) return;
    std::vector<double> others;
    for (std::size_t s = 0; s < job_.steps.size(); ++s)
      if (!use_[s]) others.push_back(job_.steps[s].measured);
    if (!others.empty()) out.held_out = Seconds(median(others));
    std::vector<std::vector<PipelineSlot>> known;
    for (const PipelineSchedule& schedule : pipeline_schedules()) {
      // Several copies of the model put its parts on other devices, whose speed for them nobody recorded.
      const PipelineShape shape = shape_for(schedule);
      if (schedule.copies > 1 || !schedule.unsuitable(shape).empty()) continue;
      std::vector<PipelineSlot> order;
      for (std::uint32_t stage = 0; stage < shape.stages; ++stage) {
        const std::vector<PipelineSlot> of_stage = schedule.order(shape, stage);
        order.insert(order.end(), of_stage.begin(), of_stage.end());
      }
      if (std::ranges::find(known, order) != known.end()) continue;
      const std::optional<Seconds> step = step_in(schedule, shape);
      if (!step) continue;
      const bool halved = std::ranges::any_of(order, [](const PipelineSlot& slot) {
        return slot.pass == PipelinePass::input_gradient || slot.pass == PipelinePass::weight_gradient;
      });
      out.schedules.push_back({schedule.name, *step, is_recorded(schedule, shape), halved, shape.chunks > job_.chunks});
      if (out.schedules.back().recorded && !others.empty()) out.schedule_error = std::abs(*step / out.held_out - 1);
      known.push_back(std::move(order));
    }
  }

 private:
  /// As many passes as the numbers of chunks and micro-batches ask for, and not too many to put in order.
  [[nodiscard]] bool has_all_passes() const {
    constexpr std::int64_t most = 1 << 22;
    if (job_.chunks > most || job_.micro_batches > most || job_.chunks * job_.micro_batches > most) return false;
    const std::vector<JobOperation>& last = job_.steps.back().operations;
    const auto passes =
        std::ranges::count_if(last, [this](const JobOperation& o) { return is_pass(job_.types[o.type].role); });
    return 2 * job_.chunks * job_.micro_batches * std::ssize(job_.workers) == passes;
  }

  /// Median times of the parts of the model on each replica: [replica][chunk * stages + stage].
  bool find_chunks() {
    const auto parts = static_cast<std::size_t>(job_.stages * job_.chunks);
    std::vector<std::map<std::pair<std::size_t, Role>, std::vector<double>>> seen(
        static_cast<std::size_t>(job_.replicas));
    const auto part_of = [&](const JobOperation& o) {
      return static_cast<std::size_t>(o.chunk * job_.stages + job_.workers[o.worker].stage);
    };
    std::map<std::pair<std::size_t, bool>, std::vector<double>> sends;  // stage, direction
    for (std::size_t s = 0; s < job_.steps.size(); ++s) {
      if (!use_[s]) continue;
      const JobStep& step = job_.steps[s];
      for (std::size_t i = 0; i < step.operations.size(); ++i) {
        const JobOperation& o = step.operations[i];
        const OperationType& type = job_.types[o.type];
        const JobWorker& worker = job_.workers[o.worker];
        if (is_pass(type.role))
          seen[static_cast<std::size_t>(worker.replica)][{part_of(o), type.role}].push_back(step.work[i]);
        if (type.role == Role::send)
          sends[{static_cast<std::size_t>(worker.stage), type.backward}].push_back(step.work[i]);
      }
    }
    for (auto& replica : seen) {
      std::vector<ChunkTimes> chunks(parts);
      for (std::size_t p = 0; p < parts; ++p) {
        const auto forward = replica.find({p, Role::forward}), backward = replica.find({p, Role::backward});
        if (forward == replica.end() || backward == replica.end()) return false;
        chunks[p].forward = Seconds(median(forward->second));
        // Nothing recorded tells the two gradients apart.
        chunks[p].input_gradient = chunks[p].weight_gradient = Seconds(median(backward->second) / 2);
        const std::size_t stage = p % static_cast<std::size_t>(job_.stages);
        if (p + 1 < parts) chunks[p].send_forward = message(sends, stage, Role::forward);
        if (p > 0) chunks[p].send_backward = message(sends, stage, Role::backward);
        // Where nothing is sent, the turn from one kind of pass to the other shows by itself.
        if (p + 1 == parts) chunks[p].forward += turn(Role::forward, Role::backward);
        if (p == 0) chunks[p].weight_gradient += turn(Role::backward, Role::forward);
      }
      replicas_.push_back(std::move(chunks));
    }
    return true;
  }

  /// From the end of a pass to the start of the neighbour's, who is ready.
  [[nodiscard]] Seconds message(const std::map<std::pair<std::size_t, bool>, std::vector<double>>& sends,
                                std::size_t stage, Role role) const {
    double time = 0;
    const bool backward = role == Role::backward;
    const auto found = sends.find({stage, backward});
    if (found != sends.end()) time += median(found->second);
    for (std::size_t k = 0; k < job_.lags.size(); ++k) {
      const LagKind& lag = job_.lags[k];
      if (lag.after == no_index) continue;
      const OperationType &type = job_.types[lag.type], &after = job_.types[lag.after];
      const bool to_send = type.role == Role::send && type.backward == backward && after.role == role;
      const bool from_receive = type.role == role && after.role == Role::receive && after.backward == backward;
      const bool between_passes = lag.remote && type.role == role && after.role == role;
      if (to_send || from_receive || between_passes) time += lags_[k];
    }
    return Seconds(time);
  }

  [[nodiscard]] Seconds turn(Role from, Role to) const {
    double time = 0;
    for (std::size_t k = 0; k < job_.lags.size(); ++k) {
      const LagKind& lag = job_.lags[k];
      if (!lag.remote && lag.after != no_index && job_.types[lag.type].role == to && job_.types[lag.after].role == from)
        time += lags_[k];
    }
    return Seconds(time);
  }

  /// What a step takes besides its passes, and what its very last one takes beyond others of its kind on its worker:
  /// the sums of gradients that it waits for are no part of a pass.
  bool find_rest() {
    std::vector<double> rest;
    for (std::size_t s = 0; s < job_.steps.size(); ++s) {
      if (!use_[s]) continue;
      const JobStep& step = job_.steps[s];
      constexpr double far = std::numeric_limits<double>::infinity();
      std::vector<double> first(replicas_.size(), far);
      std::vector<const JobOperation*> last(replicas_.size(), nullptr);
      for (const JobOperation& o : step.operations) {
        if (!is_pass(job_.types[o.type].role)) continue;
        const auto r = static_cast<std::size_t>(job_.workers[o.worker].replica);
        first[r] = std::min(first[r], o.start);
        if (!last[r] || o.end > last[r]->end) last[r] = &o;
      }
      double longest = 0, beyond = 0;
      for (std::size_t r = 0; r < first.size(); ++r) {
        if (!last[r] || last[r]->end - first[r] <= longest) continue;
        longest = last[r]->end - first[r];
        beyond = last[r]->duration() - usual(step, *last[r]);
      }
      rest.push_back(step.measured - longest + beyond);
    }
    if (rest.empty()) return false;
    rest_ = Seconds(std::max(0.0, median(std::move(rest))));
    return true;
  }

  [[nodiscard]] static double usual(const JobStep& step, const JobOperation& pass) {
    std::vector<double> alike;
    for (std::uint32_t i = step.first_of[pass.worker]; i < step.first_of[pass.worker + 1]; ++i)
      if (step.operations[i].type == pass.type && step.operations[i].chunk == pass.chunk)
        alike.push_back(step.operations[i].duration());
    return median(std::move(alike));
  }

  /// The recorded chunks where the schedule takes them, else all that a device holds as one. Interleaving one chunk is
  /// nothing: then each stage is two halves.
  [[nodiscard]] PipelineShape shape_for(const PipelineSchedule& schedule) const {
    PipelineShape shape{static_cast<std::uint32_t>(job_.stages), static_cast<std::uint32_t>(job_.chunks),
                        static_cast<std::uint32_t>(job_.micro_batches)};
    if (!schedule.unsuitable(shape).empty()) shape.chunks = 1;
    PipelineShape halves = shape;
    halves.chunks = 2;
    const bool interleaves = schedule.name == "interleaved";
    return interleaves && job_.chunks == 1 && job_.stages > 1 && schedule.unsuitable(halves).empty() ? halves : shape;
  }

  [[nodiscard]] std::vector<ChunkTimes> times_for(const std::vector<ChunkTimes>& recorded, std::size_t parts) const {
    if (recorded.size() == parts) return recorded;
    if (recorded.size() < parts) return halved(recorded);
    const auto stages = static_cast<std::size_t>(job_.stages);
    std::vector<ChunkTimes> merged(recorded.begin(), recorded.begin() + static_cast<std::ptrdiff_t>(stages));
    for (std::size_t p = stages; p < recorded.size(); ++p) {
      merged[p % stages].forward += recorded[p].forward;
      merged[p % stages].input_gradient += recorded[p].input_gradient;
      merged[p % stages].weight_gradient += recorded[p].weight_gradient;
    }
    merged.back().send_forward = merged.front().send_backward = Seconds(0);
    return merged;
  }

  /// Two chunks of each stage, half of it each; what the last stage hands back to the first goes as between the others.
  [[nodiscard]] std::vector<ChunkTimes> halved(const std::vector<ChunkTimes>& stages) const {
    const Seconds first = turn(Role::backward, Role::forward), last = turn(Role::forward, Role::backward);
    std::vector<ChunkTimes> chunks;
    for (int half = 0; half < 2; ++half)
      for (std::size_t s = 0; s < stages.size(); ++s) {
        ChunkTimes chunk = stages[s];
        if (s == 0) chunk.weight_gradient -= first;
        if (s + 1 == stages.size()) chunk.forward -= last;
        chunk.forward = chunk.forward / 2;
        chunk.input_gradient = chunk.input_gradient / 2;
        chunk.weight_gradient = chunk.weight_gradient / 2;
        if (s + 1 == stages.size()) chunk.send_forward = stages.front().send_forward;
        if (s == 0) chunk.send_backward = stages.back().send_backward;
        chunks.push_back(chunk);
      }
    chunks.back().send_forward = chunks.front().send_backward = Seconds(0);
    chunks.back().forward += last;
    chunks.front().weight_gradient += first;
    return chunks;
  }

  /// The slowest replica sets the pace; nothing for a schedule that does not fit.
  [[nodiscard]] std::optional<Seconds> step_in(const PipelineSchedule& schedule, const PipelineShape& shape) const {
    Answer<PipelineEvaluator> evaluator = PipelineEvaluator::of(schedule, shape);
    if (!evaluator) return std::nullopt;
    const std::size_t parts = std::size_t{shape.stages} * shape.chunks;
    const auto stages = static_cast<std::size_t>(job_.stages);
    if (parts != replicas_.front().size() && parts != stages && parts != 2 * stages) return std::nullopt;
    // Sends run beside computation only where they were seen to.
    const bool overlap = std::ranges::any_of(
        job_.types, [](const OperationType& type) { return type.role == Role::send && !type.in_order; });
    Seconds longest;
    for (const std::vector<ChunkTimes>& recorded : replicas_)
      longest = std::max(longest, (*evaluator)(times_for(recorded, parts), overlap).iteration);
    return longest + rest_;
  }

  [[nodiscard]] bool is_recorded(const PipelineSchedule& schedule, const PipelineShape& shape) const {
    if (shape.chunks != job_.chunks) return false;
    const JobStep& step = job_.steps.back();
    for (std::size_t w = 0; w < job_.workers.size(); ++w) {
      const std::vector<PipelineSlot> order = schedule.order(shape, static_cast<std::uint32_t>(job_.workers[w].stage));
      std::size_t next = 0;
      for (std::uint32_t i = step.first_of[w]; i < step.first_of[w + 1]; ++i) {
        const JobOperation& o = step.operations[i];
        const Role role = job_.types[o.type].role;
        if (!is_pass(role)) continue;
        const PipelineSlot slot{role == Role::forward ? PipelinePass::forward : PipelinePass::backward,
                                static_cast<std::uint32_t>(o.chunk), static_cast<std::uint32_t>(o.micro_batch)};
        if (next >= order.size() || !(order[next++] == slot)) return false;
      }
      if (next != order.size()) return false;
    }
    return true;
  }

  const PipelineJob& job_;
  const std::vector<bool>& use_;
  std::vector<double> lags_;
  std::vector<std::vector<ChunkTimes>> replicas_;
  Seconds rest_;
};

}  // namespace

void add_schedules(const PipelineJob& job, const std::vector<bool>& use, PipelineReplay& out) {
  Reordering(job, use).add_to(out);
}

}  // namespace stepcast::pipelined
