// Threshold: all elements above a bound are sent with their indices.
//
//   bytes: 8 for each that is kept, gathered; how many is up to the data: `kept` has to be measured
//   codec: one pass over all elements, then as top-k without its selection. The pass has no figure: on a V100 that of a
//   sign (GRACE signSGD, 23 ms / 9) is taken; a host compares and lists in 2.8 ns an element.
#include <stepcast/modifiers/shared/compression.hpp>
#include <stepcast/modifiers/shared/gathered_codes.hpp>

namespace stepcast::modifier::threshold {
namespace {

constexpr OptionSpec options[] = {{.name = "kept",
                                   .kind = OptionKind::number,
                                   .standard = 0.01,
                                   .low = 1e-6,
                                   .high = 1,
                                   .summary = "share of the elements that is above the threshold"},
                                  speed_option,
                                  overlap_option(0)};
consteval std::size_t named(std::string_view name) { return option(options, name); }
constexpr Pace comparison{v100_ns(23) / 9, 2.8};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const Selection above{in.options[named("kept")], Bytes(4), comparison, top_k_element};
  return selection_gathered(std::move(plan), in, above, in.options[named("speed")], in.options[named("overlap")] != 0);
}

std::string settings(const OptionValues&) { return "grace_dl: ThresholdCompressor(threshold=...)"; }

}  // namespace

extern constinit const Modifier record{
    .name = "threshold",
    .title = "threshold sparsification",
    .summary = "all elements above a bound with their indices, gathered by all",
    .reference = "sands-lab/grace",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "grace_dl",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution = "the volume depends on the data and changes during training: measure the share that is kept",
};

}  // namespace stepcast::modifier::threshold
