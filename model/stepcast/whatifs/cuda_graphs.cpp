// CUDA graphs: the kernels of a step are recorded once and launched together, so the host issues nothing per kernel.
//
// The host time of all layers and of the optimizer becomes one launch; what the host does outside of them (loss.item(),
// logging, the loop) stays, and so does all device time.
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

#include <algorithm>

namespace stepcast::whatif::cuda_graphs {
namespace {

constexpr OptionSpec options[] = {{.name = "launch",
                                   .kind = OptionKind::duration,
                                   .standard = 20 * 1e-6,
                                   .low = 0,
                                   .high = 1,
                                   .summary = "host time of the launch of the whole graph"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<Profile> with_recorded_graph(const WhatIfInput& in) {
  const Profile& p = in.profile;
  if (!p.has_device()) return computed_on_host("there are no launches to save");
  std::vector<PassPlace> issued = passes_of(selected_layers(p, "*"));
  issued.push_back({Pass::optimizer});
  Profile changed = with_scaled(p, issued, {0, 1, 1, 1});
  const Seconds before = host_time(p, issued);
  changed.layers.front().forward.host = std::min(before, Seconds(in.options[named("launch")]));
  changed.assumed.push_back("CUDA graphs: layers and optimizer are issued in " +
                            text_of(changed.layers.front().forward.host) + " instead of " + text_of(before) +
                            "; host time outside of them (" + text_of(p.other.host) + ") and device time stay");
  return changed;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "cuda_graphs",
    .title = "CUDA graphs",
    .summary = "the step is one recorded graph: host time of layers and optimizer is one launch, device time stays",
    .reference = "NVIDIA, CUDA C++ Programming Guide, section CUDA Graphs; torch.cuda.graphs",
    .options = options,
    .apply = with_recorded_graph,
    .caution =
        "needs fixed shapes and no synchronisation inside the step; gaps between kernels, which shrink, are not "
        "part of device time; an optimizer that can be recorded may launch more kernels (Adam's step counts move to "
        "the "
        "device) unless it is fused"};

}  // namespace stepcast::whatif::cuda_graphs
