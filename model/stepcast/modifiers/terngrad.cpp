// TernGrad: elements become -1, 0 or 1 times the largest of the tensor, at random, after clipping at 2.5 sigma.
//
//   bytes: d as GRACE sends them, packed 2 bits an element (log2 3 = 1.58 suffice), and 4 for the scale of a tensor;
//   gathered. Over servers with shared scales a sum of P has 2 P + 1 levels: it comes back with as many bits.
//   codec, V100: not measured by itself; GRACE's 8-bit quantiser, 206 ms for one encoding and eight decodings, is
//   taken, as for QSGD. A host: 23.8 ns an element to encode, 0.44 to decode.
#include <stepcast/modifiers/shared/compression.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace stepcast::modifier::terngrad {
namespace {

constexpr OptionSpec options[] = {values_option, speed_option, overlap_option(0)};
consteval std::size_t named(std::string_view name) { return option(options, name); }
constexpr Pace encoding{v100_ns(206) / 9, 23.8}, decoding{v100_ns(206) / 9, 0.44};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const double bits = in.options[named("values")] == 0 ? 8 : 2;
  const double summed = std::max(bits, std::ceil(std::log2(2.0 * static_cast<double>(in.cluster.nodes) + 1)));
  const CodecClock time(in.profile, in.options[named("speed")]);
  const auto ternary = [=](const Tensor& t) {
    const double all = elements(t);
    return Encoding{.sent = Bytes(all * bits / 8 + 4),
                    .pulled = Bytes(all * summed / 8 + 4),
                    .encode = time(encoding, all),
                    .decode = time(decoding, all)};
  };
  return compressed(std::move(plan), in,
                    {.of = ternary, .exchange = Exchange::gathered, .overlapped = in.options[named("overlap")] != 0});
}

std::string settings(const OptionValues&) { return "grace_dl: TernGradCompressor()"; }

}  // namespace

extern constinit const Modifier record{
    .name = "terngrad",
    .title = "TernGrad",
    .summary = "elements become -1, 0 or 1 times a scale, gathered by all",
    .reference = "Wen et al., NeurIPS 2017; sands-lab/grace",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "grace_dl",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution = "unbiased, but noisy: accuracy falls on large models [recalled]",
};

}  // namespace stepcast::modifier::terngrad
