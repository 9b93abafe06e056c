// fp16: gradients are cast to half precision, all-reduced, and cast back.
//
//   compute |  B3 [enc] B2 [enc] B1 [enc]      [dec][dec][dec] U
//   net     |          [ 3/2 ]  [ 2/2 ][ 1/2 ]
//
//   bytes: 2 d for d elements of 4 bytes; tensors of 2 bytes and less stay as they are
//   casts: one read of 4 d and one write of 2 d bytes, and back; bound by memory
// Not modelled: libraries that add halves slowly (gloo, subnormal values).
#include <stepcast/compression.hpp>

namespace stepcast {
namespace {

constexpr OptionSpec options[] = {{.name = "memory",
                                   .kind = OptionKind::number,
                                   .standard = 600e9,
                                   .low = 1e6,
                                   .high = 1e15,
                                   .summary = "memory bandwidth of the device in bytes per second, for the casts"}};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const BytesPerSecond memory(in.options[0]);
  const auto halved = [&](const Tensor& t) {
    if (size_of(t.dtype) <= 2) return Encoding{.sent = t.size};
    const Bytes half = t.size * (2 / size_of(t.dtype));
    const Seconds cast = streamed(1, t.size + half, memory);
    return Encoding{.sent = half, .encode = cast, .decode = cast};
  };
  return compressed(std::move(plan), in, {.of = halved});
}

std::string settings(const OptionValues&) {
  return "model.register_comm_hook(None, torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook)";
}

}  // namespace

extern const Modifier fp16_modifier;
constinit const Modifier fp16_modifier{
    .name = "fp16",
    .title = "half-precision gradients",
    .summary = "gradients travel as halves",
    .reference = "PyTorch ddp_comm_hooks/default_hooks.py; derived",
    .fidelity = Fidelity::lossy,
    .usual_base = "ddp",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution = "gradients below 6e-8 become zero; scale the loss",
};

}  // namespace stepcast
