// Top-k: every worker sends the largest elements of its gradient with their indices; what is left waits as a residual.
//
//   compute |  F B | select |              | add P x k | U
//   net     |               | [ all-gather of P x k ]  |
//
//   bytes: (value + index) k d; with 8 bytes an element less than a dense ring only for k < 1/P
//   all-gather: (P-1) (alpha + bytes / B), linear in P
//   codec, V100 (GRACE top-k 1, 50 %: 264, 404 ms, a line; 10 %: 289 held out): selection 261.1 ms for all elements,
//   285.7 ms times k for one gather and eight scatter-adds
// A host selects in 20 ns an element (1 %) to 33 ns (10 %); gathers in 3.2 and scatters in 2.2 ns an element kept.
#include <stepcast/modifiers/shared/compression.hpp>
#include <stepcast/modifiers/shared/gathered_codes.hpp>

#include <cstdio>

namespace stepcast::modifier::topk {
namespace {

constexpr OptionSpec options[] = {fraction_option(0.01, "share of the elements that is sent"), index_option,
                                  speed_option, overlap_option(0)};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const Selection largest{in.options[named("fraction")], Bytes(in.options[named("index")] == 0 ? 4 : 8),
                          top_k_selection, top_k_element};
  return selection_gathered(std::move(plan), in, largest, in.options[named("speed")],
                            in.options[named("overlap")] != 0);
}

std::string settings(const OptionValues& v) {
  char text[100];
  std::snprintf(text, sizeof text, "grace_dl: TopKCompressor(compress_ratio=%.4g)", v[named("fraction")]);
  return text;
}

}  // namespace

extern constinit const Modifier record{
    .name = "topk",
    .title = "top-k sparsification",
    .summary = "the largest elements with their indices, gathered by all",
    .reference = "sands-lab/grace; Aji, Heafield, EMNLP 2017 [recalled]",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "grace_dl",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "needs the residual (error feedback); end-to-end gains of compression are often below 1.2 x and sometimes "
        "negative "
        "[secondary]; selection on a V100 takes longer than a dense exchange at 10 Gb/s and 8 workers [derived "
        "from "
        "GRACE]",
};

}  // namespace stepcast::modifier::topk
