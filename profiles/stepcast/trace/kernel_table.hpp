#pragma once
// KernelTable: what the name of a device kernel says about its work: a collective (and which), a matrix product, memory
// traffic, or something else.
//
// A table is a list of rules, and the first that fits decides. A rule fits when the name begins with its prefix and
// contains all of its parts, letters of either case being the same. The shipped rules are the files of
// profiles/kernels in alphabetical order; users put their own in front of them (schema "stepcast.kernels/1").
// Not modelled: regular expressions; kernels whose name does not say what they do.
#include <stepcast/base/error.hpp>
#include <stepcast/profile/pass_cost.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

struct KernelRule {
  std::string prefix;                 ///< a beginning in lower case; empty: any
  std::vector<std::string> contains;  ///< parts in lower case, all of which have to occur
  KernelClass kind = KernelClass::other;
  std::string operation;  ///< what a collective does: "allreduce"; empty: the name tells, or the arguments do
  std::string library;    ///< who writes such kernels, for people
};

class KernelTable {
 public:
  explicit KernelTable(std::vector<KernelRule> rules) : rules_(std::move(rules)) {}
  /// The first rule that fits; null when none does.
  [[nodiscard]] const KernelRule* rule_of(std::string_view name) const;
  /// These rules, and behind them those of `other_table`.
  [[nodiscard]] KernelTable before(const KernelTable& other_table) const;
  [[nodiscard]] const std::vector<KernelRule>& rules() const { return rules_; }

 private:
  std::vector<KernelRule> rules_;
};

/// Throws InputError (JSON pointer, suggestion for unknown keys and words) for anything that is no list of rules.
[[nodiscard]] KernelTable kernel_table_of_json(std::string_view text, std::string_view source);
[[nodiscard]] const KernelTable& shipped_kernel_table();

}  // namespace stepcast
