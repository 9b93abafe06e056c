// Each kernel's name is looked at once.
#include <stepcast/extraction/half_precision.hpp>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace stepcast {
namespace {

std::string in_small_letters(std::string_view kernel) {
  std::string name(kernel);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

double share_of(std::int64_t part, std::int64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

}  // namespace

bool names_half_precision(std::string_view kernel) {
  const std::string name = in_small_letters(kernel);
  // "nvjet_tst_256x128", of newer libraries "nvjet_sm90_tst_256x128": the first letter behind is the operands' type.
  if (std::string_view rest = name; rest.starts_with("nvjet_")) {
    rest.remove_prefix(6);
    if (rest.starts_with("sm")) rest.remove_prefix(std::min(rest.size(), rest.find('_') + 1));
    if (!rest.empty() && std::string_view("thq").find(rest.front()) != std::string_view::npos) return true;
  }
  constexpr std::string_view words[] = {"bf16",   "bfloat16", "fp16",  "f16_",   "_f16",   "f16f16", "c10::half",
                                        "__half", "half_t",   "hgemm", "s16816", "float8", "e4m3",   "e5m2"};
  return std::ranges::any_of(words, [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

double half_precision_share(const Trace& trace) {
  std::unordered_map<StringId, bool> known;
  std::int64_t all = 0, half = 0;
  for (const Event& e : trace.events) {
    const std::string_view name = trace.text(e.name);
    if (e.kind != EventKind::kernel || e.collective != no_index || name.starts_with("nccl")) continue;
    all += e.duration_ns;
    const auto [found, is_new] = known.try_emplace(e.name, false);
    if (is_new) found->second = names_half_precision(name);
    if (found->second) half += e.duration_ns;
  }
  return share_of(half, all);
}

bool names_tf32(std::string_view kernel) {
  const std::string name = in_small_letters(kernel);
  return name.find("tf32") != std::string::npos ||
         (name.find("s1688") != std::string::npos && !names_half_precision(kernel));
}

double tf32_share(const TraceIndex& index) {
  std::unordered_map<StringId, bool> known;
  std::int64_t all = 0, tf32 = 0;
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i) {
    const Event& e = index.trace.events[i];
    if (e.kind != EventKind::kernel || index.work(i) != KernelClass::gemm) continue;
    all += e.duration_ns;
    const auto [found, is_new] = known.try_emplace(e.name, false);
    if (is_new) found->second = names_tf32(index.trace.text(e.name));
    if (found->second) tf32 += e.duration_ns;
  }
  return share_of(tf32, all);
}

}  // namespace stepcast
