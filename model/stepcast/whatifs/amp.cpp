// Mixed precision: matrix products on half-precision units, half the bytes for everything else. Zhu, Phanishayee,
// Pekhimenko 2020 (Daydream): compute-bound kernels take a third of their time, other device kernels half;
// the host's time stays. Parameters, gradients and the optimizer stay in fp32, as under torch.autocast.
//
// Daydream's third is of products on fp32 units. Those that ran in TF32, by their kernels' names, are on tensor cores
// already, whose half precision is twice as fast on half the bytes (NVIDIA's data sheets: 156 and 312 Tflop/s of an
// A100, 495 and 989 of an H100 SXM): they take half of their time. Measured on H100: 1.93 times as fast in
// ResNet-50, 1.86 in GPT-2 small (validation/gpu/README.md).
#include <stepcast/base/words.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

#include <algorithm>

namespace stepcast::whatif::amp {
namespace {

constexpr OptionSpec options[] = {
    {.name = "gemm",
     .standard = 3,
     .low = 0.1,
     .high = 100,
     .summary = "speed-up of matrix products and convolutions in fp32"},
    {.name = "tf32", .standard = 2, .low = 0.1, .high = 100, .summary = "speed-up of those that ran in TF32"},
    {.name = "other", .standard = 2, .low = 0.1, .high = 100, .summary = "speed-up of the other device kernels"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

bool is_half(DataType type) { return type == DataType::f16 || type == DataType::bf16 || type == DataType::f8; }

Answer<Profile> with_mixed_precision(const WhatIfInput& in) {
  const Profile& p = in.profile;
  if (!p.has_device()) return computed_on_host("the factors are those of devices with half-precision units");
  if (std::any_of(p.tensors.begin(), p.tensors.end(), [](const Tensor& t) { return is_half(t.dtype); }))
    return Inapplicable{"gradients are half precision already: the step was traced in it"};
  // Activations are half precision only where autocast, or the model itself, has made them so.
  const auto halved = std::ranges::find_if(p.layers, [](const Layer& l) { return is_half(l.input_dtype); });
  if (halved != p.layers.end())
    return Inapplicable{"the step was traced in mixed precision: layer '" + halved->name + "' takes " +
                        std::string(name_of(halved->input_dtype))};
  constexpr double traced_so = 0.25;  // of a step in single precision hardly a kernel names another one
  if (p.half_precision_share > traced_so)
    return Inapplicable{"the step was traced in mixed precision: " + percent(p.half_precision_share) +
                        " of its kernels' time or more is half precision by their names"};
  const double gemm = in.options[named("gemm")], tf32 = in.options[named("tf32")], other = in.options[named("other")];
  Scale faster = Scale::device(1 / other);
  faster.part[KernelClass::gemm] = p.tf32_share / tf32 + (1 - p.tf32_share) / gemm;
  Profile changed = with_scaled(p, passes_of(selected_layers(p, "*")), faster);
  const std::string in_tf32 = p.tf32_share > 0 ? "those in TF32 (by their kernels' names " + percent(p.tf32_share) +
                                                     " of their time) " + number_text(tf32) + " times, "
                                               : "";
  changed.assumed.push_back("mixed precision: matrix products and convolutions " + number_text(gemm) + " times, " +
                            in_tf32 + "other device kernels of the layers " + number_text(other) +
                            " times as fast; host time, optimizer and fp32 gradients stay");
  return changed;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "amp",
    .title = "mixed precision",
    .summary =
        "layers in half precision: device time of matrix products / 3 (of those in TF32 / 2), of other kernels / 2; "
        "host "
        "time, optimizer and gradients (fp32) stay",
    .reference = "Zhu, Phanishayee, Pekhimenko 2020 (Daydream); NVIDIA's data sheets for TF32",
    .options = options,
    .apply = with_mixed_precision,
    .caution =
        "products count as TF32 where their kernels' names say so: of a profile without them take gemm=2 if they ran "
        "in it; small matrices gain less; the casts of autocast cost host and device time that is not added, and "
        "norms, softmax and losses "
        "stay "
        "in fp32 under it: of a model that is mostly these other=1 is nearer"};

}  // namespace stepcast::whatif::amp
