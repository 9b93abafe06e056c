#pragma once
// Room modifiers/shared: how modifiers rewrite plans: compression, lossy transport, periods.
//
// It may include base and plan.
//
// Compression: rewriting a plan so that its messages travel encoded.
//
// A compressor says, tensor by tensor, how many bytes it sends and how long it encodes and decodes; the rewriting is
// the same for all of them:
//
//   summed     gradient -> encode -> transfer -> decode -> whoever waits
//   gathered   gradient -> encode -> all-gather of P messages -> decode P of them
//   scattered  gradient -> encode -> all-to-all -> add and encode a P-th -> all-gather -> decode
//   tree       gradient -> encode -> log2 P times (send -> merge), log2 P sends -> decode
//   in two     gradient -> encode -> all-reduce of `first` -> between -> transfer -> decode;  `aside` all-reduced as is
//
// Of an all-reduce that is split (DeAR) the reduce-scatter is encoded and the all-gather decoded. Over servers the push
// is encoded and the pull decoded, stages inside a machine stay dense, and each of its devices encodes its share; what
// a server sends back of messages that do not add up is at most all of them, and at most dense. Differences that go to
// neighbours (CommPlan::neighbours) are encoded once and decoded neighbour by neighbour. Codecs run on the
// compute stream in between the layers' passes, first come, first served, ahead of the next pass. One compressor may
// follow a cast, which leaves shorter values: "+fp16+topk". Invariant: the plan keeps its order of messages, and every
// gradient stays covered. Not modelled: encoded sizes that depend on the data (they are options); numbers of kept
// elements rounded tensor by tensor; servers that add encoded messages faster; memory for residuals.
#include <stepcast/plan/modifier.hpp>

#include <cstdint>
#include <functional>

namespace stepcast {

/// The cost of one tensor, per worker. A message costs the sum over its tensors, a part of a tensor its share.
struct Encoding {
  Bytes sent{};                 ///< as encoded
  Bytes first{};                ///< bytes of an exchange that has to end before `sent` can be computed; 0: none
  Bytes aside{};                ///< bytes of an exchange beside `first`: what stays as it is
  Bytes pulled{};               ///< what a server sends back; 0: see above
  Seconds encode{}, between{};  ///< `between`: the second part of an exchange in two, a merge of a tree
  Seconds decode{};             ///< the time for one message; P are decoded where P are gathered
};

/// What becomes of the encoded messages of all workers.
enum class Exchange : std::uint8_t {
  summed,     ///< they add up on the way: the plan's own operation
  gathered,   ///< every worker gathers all and adds them up
  scattered,  ///< every worker adds up a part of all and sends the sum, encoded again, to all
  tree,       ///< pairs of workers merge theirs into one as long, up a binary tree and back down
  pushed,     ///< only servers can add them up
};

struct Compression {
  std::function<Encoding(const Tensor&)> of;
  Exchange exchange = Exchange::summed;
  bool overlapped = true;  ///< encoding runs as gradients become ready; else all of it after the backward pass
  bool cast = false;       ///< messages stay lists of all values, which a further compressor may encode
};

/// Requires a plan without flaw. Inapplicable where the plan's operations do not suit the exchange, or where its
/// messages are encoded already. With one worker the plan stays as it is.
[[nodiscard]] Answer<CommPlan> compressed(CommPlan plan, const ModifierInput& input, const Compression& compression);

/// A tensor as a matrix: its first dimension against all others; {0, 0} where it is none.
struct MatrixShape {
  double rows = 0, columns = 0;
};
[[nodiscard]] MatrixShape matrix_shape(const Tensor&);
/// Why factors cannot be found: the profile knows no shape at all; empty if it knows some.
[[nodiscard]] std::string without_shapes(const Profile&);

/// Number of elements of a tensor.
[[nodiscard]] inline double elements(const Tensor& t) { return t.size.value() / size_of(t.dtype); }

// ---- what codecs take ----

/// Time per element, as measured: on a V100, and on one core of a host. Written in nanoseconds.
struct Pace {
  double device_ns = 0, host_ns = 0;
};

/// How fast the worker of a profile encodes. A device is as much faster than a V100 (900 GB/s) as its memory is, where
/// its name is known, else as fast; without a device all work is one core's. `speed` (the option) is a factor on that.
///
/// V100: GRACE (sands-lab/grace-data), ResNet-50, 25.559 M elements, TensorFlow, 8 workers: measured step less its
/// "upper bound", derived, in ms. A sum over encoding once and decoding 8 messages is taken for nine equal passes where
/// nothing else is said. Host: one core of an AMD EPYC (Zen 5), PyTorch 1.13, 2^20 elements, best of 10 runs. Larger
/// buffers that are fresh from the system take several times as long there (page faults), which is not modelled.
class CodecClock {
 public:
  CodecClock(const Profile& profile, double speed);
  [[nodiscard]] Seconds operator()(Pace pace, double elements) const {
    return Seconds((host_ ? pace.host_ns : pace.device_ns * against_v100_) * 1e-9 * elements / speed_);
  }

 private:
  bool host_;
  double against_v100_;  ///< time on this device over time on a V100
  double speed_;
};
inline constexpr double v100_elements = 25.559e6;  ///< the elements that were measured on a V100
/// Nanoseconds per element of a codec that took `ms` there.
[[nodiscard]] constexpr double v100_ns(double ms) { return ms * 1e6 / v100_elements; }

// Top-k on a V100 (GRACE top-k 1 and 50 %: 264 and 404 ms, a line; 10 %: 289, held out): 261.1 ms to select among all
// elements, 285.7 ms times k for one gather and eight scatter-adds of the kept ones. Host: as said above.
inline constexpr Pace top_k_selection{v100_ns(261.1), 20.3}, top_k_element{v100_ns(285.7) / 9, 2.7};

// A byte an element on a V100 (GRACE 8-bit: 206 ms for one encoding and eight decodings, taken to be alike). Host:
// QSGD.
inline constexpr Pace byte_encoding{v100_ns(206) / 9, 14.5}, byte_decoding{v100_ns(206) / 9, 0.44};

/// Time of `passes` reads or writes of `size` bytes in a memory of `rate`, for codecs that are bound by it.
[[nodiscard]] constexpr Seconds streamed(double passes, Bytes size, BytesPerSecond rate) {
  return passes * (size / rate);
}

// ---- options that compressors share ----

inline constexpr OptionSpec speed_option{.name = "speed",
                                         .kind = OptionKind::number,
                                         .standard = 1,
                                         .low = 1e-3,
                                         .high = 1e12,
                                         .summary = "of encoding and decoding, relative to what was measured"};

/// `by_default`: 1 where encoding runs under the backward pass (hooks of DDP), 0 where it follows it (GRACE).
[[nodiscard]] constexpr OptionSpec overlap_option(double by_default) {
  return {.name = "overlap",
          .kind = OptionKind::choice,
          .standard = by_default,
          .low = 0,
          .high = 1,
          .summary = "whether encoding runs under the backward pass or follows it",
          .choices = {"no", "yes"}};
}

[[nodiscard]] constexpr OptionSpec fraction_option(double standard, std::string_view summary) {
  return {
      .name = "fraction", .kind = OptionKind::number, .standard = standard, .low = 1e-6, .high = 1, .summary = summary};
}

inline constexpr OptionSpec index_option{.name = "index",
                                         .kind = OptionKind::choice,
                                         .standard = 0,
                                         .low = 0,
                                         .high = 1,
                                         .summary = "integers that say which elements are sent",
                                         .choices = {"int32", "int64"}};

/// Bits that a value takes: as few as it needs, or a byte each as GRACE sends them.
inline constexpr OptionSpec values_option{.name = "values",
                                          .kind = OptionKind::choice,
                                          .standard = 0,
                                          .low = 0,
                                          .high = 1,
                                          .summary = "a byte for each value, as GRACE sends them, or packed bits",
                                          .choices = {"bytes", "packed"}};
/// What `signs_gathered` reads.
inline constexpr OptionSpec signs_options[] = {values_option, speed_option, overlap_option(0)};

}  // namespace stepcast
