// Natural compression: elements are rounded at random to a power of two; sign and exponent travel.
//
//   bytes: d, gathered
//   codec, V100: 196 ms for one encoding and eight decodings (GRACE natural). A host: 21 ns an element to encode, 9 to
//   decode.
#include <stepcast/modifiers/shared/compression.hpp>

#include <cstdio>

namespace stepcast::modifier::natural {
namespace {

constexpr OptionSpec options[] = {speed_option, overlap_option(0)};
consteval std::size_t named(std::string_view name) { return option(options, name); }
constexpr Pace encoding{v100_ns(196) / 9, 21.0}, decoding{v100_ns(196) / 9, 9.1};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const CodecClock time(in.profile, in.options[named("speed")]);
  const auto rounded = [=](const Tensor& t) {
    const double all = elements(t);
    return Encoding{.sent = Bytes(all), .encode = time(encoding, all), .decode = time(decoding, all)};
  };
  return compressed(std::move(plan), in,
                    {.of = rounded, .exchange = Exchange::gathered, .overlapped = in.options[named("overlap")] != 0});
}

std::string settings(const OptionValues&) { return "grace_dl: NaturalCompressor()"; }

}  // namespace

extern constinit const Modifier record{
    .name = "natural",
    .title = "natural compression",
    .summary = "elements rounded at random to powers of two, a byte each, gathered by all",
    .reference = "Horvath et al., arXiv 1905.10988; sands-lab/grace",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "grace_dl",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "unbiased, variance at most 9/8 [recalled]; in GRACE its codec takes longer than a dense exchange at 10 Gb/s "
        "[derived]",
};

}  // namespace stepcast::modifier::natural
