// Mixed precision: matrix products on half-precision units, half the bytes for everything else. Zhu, Phanishayee,
// Pekhimenko 2020 (Daydream): compute-bound kernels take a third of their time, other device kernels half;
// the host's time stays. Parameters, gradients and the optimizer stay in fp32, as under torch.autocast.
#include <stepcast/base/words.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

#include <algorithm>

namespace stepcast::whatif::amp {
namespace {

constexpr OptionSpec options[] = {
    {.name = "gemm", .standard = 3, .low = 0.1, .high = 100, .summary = "speed-up of matrix products and convolutions"},
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
  const double gemm = in.options[named("gemm")], other = in.options[named("other")];
  Scale faster = Scale::device(1 / other);
  faster.part[KernelClass::gemm] = 1 / gemm;
  Profile changed = with_scaled(p, passes_of(selected_layers(p, "*")), faster);
  changed.assumed.push_back("mixed precision: matrix products and convolutions " + number_text(gemm) +
                            " times, other device kernels of the layers " + number_text(other) +
                            " times as fast; host time, optimizer and fp32 gradients stay");
  return changed;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "amp",
    .title = "mixed precision",
    .summary =
        "layers in half precision: device time of matrix products / 3, of other kernels / 2; host time, "
        "optimizer and gradients (fp32) stay",
    .reference = "Zhu, Phanishayee, Pekhimenko 2020 (Daydream)",
    .options = options,
    .apply = with_mixed_precision,
    .caution =
        "the factors are against fp32 without TF32: from a TF32 trace take gemm=2, and lower it for small "
        "matrices; the casts of autocast cost host and device time that is not added, and norms, softmax and losses "
        "stay "
        "in fp32 under it: of a model that is mostly these other=1 is nearer"};

}  // namespace stepcast::whatif::amp
