// Signum: signSGD of the momentum instead of the gradient.
//
//   bytes as signSGD
//   codec, V100: 45 ms for one encoding and eight decodings (GRACE Signum); a decoding is signSGD's, 23 ms / 9, the
//   momentum is the rest. A host: 0.63 + 0.41 to encode, 0.71 ns an element to decode.
#include <stepcast/modifiers/shared/compression.hpp>
#include <stepcast/modifiers/shared/gathered_codes.hpp>

namespace stepcast::modifier::signum {
namespace {

constexpr Pace encoding{v100_ns(45 - 8 * 23 / 9.), 1.04}, decoding{v100_ns(23) / 9, 0.71};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  return signs_gathered(std::move(plan), in, encoding, decoding, Bytes(0), true);
}

std::string settings(const OptionValues&) { return "grace_dl: SignumCompressor()"; }

}  // namespace

extern constinit const Modifier record{
    .name = "signum",
    .title = "Signum",
    .summary = "signs of the momentum, gathered by all, decided by majority",
    .reference = "Bernstein et al., ICML 2018; sands-lab/grace",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "grace_dl",
    .options = signs_options,
    .apply = apply,
    .settings = settings,
    .caution =
        "as signSGD: the step size has to be retuned, convergence without error feedback is not guaranteed [textbook]",
};

}  // namespace stepcast::modifier::signum
