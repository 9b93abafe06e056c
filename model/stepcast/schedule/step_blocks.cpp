// Tasks are eliminated in the order of issue: what is alive at a free task gets a slot.
#include <stepcast/schedule/block_machine.hpp>
#include <stepcast/schedule/schedule.hpp>
#include <stepcast/schedule/step_blocks.hpp>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace stepcast {
namespace {

constexpr std::uint32_t nowhere = 0xffffffffu;

bool is_issued_by_host(const TaskGraph& graph, std::uint32_t t) {
  return graph.resources[graph.tasks[t].resource].kind == ResourceClass::host;
}

/// What each task waits for within its iteration, in the layout of TaskGraph's arcs.
struct Predecessors {
  std::vector<std::uint32_t> first, tasks;

  explicit Predecessors(const TaskGraph& graph) : first(graph.tasks.size() + 1) {
    for (const Arc& arc : graph.arcs)
      if (arc.lag == 0) ++first[arc.task + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    tasks.resize(first.back());
    std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
    for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
      for (const Arc& arc : graph.successors(t))
        if (arc.lag == 0) tasks[next[arc.task]++] = t;
  }
  [[nodiscard]] std::span<const std::uint32_t> of(std::uint32_t t) const {
    return {tasks.data() + first[t], tasks.data() + first[t + 1]};
  }
};

/// All tasks, each after what it waits for.
std::vector<std::uint32_t> topological_order(const TaskGraph& graph, const Predecessors& before) {
  std::vector<std::uint32_t> open(graph.tasks.size()), order;
  order.reserve(graph.tasks.size());
  for (std::uint32_t t = 0; t < graph.tasks.size(); ++t) {
    open[t] = static_cast<std::uint32_t>(before.of(t).size());
    if (open[t] == 0) order.push_back(t);
  }
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const Arc& arc : graph.successors(order[i]))
      if (arc.lag == 0 && --open[arc.task] == 0) order.push_back(arc.task);
  return order;
}

/// The order of issue: host work when it starts, device work and collectives when they were issued, however much later
/// they run. Few values are alive at any place of it.
std::vector<std::uint32_t> order_of_issue(const TaskGraph& graph, const Predecessors& before) {
  std::vector<std::uint32_t> order = topological_order(graph, before);
  const Timeline timeline = schedule(graph, {.most_iterations = 1});
  std::vector<Picoseconds> place(graph.tasks.size(), 0);
  for (const std::uint32_t t : order) {
    if (is_issued_by_host(graph, t)) {
      place[t] = timeline.start[t];
      continue;
    }
    for (const std::uint32_t p : before.of(t)) place[t] = std::max(place[t], place[p]);
  }
  std::ranges::stable_sort(order, {}, [&](std::uint32_t t) { return place[t]; });
  return order;
}

/// The program while it is written.
class Elimination {
 public:
  Elimination(const TaskGraph& graph, std::span<const std::uint32_t> free)
      : graph_(graph), before_(graph), place_of_free_(graph.tasks.size(), nowhere), values_(graph.tasks.size()) {
    for (std::uint32_t i = 0; i < free.size(); ++i) place_of_free_[free[i]] = i;
  }

  StepBlocks blocks() {
    load_states();
    for (const std::uint32_t t : order_of_issue(graph_, before_)) {
      evaluate(t);
      if (place_of_free_[t] != nowhere) end_block(t);
    }
    end_iteration();
    out_.rows.push_back({0, static_cast<std::uint32_t>(out_.terms.size())});
    out_.blocks.push_back({static_cast<std::uint32_t>(out_.rows.size() - 1), 0});
    out_.slots = static_cast<std::uint32_t>(taken_.size());
    return std::move(out_);
  }

 private:
  using Term = StepBlocks::Term;

  /// The end of a task (that of the iteration before, or of this one), as long as somebody needs it.
  struct Value {
    std::vector<Term> terms;  ///< by the slots at the last block's end
    std::uint32_t slot = nowhere;
    std::uint32_t uses = 0;  ///< that are still to come
    bool at_end = false;     ///< it is needed when the iteration ends
  };

  std::uint32_t take_slot() {
    const auto unused = std::ranges::find(taken_, false);
    const auto slot = static_cast<std::uint32_t>(unused - taken_.begin());
    if (unused == taken_.end()) taken_.push_back(true);
    else *unused = true;
    return slot;
  }

  /// What the next iteration waits for in this one, and the marker, which is the last of them.
  void load_states() {
    taken_.push_back(true);  // slot 0
    std::vector<std::uint32_t> lagged(graph_.tasks.size(), 0);
    waiting_for_last_.resize(graph_.tasks.size());
    for (std::uint32_t t = 0; t < graph_.tasks.size(); ++t)
      for (const Arc& arc : graph_.successors(t)) {
        if (arc.lag == 0) {
          ++values_[t].uses;
        } else {
          ++lagged[t];
          waiting_for_last_[arc.task].push_back(t);
        }
      }
    for (std::uint32_t t = 0; t < graph_.tasks.size(); ++t)
      if (lagged[t] > 0 && t != graph_.marker) states_.push_back(t);
    states_.push_back(graph_.marker);
    last_.resize(graph_.tasks.size());
    for (const std::uint32_t t : states_) {
      values_[t].at_end = true;
      Value& last = last_[t];
      last.slot = take_slot();
      last.terms = {{last.slot, 0}};
      last.uses = lagged[t];
    }
    out_.states = static_cast<std::uint32_t>(states_.size());
    best_.resize(taken_.size(), 0);
    is_touched_.resize(taken_.size(), false);
  }

  void touch(std::span<const Term> terms) {
    for (const Term& term : terms) {
      if (best_.size() <= term.slot) best_.resize(term.slot + 1), is_touched_.resize(term.slot + 1, false);
      if (!is_touched_[term.slot]) {
        is_touched_[term.slot] = true;
        touched_.push_back(term.slot);
        best_[term.slot] = term.after;
      } else {
        best_[term.slot] = std::max(best_[term.slot], term.after);
      }
    }
  }

  void use(Value& value) {
    touch(value.terms);
    if (--value.uses == 0 && !value.at_end) release(value);
  }
  /// Its slot may be taken once the block that reads it has ended.
  void release(Value& value) {
    if (value.slot != nowhere) given_back_.push_back(std::exchange(value.slot, nowhere));
    value.terms = {};
  }

  /// The end of a task by the slots; of a free task its start.
  void evaluate(std::uint32_t t) {
    for (const std::uint32_t p : before_.of(t)) use(values_[p]);
    for (const std::uint32_t p : waiting_for_last_[t]) use(last_[p]);
    if (touched_.empty()) touch(std::array{Term{0, 0}});
    Value& value = values_[t];
    const Picoseconds work = place_of_free_[t] == nowhere ? graph_.tasks[t].work : 0;
    std::ranges::sort(touched_);
    Picoseconds most = 0;
    for (const std::uint32_t slot : touched_)
      if (slot != 0) most = std::max(most, best_[slot]);
    for (const std::uint32_t slot : touched_) {
      is_touched_[slot] = false;
      // No slot is ever below 0, so that a shorter time after 0 is the maximum of nothing.
      if (slot != 0 || touched_.size() == 1 || best_[slot] > most) value.terms.push_back({slot, best_[slot] + work});
    }
    touched_.clear();
    if (value.uses > 0 || value.at_end) alive_.push_back(t);
    else if (place_of_free_[t] == nowhere) value.terms = {};
  }

  void write_row(std::uint32_t slot, std::span<const Term> terms) {
    out_.rows.push_back({slot, static_cast<std::uint32_t>(out_.terms.size())});
    out_.terms.insert(out_.terms.end(), terms.begin(), terms.end());
  }

  /// What is alive gets a slot of its own; then the free task ends.
  void end_block(std::uint32_t free) {
    const auto first_row = static_cast<std::uint32_t>(out_.rows.size());
    std::erase_if(alive_, [&](std::uint32_t t) { return values_[t].uses == 0 && !values_[t].at_end; });
    for (const std::uint32_t t : alive_) store(values_[t]);
    Value& ends = values_[free];
    std::uint32_t slot = ends.slot;
    if (slot == nowhere) {  // nobody waits for it: it ends in a slot of its own, for this block
      store(ends);
      slot = ends.slot;
      release(ends);
    }
    out_.blocks.push_back({first_row, slot});
    out_.order.push_back(place_of_free_[free]);
    for (const std::uint32_t unused : given_back_) taken_[unused] = false;
    given_back_.clear();
  }
  void store(Value& value) {
    if (value.slot != nowhere) return;
    value.slot = take_slot();
    write_row(value.slot, value.terms);
    value.terms = {{value.slot, 0}};
  }

  void end_iteration() {
    out_.blocks.push_back({static_cast<std::uint32_t>(out_.rows.size()), 0});
    for (std::uint32_t s = 0; s < states_.size(); ++s) write_row(s + 1, values_[states_[s]].terms);
  }

  const TaskGraph& graph_;
  const Predecessors before_;
  std::vector<std::uint32_t> place_of_free_;  // by task
  std::vector<Value> values_, last_;          // by task: of this iteration, and of the one before
  std::vector<std::vector<std::uint32_t>> waiting_for_last_;
  std::vector<std::uint32_t> states_, alive_;
  std::vector<bool> taken_;                // by slot
  std::vector<std::uint32_t> given_back_;  // slots that this block may still read
  std::vector<Picoseconds> best_;          // by slot, of the task that is evaluated
  std::vector<bool> is_touched_;
  std::vector<std::uint32_t> touched_;
  StepBlocks out_;
};

}  // namespace

bool works_in_program_order(const TaskGraph& graph) {
  return std::ranges::all_of(graph.resources, [](const Resource& r) { return r.discipline == Discipline::parallel; }) &&
         std::ranges::all_of(graph.tasks, [](const Task& t) { return t.slow_down == 1; }) &&
         std::ranges::all_of(graph.arcs, [](const Arc& a) { return a.lag <= 1; });
}

StepBlocks blocks_of(const TaskGraph& graph, std::span<const std::uint32_t> free) {
  return Elimination(graph, free).blocks();
}

bool is_whole(const StepBlocks& b, std::size_t free) {
  if (b.slots < 2 || b.states < 1 || b.states >= b.slots || b.rows.empty() || b.order.size() != free ||
      b.blocks.size() != free + 2)
    return false;
  const auto is_slot = [&](const auto& at) { return at.slot < b.slots; };
  return b.rows.back().first_term == b.terms.size() && b.blocks.back().first_row == b.rows.size() - 1 &&
         std::ranges::is_sorted(b.rows, {}, &StepBlocks::Row::first_term) &&
         std::ranges::is_sorted(b.blocks, {}, &StepBlocks::Block::first_row) && std::ranges::all_of(b.terms, is_slot) &&
         std::ranges::all_of(b.rows, is_slot) && std::ranges::all_of(b.blocks, is_slot) &&
         std::ranges::all_of(b.order, [&](std::uint32_t i) { return i < free; });
}

std::vector<Picoseconds> StepBlocks::ends(std::span<const Picoseconds> times, std::uint32_t iterations) const {
  BlockMachine machine(*this, times);
  std::vector<Picoseconds> out;
  for (std::uint32_t i = 0; i < iterations; ++i) {
    machine.run_iteration();
    out.push_back(machine.marker());
  }
  return out;
}

Picoseconds StepBlocks::period(std::span<const Picoseconds> times) const {
  BlockMachine machine(*this, times);
  return period_of(machine);
}

}  // namespace stepcast
