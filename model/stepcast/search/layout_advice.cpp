// The best layouts get tuned gradients, data parallelism alone stands beside them, and machines are counted.
#include <stepcast/base/statistics.hpp>
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/parallelism/stage_moves.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/search/families.hpp>
#include <stepcast/search/layout_advice.hpp>
#include <stepcast/search/preference.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace stepcast {
namespace {

constexpr Seconds never{std::numeric_limits<double>::infinity()};

/// What is left of the time that was given for everything; no limit: nothing is given to any search, either.
class TimeLeft {
 public:
  explicit TimeLeft(Seconds budget) : budget_(budget) {}
  [[nodiscard]] bool limited() const { return budget_ > Seconds(0); }
  [[nodiscard]] bool over() const { return limited() && spent() >= budget_; }
  /// The budget of one search, which stops at once where nothing is left.
  [[nodiscard]] Seconds part(double share) const {
    if (!limited()) return {};
    return std::max(Seconds(1e-9), (budget_ - spent()) * share);
  }

 private:
  [[nodiscard]] Seconds spent() const {
    return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count());
  }
  Seconds budget_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};
// Of a limited time the search over all layouts may take so much; of what is then left each smaller search half.
constexpr double first_share = 0.7, next_share = 0.5;

/// The part of the cluster that a layout occupies.
Cluster part_of(const Cluster& cluster, std::int64_t devices) {
  if (devices == cluster.workers()) return cluster;
  const Answer<Cluster> part = resized(cluster, devices);
  return part ? *part : cluster;
}

/// Exact strategies that PyTorch runs as it is.
std::vector<PlanSpec> strategies_at_hand(const Cluster& cluster) {
  std::vector<PlanSpec> plans;
  for (const Strategy& s : strategies())
    if (PlanSpec plan{&s, standard_options(s)}; s.fidelity == Fidelity::exact && elsewhere_of(plan, cluster).empty())
      plans.push_back(std::move(plan));
  return plans;
}

/// The same layout with the gradient plan that shortens its step most, if that is worth a change.
LayoutPrediction with_best_gradients(LayoutEvaluator& evaluator, const Cluster& cluster, const LayoutPrediction& start,
                                     Bytes cap, Search search, const TimeLeft& left) {
  // No strategy can hide more than what is exposed.
  if (start.breakdown.gradients <= indifference * start.iteration) return start;
  const auto time_of = [&](const PlanSpec& gradients) {
    if (left.over()) return never;
    const Answer<LayoutEvaluator::Quick> quick = evaluator.quick({start.plan.layout, gradients});
    const bool fits = quick && (cap == Bytes(0) || quick->memory <= cap);
    return fits ? quick->iteration : never;
  };
  std::optional<PlanSpec> best;
  Seconds best_time = start.iteration * (1 - indifference);
  std::vector<PlanSpec> candidates = strategies_at_hand(cluster);
  // The strategy that was searched with comes first: to tune it is less work than to change it.
  std::stable_partition(candidates.begin(), candidates.end(),
                        [&](const PlanSpec& p) { return p.strategy == start.plan.gradients.strategy; });
  for (const PlanSpec& standard : candidates) {
    if (time_of(standard) == never) continue;
    const PlanSpec plan = tuned(time_of, standard, search);
    const Seconds time = time_of(plan);
    if (time >= (best ? best_time * (1 - indifference) : best_time)) continue;
    best = plan;
    best_time = time;
  }
  if (!best) return start;
  const Answer<LayoutPrediction> better = evaluator.predicted({start.plan.layout, *best});
  return better && better->iteration < start.iteration ? *better : start;
}

void sort_by(Objective objective, std::vector<LayoutPrediction>& layouts) {
  const auto key = [&](const LayoutPrediction& p) {
    const double time = p.iteration.value(), memory = p.memory.total().value();
    const auto devices = static_cast<double>(p.devices);
    switch (objective) {
      case Objective::shortest_step:
      case Objective::simplest:
        break;
      case Objective::least_memory:
        return std::tuple(memory, time, 0.0);
      case Objective::fewest_devices:
        return std::tuple(devices, time, memory);
      case Objective::cheapest:
        return std::tuple(devices * time, time, memory);
    }
    return std::tuple(time, memory, 0.0);
  };
  std::stable_sort(layouts.begin(), layouts.end(),
                   [&](const LayoutPrediction& a, const LayoutPrediction& b) { return key(a) < key(b); });
}

std::vector<LayoutPrediction> with_tuned_gradients(const Workload& workload, const Cluster& cluster,
                                                   std::vector<LayoutPrediction> layouts,
                                                   const LayoutAdviceOptions& options, const TimeLeft& left) {
  for (std::size_t i = 0; i < std::min<std::size_t>(options.tuned_layouts, layouts.size()) && !left.over(); ++i) {
    const Cluster part = part_of(cluster, layouts[i].devices);
    LayoutEvaluator evaluator(workload, part, options.search.layout);
    layouts[i] = with_best_gradients(evaluator, part, layouts[i], memory_cap_of(options.search.layout, part),
                                     options.tuning, left);
  }
  sort_by(options.search.objective, layouts);
  return layouts;
}

/// What remains of the space for data parallelism alone.
LayoutSpace data_parallel_part(LayoutSpace space) {
  space.tensor = space.pipeline = space.context = space.expert = space.chunks = {1};
  space.schedules.clear();
  space.schemes.clear();
  return space;
}

/// Puts first what is not to be told from the fastest, of these the one to run. Tuned layouts among `advice.best` are
/// kept, since another strategy may be what makes them as fast.
void put_equals_first(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                      const LayoutAdviceOptions& options, const TimeLeft& left, LayoutAdvice& advice) {
  if (options.search.objective != Objective::shortest_step || advice.best.empty()) return;
  const LayoutPrediction fastest = advice.best.front();
  advice.resolution = resolution_of(workload, fastest.plan.layout);
  LayoutSearchOptions search = options.search;
  search.objective = Objective::simplest;
  search.target_step = fastest.iteration * (1 + advice.resolution);
  if (options.search.target_step > Seconds(0))
    search.target_step = std::min(search.target_step, options.search.target_step);
  search.time_budget = left.part(next_share);
  search.frontier = search.explain = false;
  search.progress = nullptr;
  const auto behind = std::partition_point(advice.best.begin(), advice.best.end(), [&](const LayoutPrediction& p) {
    return p.iteration <= search.target_step;
  });
  std::vector<LayoutPrediction> equals(advice.best.begin(), behind), rest(behind, advice.best.end());
  if (const Answer<LayoutSearchResult> simple = best_layouts(workload, cluster, space, search); simple && !left.over())
    for (const LayoutPrediction& p : simple->best)
      if (std::none_of(equals.begin(), equals.end(),
                       [&](const LayoutPrediction& e) { return e.plan.layout == p.plan.layout; }))
        equals.push_back(p);
  const LayoutPreference preference(workload, cluster, space.framework);
  const auto key = [&](const LayoutPrediction& p) {
    return std::pair(preference.burden(p.plan, p.micro_batches) + preference.burden_of(p.memory.total()),
                     preference.after_burden(p.iteration, p.memory.total(), search.target_step));
  };
  // A library that saves nothing is no plan of its own.
  std::vector<LayoutPrediction> all = equals;
  all.insert(all.end(), rest.begin(), rest.end());
  const auto idle = [&](const LayoutPrediction& p) {
    Layout without = p.plan.layout;
    if (without.expert_exchange == ExpertExchange::all_to_all) return false;
    without.expert_exchange = ExpertExchange::all_to_all;
    return std::ranges::any_of(all, [&](const LayoutPrediction& e) {
      return e.plan.layout == without && e.iteration <= p.iteration * (1 + indifference);
    });
  };
  std::erase_if(equals, idle);
  std::erase_if(rest, idle);
  std::stable_sort(equals.begin(), equals.end(),
                   [&](const LayoutPrediction& a, const LayoutPrediction& b) { return key(a) < key(b); });
  if (!(equals.front().plan.layout == fastest.plan.layout)) advice.fastest = fastest;
  const std::size_t so_many = equals.size();
  equals.insert(equals.end(), rest.begin(), rest.end());
  advice.best = std::move(equals);
  advice.equals = so_many;
}

/// Leaves the first layout of each kind.
void leave_one_of_each_kind(LayoutAdvice& advice) {
  std::vector<LayoutPrediction> left;
  std::size_t equals = 0;
  for (std::size_t i = 0; i < advice.best.size(); ++i) {
    LayoutPrediction& p = advice.best[i];
    if (std::ranges::any_of(
            left, [&](const LayoutPrediction& before) { return of_one_kind(before.plan.layout, p.plan.layout); }))
      continue;
    left.push_back(std::move(p));
    if (i < advice.equals) ++equals;
  }
  advice.best = std::move(left);
  advice.equals = equals;
}

/// The best few layouts of a part of the space whose gradients any strategy can carry: ZeRO's stages fix how they
/// travel. With the strategy that is searched with they may be beaten by a layout that its own strategy cannot help.
std::vector<LayoutPrediction> open_to_strategies(const Workload& workload, const Cluster& cluster, LayoutSpace space,
                                                 const LayoutAdviceOptions& options, const TimeLeft& left) {
  const bool allowed = space.zero.empty() || std::find(space.zero.begin(), space.zero.end(), 0) != space.zero.end();
  if (!allowed || left.over() || options.tuned_layouts == 0 || options.search.objective == Objective::least_memory)
    return {};
  space.zero = {0};
  LayoutSearchOptions search = options.search;
  search.best = options.tuned_layouts;
  search.time_budget = left.part(next_share);
  search.frontier = search.explain = false;
  search.progress = nullptr;
  Answer<LayoutSearchResult> found = best_layouts(workload, cluster, space, search);
  return found ? std::move(found->best) : std::vector<LayoutPrediction>{};
}

/// The best of a part of the space, tuned, best first.
std::vector<LayoutPrediction> tuned_best(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                                         const LayoutAdviceOptions& options, const TimeLeft& left,
                                         std::vector<LayoutPrediction> best) {
  best = with_tuned_gradients(workload, cluster, std::move(best), options, left);
  const auto known = [&](const LayoutPrediction& p) {
    return std::any_of(best.begin(), best.end(),
                       [&](const LayoutPrediction& b) { return b.plan.layout == p.plan.layout; });
  };
  std::vector<LayoutPrediction> more = open_to_strategies(workload, cluster, space, options, left);
  std::erase_if(more, known);
  more = with_tuned_gradients(workload, cluster, std::move(more), options, left);
  best.insert(best.end(), more.begin(), more.end());
  sort_by(options.search.objective, best);
  return best;
}

void add_data_parallel(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                       const LayoutAdviceOptions& options, const TimeLeft& left, LayoutAdvice& advice) {
  LayoutAdviceOptions few = options;
  few.search.best = std::max(options.tuned_layouts, 1U);
  few.search.frontier = false;
  few.search.progress = nullptr;
  few.search.time_budget = left.part(next_share);
  const LayoutSpace part = data_parallel_part(space);
  const Answer<LayoutSearchResult> alone = best_layouts(workload, cluster, part, few.search);
  if (!alone || alone->best.empty()) {
    advice.no_data_parallel = alone ? alone->nothing : alone.reason();
    return;
  }
  advice.data_parallel = tuned_best(workload, cluster, part, few, left, alone->best).front();
}

/// Puts the best data-parallel layout, which was tuned beyond what the search saw, to its place: none behind all that
/// was found, where others that were not found may be better.
void merge_data_parallel(LayoutAdvice& advice, Objective objective) {
  if (!advice.data_parallel) return;
  const LayoutPrediction& alone = *advice.data_parallel;
  const bool was_found =
      std::erase_if(advice.best, [&](const LayoutPrediction& p) { return p.plan.layout == alone.plan.layout; }) > 0;
  advice.best.push_back(alone);
  sort_by(objective, advice.best);
  if (!was_found && advice.best.size() > 1 && advice.best.back().plan.layout == alone.plan.layout)
    advice.best.pop_back();
}

Seconds time_on(const Workload& workload, const Cluster& cluster, const LayoutPrediction& layout,
                const LayoutOptions& options) {
  LayoutEvaluator evaluator(workload, part_of(cluster, layout.devices), options);
  const Answer<LayoutEvaluator::Quick> quick = evaluator.quick(layout.plan);
  return quick ? quick->iteration : never;
}

/// Degrees of one are among those that were asked for.
bool allows_data_parallelism_alone(const LayoutSpace& space) {
  const auto allowed = [](const std::vector<std::int64_t>& degrees) {
    return degrees.empty() || std::find(degrees.begin(), degrees.end(), 1) != degrees.end();
  };
  return allowed(space.tensor) && allowed(space.pipeline) && allowed(space.context) && allowed(space.expert) &&
         allowed(space.chunks);
}

/// Where no framework runs the best, what one runs is searched for and stands in its place, with its own equals: a
/// plan that nobody can run is no measure of what another one may lose.
LayoutSpace with_runnable_first(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                                const LayoutAdviceOptions& options, const TimeLeft& left, LayoutAdvice& advice) {
  const LayoutPreference preference(workload, cluster, space.framework);
  const auto runs = [&](const LayoutPrediction& p) { return preference.why_not(p.plan, p.micro_batches).empty(); };
  if (options.search.objective == Objective::simplest || advice.best.empty() ||
      runs(advice.fastest ? *advice.fastest : advice.best.front()))
    return space;
  LayoutSpace runnable = space;
  runnable.runnable = true;
  LayoutSearchOptions search = options.search;
  search.time_budget = left.part(next_share);
  search.frontier = search.explain = false;
  search.progress = nullptr;
  const Answer<LayoutSearchResult> found = best_layouts(workload, cluster, runnable, search);
  if (!found || found->best.empty()) return space;
  LayoutAdvice run;
  run.best = with_tuned_gradients(workload, cluster, found->best, options, left);
  std::erase_if(run.best, [&](const LayoutPrediction& p) { return !runs(p); });
  if (allows_data_parallelism_alone(space) && advice.data_parallel && runs(*advice.data_parallel)) {
    run.data_parallel = advice.data_parallel;
    merge_data_parallel(run, options.search.objective);
  }
  if (run.best.empty()) return space;
  put_equals_first(workload, cluster, runnable, options, left, run);
  advice.unrunnable = advice.fastest ? *advice.fastest : advice.best.front();
  advice.best = std::move(run.best);
  advice.equals = run.equals, advice.fastest = std::move(run.fastest), advice.resolution = run.resolution;
  return runnable;
}

/// The winner and its rivals on another network. The whole space is searched again unless the search had no time for
/// that in the first place.
BandwidthCheck check_of(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                        const LayoutAdviceOptions& options, const std::vector<LayoutPrediction>& best, double factor) {
  const Cluster scaled = with_bandwidth_scaled(cluster, factor);
  BandwidthCheck check{.factor = factor,
                       .own = time_on(workload, scaled, best.front(), options.search.layout),
                       .best = {},
                       .better = {},
                       .whole_space = options.search.time_budget == Seconds(0)};
  check.best = check.own;
  const double resolved = std::max(indifference, resolution_of(workload));
  const auto consider = [&](const LayoutPlan& plan, Seconds time) {
    if (time >= check.best) return;
    check.best = time;
    check.better = check.best < check.own * (1 - resolved) ? text_of(plan) : "";
  };
  for (const LayoutPrediction& rival : best)
    consider(rival.plan, time_on(workload, scaled, rival, options.search.layout));
  if (!check.whole_space) return check;
  LayoutSearchOptions search = options.search;
  search.best = 1;
  search.frontier = search.explain = false;
  search.progress = nullptr;
  // Only what would be told is looked for.
  search.target_step = std::min(check.best, check.own * (1 - resolved));
  if (options.search.target_step > Seconds(0))
    search.target_step = std::min(search.target_step, options.search.target_step);
  const Answer<LayoutSearchResult> there = best_layouts(workload, scaled, space, search);
  if (there && !there->best.empty()) consider(there->best.front().plan, there->best.front().iteration);
  return check;
}

/// Another batch within a fifth of this one that trains more samples a second, tried only where data degrees do not
/// divide this one.
std::optional<BatchChoice> other_batch_of(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                                          const LayoutAdviceOptions& options, const LayoutAdvice& advice) {
  constexpr std::size_t tried = 2;
  const auto batch = std::llround(global_batch_of(workload, cluster, options.search.layout));
  const std::set<std::int64_t> degrees = data_degrees(workload, cluster, space);
  const auto undivided = [&](std::int64_t b) {
    return std::count_if(degrees.begin(), degrees.end(), [&](std::int64_t d) { return b % d != 0; });
  };
  std::vector<std::int64_t> batches = promising_batches(degrees, {batch - batch / 5, batch + batch / 5}, tried);
  std::erase_if(batches, [&](std::int64_t b) { return undivided(b) >= undivided(batch); });
  const LayoutPrediction& fastest = advice.fastest ? *advice.fastest : advice.best.front();
  return best_batch(workload, cluster, space, options.search, batches,
                    fastest.throughput_samples_per_s * (1 + advice.resolution), advice.resolution);
}

/// The winner with something else in its layout, if that is worth a change and some framework runs it: told beside it,
/// not in its place.
template <class Change>
std::optional<LayoutPrediction> changed(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                                        const LayoutAdviceOptions& options, const LayoutPrediction& winner,
                                        const Change& change) {
  LayoutPlan plan = winner.plan;
  change(plan.layout);
  if (!why_not_launched(workload, plan, winner.micro_batches, space.framework).empty()) return std::nullopt;
  LayoutEvaluator evaluator(workload, part_of(cluster, winner.devices), options.search.layout);
  Answer<LayoutPrediction> other = evaluator.predicted(plan);
  if (!other || other->iteration > winner.iteration * (1 - indifference)) return std::nullopt;
  return std::move(*other);
}

/// With tokens sent once to each machine, which needs another library.
std::optional<LayoutPrediction> sent_once(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                                          const LayoutAdviceOptions& options, const LayoutPrediction& winner) {
  if (winner.plan.layout.expert == 1 || !space.expert_exchange.empty()) return std::nullopt;
  return changed(workload, cluster, space, options, winner,
                 [](Layout& l) { l.expert_exchange = ExpertExchange::deduplicated; });
}

/// With products taken apart, of which no step by Megatron-LM is known.
std::optional<LayoutPrediction> beside_products(const Workload& workload, const Cluster& cluster,
                                                const LayoutSpace& space, const LayoutAdviceOptions& options,
                                                const LayoutPrediction& winner) {
  const Layout& l = winner.plan.layout;
  const bool goes = workload.shape && !is_pytorch(workload.shape->kernels) && l.tensor > 1 && l.sequence_parallel;
  if (!goes || !space.overlap_tensor.empty() || l.overlap_tensor == TensorOverlap::products) return std::nullopt;
  return changed(workload, cluster, space, options, winner,
                 [](Layout& layout) { layout.overlap_tensor = TensorOverlap::products; });
}

/// With other units in its stages, if the answer resolves what that saves.
std::optional<LayoutPrediction> moved_stages(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                                             const LayoutAdviceOptions& options, const LayoutPrediction& winner,
                                             double resolution) {
  const Cluster part = part_of(cluster, winner.devices);
  LayoutEvaluator evaluator(workload, part, options.search.layout);
  const std::optional<LayoutPlan> moved =
      with_moved_units(evaluator, winner, memory_cap_of(options.search.layout, part));
  if (!moved || !why_not_launched(workload, *moved, winner.micro_batches, space.framework).empty()) return std::nullopt;
  Answer<LayoutPrediction> other = evaluator.predicted(*moved);
  if (!other || other->iteration > winner.iteration * (1 - resolution)) return std::nullopt;
  return std::move(*other);
}

/// The best layout without recomputation, if one fits.
std::optional<LayoutPrediction> best_without_recomputation(const Workload& workload, const Cluster& cluster,
                                                           LayoutSpace space, const LayoutAdviceOptions& options,
                                                           const TimeLeft& left) {
  space.recomputation = {Recomputation::none};
  LayoutSearchOptions search = options.search;
  search.best = std::max(options.tuned_layouts, 1U);
  search.frontier = search.explain = false;
  search.progress = nullptr;
  search.time_budget = left.part(next_share);
  const Answer<LayoutSearchResult> found = best_layouts(workload, cluster, space, search);
  if (!found || found->best.empty()) return std::nullopt;
  LayoutAdviceOptions few = options;
  few.search = search;
  std::vector<LayoutPrediction> tuned = tuned_best(workload, cluster, space, few, left, found->best);
  if (space.runnable)
    std::erase_if(tuned, [&](const LayoutPrediction& p) {
      return !why_not_launched(workload, p.plan, p.micro_batches, space.framework).empty();
    });
  if (tuned.empty()) return found->best.front();
  return std::move(tuned.front());
}

/// Where the winner does work again, to save memory or to have larger micro-batches, what is best that does not: of
/// all degrees and of its own.
void add_without_recomputation(const Workload& workload, const Cluster& cluster, LayoutSpace space,
                               const LayoutAdviceOptions& options, const TimeLeft& left, LayoutAdvice& advice) {
  const bool asked = !space.recomputation.empty() || space.some_blocks;
  const Layout& l = advice.best.front().plan.layout;
  if (l.recomputation == Recomputation::none || asked) return;
  const LayoutPrediction& winner = advice.best.front();
  space.runnable |= why_not_launched(workload, winner.plan, winner.micro_batches, space.framework).empty();
  advice.without_recomputation = best_without_recomputation(workload, cluster, space, options, left);
  if (!advice.without_recomputation || left.over()) return;
  const auto degrees = [](const Layout& of) { return std::tuple(of.tensor, of.context, of.pipeline, of.expert); };
  if (degrees(advice.without_recomputation->plan.layout) == degrees(l)) return;
  space.tensor = {l.tensor}, space.context = {l.context}, space.pipeline = {l.pipeline}, space.expert = {l.expert};
  advice.of_these_degrees_without_recomputation = best_without_recomputation(workload, cluster, space, options, left);
}

/// A word that a described model could have, and what it means to the one that has it.
struct Candidate {
  std::string_view key, value;
  std::string_view (*what)(const ModelShape& with);
  bool saves_memory = false;
};

std::vector<Candidate> candidates_of(const ModelShape& m) {
  std::vector<Candidate> all;
  if (holds_whole_weights(m.kernels) && is_eager(m.kernels))
    all.push_back({"kernels", "compiled",
                   [](const ModelShape& with) -> std::string_view {
                     return with.loss == KernelSet::compiled ? "torch.compile of each block and of the loss"
                                                             : "torch.compile of each block";
                   },
                   true});
  // Megatron-LM's own fused loss keeps four bytes a logit, and it refuses Transformer Engine's.
  if (m.loss != KernelSet::compiled && is_pytorch(m.kernels))
    all.push_back(
        {"loss", "compiled", [](const ModelShape&) -> std::string_view { return "torch.compile of the loss"; }, true});
  // Where logits fill the memory; Megatron-LM's loss is of all tokens at once.
  constexpr std::int64_t parts = 8;
  if (is_pytorch(m.kernels) && !m.loss_chunks_given && m.loss_chunks == 1 && m.sequence % parts == 0 &&
      !m.name.starts_with("bert"))
    all.push_back({"loss_chunks", "8",
                   [](const ModelShape&) -> std::string_view {
                     return "the head and the loss of an eighth of the sequence at a time";
                   },
                   true});
  if (m.launch == KernelLaunch::async)
    all.push_back({"launch", "graphs", [](const ModelShape&) -> std::string_view {
                     return "the passes of a step recorded as a CUDA graph, which the host launches at once";
                   }});
  if (size_of(m.gradient_dtype) > size_of(m.dtype))
    all.push_back({"gradients", name_of(m.dtype),
                   [](const ModelShape&) -> std::string_view { return "gradients of two bytes, which rounds them"; },
                   true});
  return all;
}

/// Of a model that leaves its kernels open, and is predicted with Megatron-LM's: the best layout by torchtitan's, if it
/// takes less than the best here by more than the answer resolves.
std::optional<ModelOption> by_torchtitan(const Workload& workload, const Cluster& cluster, LayoutSpace space,
                                         const LayoutAdviceOptions& options, const TimeLeft& left,
                                         const LayoutAdvice& advice) {
  const ModelShape& shape = *workload.shape;
  const LayoutPrediction& winner = advice.best.front();
  if (!options.other_kernels || !space.framework.empty() || shape.kernels_given ||
      shape.kernels != KernelSet::megatron || left.over())
    return std::nullopt;
  space.framework = "torchtitan";
  LayoutSearchOptions search = options.search;
  search.best = 1;
  search.frontier = search.explain = false;
  search.progress = nullptr;
  search.layout.memory = memory_options_of(space.framework);
  search.target_step = winner.iteration * (1 - advice.resolution);
  if (advice.fastest) search.target_step = std::min(search.target_step, advice.fastest->iteration);
  search.time_budget = left.part(next_share);
  const Workload other = workload_of(model_shape_of(model_run_by(shape.name, space.framework)), *workload.device);
  Answer<LayoutSearchResult> found = best_layouts(other, cluster, space, search);
  if (!found || found->best.empty()) return std::nullopt;
  LayoutPrediction& best = found->best.front();
  const double shorter = 1 - best.iteration / winner.iteration;
  return ModelOption{"", "its compiled kernels", shorter, std::move(best), space.framework};
}

/// What makes the winner faster by more than the answer resolves, of models that are described and of what a framework
/// runs; fastest first.
std::vector<ModelOption> faster_options(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                                        const LayoutAdviceOptions& asked, const TimeLeft& left,
                                        const LayoutAdvice& advice) {
  const LayoutSearchOptions& options = asked.search;
  const LayoutPrediction& winner = advice.best.front();
  std::vector<ModelOption> found;
  if (!workload.shape || !workload.device || workload.shape->heads == 0) return found;
  LayoutSpace runnable = space;
  runnable.runnable = true;
  LayoutSearchOptions search = options;
  search.best = 1;
  search.frontier = search.explain = false;
  search.progress = nullptr;
  const bool again = winner.plan.layout.recomputation != Recomputation::none;
  // A search with the option is held against the fastest without it, the winner with it against the winner.
  const Seconds without = again && advice.fastest ? advice.fastest->iteration : winner.iteration;
  search.target_step = without * (1 - advice.resolution);
  for (const Candidate& c : candidates_of(*workload.shape)) {
    if (left.over()) break;
    const Workload other =
        workload_of(model_shape_of(with_word(workload.shape->name, c.key, c.value)), *workload.device);
    std::optional<LayoutPrediction> best;
    if (again) {
      search.time_budget = left.part(next_share);
      if (Answer<LayoutSearchResult> all = best_layouts(other, cluster, runnable, search); all && !all->best.empty())
        best = all->best.front();
    } else if (why_not_launched(other, winner.plan, winner.micro_batches, space.framework).empty()) {
      if (Answer<LayoutPrediction> same = predicted(other, cluster, winner.plan, options.layout);
          same && same->iteration < search.target_step)
        best = *std::move(same);
    }
    // Mixtures are recorded where their experts are spread; on one device by programs of other kernels.
    const bool other_program = other.shape->experts > 0 && other.shape->launch == KernelLaunch::graphs && best &&
                               best->plan.layout.expert == 1;
    if (best && !other_program)
      found.push_back({std::string(c.key) + "=" + std::string(c.value), c.what(*other.shape),
                       1 - best->iteration / without, *std::move(best)});
  }
  if (std::optional<ModelOption> other = by_torchtitan(workload, cluster, space, asked, left, advice))
    found.push_back(*std::move(other));
  std::ranges::stable_sort(found, {}, [](const ModelOption& o) { return o.best.iteration; });
  return found;
}

/// Where nothing fits: the best layout with part of the state in the host's memory, the least part that helps first.
std::optional<LayoutPrediction> offloaded_best(const Workload& workload, const Cluster& cluster,
                                               const LayoutSpace& space, const LayoutSearchOptions& options,
                                               const TimeLeft& left) {
  LayoutSearchOptions search = options;
  search.best = 1;
  search.frontier = search.explain = false;
  search.progress = nullptr;
  for (const std::string_view what : {"optimizer", "parameters", "optimizer+activations", "parameters+activations"}) {
    if (left.over()) break;
    LayoutSpace with = space;
    const Layout said = with_field({}, "offload", what);
    with.offloaded = said.offloaded;
    // More than what was asked for, which did not fit.
    if ((said.offloaded & space.offloaded) != space.offloaded || said.offloaded == space.offloaded) continue;
    const bool divides = space.zero.empty() || std::ranges::find(space.zero, 3) != space.zero.end();
    if (said.offloads(Offloaded::parameters) && !divides) continue;
    with.runnable = true;
    search.time_budget = left.part(next_share);
    if (Answer<LayoutSearchResult> found = best_layouts(workload, cluster, with, search); found && !found->best.empty())
      return std::move(found->best.front());
  }
  return std::nullopt;
}

/// Where nothing fits: what has to be said for something to fit, the least first: more of the memory than is planned
/// with, a word of the model's description, both. At most two.
std::vector<FittingOption> fitting_options(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                                           const LayoutSearchOptions& options, const TimeLeft& left) {
  constexpr std::size_t most = 2;
  std::vector<FittingOption> found;
  LayoutSearchOptions search = options;
  search.best = 1;
  search.frontier = search.explain = false;
  search.progress = nullptr;
  LayoutSpace runnable = space;
  runnable.runnable = true;
  const Bytes cap = memory_cap_of(options.layout, cluster), card = cluster.device_memory;
  // One who asked for less than what is planned with has a reason.
  const bool planned = card > Bytes(0) && cap >= card * planned_memory_share * (1 - 1e-9);
  const auto attempt = [&](const Workload& with, const FittingOption& option) {
    if (left.over() || found.size() == most) return;
    search.layout.memory_cap = option.memory_share > 0 ? card * option.memory_share : cap;
    search.time_budget = left.part(next_share);
    Answer<LayoutSearchResult> all = best_layouts(with, cluster, runnable, search);
    if (!all || all->best.empty()) return;
    found.push_back(option);
    found.back().best = std::move(all->best.front());
  };
  struct Word {
    FittingOption option;
    Workload workload;
  };
  std::vector<Word> words;
  if (workload.shape && workload.device && workload.shape->heads > 0)
    for (const Candidate& c : candidates_of(*workload.shape)) {
      if (!c.saves_memory) continue;
      Workload with = workload_of(model_shape_of(with_word(workload.shape->name, c.key, c.value)), *workload.device);
      const std::string_view what = c.what(*with.shape);
      words.push_back({{std::string(c.key) + "=" + std::string(c.value), what, 0, {}}, std::move(with)});
    }
  const bool less = planned && cap < card * most_memory_share;
  if (less) attempt(workload, {{}, {}, most_memory_share, {}});
  for (const Word& w : words) attempt(w.workload, w.option);
  if (!less || !found.empty()) return found;
  for (Word& w : words) w.option.memory_share = most_memory_share, attempt(w.workload, w.option);
  return found;
}

}  // namespace

double cost_of(const LayoutPrediction& layout, double price_per_device_hour) {
  return price_per_device_hour * static_cast<double>(layout.devices) * layout.iteration.value() / 3600;
}

std::string_view words_of(Objective objective) {
  switch (objective) {
    case Objective::shortest_step:
      break;
    case Objective::simplest:
      return "simplest";
    case Objective::least_memory:
      return "least memory";
    case Objective::fewest_devices:
      return "fewest devices";
    case Objective::cheapest:
      return "least cost";
  }
  return "shortest step";
}

Answer<LayoutAdvice> layout_advice(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                                   const LayoutAdviceOptions& asked) {
  LayoutAdviceOptions options = asked;
  // Every second layout of a mixture may be the one before by another library, and is left out where that saves
  // nothing.
  if (options.search.one_of_kind && workload.shape && workload.shape->experts > 0) options.search.best *= 2;
  options.search.layout.memory.autocast = memory_options_of(space.framework).autocast;
  const TimeLeft left(options.search.time_budget);
  LayoutSearchOptions first = options.search;
  first.time_budget = left.part(first_share);
  Answer<LayoutSearchResult> search = best_layouts(workload, cluster, space, first);
  if (!search) return Inapplicable{search.reason()};
  LayoutAdvice advice;
  advice.search = std::move(*search);
  add_data_parallel(workload, cluster, space, options, left, advice);
  if (advice.search.best.empty()) {
    const LayoutSearchResult& none = advice.search;
    if (none.too_large > 0 && none.evaluated + none.bounded == 0)
      advice.fitting_options = fitting_options(workload, cluster, space, options.search, left);
    if (options.search.target_step <= Seconds(0))
      advice.with_offload = offloaded_best(workload, cluster, space, options.search, left);
    return advice;
  }
  advice.best = tuned_best(workload, cluster, space, options, left, advice.search.best);
  if (allows_data_parallelism_alone(space)) merge_data_parallel(advice, options.search.objective);
  const LayoutPrediction& before = advice.search.best.front();
  const bool tuned = text_of(before.plan) != text_of(advice.best.front().plan);
  put_equals_first(workload, cluster, space, options, left, advice);
  const LayoutSpace told = with_runnable_first(workload, cluster, space, options, left, advice);
  if (options.search.one_of_kind) leave_one_of_each_kind(advice);
  advice.best.resize(std::min<std::size_t>(advice.best.size(), asked.search.best));
  advice.equals = std::min(advice.equals, advice.best.size());
  if (tuned && !advice.fastest && !advice.unrunnable) advice.untuned = before;
  advice.sent_once = sent_once(workload, cluster, told, options, advice.best.front());
  advice.beside_products = beside_products(workload, cluster, told, options, advice.best.front());
  if (options.sensitivity && options.search.objective == Objective::shortest_step && !left.over())
    advice.moved_stages = moved_stages(workload, cluster, told, options, advice.best.front(), advice.resolution);
  if (options.sensitivity && options.search.objective == Objective::shortest_step && !left.over())
    add_without_recomputation(workload, cluster, told, options, left, advice);
  // Which layout needs the fewest devices or the least memory does not depend on the network by the time it takes.
  const bool by_time = options.search.objective == Objective::shortest_step;
  if (options.sensitivity && by_time && options.search.target_step <= Seconds(0) && !left.limited())
    advice.other_batch = other_batch_of(workload, cluster, told, options, advice);
  if (options.sensitivity && by_time && options.search.target_step <= Seconds(0) && !left.over())
    advice.faster_options = faster_options(workload, cluster, told, options, left, advice);
  if (options.sensitivity && by_time && cluster.workers() > 1)
    for (const double factor : {0.5, 2.0})
      advice.networks.push_back(check_of(workload, cluster, told, options, advice.best, factor));
  return advice;
}

}  // namespace stepcast
