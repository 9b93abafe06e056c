// 1-bit LAMB: 1-bit Adam's exchange for LAMB, whose layer-wise learning rates follow frozen scales after the warm-up.
//
//   compute |  F B | encode |              | add, encode a P-th |              | decode | U
//   net     |               | [ scatter ]  |                    | [ gather ]   |
//
//   bytes: d/8 and a scale, scattered and gathered; codec as in 1-bit Adam
//
// A step after the warm-up is predicted; before it the plan without this modifier holds. Not modelled: the ratio of
// every layer that is computed anew each step (two norms of its weights).
#include <stepcast/modifiers/shared/compression.hpp>
#include <stepcast/modifiers/shared/scattered_signs.hpp>

namespace stepcast::modifier::onebit_lamb {
namespace {

constexpr OptionSpec options[] = {speed_option, overlap_option(0)};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  return signs_scattered(std::move(plan), in, in.options[named("speed")], in.options[named("overlap")] != 0);
}

std::string settings(const OptionValues&) {
  return "DeepSpeed: \"optimizer\": {\"type\": \"OneBitLamb\", \"params\": {\"freeze_step\": 1000}}";
}

}  // namespace

extern constinit const Modifier record{
    .name = "onebit_lamb",
    .title = "1-bit LAMB",
    .summary = "signs of the momentum after a dense warm-up, for LAMB's layer-wise rates",
    .reference = "Li et al., arXiv 2104.06069; DeepSpeed documentation",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "DeepSpeed",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "volume up to 4.6 x less over a whole run [source]; needs the dense warm-up (freeze_step): the predicted step "
        "is "
        "one after it",
};

}  // namespace stepcast::modifier::onebit_lamb
