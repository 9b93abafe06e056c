// fp16: gradients are cast to half precision, all-reduced, and cast back.
//
//   compute |  B3 [enc] B2 [enc] B1 [enc]      [dec][dec][dec] U
//   net     |          [ 3/2 ]  [ 2/2 ][ 1/2 ]
//
//   bytes: 2 d for d elements of 4 bytes; tensors of 2 bytes and less stay as they are
//   casts: one read of 4 d and one write of 2 d bytes, and back; bound by memory: 900 GB/s on a V100 (its data sheet).
//   A host: 0.33 and 0.23 ns an element.
// A further compressor may follow ("+fp16+powersgd"): it encodes halves. Not modelled: libraries that add halves slowly
// (gloo: about 6 ns each, subnormal values).
#include <stepcast/modifiers/shared/compression.hpp>

namespace stepcast::modifier::fp16 {
namespace {

constexpr OptionSpec options[] = {
    {.name = "memory",
     .kind = OptionKind::number,
     .standard = 0,
     .low = 0,
     .high = 1e15,
     .summary = "bandwidth in bytes per second for the casts; 0: the device's, or a core's"},
    overlap_option(1)};
consteval std::size_t named(std::string_view name) { return option(options, name); }
constexpr Pace to_half{6. / 900, 0.33}, from_half{6. / 900, 0.23};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const BytesPerSecond memory(in.options[named("memory")]);
  const CodecClock time(in.profile, 1);
  const auto halved = [=](const Tensor& t) {
    if (size_of(t.dtype) <= 2) return Encoding{.sent = t.size};
    const double all = elements(t);
    const Bytes half(2 * all);
    if (memory.value() == 0)
      return Encoding{.sent = half, .encode = time(to_half, all), .decode = time(from_half, all)};
    const Seconds cast = streamed(1, t.size + half, memory);
    return Encoding{.sent = half, .encode = cast, .decode = cast};
  };
  return compressed(std::move(plan), in, {.of = halved, .overlapped = in.options[named("overlap")] != 0, .cast = true});
}

std::string settings(const OptionValues&) {
  return "model.register_comm_hook(None, torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook) "
         " # "
         "Horovod: compression=hvd.Compression.fp16";
}

}  // namespace

extern constinit const Modifier record{
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

}  // namespace stepcast::modifier::fp16
