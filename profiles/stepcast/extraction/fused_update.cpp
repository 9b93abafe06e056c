// Each kernel's name is looked at once.
#include <stepcast/extraction/fused_update.hpp>

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace stepcast {

bool names_fused_update(std::string_view kernel) {
  if (kernel.starts_with("triton_for_")) return true;
  if (kernel.find("multi_tensor_apply") == std::string_view::npos) return false;
  // Of PyTorch; of Apex and Transformer Engine.
  constexpr std::string_view functors[] = {"FusedAdam",  "FusedSgd",       "FusedAdagrad",    "AdamFunctor",
                                           "SGDFunctor", "AdagradFunctor", "NovoGradFunctor", "LAMBStage"};
  return std::ranges::any_of(functors,
                             [&](std::string_view name) { return kernel.find(name) != std::string_view::npos; });
}

double fused_update_share(const TraceIndex& index) {
  std::unordered_map<StringId, bool> known;
  std::int64_t all = 0, fused = 0;
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i) {
    const Event& e = index.trace.events[i];
    const std::uint32_t launcher = index.launcher[i];
    if (e.kind != EventKind::kernel || launcher == no_index) continue;
    const std::uint32_t owner = index.operator_of[launcher];
    if (owner == no_index || index.facts(owner).role != naming::Role::optimizer) continue;
    all += e.duration_ns;
    const auto [found, is_new] = known.try_emplace(e.name, false);
    if (is_new) found->second = names_fused_update(index.trace.text(e.name));
    if (found->second) fused += e.duration_ns;
  }
  return all > 0 ? static_cast<double>(fused) / static_cast<double>(all) : 0;
}

}  // namespace stepcast
