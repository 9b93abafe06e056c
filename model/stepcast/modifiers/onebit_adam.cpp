// 1-bit Adam: after a dense warm-up the variance is frozen, and signs of the momentum are exchanged.
//
//   compute |  F B | encode |              | add, encode a P-th |              | decode | U
//   net     |               | [ scatter ]  |                    | [ gather ]   |
//
//   bytes: d/8 and a scale, scattered and gathered: as a ring of that size. Against fp16 over a whole run of which a
//   share w is dense: 1 / (w + (1 - w) / 16); 23,000 of 152,000 steps give 4.9 [derived].
// A step after the warm-up is predicted; before it the plan without this modifier holds.
//   codec, V100: sign, scale and residual, as 1-bit SGD's encoding: (32 - 8 * 23 / 9) ms, and 23 / 9 to decode, of
//   GRACE. A host: 2.9 and 0.71 ns an element.
#include <stepcast/modifiers/shared/compression.hpp>

namespace stepcast::modifier::onebit_adam {
namespace {

constexpr OptionSpec options[] = {speed_option, overlap_option(0)};
consteval std::size_t named(std::string_view name) { return option(options, name); }
constexpr Pace encoding{v100_ns(32 - 8 * 23 / 9.), 2.9}, decoding{v100_ns(23) / 9, 0.71};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const CodecClock time(in.profile, in.options[named("speed")]);
  const auto signs = [=](const Tensor& t) {
    const double all = elements(t);
    return Encoding{.sent = Bytes(all / 8 + 4), .encode = time(encoding, all), .decode = time(decoding, all)};
  };
  return compressed(std::move(plan), in,
                    {.of = signs, .exchange = Exchange::scattered, .overlapped = in.options[named("overlap")] != 0});
}

std::string settings(const OptionValues&) {
  return "DeepSpeed: \"optimizer\": {\"type\": \"OneBitAdam\", \"params\": {\"freeze_step\": 23000}}";
}

}  // namespace

extern constinit const Modifier record{
    .name = "onebit_adam",
    .title = "1-bit Adam",
    .summary = "signs of the momentum after a dense warm-up, scattered and gathered",
    .reference = "Tang et al., ICML 2021; DeepSpeed documentation",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "volume up to 5 x less, speed up to 3.4 x [source]; needs the dense warm-up (freeze_step): the predicted step "
        "is one "
        "after it",
};

}  // namespace stepcast::modifier::onebit_adam
