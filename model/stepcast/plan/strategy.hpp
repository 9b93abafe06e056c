#pragma once
// Strategy: a published way of communicating gradients, as a record: name, paper, options, and a pure function from
// (profile, cost, options) to a CommPlan.
//
// Strategies are an open family: one file each in strategies/, listed in strategies.inc; everything that loops over
// strategies (CLI, laws, recommendation, docs) has a new one at once. Invariant: `plan` is deterministic and its result
// satisfies CommPlan's invariants for every valid profile, or is Inapplicable with the reason.
//
// Plans as text are read and written in text.cpp; the table of all strategies is in families.cpp.
#include <stepcast/base/error.hpp>
#include <stepcast/base/options.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/plan/comm_plan.hpp>
#include <stepcast/plan/modifier.hpp>
#include <stepcast/profile/profile.hpp>

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct StrategyInput {
  const Profile& profile;
  const Cluster& cluster;
  const CommunicationCost& cost;
  OptionValues options{};
  double phase = 0.5;  ///< position of a free-running timer within its period, 0..1
  /// Where arrays may live that are only needed while the plan is written: std::pmr::vector<Group> groups(in.memory).
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
  CommPlan* recycled = nullptr;  ///< a plan that is no longer needed, whose storage `blank` hands on
  /// gradient_ready_times of the profile, where somebody who asks for many plans has them; else empty.
  std::span<const Seconds> ready{};

  /// An empty plan to begin with.
  [[nodiscard]] CommPlan blank() const { return recycled ? emptied(std::move(*recycled)) : CommPlan(); }
};

/// How the strategy's own software tunes it while it runs.
struct RunTimeTuner {
  std::uint32_t trials = 15;     ///< ByteScheduler's budget
  bool linear = false;           ///< it looks for values evenly; else on a log scale
  std::string_view option = {};  ///< the one that it tunes; empty: all that are marked
};

struct Strategy {
  std::string_view name;   ///< as written in plans: "ddp", "wfbp", "dear", ...
  std::string_view title;  ///< "PyTorch DDP buckets"
  std::string_view summary;
  std::string_view reference;
  Fidelity fidelity = Fidelity::exact;
  std::string_view needs;  ///< framework or machines it needs; empty = any ("servers" = server machines)
  std::span<const OptionSpec> options;
  std::uint32_t phases = 1;  ///< > 1: predictions are averaged over this many timer phases
  Answer<CommPlan> (*plan)(const StrategyInput&);
  /// What to paste into the training script, for these option values.
  std::string (*settings)(const OptionValues&);
  /// What is known to go wrong beyond the model, for whoever is about to use it; may be empty.
  std::string_view caution{};
  /// The only framework that it exists for; empty: PyTorch or any.
  std::string_view framework{};
  /// The collective that it is made for, unless its plan names one; empty: the cluster's default.
  std::string_view collective{};
  RunTimeTuner tuner{};
  /// Its workers compute another network than the one that is asked about, whose steps say nothing of it: it is ranked
  /// only where somebody names it.
  bool of_own_network = false;
  /// By how many steps a worker may be ahead of the slowest one; infinity: nobody waits for anybody. Null: by none.
  double (*lead)(const OptionValues&) = nullptr;
  WarmUp warm_up{};
  /// Its plan is the same on all links: of the cluster it depends on the number of workers alone.
  bool same_on_all_links = false;
};

/// All strategies (strategies/strategies.inc).
[[nodiscard]] std::span<const Strategy> strategies();
[[nodiscard]] const Strategy* strategy_named(std::string_view name);
[[nodiscard]] OptionValues standard_options(const Strategy&);

/// A strategy with its options, modifiers of its plan, and a collective algorithm: one point of the search space.
struct PlanSpec {
  const Strategy* strategy = nullptr;
  OptionValues options{};
  std::string collective{};               ///< "" = the cluster's default
  std::vector<ModifierSpec> modifiers{};  ///< applied in this order
  /// Keeps `strategy` where it is none of strategies(), but stands for a plan that the caller made itself.
  std::shared_ptr<const Strategy> own{};
};
/// The collective that a plan runs on: its own, else its strategy's, else "", the cluster's default.
[[nodiscard]] inline std::string_view collective_of(const PlanSpec& spec) {
  return spec.collective.empty() ? spec.strategy->collective : std::string_view(spec.collective);
}
/// Reads "dear(bucket=25 MiB)+powersgd(rank=4)@ring"; spaces are optional. Throws InputError with column and
/// suggestion.
[[nodiscard]] PlanSpec plan_spec_of(std::string_view text);
/// Writes it back, only options that differ from the default; reads back to the same value.
[[nodiscard]] std::string text_of(const PlanSpec&);
/// What has to be there besides workers and links: "servers", "programmable switch", ...; from the strategy and its
/// collective.
[[nodiscard]] std::vector<std::string_view> requirements_of(const PlanSpec&);
/// Server machines are among them.
[[nodiscard]] bool needs_servers(const PlanSpec&);
/// The furthest that the strategy or one of its modifiers departs from synchronous training.
[[nodiscard]] Fidelity fidelity_of(const PlanSpec&);
/// By how many steps a worker may be ahead of the slowest one (Strategy::lead); 0 where all go together.
[[nodiscard]] double lead_of(const PlanSpec&);
/// The strategy's plan with all modifiers applied. `spec.options` must be numbers (nothing left to tune).
[[nodiscard]] Answer<CommPlan> comm_plan_of(const PlanSpec& spec, const Profile&, const Cluster&,
                                            const CommunicationCost&, double phase = 0.5);
/// The same; the options of `input` are those of the strategy.
[[nodiscard]] Answer<CommPlan> comm_plan_of(const PlanSpec& spec, const StrategyInput& input);

}  // namespace stepcast
