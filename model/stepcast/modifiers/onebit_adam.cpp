// 1-bit Adam: after a dense warm-up the variance is frozen, and signs of the momentum are exchanged.
//
//   compute |  F B | encode |              | add, encode a P-th |              | decode | U
//   net     |               | [ scatter ]  |                    | [ gather ]   |
//
//   bytes: d/8 and a scale, scattered and gathered: as a ring of that size. Against fp16 over a whole run of which a
//   share w is dense: 1 / (w + (1 - w) / 16); 23,000 of 152,000 steps give 4.9 [derived].
// A step after the warm-up is predicted; before it the plan without this modifier holds.
#include <stepcast/modifiers/shared/compression.hpp>
#include <stepcast/modifiers/shared/scattered_signs.hpp>

#include <string>

namespace stepcast::modifier::onebit_adam {
namespace {

constexpr OptionSpec options[] = {speed_option,
                                  overlap_option(0),
                                  {.name = "warmup",
                                   .kind = OptionKind::count,
                                   .standard = 23000,
                                   .low = 0,
                                   .high = 1e9,
                                   .summary = "dense iterations at the start of a run (freeze_step)"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  return signs_scattered(std::move(plan), in, in.options[named("speed")], in.options[named("overlap")] != 0);
}

std::string settings(const OptionValues& v) {
  return "DeepSpeed: \"optimizer\": {\"type\": \"OneBitAdam\", \"params\": {\"freeze_step\": " +
         std::to_string(static_cast<long long>(v[named("warmup")])) + "}}";
}

}  // namespace

extern constinit const Modifier record{
    .name = "onebit_adam",
    .title = "1-bit Adam",
    .summary = "signs of the momentum after a dense warm-up, scattered and gathered",
    .reference = "Tang et al., ICML 2021; DeepSpeed documentation",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "DeepSpeed",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "volume up to 5 x less, speed up to 3.4 x [source]; needs the dense warm-up (freeze_step): the predicted step "
        "is one "
        "after it",
    .warm_up = {.option = "warmup"},
};

}  // namespace stepcast::modifier::onebit_adam
