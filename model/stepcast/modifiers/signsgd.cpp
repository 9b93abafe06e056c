// signSGD: signs travel instead of gradients, and the majority decides.
//
//   bytes: d as GRACE sends them, d/8 packed; gathered, and a vote over P d signs; over servers the vote comes back, so
//   that the same bytes go either way
//   codec, V100: 23 ms for one encoding and eight decodings (GRACE signSGD). A host: 0.63 and 0.71 ns an element.
#include <stepcast/modifiers/shared/compression.hpp>
#include <stepcast/modifiers/shared/gathered_codes.hpp>

namespace stepcast::modifier::signsgd {
namespace {

constexpr Pace encoding{v100_ns(23) / 9, 0.63}, decoding{v100_ns(23) / 9, 0.71};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  return signs_gathered(std::move(plan), in, encoding, decoding, Bytes(0), true);
}

std::string settings(const OptionValues&) { return "grace_dl: SignSGDCompressor()"; }

}  // namespace

extern constinit const Modifier record{
    .name = "signsgd",
    .title = "signSGD with majority vote",
    .summary = "signs only, gathered by all, decided by majority",
    .reference = "Bernstein et al., ICML 2018; sands-lab/grace",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "grace_dl",
    .options = signs_options,
    .apply = apply,
    .settings = settings,
    .caution =
        "without error feedback it may not converge where gradients are skewed [textbook]; the step size has to be "
        "retuned",
};

}  // namespace stepcast::modifier::signsgd
