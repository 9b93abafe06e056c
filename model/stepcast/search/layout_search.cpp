// Nodes are taken by their bounds, in batches whose outcome does not depend on the number of threads.
#include <stepcast/base/helping_threads.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/parallelism/priced_split.hpp>
#include <stepcast/search/families.hpp>
#include <stepcast/search/incumbents.hpp>
#include <stepcast/search/layout_search.hpp>
#include <stepcast/search/nodes.hpp>
#include <stepcast/search/preference.hpp>
#include <stepcast/search/space_text.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>

namespace stepcast {
namespace {

constexpr std::uint32_t families_of_a_node = 32;
constexpr double infinite = std::numeric_limits<double>::infinity();

// A part of the cluster with its space: the whole of it, unless the objective asks for fewer devices.
struct Part {
  Cluster cluster;
  std::unique_ptr<LayoutFamilies> families;
  std::uint64_t first = 0;  // place of its first layout in the order of all parts
};

// The scales by which layouts are compared.
class Scale {
 public:
  Scale(const LayoutSearchOptions& options) : objective_(options.objective), price_(options.price_per_device_hour) {
    if (price_ <= 0) price_ = 3600;  // device-seconds
  }
  [[nodiscard]] LayoutScore score(Seconds iteration, Bytes memory, std::int64_t devices, std::uint64_t order) const {
    const double t = iteration.value(), m = memory.value(), n = static_cast<double>(devices);
    switch (objective_) {
      case Objective::shortest_step:
        return {t, m, order};
      case Objective::least_memory:
        return {m, t, order};
      case Objective::fewest_devices:
        return {n, t, order};
      case Objective::cheapest:
        return {price_ / 3600 * n * t, m, order};
      case Objective::simplest:
        break;  // scored by its caller
    }
    return {};
  }
  [[nodiscard]] bool by_burden() const { return objective_ == Objective::simplest; }
  [[nodiscard]] bool by_parts() const {
    return objective_ == Objective::fewest_devices || objective_ == Objective::cheapest;
  }

 private:
  Objective objective_;
  double price_;
};

// Numbers of devices that a job may ask for: parts of a machine that divide it, then whole machines.
std::vector<std::int64_t> sizes_of_parts(const Cluster& cluster) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 1; n < cluster.devices_per_node; ++n)
    if (cluster.devices_per_node % n == 0) sizes.push_back(n);
  for (std::int64_t n = 1; n <= cluster.nodes; ++n) sizes.push_back(n * cluster.devices_per_node);
  return sizes;
}

class LayoutSearch {
 public:
  LayoutSearch(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
               const LayoutSearchOptions& options)
      : workload_(workload),
        space_(space),
        options_(options),
        scale_(options),
        preference_(workload, cluster, space.framework),
        found_(options.best, kinds_of(options)) {
    options_.layout.global_batch = global_batch_of(workload, cluster, options.layout);
    options_.layout.memory.autocast = memory_options_of(space.framework).autocast;
    cap_ = memory_cap_of(options.layout, cluster);
    if (cap_ <= Bytes(0)) cap_ = Bytes(infinite);
    for (const std::int64_t n : scale_.by_parts() ? sizes_of_parts(cluster) : std::vector{cluster.workers()}) {
      Answer<Cluster> part = n == cluster.workers() ? Answer<Cluster>(cluster) : resized(cluster, n);
      if (!part) continue;
      Part p{*part, nullptr, result_.total};
      p.families = std::make_unique<LayoutFamilies>(space, workload, p.cluster, options_.layout.global_batch);
      if (p.families->size() == 0) continue;
      result_.total += p.families->size();
      parts_.push_back(std::move(p));
    }
  }

  LayoutSearch(const LayoutSearch&) = delete;
  LayoutSearch& operator=(const LayoutSearch&) = delete;

  [[nodiscard]] bool empty() const { return parts_.empty(); }
  LayoutSearchResult run();

 private:
  struct Tools {  // of one worker for one part
    LayoutTables tables;
    LayoutBounds bounds;
    std::vector<LayoutPlan> plans;
    Tools(const Workload& w, const Part& part, const LayoutOptions& o)
        : tables(w, part.cluster, o), bounds(*part.families, tables) {
      for (const PlanSpec& g : part.families->gradients()) plans.push_back({{}, g});
    }
  };
  Tools& tools(unsigned worker, std::uint32_t part);
  SearchOutcome outcome(unsigned worker, const SearchNode&);
  void expand_families(Tools&, const SearchNode&, SearchOutcome&) const;
  void expand_family(Tools&, const SearchNode&, SearchOutcome&) const;
  void evaluate(Tools&, const SearchNode&, SearchOutcome&) const;
  /// How many blocks of each stage a member does again that does the fewest which fit; 0: it does none, since all
  /// activations fit, and is no other layout than the one without recomputation.
  [[nodiscard]] std::uint32_t fewest_blocks(Tools&, const LayoutFamily&, const LayoutSwitches&) const;
  [[nodiscard]] double burden_of(const SearchNode&, Seconds iteration) const;
  [[nodiscard]] LayoutScore score_of(const SearchNode&, const LayoutBound&, std::uint64_t order) const;
  [[nodiscard]] SearchNode node(SearchNode::Kind, const LayoutBound&, std::uint32_t part, std::uint32_t family,
                                std::uint32_t switches) const;

  [[nodiscard]] bool left_out(const SearchNode&) const;
  void leave_out(const SearchNode&);
  void push(const SearchNode&);
  void take(SearchOutcome&);
  std::vector<SearchNode> next_batch();
  bool stopped();
  void finish();
  [[nodiscard]] Layout layout_at(const LayoutCandidate& c) const {
    const LayoutFamilies& families = *parts_[c.part].families;
    const LayoutFamily& family = families.families()[c.family];
    return layout_of(family, families.switches(family)[c.switches], c.blocks);
  }
  [[nodiscard]] LayoutPlan plan_of(const LayoutCandidate&) const;
  [[nodiscard]] LayoutIncumbents::OfOneKind kinds_of(const LayoutSearchOptions& options) const {
    if (!options.one_of_kind) return {};
    return
        [this](const LayoutCandidate& a, const LayoutCandidate& b) { return of_one_kind(layout_at(a), layout_at(b)); };
  }

  const Workload& workload_;
  const LayoutSpace& space_;
  LayoutSearchOptions options_;
  Scale scale_;
  LayoutPreference preference_;
  Bytes cap_;
  std::vector<Part> parts_;
  std::vector<std::vector<std::unique_ptr<Tools>>> tools_;  // by worker and part
  LayoutIncumbents found_;
  SearchQueue branches_, layouts_;
  LayoutSearchResult result_;
  std::string reason_;         // of the first unsuitable layout, or of the first that works and no framework runs
  bool by_framework_ = false;  // the latter
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::uint64_t told_ = 0;
};

LayoutSearch::Tools& LayoutSearch::tools(unsigned worker, std::uint32_t part) {
  std::unique_ptr<Tools>& slot = tools_[worker][part];
  if (!slot) slot = std::make_unique<Tools>(workload_, parts_[part], options_.layout);
  return *slot;
}

// What the objective `simplest` goes by. Of a layout that takes too long it is not asked, since that is dear.
double LayoutSearch::burden_of(const SearchNode& n, Seconds iteration) const {
  if (n.kind == SearchNode::Kind::families) return 0;
  const LayoutFamilies& families = *parts_[n.part].families;
  const LayoutFamily& f = families.families()[n.family];
  if (n.kind == SearchNode::Kind::family || iteration > options_.target_step) return preference_.least_burden(f);
  const LayoutSwitches& s = families.switches(f)[n.switches];
  return preference_.burden({layout_of(f, s, s.some_blocks ? 1 : 0), families.gradients()[s.gradients]},
                            f.micro_batches);
}

LayoutScore LayoutSearch::score_of(const SearchNode& n, const LayoutBound& least, std::uint64_t order) const {
  if (!scale_.by_burden()) return scale_.score(least.iteration, least.memory, parts_[n.part].cluster.workers(), order);
  return {burden_of(n, least.iteration) + preference_.burden_of(least.memory),
          preference_.after_burden(least.iteration, least.memory, options_.target_step), order};
}

SearchNode LayoutSearch::node(SearchNode::Kind kind, const LayoutBound& least, std::uint32_t part, std::uint32_t family,
                              std::uint32_t switches) const {
  const Part& p = parts_[part];
  const std::vector<LayoutFamily>& families = p.families->families();
  const LayoutFamily& f = families[family];
  SearchNode n{{}, least, 1, part, family, switches, kind};
  if (kind == SearchNode::Kind::family) n.layouts = p.families->switches(f).size();
  if (kind == SearchNode::Kind::families) {
    const std::size_t end = family + families_of_a_node;
    n.layouts = (end < families.size() ? families[end].first : p.families->size()) - f.first;
  }
  n.bound = score_of(n, least, p.first + f.first + switches);
  return n;
}

void LayoutSearch::expand_families(Tools& tools, const SearchNode& n, SearchOutcome& outcome) const {
  const LayoutFamilies& families = *parts_[n.part].families;
  const auto end = std::min(n.family + families_of_a_node, static_cast<std::uint32_t>(families.families().size()));
  for (std::uint32_t f = n.family; f < end; ++f) {
    const LayoutFamily& family = families.families()[f];
    const Answer<LayoutBound> least = tools.bounds.of(family);
    if (least) {
      outcome.branches.push_back(node(SearchNode::Kind::family, *least, n.part, f, 0));
    } else {
      outcome.unsuitable += families.switches(family).size();
      if (outcome.reason.empty()) outcome.reason = least.reason();
    }
  }
}

void LayoutSearch::expand_family(Tools& tools, const SearchNode& n, SearchOutcome& outcome) const {
  const LayoutFamilies& families = *parts_[n.part].families;
  const LayoutFamily& family = families.families()[n.family];
  const std::vector<LayoutSwitches>& switches = families.switches(family);
  for (std::uint32_t s = 0; s < switches.size(); ++s) {
    SearchNode member = node(SearchNode::Kind::layout, tools.bounds.by_sums(family, switches[s]), n.part, n.family, s);
    if (left_out(member)) {
      outcome.branches.push_back(member);
      continue;
    }
    // Dearer than the first bound.
    if (space_.runnable || !space_.framework.empty()) {
      const LayoutPlan plan{layout_of(family, switches[s], switches[s].some_blocks ? 1 : 0),
                            families.gradients()[switches[s].gradients]};
      if (std::string why = preference_.why_not(plan, family.micro_batches); !why.empty()) {
        ++outcome.unsuitable;
        if (!outcome.by_framework) outcome.reason = std::move(why), outcome.by_framework = true;
        continue;
      }
    }
    member = node(SearchNode::Kind::layout, tools.bounds.of(family, switches[s]), n.part, n.family, s);
    if (!left_out(member)) {
      const Answer<LayoutBound> least = tools.bounds.with_gradients(family, switches[s]);
      if (!least) {
        ++outcome.unsuitable;
        if (outcome.reason.empty()) outcome.reason = least.reason();
        continue;
      }
      member = node(SearchNode::Kind::layout, *least, n.part, n.family, s);
    }
    outcome.branches.push_back(member);
  }
}

std::uint32_t LayoutSearch::fewest_blocks(Tools& tools, const LayoutFamily& family,
                                          const LayoutSwitches& switches) const {
  LayoutPlan& plan = tools.plans[switches.gradients];
  const auto fits = [&](std::int64_t blocks) {
    plan.layout = layout_of(family, switches, static_cast<std::uint32_t>(blocks));
    if (blocks == 0) plan.layout.recomputation = Recomputation::none;
    const Answer<EvaluatedLayout> e = tools.tables.evaluated(plan);
    return e && e->memory.total() <= cap_;
  };
  if (fits(0)) return 0;
  const auto [least, most] = tools.bounds.blocks_of(family, switches);
  if (least >= most || fits(least)) return static_cast<std::uint32_t>(std::min(least, most));
  // More blocks never need more memory.
  std::int64_t not_enough = least, enough = most;
  while (enough - not_enough > 1) {
    const std::int64_t middle = not_enough + (enough - not_enough) / 2;
    (fits(middle) ? enough : not_enough) = middle;
  }
  return static_cast<std::uint32_t>(enough);
}

void LayoutSearch::evaluate(Tools& tools, const SearchNode& n, SearchOutcome& outcome) const {
  const LayoutFamilies& families = *parts_[n.part].families;
  const LayoutFamily& family = families.families()[n.family];
  const LayoutSwitches& switches = families.switches(family)[n.switches];
  const std::uint32_t blocks = switches.some_blocks ? fewest_blocks(tools, family, switches) : 0;
  if (switches.some_blocks && blocks == 0) {
    outcome.as_another = 1;
    return;
  }
  LayoutPlan& plan = tools.plans[switches.gradients];
  plan.layout = layout_of(family, switches, blocks);
  const Answer<EvaluatedLayout> e = tools.tables.evaluated(plan);
  if (!e) {
    outcome.unsuitable = 1;
    outcome.reason = e.reason();
    return;
  }
  if (plan.layout.stages_by_time && !e->layout.stages_by_time) {
    outcome.as_another = 1;
    return;
  }
  const Bytes memory = e->memory.total();
  const LayoutScore score = score_of(n, {e->iteration, memory}, n.bound.order);
  outcome.evaluated = LayoutCandidate{score, e->iteration, memory, n.part, n.family, n.switches, blocks};
}

SearchOutcome LayoutSearch::outcome(unsigned worker, const SearchNode& n) {
  SearchOutcome outcome;
  Tools& own = tools(worker, n.part);
  switch (n.kind) {
    case SearchNode::Kind::families:
      expand_families(own, n, outcome);
      break;
    case SearchNode::Kind::family:
      expand_family(own, n, outcome);
      break;
    case SearchNode::Kind::layout:
      evaluate(own, n, outcome);
      break;
  }
  return outcome;
}

bool LayoutSearch::left_out(const SearchNode& n) const {
  if (n.least.memory > cap_) return true;
  const bool too_long = options_.target_step > Seconds(0) && n.least.iteration > options_.target_step;
  if (!too_long && !found_.excluded(n.bound)) return false;
  return !options_.frontier || found_.dominated(n.least.iteration, n.least.memory, n.bound.order);
}

void LayoutSearch::leave_out(const SearchNode& n) {
  (n.least.memory > cap_ ? result_.too_large : result_.bounded) += n.layouts;
}

void LayoutSearch::push(const SearchNode& n) {
  if (left_out(n)) leave_out(n);
  else (n.kind == SearchNode::Kind::layout ? layouts_ : branches_).push(n);
}

void LayoutSearch::take(SearchOutcome& outcome) {
  for (const SearchNode& branch : outcome.branches) push(branch);
  result_.unsuitable += outcome.unsuitable;
  result_.bounded += outcome.as_another;
  if (reason_.empty() || (outcome.by_framework && !by_framework_)) {
    reason_ = std::move(outcome.reason);
    by_framework_ = outcome.by_framework;
  }
  if (!outcome.evaluated) return;
  const LayoutCandidate& c = *outcome.evaluated;
  if (c.memory > cap_) {
    ++result_.too_large;
    return;
  }
  ++result_.evaluated;
  found_.offer(c, options_.target_step <= Seconds(0) || c.iteration <= options_.target_step);
}

// The most promising nodes, of constant total weight whatever the number of threads. One of them is a layout, and as
// long as nothing was found, layouts come before branches: what is found early makes bounds count.
std::vector<SearchNode> LayoutSearch::next_batch() {
  constexpr int most = 64, of_layout = 4;
  std::vector<SearchNode> batch;
  for (int weight = 0; weight < most && !(branches_.empty() && layouts_.empty());) {
    const bool layout =
        branches_.empty() ||
        (!layouts_.empty() && (batch.empty() || found_.best().empty() || layouts_.top().bound < branches_.top().bound));
    SearchQueue& queue = layout ? layouts_ : branches_;
    if (left_out(queue.top())) {
      leave_out(queue.top());
    } else {
      batch.push_back(queue.top());
      weight += layout ? of_layout : 1;
    }
    queue.pop();
  }
  return batch;
}

bool LayoutSearch::stopped() {
  if (options_.time_budget > Seconds(0)) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    if (spent.count() > options_.time_budget.value()) return true;
  }
  const std::uint64_t done = result_.evaluated + result_.bounded + result_.too_large + result_.unsuitable;
  if (!options_.progress || done < told_ + options_.least_between_progress) return false;
  told_ = done;
  return !options_.progress(done, result_.total, found_.best().empty() ? Seconds(0) : found_.best().front().iteration);
}

LayoutPlan LayoutSearch::plan_of(const LayoutCandidate& c) const {
  const LayoutFamilies& families = *parts_[c.part].families;
  return {layout_at(c), families.gradients()[families.switches(families.families()[c.family])[c.switches].gradients]};
}

LayoutSearchResult LayoutSearch::run() {
  const unsigned threads = threads_or_all(options_.threads);
  tools_.resize(threads);
  for (auto& of_worker : tools_) of_worker.resize(parts_.size());
  SearchWorkers workers(threads, [this](unsigned worker, const SearchNode& n) { return outcome(worker, n); });
  for (std::uint32_t p = 0; p < parts_.size(); ++p)
    for (std::uint32_t f = 0; f < parts_[p].families->families().size(); f += families_of_a_node)
      push(node(SearchNode::Kind::families, {}, p, f, 0));
  for (;;) {
    if (stopped()) break;
    const std::vector<SearchNode> batch = next_batch();
    if (batch.empty()) break;
    for (SearchOutcome& o : workers(batch)) take(o);
  }
  finish();
  return std::move(result_);
}

void LayoutSearch::finish() {
  double open = infinite;
  for (SearchQueue* queue : {&branches_, &layouts_})
    for (; !queue->empty(); queue->pop()) {
      const SearchNode& n = queue->top();
      if (left_out(n)) {
        leave_out(n);
        continue;
      }
      open = std::min(open, n.bound.value);
      result_.open += n.layouts;
    }
  result_.proved = result_.open == 0;
  if (!result_.proved) {
    result_.gap = 1;
    if (!found_.best().empty()) {
      const double best = found_.best().front().score.value;
      result_.gap = best > 0 ? std::max(0.0, (best - open) / best) : 0;
    }
  }
  for (const LayoutCandidate& c : found_.best())
    if (Answer<LayoutPrediction> p = predicted(workload_, parts_[c.part].cluster, plan_of(c), options_.layout))
      result_.best.push_back(*p);
  for (const LayoutCandidate& c : found_.frontier()) result_.frontier.push_back({c.memory, c.iteration, plan_of(c)});
  if (!found_.best().empty()) {
    const LayoutCandidate& c = found_.best().front();
    result_.cost_per_step = options_.price_per_device_hour / 3600 *
                            static_cast<double>(parts_[c.part].cluster.workers()) * c.iteration.value();
  }
  if (result_.best.empty()) result_.nothing = reason_;
  std::vector<const LayoutFamilies*> families;
  for (const Part& part : parts_) families.push_back(part.families.get());
  result_.space = space_text(space_, families);
  result_.not_tried = not_tried(space_, families, workload_, parts_.back().cluster, options_.layout.global_batch);
}

/// What no layout takes less of on all devices together.
Bytes least_state(const Workload& w) {
  const BytesPerParameter held{w.bytes_of_weight, w.bytes_of_gradient, w.bytes_of_state};
  const BytesPerParameter bytes = has_copies(w) ? with_whole_weights(held) : held;
  return Bytes(w.parameters() * (bytes.weight + bytes.optimizer()));
}

// What would hold a job that fits nowhere: so many times as many devices.
std::string what_would_fit(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                           LayoutSearchOptions within, Bytes cap) {
  constexpr std::int64_t most_times = 64;
  constexpr double share = 0.1;  // of a limited time, for each search
  within.time_budget = within.time_budget * share;
  bool proved = true;
  LayoutSpace runnable = space;
  runnable.runnable = true;
  const auto best = [&](const Cluster& c) -> std::string {
    LayoutSearch search(workload, c, runnable, within);
    if (search.empty()) return {};
    const LayoutSearchResult r = search.run();
    proved &= r.proved;
    if (r.best.empty()) return {};
    const LayoutPrediction& fastest = r.best.front();
    LayoutSearchOptions equals = within;
    equals.objective = Objective::simplest;
    equals.target_step = fastest.iteration * (1 + resolution_of(workload, fastest.plan.layout));
    const LayoutSearchResult simple = LayoutSearch(workload, c, runnable, equals).run();
    const LayoutPrediction& first = simple.best.empty() ? fastest : simple.best.front();
    return text_of(first.plan) + " takes " + text_of(first.iteration) + " and " + text_of(first.memory.total());
  };
  std::string text;
  for (std::int64_t times = 2; times <= most_times && text.empty(); times *= 2) {
    const Answer<Cluster> more = resized(cluster, times * cluster.workers());
    // Weights and the optimizer's state alone, divided evenly.
    if (more && space.offloaded == 0 && least_state(workload) / static_cast<double>(more->workers()) > cap) continue;
    if (const std::string plan = more ? best(*more) : ""; !plan.empty())
      text = "; " + std::to_string(more->workers()) + " devices hold it: " + plan;
  }
  if (text.empty() && !proved) return "; how many devices would hold it was not found in the time given";
  if (text.empty()) text = "; not even " + std::to_string(most_times * cluster.workers()) + " devices hold it";
  return text;
}

/// The search for the least memory, made short where a batch has more than eight samples a device: a smaller one, by
/// which the same degrees divide, whose pipelines still hold what they hold at most, in micro-batches of one sample
/// unless others are asked for. Gpipe's hold all micro-batches, however many there are.
void shorten(LayoutSearchOptions& least, LayoutSpace& space, double batch, const Cluster& cluster) {
  if (std::ranges::any_of(space.schedules, [](const PipelineSchedule* s) { return s->name == "gpipe"; })) return;
  std::int64_t together = cluster.workers(), largest = 1;
  for (const std::int64_t mb : space.micro_batch) together = std::lcm(together, mb), largest = std::max(largest, mb);
  const std::int64_t enough = std::max<std::int64_t>(8, 2 * largest) * cluster.workers();
  const auto all = static_cast<std::int64_t>(std::llround(batch));
  std::int64_t samples = all;
  while (samples % (2 * together) == 0 && samples / 2 >= enough) samples /= 2;
  if (samples == all) return;
  least.layout.global_batch = static_cast<double>(samples);
  if (space.micro_batch.empty()) space.micro_batch = {1};
}

// Why there is no layout: what the smallest one takes and what would hold it, or how long the fastest takes.
std::string why_nothing(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                        const LayoutSearchOptions& options, const LayoutSearchResult& result, Seconds left) {
  if (result.open > 0) return "nothing was found in the time given";
  if (result.unsuitable == result.total) return "no layout works: " + result.nothing;
  LayoutSearchOptions other = options;
  other.target_step = Seconds(0);
  other.time_budget = left;
  other.best = 1;
  other.frontier = false;
  other.progress = nullptr;
  if (result.evaluated + result.bounded > 0) {  // some fit
    other.objective = Objective::shortest_step;
    LayoutSearch fastest(workload, cluster, space, other);
    // Parts of a cluster can have layouts where the whole of it has none.
    if (fastest.empty())
      return "no layout of a part of these devices takes at most " + text_of(options.target_step) +
             " a step, and none divides all of them and the batch: another --global-batch, or number of devices";
    const LayoutSearchResult r = fastest.run();
    if (!r.best.empty())
      return "no layout takes at most " + text_of(options.target_step) + " a step: the shortest, " +
             text_of(r.best.front().plan) + ", takes " + text_of(r.best.front().iteration);
  }
  LayoutSearchOptions within = other;
  within.objective = Objective::shortest_step;
  other.objective = Objective::least_memory;
  other.layout.memory_cap = Bytes(infinite);
  LayoutSpace shortened = space;
  shorten(other, shortened, global_batch_of(workload, cluster, options.layout), cluster);
  LayoutSearch smallest(workload, cluster, shortened, other);
  if (smallest.empty())
    return "no layout of a part of these devices fits in " + text_of(memory_cap_of(options.layout, cluster)) +
           " of device memory, and none divides all of them and the batch: another --global-batch, or number of "
           "devices";
  const LayoutSearchResult r = smallest.run();
  if (r.best.empty() && r.open > 0) return "no layout fits, and the smallest was not found in the time given";
  if (r.best.empty()) return "no layout works: " + r.nothing;
  LayoutOptions uncapped = options.layout;
  uncapped.memory_cap = Bytes(infinite);
  const Answer<LayoutPrediction> least = predicted(workload, cluster, r.best.front().plan, uncapped);
  const Bytes memory = least ? least->memory.total() : r.best.front().memory.total();
  const Bytes cap = memory_cap_of(options.layout, cluster);
  return "no layout fits in " + text_of(cap) + " of device memory: the smallest" + (r.proved ? ", " : " found, ") +
         text_of(r.best.front().plan) + ", takes " + text_of(memory) +
         what_would_fit(workload, cluster, space, within, cap);
}

/// ": tp 3, pp 2 or 4"; that there is one of something divides all.
std::string degrees_asked_for(const LayoutSpace& space) {
  std::string text;
  for (const auto& [name, degrees] : {std::pair<const char*, const std::vector<std::int64_t>&>{"tp", space.tensor},
                                      {"cp", space.context},
                                      {"ep", space.expert},
                                      {"pp", space.pipeline},
                                      {"chunks", space.chunks},
                                      {"mb", space.micro_batch}}) {
    if (degrees.empty() || std::ranges::find(degrees, 1) != degrees.end()) continue;
    std::string of;
    for (const std::int64_t d : degrees) of += (of.empty() ? " " : " or ") + std::to_string(d);
    text += (text.empty() ? ": " : ", ") + std::string(name) + of;
  }
  return text;
}

/// Why none of the schedules that were asked for goes with the chunks that were asked for; empty: one does, or may.
std::string schedule_flaw(const LayoutSpace& space) {
  std::string why;
  for (const PipelineSchedule* schedule : space.schedules)
    for (const std::int64_t chunks : space.chunks) {
      const PipelineShape some =
          pipeline_shape(*schedule, 2, static_cast<std::uint32_t>(std::max<std::int64_t>(1, chunks)), 8);
      const std::string flaw = schedule->unsuitable(some);
      if (flaw.empty()) return {};
      if (why.empty()) why = std::string(schedule->name) + ": " + flaw;
    }
  return why;
}

}  // namespace

namespace {

/// Whether it is what tensor parallelism was to hide that leaves the space empty.
bool hides_elsewhere(const Workload& workload, const Cluster& cluster, LayoutSpace space,
                     const LayoutSearchOptions& options) {
  if (space.overlap_tensor.empty()) return false;
  space.overlap_tensor.clear();
  return !LayoutSearch(workload, cluster, space, options).empty();
}

}  // namespace

Answer<LayoutSearchResult> best_layouts(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                                        const LayoutSearchOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  LayoutSearch search(workload, cluster, space, options);
  if (std::string why = search.empty() ? schedule_flaw(space) : std::string(); !why.empty())
    return Inapplicable{"no layout in the space: " + why};
  if (search.empty() && hides_elsewhere(workload, cluster, space, options))
    return Inapplicable{
        "no layout in the space has such messages to hide (--overlap-tp): on goes with the 1-D scheme of a described "
        "model and whole backward passes, products besides with sequence parallelism inside a machine"};
  if (search.empty())
    return Inapplicable{"no layout in the space: nothing divides " + std::to_string(cluster.workers()) +
                        " devices and a global batch of " +
                        fixed(global_batch_of(workload, cluster, options.layout), 0) + " as asked for" +
                        degrees_asked_for(space)};
  LayoutSearchResult result = search.run();
  if (!result.best.empty() || !options.explain) return result;
  const Seconds spent(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  const bool limited = options.time_budget > Seconds(0);
  const Seconds left = limited ? std::max(Seconds(1e-9), options.time_budget - spent) : Seconds(0);
  result.nothing = why_nothing(workload, cluster, space, options, result, left);
  return result;
}

}  // namespace stepcast
