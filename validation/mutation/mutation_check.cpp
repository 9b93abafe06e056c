// The mutation check: breaks the time of one record of the open families after the other, and demands that validation
// turns red.
//
// What no case notices could be wrong without anybody knowing. This program is the library with other tables: those of
// families.cpp are replaced by the ones below, in which one record at a time is off by a fifth. A broken record is
// read, planned with, lowered and scheduled like a sound one, and a case is red by the rule of `stepcast validate`. Off
// by a fifth means
//
//   collective   its form for one operation
//   strategy     every transfer and codec of its plans, and what these add to the update
//   modifier     the same of the plans that it returns
//
// in either direction. Counted are the shipped suites, with files of this repository only; a plan that can no longer be
// predicted is no red case here. Exits with 1 when a mutation survives.
#include <stepcast/cluster/collective.hpp>
#include <stepcast/plan/modifier.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/validation/validation.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

namespace stepcast {
namespace {

double factor = 1;  ///< on the time of the broken record; constant while validation runs

/// A change of a table that turns it into a broken one, and back when it is made again.
struct Mutation {
  std::string name;
  std::function<bool(const PlanSpec&)> reaches;  ///< plans that use the record; none: any may
  std::function<void()> toggle;
};

template <class Function>
std::function<void()> swap_of(Function*& entry, Function* other) {
  return [&entry, other]() mutable { std::swap(entry, other); };
}

// ---- collectives ----

using Form = CostLine (*)(const Cluster&);

template <const CollectiveAlgorithm& original, Form CollectiveAlgorithm::*form>
CostLine broken_form(const Cluster& cluster) {
  const CostLine line = (original.*form)(cluster);
  return {line.start_up * factor, line.seconds_per_byte * factor};
}

template <const CollectiveAlgorithm& original, Operation broken>
CostLines broken_choices(const Cluster& cluster, Operation op) {
  CostLines lines = original.choices(cluster, op);
  if (op == broken)
    for (CostLine& line : lines.line) line = {line.start_up * factor, line.seconds_per_byte * factor};
  return lines;
}

/// Breaks an operation where its time comes from: the algorithm's choices, if it has some for it, else its form, which
/// beside choices is only what plans merge by.
template <const CollectiveAlgorithm& original>
void add_mutations(CollectiveAlgorithm& entry, std::vector<Mutation>& out) {
  const Cluster machines = cluster_of_flags(8, 1, "10 Gb/s");
  const auto chooses = [&](Operation op) { return entry.choices && entry.choices(machines, op).count > 0; };
  const auto name = [&](std::string_view part) {
    return "collective " + std::string(entry.name) + ": " + std::string(part);
  };
  const auto add = [&]<Form CollectiveAlgorithm::*form>(Operation op) {
    if (entry.*form && !chooses(op))
      out.push_back({name(name_of(op)), {}, swap_of(entry.*form, &broken_form<original, form>)});
  };
  const auto add_choices = [&]<Operation op>() {
    if (chooses(op)) out.push_back({name(name_of(op)), {}, swap_of(entry.choices, &broken_choices<original, op>)});
  };
  add.template operator()<&CollectiveAlgorithm::all_reduce>(Operation::all_reduce);
  add.template operator()<&CollectiveAlgorithm::reduce_scatter>(Operation::reduce_scatter);
  add.template operator()<&CollectiveAlgorithm::all_gather>(Operation::all_gather);
  add.template operator()<&CollectiveAlgorithm::broadcast>(Operation::broadcast);
  add.template operator()<&CollectiveAlgorithm::all_to_all>(Operation::all_to_all);
  add_choices.template operator()<Operation::all_reduce>();
  add_choices.template operator()<Operation::reduce_scatter>();
  add_choices.template operator()<Operation::all_gather>();
  add_choices.template operator()<Operation::broadcast>();
  add_choices.template operator()<Operation::all_to_all>();
  add_choices.template operator()<Operation::send>();
}

// ---- strategies and modifiers ----

Answer<CommPlan> off_by_factor(Answer<CommPlan> plan, const CommunicationCost& cost) {
  if (!plan) return plan;
  for (Transfer& t : plan->transfers) {
    t.delay *= factor;
    if (!cost.defines(t.operation)) continue;
    const Seconds alone = cost(t.operation, t.size);
    t.overhead = (alone + t.overhead) * factor - alone;
  }
  for (Codec& codec : plan->codecs) codec.time *= factor;
  plan->update_per_tensor *= factor;
  return plan;
}

template <const Strategy& original>
Answer<CommPlan> broken_plan(const StrategyInput& input) {
  return off_by_factor(original.plan(input), input.cost);
}

template <const Strategy& original>
void add_mutations(Strategy& entry, std::vector<Mutation>& out) {
  const auto reaches = [&entry](const PlanSpec& plan) { return plan.strategy == &entry; };
  out.push_back({"strategy " + std::string(entry.name), reaches, swap_of(entry.plan, &broken_plan<original>)});
}

template <const Modifier& original>
Answer<CommPlan> broken_application(CommPlan plan, const ModifierInput& input) {
  return off_by_factor(original.apply(std::move(plan), input), input.cost);
}

template <const Modifier& original>
void add_mutations(Modifier& entry, std::vector<Mutation>& out) {
  const auto reaches = [&entry](const PlanSpec& plan) {
    return std::any_of(plan.modifiers.begin(), plan.modifiers.end(),
                       [&](const ModifierSpec& m) { return m.modifier == &entry; });
  };
  out.push_back({"modifier " + std::string(entry.name), reaches, swap_of(entry.apply, &broken_application<original>)});
}

}  // namespace

// ---- the tables ----

#define STEPCAST_MEMBER(member)            \
  namespace collective::member {           \
  extern const CollectiveAlgorithm record; \
  }
#include <stepcast/collectives/collectives.inc>
#undef STEPCAST_MEMBER
#define STEPCAST_MEMBER(member) \
  namespace strategy::member {  \
  extern const Strategy record; \
  }
#include <stepcast/strategies/strategies.inc>
#undef STEPCAST_MEMBER
#define STEPCAST_MEMBER(member) \
  namespace modifier::member {  \
  extern const Modifier record; \
  }
#include <stepcast/modifiers/modifiers.inc>
#undef STEPCAST_MEMBER

namespace {

std::span<CollectiveAlgorithm> collective_table() {
  static CollectiveAlgorithm all[] = {
#define STEPCAST_MEMBER(member) collective::member::record,
#include <stepcast/collectives/collectives.inc>
#undef STEPCAST_MEMBER
  };
  return all;
}

std::span<Strategy> strategy_table() {
  static Strategy all[] = {
#define STEPCAST_MEMBER(member) strategy::member::record,
#include <stepcast/strategies/strategies.inc>
#undef STEPCAST_MEMBER
  };
  return all;
}

std::span<Modifier> modifier_table() {
  static Modifier all[] = {
#define STEPCAST_MEMBER(member) modifier::member::record,
#include <stepcast/modifiers/modifiers.inc>
#undef STEPCAST_MEMBER
  };
  return all;
}

std::vector<Mutation> mutations() {
  std::vector<Mutation> out;
  auto collective = collective_table().begin();
#define STEPCAST_MEMBER(member) add_mutations<collective::member::record>(*collective++, out);
#include <stepcast/collectives/collectives.inc>
#undef STEPCAST_MEMBER
  auto strategy = strategy_table().begin();
#define STEPCAST_MEMBER(member) add_mutations<strategy::member::record>(*strategy++, out);
#include <stepcast/strategies/strategies.inc>
#undef STEPCAST_MEMBER
  auto modifier = modifier_table().begin();
#define STEPCAST_MEMBER(member) add_mutations<modifier::member::record>(*modifier++, out);
#include <stepcast/modifiers/modifiers.inc>
#undef STEPCAST_MEMBER
  return out;
}

}  // namespace

std::span<const CollectiveAlgorithm> collective_algorithms() { return collective_table(); }
std::span<const Strategy> strategies() { return strategy_table(); }
std::span<const Modifier> modifiers() { return modifier_table(); }

// ---- the check ----

namespace {

class Validation {
 public:
  explicit Validation(std::filesystem::path root) : root_(std::move(root)) {
    for (const std::string& name : shipped_suite_names()) suites_.push_back(shipped_suite(name));
    options_.file = [this](const std::string& path) { return file(path); };
  }

  /// Of the cases whose plans satisfy `concerned` (empty: of all) those that fail although there is a prediction.
  [[nodiscard]] std::vector<std::string> red_cases(const std::function<bool(const PlanSpec&)>& concerned = {}) const {
    std::vector<ValidationSuite> suites = suites_;
    for (ValidationSuite& suite : suites)
      std::erase_if(suite.cases, [&](const ValidationCase& c) {
        return concerned && !concerned(c.inputs.plan) && !concerned(c.inputs.over);
      });
    std::vector<std::string> red;
    for (const SuiteResult& suite : validated(std::move(suites), options_))
      for (std::size_t i = 0; i < suite.results.size(); ++i)
        if (suite.results[i].outcome == Outcome::failed && suite.results[i].predicted_any)
          red.push_back(suite.suite.name + " " + suite.suite.cases[i].id);
    return red;
  }

 private:
  /// Read once; files beside the repository do not count.
  std::optional<std::string> file(const std::string& path) {
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = files_.try_emplace(path);
    std::ifstream in;
    if (is_new && !path.starts_with("..")) in.open(root_ / path, std::ios::binary);
    if (in.is_open()) known->second = std::string(std::istreambuf_iterator<char>(in), {});
    return known->second;
  }

  std::filesystem::path root_;
  std::vector<ValidationSuite> suites_;
  ValidationOptions options_;
  std::mutex mutex_;
  std::map<std::string, std::optional<std::string>> files_;
};

/// Runs validation with one record broken, prints what it noticed, and returns whether it noticed it in either
/// direction.
bool noticed(const Mutation& mutation, const Validation& validation) {
  bool always = true;
  std::string first;
  std::cout << std::left << std::setw(45) << mutation.name << std::right;
  mutation.toggle();
  for (const double f : {1.2, 0.8}) {
    factor = f;
    const std::vector<std::string> red = validation.red_cases(mutation.reaches);
    always = always && !red.empty();
    if (first.empty() && !red.empty()) first = red.front();
    std::cout << std::setw(6) << red.size();
  }
  mutation.toggle();
  std::cout << "  " << first << (always ? "" : "  SURVIVED") << '\n';
  return always;
}

int check(const std::filesystem::path& root) {
  const Validation validation(root);
  if (const auto red = validation.red_cases(); !red.empty()) {
    std::cerr << "mutation_check: " << red.size() << " cases are red without any mutation, the first one: " << red[0]
              << '\n';
    return 2;
  }
  std::cout << "broken                            red at time * 1.2 * 0.8  the first one\n";
  std::vector<std::string> survivors;
  int count = 0;
  for (const Mutation& mutation : mutations()) {
    ++count;
    if (!noticed(mutation, validation)) survivors.push_back(mutation.name);
  }
  for (const std::string& name : survivors) std::cout << "no case would notice if this were wrong: " << name << '\n';
  std::cout << "mutations: " << count - static_cast<int>(survivors.size()) << " passed, " << survivors.size()
            << " failed\n";
  return survivors.empty() ? 0 : 1;
}

}  // namespace
}  // namespace stepcast

int main(int count, char** arguments) {
  if (count > 2) {
    std::cerr << "mutation_check [ROOT]: the repository is ROOT or the current folder\n";
    return 2;
  }
  return stepcast::check(count == 2 ? arguments[1] : ".");
}
