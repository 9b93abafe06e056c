// EF-signSGD: signs and their mean magnitude travel, and the error is added to the next gradient.
//
//   bytes: d as GRACE sends them, d/8 packed, and 4 for the scale of a tensor; gathered. A server's sum is as long as
//   all messages, and at most dense.
//   codec, V100: not measured by itself (GRACE's upper bound of it is no bound); 1-bit's 32 ms, which also keeps a
//   residual and takes means, are taken. A host: 2.9 ns an element to encode, 0.71 to decode.
#include <stepcast/modifiers/shared/compression.hpp>
#include <stepcast/modifiers/shared/gathered_codes.hpp>

namespace stepcast::modifier::efsign {
namespace {

constexpr Pace encoding{v100_ns(32 - 8 * 23 / 9.), 2.9}, decoding{v100_ns(23) / 9, 0.71};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  return signs_gathered(std::move(plan), in, encoding, decoding, Bytes(4), false);
}

std::string settings(const OptionValues&) { return "grace_dl: EFSignSGDCompressor()"; }

}  // namespace

extern constinit const Modifier record{
    .name = "efsign",
    .title = "EF-signSGD",
    .summary = "signs and one scale a tensor with error feedback, gathered by all",
    .reference = "Karimireddy et al., ICML 2019; sands-lab/grace",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "grace_dl",
    .options = signs_options,
    .apply = apply,
    .settings = settings,
    .caution = "error feedback repairs signSGD's convergence; the residual is as large as the gradient",
};

}  // namespace stepcast::modifier::efsign
