// vDNN: activations leave for the host's memory during the forward pass and come back during the backward pass. Rhu et
// al. 2016.
//
//   device  | F1  F2  F3       B3  B2  B1          F(l) overlaps with the offload of its activations,
//   copies  | o1  o2       p2  p1                  B(l) with the prefetch of those that the next backward pass needs
//
// A layer's pass ends when its copy has ended (vDNN synchronises there), so a copy that does not fit under its pass
// makes it longer by the rest. The prefetch distance is one layer. The last layer's activations stay.
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

#include <algorithm>

namespace stepcast::whatif::vdnn {
namespace {

constexpr OptionSpec options[] = {
    {.name = "rate",
     .kind = OptionKind::rate,
     .standard = 12e9,
     .low = 1e6,
     .high = 1e13,
     .summary = "copies between device and host"},
    {.name = "size",
     .kind = OptionKind::size,
     .standard = 0,
     .low = 0,
     .high = 0x1p50,
     .summary = "activations of the step; 0: as the profile says"},
    {.name = "layers", .kind = OptionKind::layers, .summary = "whose activations leave", .patterns = "*"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

/// How much longer a pass gets when a copy has to end with it.
Seconds lengthen(PassCost& pass, Seconds copy) {
  const Seconds longer = std::max(Seconds(0), copy - pass.device);
  pass.device += longer;
  return longer;
}

Answer<Profile> with_offloading(const WhatIfInput& in) {
  if (!in.profile.has_device()) return computed_on_host("its activations are in the host's memory");
  if (selected_layers(in.profile, in.layers).empty()) return no_such_layer(in.profile, in.layers);
  Answer<std::vector<Bytes>> size = activations(in.profile, in.layers, Bytes(in.options[named("size")]));
  if (!size) return Inapplicable{size.reason()};
  const BytesPerSecond rate(in.options[named("rate")]);
  Profile changed = in.profile;
  size->at(changed.backward_order.front()) = Bytes(0);
  Bytes moved, largest;
  Seconds longer;
  for (std::size_t l = 0; l < changed.layers.size(); ++l) {
    moved += (*size)[l];
    largest = std::max(largest, (*size)[l]);
    longer += lengthen(changed.layers[l].forward, (*size)[l] / rate);
  }
  for (std::size_t k = 0; k + 1 < changed.backward_order.size(); ++k)
    longer +=
        lengthen(changed.layers[changed.backward_order[k]].backward, (*size)[changed.backward_order[k + 1]] / rate);
  // What is on the device at once: what stays, and two layers' worth in flight.
  if (changed.activation_memory > moved) changed.activation_memory -= moved;
  else changed.activation_memory = Bytes(0);
  changed.activation_memory += std::min(moved, largest * 2);
  changed.assumed.push_back("vDNN: " + text_of(moved) + " of activations leave and return at " +
                            exact_text_in_best_unit(rate) + "; the passes get " + text_of(longer) +
                            " longer; activations shared out by the layers' memory-bound time");
  return changed;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "vdnn",
    .title = "vDNN",
    .summary = "activations are offloaded to the host in the forward pass and prefetched in the backward pass",
    .reference = "Rhu et al. 2016 (vDNN, MICRO)",
    .options = options,
    .apply = with_offloading,
    .caution = "copies do not share the PCIe link with gradients or input here; sizes by layer are an estimate"};

}  // namespace stepcast::whatif::vdnn
