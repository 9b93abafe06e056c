// 8-bit quantisation: every element becomes a byte of a small floating-point format, scaled by the tensor's maximum.
//
//   bytes: d and 4 for the maximum of a tensor, gathered; over servers the sum comes back as bytes, too
//   codec, V100: 206 ms for one encoding and eight decodings (GRACE 8-bit). A host: not measured; QSGD's to a byte is
//   taken, 14.5 ns an element to encode and 0.44 to decode
//
// The byte holds a sign, a moving exponent and a fraction (dynamic tree, Dettmers 2016): a table of 256 values, in
// which the encoder searches. Not modelled: exchanges that compress again at every hop of a ring.
#include <stepcast/modifiers/shared/compression.hpp>

namespace stepcast::modifier::int8 {
namespace {

constexpr OptionSpec options[] = {speed_option, overlap_option(0)};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const CodecClock time(in.profile, in.options[named("speed")]);
  const auto bytes = [=](const Tensor& t) {
    const double all = elements(t);
    const Bytes size(all + 4);
    return Encoding{
        .sent = size, .pulled = size, .encode = time(byte_encoding, all), .decode = time(byte_decoding, all)};
  };
  return compressed(std::move(plan), in,
                    {.of = bytes, .exchange = Exchange::gathered, .overlapped = in.options[named("overlap")] != 0});
}

std::string settings(const OptionValues&) { return "grace_dl: EightBitCompressor()"; }

}  // namespace

extern constinit const Modifier record{
    .name = "int8",
    .title = "8-bit quantisation",
    .summary = "elements as bytes of a dynamic format, gathered by all",
    .reference = "Dettmers, ICLR 2016, arXiv 1511.04561; sands-lab/grace",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "grace_dl",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "a quarter of the bytes at most; in GRACE its codec takes longer than a dense exchange at 10 Gb/s [derived]",
};

}  // namespace stepcast::modifier::int8
