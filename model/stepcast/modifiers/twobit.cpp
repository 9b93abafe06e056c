// 2-bit compression of MXNet: pushes of -t, 0 or t with a residual; pulls stay dense.
//
//   bytes: d/4 up, 4 d down; over parameter servers only
//   quantiser: reads gradient and residual, writes the residual and the words: 12.25 bytes an element in the memory of
//   a V100 (900 GB/s; derived). A host: 6 ns an element.
// The strategy bit_sgd is the same exchange per key with a processor of its own for the quantiser, at the pace of a
// whole socket's memory: the two differ by that pace and by whom it delays.
#include <stepcast/modifiers/shared/compression.hpp>

namespace stepcast::modifier::twobit {
namespace {

constexpr OptionSpec options[] = {speed_option, overlap_option(1)};
consteval std::size_t named(std::string_view name) { return option(options, name); }
constexpr Pace quantiser{12.25 / 900, 6.0};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const CodecClock time(in.profile, in.options[named("speed")]);
  const auto two_bits = [=](const Tensor& t) {
    const double all = elements(t);
    return Encoding{.sent = Bytes(all / 4), .pulled = t.size, .encode = time(quantiser, all)};
  };
  return compressed(std::move(plan), in,
                    {.of = two_bits, .exchange = Exchange::pushed, .overlapped = in.options[named("overlap")] != 0});
}

std::string settings(const OptionValues&) { return "kv.set_gradient_compression({'type': '2bit', 'threshold': 0.5})"; }

}  // namespace

extern constinit const Modifier record{
    .name = "twobit",
    .title = "MXNet 2-bit compression",
    .summary = "two bits an element to the servers, dense values back",
    .reference = "MXNet gradient compression documentation",
    .fidelity = Fidelity::lossy,
    .usual_base = "wfbp_ps",
    .framework = "MXNet",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "accuracy depends on the threshold, which has to be tuned; gains at most a factor of 1.9 where push and pull "
        "share "
        "a card's directions: pulls stay dense [derived]",
};

}  // namespace stepcast::modifier::twobit
