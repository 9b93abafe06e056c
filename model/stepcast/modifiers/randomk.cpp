// Random-k: all workers send the same random elements, so that they add up in an all-reduce without any index.
//
//   bytes: k values; time = that of a dense ring of k M; k = 1 with free codecs is the plan itself
//   codec, V100 (GRACE random-k 1, 50 %: 11, 80 ms, a line; 10, 25 %: 26, 37 held out): 9.6 ms for all elements
//   (residual), 140.8 ms times k for gather and scatter
// A host: 0.38 ns an element for the residual; 7.6 ns to draw and gather, 3.1 to scatter one that is kept.
#include <stepcast/modifiers/shared/compression.hpp>

#include <cstdio>

namespace stepcast::modifier::randomk {
namespace {

constexpr OptionSpec options[] = {fraction_option(0.01, "share of the elements that is sent"), speed_option,
                                  overlap_option(0)};
consteval std::size_t named(std::string_view name) { return option(options, name); }
constexpr Pace residual{v100_ns(9.6), 0.38}, gathered{v100_ns(140.8) / 2, 7.6}, scattered{v100_ns(140.8) / 2, 3.1};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const double fraction = in.options[named("fraction")];
  const CodecClock time(in.profile, in.options[named("speed")]);
  const auto drawn = [=](const Tensor& t) {
    const double all = elements(t), kept = fraction * all;
    return Encoding{.sent = fraction * t.size,
                    .encode = time(residual, all) + time(gathered, kept),
                    .decode = time(scattered, kept)};
  };
  return compressed(std::move(plan), in, {.of = drawn, .overlapped = in.options[named("overlap")] != 0});
}

std::string settings(const OptionValues& v) {
  char text[100];
  std::snprintf(text, sizeof text, "grace_dl: RandomKCompressor(compress_ratio=%.4g)", v[named("fraction")]);
  return text;
}

}  // namespace

extern constinit const Modifier record{
    .name = "randomk",
    .title = "random-k sparsification",
    .summary = "the same random elements of all workers, all-reduced",
    .reference = "sands-lab/grace",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "grace_dl",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution = "needs the residual and the same seed everywhere; random elements carry less than the largest ones",
};

}  // namespace stepcast::modifier::randomk
