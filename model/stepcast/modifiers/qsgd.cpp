// QSGD: elements are rounded at random to s levels of the norm of their bucket of 128.
//
//   bytes, packed: d ceil(log2(2 s + 1)) / 8 + 4 d / 128; as GRACE sends them d for s < 128, else 2 d; gathered
//   codec, V100: not measured by itself; GRACE's 8-bit quantiser, 206 ms for one encoding and eight decodings, is taken
//   (natural compression, which also rounds at random to a byte, took 196). A host: 14.5 ns an element to encode, 0.44
//   to decode.
#include <stepcast/modifiers/shared/compression.hpp>

#include <cmath>
#include <cstdio>

namespace stepcast::modifier::qsgd {
namespace {

constexpr OptionSpec options[] = {{.name = "levels",
                                   .kind = OptionKind::count,
                                   .standard = 127,
                                   .low = 1,
                                   .high = 32767,
                                   .summary = "to which the magnitude is rounded"},
                                  {.name = "bucket",
                                   .kind = OptionKind::count,
                                   .standard = 128,
                                   .low = 1,
                                   .high = 1e9,
                                   .summary = "elements that share a norm, where values are packed"},
                                  values_option,
                                  speed_option,
                                  overlap_option(0)};
consteval std::size_t named(std::string_view name) { return option(options, name); }

// Per element.
Bytes size_of_value(const OptionValues& v) {
  if (v[named("values")] == 0) return Bytes(v[named("levels")] < 128 ? 1 : 2);
  return Bytes(std::ceil(std::log2(2 * v[named("levels")] + 1)) / 8 + 4 / v[named("bucket")]);
}

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const Bytes value = size_of_value(in.options);
  const CodecClock time(in.profile, in.options[named("speed")]);
  const auto rounded = [=](const Tensor& t) {
    const double all = elements(t);
    return Encoding{.sent = all * value, .encode = time(byte_encoding, all), .decode = time(byte_decoding, all)};
  };
  return compressed(std::move(plan), in,
                    {.of = rounded, .exchange = Exchange::gathered, .overlapped = in.options[named("overlap")] != 0});
}

std::string settings(const OptionValues& v) {
  char text[100];
  std::snprintf(text, sizeof text, "grace_dl: QSGDCompressor(quantum_num=%.0f)", v[named("levels")]);
  return text;
}

}  // namespace

extern constinit const Modifier record{
    .name = "qsgd",
    .title = "QSGD",
    .summary = "elements rounded at random to a few levels, gathered by all",
    .reference = "Alistarh et al., NeurIPS 2017; sands-lab/grace",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "grace_dl",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "1.8 x to full accuracy on 16 GPUs, ResNet-152 [source]; unbiased, but the variance grows as levels get fewer",
};

}  // namespace stepcast::modifier::qsgd
