// DGC: deep gradient compression; top-k by a sampled threshold, with momentum correction and a warm-up of its sparsity.
//
//   bytes: 8 k d (values and int32 indices), gathered; k = 0.001 after the warm-up
//   warm-up [recalled]: 25, 6.25, 1.56, 0.4 % of the elements in the first four epochs, then `fraction`
//   codec, V100 (GRACE DGC 10, 50 %: 201, 302 ms, a line; 25 %: 219 held out): 175.8 ms for all elements, 252.5 ms
//   times k for one gather and eight scatter-adds
// A host: threshold, momentum, residual and a sample of 1 %: 2.8 + 0.4 + 0.4 + 0.2 ns an element.
#include <stepcast/modifiers/shared/compression.hpp>
#include <stepcast/modifiers/shared/gathered_codes.hpp>

#include <algorithm>
#include <cstdio>

namespace stepcast::modifier::dgc {
namespace {

constexpr OptionSpec options[] = {fraction_option(0.001, "share of the elements that is sent after the warm-up"),
                                  {.name = "epoch",
                                   .kind = OptionKind::count,
                                   .standard = 4,
                                   .low = 0,
                                   .high = 1e6,
                                   .summary = "of training, from 0: the first four send more"},
                                  speed_option,
                                  overlap_option(0),
                                  {.name = "warmup",
                                   .kind = OptionKind::count,
                                   .standard = 0,
                                   .low = 0,
                                   .high = 1e9,
                                   .summary = "iterations of a run's first four epochs together, which send more"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }
constexpr Pace threshold{v100_ns(175.8), 3.8}, kept_element{v100_ns(252.5) / 9, 2.7};
constexpr double warm_up[] = {0.25, 0.0625, 0.0156, 0.004};

double kept_share(const OptionValues& v) {
  const double fraction = v[named("fraction")], epoch = v[named("epoch")];
  return epoch < 4 ? std::max(fraction, warm_up[static_cast<int>(epoch)]) : fraction;
}

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const Selection largest{kept_share(in.options), Bytes(4), threshold, kept_element};
  return selection_gathered(std::move(plan), in, largest, in.options[named("speed")],
                            in.options[named("overlap")] != 0);
}

std::string settings(const OptionValues& v) {
  char text[100];
  std::snprintf(text, sizeof text, "grace_dl: DgcCompressor(compress_ratio=%.4g)", v[named("fraction")]);
  return text;
}

}  // namespace

extern constinit const Modifier record{
    .name = "dgc",
    .title = "deep gradient compression",
    .summary = "top-k by a sampled threshold, with momentum correction",
    .reference = "Lin et al., ICLR 2018; sands-lab/grace",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "grace_dl",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "270 to 600 x less volume [secondary] is not less time: selection remains; without the warm-up of the sparsity "
        "accuracy suffers [recalled]",
    .warm_up = {.option = "warmup", .stage = "epoch", .stages = 4},
};

}  // namespace stepcast::modifier::dgc
