// Gist: activations are stored encoded between their two uses. Jain et al. 2018. An encoding kernel follows each
// layer's forward pass, a decoding kernel precedes its backward pass.
//
// Both are memory-bound: encoding reads the activations and writes them smaller by `ratio`, decoding the reverse, so
// each takes size x (1 + 1/ratio) / rate.
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

namespace stepcast::whatif::gist {
namespace {

constexpr OptionSpec options[] = {
    {.name = "ratio", .standard = 2, .low = 1, .high = 32, .summary = "activations become smaller by this factor"},
    {.name = "rate",
     .kind = OptionKind::rate,
     .standard = 700e9,
     .low = 1e8,
     .high = 1e14,
     .summary = "memory bandwidth of the device"},
    {.name = "size",
     .kind = OptionKind::size,
     .standard = 0,
     .low = 0,
     .high = 0x1p50,
     .summary = "activations of the step; 0: as the profile says"},
    {.name = "layers", .kind = OptionKind::layers, .summary = "whose activations are encoded", .patterns = "*"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

constexpr Seconds launch = microseconds(10);

Answer<Profile> with_encoded_activations(const WhatIfInput& in) {
  if (!in.profile.has_device()) return computed_on_host("its kernels are those of a device");
  const std::vector<std::uint32_t> layers = selected_layers(in.profile, in.layers);
  if (layers.empty()) return no_such_layer(in.profile, in.layers);
  const Answer<std::vector<Bytes>> size = activations(in.profile, in.layers, Bytes(in.options[named("size")]));
  if (!size) return Inapplicable{size.reason()};
  Profile changed = in.profile;
  Bytes encoded;
  Seconds kernels;
  for (const std::uint32_t l : layers) {
    const Seconds time = (*size)[l] * (1 + 1 / in.options[named("ratio")]) / BytesPerSecond(in.options[named("rate")]);
    PassCost kernel{launch, time};
    kernel.part[KernelClass::memory] = time;
    for (const Pass pass : {Pass::forward, Pass::backward})
      changed = with_kernel(std::move(changed), {pass, l}, kernel);
    encoded += (*size)[l];
    kernels += time * 2;
  }
  const Bytes saved = encoded * (1 - 1 / in.options[named("ratio")]);
  if (changed.activation_memory > saved) changed.activation_memory -= saved;
  changed.assumed.push_back("Gist: " + text_of(encoded) + " of activations stored in " + text_of(encoded - saved) +
                            "; encoding and decoding take " + text_of(kernels) + " of device time and " +
                            text_of(launch) + " of host time each; shared out by the layers' memory-bound time");
  return changed;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "gist",
    .title = "Gist",
    .summary = "activations are encoded after the forward and decoded before the backward pass",
    .reference = "Jain et al. 2018 (Gist, ISCA)",
    .options = options,
    .apply = with_encoded_activations,
    .caution = "sizes by layer are an estimate; lossy encodings change training"};

}  // namespace stepcast::whatif::gist
