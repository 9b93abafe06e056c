// 1-bit SGD: a bit says on which side of zero an element is, and two means what that is worth; errors are fed back.
//
//   bytes: d as GRACE sends them, d/8 packed, and 8 for the two means of a tensor; gathered. A server's sum is as long
//   as all messages, and at most dense.
//   codec, V100: 32 ms for one encoding and eight decodings (GRACE 1-bit); a decoding is signSGD's, 23 ms / 9. A host:
//   20 ns an element to encode as GRACE's PyTorch code does (masked means), 0.71 to decode.
#include <stepcast/modifiers/shared/compression.hpp>
#include <stepcast/modifiers/shared/gathered_codes.hpp>

namespace stepcast::modifier::onebit {
namespace {

constexpr Pace encoding{v100_ns(32 - 8 * 23 / 9.), 20.4}, decoding{v100_ns(23) / 9, 0.71};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  return signs_gathered(std::move(plan), in, encoding, decoding, Bytes(8), false);
}

std::string settings(const OptionValues&) { return "grace_dl: OneBitCompressor()"; }

}  // namespace

extern constinit const Modifier record{
    .name = "onebit",
    .title = "1-bit SGD",
    .summary = "one bit an element and two means a tensor with error feedback, gathered by all",
    .reference = "Seide et al., Interspeech 2014; sands-lab/grace",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "grace_dl",
    .options = signs_options,
    .apply = apply,
    .settings = settings,
    .caution = "needs the residual; published for speech models, where the first epoch ran dense [recalled]",
};

}  // namespace stepcast::modifier::onebit
