// SketchML: elements fall into quantile buckets; a byte says which one, and a table what it is worth.
//
//   bytes: as GRACE sends them d for q <= 256 buckets, else 2 d, and 4 q for the values of a tensor's buckets; gathered
//   codec, V100: 270 ms for one encoding and eight decodings (GRACE sketch); a decoding is a look-up of d values, taken
//   for natural compression's, 196 ms / 9. A host: not measured; top-k's selection (20 ns an element, also a partial
//   sort) to encode and QSGD's 0.44 to decode
//
// The quantiles come from a sketch of the values. Not modelled: sparse gradients, whose keys SketchML codes as well,
// and its MinMaxSketch of the bucket numbers, which saves bytes beyond a table of buckets.
#include <stepcast/modifiers/shared/compression.hpp>

#include <cstdio>

namespace stepcast::modifier::sketchml {
namespace {

constexpr OptionSpec options[] = {{.name = "buckets",
                                   .kind = OptionKind::count,
                                   .standard = 64,
                                   .low = 2,
                                   .high = 65536,
                                   .summary = "of quantiles in a tensor"},
                                  speed_option,
                                  overlap_option(0)};
consteval std::size_t named(std::string_view name) { return option(options, name); }
constexpr double decoding_ms = 196. / 9;
constexpr Pace encoding{v100_ns(270 - 8 * decoding_ms), 20.3}, decoding{v100_ns(decoding_ms), 0.44};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const double buckets = in.options[named("buckets")];
  const CodecClock time(in.profile, in.options[named("speed")]);
  const auto numbers = [=](const Tensor& t) {
    const double all = elements(t);
    return Encoding{.sent = Bytes(all * (buckets <= 256 ? 1 : 2) + 4 * buckets),
                    .encode = time(encoding, all),
                    .decode = time(decoding, all)};
  };
  return compressed(std::move(plan), in,
                    {.of = numbers, .exchange = Exchange::gathered, .overlapped = in.options[named("overlap")] != 0});
}

std::string settings(const OptionValues& v) {
  char text[100];
  std::snprintf(text, sizeof text, "grace_dl: SketchCompressor(quantiles=%.0f)", v[named("buckets")]);
  return text;
}

}  // namespace

extern constinit const Modifier record{
    .name = "sketchml",
    .title = "SketchML",
    .summary = "elements as numbers of quantile buckets, gathered by all",
    .reference = "Jiang et al., SIGMOD 2018; sands-lab/grace (sketch)",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "grace_dl",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "made for sparse gradients of linear models; in GRACE its codec takes longer than a dense exchange at 10 Gb/s "
        "[derived]",
};

}  // namespace stepcast::modifier::sketchml
