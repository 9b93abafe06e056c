#pragma once
// Modifier: a change of a plan that can be made to many strategies' plans: compressed gradients, local updates, a
// transport that tolerates loss.
//
// Modifiers are an open family: one file each in modifiers/, listed in modifiers.inc. "ddp+powersgd(rank=4)" plans
// DDP's buckets, then rewrites the plan. Invariant: `apply` is deterministic, and turns a plan without flaw into a plan
// without flaw or says why it cannot. Not modelled: that a strategy which looks at sizes (MG-WFBP's merging) would plan
// otherwise if it knew of the modifier; what a modifier does to convergence.
//
// The table of all modifiers is in families.cpp.
#include <stepcast/base/error.hpp>
#include <stepcast/base/options.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/plan/comm_plan.hpp>
#include <stepcast/plan/fidelity.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

struct ModifierInput {
  const Profile& profile;
  const Cluster& cluster;
  const CommunicationCost& cost;
  OptionValues options{};
};

/// The start of a run, before a plan is in force: so many iterations, in which gradients travel in another way.
struct WarmUp {
  std::string_view option{};  ///< which one says how many iterations; empty: there is no such start
  /// The strategy that runs meanwhile, with the options that both have; empty: the plan without the modifier.
  std::string_view plan{};
  /// Or the plan itself, its option of this name 0 in the first of `stages` equal parts, then 1, and so on.
  std::string_view stage{};
  std::uint32_t stages = 1;
};

struct Modifier {
  std::string_view name;   ///< as written in plans: "powersgd", "local", ...
  std::string_view title;  ///< "PowerSGD"
  std::string_view summary;
  std::string_view reference;
  Fidelity fidelity = Fidelity::lossy;
  std::string_view usual_base;   ///< the strategy that it is offered with; empty: only on request
  std::string_view framework{};  ///< that it needs beside PyTorch, "DeepSpeed", or whose code; empty: PyTorch has it
  std::span<const OptionSpec> options;
  Answer<CommPlan> (*apply)(CommPlan, const ModifierInput&);
  /// What to paste into the training script; may be null.
  std::string (*settings)(const OptionValues&) = nullptr;
  /// It works on parameters on their way, too (ZeRO's gathers), not on gradients only.
  bool of_parameters = false;
  /// What is known of accuracy and of what goes wrong beyond the model; may be empty.
  std::string_view caution{};
  WarmUp warm_up{};
};

/// All modifiers (modifiers/modifiers.inc).
[[nodiscard]] std::span<const Modifier> modifiers();

/// A modifier with its options.
struct ModifierSpec {
  const Modifier* modifier = nullptr;
  OptionValues options{};
  bool operator==(const ModifierSpec&) const = default;
};

}  // namespace stepcast
