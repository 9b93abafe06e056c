#pragma once
// Room whatif: changes of a training step that somebody considers; the input pipeline that feeds it.
//
//   profile -> batch(to=128) -> amp -> profile
//
// It may include base, encodings, profile, cluster and plan.
//
// What-if: a change of the training step that somebody considers making (mixed precision, a fused optimizer, another
// batch, a faster device) as a record: name, source, options, and a pure function from a profile to a profile.
//
// What-ifs are an open family: one file each in whatifs/, listed in whatifs.inc. "batch(to=128)+amp" is a scenario: two
// what-ifs, the second made to the result of the first. Invariant: `apply` is deterministic and turns a valid profile
// into a valid profile, or is Inapplicable with the reason. A few what-ifs change the plan and not the profile: they
// name the collective that they stand for. Distribution, P3 and compressed gradients, which Daydream also counts as
// what-ifs, are plans here: strategies and modifiers. Not modelled: what a change does to convergence; memory that no
// longer fits.
//
// Scenarios as text are read and written in text.cpp.
#include <stepcast/base/error.hpp>
#include <stepcast/base/options.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/profile/profile.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct Cluster;
struct InputPipeline;
/// What feeds the steps on which cluster, for what-ifs that change it; without a pipeline nothing is known of that.
struct Feed {
  std::shared_ptr<const InputPipeline> pipeline;
  const Cluster& cluster;
};

struct WhatIfInput {
  const Profile& profile;
  const OptionValues& options;
  const std::string& layers;  ///< patterns of the option that names layers
  /// The same model traced with another batch, if there is such a profile.
  const Profile* other_batch = nullptr;
  std::size_t position = 0;  ///< number of what-ifs that were made before this one
  const Feed* feed = nullptr;
};

struct WhatIf {
  std::string_view name;   ///< as written in scenarios: "amp"
  std::string_view title;  ///< "mixed precision"
  std::string_view summary;
  std::string_view reference;
  std::span<const OptionSpec> options;
  /// The changed profile, with what was assumed appended to `assumed`. Measured step times are the caller's business.
  Answer<Profile> (*apply)(const WhatIfInput&);
  /// How far the answer can be trusted.
  std::string_view caution{};
  /// The collective algorithm that a plan has to run with, for what-ifs that change the plan; else empty.
  std::string_view collective{};
  /// What feeds the steps afterwards, for what-ifs that change it; else null.
  Answer<InputPipeline> (*feed_after)(const WhatIfInput&) = nullptr;
};

/// All what-ifs (whatifs/whatifs.inc).
[[nodiscard]] std::span<const WhatIf> whatifs();
[[nodiscard]] const WhatIf* whatif_named(std::string_view name);

/// A what-if with its options.
struct WhatIfSpec {
  const WhatIf* what = nullptr;
  OptionValues options{};
  std::string layers{};
  bool operator==(const WhatIfSpec&) const = default;
};
/// What-ifs in the order in which they are made.
using Scenario = std::vector<WhatIfSpec>;
/// The what-if of that name with one of its options; both have to exist.
[[nodiscard]] WhatIfSpec whatif_with(std::string_view name, std::string_view option, double value);

/// Reads "batch(to=128)+amp(gemm=2.5)"; spaces are optional, a value may stand in double quotes. Throws InputError with
/// column and suggestion.
[[nodiscard]] Scenario scenario_of(std::string_view text);
/// Writes it back, only options that differ from the default; reads back to the same value.
[[nodiscard]] std::string text_of(const Scenario&);

/// The profile after all what-ifs of the scenario, in order; measured step times follow the computed step. `feed`
/// becomes what feeds the steps after them.
[[nodiscard]] Answer<Profile> profile_after(const Scenario&, const Profile&, const Profile* other_batch = nullptr,
                                            Feed* feed = nullptr);
/// The plan after them: the collective of the last one that names one.
[[nodiscard]] PlanSpec plan_after(const Scenario&, PlanSpec);

}  // namespace stepcast
