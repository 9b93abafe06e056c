#include <stepcast/layout_bounds.hpp>
#include <stepcast/layout_families.hpp>
#include <stepcast/layout_incumbents.hpp>
#include <stepcast/layout_search.hpp>
#include <stepcast/number_text.hpp>
#include <stepcast/text.hpp>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <thread>

namespace stepcast {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// A part of the cluster with its space: the whole of it, unless the objective asks for fewer devices.
struct Part {
  Cluster cluster;
  std::unique_ptr<LayoutFamilies> families;
  std::uint64_t first = 0;  // place of its first layout in the order of all parts
};

// A branch of the search: all families of a part, all members of a family, or one layout.
struct Node {
  enum class Kind : std::uint8_t { part, family, layout };
  LayoutScore bound;
  LayoutBound least;
  std::uint64_t layouts = 1;
  std::uint32_t part = 0, family = 0, switches = 0;
  Kind kind = Kind::part;
};
struct Later {
  bool operator()(const Node& a, const Node& b) const { return b.bound < a.bound; }
};
using Queue = std::priority_queue<Node, std::vector<Node>, Later>;

// What became of a node: branches below it, or a layout with its time and memory, or neither.
struct Outcome {
  std::vector<Node> branches;
  std::optional<LayoutCandidate> evaluated;
  std::uint64_t unsuitable = 0;
  std::string reason;
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
    }
    return {};
  }
  [[nodiscard]] bool by_parts() const {
    return objective_ == Objective::fewest_devices || objective_ == Objective::cheapest;
  }

 private:
  Objective objective_;
  double price_;
};

// Evaluates the nodes of a batch on several threads. Which thread takes which node does not matter: a node's outcome
// depends on the node alone.
class Workers {
 public:
  using Work = std::function<Outcome(unsigned worker, const Node&)>;
  Workers(unsigned threads, Work work) : work_(std::move(work)), start_(threads), end_(threads) {
    for (unsigned w = 1; w < threads; ++w)
      threads_.emplace_back([this, w] {
        for (;;) {
          start_.arrive_and_wait();
          if (stop_) return;
          run(w);
          end_.arrive_and_wait();
        }
      });
  }
  ~Workers() {
    stop_ = true;
    start_.arrive_and_wait();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  std::vector<Outcome>& operator()(const std::vector<Node>& batch) {
    batch_ = &batch;
    outcomes_.clear();
    outcomes_.resize(batch.size());
    next_ = 0;
    start_.arrive_and_wait();
    run(0);
    end_.arrive_and_wait();
    if (failure_) std::rethrow_exception(failure_);
    return outcomes_;
  }

 private:
  void run(unsigned worker) {
    try {
      for (std::size_t i = next_++; i < batch_->size(); i = next_++) outcomes_[i] = work_(worker, (*batch_)[i]);
    } catch (...) {
      if (!failed_.exchange(true)) failure_ = std::current_exception();
      next_ = batch_->size();
    }
  }

  Work work_;
  const std::vector<Node>* batch_ = nullptr;
  std::vector<Outcome> outcomes_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  std::exception_ptr failure_;
  bool stop_ = false;
  std::barrier<> start_, end_;
  std::vector<std::jthread> threads_;  // last: joined before the barriers go
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
      : workload_(workload), options_(options), scale_(options), found_(options.best) {
    options_.layout.global_batch = global_batch_of(workload, cluster, options.layout);
    cap_ = options.layout.memory_cap > Bytes(0) ? options.layout.memory_cap : cluster.device_memory;
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

  [[nodiscard]] bool empty() const { return parts_.empty(); }
  LayoutSearchResult run();

 private:
  struct Tools {  // of one worker for one part
    LayoutEvaluator evaluator;
    LayoutBounds bounds;
    std::vector<LayoutPlan> plans;
    Tools(const Workload& w, const Part& part, const LayoutOptions& o)
        : evaluator(w, part.cluster, o), bounds(*part.families, evaluator) {
      for (const PlanSpec& g : part.families->gradients()) plans.push_back({{}, g});
    }
  };
  Tools& tools(unsigned worker, std::uint32_t part);
  Outcome outcome(unsigned worker, const Node&);
  void expand_part(Tools&, const Node&, Outcome&) const;
  void expand_family(Tools&, const Node&, Outcome&) const;
  void evaluate(Tools&, const Node&, Outcome&) const;
  [[nodiscard]] Node node(Node::Kind, const LayoutBound&, std::uint32_t part, std::uint32_t family,
                          std::uint32_t switches) const;

  [[nodiscard]] bool left_out(const Node&) const;
  void leave_out(const Node&);
  void push(const Node&);
  void take(Outcome&);
  std::vector<Node> next_batch();
  bool stopped();
  void finish();
  [[nodiscard]] LayoutPlan plan_of(const LayoutCandidate&) const;

  const Workload& workload_;
  LayoutSearchOptions options_;
  Scale scale_;
  Bytes cap_;
  std::vector<Part> parts_;
  std::vector<std::vector<std::unique_ptr<Tools>>> tools_;  // by worker and part
  LayoutIncumbents found_;
  Queue branches_, layouts_;
  LayoutSearchResult result_;
  std::string reason_;  // of the first unsuitable layout
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::uint64_t told_ = 0;
};

LayoutSearch::Tools& LayoutSearch::tools(unsigned worker, std::uint32_t part) {
  std::unique_ptr<Tools>& slot = tools_[worker][part];
  if (!slot) slot = std::make_unique<Tools>(workload_, parts_[part], options_.layout);
  return *slot;
}

Node LayoutSearch::node(Node::Kind kind, const LayoutBound& least, std::uint32_t part, std::uint32_t family,
                        std::uint32_t switches) const {
  const Part& p = parts_[part];
  Node n{{}, least, 1, part, family, switches, kind};
  std::uint64_t order = p.first + switches;
  if (kind == Node::Kind::part) {
    n.layouts = p.families->size();
  } else {
    const LayoutFamily& f = p.families->families()[family];
    order += f.first;
    if (kind == Node::Kind::family) n.layouts = p.families->switches(f).size();
  }
  n.bound = scale_.score(least.iteration, least.memory, p.cluster.workers(), order);
  return n;
}

void LayoutSearch::expand_part(Tools& tools, const Node& n, Outcome& outcome) const {
  const LayoutFamilies& families = *parts_[n.part].families;
  for (std::uint32_t f = 0; f < families.families().size(); ++f) {
    const LayoutFamily& family = families.families()[f];
    const Answer<LayoutBound> least = tools.bounds.of(family);
    if (least) {
      outcome.branches.push_back(node(Node::Kind::family, *least, n.part, f, 0));
    } else {
      outcome.unsuitable += families.switches(family).size();
      if (outcome.reason.empty()) outcome.reason = least.reason();
    }
  }
}

void LayoutSearch::expand_family(Tools& tools, const Node& n, Outcome& outcome) const {
  const LayoutFamilies& families = *parts_[n.part].families;
  const LayoutFamily& family = families.families()[n.family];
  const std::vector<LayoutSwitches>& switches = families.switches(family);
  for (std::uint32_t s = 0; s < switches.size(); ++s) {
    const Answer<LayoutBound> least = tools.bounds.of(family, switches[s]);
    if (least) {
      outcome.branches.push_back(node(Node::Kind::layout, *least, n.part, n.family, s));
    } else {
      ++outcome.unsuitable;
      if (outcome.reason.empty()) outcome.reason = least.reason();
    }
  }
}

void LayoutSearch::evaluate(Tools& tools, const Node& n, Outcome& outcome) const {
  const LayoutFamilies& families = *parts_[n.part].families;
  const LayoutFamily& family = families.families()[n.family];
  const LayoutSwitches& switches = families.switches(family)[n.switches];
  LayoutPlan& plan = tools.plans[switches.gradients];
  plan.layout = layout_of(family, switches);
  const Answer<LayoutEvaluator::Quick> quick = tools.evaluator.quick(plan);
  if (quick) {
    outcome.evaluated =
        LayoutCandidate{scale_.score(quick->iteration, quick->memory, parts_[n.part].cluster.workers(), n.bound.order),
                        quick->iteration,
                        quick->memory,
                        n.part,
                        n.family,
                        n.switches};
  } else {
    outcome.unsuitable = 1;
    outcome.reason = quick.reason();
  }
}

Outcome LayoutSearch::outcome(unsigned worker, const Node& n) {
  Outcome outcome;
  Tools& own = tools(worker, n.part);
  switch (n.kind) {
    case Node::Kind::part:
      expand_part(own, n, outcome);
      break;
    case Node::Kind::family:
      expand_family(own, n, outcome);
      break;
    case Node::Kind::layout:
      evaluate(own, n, outcome);
      break;
  }
  return outcome;
}

bool LayoutSearch::left_out(const Node& n) const {
  if (n.least.memory > cap_) return true;
  const bool too_long = options_.target_step > Seconds(0) && n.least.iteration > options_.target_step;
  if (!too_long && !found_.excluded(n.bound)) return false;
  return !options_.frontier || found_.dominated(n.least.iteration, n.least.memory, n.bound.order);
}

void LayoutSearch::leave_out(const Node& n) {
  (n.least.memory > cap_ ? result_.too_large : result_.bounded) += n.layouts;
}

void LayoutSearch::push(const Node& n) {
  if (left_out(n)) leave_out(n);
  else (n.kind == Node::Kind::layout ? layouts_ : branches_).push(n);
}

void LayoutSearch::take(Outcome& outcome) {
  for (const Node& branch : outcome.branches) push(branch);
  result_.unsuitable += outcome.unsuitable;
  if (reason_.empty()) reason_ = std::move(outcome.reason);
  if (!outcome.evaluated) return;
  const LayoutCandidate& c = *outcome.evaluated;
  if (c.memory > cap_) {
    ++result_.too_large;
    return;
  }
  ++result_.evaluated;
  found_.offer(c, options_.target_step <= Seconds(0) || c.iteration <= options_.target_step);
}

// The most promising nodes, of constant total weight whatever the number of threads. As long as nothing was found,
// layouts come before branches: a first one makes bounds count.
std::vector<Node> LayoutSearch::next_batch() {
  constexpr int most = 64, of_layout = 4;
  std::vector<Node> batch;
  for (int weight = 0; weight < most && !(branches_.empty() && layouts_.empty());) {
    const bool layout = branches_.empty() ||
                        (!layouts_.empty() && (found_.best().empty() || layouts_.top().bound < branches_.top().bound));
    Queue& queue = layout ? layouts_ : branches_;
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
  const LayoutFamily& family = families.families()[c.family];
  const LayoutSwitches& switches = families.switches(family)[c.switches];
  return {layout_of(family, switches), families.gradients()[switches.gradients]};
}

LayoutSearchResult LayoutSearch::run() {
  const unsigned threads = options_.threads > 0 ? options_.threads : std::max(1u, std::thread::hardware_concurrency());
  tools_.resize(threads);
  for (auto& of_worker : tools_) of_worker.resize(parts_.size());
  Workers workers(threads, [this](unsigned worker, const Node& n) { return outcome(worker, n); });
  for (std::uint32_t p = 0; p < parts_.size(); ++p) push(node(Node::Kind::part, {}, p, 0, 0));
  for (;;) {
    if (stopped()) break;
    const std::vector<Node> batch = next_batch();
    if (batch.empty()) break;
    for (Outcome& o : workers(batch)) take(o);
  }
  finish();
  return std::move(result_);
}

void LayoutSearch::finish() {
  double open = infinite;
  for (Queue* queue : {&branches_, &layouts_})
    for (; !queue->empty(); queue->pop()) {
      const Node& n = queue->top();
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
    if (Answer<LayoutPrediction> p = tools(0, c.part).evaluator.predicted(plan_of(c))) result_.best.push_back(*p);
  for (const LayoutCandidate& c : found_.frontier()) result_.frontier.push_back({c.memory, c.iteration, plan_of(c)});
  if (!found_.best().empty()) {
    const LayoutCandidate& c = found_.best().front();
    result_.cost_per_step = options_.price_per_device_hour / 3600 *
                            static_cast<double>(parts_[c.part].cluster.workers()) * c.iteration.value();
  }
  if (result_.best.empty()) result_.nothing = reason_;
}

// Why there is no layout: what the smallest one takes, or how long the fastest.
std::string why_nothing(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                        const LayoutSearchOptions& options, const LayoutSearchResult& result) {
  if (result.open > 0) return "nothing was found in the time given";
  if (result.unsuitable == result.total) return "no layout works: " + result.nothing;
  LayoutSearchOptions other = options;
  other.target_step = Seconds(0);
  other.best = 1;
  other.frontier = false;
  other.progress = nullptr;
  if (result.evaluated + result.bounded > 0) {  // some fit
    other.objective = Objective::shortest_step;
    LayoutSearch fastest(workload, cluster, space, other);
    const LayoutSearchResult r = fastest.run();
    if (!r.best.empty())
      return "no layout takes at most " + text_of(options.target_step) + " a step: the shortest, " +
             text_of(r.best.front().plan) + ", takes " + text_of(r.best.front().iteration);
  }
  other.objective = Objective::least_memory;
  other.layout.memory_cap = Bytes(infinite);
  LayoutSearch smallest(workload, cluster, space, other);
  const LayoutSearchResult r = smallest.run();
  if (r.best.empty()) return "no layout works: " + r.nothing;
  const Bytes cap = options.layout.memory_cap > Bytes(0) ? options.layout.memory_cap : cluster.device_memory;
  return "no layout fits in " + text_of(cap) + " of device memory: the smallest, " + text_of(r.best.front().plan) +
         ", takes " + text_of(r.best.front().memory.total());
}

}  // namespace

Answer<LayoutSearchResult> best_layouts(const Workload& workload, const Cluster& cluster, const LayoutSpace& space,
                                        const LayoutSearchOptions& options) {
  LayoutSearch search(workload, cluster, space, options);
  if (search.empty())
    return Inapplicable{"no layout in the space: nothing divides " + std::to_string(cluster.workers()) +
                        " devices and a global batch of " +
                        fixed(global_batch_of(workload, cluster, options.layout), 0) + " as asked for"};
  LayoutSearchResult result = search.run();
  if (result.best.empty()) result.nothing = why_nothing(workload, cluster, space, options, result);
  return result;
}

}  // namespace stepcast
