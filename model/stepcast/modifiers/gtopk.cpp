// gTop-k: the k largest elements of the sum of all gradients, found along a tree.
//
//   compute |  F B | select |        | merge |        | merge |                  | add k | U      P = 4
//   net     |               | [ 2k ] |       | [ 2k ] |       | [ 2k ] | [ 2k ]  |
//
//   bytes: (value + index) k a message, 2 log2 P messages: T = 2 log2 P alpha + 4 k beta log2 P for k values of a size
//   and as long indices (Shi et al. 2019, equation 6); top-k's all-gather takes (P-1) (alpha + 2 k beta)
//   codec: selection as in top-k; a merge adds k elements to k and selects k of at most 2 k; decoding adds k, once
//
// In each of ceil(log2 P) rounds one of two workers sends what it has, and the other keeps the k largest of both; the
// result goes down the same tree. Every send is one over the slowest link of the cluster: where machines have several
// devices, an upper bound. Not modelled: the residual of elements that were selected and not kept.
#include <stepcast/modifiers/shared/compression.hpp>

#include <cstdio>

namespace stepcast::modifier::gtopk {
namespace {

constexpr OptionSpec options[] = {fraction_option(0.001, "share of the elements that is kept"), index_option,
                                  speed_option, overlap_option(0)};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const double fraction = in.options[named("fraction")];
  const Bytes index(in.options[named("index")] == 0 ? 4 : 8);
  const CodecClock time(in.profile, in.options[named("speed")]);
  const auto largest = [=](const Tensor& t) {
    const double all = elements(t), kept = fraction * all;
    return Encoding{.sent = kept * (Bytes(size_of(t.dtype)) + index),
                    .encode = time(top_k_selection, all) + time(top_k_element, kept),
                    .between = time(top_k_element, kept) + time(top_k_selection, 2 * kept),
                    .decode = time(top_k_element, kept)};
  };
  return compressed(std::move(plan), in,
                    {.of = largest, .exchange = Exchange::tree, .overlapped = in.options[named("overlap")] != 0});
}

std::string settings(const OptionValues& v) {
  char text[100];
  std::snprintf(text, sizeof text, "hclhkbu/gtopkssgd: --density %.4g --compressor topk", v[named("fraction")]);
  return text;
}

}  // namespace

extern constinit const Modifier record{
    .name = "gtopk",
    .title = "gTop-k sparsification",
    .summary = "the largest elements of the sum, merged pairwise along a tree",
    .reference = "Shi et al., ICDCS 2019, arXiv 1901.04359",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "its authors' code",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "needs the residual, into which elements go back that the tree drops; selection takes as long as top-k's, only "
        "the exchange grows more slowly with the workers",
};

}  // namespace stepcast::modifier::gtopk
