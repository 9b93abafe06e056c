// KernelTable: matching, and the strict reading of its JSON.
#include <stepcast/base/embedded.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/trace/kernel_table.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view schema = "stepcast.kernels/1";

std::string lower_case(std::string_view name) {
  std::string out(name);
  for (char& c : out) c = char(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool fits(const KernelRule& rule, std::string_view lower_name) {
  return lower_name.starts_with(rule.prefix) &&
         std::all_of(rule.contains.begin(), rule.contains.end(),
                     [&](const std::string& part) { return lower_name.find(part) != std::string_view::npos; });
}

/// One object of the document, for errors that say where.
struct Place {
  std::string where;

  [[noreturn]] void fail(std::string_view key, std::string expected, std::string found, std::string hint = {}) const {
    throw InputError(where + "/" + std::string(key), std::move(expected), std::move(found), std::move(hint));
  }
  void refuse_unknown_keys(const Json& object, const std::vector<std::string>& known) const {
    for (const auto& [key, value] : object.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string nearest = suggestion_for(key, known);
      fail(key, "a known key", "'" + key + "'", nearest.empty() ? "" : "did you mean '" + nearest + "'?");
    }
  }
  std::string text(const Json& object, std::string_view key) const {
    const auto it = object.find(key);
    if (it == object.end()) return {};
    if (!it->is_string() || it->get_ref<const std::string&>().empty()) fail(key, "a text", it->dump());
    return it->get<std::string>();
  }
};

KernelClass class_of(const Json& entry, const Place& place) {
  const std::string name = place.text(entry, "class");
  const std::vector<std::string> known(std::begin(kernel_class_names), std::end(kernel_class_names));
  const auto at = std::find(known.begin(), known.end(), name);
  if (at != known.end()) return KernelClass(at - known.begin());
  const std::string nearest = suggestion_for(name, known);
  place.fail("class", "one of " + listed(known), name.empty() ? "nothing" : "'" + name + "'",
             nearest.empty() ? "" : "did you mean '" + nearest + "'?");
}

/// A text, or a list of texts.
std::vector<std::string> parts_of(const Json& entry, const Place& place) {
  const auto it = entry.find("contains");
  if (it == entry.end()) return {};
  const Json list = it->is_array() ? *it : Json::array({*it});
  std::vector<std::string> parts;
  for (const Json& part : list) {
    if (!part.is_string() || part.get_ref<const std::string&>().empty())
      place.fail("contains", "a text, or a list of texts that all occur", it->dump());
    parts.push_back(lower_case(part.get<std::string>()));
  }
  if (parts.empty()) place.fail("contains", "at least one text", "an empty list");
  return parts;
}

KernelRule rule_of_json(const Json& entry, const Place& place) {
  if (!entry.is_object()) throw InputError(place.where, "an object", entry.dump());
  place.refuse_unknown_keys(entry, {"prefix", "contains", "class", "operation", "library"});
  KernelRule rule;
  rule.prefix = lower_case(place.text(entry, "prefix"));
  rule.contains = parts_of(entry, place);
  if (rule.prefix.empty() && rule.contains.empty())
    throw InputError(place.where, "'prefix', 'contains' or both", "neither", "such a rule would fit every kernel");
  rule.kind = class_of(entry, place);
  rule.operation = place.text(entry, "operation");
  if (!rule.operation.empty() && rule.kind != KernelClass::collective)
    place.fail("operation", "an operation only for class 'collective'", "'" + rule.operation + "'");
  rule.library = place.text(entry, "library");
  return rule;
}

Json parsed(std::string_view text, std::string_view source) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    throw InputError(std::string(source) + "@" + std::to_string(e.byte), "kernel rules in JSON",
                     "text that is no JSON");
  } catch (const Json::exception& e) { throw InputError(std::string(source), "kernel rules in JSON", e.what()); }
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
  const Json json = parsed(text, source);
  const Place document{std::string(source) + "#"};
  if (!json.is_object()) throw InputError(std::string(source), "an object with a list of rules", json.type_name());
  const std::string found = document.text(json, "schema");
  if (found != schema)
    document.fail("schema", "'" + std::string(schema) + "'", found.empty() ? "nothing" : "'" + found + "'");
  document.refuse_unknown_keys(json, {"schema", "provenance", "rules"});
  (void)document.text(json, "provenance");
  const auto rules = json.find("rules");
  if (rules == json.end() || !rules->is_array() || rules->empty())
    document.fail("rules", "a list of rules", rules == json.end() ? "nothing" : rules->dump());
  std::vector<KernelRule> list;
  for (std::size_t i = 0; i < rules->size(); ++i)
    list.push_back(rule_of_json((*rules)[i], {document.where + "/rules/" + std::to_string(i)}));
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
