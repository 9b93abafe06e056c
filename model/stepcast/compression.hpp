#pragma once
// Compression: rewriting a plan so that its messages travel encoded.
//
// A compressor says, tensor by tensor, how many bytes it sends and how long it encodes and decodes; the rewriting is
// the same for all of them:
//
//   backward -> encode -> transfer -> decode -> whoever waits            encoded messages can be added (all-reduce)
//   backward -> encode -> all-gather of P messages -> decode P of them   they cannot
//   backward -> encode -> all-reduce -> between -> transfer -> decode    a first exchange feeds the second (PowerSGD)
//
// Of an all-reduce that is split (DeAR, ZeRO) the reduce-scatter is encoded and the all-gather decoded; over servers
// the push is encoded and the pull decoded, while stages inside a machine stay dense. Codecs run on the compute stream
// in between the layers' passes, first come, first served, ahead of the next pass. Invariant: the plan keeps its order
// of messages, and every gradient stays covered. Not modelled: encoded sizes that depend on the data; memory for
// residuals.
#include <stepcast/modifier.hpp>

#include <functional>

namespace stepcast {

/// The cost of one tensor, per worker. A message costs the sum over its tensors, a part of a tensor its share.
struct Encoding {
  Bytes sent{};    ///< as encoded
  Bytes first{};   ///< of an exchange that has to end before `sent` can be computed; 0: none
  Bytes pulled{};  ///< that a server sends back; 0: as `sent`
  Seconds encode{}, between{}, decode{};
};

struct Compression {
  std::function<Encoding(const Tensor&)> of;
  bool summable = true;    ///< encoded messages can be added up on the way; else each worker gathers and adds all
  bool overlapped = true;  ///< encoding runs as gradients become ready; else all of it after the backward pass
};

/// Requires a plan without flaw. Inapplicable where messages that cannot be added would have to be reduced in parts.
[[nodiscard]] Answer<CommPlan> compressed(CommPlan plan, const ModifierInput& input, const Compression& compression);

/// Time of `passes` reads or writes of `size` bytes in a memory of `rate`, for codecs that are bound by it.
[[nodiscard]] constexpr Seconds streamed(double passes, Bytes size, BytesPerSecond rate) {
  return passes * (size / rate);
}

}  // namespace stepcast
