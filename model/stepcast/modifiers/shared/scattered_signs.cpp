// V100: sign, scale and residual, as 1-bit SGD's encoding: (32 - 8 * 23 / 9) ms, and 23 / 9 to decode, of GRACE. A
// host: 2.9 and 0.71 ns an element.
#include <stepcast/modifiers/shared/scattered_signs.hpp>

namespace stepcast {
namespace {

constexpr Pace sign_encoding{v100_ns(32 - 8 * 23 / 9.), 2.9}, sign_decoding{v100_ns(23) / 9, 0.71};

}  // namespace

Answer<CommPlan> signs_scattered(CommPlan plan, const ModifierInput& in, double speed, bool overlapped) {
  const CodecClock time(in.profile, speed);
  const auto signs = [=](const Tensor& t) {
    const double all = elements(t);
    return Encoding{.sent = Bytes(all / 8 + 4), .encode = time(sign_encoding, all), .decode = time(sign_decoding, all)};
  };
  return compressed(std::move(plan), in, {.of = signs, .exchange = Exchange::scattered, .overlapped = overlapped});
}

}  // namespace stepcast
