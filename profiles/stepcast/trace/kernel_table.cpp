// KernelTable: matching, and the strict reading of its JSON.
#include <stepcast/base/embedded.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/json_node.hpp>
#include <stepcast/trace/kernel_table.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace stepcast {
namespace {

constexpr std::string_view schema = "stepcast.kernels/1";

bool fits(const KernelRule& rule, std::string_view lower_name) {
  return lower_name.starts_with(rule.prefix) &&
         std::all_of(rule.contains.begin(), rule.contains.end(),
                     [&](const std::string& part) { return lower_name.find(part) != std::string_view::npos; });
}

/// A string that is not empty; empty where the key is left out.
std::string word_at(const JsonNode& entry, const char* key) {
  std::string word = entry.text(key);
  if (word.empty() && entry.has(key)) entry.at(key).refuse("a string that is not empty");
  return word;
}

KernelClass class_of(const JsonNode& entry) {
  const std::vector<std::string> known(std::begin(kernel_class_names), std::end(kernel_class_names));
  const std::string expected = "one of " + listed(known);
  const JsonNode node = entry.at("class", expected.c_str());
  const std::string name = node.text();
  const auto at = std::ranges::find(known, name);
  if (at != known.end()) return KernelClass(at - known.begin());
  node.refuse(expected.c_str(), did_you_mean(name, known));
}

/// A text, or a list of texts.
std::vector<std::string> parts_of(const JsonNode& entry) {
  constexpr const char* expected = "a string, or a list of strings that all occur";
  if (!entry.has("contains")) return {};
  const JsonNode contains = entry.at("contains");
  if (contains.json().is_string()) return {lower_case(word_at(entry, "contains"))};
  std::vector<std::string> parts;
  for (const JsonNode& part : contains.elements(expected)) {
    parts.push_back(lower_case(part.text()));
    if (parts.back().empty()) contains.refuse(expected);
  }
  if (parts.empty()) contains.refuse("at least one string");
  return parts;
}

KernelRule rule_of_json(const JsonNode& entry) {
  entry.require_keys({"prefix", "contains", "class", "operation", "library"});
  KernelRule rule;
  rule.prefix = lower_case(word_at(entry, "prefix"));
  rule.contains = parts_of(entry);
  if (rule.prefix.empty() && rule.contains.empty())
    entry.refuse("'prefix', 'contains' or both", "such a rule would fit every kernel");
  rule.kind = class_of(entry);
  rule.operation = word_at(entry, "operation");
  if (!rule.operation.empty() && rule.kind != KernelClass::collective)
    entry.at("operation").refuse("an operation only for class 'collective'");
  rule.library = word_at(entry, "library");
  return rule;
}

}  // namespace

const KernelRule* KernelTable::rule_of(std::string_view name) const {
  const std::string low = lower_case(name);
  for (const KernelRule& rule : rules_)
    if (fits(rule, low)) return &rule;
  return nullptr;
}

KernelTable KernelTable::before(const KernelTable& other_table) const {
  std::vector<KernelRule> rules = rules_;
  rules.insert(rules.end(), other_table.rules_.begin(), other_table.rules_.end());
  return KernelTable(std::move(rules));
}

KernelTable kernel_table_of_json(std::string_view text, std::string_view source) {
  const JsonNode::Json json = parsed_json(text, source);
  const JsonNode document(json, std::string(source) + "#");
  document.require_keys({"schema", "provenance", "rules"});
  const std::string expected = in_quotes(schema);
  if (document.at("schema", expected.c_str()).text() != schema) document.at("schema").refuse(expected);
  static_cast<void>(word_at(document, "provenance"));
  std::vector<KernelRule> list;
  for (const JsonNode& entry : document.at("rules", "a list of rules").elements("a list of rules"))
    list.push_back(rule_of_json(entry));
  if (list.empty()) document.at("rules").refuse("at least one rule");
  return KernelTable(std::move(list));
}

const KernelTable& shipped_kernel_table() {
  static const KernelTable table = [] {
    KernelTable all{{}};
    for (const EmbeddedFile& file : shipped_kernel_texts())
      all = all.before(kernel_table_of_json(file.text, file.name));
    return all;
  }();
  return table;
}

}  // namespace stepcast
