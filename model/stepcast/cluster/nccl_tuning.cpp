// Lists of algorithms and protocols as NCCL's environment variables spell them.
#include <stepcast/base/error.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/nccl_tuning.hpp>

#include <algorithm>
#include <cctype>
#include <span>
#include <vector>

namespace stepcast {
namespace {

struct Name {
  std::string_view text;
  unsigned members;
};

constexpr unsigned bit(NcclAlgorithm a) { return 1U << static_cast<unsigned>(a); }
constexpr unsigned bit(NcclProtocol p) { return 1U << static_cast<unsigned>(p); }

constexpr Name nccl_algorithm_names[] = {
    {"Ring", bit(NcclAlgorithm::ring)},
    {"Tree", bit(NcclAlgorithm::tree)},
    {"NVLS", bit(NcclAlgorithm::nvls)},
    {"NVLSTree", bit(NcclAlgorithm::nvls_tree)},
    {"CollnetDirect", bit(NcclAlgorithm::collnet_direct)},
    {"CollnetChain", bit(NcclAlgorithm::collnet_chain)},
    {"CollNet", bit(NcclAlgorithm::collnet_direct) | bit(NcclAlgorithm::collnet_chain)}};
constexpr Name nccl_protocol_names[] = {
    {"LL", bit(NcclProtocol::ll)}, {"LL128", bit(NcclProtocol::ll128)}, {"Simple", bit(NcclProtocol::simple)}};

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

unsigned members_of(std::string_view list, std::span<const Name> names, unsigned all, const std::string& where) {
  if (list.empty()) return all;
  const bool without = list.front() == '^';
  unsigned named = 0;
  for (std::string_view rest = list.substr(without ? 1 : 0); !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const auto found =
        std::find_if(names.begin(), names.end(), [&](const Name& name) { return same_letters(name.text, word); });
    if (found == names.end()) {
      std::vector<std::string> known;
      for (const Name& name : names) known.emplace_back(name.text);
      throw InputError(where, "a list of " + listed(known) + ", or ^ and those to leave out", in_quotes(word),
                       did_you_mean(std::string(word), known));
    }
    named |= found->members;
  }
  const unsigned left = without ? all & ~named : named;
  if (left == 0) throw InputError(where, "a list that leaves something to run", in_quotes(list));
  return left;
}

}  // namespace

double pair_share(const NcclTuning& t, BytesPerSecond inside) {
  constexpr BytesPerSecond nvlink(100e9);
  constexpr double over_nvlink = 0.72;
  if (t.pair > 0) return t.pair;
  return inside < nvlink ? 1 : over_nvlink;
}

unsigned nccl_algorithms_of(std::string_view list, const std::string& where) {
  return members_of(list, nccl_algorithm_names, (1U << nccl_algorithm_count) - 1, where);
}

unsigned nccl_protocols_of(std::string_view list, const std::string& where) {
  return members_of(list, nccl_protocol_names, (1U << nccl_protocol_count) - 1, where);
}

}  // namespace stepcast
