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

struct Modifier {
  std::string_view name;   ///< as written in plans: "powersgd", "local", ...
  std::string_view title;  ///< "PowerSGD"
  std::string_view summary;
  std::string_view reference;
  Fidelity fidelity = Fidelity::lossy;
  std::string_view usual_base;  ///< the strategy that it is offered with; empty: only on request
  std::span<const OptionSpec> options;
  Answer<CommPlan> (*apply)(CommPlan, const ModifierInput&);
  /// What to paste into the training script; may be null.
  std::string (*settings)(const OptionValues&) = nullptr;
  /// What is known of accuracy and of what goes wrong beyond the model; may be empty.
  std::string_view caution{};
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
